//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
)

// sample is what one turn of a workload has measured at one broker. Zero means not measured.
type sample struct {
	Seconds float64 `json:"seconds"`
	Records float64 `json:"records"`
	Bytes   float64 `json:"bytes"`
	CPU     float64 `json:"cpuSeconds"` // of the broker
	P50     float64 `json:"p50Ms"`
	P99     float64 `json:"p99Ms"`
	P999    float64 `json:"p999Ms"`
	Max     float64 `json:"maxMs"`
	RSS     float64 `json:"rssMiB"`     // of the broker after the turn
	Late    float64 `json:"late"`       // requests that the generator sent later than intended
	Others  float64 `json:"otherCores"` // what everything but this program and the brokers used, in cores; the kernel's own threads are in it
}

func (s sample) rate() float64       { return s.Records / s.Seconds }
func (s sample) megabytes() float64  { return s.Bytes / 1e6 / s.Seconds }
func (s sample) cpuPerGB() float64   { return s.CPU / (s.Bytes / 1e9) }
func (s sample) cpuPerM() float64    { return s.CPU / (s.Records / 1e6) }
func (s sample) perCPU() float64     { return s.Records / s.CPU } // work done by a second of CPU
func (s sample) millis() float64     { return s.Seconds * 1000 }
func (s sample) p50() float64        { return s.P50 }
func (s sample) p99() float64        { return s.P99 }
func (s sample) p999() float64       { return s.P999 }
func (s sample) maxLatency() float64 { return s.Max }
func (s sample) rss() float64        { return s.RSS }
func (s sample) others() float64     { return s.Others }

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[n/2] + sorted[(n-1)/2]) / 2
}

func values(samples []sample, of func(sample) float64) []float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, of(s))
	}
	return all
}

func medianOf(samples []sample, of func(sample) float64) float64 { return median(values(samples, of)) }

// ratio is how many times b a is: of the medians, and the least and greatest of the rounds, each of which has both a and b.
type ratio struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func ratioOf(a, b []sample, of func(sample) float64) ratio {
	if len(a) != len(b) || len(a) == 0 {
		panic(fmt.Sprintf("BUG: rounds of %d and %d samples", len(a), len(b)))
	}
	r := ratio{Median: medianOf(a, of) / medianOf(b, of)}
	var rounds []float64
	for i := range a {
		rounds = append(rounds, of(a[i])/of(b[i]))
	}
	r.Min, r.Max = slices.Min(rounds), slices.Max(rounds)
	return r
}

// known is false for what was not measured.
func (r ratio) known() bool {
	return !math.IsNaN(r.Median) && !math.IsInf(r.Median, 0) && r.Median != 0
}

func (r ratio) String() string {
	if !r.known() {
		return "-"
	}
	return fmt.Sprintf("%s (%s-%s)", times(r.Median), times(r.Min), times(r.Max))
}

func times(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// bound is a wanted ratio: at least (positive) or at most (negative); 0 is none.
type bound float64

func (b bound) met(r ratio) bool {
	if b > 0 {
		return r.Median >= float64(b)
	}
	return r.Median <= -float64(b)
}

func (b bound) String() string {
	switch {
	case b > 0:
		return fmt.Sprintf(">= %.3g", float64(b))
	case b < 0:
		return fmt.Sprintf("<= %.3g", -float64(b))
	}
	return ""
}
