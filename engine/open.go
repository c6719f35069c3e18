package engine

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/leatmq/leat/internal/vfs"
)

// Open locks and loads the log directories. When it returns, everything a Log shows is on stable storage. An unusable directory takes the
// engine down only if it is the only one, or if what is wrong is that it must not be used at all: *vfs.LockedError, *MetaPropertiesError,
// *DuplicateLogError.
func Open(o Options) (*Engine, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{o: o, log: o.Logger, jobs: newJobQueue(), defaults: &o.Defaults.TopicDefaults}
	e.producerExpirationMs.Store(o.Defaults.ProducerIDExpirationMs)
	e.rand.from = o.Rand
	e.life.stop, e.life.hurry = make(chan struct{}), make(chan struct{}, 1)
	for range o.Workers {
		e.workers = append(e.workers, newWorker(e))
	}
	if err := e.openDirs(); err != nil {
		return nil, errors.Join(err, e.withdraw())
	}
	e.start()
	if err := e.loadDirs(); err != nil {
		e.abandon()
		return nil, err
	}
	e.due.reset(o.Now(), checkpointIntervalMs(o.Defaults))
	return e, nil
}

// start starts the goroutines that the logs need.
func (e *Engine) start() {
	for _, w := range e.workers {
		go w.loop()
	}
	for _, d := range e.dirs {
		go d.flusher.loop()
	}
	go e.jobLoop()
}

// openDirs locks the directories and settles whose they are, before anything in them is looked at.
func (e *Engine) openDirs() error {
	seen := map[string]bool{}
	var known *logDir
	for _, path := range e.o.Dirs {
		path = filepath.Clean(path)
		if seen[path] {
			return fmt.Errorf("engine: log directory %s is given twice", path)
		}
		seen[path] = true
		d := &logDir{e: e, path: path}
		d.mu.claimed = map[TopicPartition]bool{}
		d.flusher, d.reserve.d = newFlusher(d), d
		e.dirs = append(e.dirs, d)
		if err := d.open(); err != nil {
			if err := e.dirUnusable(d, err); err != nil {
				return err
			}
			continue
		}
		if meta := d.survey.meta; meta != nil && known == nil {
			known, e.clusterID = d, meta.ClusterID
		}
	}
	if e.o.ClusterID != "" {
		e.clusterID = e.o.ClusterID
	}
	if err := e.checkIdentity(known); err != nil {
		return err
	}
	return e.settleIdentity()
}

// dirUnusable decides what err, met while opening d, means: nil when the engine goes on without the directory.
func (e *Engine) dirUnusable(d *logDir, err error) error {
	var locked *vfs.LockedError
	var meta *MetaPropertiesError
	var double *DuplicateLogError
	if len(e.o.Dirs) == 1 || errors.As(err, &locked) || errors.As(err, &meta) || errors.As(err, &double) {
		return err
	}
	d.fail("open", err)
	return nil
}

// open makes and locks the directory and looks at what is in it.
func (d *logDir) open() error {
	fsys := d.e.o.FS
	if err := fsys.MkdirAll(d.path, 0o755); err != nil {
		return d.openError(err)
	}
	lockFile := filepath.Join(d.path, lockFileName)
	_, err := fsys.Stat(lockFile)
	d.survey.hadLock = err == nil
	if d.lock, err = fsys.Lock(lockFile); err != nil {
		d.lock = nil
		return d.openError(err)
	}
	d.ownFS = fsys.OwnFS(d.path)
	return d.survey.look(fsys, d.path)
}

