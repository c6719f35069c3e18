package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/leatmq/leat/coordinator"
	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/metrics"
	"github.com/leatmq/leat/netio"
)

// The page of metrics.listener. Everything on it is counted or known anyway; nothing is counted for it. What is on it is bounded by the configuration
// (listeners, log directories), by the code (states of groups), or here: group.ExpiringMax groups. No topic, partition, client or member has a line.

// listenMetrics takes the address of metrics.listener, if there is one.
func (b *Broker) listenMetrics(address string) (err error) {
	if address == "" {
		return nil
	}
	b.metrics, err = metrics.Listen(metrics.Options{Address: address, Collect: b.collectMetrics, NowMs: b.steady, Logger: b.log})
	if err != nil {
		return &listenError{address, "metrics.listener", err}
	}
	return nil
}

func (b *Broker) startMetrics() {
	if b.metrics != nil {
		b.metrics.Start()
		b.log.Info("metrics are served", "url", "http://"+b.metrics.Addr().String()+"/metrics")
	}
}

// stopMetrics ends the page; nothing is collected any more when it returns. It may be called again.
func (b *Broker) stopMetrics() {
	if b.metrics != nil {
		b.metrics.Close()
	}
}

func (b *Broker) collectMetrics(ctx context.Context, w *metrics.Writer) {
	metrics.Process(w)
	b.networkMetrics(w)
	image := b.meta.Image()
	w.One("leat_brokers", metrics.Gauge, "Brokers of the cluster.", int64(len(image.Brokers())))
	w.One("leat_topics", metrics.Gauge, "Topics of the cluster.", int64(image.TopicCount()))
	w.One("leat_partitions", metrics.Gauge, "Partitions of the cluster.", int64(image.PartitionCount()))
	w.One("leat_metadata_offset", metrics.Gauge, "Offset of the next record of the metadata log: it grows with every change.", image.Offset())
	dirMetrics(w, b.engine.Dirs())
	cleanerMetrics(w, b.engine.CleanerStats())
	states, sum := b.groups.look(ctx)
	groupMetrics(w, states, sum)
}

func (b *Broker) networkMetrics(w *metrics.Writer) {
	stats, names := make([]netio.Stats, len(b.servers)), make([]string, len(b.servers))
	for i := range b.servers {
		stats[i], names[i] = b.servers[i].server.Stats(), b.servers[i].label()
	}
	for _, m := range []struct {
		name string
		kind metrics.Kind
		help string
		of   func(*netio.Stats) int64
	}{
		{"leat_connections", metrics.Gauge, "Open connections.", func(s *netio.Stats) int64 { return s.Connections }},
		{"leat_connections_muted", metrics.Gauge, "Open connections that are not read because of a limit, or until an answer has left.", func(s *netio.Stats) int64 { return s.Muted }},
		{"leat_connections_accepted_total", metrics.Counter, "Connections accepted.", func(s *netio.Stats) int64 { return s.Accepted }},
		{"leat_connections_rejected_total", metrics.Counter, "Connections closed at once: max.connections or max.connections.per.ip.", func(s *netio.Stats) int64 { return s.Rejected }},
		{"leat_accept_pauses_total", metrics.Counter, "Times that no connection was accepted for want of descriptors or memory.", func(s *netio.Stats) int64 { return s.AcceptPauses }},
		{"leat_requests_total", metrics.Counter, "Requests received.", func(s *netio.Stats) int64 { return s.Requests }},
		{"leat_requests_in_flight", metrics.Gauge, "Requests whose answer has not left completely.", func(s *netio.Stats) int64 { return s.InFlight }},
		{"leat_request_panics_total", metrics.Counter, "Requests whose handling met a bug of leat on the event loop.", func(s *netio.Stats) int64 { return s.Panics }},
		{"leat_received_bytes_total", metrics.Counter, "Bytes received from clients.", func(s *netio.Stats) int64 { return s.BytesIn }},
		{"leat_sent_bytes_total", metrics.Counter, "Bytes sent to clients.", func(s *netio.Stats) int64 { return s.BytesOut }},
		{"leat_queued_answer_bytes", metrics.Gauge, "Bytes in memory of answers that have not left.", func(s *netio.Stats) int64 { return s.QueuedBytes }},
	} {
		w.Family(m.name, m.kind, m.help)
		for i := range stats {
			w.Int(m.of(&stats[i]), "listener", names[i])
		}
	}
	if len(stats) > 0 { // the memory is of all listeners together
		w.One("leat_request_frame_bytes", metrics.Gauge, "Bytes in memory of requests that are not answered; queued.max.request.bytes is the limit.", stats[0].FrameBytes)
	}
}

// label tells a listener from the others: its name need not, and port 0 does not.
func (l *listening) label() string {
	bound := l.listener
	bound.Port = l.port()
	return bound.String()
}

