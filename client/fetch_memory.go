package client

import "sync"

// fetchMemory is where the bytes of fetches lie. With ConsumerConfig.ReuseMemory they are used again: a lease counts the chunks that alias an answer; when all are drained,
// and Poll is called after that, nobody looks at them any more.
type fetchMemory struct {
	reuse bool
	mu    struct {
		sync.Mutex
		free  [][]byte
		bytes int // of free
	}
}

const (
	answerTrusted = 8 << 20   // bytes of an answer that get their memory before they come
	reuseLeast    = 32 << 10  // smaller answers are left to the collector
	reuseStep     = 256 << 10 // sizes are multiples of it, so that they fit again
	reuseKept     = 32 << 20  // bytes that lie idle at most
)

// take is memory of n bytes, or nil: it is to be taken as they come.
func (m *fetchMemory) take(n int) []byte {
	switch {
	case n > answerTrusted:
		return nil
	case !m.reuse || n < reuseLeast:
		return make([]byte, n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.mu.free) - 1; i >= 0; i-- { // the last one is the warmest
		b := m.mu.free[i]
		if cap(b) >= n {
			m.mu.free[i] = m.mu.free[len(m.mu.free)-1]
			m.mu.free = m.mu.free[:len(m.mu.free)-1]
			m.mu.bytes -= cap(b)
			return b[:n]
		}
	}
	return make([]byte, n, (n+reuseStep-1)/reuseStep*reuseStep)
}

// give takes memory back.
func (m *fetchMemory) give(b []byte) {
	if !m.reuse || cap(b) < reuseLeast {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.mu.free) > 0 && m.mu.bytes+cap(b) > reuseKept {
		m.mu.bytes -= cap(m.mu.free[0])
		m.mu.free = m.mu.free[1:]
	}
	m.mu.free = append(m.mu.free, b[:0])
	m.mu.bytes += cap(b)
}

// lease is the memory of an answer, and how many chunks alias it.
type lease struct {
	body   []byte
	chunks int
}

// leavingLocked is called when a chunk will not be read any more. What was handed out of it may be looked at until the next Poll.
func (r *Consumer) leavingLocked(k *chunk) {
	if !r.config.ReuseMemory {
		return
	}
	if k.lease.chunks--; k.lease.chunks == 0 {
		r.mu.leaving = append(r.mu.leaving, k.lease.body)
	}
}

// leftLocked is called when what earlier calls of Poll have returned is not looked at any more.
func (r *Consumer) leftLocked() {
	for i, b := range r.mu.leaving {
		r.memory.give(b)
		r.mu.leaving[i] = nil
	}
	r.mu.leaving = r.mu.leaving[:0]
}
