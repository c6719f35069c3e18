//go:build linux

// Command compare runs the same workloads against leat and Apache Kafka on this machine, in turns, with one load generator for both, and prints what
// each does and how the two compare. It starts both brokers itself.
//
//	make compare                                      the standard set, under ten minutes
//	cd interop && go run ./compare -workloads P64,E1  some of it
//
// Before the first turn the machine's free memory is touched once, and before every turn everything written so far is synced, so that neither broker pays for
// the other's dirty pages. CPU time is the broker process's own, from /proc/PID/stat (ticks of 10 ms); work that the kernel does for it in other
// threads is in nobody's figures. The load generator (bench/load, franz-go in PC, PR and FC) checks every answer; a wrong one ends the workload, and
// the report says so. docs/BENCHMARKS.md has figures and how to read them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/leatmq/leat/bench/load"
	"github.com/leatmq/leat/interop/harness"
)

// options are how a run is bounded.
type options struct {
	names        []string
	rounds       int
	warmup, turn time.Duration
	maxBytes     int64   // of a turn
	scale        float64 // of the amounts of data and connections
	dir          string  // for the brokers' data
	touch        int64   // bytes of memory
	log          io.Writer
}

// rig is a run.
type rig struct {
	o      options
	bin    string // leat
	peers  map[string]*harness.Peer
	report report
}

