package netio

import "testing"

// The time in which the process is stopped is not there; a slow tick is none.
func TestAwakeClock(t *testing.T) {
	now := int64(100)
	c := newAwakeClock(func() int64 { return now })
	for _, step := range []struct{ passes, want int64 }{{1000, 1100}, {stopMs, 1100 + stopMs}, {60_000, 2100 + stopMs}, {1000, 3100 + stopMs}, {stopMs + 1, 4100 + stopMs}} {
		now += step.passes
		c.tick()
		if got := c.ms(); got != step.want {
			t.Errorf("%d ms later: %d, want %d", step.passes, got, step.want)
		}
	}
	now += 500
	if got := c.ms(); got != 4600+stopMs {
		t.Errorf("between ticks: %d", got)
	}
}

// Servers use it unless they are given a clock.
func TestServersAreAwake(t *testing.T) {
	o := Options{}
	o.setDefaults()
	if o.awake == nil {
		t.Error("the default is another clock")
	}
	o = Options{NowMs: func() int64 { return 5 }}
	if o.setDefaults(); o.awake != nil || o.NowMs() != 5 {
		t.Error("a given clock is not taken as it is")
	}
}
