//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/leatmq/leat/bench/load"
	"github.com/leatmq/leat/interop/harness"
)

// turn is one measurement at one broker.
type turn struct {
	addr, topic, dataDir string
	config               map[string]string // of the topic
	pid                  int
	warmup, length       time.Duration
	maxBytes             int64
}

// workload is one way to use a broker. Kafka's and leat's turns alternate.
type workload struct {
	name, what string
	partitions int
	fresh      bool  // a new topic for each turn: much is written
	data       int64 // bytes that must be in the topic
	extra      bool  // not in the standard set, which would take too long with it
	atParity   bool  // also with the promises exchanged: Kafka with a sync, leat without
	targets    targets
	parity     targets // against Kafka with flush.messages=1
	run        func(ctx context.Context, r *rig, t turn, u load.Layout, records int64) (sample, error)
}

// brokerVariant is a broker with a topic setting.
type brokerVariant struct {
	name, kind, fsync string
	config            map[string]string
}

var (
	leatPlain  = brokerVariant{"leat", harness.LeatKind, leatFsync, nil}
	kafkaPlain = brokerVariant{"Kafka", harness.KafkaKind, kafkaDefault, nil}
	leatCache  = brokerVariant{"leat caching", harness.LeatKind, leatCaching, map[string]string{"write.caching": "true"}}
	kafkaSync  = brokerVariant{"Kafka flush", harness.KafkaKind, kafkaFlush, map[string]string{"flush.messages": "1"}}
)

func (w *workload) variants() []brokerVariant {
	if w.atParity {
		return []brokerVariant{leatPlain, kafkaPlain, leatCache, kafkaSync}
	}
	return []brokerVariant{leatPlain, kafkaPlain}
}

// atMost is a target for CPU: at most x times as much.
func atMost(x float64) bound { return bound(1 / x) }

func workloads() []*workload {
	return []*workload{
		{name: "P64", what: "produce batches of 64 x 1 KiB, 4 connections on 4 partitions, 5 requests in flight each", partitions: 4, fresh: true, atParity: true,
			targets: targets{3, 6, 0, -0.5}, parity: targets{rate: 8}, run: produce(load.ProduceLoad{Connections: 4, InFlight: 5, Records: 64, Size: 1013})},
		{name: "P16", what: "the same, batches of 16 x 1 KiB", partitions: 4, fresh: true, atParity: true,
			targets: targets{3, 6, 0, -0.5}, parity: targets{rate: 10}, run: produce(load.ProduceLoad{Connections: 4, InFlight: 5, Records: 16, Size: 1013})},
		{name: "P1", what: "one record of 1 KiB per request, 16 connections on 16 partitions, 5 requests in flight each", partitions: 16,
			targets: targets{2.5, 3, 0, -0.5}, run: produce(load.ProduceLoad{Connections: 16, InFlight: 5, Records: 1, Size: 1024})},
		{name: "E1", what: "one record of 100 B, one connection, one request at a time", partitions: 1, atParity: true,
			targets: targets{1, 3, -1, -0.8}, parity: targets{rate: 4}, run: produce(load.ProduceLoad{Connections: 1, InFlight: 1, Records: 1, Size: 100})},
		{name: "E16", what: "the same, 16 connections on 16 partitions", partitions: 16, atParity: true,
			targets: targets{2, 3, 0, -0.5}, parity: targets{rate: 10}, run: produce(load.ProduceLoad{Connections: 16, InFlight: 1, Records: 1, Size: 100})},
		{name: "PC", what: "franz-go producer, 1 KiB records, no compression, linger 5 ms, idempotent, 4 partitions", partitions: 4, fresh: true,
			targets: targets{rate: 1.3, perCPU: 5}, run: func(ctx context.Context, _ *rig, t turn, _ load.Layout, _ int64) (sample, error) {
				return franzProduce(ctx, t, 5*time.Millisecond, 0)
			}},
		{name: "PR", what: "franz-go producer at a fixed 10,000 records of 1 KiB per second, no linger, latency from the intended time", partitions: 4,
			targets: targets{perCPU: atMost(0.3), p99: -0.6}, run: func(ctx context.Context, _ *rig, t turn, _ load.Layout, _ int64) (sample, error) {
				return franzProduce(ctx, t, 0, 10_000)
			}},
		{name: "F1M", what: "fetch a whole topic again and again from the page cache, 4 connections on 4 partitions, 1 MiB per request", partitions: 4, data: 512 << 20,
			targets: targets{1.5, atMost(0.4), 0, -0.5}, run: fetch(1 << 20)},
		{name: "F64K", what: "the same, 64 KiB per request", partitions: 4, data: 512 << 20,
			targets: targets{rate: 1.5, perCPU: atMost(0.5)}, run: fetch(64 << 10)},
		{name: "FC", what: "franz-go consumer over the whole topic", partitions: 4, data: 512 << 20,
			targets: targets{rate: 1.1, perCPU: atMost(0.5)}, run: func(ctx context.Context, _ *rig, t turn, _ load.Layout, records int64) (sample, error) {
				return franzConsume(ctx, t, 4, records)
			}},
		{name: "tail", what: "64 waiting consumers on 16 partitions, one producer at 20,000 records of 100 B per second in batches of 20; latency from the intended time to each consumer",
			partitions: 16, targets: targets{perCPU: atMost(0.3), p99: -0.5}, run: tail},
		{name: "mixed", what: "4 consumers read cold data (1 MiB per request, page cache dropped) while P16 goes on at half of Kafka's P16 rate for both; throughput is the consumers', latency the producer's",
			partitions: 4, data: 1536 << 20, targets: targets{1.5, atMost(0.5), 0, -0.5}, run: mixed},
		{name: "T1000", what: "1,000 active partitions, 20 MB/s in all, batches of 16 x 1 KiB, 16 connections, latency from the intended time", partitions: 1000,
			targets: targets{perCPU: atMost(0.3), p99: -0.5}, run: produce(load.ProduceLoad{Connections: 16, InFlight: 5, Records: 16, Size: 1013, Rate: 20e6 / 1024})},
		{name: "OC1", what: "16 consumers of one group commit the offsets of 10 partitions each, one commit at a time; a record is an offset", partitions: 160, extra: true, atParity: true,
			targets: targets{perCPU: 3}, run: commits(1)},
		{name: "OC16", what: "the same, each in a group of its own", partitions: 160, extra: true, atParity: true, targets: targets{perCPU: 3}, run: commits(16)},
	}
}

