package engine

import (
	"math"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// An interval may be as long as an int64 can say: then the work is not due again, instead of all the time.
func TestDueWithTheLongestInterval(t *testing.T) {
	at := int64(1000)
	for i, now := range []int64{1000, 2000, math.MaxInt64 - 1} {
		if got := due(&at, now, math.MaxInt64); got != (i == 0) {
			t.Errorf("at %d: due is %v", now, got)
		}
	}
}

// producer.id.expiration.ms may be changed while the broker runs, for logs that are open as well.
func TestProducerExpirationChanges(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	e := f.open()
	l := f.log("t", nil)
	f.mustAppend(l, idempotentBatch(7, 0, 0, 1))
	e.Tick(f.clock.advance(2 * expiryIntervalMs)) // counting begins
	e.Tick(f.clock.advance(2 * expiryIntervalMs))
	if n := len(l.Producers()); n != 1 {
		t.Fatalf("%d producers", n)
	}
	e.SetProducerIDExpirationMs(expiryIntervalMs)
	e.Tick(f.clock.advance(2 * expiryIntervalMs))
	if n := len(l.Producers()); n != 0 {
		t.Errorf("%d producers are remembered", n)
	}
}
