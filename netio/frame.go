package netio

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/internal/invariant"
)

// Frame is a pooled, reference counted buffer. Request frames arrive with one reference; NewFrame makes others, for
// building responses. The last Release gives the memory to the pool: nobody may read B after giving up a reference.
type Frame struct {
	// B is the content. It may be resliced or grown by append by the only owner.
	B []byte

	refs    atomic.Int32
	charged atomic.Int64 // bytes taken of budget
	own     bool         // of the connection's allowance
	budget  *budget      // nil for frames that are not requests
}

// Size classes: four per doubling, so that at most a fifth of a buffer is wasted on a message just over a power of two.
const (
	minClassBits = 8  // 256 B
	maxClassBits = 23 // 8 MiB; larger buffers are left to the garbage collector
	classCount   = (maxClassBits-minClassBits)*4 + 1
)

var framePools [classCount]sync.Pool

func classSize(class int) int {
	return (4 + class&3) << (minClassBits - 2 + class>>2)
}

// classFor is the smallest class of at least n bytes; classCount if there is none.
func classFor(n int) int {
	if n <= 1<<minClassBits {
		return 0
	}
	// n-1 has its highest bit at shift+2; the two bits below choose the quarter.
	shift := bits.Len(uint(n-1)) - 3
	return min((shift-(minClassBits-2))<<2+((n-1)>>shift)&3+1, classCount)
}

// classOf is the largest class a buffer of this capacity can serve; -1 if there is none.
func classOf(capacity int) int {
	class := classFor(capacity)
	if class == classCount || classSize(class) > capacity {
		class--
	}
	if class == classCount-1 && capacity > classSize(class) {
		return -1
	}
	return class
}

// capacityFor is the memory that NewFrame(n) takes.
func capacityFor(n int) int {
	if class := classFor(n); class < classCount {
		return classSize(class)
	}
	return n
}

// NewFrame returns a buffer of n bytes with one reference. Its content is undefined.
func NewFrame(n int) *Frame {
	class := classFor(n)
	var f *Frame
	if class == classCount {
		f = &Frame{B: make([]byte, n)}
	} else if p, _ := framePools[class].Get().(*Frame); p != nil {
		f = p
		f.B = f.B[:n]
	} else {
		f = &Frame{B: make([]byte, n, classSize(class))}
	}
	f.refs.Store(1)
	return f
}

// charge makes the last Release give back the n bytes taken of b for this frame.
func (f *Frame) charge(b *budget, n int64, own bool) {
	f.budget, f.own = b, own
	f.charged.Store(n)
}

func (f *Frame) uncharge() {
	if n := f.charged.Swap(0); n != 0 {
		f.budget.give(n, f.own)
	}
}

// Retain adds a reference. The caller must have one.
func (f *Frame) Retain() {
	n := f.refs.Add(1)
	invariant.Must(n > 1, "netio: Frame retained after its last release")
}

// Release gives up a reference; with the last one the buffer returns to the pool.
func (f *Frame) Release() {
	n := f.refs.Add(-1)
	if n > 0 {
		return
	}
	invariant.Must(n == 0, "netio: Frame released %d times too often", -n)
	f.uncharge()
	if invariant.Enabled {
		poison(f.B)
		leaveToCollector(cap(f.B))
		return
	}
	f.recycle()
}

// abandon takes the frame out of the account without ever giving its memory to the pool: after a panic nobody knows who
// still reads it.
func (f *Frame) abandon() {
	f.refs.Add(1 << 30)
	f.uncharge()
}

// garbageLimit is how much memory of released frames may wait for the garbage collector. It alone would let the heap double
// first, to twice of what the account admits.
const garbageLimit = 64 << 20

var (
	garbage    atomic.Int64 // bytes of frames left to the collector since it was last asked for
	collecting atomic.Bool
)

// leaveToCollector notes that n bytes were let go that no pool takes, and has them collected when they are many.
func leaveToCollector(n int) {
	if garbage.Add(int64(n)) < garbageLimit || collecting.Swap(true) {
		return
	}
	garbage.Store(0)
	go func() { // ends by itself, and there is one at most
		runtime.GC()
		collecting.Store(false)
	}()
}

func (f *Frame) recycle() {
	class := classOf(cap(f.B))
	if class < 0 {
		leaveToCollector(cap(f.B))
		return
	}
	f.budget = nil
	framePools[class].Put(f)
}

// poison makes a read after release visible.
func poison(b []byte) {
	b = b[:cap(b)]
	for n := copy(b, []byte{0xDB}); n < len(b); {
		n += copy(b[n:], b[:n])
	}
}
