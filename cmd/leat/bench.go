package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/bench/load"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a broker: leat, Kafka, or any other that speaks the protocol",
		Long: "Measure a broker: leat, Kafka, or any other that speaks Kafka's protocol. Every answer is checked (offsets, counts, CRC), and a wrong one ends the run\n" +
			"without figures. Payloads are random bytes. With --rate, latency counts from the time when a request was to be sent.",
		Example: "  leat bench produce --records 64 --connections 4 --inflight 5\n" +
			"  leat bench produce --broker kafka:9092 --records 1 --size 100 --rate 1000 --output json\n" +
			"  leat bench fetch --topic orders --connections 4\n" +
			"  leat bench e2e --rate 1000",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchProduce(), newBenchFetch(), newBenchE2E())
	return cmd
}

// benchFlags are what the benchmarks have in common.
type benchFlags struct {
	addr, topic, output string
	partitions          int
	connections         int
	config              []string
	keep                bool
	size                string // bound
	run                 load.RunOptions
}

func (f *benchFlags) add(cmd *cobra.Command, connections, partitions int) {
	fs := cmd.Flags()
	fs.StringVar(&f.addr, "broker", "localhost:9092", "address of a broker, HOST:PORT")
	fs.StringVar(&f.topic, "topic", "", "an existing topic; by default one is made and deleted again")
	fs.IntVar(&f.partitions, "partitions", partitions, "partitions of a topic that is made")
	fs.StringArrayVar(&f.config, "topic-config", nil, "key=value of a topic that is made; may be given several times")
	fs.BoolVar(&f.keep, "keep", false, "do not delete the topic that was made")
	fs.IntVar(&f.connections, "connections", connections, "connections; a partition is used by one of them, or by several when there are more connections than partitions")
	fs.DurationVar(&f.run.Duration, "duration", 5*time.Second, "how long to measure")
	fs.DurationVar(&f.run.Warmup, "warmup", time.Second, "how long to run before that")
	fs.StringVar(&f.size, "max-bytes", "4GiB", "how many bytes of batches to measure at most")
	fs.IntVar(&f.run.PID, "broker-pid", 0, "process id of a broker on this machine, to measure its CPU time (Linux)")
	fs.StringVar(&f.output, "output", "table", "table or json")
}

func newBenchProduce() *cobra.Command {
	var f benchFlags
	var p produceFlags
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "Produce batches, and measure until they are acknowledged",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			return f.bench(cmd, func(_ context.Context, exclusive bool) ([]load.Load, error) {
				return []load.Load{p.load(&f, exclusive)}, nil
			})
		},
	}
	f.add(cmd, 4, 4)
	p.add(cmd, 16, 1024, 5, 0)
	return cmd
}

type produceFlags struct {
	records, size, inflight int
	rate                    float64
	acks                    string
}

func (p *produceFlags) add(cmd *cobra.Command, records, size, inflight int, rate float64) {
	fs := cmd.Flags()
	fs.IntVar(&p.records, "records", records, "records of a batch; a request has one batch")
	fs.IntVar(&p.size, "size", size, "bytes of a record's value")
	fs.IntVar(&p.inflight, "inflight", inflight, "requests in flight on each connection")
	fs.Float64Var(&p.rate, "rate", rate, "records per second of all connections together; 0: as fast as answers come")
	fs.StringVar(&p.acks, "acks", "all", "all or 1")
}

func (p *produceFlags) check() error {
	switch {
	case p.acks != "all" && p.acks != "1":
		return usageError{fmt.Errorf("--acks is all or 1, not %q", p.acks)}
	case p.rate < 0 || math.IsNaN(p.rate) || math.IsInf(p.rate, 0):
		return usageError{errors.New("--rate is 0 or more")}
	case p.records < 1 || p.size < 0 || p.inflight < 1:
		return usageError{errors.New("--records and --inflight are 1 or more, --size is 0 or more")}
	}
	return nil
}

// load is called behind check.
func (p *produceFlags) load(f *benchFlags, exclusive bool) *load.ProduceLoad {
	acks := int16(-1)
	if p.acks == "1" {
		acks = 1
	}
	return &load.ProduceLoad{
		Addr: f.addr, Topic: f.topic, Connections: f.connections, InFlight: p.inflight, Records: p.records, Size: p.size, Rate: p.rate,
		Acks: acks, Exclusive: exclusive,
	}
}

func newBenchFetch() *cobra.Command {
	var (
		f                benchFlags
		fetchBytes, fill string
	)
	cmd := &cobra.Command{
		Use:   "fetch",
		Short: "Fetch a topic, again and again, and check every batch",
		Long:  "Fetch what a topic has when it begins, again and again. Without --topic, one is made and filled first; then one answer of 61 is read and checked whole,\nof the others the length. Of an existing topic all is checked.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			bytes, err := parseBytes(fetchBytes)
			if err != nil || bytes > math.MaxInt32 || bytes < 1 {
				return usageError{fmt.Errorf("--fetch-bytes: not a size up to 2GiB: %q", fetchBytes)}
			}
			amount, err := parseBytes(fill)
			if err != nil {
				return usageError{fmt.Errorf("--fill: %w", err)}
			}
			return f.bench(cmd, func(ctx context.Context, exclusive bool) ([]load.Load, error) {
				l := &load.FetchLoad{Addr: f.addr, Topic: f.topic, Connections: f.connections, InFlight: 1, MaxBytes: int(bytes), MaxWait: 500 * time.Millisecond, Exclusive: exclusive}
				if exclusive {
					l.Uniform, _, err = load.Fill(ctx, f.addr, f.topic, amount)
				}
				return []load.Load{l}, err
			})
		},
	}
	f.add(cmd, 4, 4)
	cmd.Flags().StringVar(&fetchBytes, "fetch-bytes", "1MiB", "bytes per request")
	cmd.Flags().StringVar(&fill, "fill", "256MiB", "how much to put into the topic that is made")
	return cmd
}