// settleIdentity writes meta.properties where it is missing.
func (e *Engine) settleIdentity() error {
	if e.clusterID == "" {
		id, err := e.newID()
		if err != nil {
			return err
		}
		e.clusterID = base64.RawURLEncoding.EncodeToString(id[:])
	}
	for _, d := range e.dirs {
		if d.err() != nil {
			continue
		}
		if meta := d.survey.meta; meta != nil {
			d.id = meta.DirectoryID
			if d.id != ([16]byte{}) {
				continue
			}
		}
		if err := d.writeIdentity(); err != nil {
			if err := e.dirUnusable(d, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeIdentity gives the directory an id and writes meta.properties.
func (d *logDir) writeIdentity() error {
	id, err := d.e.newID()
	if err != nil {
		return err
	}
	d.id = id
	m := &metaProperties{ClusterID: d.e.clusterID, NodeID: d.e.o.NodeID, DirectoryID: id}
	if err := writeMetaProperties(d.e.o.FS, d.path, m); err != nil {
		return err
	}
	return d.syncEntries() // the log directory itself may be new
}

// loadDirs loads all directories at once. What it returns ends the engine.
func (e *Engine) loadDirs() error {
	errs := make([]error, len(e.dirs))
	var wg sync.WaitGroup
	for i, d := range e.dirs {
		if d.err() != nil {
			continue
		}
		wg.Go(func() { errs[i] = d.load() })
	}
	wg.Wait()
	online := 0
	for i, d := range e.dirs {
		if errs[i] != nil {
			if err := e.dirUnusable(d, errs[i]); err != nil {
				return err
			}
		}
		if d.err() == nil {
			online++
		}
	}
	if online == 0 {
		return fmt.Errorf("engine: no log directory is usable: %w", e.dirs[0].err())
	}
	return nil
}

// dirState is what the directory's own files say about the logs in it.
type dirState struct {
	clean         bool
	recoveryPoint map[TopicPartition]int64
	logStart      map[TopicPartition]int64
	highWatermark map[TopicPartition]int64
	compacted     map[TopicPartition]int64
	marks         map[TopicPartition]*mark
	marksWhole    bool // nothing is missing of the files they are from
}

// load opens every log of the directory. The clean shutdown marker is removed durably before anything is loaded, so that a crash from here on is
// followed by a recovery (B-A5).
func (d *logDir) load() error {
	fsys := d.e.o.FS
	clean, _, err := takeCleanMarker(fsys, d.path)
	if err != nil {
		return err
	}
	d.reserve.open()
	state := dirState{clean: clean}
	state.recoveryPoint = d.readCheckpoint(recoveryPointFileName)
	state.logStart = d.readCheckpoint(logStartFileName)
	state.highWatermark = d.readCheckpoint(highWatermarkFileName)
	state.marks, state.marksWhole = d.readMarks()
	state.compacted = d.readCheckpoint(cleanerOffsetFileName)
	d.writtenCompacted = state.compacted
	if !clean { // a partition whose creation was interrupted may be visible and not yet durable (B-A8)
		if err := d.syncEntries(); err != nil {
			return err
		}
	}
	entries, err := fsys.ReadDir(d.path)
	if err != nil {
		return err
	}
	var found []TopicPartition
	for _, entry := range entries {
		switch tp, ok := parsePartitionDirName(entry.Name); {
		case !entry.IsDir:
		case ok:
			found = append(found, tp)
		case isDeletedDirName(entry.Name):
			d.e.trash.addDir(d, filepath.Join(d.path, entry.Name), d.e.o.Now()+d.e.defaults.FileDeleteDelayMs)
		}
	}
	if err := d.loadLogs(found, &state); err != nil {
		return err
	}
	d.loaded = true
	for _, l := range d.list() {
		l.keepMark()
	}
	// Now the files speak about exactly what was found. A full disk must not stop the start: the old files are only less exact.
	if err := d.writeCheckpoints(ckptAll); err != nil && !isDiskFull(err) {
		return err
	}
	for _, l := range d.list() {
		if err := l.removeLeftovers(); err != nil {
			return err
		}
	}
	if err := d.reserve.check(); err != nil && !isExhausted(err) {
		return err
	}
	return nil
}

// syncEntries makes the directory's entries durable, and its own entry in its parent if we may.
func (d *logDir) syncEntries() error {
	if err := d.e.o.FS.SyncDir(d.path); err != nil {
		return err
	}
	err := d.e.o.FS.SyncDir(filepath.Dir(d.path))
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// readCheckpoint reads a checkpoint file. It is a derived file: a broken one counts as missing.
func (d *logDir) readCheckpoint(name string) map[TopicPartition]int64 {
	m, err := readOffsetCheckpoint(d.e.o.FS, filepath.Join(d.path, name))
	if err != nil {
		d.e.log.Warn("checkpoint file is unusable and will be rebuilt", "dir", d.path, "file", name, "err", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for tp := range m {
		d.mu.claimed[tp] = true
	}
	return m
}

// loadLogs opens the logs named by found, several at a time, and stops at the first directory-wide failure.
func (d *logDir) loadLogs(found []TopicPartition, state *dirState) error {
	queue := make(chan TopicPartition)
	var wg sync.WaitGroup
	var first struct {
		sync.Mutex
		err error
	}
	failed := func() bool {
		first.Lock()
		defer first.Unlock()
		return first.err != nil
	}
	threads := max(1, d.e.o.Defaults.RecoveryThreadsPerLogDir)
	if !state.clean { // what is recovered is synced
		threads = max(threads, syncingThreads)
	}
	told := d.newAdvance("loading partitions", len(found))
	for range threads {
		wg.Go(func() {
			for tp := range queue {
				if failed() {
					continue
				}
				if err := d.loadLog(tp, state); err != nil {
					first.Lock()
					first.err = errors.Join(first.err, fmt.Errorf("load %s: %w", partitionDir(d.path, tp), err))
					first.Unlock()
				}
				told.step()
			}
		})
	}
	for _, tp := range found {
		queue <- tp
	}
	close(queue)
	wg.Wait()
	told.end()
	return first.err
}

// loadLog opens one log and makes it known.
func (d *logDir) loadLog(tp TopicPartition, state *dirState) error {
	var l *Log
	err := d.withReserve(func() error {
		l = d.e.newLog(d, tp, d.e.defaults)
		return noRetryOfSync(l.load(state))
	})
	if err != nil {
		return err
	}
	d.add(l)
	if other, loaded := d.e.logs.LoadOrStore(tp, l); loaded {
		return &DuplicateLogError{TP: tp, A: other.(*Log).path, B: l.path}
	}
	return nil
}

// noRetryOfSync hides from withReserve that a sync found the disk full: the data it was to write may be gone (B-A1).
func noRetryOfSync(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok && isDiskFull(err) && strings.Contains(path.Op, "sync") {
		return fmt.Errorf("%s %s: %s", path.Op, path.Path, path.Err.Error())
	}
	return err
}

// unlock gives the directories' locks back.
func (e *Engine) unlock() error {
	var errs []error
	for _, d := range e.dirs {
		if d.lock != nil {
			errs = append(errs, d.lock.Close())
			d.lock = nil
		}
	}
	return errors.Join(errs...)
}

// abandon ends an engine that could not be loaded: nothing is written, and no directory is marked clean.
func (e *Engine) abandon() {
	for _, w := range e.workers {
		w.stop()
	}
	for _, d := range e.dirs {
		d.flusher.stop()
	}
	e.closeSegments()
	e.jobs.stop()
	_ = e.unlock()
}
