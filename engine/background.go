package engine

import (
	"sync"

	"github.com/leatmq/leat/segment"
)

// writebackStepBytes is how much of a log that is not flushed may gather before the kernel is asked to write it out. It keeps the dirty
// pages of write caching topics few, so that nobody meets the kernel's throttling (measured).
const writebackStepBytes = 8 << 20

type jobKind uint8

const (
	jobSeal      jobKind = iota // trim a segment that was rolled, make it and its indexes durable, write the producer snapshot of the roll
	jobWriteback                // start writeback of the active segment
	jobReap                     // close (and unlink) a segment whose last reader is gone
	jobBarrier                  // answer on done: everything before it was worked on
)

// job is a piece of work that must not be done on a worker, a flusher or an event loop because it may be slow.
type job struct {
	kind      jobKind
	log       *Log
	seg       *handle
	offset    int64
	producers []snapshotEntry
	reap      *segment.Segment
	done      chan struct{}
}

// jobQueue feeds the one background goroutine. What is in it is bounded: at most one seal per roll, one writeback per writebackStepBytes of
// appends and one reap per segment.
type jobQueue struct {
	mu struct {
		sync.Mutex
		jobs    []job
		stopped bool
	}
	wake *sync.Cond
	done chan struct{}
}

func newJobQueue() *jobQueue {
	q := &jobQueue{done: make(chan struct{})}
	q.wake = sync.NewCond(&q.mu.Mutex)
	return q
}

// add queues j. After stop nothing is queued: reaping is then done on the spot, and the rest is Close's work.
func (q *jobQueue) add(j job) {
	q.mu.Lock()
	stopped := q.mu.stopped
	if !stopped {
		q.mu.jobs = append(q.mu.jobs, j)
		q.wake.Signal()
	}
	q.mu.Unlock()
	if stopped && j.kind == jobReap {
		_ = j.reap.Destroy()
	}
	if stopped && j.done != nil {
		close(j.done)
	}
}

func (q *jobQueue) take() []job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.mu.jobs) == 0 {
		if q.mu.stopped {
			return nil
		}
		q.wake.Wait()
	}
	jobs := q.mu.jobs
	q.mu.jobs = nil
	return jobs
}

// stop finishes what is queued and ends the goroutine.
func (q *jobQueue) stop() {
	q.mu.Lock()
	q.mu.stopped = true
	q.wake.Signal()
	q.mu.Unlock()
	<-q.done
}

// jobLoop is the background goroutine.
func (e *Engine) jobLoop() {
	defer close(e.jobs.done)
	for jobs := e.jobs.take(); jobs != nil; jobs = e.jobs.take() {
		for i := range jobs {
			e.runJob(&jobs[i])
		}
	}
}

func (e *Engine) runJob(j *job) {
	switch j.kind {
	case jobSeal:
		j.log.writeRollSnapshot(j.offset, j.producers)
		j.log.seal(j.seg)
	case jobWriteback:
		j.log.startWriteback()
	case jobReap:
		if err := j.reap.Destroy(); err != nil {
			e.log.Warn("closing a segment failed", "base", j.reap.Base(), "err", err)
		}
	case jobBarrier:
		close(j.done)
	}
}

// reap is segment.Options.Reap.
func (e *Engine) reap(s *segment.Segment) { e.jobs.add(job{kind: jobReap, reap: s}) }

// seal finishes a segment that is no longer active: trims its files and makes data and indexes durable. Until that is done the recovery point
// stays below its end. Failures are met again by the next attempt, from Tick.
func (l *Log) seal(h *handle) {
	l.maint.Lock()
	defer l.maint.Unlock()
	l.sealLocked(h)
}

func (l *Log) sealLocked(h *handle) {
	segs := l.segs.Load()
	if h.sealed.Load() || l.Err() != nil || !segs.contains(h) || segs.active() == h {
		return
	}
	err := l.dir.failed("seal segment", h.Seal(l.e.o.Now()))
	if err == nil {
		err = l.dir.syncFailed("sync a finished segment", h.Sync())
	}
	if err == nil {
		err = l.dir.syncFailed("sync a finished segment", h.SyncIndexes())
	}
	if err == nil {
		h.sealed.Store(true)
		return
	}
	l.e.log.Warn("sealing a segment failed", "partition", l.tp.String(), "base", h.Base(), "err", err)
}

// writeRollSnapshot writes the producer state as it was when the segment at offset was begun. It is a derived file: without it a recovery reads
// more, so want of space is only logged.
func (l *Log) writeRollSnapshot(offset int64, state []snapshotEntry) {
	l.maint.Lock()
	defer l.maint.Unlock()
	if l.Err() != nil || offset > l.logEnd.Load() || offset <= l.promise.snapshotOffset {
		return
	}
	if err := writeSnapshot(l.e.o.FS, l.path, offset, state); err != nil {
		err = l.dir.failed("write a producer snapshot", err) // a sync of the directory may be what failed, and that covers the new segment too
		l.e.log.Warn("writing a producer snapshot failed", "partition", l.tp.String(), "offset", offset, "err", err)
		return
	}
	l.promise.snapshotOffset = offset
}

// startWriteback asks the kernel to begin writing the active segment. The log may have been deleted or closed since the job was queued.
func (l *Log) startWriteback() {
	segs := l.segs.Load()
	if segs == nil {
		return
	}
	h := segs.active()
	if !h.Acquire() {
		return
	}
	defer h.Release()
	size := h.Size()
	from := max(0, size-2*writebackStepBytes)
	_ = h.StartWriteback(from, size-from) // a hint
}