func newBenchE2E() *cobra.Command {
	var (
		f         benchFlags
		p         produceFlags
		consumers int
	)
	cmd := &cobra.Command{
		Use:   "e2e",
		Short: "Measure from the producer to waiting consumers",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			return f.bench(cmd, func(_ context.Context, exclusive bool) ([]load.Load, error) {
				l := p.load(&f, exclusive)
				l.Stamp = true
				return []load.Load{l, &load.FetchLoad{
					Addr: f.addr, Topic: f.topic, Connections: consumers, InFlight: 1, MaxBytes: 1 << 20, MaxWait: 500 * time.Millisecond, Exclusive: exclusive, Tail: l,
				}}, nil
			})
		},
	}
	f.add(cmd, 1, 1)
	p.add(cmd, 1, 100, 100, 1000)
	cmd.Flags().IntVar(&consumers, "consumers", 1, "connections that consume, each one partition; at least as many as partitions")
	return cmd
}

// bench makes a topic when none was given, runs the loads and prints the figures. exclusive says that the topic is ours alone.
func (f *benchFlags) bench(cmd *cobra.Command, loads func(ctx context.Context, exclusive bool) ([]load.Load, error)) (err error) {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	if f.run.MaxBytes, err = parseBytes(f.size); err != nil {
		return usageError{fmt.Errorf("--max-bytes: %w", err)}
	}
	if f.run.Duration <= 0 || f.run.Warmup < 0 || f.connections < 1 || f.partitions < 1 {
		return usageError{errors.New("--duration, --connections and --partitions are more than nothing, --warmup is not less")}
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := load.CheckVersions(ctx, f.addr); err != nil {
		return err
	}
	exclusive := f.topic == ""
	if exclusive {
		if err := f.makeTopic(ctx); err != nil {
			return err
		}
		if !f.keep {
			defer func() {
				err = errors.Join(err, load.DeleteTopic(context.WithoutCancel(ctx), f.addr, f.topic))
			}()
		}
	}
	all, err := loads(ctx, exclusive)
	if err != nil {
		return err
	}
	report, err := load.Run(ctx, f.run, all...)
	if err != nil {
		return err
	}
	return printReport(cmd.OutOrStdout(), f.output, report)
}

func (f *benchFlags) makeTopic(ctx context.Context) error {
	f.topic = fmt.Sprintf("leat-bench-%d-%d", os.Getpid(), time.Now().UnixNano())
	config := map[string]string{}
	for _, kv := range f.config {
		k, v, ok := strings.Cut(kv, "=")
		if !ok {
			return usageError{fmt.Errorf("--topic-config takes key=value, not %q", kv)}
		}
		config[k] = v
	}
	_, err := load.CreateTopic(ctx, f.addr, f.topic, int32(min(f.partitions, math.MaxInt32)), config)
	return err
}

// benchFigures is one line of the output.
type benchFigures struct {
	Load          string          `json:"load"`
	Seconds       float64         `json:"seconds"`
	RecordsPerSec float64         `json:"recordsPerSecond"`
	MBPerSec      float64         `json:"megabytesPerSecond"`
	Requests      int64           `json:"requests"`
	Records       int64           `json:"records"`
	Bytes         int64           `json:"bytes"`
	Late          int64           `json:"late"`
	CPUSeconds    float64         `json:"brokerCPUSeconds,omitempty"`
	Latency       *load.Histogram `json:"latency"`
}

func printReport(w io.Writer, output string, r *load.Report) error {
	seconds := r.Elapsed.Seconds()
	var all []benchFigures
	for _, l := range r.Loads {
		all = append(all, benchFigures{
			Load: l.Name, Seconds: seconds, RecordsPerSec: float64(l.Records) / seconds, MBPerSec: float64(l.Bytes) / 1e6 / seconds,
			Requests: l.Requests, Records: l.Records, Bytes: l.Bytes, Late: l.Late, CPUSeconds: r.CPU.Seconds(), Latency: &l.Latency,
		})
	}
	if output == "json" {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(all)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "load\tseconds\trecords/s\tMB/s\trequests\tp50 ms\tp99 ms\tp99.9 ms\tmax ms\tlate\tbroker CPU s\t")
	for _, f := range all {
		ms := func(q float64) float64 { return load.Ms(f.Latency.Quantile(q)) }
		fmt.Fprintf(t, "%s\t%.2f\t%.0f\t%.1f\t%d\t%.3f\t%.3f\t%.3f\t%.3f\t%d\t%.2f\t\n",
			f.Load, f.Seconds, f.RecordsPerSec, f.MBPerSec, f.Requests, ms(0.5), ms(0.99), ms(0.999), load.Ms(f.Latency.Max()), f.Late, f.CPUSeconds)
	}
	return t.Flush()
}

// parseBytes reads a number of bytes with an optional suffix: KiB, MiB, GiB, KB, MB, GB.
func parseBytes(text string) (int64, error) {
	number, unit := text, int64(1)
	for _, u := range []struct {
		suffix string
		size   int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}} {
		if n, ok := strings.CutSuffix(text, u.suffix); ok {
			number, unit = n, u.size
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q is not a number of bytes such as 512MiB", text)
	}
	return n * unit, nil
}
