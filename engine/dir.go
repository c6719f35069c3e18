package engine

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// logDir is one log directory: a disk that lives or fails as a whole.
type logDir struct {
	e     *Engine
	path  string
	id    [16]byte
	ownFS bool
	lock  io.Closer
	// survey is what was there when the directory was opened.
	survey survey
	// loaded: everything in the directory was opened. Without it the clean shutdown marker is never written (B-A6, B-A7).
	loaded  bool
	flusher *flusher
	reserve reserve
	offline atomic.Pointer[error]
	// writtenHW is the sum of the high watermarks when they were last written: they only grow. Under Engine.tick.
	writtenHW int64
	unmarked  unmarked
	// lastConfig is what newLogConfig made last.
	lastConfig atomic.Pointer[logConfig]
	created    sharedSync // of the directory's entries: many partitions are created at once
	// recentState: the recent log state file may exist. Under writing.
	recentState bool

	mu struct {
		sync.Mutex
		logs []*Log
		// claimed holds the partitions the checkpoint files on disk speak about. A new log under such a name must not inherit the claims.
		claimed map[TopicPartition]bool
	}
	// writtenCompacted is what cleaner-offset-checkpoint says. Under writing.
	writtenCompacted map[TopicPartition]int64
	// writing serialises the checkpoint files. Taken after Log.maint, before mu.
	writing sync.Mutex
}

// err returns why the directory is offline, nil when it works.
func (d *logDir) err() error {
	if p := d.offline.Load(); p != nil {
		return *p
	}
	return nil
}

// fail takes the directory offline: no append, flush or checkpoint is tried on it again, and every log in it fails. It returns what the
// logs now answer. Only the first failure counts.
func (d *logDir) fail(op string, cause error) error {
	var err error
	if errors.Is(cause, ErrStorage) {
		err = cause
	} else {
		err = &StorageError{Path: d.path, Op: op, Err: cause}
	}
	if !d.offline.CompareAndSwap(nil, &err) {
		return d.err()
	}
	logs := d.list()
	d.e.log.Error("log directory is offline", "dir", d.path, "op", op, "err", cause, "partitions", len(logs))
	for _, l := range logs {
		l.fail(err)
	}
	return err
}

// failed turns an error of the directory's files into what the caller is told. It takes the directory offline unless the error only
// says that there is no more of something.
func (d *logDir) failed(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case isDiskFull(err):
		d.reserve.noteFull(err)
		return &diskFullError{d.path, err}
	case isExhausted(err):
		return &StorageError{Path: d.path, Op: op, Err: err}
	}
	return d.fail(op, err)
}

// syncFailed is failed for a sync: only one that could not even begin, for want of a descriptor, may be tried again (R18, B-A1).
func (d *logDir) syncFailed(op string, err error) error {
	if err == nil || isDescriptors(err) {
		return d.failed(op, err)
	}
	return d.fail(op, err)
}

// list returns the logs in the directory. Their order depends on nothing but the order they came and went in, so that runs can be repeated.
func (d *logDir) list() []*Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.logs)
}

func (d *logDir) add(l *Log) {
	d.mu.Lock()
	l.dirIndex = len(d.mu.logs)
	d.mu.logs = append(d.mu.logs, l)
	d.mu.Unlock()
	if err := d.err(); err != nil { // failed meanwhile: fail may not have seen the log
		l.fail(err)
	}
}

// remove takes the log out if it is there; the last one takes its place.
func (d *logDir) remove(l *Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := len(d.mu.logs) - 1
	if l.dirIndex > last || d.mu.logs[l.dirIndex] != l {
		return
	}
	d.mu.logs[l.dirIndex] = d.mu.logs[last]
	d.mu.logs[l.dirIndex].dirIndex = l.dirIndex
	d.mu.logs[last] = nil
	d.mu.logs = d.mu.logs[:last]
}

func (d *logDir) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.logs)
}

// checkpoint kinds: which of the directory's files to write.
const (
	ckptRecoveryPoint = 1 << iota
	ckptLogStart
	ckptHighWatermark
	ckptMarks
	ckptCompacted
	ckptAll = ckptRecoveryPoint | ckptLogStart | ckptHighWatermark | ckptMarks | ckptCompacted
)

// writeCheckpoints writes the checkpoint files named by kinds from the logs' present state, out of the reserve if need be. On an error the old files
// stay valid.
func (d *logDir) writeCheckpoints(kinds int) error {
	if err := d.err(); err != nil {
		return err
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	logs := d.list()
	write := func(kind int, name string, value func(*Log) int64) error {
		if kinds&kind == 0 {
			return nil
		}
		m := make(map[TopicPartition]int64, len(logs))
		for _, l := range logs {
			m[l.tp] = value(l)
		}
		return d.withReserve(func() error { return writeOffsetCheckpoint(d.e.o.FS, filepath.Join(d.path, name), m) })
	}
	err := write(ckptRecoveryPoint, recoveryPointFileName, func(l *Log) int64 { return l.promise.recoveryPoint.Load() })
	if err == nil {
		err = write(ckptLogStart, logStartFileName, func(l *Log) int64 { return min(l.logStart.Load(), max(l.flushed.Load(), l.promise.synced.Load())) })
	}
	if err == nil {
		err = write(ckptHighWatermark, highWatermarkFileName, func(l *Log) int64 { return min(l.hw.Load(), l.flushed.Load()) })
	}
	if err == nil && kinds&ckptCompacted != 0 {
		err = d.writeCompactedLocked(logs)
	}
	if err == nil && kinds&ckptMarks != 0 {
		err = d.writeAllMarksLocked(logs)
	}
	if err == nil {
		d.noteClaims(logs, kinds)
	}
	return d.failed("write checkpoint", err)
}

// noteClaims remembers which partitions the files now speak about.
func (d *logDir) noteClaims(logs []*Log, kinds int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if kinds == ckptAll {
		clear(d.mu.claimed)
	}
	for _, l := range logs {
		d.mu.claimed[l.tp] = true
	}
}

// disclaim makes sure that no checkpoint file speaks about tp, which has no log. To be called before a log of that name is made.
func (d *logDir) disclaim(tp TopicPartition) error {
	d.mu.Lock()
	claimed := d.mu.claimed[tp]
	d.mu.Unlock()
	if !claimed {
		return nil
	}
	return d.writeCheckpoints(ckptAll)
}
