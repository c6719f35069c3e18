package clients

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	leat "github.com/leatmq/leat/client"
	"github.com/leatmq/leat/client/assign"
	"github.com/leatmq/leat/interop/harness"
)

func init() {
	groupClients["leat"] = func(t *testing.T, addr, topic, group, member string, to *seen) func() {
		return leatJoin(t, addr, topic, member, to, leat.ConsumerConfig{Group: group})
	}
	groupClients["leat-848"] = func(t *testing.T, addr, topic, group, member string, to *seen) func() {
		return leatJoin(t, addr, topic, member, to, leat.ConsumerConfig{Group: group, Protocol: leat.ConsumerProtocol})
	}
	migrants["leat"] = func(t *testing.T, addr, topic, group, member, assignor string, to *seen) func() {
		config := leat.ConsumerConfig{Group: group, Protocol: leat.ConsumerProtocol, SessionTimeout: 6 * time.Second, HeartbeatInterval: 500 * time.Millisecond}
		if assignor != "" {
			config.Protocol, config.Assignors = leat.ClassicProtocol, []assign.Assignor{assign.ByName(assignor)}
		}
		return leatJoin(t, addr, topic, member, to, config)
	}
}

// leatJoin consumes as a member, committing after every Poll, until it is told to leave.
func leatJoin(t *testing.T, addr, topic, member string, to *seen, config leat.ConsumerConfig) (leave func()) {
	t.Helper()
	config.OffsetReset, config.DisableAutoCommit = leat.ResetEarliest, true
	c, err := leatClient(t, addr).NewConsumer(config)
	must(t, "consumer", err)
	must(t, "subscribe", c.Subscribe(topic))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			rs, err := c.Poll(ctx, 10)
			for i := range rs {
				to.add(member, rs[i].Partition, rs[i].Offset, string(rs[i].Value))
			}
			if err == nil {
				err = c.Commit(ctx)
			}
			if errors.Is(err, leat.ErrClosed) {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
		if err := c.Close(deadline(t)); err != nil {
			t.Logf("%s: close: %v", member, err)
		}
	}
}

// leatRead reads n records of a topic from the beginning, by assignment.
func leatRead(t *testing.T, addr, topic string, n int, config leat.ConsumerConfig) (all []leat.Record) {
	t.Helper()
	config.OffsetReset = leat.ResetEarliest
	c, err := leatClient(t, addr).NewConsumer(config)
	must(t, "consumer", err)
	ctx := deadline(t)
	ps, err := c.Partitions(ctx, topic)
	must(t, "partitions", err)
	must(t, "assign", c.Assign(ps...))
	for len(all) < n {
		rs, err := c.Poll(ctx, 0)
		must(t, fmt.Sprintf("poll after %d records", len(all)), err)
		all = append(all, rs...)
	}
	must(t, "close", c.Close(ctx))
	return all
}

// TestLeatConsumer: what franz-go has produced, in all codecs, is read from Kafka and from leat alike.
func TestLeatConsumer(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := newTopic(t, p, "leat-consumer")
		var want []message
		for _, codec := range codecs {
			ms := messages(codec, perCodec)
			franzProduce(t, p.Addr, topic, ms, kgo.ProducerBatchCompression(franzCodec(codec)))
			want = append(want, ms...)
		}
		var got []message
		for _, r := range leatRead(t, p.Addr, topic, len(want), leat.ConsumerConfig{}) {
			got = append(got, message{r.Partition, string(r.Key), string(r.Value)})
		}
		same(t, want, got)
	})
}

// Of transactions, only what was committed is seen, and a position at the end says so: markers are behind it.
func TestLeatConsumerReadCommitted(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		if p.Kind == harness.LeatKind {
			t.Skip("leat has no transactions yet")
		}
		topic := newTopic(t, p, "leat-committed")
		ctx := deadline(t)
		cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.TransactionalID(topic), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		must(t, "client", err)
		defer cl.Close()
		var want []string
		for round := range 10 {
			must(t, "begin", cl.BeginTransaction())
			for i := range 20 {
				value := fmt.Sprintf("%d-%d", round, i)
				cl.Produce(ctx, &kgo.Record{Value: []byte(value), Partition: int32(i % partitions)}, nil)
				if round%3 != 1 {
					want = append(want, value)
				}
			}
			must(t, "flush", cl.Flush(ctx))
			must(t, "end", cl.EndTransaction(ctx, kgo.TransactionEndTry(round%3 != 1)))
		}
		var got []string
		for _, r := range leatRead(t, p.Addr, topic, len(want), leat.ConsumerConfig{IsolationLevel: leat.ReadCommitted}) {
			got = append(got, string(r.Value))
		}
		slices.Sort(want)
		slices.Sort(got)
		equal(t, "committed records", fmt.Sprint(got), fmt.Sprint(want))
		equal(t, "all records", len(leatRead(t, p.Addr, topic, 200, leat.ConsumerConfig{})), 200)
	})
}
