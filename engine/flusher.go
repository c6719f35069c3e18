package engine

import (
	"errors"
	"sync"
	"time"
)

const (
	// syncfsFilesMin is the number of dirty files from which one syncfs is cheaper than a sync of each (measured: see docs/BENCHMARKS.md).
	syncfsFilesMin = 4
	// syncersMax bounds the files synced at once.
	syncersMax = 16
)

// flusher makes the logs of one directory durable in rounds: it takes everything that is dirty, syncs, raises the flushed offsets, tells, and
// begins again while there is something. There is no timer: what arrives during a round gathers for the next.
type flusher struct {
	d  *logDir
	mu struct {
		sync.Mutex
		dirty   []*Log
		stopped bool
		busy    bool   // a round is running
		rounds  uint64 // that have ended
	}
	wake   *sync.Cond // on mu
	rounds *sync.Cond // on mu: a round has ended
	done   chan struct{}

	// Owned by the goroutine, reused.
	logs  []*Log
	round []roundLog
	tasks []syncTask

	whole wholeSync

	syncers struct {
		queue   chan *syncTask
		running int
		pending sync.WaitGroup
	}
}

// roundLog is a log as a round found it.
type roundLog struct {
	log     *Log
	target  int64
	gen     uint64
	entries int64 // of the directory
}

// syncTask is one file or directory to sync.
type syncTask struct {
	log *Log
	seg *handle // nil: the log's directory
	err error
}

func newFlusher(d *logDir) *flusher {
	f := &flusher{d: d, done: make(chan struct{})}
	f.wake, f.rounds = sync.NewCond(&f.mu.Mutex), sync.NewCond(&f.mu.Mutex)
	f.syncers.queue = make(chan *syncTask, syncersMax)
	return f
}

// flushGeneration tells truncations apart. An end of the log is good for requestFlush as long as the generation is what it was when the end was
// read: under mu or maint, which keep truncations out.
func (l *Log) flushGeneration() uint64 {
	l.flush.Lock()
	defer l.flush.Unlock()
	return l.flush.gen
}

// requestFlush makes the log durable up to end in the next round, unless it was cut since generation: then end may not exist any more, and the
// truncation has asked for what is left. Any goroutine.
func (l *Log) requestFlush(end int64, generation uint64) {
	l.flush.Lock()
	current := generation == l.flush.gen
	if current {
		l.flush.target = max(l.flush.target, end)
	}
	l.flush.Unlock()
	if current {
		l.dir.flusher.add(l)
	}
}

func (f *flusher) add(l *Log) {
	f.mu.Lock()
	if !l.flushQueued {
		l.flushQueued = true
		f.mu.dirty = append(f.mu.dirty, l)
		if len(f.mu.dirty) == 1 {
			f.wake.Signal()
		}
	}
	f.mu.Unlock()
}

// take waits for dirty logs and returns them; nil when the flusher was stopped and nothing is dirty.
func (f *flusher) take() []*Log {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.busy {
		f.mu.busy = false
		f.mu.rounds++
		f.rounds.Broadcast()
	}
	for len(f.mu.dirty) == 0 {
		if f.mu.stopped {
			return nil
		}
		f.wake.Wait()
	}
	f.mu.dirty, f.logs = f.logs[:0], f.mu.dirty
	for _, l := range f.logs {
		l.flushQueued = false
	}
	f.mu.busy = true
	return f.logs
}

// loop is the goroutine.
func (f *flusher) loop() {
	defer close(f.done)
	defer close(f.syncers.queue)
	f.whole.open(f.d)
	defer f.whole.close()
	for logs := f.take(); logs != nil; logs = f.take() {
		f.flush(logs)
		clear(logs)
	}
}

// stop finishes what is dirty and ends the goroutine.
func (f *flusher) stop() {
	f.mu.Lock()
	f.mu.stopped = true
	f.wake.Signal()
	f.rounds.Broadcast()
	f.mu.Unlock()
	<-f.done
}

// flush is one round.
func (f *flusher) flush(logs []*Log) {
	if f.d.err() != nil {
		return // the logs have failed with the directory
	}
	f.collect(logs)
	err := f.sync()
	if err == nil {
		err = f.d.err() // something else of the directory failed meanwhile: what its sync did not write, this one may not have seen (B-A1)
	}
	for i := range f.tasks {
		if h := f.tasks[i].seg; h != nil {
			h.Release()
		}
		f.tasks[i] = syncTask{}
	}
	f.tasks = f.tasks[:0]
	notBegun := isNotBegun(err)
	switch {
	case notBegun:
		f.d.e.log.Warn("a flush round waits for a free descriptor", "dir", f.d.path, "err", err)
	case err != nil:
		// R18, B-A1: what the kernel could not write it may have dropped. Asking again would be answered with a lie.
		f.d.fail("sync", err)
	}
	for i := range f.round {
		r := &f.round[i]
		switch {
		case err == nil:
			r.log.entries.syncedTo(r.entries)
			r.log.raiseFlushed(r.target, r.gen)
		case notBegun:
			f.addLater(r.log)
		}
		f.round[i] = roundLog{}
	}
	f.round = f.round[:0]
}

