package netio

import "sync/atomic"

// stopMs is from how long without a tick, of which there is one a second, the process is taken to have been stopped.
const stopMs = 5000

// awakeClock counts the milliseconds in which this process ran. A process that is stopped (SIGSTOP, a frozen container, a paused machine) reads nothing, and
// the time limits of its peers must not run meanwhile: what they sent waits in its sockets.
type awakeClock struct {
	nowMs   func() int64 // a steady clock
	stopped atomic.Int64
	lastMs  int64 // tick's alone
}

func newAwakeClock(nowMs func() int64) *awakeClock { return &awakeClock{nowMs: nowMs, lastMs: nowMs()} }

func (c *awakeClock) ms() int64 { return c.nowMs() - c.stopped.Load() }

// tick is called once a second, before anything looks for limits that have passed.
func (c *awakeClock) tick() {
	now := c.nowMs()
	if gap := now - c.lastMs; gap > stopMs {
		c.stopped.Add(gap - tickInterval.Milliseconds())
	}
	c.lastMs = now
}
