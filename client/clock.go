package client

import (
	"sync/atomic"
	"time"
)

// clockStep is how old a reading of a stampClock may be.
const clockStep = time.Millisecond

// stampClock tells the time to the millisecond, for stamps of records. Reading the system's clock for each would be a fifth of what a small record costs; so a reading serves for a
// millisecond (longer where the scheduler is late), at whose end a timer takes it away. Nothing runs while nobody asks.
type stampClock struct {
	ms    atomic.Int64 // 0: to be read
	timer *time.Timer
}

func newStampClock() *stampClock {
	c := &stampClock{}
	c.timer = time.AfterFunc(time.Hour, func() { c.ms.Store(0) })
	c.timer.Stop()
	return c
}

// now is ms since the Unix epoch.
func (c *stampClock) now() int64 {
	if ms := c.ms.Load(); ms != 0 {
		return ms
	}
	ms := time.Now().UnixMilli()
	if c.ms.Swap(ms) == 0 {
		c.timer.Reset(clockStep)
	}
	return ms
}
