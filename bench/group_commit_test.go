//go:build linux

package bench

import (
	"testing"
	"time"

	"github.com/leatmq/leat/bench/load"
)

// BenchmarkOffsetCommit commits the offsets of 10 partitions at a time over 16 connections, each with one commit on its way, in one group or in 16: an answer
// means that it is on stable storage. All offsets are read back. `make compare ARGS="-workloads OC1,OC16"` does the same beside Kafka.
func BenchmarkOffsetCommit(b *testing.B) {
	for _, w := range []struct {
		name   string
		groups int
	}{{"OneGroup", 1}, {"SixteenGroups", 16}} {
		b.Run(w.name, func(b *testing.B) {
			broker := startChild(b, brokerSpec(scratch(b)))
			l := commitLoad(b, broker.addr, w.groups, 16, 10)
			broker.profile("commit-" + w.name)
			compare(b, "offset commit "+w.name, "", func() sample {
				return broker.measure(func() sample { return runCommits(b, l, load.RunOptions{Duration: *roundTime}) })
			}, nil)
		})
	}
}

func commitLoad(b testing.TB, addr string, groups, connections, partitions int) *load.CommitLoad {
	b.Helper()
	if _, err := load.CreateTopic(b.Context(), addr, "bench", int32(connections*partitions), nil); err != nil {
		b.Fatal(err)
	}
	return &load.CommitLoad{Addr: addr, Topic: "bench", Group: "bench", Groups: groups, Connections: connections, InFlight: 1, Partitions: partitions}
}

// runCommits commits, and reads back what was committed.
func runCommits(b testing.TB, l *load.CommitLoad, o load.RunOptions) (s sample) {
	b.Helper()
	begin := time.Now()
	r, err := load.Run(b.Context(), o, l)
	if err == nil {
		err = l.Verify(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	got := r.Loads[0]
	s = sample{ops: int(got.Requests), records: int(got.Records), bytes: got.Bytes, elapsed: time.Since(begin)}
	for percent := range 101 {
		s.latencies = append(s.latencies, int64(got.Latency.Quantile(float64(percent)/100)))
	}
	return s
}

func TestOffsetCommit(t *testing.T) {
	t.Parallel()
	broker := startChild(t, brokerSpec(scratch(t)))
	s := runCommits(t, commitLoad(t, broker.addr, 2, 3, 2), load.RunOptions{Duration: time.Minute, MaxBytes: 2000})
	if s.records == 0 {
		t.Error("nothing was committed")
	}
}
