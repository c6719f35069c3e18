//go:build linux

package main

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5}, {[]float64{7}, 7}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
	if !math.IsNaN(median(nil)) {
		t.Error("there is no median of nothing")
	}
}

func TestPerUnit(t *testing.T) {
	s := sample{Seconds: 2, Records: 1e6, Bytes: 4e9, CPU: 8}
	for name, c := range map[string][2]float64{
		"records/s": {s.rate(), 5e5}, "MB/s": {s.megabytes(), 2000}, "CPU s/GB": {s.cpuPerGB(), 2}, "CPU s/M": {s.cpuPerM(), 8}, "records per CPU s": {s.perCPU(), 125_000},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %v, want %v", name, c[0], c[1])
		}
	}
}

// The ratio is that of the medians; its spread is that of the rounds, which are pairs.
func TestRatio(t *testing.T) {
	rates := func(v ...float64) (all []sample) {
		for _, x := range v {
			all = append(all, sample{Seconds: 1, Records: x})
		}
		return all
	}
	r := ratioOf(rates(300, 900, 600), rates(100, 200, 300), sample.rate)
	if r.Median != 3 || r.Min != 2 || r.Max != 4.5 {
		t.Errorf("%+v", r)
	}
	if got := r.String(); got != "3.00 (2.00-4.50)" {
		t.Errorf("%q", got)
	}
	if none := ratioOf(rates(1), rates(1), sample.p99); none.known() || none.String() != "-" {
		t.Errorf("a ratio of nothing measured: %v", none)
	}
}

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		bound  bound
		median float64
		met    bool
	}{{3, 3, true}, {3, 2.99, false}, {-0.5, 0.5, true}, {-0.5, 0.51, false}} {
		if got := c.bound.met(ratio{Median: c.median}); got != c.met {
			t.Errorf("%v is met by %v: %v", c.bound, c.median, got)
		}
	}
}

func TestTables(t *testing.T) {
	fast := []sample{{Seconds: 1, Records: 3000, Bytes: 3e6, CPU: 0.5, P50: 1, P99: 2, P999: 3, Max: 4, RSS: 30, Others: 0.25}}
	slow := []sample{{Seconds: 1, Records: 1000, Bytes: 1e6, CPU: 1, P50: 3, P99: 8, P999: 9, Max: 10, RSS: 900}}
	rep := report{Machine: machine{Kernel: "6.1", Cores: 2}, Rounds: 1, Workloads: []measured{{
		Name: "P64", What: "batches",
		Variants:    []variantSamples{{"leat", leatFsync, fast}, {"Kafka", kafkaDefault, slow}},
		Comparisons: []comparison{compared("leat", "Kafka", fast, slow, targets{rate: 3, perCPU: 7, p99: -0.5})},
	}, {
		Name: "start", Facts: []fact{{"start", "leat", "30 ms"}},
	}}}
	text := rep.markdown()
	for _, want := range []string{
		"| P64 | leat | 3,000 | 3.0 | 166.7 | 166.7 | 1.00 | 2.00 | 3.00 | 4.00 | 30 | 0.25 |",
		"| P64 | leat : Kafka | 3.00 (3.00-3.00) | >= 3 | 6.00 (6.00-6.00) | **>= 7** | 0.33 (0.33-0.33) |  | 0.25 (0.25-0.25) | <= 0.5 |",
		"| start | leat | 30 ms |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not in the table: %s\n%s", want, text)
		}
	}
}

func TestThousands(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}

func TestParseBusy(t *testing.T) {
	if d, err := parseBusy("cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 2 3\n"); err != nil || d != 1710*time.Millisecond {
		t.Error(d, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu  100 20 30 4000 500 x 7 8 0 0"} {
		if _, err := parseBusy(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
