package broker

import (
	"sync"
	"time"

	"github.com/leatmq/leat/replication"
)

// Parking: a Fetch that has not enough bytes waits, without a goroutine, for the first of: a high watermark of one of its partitions moves, one of
// them changes its leader or is deleted or fails, max_wait passes, the connection or the broker goes.
//
//	idle ----park()----> arming: waiters are being registered; a wake is only noted
//	arming --armed-----> parked: the next wake takes it out
//	arming --woken-----> idle: look again at once
//	parked --wake()----> idle, and attempt runs on a disk worker
//
// A wake may come late, for an earlier wait or even for an earlier request (the op is reused): it makes the op look once more than needed, which is
// harmless, for every look checks everything.

type parkState uint8

const (
	parkIdle parkState = iota
	parkArming
	parkParked
)

// fetchParking is the waiting side of a fetchOp.
type fetchParking struct {
	waiters []replication.Waiter // one per part, in the order of the parts
	on      []*replication.Partition
	timer   *time.Timer
	mu      struct {
		sync.Mutex
		state parkState
		woken bool
	}
}

// park makes the op wait. It returns false when there is news already: the caller looks again.
func (op *fetchOp) park() bool {
	k := &op.parking
	k.mu.Lock()
	k.mu.state, k.mu.woken = parkArming, false
	k.mu.Unlock()
	op.r.conn.park(op)
	if !op.register() {
		k.set(true)
	}
	op.startTimer()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.mu.woken && !op.b.stopping.Load() && !op.r.call.Canceled() {
		k.mu.state = parkParked
		return true
	}
	k.mu.state = parkIdle
	op.unregister()
	return false
}

func (k *fetchParking) set(woken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.woken = woken
}

// register waits on every partition that is here for a high watermark above the one that was read. It returns false when one has moved already.
func (op *fetchOp) register() bool {
	k := &op.parking
	if len(k.waiters) < len(op.parts) {
		k.waiters = make([]replication.Waiter, len(op.parts))
		for i := range k.waiters {
			k.waiters[i].Init(op)
		}
	}
	k.on = k.on[:0]
	for i := range op.parts {
		p := op.parts[i].partition
		k.on = append(k.on, p)
		if p != nil && !p.Await(&k.waiters[i], op.parts[i].hw) {
			return false
		}
	}
	return true
}

// unregister takes the op out of everything that could wake it.
func (op *fetchOp) unregister() {
	k := &op.parking
	k.timer.Stop()
	op.r.conn.unpark(op)
	for i, p := range k.on {
		if p != nil {
			p.Cancel(&k.waiters[i])
		}
	}
	clear(k.on)
	k.on = k.on[:0]
}

func (op *fetchOp) startTimer() {
	k := &op.parking
	wait := time.Until(op.deadline)
	if k.timer == nil {
		k.timer = time.AfterFunc(wait, op.wake)
		return
	}
	k.timer.Reset(wait)
}

// Wake is replication's upcall.
func (op *fetchOp) Wake(*replication.Waiter) { op.wake() }

// wake takes a parked op out and looks again on a disk worker. Any goroutine.
func (op *fetchOp) wake() {
	k := &op.parking
	k.mu.Lock()
	parked := k.mu.state == parkParked
	k.mu.woken = true
	if parked {
		k.mu.state = parkIdle
	}
	k.mu.Unlock()
	if parked && !op.b.disk.submit(op.resume) {
		op.resume() // the broker has stopped: the answer is what there is
	}
}

// resume is the second look of an op that was parked.
func (op *fetchOp) resume() {
	op.unregister()
	op.attempt(false)
}
