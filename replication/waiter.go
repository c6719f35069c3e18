package replication

// Waker is told that a wait is over. It runs on a goroutine of the engine, outside of locks, and must not block.
type Waker interface{ Wake(w *Waiter) }

// Waiter waits for one partition to move. It belongs to its owner, who may embed it; it costs no allocation to use. It may be
// parked at one partition at a time, and again once Wake runs or Cancel has returned true.
type Waiter struct {
	waker      Waker
	offset     int64
	parked     bool // guarded by the partition's mu, as are the links
	prev, next *Waiter
}

// Init prepares a waiter that is not waiting.
func (w *Waiter) Init(k Waker) { *w = Waiter{waker: k} }

// Await parks w until the high watermark is above offset, the leader or its epoch changes, the partition is deleted or fails;
// then Wake(w) runs once. It returns false, and parks nothing, when that is already so.
func (p *Partition) Await(w *Waiter, offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.role.hw > offset || p.view.Load().err != nil {
		return false
	}
	w.offset = offset
	p.mu.waiters.add(w)
	return true
}

// Cancel unparks w. It returns false when w was not parked here any more: its Wake has run or is about to.
func (p *Partition) Cancel(w *Waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !w.parked {
		return false
	}
	p.mu.waiters.remove(w)
	return true
}

// waiters is an intrusive list, in no order: nearly all wait at the high watermark itself.
type waiters struct{ head *Waiter }

func (l *waiters) add(w *Waiter) {
	w.parked, w.prev, w.next = true, nil, l.head
	if l.head != nil {
		l.head.prev = w
	}
	l.head = w
}

func (l *waiters) remove(w *Waiter) {
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.parked, w.prev, w.next = false, nil, nil
}

// below removes the waiters whose offset is below hw and returns them, linked by next.
func (l *waiters) below(hw int64) *Waiter {
	var ready *Waiter
	for w := l.head; w != nil; {
		next := w.next
		if w.offset < hw {
			l.remove(w)
			w.next, ready = ready, w
		}
		w = next
	}
	return ready
}

// all removes and returns everything.
func (l *waiters) all() *Waiter {
	first := l.head
	for w := first; w != nil; w = w.next {
		w.parked, w.prev = false, nil
	}
	l.head = nil
	return first
}

// wakeAll wakes a list of waiters; no lock is held. A waiter may be parked again from inside its Wake.
func wakeAll(w *Waiter) {
	for w != nil {
		next := w.next
		w.next = nil
		w.waker.Wake(w)
		w = next
	}
}