// dirMetrics tells of the log directories. What is not known of one that is offline is left out.
func dirMetrics(w *metrics.Writer, dirs []engine.DirStatus) {
	sums := make([]struct{ bytes, start, end int64 }, len(dirs))
	for i := range dirs {
		for _, l := range dirs[i].Logs {
			sums[i].bytes += l.Size()
			sums[i].start += l.StartOffset()
			sums[i].end += l.EndOffset()
		}
	}
	each := func(name, help string, of func(i int) int64) {
		w.Family(name, metrics.Gauge, help)
		for i := range dirs {
			if v := of(i); v >= 0 {
				w.Int(v, "dir", dirs[i].Path)
			}
		}
	}
	bit := func(v bool) int64 {
		if v {
			return 1
		}
		return 0
	}
	each("leat_log_dir_online", "1 while the log directory works, 0 when its disk has failed.", func(i int) int64 { return bit(dirs[i].Err == nil) })
	each("leat_log_dir_full", "1 while appends find no space in the log directory.", func(i int) int64 { return bit(dirs[i].Full) })
	each("leat_log_dir_total_bytes", "Size of the log directory's file system.", func(i int) int64 { return dirs[i].Usage.Total })
	each("leat_log_dir_free_bytes", "Free space of the log directory's file system.", func(i int) int64 { return dirs[i].Usage.Free })
	each("leat_log_dir_partitions", "Partitions in the log directory, the metadata's included.", func(i int) int64 { return int64(len(dirs[i].Logs)) })
	each("leat_log_dir_log_bytes", "Bytes of the segments in the log directory.", func(i int) int64 { return sums[i].bytes })
	each("leat_log_dir_start_offsets", "Start offsets of the partitions in the log directory, added up.", func(i int) int64 { return sums[i].start })
	each("leat_log_dir_end_offsets", "End offsets of the partitions in the log directory, added up: it grows with every record, and falls when partitions are deleted.", func(i int) int64 { return sums[i].end })
}

func cleanerMetrics(w *metrics.Writer, s engine.CleanerStats) {
	w.One("leat_cleaner_rounds_total", metrics.Counter, "Rounds of compaction.", s.Rounds)
	w.One("leat_cleaner_failures_total", metrics.Counter, "Rounds of compaction that failed.", s.Failures)
	w.One("leat_cleaner_failing_partitions", metrics.Gauge, "Partitions whose last round of compaction failed.", s.Failing)
	w.One("leat_cleaner_read_bytes_total", metrics.Counter, "Bytes of segments that were compacted, before.", s.BytesRead)
	w.One("leat_cleaner_left_bytes_total", metrics.Counter, "Bytes of segments that were compacted, after.", s.BytesLeft)
	w.One("leat_cleaner_kept_records_total", metrics.Counter, "Records that compaction kept.", s.RecordsKept)
	w.One("leat_cleaner_removed_records_total", metrics.Counter, "Records that compaction removed.", s.RecordsGone)
}

// groupMetrics tells of the groups whose partitions could be looked at.
func groupMetrics(w *metrics.Writer, states map[string]int64, sum *group.Summary) {
	w.Family("leat_group_partitions", metrics.Gauge, "Partitions of __consumer_offsets that this broker leads, by state. The groups of those that are not active are in no other number.")
	for _, state := range lookStates {
		w.Int(states[state], "state", state)
	}
	w.Family("leat_groups", metrics.Gauge, "Groups, in the words of ListGroups.")
	classes := slices.SortedFunc(maps.Keys(sum.Groups), func(a, b group.Class) int { return strings.Compare(a.Type+" "+a.State, b.Type+" "+b.State) })
	for _, c := range classes {
		w.Int(int64(sum.Groups[c]), "type", c.Type, "state", c.State)
	}
	w.One("leat_group_offsets", metrics.Gauge, "Committed offsets: partitions, of all groups.", int64(sum.Offsets))
	w.One("leat_groups_expiring", metrics.Gauge, "Groups that lose committed offsets within a day (offsets.retention.minutes) unless they are used again.", int64(sum.ExpiringGroups))
	w.One("leat_group_offsets_expiring", metrics.Gauge, "Committed offsets that these groups lose within a day: partitions.", int64(sum.ExpiringOffsets))
	w.Family("leat_group_expiring_offsets", metrics.Gauge, "Committed offsets that a group loses within a day: partitions. The 1000 groups that lose them first.")
	for i := range sum.Expiring {
		w.Int(int64(sum.Expiring[i].Offsets), "group", sum.Expiring[i].ID)
	}
	w.Family("leat_group_expiring_timestamp_seconds", metrics.Gauge, "When such a group loses the first of them, in seconds since the Unix epoch.")
	for i := range sum.Expiring {
		w.Float(float64(sum.Expiring[i].AtMs)/1000, "group", sum.Expiring[i].ID)
	}
}

// lookStates are the states of a partition that a look finds. Busy: it did not come to answer in time.
var lookStates = []string{"active", "loading", "failed", "busy"}

// look asks every partition that is run here for its summary, each in a turn of its own between others. It waits for them until ctx ends.
func (g *groups) look(ctx context.Context) (map[string]int64, *group.Summary) {
	type answer struct {
		state string
		sum   *group.Summary
	}
	partitions := g.runtime.Partitions()
	answers := make(chan answer, len(partitions)) // room for those that come too late
	for _, p := range partitions {
		g.runtime.Do(p, coordinator.Input[*group.Shard]{
			Run:    func(s *group.Shard, now int64, _ *machine.Out) { answers <- answer{"active", s.Summarize(now)} },
			Refuse: func(err error) { answers <- answer{state: lookState(err)} },
		})
	}
	states, sum := map[string]int64{}, &group.Summary{Groups: map[group.Class]int{}}
	for n := range partitions {
		select {
		case a := <-answers:
			if a.sum != nil {
				sum.Add(a.sum)
			}
			states[a.state]++
		case <-ctx.Done():
			states["busy"] += int64(len(partitions) - n)
			sum.Finish()
			return states, sum
		}
	}
	sum.Finish()
	return states, sum
}

func lookState(err error) string {
	switch {
	case errors.Is(err, coordinator.ErrLoading):
		return "loading"
	case errors.Is(err, coordinator.ErrFailed):
		return "failed"
	case errors.Is(err, coordinator.ErrOverloaded):
		return "busy"
	}
	return "" // it has gone to another broker
}
