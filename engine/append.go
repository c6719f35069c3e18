package engine

// Origin tells who made a batch, and so what is checked and what is assigned.
type Origin uint8

// The origins.
const (
	FromClient   Origin = iota // validated in full; offsets assigned here
	FromLeader                 // a replica: offsets and leader epoch are in the batch and must continue the log
	FromInternal               // metadata and coordinators: may hold control batches; offsets assigned here
)

// Append is one batch on its way into a log. The engine owns it and the bytes of Batch from Enqueue until Done runs; then the caller may use
// it again.
type Append struct {
	Batch       []byte // one record batch, patched in place (offset, epoch, and timestamps when the topic says so)
	Origin      Origin
	LeaderEpoch int32 // written into the batch unless FromLeader
	Done        Completer

	// Results, valid in AppendDone.

	BaseOffset      int64 // of a duplicate: of the original
	LastOffset      int64
	LogAppendTimeMs int64 // -1 unless the topic uses log append time
	LogStartOffset  int64
	Duplicate       bool // the batch was in the log already; nothing was written
	Err             error

	next *Append // link of the queue it is in
}

// Completer is told when an Append is in the log (written, not yet durable) or has failed. It runs exactly once per Append, in queue order, on
// the partition's append worker; it must not block. The Append may be reused, even enqueued again, from inside.
type Completer interface {
	AppendDone(a *Append)
}

// Enqueue hands a to the log's append worker. First in, first out per partition; any goroutine may call it and it never blocks. What is queued
// is bounded by the caller.
func (l *Log) Enqueue(a *Append) {
	for {
		head := l.queue.Load()
		a.next = head
		if l.queue.CompareAndSwap(head, a) {
			if head == nil { // whoever fills an empty queue wakes the worker
				l.worker.schedule(l)
			}
			return
		}
	}
}

// takeQueue moves what was enqueued to the end of pending, in order. Worker only.
func (l *Log) takeQueue() {
	newest := l.queue.Swap(nil)
	if newest == nil {
		return
	}
	var oldest *Append
	for a := newest; a != nil; { // the queue is a stack: turn it round
		next := a.next
		a.next = oldest
		oldest, a = a, next
	}
	if l.pending.tail == nil {
		l.pending.head = oldest
	} else {
		l.pending.tail.next = oldest
	}
	l.pending.tail = newest
}

// popPending returns the oldest pending append, nil when there is none. Worker only.
func (l *Log) popPending() *Append {
	a := l.pending.head
	if a == nil {
		return nil
	}
	l.pending.head = a.next
	if l.pending.head == nil {
		l.pending.tail = nil
	}
	a.next = nil
	return a
}
