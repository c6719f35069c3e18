package netio

import (
	"math"
	"sync"
	"sync/atomic"
)

// connAllowance is how much memory of request frames every connection has for itself, whatever the others use.
const connAllowance = 64 << 10

// account is the memory of all request frames of a server. A connection's first connAllowance bytes count in own and are
// always to be had; all else counts in shared, which never exceeds limit. So the sum stays within
//
//	limit + connections x connAllowance
//
// where a connection that is gone counts as long as the handler keeps a frame of it.
//
// Who does not get memory waits in a queue. Memory that is given back is granted at once to those of the queue it suffices
// for, the longest waiting first: small wants may pass a large one, for the large one waits for many others anyway.
type account struct {
	limit   int64
	nowMs   func() int64
	shared  atomic.Int64
	own     atomic.Int64
	waiters atomic.Int32 // length of the queue

	mu struct {
		sync.Mutex
		oldest, newest *budget // the queue
	}
}

// bytes is all memory of request frames.
func (a *account) bytes() int64 { return a.shared.Load() + a.own.Load() }

// roomy tells that less than half of the account would be in use with n more bytes: memory may be taken for bytes that
// have not arrived.
func (a *account) roomy(n int) bool { return a.bytes()+int64(n) <= a.limit/2 }

// largest is the longest frame that the account can hold.
func (a *account) largest() int {
	if a.limit >= 1<<maxClassBits {
		return int(min(a.limit, math.MaxInt32))
	}
	return max(connAllowance, classSize(max(0, classOf(int(a.limit)))))
}

func (a *account) tryAdd(n int64) bool {
	for {
		old := a.shared.Load()
		if old+n > a.limit {
			return false
		}
		if a.shared.CompareAndSwap(old, old+n) {
			return true
		}
	}
}

// sub gives n shared bytes back.
func (a *account) sub(n int64) {
	a.shared.Add(-n)
	// Who waits is in the queue before it tries a last time, so one of us sees the other.
	if a.waiters.Load() > 0 {
		for _, b := range a.grant() {
			b.owner.memoryFreed()
		}
	}
}

// grant gives what there is to those who wait, and returns them.
func (a *account) grant() (lucky []*budget) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for b := a.mu.oldest; b != nil && a.shared.Load() < a.limit; {
		next := b.newer
		if a.tryAdd(b.need) {
			a.unlinkLocked(b)
			b.granted = b.need
			lucky = append(lucky, b)
		}
		b = next
	}
	return lucky
}

// wait is somebody in the queue.
type wait struct {
	by   *budget
	need int64
}

// waits is who has waited since sinceMs or longer.
func (a *account) waits(sinceMs int64) (all []wait) {
	if a.waiters.Load() == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for b := a.mu.oldest; b != nil && b.sinceMs <= sinceMs; b = b.newer {
		all = append(all, wait{by: b, need: b.need})
	}
	return all
}

func (a *account) appendLocked(b *budget) {
	b.queued = true
	b.older, b.newer = a.mu.newest, nil
	if a.mu.newest == nil {
		a.mu.oldest = b
	} else {
		a.mu.newest.newer = b
	}
	a.mu.newest = b
	a.waiters.Add(1)
}

func (a *account) unlinkLocked(b *budget) {
	if b.older == nil {
		a.mu.oldest = b.newer
	} else {
		b.older.newer = b.newer
	}
	if b.newer == nil {
		a.mu.newest = b.older
	} else {
		b.newer.older = b.older
	}
	b.older, b.newer, b.queued = nil, nil, false
	a.waiters.Add(-1)
}

// budget is one connection's access to the account. take and cancel belong to the connection's reader, give to anybody.
type budget struct {
	account *account
	owner   transport    // its memoryFreed is told that take may succeed now. Any goroutine; it must not block
	own     atomic.Int64 // bytes of the allowance in use
	waiting atomic.Bool  // a take failed, and neither a later one succeeded nor was it canceled

	// Guarded by account.mu.
	need, granted int64
	sinceMs       int64
	queued        bool
	older, newer  *budget
}

// take gets n bytes, of the allowance (own) or shared. When it fails the budget waits: owner.memoryFreed is called when it
// is worth while to ask again, for the same n.
func (b *budget) take(n int64) (own, ok bool) {
	if b.takeOwn(n) {
		b.cancel()
		return true, true
	}
	if !b.waiting.Load() && b.account.tryAdd(n) {
		return false, true
	}
	if b.takeOrWait(n) {
		return false, true
	}
	// The allowance may have become free before we were seen waiting.
	if b.takeOwn(n) {
		b.cancel()
		return true, true
	}
	return false, false
}

// takeOwn is called by the reader only, so nobody else adds.
func (b *budget) takeOwn(n int64) bool {
	if b.own.Load()+n > connAllowance {
		return false
	}
	b.own.Add(n)
	b.account.own.Add(n)
	return true
}

func (b *budget) takeOrWait(n int64) bool {
	a := b.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if b.granted == 0 && !b.queued {
		b.need, b.sinceMs = n, a.nowMs()
		b.waiting.Store(true)
		a.appendLocked(b)
	}
	switch {
	case b.granted == n:
		b.granted = 0
	case a.tryAdd(n):
		a.unlinkLocked(b)
	default:
		return false
	}
	b.waiting.Store(false)
	return true
}

// cancel ends the waiting.
func (b *budget) cancel() {
	if !b.waiting.Load() {
		return
	}
	a := b.account
	a.mu.Lock()
	granted := b.granted
	b.granted = 0
	if b.queued {
		a.unlinkLocked(b)
	}
	b.waiting.Store(false)
	a.mu.Unlock()
	if granted > 0 {
		a.sub(granted)
	}
}

// give returns what take got.
func (b *budget) give(n int64, own bool) {
	if !own {
		b.account.sub(n)
		return
	}
	b.own.Add(-n)
	b.account.own.Add(-n)
	if b.waiting.Load() {
		b.owner.memoryFreed()
	}
}
