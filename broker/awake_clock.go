package broker

import (
	"sync"
	"sync/atomic"
)

const (
	// stopMs is from how long without a tick, of which there is one a second at least, the process is taken to have been stopped; stopCountsMs is
	// what of such a time counts.
	stopMs       = 5000
	stopCountsMs = 1000
)

// awakeClock runs with a steady clock while this process runs. A process that is stopped (SIGSTOP, a frozen container, a paused machine) hears nobody, and
// the sessions of those whom it could not hear must not end meanwhile: what they sent waits in its sockets. It never goes back. Safe for concurrent use.
type awakeClock struct {
	steady func() int64
	mark   atomic.Pointer[awakeMark] // of the last tick
	shown  atomic.Int64              // the latest that was read
	mu     sync.Mutex                // held by tick
}

// awakeMark is what the clock showed at a steady time.
type awakeMark struct{ steadyMs, shownMs int64 }

func newAwakeClock(steady func() int64, showsMs int64) *awakeClock {
	c := &awakeClock{steady: steady}
	c.mark.Store(&awakeMark{steady(), showsMs})
	c.shown.Store(showsMs)
	return c
}

// ms reads the clock. It sees at once that the process was stopped, before any tick.
func (c *awakeClock) ms() int64 {
	m := c.mark.Load()
	gap := c.steady() - m.steadyMs
	if gap > stopMs {
		gap = stopCountsMs
	}
	for at := m.shownMs + gap; ; {
		shown := c.shown.Load()
		if at <= shown {
			return shown
		}
		if c.shown.CompareAndSwap(shown, at) {
			return at
		}
	}
}

// tick is called once a second at least.
func (c *awakeClock) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.steady()
	c.mark.Store(&awakeMark{now, c.ms()})
}

// begin is called before the first tick: that none came before does not mean that the process was stopped.
func (c *awakeClock) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, now := c.mark.Load(), c.steady()
	c.mark.Store(&awakeMark{now, max(c.shown.Load(), m.shownMs+now-m.steadyMs)})
}
