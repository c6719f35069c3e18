//go:build linux

package main

import (
	"testing"
	"time"
)

// A short run measures what all clients cost to produce, as fast as it goes and at a rate.
func TestRun(t *testing.T) {
	for _, rate := range []float64{0, 1000} {
		w := work{length: 100 * time.Millisecond, warmup: 50 * time.Millisecond, maxRecords: 20_000_000, rate: rate}
		if err := run(t.Context(), w, "", "produce", "100", 1); err != nil {
			t.Error(err)
		}
	}
}
