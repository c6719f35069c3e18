//go:build linux

package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leatmq/leat/bench/load"
)

var plotDir = flag.String("plots", "", "write plots of the Scale benchmarks to this directory, as SVG")

// scalePoint is one way to produce, and a place on an axis.
type scalePoint struct {
	label       string
	batch       int // records of a request
	size        int // bytes of a record's value
	connections int
	inflight    int
	partitions  int32
	procs       int // GOMAXPROCS of the broker; 0 = all
}

// scaleAxis is what changes from point to point while the rest stays.
type scaleAxis struct {
	name, title, label string
	points             []scalePoint
}

func scaleAxes() []scaleAxis {
	batch := scaleAxis{name: "batch", title: "Produce by batch size: 4 connections and partitions, 5 requests in flight, acks=all", label: "bytes of a batch"}
	for _, p := range []scalePoint{{label: "170 B", batch: 1, size: 100}, {label: "1 KiB", batch: 1, size: 950}, {label: "4 KiB", batch: 4, size: 1000}, {label: "16 KiB", batch: 16, size: 1013},
		{label: "64 KiB", batch: 64, size: 1013}, {label: "256 KiB", batch: 256, size: 1013}, {label: "1 MiB", batch: 1008, size: 1020}} {
		p.connections, p.inflight, p.partitions = 4, 5, 4
		batch.points = append(batch.points, p)
	}
	conns := scaleAxis{name: "connections", title: "Produce by connections: single records of 1 KiB, 16 partitions, 1 request in flight each, acks=all", label: "connections"}
	for _, n := range []int{1, 4, 16, 64, 256, 1024, 4096} {
		conns.points = append(conns.points, scalePoint{label: fmt.Sprint(n), batch: 1, size: 950, connections: n, inflight: 1, partitions: 16})
	}
	// 4,000: each has three descriptors while it is written to
	parts := scaleAxis{name: "partitions", title: "Produce by partitions: 16 KiB batches, 16 connections with 5 requests in flight, acks=all", label: "partitions, all of them written to"}
	for _, n := range []int32{1, 10, 100, 1000, 4000} {
		parts.points = append(parts.points, scalePoint{label: fmt.Sprint(n), batch: 16, size: 1013, connections: 16, inflight: 5, partitions: n})
	}
	cores := scaleAxis{name: "cores", title: "Produce by cores of the broker (GOMAXPROCS; the generator has the other one too): 16 KiB batches, 4 connections, acks=all", label: "GOMAXPROCS"}
	for _, n := range []int{1, 2} {
		cores.points = append(cores.points, scalePoint{label: fmt.Sprint(n), batch: 16, size: 1013, connections: 4, inflight: 5, partitions: 4, procs: n})
	}
	return []scaleAxis{batch, conns, parts, cores}
}

// BenchmarkScale produces along four axes: batch size, connections, partitions, cores. With -plots DIR it draws them.
func BenchmarkScale(b *testing.B) {
	for _, axis := range scaleAxes() {
		b.Run(axis.name, func(b *testing.B) { axis.bench(b) })
	}
}

func (a *scaleAxis) bench(b *testing.B) {
	touchMemory(b)
	brokers := map[int]*child{}
	for _, p := range a.points {
		if brokers[p.procs] == nil {
			spec := brokerSpec(scratch(b))
			spec.Procs = p.procs
			spec.Settings = append(spec.Settings, "max.connections.per.ip=2147483647")
			brokers[p.procs] = startChild(b, spec)
		}
	}
	samples := make([][]sample, len(a.points))
	for round := range max(*roundCount, 1) + 1 {
		for i, p := range a.points {
			s := p.run(b, brokers[p.procs], fmt.Sprintf("scale-%d", i))
			if round > 0 { // the first one warms up
				samples[i] = append(samples[i], s)
			}
		}
	}
	plot := newPlot(a.title, a.label)
	for i, p := range a.points {
		r := summarize("scale "+a.name+" "+p.label, "", samples[i], nil)
		rows = append(rows, r)
		plot.add(p.label, values(samples[i], (*sample).megabytes), values(samples[i], (*sample).cpuPerRecord))
	}
	if *plotDir == "" {
		return
	}
	if err := os.MkdirAll(*plotDir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*plotDir, "scale-"+a.name+".svg"), plot.svg(), 0o644); err != nil {
		b.Fatal(err)
	}
}

// run produces for a turn. The topic stays for the next round.
func (p *scalePoint) run(b *testing.B, c *child, topic string) sample {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if _, err := load.CreateTopic(ctx, c.addr, topic, p.partitions, nil); err != nil {
		b.Fatal(err)
	}
	l := &load.ProduceLoad{Addr: c.addr, Topic: topic, Connections: p.connections, InFlight: p.inflight, Records: p.batch, Size: p.size, Acks: -1, Exclusive: p.connections <= int(p.partitions)}
	report, err := load.Run(ctx, load.RunOptions{Warmup: *roundTime / 4, Duration: *roundTime, PID: c.cmd.Process.Pid}, l)
	if err != nil {
		b.Fatalf("%s: %v", p.label, err)
	}
	r := report.Loads[0]
	return sample{ops: int(r.Requests), records: int(r.Records), bytes: r.Bytes, elapsed: report.Elapsed, cpu: report.CPU}
}