func main() {
	var o options
	var names, out, work string
	flag.StringVar(&names, "workloads", "", "which, with commas between; default the standard set: P64 P16 P1 E1 E16 PC PR F1M F64K FC tail mixed T1000 idle start; others: OC1 OC16")
	flag.IntVar(&o.rounds, "rounds", 3, "turns of each broker and workload")
	flag.DurationVar(&o.turn, "turn", 2*time.Second, "how long a turn measures")
	flag.DurationVar(&o.warmup, "warmup", 500*time.Millisecond, "how long a turn runs before it measures")
	flag.Int64Var(&o.maxBytes, "max-bytes", 1<<30, "bytes that a turn produces at most while it measures")
	flag.Float64Var(&o.scale, "scale", 1, "how much data lies in the topics that are fetched, and how many connections are idle, in parts of the standard set")
	flag.StringVar(&out, "out", "bin", "directory for compare.json and compare.md")
	flag.StringVar(&work, "dir", "", "directory for the brokers' data; default a new one under TMPDIR, removed at the end")
	flag.Parse()
	o.log, o.touch = os.Stderr, 12<<30
	if names != "" {
		o.names = strings.Split(names, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := mainErr(ctx, o, work, out); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func mainErr(ctx context.Context, o options, work, out string) error {
	dir, err := os.MkdirTemp(work, "leat-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.dir = dir
	rep, failed := compare(ctx, o)
	if rep == nil || len(rep.Workloads) == 0 {
		return failed
	}
	fmt.Print(rep.markdown())
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	err = errors.Join(failed, os.WriteFile(filepath.Join(out, "compare.json"), b, 0o644), os.WriteFile(filepath.Join(out, "compare.md"), []byte(rep.markdown()), 0o644))
	if err == nil && len(rep.Problems) > 0 {
		err = errors.New("not everything was measured: " + strings.Join(rep.Problems, "; "))
	}
	return err
}

// compare is the whole run. A workload that fails is a problem in the report; only what spoils everything is an error. There may be a report with an error:
// what was measured before.
func compare(ctx context.Context, o options) (*report, error) {
	list, special, err := selected(o.names)
	if err != nil {
		return nil, err
	}
	if err := raiseFileLimit(16 << 10); err != nil {
		return nil, err
	}
	os.Setenv("KAFKA_HEAP", "1G") // twice what it needs here; so were the first measurements made
	debug.SetGCPercent(400)       // this process is the load generator
	r := &rig{o: o, peers: map[string]*harness.Peer{}, report: report{Begin: time.Now(), Rounds: o.rounds, Turn: o.turn.String()}}
	if r.report.Machine, err = describeMachine(o.dir); err != nil {
		return nil, err
	}
	r.say("touching memory")
	if err := touchMemory(o.touch); err != nil {
		return nil, err
	}
	if r.bin, err = harness.BuildLeat(o.dir); err != nil {
		return nil, err
	}
	if special["start"] {
		r.special(ctx, "start", r.start)
	}
	if err := r.launch(); err != nil {
		return nil, err
	}
	defer r.stop()
	if special["idle"] {
		r.special(ctx, "idle", r.idle)
	}
	if len(list) > 0 {
		r.say("warming up both brokers")
		if err := r.warm(ctx); err != nil {
			return &r.report, err
		}
	}
	for _, w := range list {
		r.measure(ctx, w)
	}
	r.report.Machine.LoadAfter = loadAverage()
	return &r.report, ctx.Err()
}

func (r *rig) say(format string, args ...any) {
	fmt.Fprintf(r.o.log, "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

func (r *rig) problem(name string, err error) {
	r.say("%s: %v", name, err)
	r.report.Problems = append(r.report.Problems, fmt.Sprintf("%s: %v", name, err))
}

func (r *rig) special(ctx context.Context, name string, fn func(context.Context) (measured, error)) {
	m, err := fn(ctx)
	if err != nil {
		r.problem(name, err)
		return
	}
	for _, f := range m.Facts {
		r.say("%s, %s: %s", f.Workload, f.Variant, f.Value)
	}
	r.report.Workloads = append(r.report.Workloads, m)
}

func (r *rig) scaled(n int64) int64 { return max(int64(float64(n)*r.o.scale), 1) }

// launch starts both brokers. Deleted topics go at once, so that they do not fill the page cache of later turns.
func (r *rig) launch() (err error) {
	const settings = "log.segment.delete.delay.ms=500"
	const kafkaSettings = "log.initial.task.delay.ms=500" // an internal key: else the first deletion is 30 s late
	if r.peers[harness.LeatKind], err = harness.LaunchLeat(filepath.Join(r.o.dir, "leat-data"), r.bin, settings); err != nil {
		return err
	}
	if r.peers[harness.KafkaKind], err = harness.LaunchKafka(filepath.Join(r.o.dir, "kafka-data"), settings, kafkaSettings); err != nil {
		r.peers[harness.LeatKind].Kill()
	}
	return err
}

// warm uses what the workloads use for a while, so that the JVM has compiled it and buffers have grown.
func (r *rig) warm(ctx context.Context) error {
	for _, kind := range []string{harness.LeatKind, harness.KafkaKind} {
		addr := r.peers[kind].Addr
		if _, err := load.CreateTopic(ctx, addr, "warm", 4, nil); err != nil {
			return err
		}
		u, _, err := load.Fill(ctx, addr, "warm", r.scaled(256<<20))
		if err != nil {
			return err
		}
		o := load.RunOptions{Duration: r.o.turn}
		for _, l := range []load.Load{
			&load.FetchLoad{Addr: addr, Topic: "warm", Connections: 4, InFlight: 1, MaxBytes: 1 << 20, MaxWait: time.Second, Uniform: u, Exclusive: true},
			&load.ProduceLoad{Addr: addr, Topic: "warm", Connections: 4, InFlight: 5, Records: 4, Size: 1013, Acks: -1, Exclusive: true},
			&load.ProduceLoad{Addr: addr, Topic: "warm", Connections: 1, InFlight: 1, Records: 1, Size: 100, Acks: -1, Exclusive: true},
			&load.CommitLoad{Addr: addr, Topic: "warm", Group: "warm", Groups: 1, Connections: 4, InFlight: 1, Partitions: 1},
			&load.CommitLoad{Addr: addr, Topic: "warm", Group: "warm", Groups: 4, Connections: 4, InFlight: 1, Partitions: 1},
		} {
			if _, err := load.Run(ctx, o, l); err != nil {
				return err
			}
		}
		if err := load.DeleteTopic(ctx, addr, "warm"); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) stop() {
	for kind, p := range r.peers {
		if err := p.Stop(); err != nil {
			r.problem("stop "+kind, err)
		}
	}
}

// measure runs a workload in turns.
func (r *rig) measure(ctx context.Context, w *workload) {
	if ctx.Err() != nil {
		return
	}
	m := measured{Name: w.name, What: w.what}
	variants := w.variants()
	places := make([]place, len(variants))
	for i, v := range variants {
		m.Variants = append(m.Variants, variantSamples{Variant: v.name, Fsync: v.fsync})
		places[i] = place{rig: r, w: w, v: v, name: strings.ToLower(w.name) + "-" + strings.ReplaceAll(v.name, " ", "-")}
		defer places[i].remove(ctx)
	}
	for round := range r.o.rounds {
		for i := range variants {
			s, err := places[i].turn(ctx, round)
			if err != nil {
				r.problem(fmt.Sprintf("%s, %s", w.name, variants[i].name), err)
				return
			}
			r.say("%s, %s: %s records/s, %.0f MB/s, %.2f CPU s, p50 %.2f ms, p99 %.2f ms, %.1f s, others %.2f cores", w.name, variants[i].name, thousands(s.rate()), s.megabytes(), s.CPU, s.P50, s.P99, s.Seconds, s.Others)
			m.Variants[i].Samples = append(m.Variants[i].Samples, s)
		}
	}
	of := func(i int) []sample { return m.Variants[i].Samples }
	m.Comparisons = append(m.Comparisons, compared(variants[0].name, variants[1].name, of(0), of(1), w.targets))
	if w.atParity {
		m.Comparisons = append(m.Comparisons, compared(variants[0].name, variants[3].name, of(0), of(3), w.parity), compared(variants[2].name, variants[1].name, of(2), of(1), targets{}))
	}
	r.report.Workloads = append(r.report.Workloads, m)
}

// place is where a workload's turns at one broker happen.
type place struct {
	rig     *rig
	w       *workload
	v       brokerVariant
	name    string
	topic   string // that exists now
	layout  load.Layout
	records int64
}

func (p *place) turn(ctx context.Context, round int) (sample, error) {
	peer := p.rig.peers[p.v.kind]
	if p.w.fresh || p.topic == "" {
		p.remove(ctx)
		if err := p.make(ctx, round); err != nil {
			return sample{}, err
		}
	}
	syscall.Sync()
	o := &p.rig.o
	t := turn{addr: peer.Addr, topic: p.topic, config: p.v.config, dataDir: peer.DataDir(), pid: peer.Pid(), warmup: o.warmup, length: o.turn, maxBytes: o.maxBytes}
	before, err := p.rig.elsewhere()
	if err != nil {
		return sample{}, err
	}
	begin := time.Now()
	s, err := p.w.run(ctx, p.rig, t, p.layout, p.records)
	if err != nil {
		return s, err
	}
	after, err := p.rig.elsewhere()
	if err != nil {
		return s, err
	}
	s.Others = max((after-before).Seconds()/time.Since(begin).Seconds(), 0)
	rss, err := load.ProcessRSS(peer.Pid())
	s.RSS = float64(rss) / (1 << 20)
	return s, err
}

// elsewhere is the CPU time that neither this program nor a broker has used.
func (r *rig) elsewhere() (time.Duration, error) {
	busy, err := busyTime()
	if err != nil {
		return 0, err
	}
	for _, pid := range []int{os.Getpid(), r.peers[harness.LeatKind].Pid(), r.peers[harness.KafkaKind].Pid()} {
		own, err := load.ProcessCPU(pid)
		if err != nil {
			return 0, err
		}
		busy -= own
	}
	return busy, nil
}

// make makes the topic, with data if the workload wants some.
func (p *place) make(ctx context.Context, round int) (err error) {
	addr := p.rig.peers[p.v.kind].Addr
	p.topic = fmt.Sprintf("%s.%d", p.name, round) // no name is the beginning of another
	if _, err = load.CreateTopic(ctx, addr, p.topic, int32(p.w.partitions), p.v.config); err != nil || p.w.data == 0 {
		return err
	}
	p.layout, p.records, err = load.Fill(ctx, addr, p.topic, p.rig.scaled(p.w.data))
	return err
}

func (p *place) remove(ctx context.Context) {
	if p.topic == "" {
		return
	}
	peer := p.rig.peers[p.v.kind]
	if err := load.DeleteTopic(ctx, peer.Addr, p.topic); err != nil {
		p.rig.problem("delete "+p.topic, err)
	}
	p.topic = ""
	err := harness.Poll(40*time.Second, func() error { // its pages leave the cache with it, in nobody's turn
		left, err := filepath.Glob(filepath.Join(peer.DataDir(), p.name+".*"))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%s is still there", left[0])
		}
		return err
	}, ctx.Done())
	if err != nil {
		p.rig.problem("delete", err)
	}
}
