package load

import (
	"encoding/json"
	"math/bits"
	"time"
)

const (
	subBits  = 7 // 128 buckets per power of two: a value is kept to 0.8 %
	subCount = 1 << subBits
	buckets  = (64 - subBits) * subCount
)

// Histogram counts durations in buckets whose width grows with the value (as HDR histograms do). The zero value is empty and ready. It is not safe for concurrent use.
type Histogram struct {
	counts []uint64 // made at first use
	count  uint64
	sum    float64 // ns
	max    int64   // ns, exact
}

// bucketOf is linear below subCount and has subCount buckets for each power of two above.
func bucketOf(ns int64) int {
	if ns < subCount {
		return int(ns)
	}
	shift := bits.Len64(uint64(ns)) - subBits - 1
	return shift*subCount + int(ns>>shift)
}

// bucketTop is the greatest value of a bucket.
func bucketTop(i int) int64 {
	if i < 2*subCount {
		return int64(i)
	}
	shift := i/subCount - 1
	return int64(i-shift*subCount+1)<<shift - 1
}

// Record counts one duration; a negative one counts as 0.
func (h *Histogram) Record(d time.Duration) {
	if h.counts == nil {
		h.counts = make([]uint64, buckets)
	}
	ns := max(int64(d), 0)
	h.counts[bucketOf(ns)]++
	h.count++
	h.sum += float64(ns)
	h.max = max(h.max, ns)
}

// Merge adds all that o has counted.
func (h *Histogram) Merge(o *Histogram) {
	if o.count == 0 {
		return
	}
	if h.counts == nil {
		h.counts = make([]uint64, buckets)
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.count += o.count
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Reset forgets everything and keeps the memory.
func (h *Histogram) Reset() {
	clear(h.counts)
	*h = Histogram{counts: h.counts}
}

// Count is how many durations were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Max is the greatest duration, exactly.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Mean is the average; 0 when empty.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.count))
}

// Quantile returns a duration that a share q (0 to 1) of all is not above, at most 0.8 % too much; 0 when empty.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := uint64(q*float64(h.count) + 0.9999999)
	rank = min(max(rank, 1), h.count)
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen >= rank {
			return time.Duration(min(bucketTop(i), h.max))
		}
	}
	panic("BUG: a histogram has fewer values in its buckets than it counted")
}

// MarshalJSON gives the usual quantiles in ms.
func (h *Histogram) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]float64{
		"count": float64(h.count), "meanMs": Ms(h.Mean()), "p50Ms": Ms(h.Quantile(0.5)), "p99Ms": Ms(h.Quantile(0.99)), "p999Ms": Ms(h.Quantile(0.999)), "maxMs": Ms(h.Max()),
	})
}

// Ms is a duration in milliseconds.
func Ms(d time.Duration) float64 { return float64(d) / 1e6 }
