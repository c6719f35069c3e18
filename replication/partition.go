package replication

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/invariant"
)

// Partition is a partition on this node: a log, the role this node has in it, and who waits for it to move.
//
// Owner of changes to the role: the metadata manager's goroutine (Manager.follow). Progress comes in on the engine's append
// worker and flusher. mu guards the role and the lists; it is held for a few steps, never during I/O or a callback.
type Partition struct {
	log     *engine.Log // nil when the log could not be opened: view.gone says why
	topicID [16]byte
	number  int32
	now     func() int64
	timers  *timers

	view atomic.Pointer[view] // what requests need to know, changed under mu

	mu struct {
		sync.Mutex
		role    role
		parked  parked  // acks=all produces above the high watermark
		waiters waiters // fetches
		timed   bool    // listed in timers
	}
}

// view is the state of a partition in one piece, immutable.
type view struct {
	err    error // why the partition takes no produce and gives no fetch; nil when it does
	gone   error // of these, the reasons that come before any check of epochs: deleted, storage failed, stopping
	broken error // why it takes no produce though it gives fetches: its log is damaged, and what is whole can be read
	epoch  int32
	enough bool // in-sync replicas for acks=all
}

// Check says whether this node may serve the partition at the leader epoch the client believes in (-1 = doesn't know): nil,
// ErrNotLeader, ErrFencedLeaderEpoch, ErrUnknownLeaderEpoch, ErrUnknownTopic (deleted) or an engine.ErrStorage.
func (p *Partition) Check(currentLeaderEpoch int32) error {
	v := p.view.Load()
	switch {
	case v.gone != nil:
		return v.gone
	case currentLeaderEpoch != -1 && currentLeaderEpoch < v.epoch:
		return ErrFencedLeaderEpoch
	case currentLeaderEpoch > v.epoch:
		return ErrUnknownLeaderEpoch
	}
	return v.err
}

// Log is the partition's log; nil when it could not be opened, and then Check says why.
func (p *Partition) Log() *engine.Log { return p.log }

// TopicID is the id of the topic.
func (p *Partition) TopicID() [16]byte { return p.topicID }

// Number is the partition's number in its topic.
func (p *Partition) Number() int32 { return p.number }

// LeaderEpoch is the epoch in which this node leads or follows.
func (p *Partition) LeaderEpoch() int32 { return p.view.Load().epoch }

// HighWatermark is the first offset that is not yet visible; -1 without a log.
func (p *Partition) HighWatermark() int64 {
	if p.log == nil {
		return -1
	}
	return p.log.HighWatermark()
}

// LastStable is the last stable offset: what read_committed may read below; -1 without a log.
func (p *Partition) LastStable() int64 {
	if p.log == nil {
		return -1
	}
	return p.lastStable(p.log.HighWatermark())
}

// lastStable is the last stable offset for a high watermark that was read before: never above it (B-E5).
func (p *Partition) lastStable(hw int64) int64 {
	if first, open := p.log.FirstUnstableOffset(); open && first < hw {
		return first
	}
	return hw
}

// LogStart is the first offset; -1 without a log.
func (p *Partition) LogStart() int64 {
	if p.log == nil {
		return -1
	}
	return p.log.StartOffset()
}

// LogEnd is the next offset to be written; -1 without a log.
func (p *Partition) LogEnd() int64 {
	if p.log == nil {
		return -1
	}
	return p.log.EndOffset()
}

// ReadResult is what Read found. The offsets are -1 when the partition cannot be served.
type ReadResult struct {
	engine.Range // holds a reference when N > 0: Release it
	HW           int64
	LSO          int64
	LogStart     int64
}

// Read finds what may be read at offset: from the batch that contains it, at most maxBytes (the first batch whole if minOne),
// below the high watermark, or below the last stable offset for readCommitted. N is 0 when there is nothing (yet).
func (p *Partition) Read(offset int64, maxBytes int, minOne bool, readCommitted bool) (ReadResult, error) {
	if err := p.view.Load().err; err != nil {
		return ReadResult{HW: -1, LSO: -1, LogStart: -1}, err
	}
	hw := p.log.HighWatermark() // read once: all that follows is about this moment
	r := ReadResult{HW: hw, LSO: p.lastStable(hw), LogStart: p.log.StartOffset()}
	upTo := r.HW
	if readCommitted {
		upTo = r.LSO
	}
	var err error
	r.Range, err = p.log.Read(offset, maxBytes, upTo, minOne)
	return r, err
}

// moved is what a step of the role lets loose: produces to answer with nil, or err, and waiters to wake. Acted on outside mu.
type moved struct {
	produces *Produce
	err      error
	waiters  *Waiter
}

func (m moved) act() {
	finish(m.produces, m.err)
	wakeAll(m.waiters)
}

