package broker

import (
	"sync"
	"sync/atomic"
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
// harmless, for every look checks everything. A waiter whose wake is still on its way, though, is in a list of the partition that wakes it, and must
// not be parked again: the op leaves it behind and takes another.

type parkState uint8

const (
	parkIdle parkState = iota
	parkArming
	parkParked
)

// parkedPartsMax bounds the memory of what waits: all parked requests together name at most so many partitions. A request for which there is no room is
// answered with what there is.
const parkedPartsMax = 1 << 20

// parkedParts counts the partitions that parked requests name.
type parkedParts struct{ n atomic.Int64 }

func (p *parkedParts) take(n int) bool {
	if p.n.Add(int64(n)) <= parkedPartsMax {
		return true
	}
	p.give(n)
	return false
}

func (p *parkedParts) give(n int) { p.n.Add(int64(-n)) }

// fetchParking is the waiting side of a fetchOp.
type fetchParking struct {
	waiters []*fetchWaiter // one per part, in the order of the parts; none is in anybody's list while the op is idle
	on      []*replication.Partition
	timer   *time.Timer
	mu      struct {
		sync.Mutex
		state parkState
		woken bool
	}
}

// fetchWaiter waits for one partition.
type fetchWaiter struct {
	replication.Waiter
	op    *fetchOp
	waits bool // Await took it; the op's alone
	woken bool // Wake has run since; guarded by fetchParking.mu
}

func newFetchWaiter(op *fetchOp) *fetchWaiter {
	w := &fetchWaiter{op: op}
	w.Init(w)
	return w
}

// Wake is replication's upcall.
func (w *fetchWaiter) Wake(*replication.Waiter) { w.op.wokenBy(w) }

// park makes the op wait, for whose parts there is room. It returns false when there is news already: the caller looks again.
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
	if k.settle(op.b.stopping.Load() || op.r.call.Canceled()) {
		return true // from here on the op belongs to whoever wakes it
	}
	op.unregister()
	return false
}

// settle ends arming: in parkParked (true) unless there was a wake meanwhile or nothing must wait any more.
func (k *fetchParking) settle(over bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.state = parkIdle
	if !k.mu.woken && !over {
		k.mu.state = parkParked
	}
	return k.mu.state == parkParked
}

func (k *fetchParking) set(woken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.woken = woken
}

// register waits on every partition that is here for a high watermark above the one that was read. It returns false when one has moved already.
func (op *fetchOp) register() bool {
	k := &op.parking
	for len(k.waiters) < len(op.parts) {
		k.waiters = append(k.waiters, newFetchWaiter(op))
	}
	k.on = k.on[:0]
	for i := range op.parts {
		p, w := op.parts[i].partition, k.waiters[i]
		k.on = append(k.on, p)
		if p == nil {
			continue
		}
		if w.waits = p.Await(&w.Waiter, op.parts[i].hw); !w.waits {
			return false
		}
	}
	return true
}

// unregister takes the op out of everything that could wake it.
func (op *fetchOp) unregister() {
	k := &op.parking
	k.timer.Stop()
	op.b.parkedParts.give(len(op.parts))
	op.r.conn.unpark(op)
	for i, p := range k.on {
		w := k.waiters[i]
		if !w.waits {
			continue
		}
		w.waits = false
		if !p.Cancel(&w.Waiter) && !k.takeWoken(w) {
			k.waiters[i] = newFetchWaiter(op)
		}
	}
	clear(k.on)
	k.on = k.on[:0]
}

// takeWoken tells whether a waiter's Wake has run, and makes it good for the next wait.
func (k *fetchParking) takeWoken(w *fetchWaiter) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	woken := w.woken
	w.woken = false
	return woken
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

// wake takes a parked op out and looks again on a disk worker. Any goroutine.
func (op *fetchOp) wake() { op.wokenBy(nil) }

func (op *fetchOp) wokenBy(w *fetchWaiter) {
	k := &op.parking
	k.mu.Lock()
	if w != nil {
		w.woken = true
	}
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
	op.b.safely(op.r.call, func() {
		op.unregister()
		op.attempt(false)
	})
}
