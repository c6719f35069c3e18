package client

import (
	"testing"
	"testing/synctest"
	"time"
)

// A reading is never older than a step.
func TestStampClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStampClock()
		for range 1000 {
			if got, now := c.now(), time.Now().UnixMilli(); got > now || now-got > clockStep.Milliseconds() {
				t.Fatalf("%d at %d", got, now)
			}
			time.Sleep(170 * time.Microsecond)
			synctest.Wait()
		}
		time.Sleep(time.Hour)
		if got, now := c.now(), time.Now().UnixMilli(); got != now {
			t.Errorf("%d at %d after a rest", got, now)
		}
	})
}
