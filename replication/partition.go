package replication

import (
	"github.com/leatmq/leat/engine"
)

// ProduceSink is told about the progress of a Produce. Both methods run exactly once per Produce, Appended first, on a
// goroutine of the engine or on the caller's; they must not block.
type ProduceSink interface {
	Appended(r *Produce)    // r.Append.Batch is no longer needed: its buffer may be released
	ProduceDone(r *Produce) // the answer is ready: r.Append.Err and the other results of r.Append
}

// Produce is one batch on its way into a partition. Reusable after ProduceDone (not before).
type Produce struct {
	engine.Append       // Batch is the caller's; Origin, LeaderEpoch and Done are set by Partition.Produce. Err is the answer
	Acks          int16 // -1, 0 or 1
	TimeoutMs     int32 // acks=-1: how long to wait for the high watermark
	Sink          ProduceSink
}

// Partition is a partition on this node.
type Partition struct{}

// Produce appends a batch and answers through r.Sink: acks 0 and 1 when it is in the log, acks -1 when the high watermark has
// passed it.
func (p *Partition) Produce(r *Produce) { panic("stub") }

// Check says whether this node may serve the partition at the leader epoch the client believes in (-1 = doesn't know): nil,
// ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch, ErrUnknownTopic (deleted) or an engine.ErrStorage.
func (p *Partition) Check(currentLeaderEpoch int32) error { panic("stub") }

// Log is the partition's log.
func (p *Partition) Log() *engine.Log { panic("stub") }

// TopicID is the id of the topic.
func (p *Partition) TopicID() [16]byte { panic("stub") }

// LeaderEpoch is the epoch in which this node leads or follows.
func (p *Partition) LeaderEpoch() int32 { panic("stub") }

// HighWatermark is the first offset that is not yet visible.
func (p *Partition) HighWatermark() int64 { panic("stub") }

// LastStable is the last stable offset: what read_committed may read below.
func (p *Partition) LastStable() int64 { panic("stub") }

// LogStart is the first offset.
func (p *Partition) LogStart() int64 { panic("stub") }

// LogEnd is the next offset to be written.
func (p *Partition) LogEnd() int64 { panic("stub") }

// ReadResult is what Read found. HW, LSO and LogStart are set on errors as well, unless the partition is gone.
type ReadResult struct {
	engine.Range // holds a reference when N > 0: Release it
	HW           int64
	LSO          int64
	LogStart     int64
}

// Read finds what may be read at offset: from the batch that contains it, at most maxBytes (the first batch whole if minOne),
// below the high watermark, or below the last stable offset for readCommitted. N is 0 when there is nothing (yet).
func (p *Partition) Read(offset int64, maxBytes int, minOne bool, readCommitted bool) (ReadResult, error) {
	panic("stub")
}

// Waker is told that a wait is over. It runs on a goroutine of the engine, outside of locks, and must not block.
type Waker interface{ Wake(w *Waiter) }

// Waiter waits for one partition to move. It belongs to its owner, who may embed it; it costs no allocation to use.
type Waiter struct{}

// Init prepares a waiter that is not waiting.
func (w *Waiter) Init(k Waker) { panic("stub") }

// Await parks w until the high watermark is above offset, the leader or its epoch changes, the partition is deleted or fails;
// then k.Wake(w) runs once. It returns false, and parks nothing, when that is already so.
func (p *Partition) Await(w *Waiter, offset int64) bool { panic("stub") }

// Cancel unparks w. It returns false when w was not parked here any more: its Wake has run or is about to.
func (p *Partition) Cancel(w *Waiter) bool { panic("stub") }
