package engine

import (
	"sync"

	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

// Limits of one turn. What is left stays queued behind the other partitions of the worker.
const (
	turnBytesMax   = 4 << 20 // of batches; a single larger batch is still one turn
	turnBatchesMax = 512
)

// worker appends for the logs pinned to it, one turn of one log after the other. A log is in the run queue at most once, and goes to the end of
// it when a turn leaves something pending, so that a busy partition does not starve its neighbours.
type worker struct {
	e  *Engine
	mu struct {
		sync.Mutex
		head, tail *Log
		stopped    bool // no more turns: appends end with ErrClosed on whoever brings them
	}
	wake *sync.Cond // on mu: the run queue got something, or stopped
	done chan struct{}

	// What follows belongs to the goroutine and is reused from turn to turn.
	validator record.Validator
	turn      turn
}

// turn is the appends of one log that are worked on together.
type turn struct {
	log      *Log
	cfg      *logConfig
	segs     *segmentList
	nowMs    int64
	items    []*Append // all that were taken from the queue, in order
	from     int       // items before it have their result: they are part of an earlier write of this turn
	next     int64     // offset for the next batch
	start    int64     // offset of the first batch of the write being prepared
	bufs     [][]byte
	entries  []segment.Entry
	bytes    int
	appended int64  // log end to announce after the turn, -1 = unchanged
	flushGen uint64 // of the log when appended was its end
}

func newWorker(e *Engine) *worker {
	w := &worker{e: e, done: make(chan struct{})}
	w.wake = sync.NewCond(&w.mu.Mutex)
	return w
}

// schedule puts l into the run queue unless it is there.
func (w *worker) schedule(l *Log) {
	w.mu.Lock()
	if w.mu.stopped {
		w.mu.Unlock()
		w.refuse(l)
		return
	}
	w.pushLocked(l)
	w.mu.Unlock()
}

func (w *worker) pushLocked(l *Log) {
	if l.run.queued {
		return
	}
	l.run.queued, l.run.next = true, nil
	if w.mu.tail == nil {
		w.mu.head = l
		w.wake.Signal()
	} else {
		w.mu.tail.run.next = l
	}
	w.mu.tail = l
}

// pop waits for the next log to work on; nil when the worker was stopped and the queue is empty.
func (w *worker) pop() *Log {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.mu.head == nil {
		if w.mu.stopped {
			return nil
		}
		w.wake.Wait()
	}
	l := w.mu.head
	w.mu.head = l.run.next
	if w.mu.head == nil {
		w.mu.tail = nil
	}
	l.run.queued, l.run.next = false, nil
	return l
}

// loop is the goroutine.
func (w *worker) loop() {
	defer close(w.done)
	for l := w.pop(); l != nil; l = w.pop() {
		w.takeTurn(l)
		if l.pending.head != nil {
			w.mu.Lock()
			w.pushLocked(l)
			w.mu.Unlock()
		}
	}
}

// stop lets the worker finish what is queued and end.
func (w *worker) stop() {
	w.mu.Lock()
	w.mu.stopped = true
	w.wake.Signal()
	w.mu.Unlock()
	<-w.done
}

// refuse answers what is queued on l after the worker has ended. Several callers may do it at once; each takes what it finds.
func (w *worker) refuse(l *Log) {
	var oldest *Append
	for a := l.queue.Swap(nil); a != nil; {
		next := a.next
		a.next = oldest
		oldest, a = a, next
	}
	for a := oldest; a != nil; {
		next := a.next
		a.next = nil
		l.answer(a, ErrClosed)
		a = next
	}
}

// answer completes a that was not appended.
func (l *Log) answer(a *Append, err error) {
	a.fail(err)
	a.LogStartOffset = l.logStart.Load()
	a.Done.AppendDone(a)
}

// fail sets the results of an append that is not in the log.
func (a *Append) fail(err error) {
	a.BaseOffset, a.LastOffset, a.LogAppendTimeMs, a.Duplicate, a.Err = -1, -1, -1, false, err
}

// takeTurn works on what is queued for l: validates, assigns, writes under the log's lock; answers and tells after it.
func (w *worker) takeTurn(l *Log) {
	l.takeQueue()
	if l.pending.head == nil {
		return
	}
	t := &w.turn
	l.mu.Lock()
	w.begin(l)
	for bytes := 0; len(t.items) < turnBatchesMax; {
		a := l.pending.head
		if a == nil || len(t.items) > 0 && bytes+len(a.Batch) > turnBytesMax {
			break
		}
		bytes += len(a.Batch)
		l.popPending()
		w.place(a)
		t.items = append(t.items, a) // behind place: a write in the middle of it is not yet about a
	}
	_ = w.write() // its batches have the error
	if !l.mu.closed {
		l.mu.producers.commit()
	}
	l.mu.Unlock()
	w.finish()
}

// begin resets the turn for l.
func (w *worker) begin(l *Log) {
	t := &w.turn
	t.log, t.cfg, t.segs = l, l.cfg.Load(), l.segs.Load()
	t.nowMs = w.e.o.Now()
	t.from, t.bytes, t.appended = 0, 0, -1
	t.next = l.logEnd.Load()
	t.start = t.next
	if !l.mu.closed {
		l.wake(t.segs.active())
		l.mu.producers.begin()
	}
}

// place validates one batch and makes it part of the write, or sets its error. l.mu is held.
func (w *worker) place(a *Append) {
	t := &w.turn
	l := t.log
	a.Duplicate, a.Err, a.LogAppendTimeMs = false, nil, -1
	if err := l.Err(); err != nil {
		a.fail(err)
		return
	}
	rules := &t.cfg.rules[a.Origin]
	v, err := w.validator.Validate(a.Batch, rules, t.nowMs)
	if err != nil {
		a.fail(err)
		return
	}
	b := v.Batch
	if len(b) > t.cfg.SegmentBytes {
		a.fail(ErrRecordListTooLarge)
		return
	}
	if a.Origin != FromLeader && w.duplicate(a, b) {
		return
	}
	if err := w.makeRoom(a, b, v.MaxTimestamp); err != nil {
		a.fail(err)
		return
	}
	if err := w.assign(a, b); err != nil {
		a.fail(err)
		return
	}
	l.mu.producers.update(b)
	t.bufs = append(t.bufs, b)
	t.entries = append(t.entries, segment.EntryOf(b))
	t.bytes += len(b)
	t.next = a.LastOffset + 1
	if t.cfg.LogAppendTime && a.Origin == FromClient {
		a.LogAppendTimeMs = t.nowMs
	}
}

// duplicate checks b against its producer's state and reports whether a has its result: it is a batch the log has, or an error.
func (w *worker) duplicate(a *Append, b record.Batch) bool {
	if b.ProducerID() < 0 {
		return false
	}
	dup, isDup, err := w.turn.log.mu.producers.check(b)
	switch {
	case err != nil:
		a.fail(err)
		return true
	case isDup:
		a.BaseOffset, a.LastOffset, a.Duplicate = dup.baseOffset(), dup.lastOffset, true
		a.LogAppendTimeMs = dup.timestampMs // whatever the topic's timestamp type is, as Kafka
		return true
	}
	return false
}

// assign gives the batch its offsets and epoch. A replica's batch has them and must continue the log.
func (w *worker) assign(a *Append, b record.Batch) error {
	t := &w.turn
	if a.Origin == FromLeader {
		if b.BaseOffset() < t.next || b.LastOffset() < b.BaseOffset() {
			return ErrInvalidOffsets
		}
		a.LeaderEpoch = b.PartitionLeaderEpoch()
	} else {
		b.SetBaseOffset(t.next)
		b.SetPartitionLeaderEpoch(a.LeaderEpoch)
	}
	a.BaseOffset, a.LastOffset = b.BaseOffset(), b.LastOffset()
	return nil
}

// write brings what was placed since the last write into the active segment with one pwritev, and publishes it. l.mu is held. On error the log
// is as it was, the producers too, and the batches of the write have the error.
func (w *worker) write() error {
	t := &w.turn
	l := t.log
	defer t.reset()
	if len(t.bufs) == 0 {
		return nil
	}
	active := t.segs.active()
	pos, err := active.Append(t.bufs, t.entries, t.nowMs)
	for isDiskFull(err) && l.usesReserve.Load() && l.dir.reserve.release() {
		pos, err = active.Append(t.bufs, t.entries, t.nowMs)
	}
	if err != nil {
		err = l.dir.failed("append", err)
		w.writeFailed(err)
		return err
	}
	l.mu.producers.commit()
	l.mu.producers.begin()
	for _, a := range t.items[t.from:] {
		if a.Err == nil && !a.Duplicate {
			l.noteEpoch(a.LeaderEpoch, a.BaseOffset)
		}
	}
	l.tail.add(active, t.start, pos)
	l.tail.add(active, t.next, pos+int64(t.bytes))
	l.appendedBytes.Add(int64(t.bytes))
	l.dir.countUnmarked(int64(t.bytes))
	if l.firstDirtyMs.Load() == 0 {
		l.firstDirtyMs.Store(t.nowMs)
	}
	if l.mu.producers.unstable() {
		l.maybeUnstable.Store(true) // before anyone can see the batch
	}
	l.logEnd.Store(t.next)
	t.appended, t.flushGen = t.next, l.flushGeneration()
	return nil
}

// writeFailed gives err to the batches of the write that failed, and to duplicates of them.
func (w *worker) writeFailed(err error) {
	t := &w.turn
	t.log.mu.producers.rollback()
	t.log.mu.producers.begin()
	for _, a := range t.items[t.from:] {
		if a.Err == nil && a.LastOffset >= t.start {
			a.fail(err)
		}
	}
	t.next = t.start
}

// reset prepares the turn for another write.
func (t *turn) reset() {
	clear(t.bufs)
	t.bufs, t.entries, t.bytes = t.bufs[:0], t.entries[:0], 0
	t.from, t.start = len(t.items), t.next
}

// finish answers the turn's appends in order, tells the observer and hands the log to the flusher. No lock is held, so the callbacks may use the
// log. The order matters: nobody hears that offsets are flushed before they heard that they exist.
func (w *worker) finish() {
	t := &w.turn
	l := t.log
	logStart := l.logStart.Load()
	for i, a := range t.items {
		t.items[i] = nil
		a.LogStartOffset = logStart
		a.Done.AppendDone(a)
	}
	t.items = t.items[:0]
	if t.appended >= 0 {
		l.notifyAppended(t.appended)
		l.appendedTo(t.appended, t.flushGen, t.cfg)
	}
	t.log, t.cfg, t.segs = nil, nil, nil
}

// appendedTo arranges that what is in the log below end becomes durable when the topic wants it.
func (l *Log) appendedTo(end int64, generation uint64, cfg *logConfig) {
	if !cfg.WriteCaching || end-l.flushed.Load() >= cfg.FlushMessages {
		l.requestFlush(end, generation)
		return
	}
	if done := l.appendedBytes.Load(); done-l.writebackBytes.Load() >= writebackStepBytes {
		l.writebackBytes.Store(done)
		l.e.jobs.add(job{kind: jobWriteback, log: l})
	}
}
