//go:build linux

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Promises of the variants.
const (
	leatFsync    = "fdatasync before every acknowledgement"
	leatCaching  = "write.caching=true: acknowledged from the page cache"
	kafkaDefault = "default: acknowledged from the page cache"
	kafkaFlush   = "flush.messages=1: fsync before every acknowledgement"
)

// report is what a run has found; it is the JSON output.
type report struct {
	Machine   machine    `json:"machine"`
	Begin     time.Time  `json:"begin"`
	Rounds    int        `json:"rounds"`
	Turn      string     `json:"turn"`
	Workloads []measured `json:"workloads"`
	Problems  []string   `json:"problems,omitempty"`
}

type measured struct {
	Name        string           `json:"name"`
	What        string           `json:"what"`
	Variants    []variantSamples `json:"variants,omitempty"`
	Comparisons []comparison     `json:"comparisons,omitempty"`
	Facts       []fact           `json:"facts,omitempty"`
}

type variantSamples struct {
	Variant string   `json:"variant"`
	Fsync   string   `json:"fsync"`
	Samples []sample `json:"samples"`
}

// fact is something measured that is no throughput.
type fact struct {
	Workload string `json:"workload"`
	Variant  string `json:"variant"`
	Value    string `json:"value"`
}

// targets are the ratios to reach; issue 5 has them. "At most 0.3 times the CPU" is written as at least 1/0.3 times the work per CPU second.
type targets struct{ rate, perCPU, p50, p99 bound }

type comparison struct {
	A       string  `json:"a"`
	B       string  `json:"b"`
	Rate    ratio   `json:"rate"`
	PerCPU  ratio   `json:"recordsPerCPUSecond"`
	P50     ratio   `json:"p50"`
	P99     ratio   `json:"p99"`
	targets targets // what it is held against
}

func compared(a, b string, as, bs []sample, t targets) comparison {
	return comparison{
		A: a, B: b, targets: t,
		Rate: ratioOf(as, bs, sample.rate).finite(), PerCPU: ratioOf(as, bs, sample.perCPU).finite(),
		P50: ratioOf(as, bs, sample.p50).finite(), P99: ratioOf(as, bs, sample.p99).finite(),
	}
}

// finite replaces what JSON cannot hold by zeros, which mean unknown.
func (r ratio) finite() ratio {
	for _, v := range []*float64{&r.Median, &r.Min, &r.Max} {
		if math.IsNaN(*v) || math.IsInf(*v, 0) {
			*v = 0
		}
	}
	return r
}

// markdown is the report for people.
func (r *report) markdown() string {
	var b strings.Builder
	m := &r.Machine
	fmt.Fprintf(&b, "%d cores, Linux %s, %s, file system %s; 4 KiB write and fdatasync: %.2f ms (median). Load before the run %s, after it %s.\n", m.Cores, m.Kernel, m.Memory, m.FileSystem, m.FsyncMs, m.LoadBefore, m.LoadAfter)
	fmt.Fprintf(&b, "Medians of %d interleaved rounds of %s. \"Others\" is the processor time of everything but the brokers and the load generator, in cores; the kernel's own threads are in it.\n\n", r.Rounds, r.Turn)
	fmt.Fprintf(&b, "leat: %s. leat caching: %s. Kafka: %s. Kafka flush: %s.\n\n", leatFsync, leatCaching, kafkaDefault, kafkaFlush)
	b.WriteString("| workload | broker | records/s | MB/s | CPU s/GB | CPU s/M records | p50 ms | p99 ms | p99.9 ms | max ms | RSS MiB | others |\n")
	b.WriteString("| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |\n")
	for i := range r.Workloads {
		b.WriteString(r.Workloads[i].rows())
	}
	b.WriteString("\nRatios of medians, in parentheses the least and greatest of the rounds; a target in bold is missed:\n\n")
	b.WriteString("| workload | of | throughput | target | work per CPU s | target | p50 | target | p99 | target |\n")
	b.WriteString("| --- | --- | --: | --- | --: | --- | --: | --- | --: | --- |\n")
	for i := range r.Workloads {
		for _, c := range r.Workloads[i].Comparisons {
			fmt.Fprintf(&b, "| %s | %s : %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Workloads[i].Name, c.A, c.B,
				c.Rate, wanted(c.targets.rate, c.Rate), c.PerCPU, wanted(c.targets.perCPU, c.PerCPU), c.P50, wanted(c.targets.p50, c.P50), c.P99, wanted(c.targets.p99, c.P99))
		}
	}
	b.WriteString("\n| measure | broker | value |\n| --- | --- | --- |\n")
	for i := range r.Workloads {
		for _, f := range r.Workloads[i].Facts {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", f.Workload, f.Variant, f.Value)
		}
	}
	b.WriteString("\nThe workloads:\n\n")
	for i := range r.Workloads {
		fmt.Fprintf(&b, "- %s: %s\n", r.Workloads[i].Name, r.Workloads[i].What)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "\nNot measured: %s\n", p)
	}
	return b.String()
}

func (m *measured) rows() string {
	var b strings.Builder
	for _, v := range m.Variants {
		s := v.Samples
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %.2f |\n", m.Name, v.Variant, thousands(medianOf(s, sample.rate)), digits(medianOf(s, sample.megabytes), 1),
			digits(medianOf(s, sample.cpuPerGB), 2), digits(medianOf(s, sample.cpuPerM), 2), digits(medianOf(s, sample.p50), 2), digits(medianOf(s, sample.p99), 2),
			digits(medianOf(s, sample.p999), 2), digits(medianOf(s, sample.maxLatency), 2), digits(medianOf(s, sample.rss), 0), medianOf(s, sample.others))
	}
	return b.String()
}

func wanted(b bound, r ratio) string {
	if b == 0 || !r.known() || b.met(r) {
		return b.String()
	}
	return "**" + b.String() + "**"
}

// digits writes a number; large ones without decimals, unknown ones as a dash.
func digits(v float64, n int) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0) || v == 0:
		return "-"
	case v >= 1000:
		return thousands(v)
	case v >= 100:
		n = min(n, 1)
	}
	return strconv.FormatFloat(v, 'f', n, 64)
}

// thousands writes a number with commas.
func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
