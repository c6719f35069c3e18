//go:build linux

package bench

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"text/tabwriter"
	"time"
)

// sample is one turn of a workload or a floor.
type sample struct {
	ops       int // requests, batches, look-ups
	records   int
	bytes     int64
	elapsed   time.Duration
	cpu       time.Duration // of the process that does the work
	allocs    uint64        // of it, too
	latencies []int64       // ns, of each op; may be empty
}

func (s *sample) rate() float64      { return float64(s.records) / s.elapsed.Seconds() }
func (s *sample) opRate() float64    { return float64(s.ops) / s.elapsed.Seconds() }
func (s *sample) megabytes() float64 { return float64(s.bytes) / 1e6 / s.elapsed.Seconds() }
func (s *sample) cpuPerGB() float64  { return s.cpu.Seconds() / (float64(s.bytes) / 1e9) }
func (s *sample) allocsPerOp() float64 {
	return float64(s.allocs) / float64(s.ops)
}

func (s *sample) cpuPerOp() float64 { return s.cpu.Seconds() * 1e6 / float64(s.ops) }

func (s *sample) cpuPerRecord() float64 { return s.cpu.Seconds() * 1e6 / float64(s.records) }

// percentile sorts the latencies and returns one of them in ms; -1 without any.
func (s *sample) percentile(p float64) float64 {
	if len(s.latencies) == 0 {
		return -1
	}
	slices.Sort(s.latencies)
	return float64(s.latencies[int(p*float64(len(s.latencies)-1))]) / 1e6
}

// row is one line of the first table: medians over the rounds.
type row struct {
	workload                  string
	records, megabytes        float64 // per second
	spread                    float64 // (max - min) / median of the rate
	cpuPerGB, cpuPerOp        float64 // s, us
	allocs                    float64 // per op
	p50, p99                  float64 // ms, -1 = not measured
	floorRate, floorCPU       float64 // ops per second, s/GB
	ratio, ratioMin, ratioMax float64 // workload / floor, per round
	target                    string
}

// fact is one line of the second table.
type fact struct {
	what, value, spread, target string
}

// What the benchmarks of this run have found, in their order.
var (
	rows  []row
	facts []fact
)

// compare runs both in turns, after one turn each to warm up, and reports. floor may be nil.
func compare(b *testing.B, workload, target string, run, floor func() sample) {
	b.Helper()
	touchMemory(b)
	run()
	if floor != nil {
		floor()
	}
	var own, bare []sample
	for range max(*roundCount, 1) {
		own = append(own, run())
		if floor != nil {
			bare = append(bare, floor())
		}
	}
	r := summarize(workload, target, own, bare)
	rows = append(rows, r)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(r.records, "records/s")
	b.ReportMetric(r.megabytes, "MB/s")
	b.ReportMetric(r.cpuPerGB, "cpu-s/GB")
	b.ReportMetric(r.cpuPerOp, "cpu-us/op")
	b.ReportMetric(r.allocs, "heap-allocs/op")
	if r.p50 >= 0 {
		b.ReportMetric(r.p50, "p50-ms")
		b.ReportMetric(r.p99, "p99-ms")
	}
	if floor != nil {
		b.ReportMetric(r.ratio, "ratio")
		b.ReportMetric(r.floorCPU, "floor-cpu-s/GB")
	}
}

func summarize(workload, target string, own, bare []sample) row {
	r := row{
		workload: workload, target: target,
		records: medianOf(own, (*sample).rate), megabytes: medianOf(own, (*sample).megabytes), cpuPerGB: medianOf(own, (*sample).cpuPerGB),
		cpuPerOp: medianOf(own, (*sample).cpuPerOp), allocs: medianOf(own, (*sample).allocsPerOp),
		p50: medianOf(own, func(s *sample) float64 { return s.percentile(0.5) }), p99: medianOf(own, func(s *sample) float64 { return s.percentile(0.99) }),
	}
	rates := values(own, (*sample).opRate)
	r.spread = (slices.Max(rates) - slices.Min(rates)) / median(rates)
	if len(bare) == 0 {
		return r
	}
	r.floorRate, r.floorCPU = medianOf(bare, (*sample).opRate), medianOf(bare, (*sample).cpuPerGB)
	var ratios []float64
	for i := range own {
		ratios = append(ratios, own[i].opRate()/bare[i].opRate())
	}
	r.ratio, r.ratioMin, r.ratioMax = median(ratios), slices.Min(ratios), slices.Max(ratios)
	return r
}

func values(samples []sample, of func(*sample) float64) []float64 {
	var all []float64
	for i := range samples {
		all = append(all, of(&samples[i]))
	}
	return all
}

func medianOf(samples []sample, of func(*sample) float64) float64 { return median(values(samples, of)) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}

// noteFact reports the median of some values of one measure.
func noteFact(b *testing.B, what, unit, target string, values ...float64) {
	b.Helper()
	m := median(values)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(m, unit)
	f := fact{what: what, value: fmt.Sprintf("%.1f %s", m, unit), target: target}
	if len(values) > 1 {
		f.spread = fmt.Sprintf("%.1f-%.1f", slices.Min(values), slices.Max(values))
	}
	facts = append(facts, f)
}

// printTable writes what this run has found for people.
func printTable(w io.Writer) {
	if len(rows) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "\nworkload\trecords/s\tMB/s\tspread\tCPU s/GB\tCPU us/op\tallocs/op\tp50 ms\tp99 ms\tof floor\t(min-max)\tfloor CPU s/GB\ttarget\t")
		for i := range rows {
			r := &rows[i]
			fmt.Fprintf(t, "%s\t%.0f\t%.1f\t%.0f%%\t%.2f\t%.2f\t%.3f\t%s\t%s\t%s\t%s\t\n", r.workload, r.records, r.megabytes, r.spread*100, r.cpuPerGB, r.cpuPerOp,
				r.allocs, milliseconds(r.p50), milliseconds(r.p99), r.ofFloor(), orDash(r.target))
		}
		t.Flush()
		fmt.Fprintf(w, "\nMedians of %d rounds. CPU and allocations are of the process that does the work (the broker; for the engine, index and record rows all of it).\n", max(*roundCount, 1))
	}
	if len(facts) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "\nmeasure\tvalue\tmin-max\ttarget")
		for _, f := range facts {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", f.what, f.value, orDash(f.spread), orDash(f.target))
		}
		t.Flush()
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, stageTable.String())
}

// ofFloor is three columns.
func (r *row) ofFloor() string {
	if r.ratio == 0 {
		return "-\t-\t-"
	}
	return fmt.Sprintf("%.0f%%\t%.0f-%.0f%%\t%.2f", r.ratio*100, r.ratioMin*100, r.ratioMax*100, r.floorCPU)
}

func milliseconds(v float64) string {
	if v < 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