// advancedLocked makes a new high watermark known.
func (p *Partition) advancedLocked(yes bool) moved {
	if !yes {
		return moved{}
	}
	r := &p.mu.role
	invariant.Check(r.hw <= r.logEnd, "high watermark %d above log end %d", r.hw, r.logEnd)
	p.log.SetHighWatermark(r.hw)
	return moved{produces: p.mu.parked.below(r.hw), waiters: p.mu.waiters.below(r.hw)}
}

// Appended implements engine.Observer.
func (p *Partition) Appended(logEnd int64) {
	p.mu.Lock()
	m := p.advancedLocked(p.mu.role.appended(logEnd))
	p.mu.Unlock()
	m.act()
}

// Flushed implements engine.Observer.
func (p *Partition) Flushed(flushed int64) {
	p.mu.Lock()
	m := p.advancedLocked(p.mu.role.flushedTo(flushed))
	p.mu.Unlock()
	m.act()
}

// Failed implements engine.Observer: the log serves no more until a restart.
func (p *Partition) Failed(err error) {
	if _, damaged := errors.AsType[*engine.DamageError](err); damaged {
		p.breakOff(storageError(err))
		return
	}
	p.leave(storageError(err))
}

// breakOff ends appending.
func (p *Partition) breakOff(reason error) {
	p.mu.Lock()
	v := *p.view.Load()
	if v.broken == nil {
		v.broken = reason
		p.view.Store(&v)
	}
	m := moved{produces: p.mu.parked.all(), err: reason}
	p.mu.Unlock()
	m.act()
}

// leave ends the service of this partition for a reason that stays: everything parked gets it. The first reason wins.
func (p *Partition) leave(reason error) {
	p.mu.Lock()
	v := *p.view.Load()
	if v.gone == nil {
		v.gone, v.err = reason, reason
		p.view.Store(&v)
	}
	m := p.releaseLocked(v.gone)
	p.mu.Unlock()
	m.act()
}

// releaseLocked lets everything parked go.
func (p *Partition) releaseLocked(err error) moved {
	return moved{produces: p.mu.parked.all(), err: err, waiters: p.mu.waiters.all()}
}

// assignment is what the metadata says about a partition on this node.
type assignment struct {
	leads    bool // this process does
	epoch    int32
	replicas []int32
	isr      []int32
	minISR   int
	caching  bool
}

// assign brings the role in line with the metadata. The manager's goroutine.
func (p *Partition) assign(a assignment) {
	if p.log == nil {
		return
	}
	if err := p.beginEpoch(a); err != nil {
		p.Failed(err)
		return
	}
	p.mu.Lock()
	m := p.assignLocked(a)
	p.mu.Unlock()
	m.act()
}

// beginEpoch notes in the log where the new epoch begins, before the first batch of it can come. When this process leads
// already the old epoch's batches may still be on their way; then the engine notes the first batch of the new epoch.
func (p *Partition) beginEpoch(a assignment) error {
	v := p.view.Load()
	if !a.leads || v.err == nil || v.gone != nil || v.broken != nil {
		return nil
	}
	return p.log.AssignEpochStart(a.epoch, p.log.EndOffset())
}

func (p *Partition) assignLocked(a assignment) moved {
	r := &p.mu.role
	old := p.view.Load()
	v := view{gone: old.gone, broken: old.broken}
	r.caching = a.caching
	var m moved
	if a.leads {
		if !r.becomeLeader(a.epoch, a.replicas, a.isr) {
			r.setReplicas(a.replicas)
		}
		m = p.advancedLocked(r.setISR(a.isr))
		v.enough = r.enough(a.minISR)
	} else {
		if r.becomeFollower(a.epoch) {
			m = p.releaseLocked(ErrNotLeader)
		}
		v.err = ErrNotLeader
	}
	v.epoch = r.epoch
	if v.gone != nil {
		v.err = v.gone
	}
	p.view.Store(&v)
	return m
}

// newPartition makes the partition of a log; it follows until it is assigned a role. log is nil when gone says why there is none.
func newPartition(log *engine.Log, id [16]byte, number, self int32, now func() int64, t *timers, gone error) *Partition {
	p := &Partition{log: log, topicID: id, number: number, now: now, timers: t}
	p.mu.role = role{self: self, epoch: -1}
	p.view.Store(&view{err: ErrNotLeader, epoch: -1})
	if gone != nil {
		p.view.Store(&view{err: gone, gone: gone, epoch: -1})
	}
	if log == nil {
		return p
	}
	log.SetObserver(p)
	r := &p.mu.role
	p.mu.Lock()
	r.hw = log.HighWatermark()
	r.flushed = max(r.flushed, log.FlushedOffset())
	r.logEnd = max(r.logEnd, log.EndOffset())
	p.mu.Unlock()
	if err := log.Err(); err != nil {
		p.Failed(err)
	}
	return p
}