// syncNotBegun is an error of a sync that asked nothing of the disk, because there was no descriptor to do it with. Only such a one may be repeated.
type syncNotBegun struct{ err error }

func (e *syncNotBegun) Error() string { return e.err.Error() }
func (e *syncNotBegun) Unwrap() error { return e.err }

// isNotBegun costs nothing without an error: a round allocates nothing.
func isNotBegun(err error) bool {
	if err == nil {
		return false
	}
	var e *syncNotBegun
	return errors.As(err, &e)
}

func mayNotHaveBegun(err error) error {
	if isDescriptors(err) {
		return &syncNotBegun{err}
	}
	return err
}

// addLater puts a log of a round that could not begin into a later one. What of the round was synced is synced again.
func (f *flusher) addLater(l *Log) {
	time.AfterFunc(flushAgainDelay, func() { f.add(l) })
}

// flushAgainDelay is how long a round that could not begin waits.
const flushAgainDelay = 100 * time.Millisecond

// collect notes what the round has to sync: every segment with bytes between the flushed offset and the target, also those sealed meanwhile,
// and directories with new entries, also those of a log that has nothing else to sync.
func (f *flusher) collect(logs []*Log) {
	for _, l := range logs {
		l.flush.Lock()
		gen, from, target := l.flush.gen, l.flushed.Load(), l.flush.target
		l.flush.Unlock()
		entries := l.entries.made.Load() // behind target: the segment of every batch below it is among them
		isNew := entries > l.entries.synced.Load()
		if target <= from && !isNew || l.Err() != nil {
			continue
		}
		f.round = append(f.round, roundLog{l, target, gen, entries})
		if isNew {
			f.tasks = append(f.tasks, syncTask{log: l})
		}
		if target > from {
			f.collectSegments(l, from, target)
		}
	}
}

func (f *flusher) collectSegments(l *Log, from, target int64) {
	segs := l.segs.Load()
	if segs == nil {
		return
	}
	for i := segs.find(from); i < len(segs.list); i++ {
		h := segs.list[i]
		if h.Base() >= target {
			return
		}
		if h.Acquire() { // else it was cut off or deleted: nothing of it is left to promise
			f.tasks = append(f.tasks, syncTask{log: l, seg: h})
		}
	}
}

// sync makes all tasks durable.
func (f *flusher) sync() error {
	switch n := len(f.tasks); {
	case n == 0:
		return nil
	case n == 1:
		return f.d.e.runSync(&f.tasks[0])
	case n >= syncfsFilesMin && f.useSyncFS():
		if err := f.whole.sync(); !errors.Is(err, errors.ErrUnsupported) {
			return mayNotHaveBegun(err)
		}
	}
	return f.syncEach()
}

func (f *flusher) useSyncFS() bool {
	switch f.d.e.o.SyncMethod {
	case "syncfs":
		return true
	case "fdatasync":
		return false
	}
	return f.d.ownFS || f.whole.harmless()
}

// syncEach syncs the tasks with as many goroutines as are worth it; the flusher itself is one of them.
func (f *flusher) syncEach() error {
	for f.syncers.running < min(len(f.tasks), syncersMax)-1 {
		f.syncers.running++
		go f.syncer()
	}
	for i := range f.tasks { // all at once to the device, before each waits for its own
		if h := f.tasks[i].seg; h != nil {
			_ = h.StartWriteback(0, 0) // a hint
		}
	}
	f.syncers.pending.Add(len(f.tasks) - 1)
	for i := 1; i < len(f.tasks); i++ {
		f.syncers.queue <- &f.tasks[i]
	}
	f.tasks[0].err = f.d.e.runSync(&f.tasks[0])
	f.syncers.pending.Wait()
	var worst error
	for i := range f.tasks {
		if err := f.tasks[i].err; err != nil && (worst == nil || !isNotBegun(err)) {
			worst = err
		}
	}
	return worst
}

// syncer is a helper goroutine; it lives as long as the flusher.
func (f *flusher) syncer() {
	for t := range f.syncers.queue {
		t.err = f.d.e.runSync(t)
		f.syncers.pending.Done()
	}
}

func (e *Engine) runSync(t *syncTask) error {
	if t.seg != nil {
		return t.seg.Sync()
	}
	err := e.o.FS.SyncDir(t.log.path)
	if err != nil && errors.Is(t.log.Err(), ErrDeleted) {
		return nil // the directory was renamed away
	}
	return mayNotHaveBegun(err)
}

// raiseFlushed publishes that everything below target is durable, unless the log was cut after the round had begun.
func (l *Log) raiseFlushed(target int64, gen uint64) {
	l.flush.Lock()
	raised := gen == l.flush.gen && target > l.flushed.Load()
	if raised {
		l.flushed.Store(target)
		if target == l.logEnd.Load() {
			l.firstDirtyMs.Store(0)
		}
	}
	l.flush.Unlock()
	if raised {
		l.notifyFlushed(target)
	}
}
