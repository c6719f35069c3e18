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