// produce makes a workload of a load.
func produce(l load.ProduceLoad) func(context.Context, *rig, turn, load.Layout, int64) (sample, error) {
	return func(ctx context.Context, _ *rig, t turn, _ load.Layout, _ int64) (sample, error) {
		l := l
		l.Addr, l.Topic, l.Acks, l.Exclusive = t.addr, t.topic, -1, true
		return one(load.Run(ctx, t.options(), &l))
	}
}

// commits makes a workload of 16 committers. What they committed is read back. The config of the variant is that of the topic of the coordinators meanwhile.
func commits(groups int) func(context.Context, *rig, turn, load.Layout, int64) (sample, error) {
	return func(ctx context.Context, _ *rig, t turn, _ load.Layout, _ int64) (s sample, err error) {
		if len(t.config) > 0 {
			undo, no := load.ConfigureOffsets(ctx, t.addr, t.config)
			if no != nil {
				return s, no
			}
			defer func() { err = errors.Join(err, undo()) }()
		}
		l := &load.CommitLoad{Addr: t.addr, Topic: t.topic, Group: t.topic, Groups: groups, Connections: 16, InFlight: 1, Partitions: 10}
		s, err = one(load.Run(ctx, t.options(), l))
		if err == nil {
			err = l.Verify(ctx)
		}
		if err == nil {
			err = l.DeleteGroups(ctx)
		}
		return s, err
	}
}

func (t *turn) options() load.RunOptions {
	return load.RunOptions{Warmup: t.warmup, Duration: t.length, MaxBytes: t.maxBytes, PID: t.pid}
}

// one is the sample of a run with one load.
func one(r *load.Report, err error) (sample, error) {
	if err != nil {
		return sample{}, err
	}
	return sampleOf(r, 0, 0)
}

