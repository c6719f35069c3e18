//go:build linux

// Command clientspeed compares what clients cost: the CPU time of the client's process for each record, not the broker's. It starts one broker, and lets the clients take turns at the
// same work against it, in this process:
//
//	cd interop && go run ./clientspeed
//
// With -rate, records are sent at a fixed rate, and what is measured is the time from when a record was to be sent until its acknowledgement.
//
// A turn begins with a garbage collection and a warm-up. CPU time is getrusage's for this process, allocations are those of the Go runtime; both are of the whole turn, with whatever
// the client does beside. Every acknowledgement is checked, and every record that is read: that it is the next one, and as long as it should be.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leatmq/leat/interop/harness"
)

// work is what a client does in a turn.
type work struct {
	addr, topic string
	size        int           // bytes of a record's value
	length      time.Duration // how long it is measured
	warmup      time.Duration
	maxRecords  int64
	rate        float64 // records/s; 0: as fast as it goes
	anyOrder    bool    // the client does not tell of records in their order
	meter       *meter
}

// client is a client that takes turns.
type client struct {
	name             string
	produce, consume func(ctx context.Context, w work) error
}

var clients = []client{{"leat", leatProduce, leatConsume}, {"leat-reuse", nil, leatConsumeReusing}, {"franz-go", franzProduce, franzConsume}}

func main() {
	var names, sizes, kinds string
	var rounds int
	var w work
	flag.StringVar(&names, "clients", "", "which, with commas between; default all")
	flag.StringVar(&kinds, "work", "produce,consume", "what they do, with commas between")
	flag.StringVar(&sizes, "sizes", "100,1024", "bytes of records' values")
	flag.IntVar(&rounds, "rounds", 5, "turns of each client")
	flag.DurationVar(&w.length, "turn", 2*time.Second, "how long a turn measures")
	flag.DurationVar(&w.warmup, "warmup", 500*time.Millisecond, "how long a turn runs before")
	flag.Float64Var(&w.rate, "rate", 0, "records per second; 0: as fast as it goes")
	flag.Int64Var(&w.maxRecords, "max-records", 5_000_000, "records of a turn at most")
	profile := flag.String("cpuprofile", "", "file for a CPU profile of all turns")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "clientspeed:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, w, names, kinds, sizes, rounds); err != nil {
		fmt.Fprintln(os.Stderr, "clientspeed:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w work, names, kinds, sizes string, rounds int) error {
	dir, err := os.MkdirTemp("", "leat-clientspeed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin, err := harness.BuildLeat(dir)
	if err != nil {
		return err
	}
	peer, err := harness.LaunchLeat(dir, bin)
	if err != nil {
		return err
	}
	defer func() { _ = peer.Stop() }()
	w.addr = peer.Addr
	for size := range strings.SplitSeq(sizes, ",") {
		if _, err := fmt.Sscan(size, &w.size); err != nil {
			return fmt.Errorf("-sizes %s: %w", sizes, err)
		}
		for kind := range strings.SplitSeq(kinds, ",") {
			if err := compare(ctx, w, names, kind, rounds); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare lets the clients take turns at one kind of work with records of one size.
func compare(ctx context.Context, w work, names, kind string, rounds int) error {
	results := map[string][]sample{}
	for round := range rounds {
		for _, c := range clients {
			if names != "" && !slices.Contains(strings.Split(names, ","), c.name) {
				continue
			}
			w.topic = fmt.Sprintf("%s-%s-%d-%d", kind, c.name, w.size, round)
			do, prepare := c.produce, createTopic
			if kind == "consume" {
				do, prepare = c.consume, func(ctx context.Context, addr, topic string) error { return fillTopic(ctx, w) }
			}
			if do == nil {
				continue
			}
			s, err := turn(ctx, w, prepare, do)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			results[c.name] = append(results[c.name], s)
		}
	}
	print(kind, w.size, results)
	return nil
}

// sample is what a turn measured.
type sample struct {
	perSecond, perCPUSecond, allocs float64 // records, records, allocations of a record
	kernel                          float64 // share of the CPU time
	p50, p99                        float64 // ms, at a fixed rate
}

func turn(ctx context.Context, w work, prepare func(ctx context.Context, addr, topic string) error, do func(ctx context.Context, w work) error) (sample, error) {
	if err := prepare(ctx, w.addr, w.topic); err != nil {
		return sample{}, err
	}
	w.meter = &meter{}
	runtime.GC()
	if err := do(ctx, w); err != nil {
		return sample{}, err
	}
	s := w.meter.sample()
	if w.rate > 0 {
		s.p50, s.p99 = w.meter.late(0.5), w.meter.late(0.99)
	}
	return s, deleteTopic(ctx, w.addr, w.topic)
}

// meter measures between start and stop.
type meter struct {
	records  int64
	begin    time.Time
	cpu      time.Duration
	kernel   time.Duration // of it
	mallocs  uint64
	duration time.Duration

	mu        sync.Mutex
	latencies []time.Duration
}

// late is a quantile of the latencies, ms.
func (m *meter) late(q float64) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.latencies) == 0 {
		return 0
	}
	slices.Sort(m.latencies)
	return m.latencies[int(q*float64(len(m.latencies)-1))].Seconds() * 1e3
}

func (m *meter) start() {
	m.begin, m.mallocs = time.Now(), mallocs()
	m.cpu, m.kernel = cpuTime()
}

func (m *meter) stop(records int64) {
	cpu, kernel := cpuTime()
	m.duration, m.cpu, m.kernel, m.mallocs, m.records = time.Since(m.begin), cpu-m.cpu, kernel-m.kernel, mallocs()-m.mallocs, records
}

func (m *meter) sample() sample {
	n := float64(m.records)
	return sample{perSecond: n / m.duration.Seconds(), perCPUSecond: n / m.cpu.Seconds(), allocs: float64(m.mallocs) / n, kernel: m.kernel.Seconds() / m.cpu.Seconds()}
}

// cpuTime is this process's CPU time, and the kernel's part of it.
func cpuTime() (all, kernel time.Duration) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), time.Duration(u.Stime.Nano())
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func median(all []sample, of func(sample) float64) float64 {
	values := make([]float64, len(all))
	for i, s := range all {
		values[i] = of(s)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func print(kind string, size int, results map[string][]sample) {
	fmt.Printf("\n%s, %d B\n%-10s %14s %18s %8s %8s %14s %8s %8s   %s\n", kind, size, "client", "records/s", "records/CPU s", "ns CPU", "kernel", "allocs/record", "p50 ms", "p99 ms", "records/CPU s of each turn")
	for _, c := range clients {
		all := results[c.name]
		if len(all) == 0 {
			continue
		}
		perCPU := median(all, func(s sample) float64 { return s.perCPUSecond })
		var turns []string
		for _, s := range all {
			turns = append(turns, fmt.Sprintf("%.0f", s.perCPUSecond))
		}
		fmt.Printf("%-10s %14.0f %18.0f %8.0f %7.0f%% %14.4f %8.2f %8.2f   %s\n", c.name, median(all, func(s sample) float64 { return s.perSecond }), perCPU, 1e9/perCPU, 100*median(all, func(s sample) float64 { return s.kernel }),
			median(all, func(s sample) float64 { return s.allocs }), median(all, func(s sample) float64 { return s.p50 }), median(all, func(s sample) float64 { return s.p99 }), strings.Join(turns, " "))
	}
}
