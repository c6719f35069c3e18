package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramBucketsAreContiguous(t *testing.T) {
	for i := range buckets - 1 {
		top := bucketTop(i)
		if bucketOf(top) != i || bucketOf(top+1) != i+1 {
			t.Fatalf("bucket %d ends at %d, which is in bucket %d; %d is in %d", i, top, bucketOf(top), top+1, bucketOf(top+1))
		}
		if top+1 == math.MaxInt64 || top > 1<<61 {
			break
		}
	}
	if b := bucketOf(math.MaxInt64); b >= buckets {
		t.Fatalf("the greatest value is in bucket %d of %d", b, buckets)
	}
}

func TestHistogramQuantiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var whole, half Histogram
	var all []int64
	for i := range 20_000 {
		ns := int64(math.Exp(r.Float64() * 22)) // 1 ns to 3.6 s, evenly over the magnitudes
		all = append(all, ns)
		if i%2 == 0 {
			whole.Record(time.Duration(ns))
		} else {
			half.Record(time.Duration(ns))
		}
	}
	whole.Merge(&half)
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[max(int(math.Ceil(q*float64(len(all))))-1, 0)]
		got := int64(whole.Quantile(q))
		if got < want || float64(got) > float64(want)*1.009+1 {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
	if int64(whole.Max()) != all[len(all)-1] || whole.Count() != uint64(len(all)) {
		t.Errorf("max %v, count %d", whole.Max(), whole.Count())
	}
	whole.Reset()
	if whole.Count() != 0 || whole.Max() != 0 || whole.Quantile(0.5) != 0 {
		t.Error("something is left after Reset")
	}
}

func TestHistogramOfOneValue(t *testing.T) {
	var h Histogram
	h.Record(1_000_003)
	for _, q := range []float64{0, 0.5, 1} {
		if got := h.Quantile(q); got != 1_000_003 {
			t.Errorf("quantile %v of one value is %d", q, got)
		}
	}
	h.Record(-5)
	if h.Quantile(0.5) != 0 || h.Mean() != 500_001 {
		t.Errorf("a negative duration counts as 0: p50 %d, mean %d", h.Quantile(0.5), h.Mean())
	}
}