// sampleOf takes the work of one load and the latency of another, or of the same.
func sampleOf(r *load.Report, work, latency int) (sample, error) {
	w := r.Loads[work]
	if w.Records == 0 {
		return sample{}, errors.New("nothing was answered")
	}
	s := sample{Seconds: r.Elapsed.Seconds(), Records: float64(w.Records), Bytes: float64(w.Bytes), CPU: r.CPU.Seconds()}
	for _, l := range r.Loads {
		s.Late += float64(l.Late)
	}
	s.latencies(&r.Loads[latency].Latency)
	return s, nil
}

func (s *sample) latencies(h *load.Histogram) {
	s.P50, s.P99, s.P999, s.Max = load.Ms(h.Quantile(0.5)), load.Ms(h.Quantile(0.99)), load.Ms(h.Quantile(0.999)), load.Ms(h.Max())
}

func fetch(size int) func(context.Context, *rig, turn, load.Layout, int64) (sample, error) {
	return func(ctx context.Context, _ *rig, t turn, u load.Layout, _ int64) (sample, error) {
		o := t.options()
		o.MaxBytes = 0
		return one(load.Run(ctx, o, fetchLoad(t, u, size)))
	}
}

func fetchLoad(t turn, u load.Layout, size int) *load.FetchLoad {
	return &load.FetchLoad{Addr: t.addr, Topic: t.topic, Connections: 4, InFlight: 1, MaxBytes: size, MaxWait: 500 * time.Millisecond, Uniform: u, Exclusive: true}
}

func tail(ctx context.Context, _ *rig, t turn, _ load.Layout, _ int64) (sample, error) {
	p := &load.ProduceLoad{Addr: t.addr, Topic: t.topic, Connections: 1, InFlight: 200, Records: 20, Size: 100, Rate: 20_000, Acks: -1, Exclusive: true, Stamp: true}
	f := &load.FetchLoad{Addr: t.addr, Topic: t.topic, Connections: 64, InFlight: 1, MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond, Exclusive: true, Tail: p}
	r, err := load.Run(ctx, t.options(), p, f)
	if err != nil {
		return sample{}, err
	}
	return sampleOf(r, 0, 1)
}

func mixed(ctx context.Context, r *rig, t turn, u load.Layout, _ int64) (sample, error) {
	hot := t.topic + "-hot"
	if _, err := load.CreateTopic(ctx, t.addr, hot, 4, nil); err != nil {
		return sample{}, err
	}
	defer load.DeleteTopic(ctx, t.addr, hot)
	if err := dropCached(t.dataDir, t.topic); err != nil {
		return sample{}, err
	}
	p := &load.ProduceLoad{Addr: t.addr, Topic: hot, Connections: 4, InFlight: 5, Records: 16, Size: 1013, Rate: r.halfOfP16(), Acks: -1, Exclusive: true}
	o := t.options()
	o.Warmup, o.MaxBytes = 0, r.scaled(1536<<20) // the consumers come to the end of nothing
	report, err := load.Run(ctx, o, p, fetchLoad(t, u, 1<<20))
	if err != nil {
		return sample{}, err
	}
	return sampleOf(report, 1, 0)
}

// halfOfP16 is half of what Kafka did in P16 of this run, in records per second.
func (r *rig) halfOfP16() float64 {
	for i := range r.report.Workloads {
		w := &r.report.Workloads[i]
		k := slices.IndexFunc(w.Variants, func(v variantSamples) bool { return v.Variant == kafkaPlain.name })
		if w.Name == "P16" && k >= 0 {
			return medianOf(w.Variants[k].Samples, sample.rate) / 2
		}
	}
	return 50_000
}

// selected are the workloads with these names; no names are the standard set.
func selected(names []string) (all []*workload, special map[string]bool, err error) {
	known := workloads()
	special = map[string]bool{"idle": len(names) == 0, "start": len(names) == 0}
	if len(names) == 0 {
		return slices.DeleteFunc(known, func(w *workload) bool { return w.extra }), special, nil
	}
	for _, n := range names {
		i := slices.IndexFunc(known, func(w *workload) bool { return w.name == n })
		_, isSpecial := special[n]
		switch {
		case i >= 0:
			all = append(all, known[i])
		case isSpecial:
			special[n] = true
		default:
			return nil, nil, fmt.Errorf("there is no workload %q", n)
		}
	}
	return all, special, nil
}
