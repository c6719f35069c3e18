package broker

import "testing"

// The clock of the groups stands still while the process is stopped, whoever looks at it first, and never goes back.
func TestAwakeClock(t *testing.T) {
	now := int64(1000)
	c := newAwakeClock(func() int64 { return now }, 50_000)
	now += 60_000 // a long recovery
	c.begin()
	want := func(what string, ms int64) {
		t.Helper()
		if got := c.ms(); got != ms {
			t.Errorf("%s: the clock shows %d, want %d", what, got, ms)
		}
	}
	want("begun", 110_000)
	for range 3 {
		now += 1000
		c.tick()
	}
	want("awake", 113_000)
	now += 4000
	want("a tick is late", 117_000)
	now += 100_000
	want("stopped, and read before a tick", 117_000)
	c.tick()
	want("stopped, and read behind a tick", 117_000)
	now += 1000
	want("awake again", 118_000)
	c.tick()
	now += 50_000
	c.tick()
	want("stopped, and ticked first", 119_000)
}
