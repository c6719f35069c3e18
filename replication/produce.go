package replication

import (
	"errors"

	"github.com/leatmq/leat/engine"
)

// ProduceSink is told about the progress of a Produce. Both methods run exactly once per Produce, Appended first, on a
// goroutine of the engine or on the caller's; they must not block.
type ProduceSink interface {
	Appended(r *Produce)    // r.Append.Batch is no longer needed: its buffer may be released
	ProduceDone(r *Produce) // the answer is ready: r.Append.Err and the other results of r.Append
}

// Produce is one batch on its way into a partition. It belongs to replication from Partition.Produce until ProduceDone runs;
// then it may be used again, even from inside.
type Produce struct {
	engine.Append       // Batch and Origin are the caller's; LeaderEpoch and Done are set by Partition.Produce. Err is the answer
	Acks          int16 // -1, 0 or 1
	TimeoutMs     int32 // acks=-1: how long to wait for the high watermark
	Sink          ProduceSink

	partition  *Partition
	deadlineMs int64
	prev, next *Produce // list of parked ones, guarded by the partition's mu
}

// Produce appends a batch and answers through r.Sink: acks 0 and 1 when it is in the log, acks -1 when the high watermark has
// passed it. Any goroutine; batches of one caller to one partition stay in order.
func (p *Partition) Produce(r *Produce) {
	v := p.view.Load()
	err := v.err
	if err == nil {
		err = v.broken
	}
	if err == nil && r.Acks == -1 && !v.enough {
		err = ErrNotEnoughReplicas
	}
	if err != nil {
		r.Err, r.BaseOffset, r.LastOffset, r.LogAppendTimeMs, r.LogStartOffset = err, -1, -1, -1, -1
		r.Sink.Appended(r)
		r.Sink.ProduceDone(r)
		return
	}
	r.partition, r.LeaderEpoch, r.Done = p, v.epoch, r
	if r.Acks == -1 {
		r.deadlineMs = p.now() + int64(r.TimeoutMs)
	}
	p.log.Enqueue(&r.Append)
}

// AppendDone implements engine.Completer.
func (r *Produce) AppendDone(*engine.Append) {
	r.Sink.Appended(r)
	if r.Err != nil {
		r.Err = answerOf(r.Err)
	} else if r.Acks == -1 && r.partition.park(r) {
		return
	}
	r.Sink.ProduceDone(r)
}

// answerOf is what a client is told when the log was taken away under its batch.
func answerOf(err error) error {
	switch {
	case errors.Is(err, engine.ErrDeleted):
		return ErrUnknownTopic
	case errors.Is(err, engine.ErrClosed):
		return ErrNotLeader
	}
	return err
}

// park keeps r until the high watermark is above it. false: it can be answered now, with r.Err.
func (p *Partition) park(r *Produce) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.LastOffset < p.mu.role.hw {
		return false
	}
	if r.Err = p.view.Load().err; r.Err != nil {
		return false
	}
	p.mu.parked.insert(r)
	if !p.mu.timed {
		p.mu.timed = true
		p.timers.add(p)
	}
	return true
}

// expire answers the parked produces whose time is over, and says whether any are left.
func (p *Partition) expire(nowMs int64) (left bool) {
	p.mu.Lock()
	m := moved{produces: p.mu.parked.due(nowMs), err: ErrTimedOut}
	left = !p.mu.parked.empty()
	p.mu.timed = left
	p.mu.Unlock()
	m.act()
	return left
}
