package client

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sync"
)

// smallestBuffer is the size of the smallest buffers; the others double it.
const smallestBuffer = 1 << 10

// BufferFullError: a producer's memory is used up, and it waits no longer.
type BufferFullError struct {
	Limit  int64 // bytes
	Wanted int   // bytes that there was no room for
}

func (e *BufferFullError) Error() string {
	return fmt.Sprintf("the producer's %d bytes of buffer memory are used up: records come faster than the brokers take them", e.Limit)
}

// bufferPool is the memory of a producer's batches: what is used and what is kept for later is never more than the limit.
type bufferPool struct {
	limit    int64
	largest  int    // bytes of the largest buffers that are kept for later
	onStarve func() // called, without a lock, when somebody begins to wait: batches should leave

	mu struct {
		sync.Mutex
		used, kept int64
		free       [][][]byte // by class: those that are kept
		waiting    []*memoryWaiter
	}
}

type memoryWaiter struct {
	size  int
	ready chan []byte // one place
}

func newBufferPool(limit int64, largest int, onStarve func()) *bufferPool {
	m := &bufferPool{limit: limit, largest: largest, onStarve: onStarve}
	m.mu.free = make([][][]byte, m.class(largest)+1)
	return m
}

// class is the number of the size class for n bytes, up to largest.
func (m *bufferPool) class(n int) int {
	return max(bits.Len(uint(max(n, 1)-1))-bits.Len(uint(smallestBuffer-1)), 0)
}

// sizeFor is the size of the buffer that holds n bytes.
func (m *bufferPool) sizeFor(n int) int {
	if n > m.largest {
		return n
	}
	return min(smallestBuffer<<m.class(n), m.largest)
}

// try is a buffer of at least n bytes, empty; nil when there is no room, or others wait for it.
func (m *bufferPool) try(n int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mu.waiting) > 0 {
		return nil
	}
	return m.takeLocked(m.sizeFor(n))
}

// force is a buffer of at least n bytes, even beyond the limit: for what takes the place of another that is about to be given back.
func (m *bufferPool) force(n int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	size := m.sizeFor(n)
	if buf := m.takeLocked(size); buf != nil {
		return buf
	}
	m.mu.used += int64(size)
	return make([]byte, 0, size)
}

func (m *bufferPool) takeLocked(size int) []byte {
	if size <= m.largest {
		if free := &m.mu.free[m.class(size)]; len(*free) > 0 {
			last := len(*free) - 1
			buf := (*free)[last]
			(*free)[last], *free = nil, (*free)[:last]
			m.mu.kept -= int64(size)
			m.mu.used += int64(size)
			return buf
		}
	}
	if m.mu.used+int64(size) > m.limit {
		return nil
	}
	m.dropLocked(m.mu.used + m.mu.kept + int64(size) - m.limit)
	m.mu.used += int64(size)
	return make([]byte, 0, size)
}

// dropLocked forgets at least n bytes of what is kept, the largest buffers first.
func (m *bufferPool) dropLocked(n int64) {
	for class := len(m.mu.free) - 1; class >= 0 && n > 0; class-- {
		free := &m.mu.free[class]
		for n > 0 && len(*free) > 0 {
			last := len(*free) - 1
			size := int64(cap((*free)[last]))
			(*free)[last], *free = nil, (*free)[:last]
			m.mu.kept -= size
			n -= size
		}
	}
}

// wait is try that waits for its turn until the context ends; n is at most the limit.
func (m *bufferPool) wait(ctx context.Context, n int) ([]byte, error) {
	m.mu.Lock()
	size := m.sizeFor(n)
	if len(m.mu.waiting) == 0 {
		if buf := m.takeLocked(size); buf != nil {
			m.mu.Unlock()
			return buf, nil
		}
	}
	w := &memoryWaiter{size, make(chan []byte, 1)}
	m.mu.waiting = append(m.mu.waiting, w)
	m.mu.Unlock()
	m.onStarve()
	select {
	case buf := <-w.ready:
		return buf, nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.mu.waiting, w); i >= 0 {
		m.mu.waiting = slices.Delete(m.mu.waiting, i, i+1)
	} else {
		m.giveBackLocked(<-w.ready)
	}
	m.serveLocked() // those behind may want less
	return nil, ctx.Err()
}

// put gives a buffer back.
func (m *bufferPool) put(buf []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.giveBackLocked(buf)
	m.serveLocked()
}

func (m *bufferPool) giveBackLocked(buf []byte) {
	size := cap(buf)
	if m.mu.used -= int64(size); size == m.sizeFor(size) && size <= m.largest {
		m.mu.kept += int64(size)
		class := m.class(size)
		m.mu.free[class] = append(m.mu.free[class], buf[:0])
	}
}

// serveLocked gives memory to those that wait, in their order.
func (m *bufferPool) serveLocked() {
	for len(m.mu.waiting) > 0 {
		buf := m.takeLocked(m.mu.waiting[0].size)
		if buf == nil {
			return
		}
		m.mu.waiting[0].ready <- buf
		m.mu.waiting = slices.Delete(m.mu.waiting, 0, 1)
	}
}

// inUse is the bytes of buffers that are not given back.
func (m *bufferPool) inUse() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.used
}
