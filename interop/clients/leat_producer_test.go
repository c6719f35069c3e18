package clients

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	leat "github.com/leatmq/leat/client"
	"github.com/leatmq/leat/interop/harness"
	"github.com/leatmq/leat/record"
)

// leatClient is the client of this module.
func leatClient(t *testing.T, addr string) *leat.Client {
	t.Helper()
	c, err := leat.New(leat.Config{BootstrapServers: []string{addr}, AutoCreateTopics: true})
	must(t, "client", err)
	t.Cleanup(c.Close)
	return c
}

// TestLeatProducer: whatever a record may be, the client produces it to Kafka and to leat alike, in all codecs.
func TestLeatProducer(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		for codec := range record.Zstd + 1 {
			topic := topicName("leat-producer-" + codec.String())
			producer, err := leatClient(t, p.Addr).NewProducer(leat.ProducerConfig{Compression: codec})
			must(t, "producer", err)
			ctx := deadline(t)
			for i := range 3000 {
				r := leat.Record{Topic: topic, Key: strconv.AppendInt(nil, int64(i), 10), Value: []byte(strings.Repeat("value ", i%7)), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(i))}
				switch i % 5 {
				case 1:
					r.Key = nil
				case 2:
					r.Value = nil
				case 3:
					r.Headers = []leat.Header{{Key: "h", Value: []byte{1}}, {Key: "null"}}
				}
				must(t, "send", producer.Send(ctx, &r, func(_ leat.Delivery, err error) {
					if err != nil {
						t.Error(err)
					}
				}))
			}
			must(t, "close", producer.Close(deadline(t)))
			seen := 0
			for _, r := range readAll(t, p.Addr, topic) {
				i := int(r.Timestamp.UnixMilli() - 1_700_000_000_000)
				if i < 0 || i >= 3000 || (i%5 == 1) != (r.Key == nil) || i%5 != 1 && string(r.Key) != strconv.Itoa(i) || (i%5 == 2) != (r.Value == nil) ||
					i%5 != 2 && string(r.Value) != strings.Repeat("value ", i%7) || i%5 == 3 && (len(r.Headers) != 2 || r.Headers[1].Value != nil) {
					t.Errorf("a record came as %+v", r)
				}
				seen++
			}
			equal(t, "records with "+codec.String(), seen, 3000)
		}
	})
}

// readAll reads a topic to its end.
func readAll(t *testing.T, addr, topic string) (all []*kgo.Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, "consumer", err)
	defer cl.Close()
	listed, err := kadm.NewClient(cl).ListEndOffsets(deadline(t), topic)
	must(t, "end offsets", err)
	ends, ctx := map[int32]int64{}, deadline(t)
	listed.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			ends[o.Partition] = o.Offset
		}
	})
	for len(ends) > 0 {
		fs := cl.PollFetches(ctx)
		must(t, "fetch", fs.Err())
		fs.EachRecord(func(r *kgo.Record) {
			all = append(all, r)
			if r.Offset+1 >= ends[r.Partition] {
				delete(ends, r.Partition)
			}
		})
	}
	return all
}

// killTime is how long the broker is killed again and again; LEAT_INTEROP_KILL is another duration.
func killTime(t *testing.T) time.Duration {
	if v := os.Getenv("LEAT_INTEROP_KILL"); v != "" {
		d, err := time.ParseDuration(v)
		must(t, "LEAT_INTEROP_KILL", err)
		return d
	}
	return 15 * time.Second
}

// TestLeatProducerKill: the broker is killed every few seconds, or stopped, and started again, while records are produced: each is there once, in order, at the offset that was told.
func TestLeatProducerKill(t *testing.T) {
	start := map[string]func(testing.TB, ...string) *harness.Peer{harness.LeatKind: harness.StartLeat, harness.KafkaKind: harness.StartKafka}
	for _, kind := range harness.Kinds() {
		t.Run(kind, func(t *testing.T) { killWhileProducing(t, start[kind](t)) })
	}
}

// killed is what a run knows of its records.
type killed struct {
	t    *testing.T
	mu   sync.Mutex
	told map[string]int64 // offset by partition and value
	n    atomic.Int64
}

func (k *killed) produce(ctx context.Context, producer *leat.Producer, topic string, g int) (n int) {
	random := rand.New(rand.NewPCG(uint64(g), 3))
	for ; ctx.Err() == nil; n++ {
		value := fmt.Sprintf("%d %d", g, n)
		r := leat.Record{Topic: topic, Partition: int32(g % partitions), Value: []byte(value)}
		err := producer.Send(context.Background(), &r, func(d leat.Delivery, err error) {
			if err != nil {
				k.t.Errorf("%s: %v", value, err)
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			if _, twice := k.told[value]; twice {
				k.t.Errorf("told twice of %s", value)
			}
			k.told[value] = d.Offset
			k.n.Add(1)
		})
		if err != nil {
			k.t.Errorf("send: %v", err)
			return n
		}
		if random.IntN(50) == 0 {
			time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
		}
	}
	return n
}

func killWhileProducing(t *testing.T, p *harness.Peer) {
	topic := newTopic(t, p, "kill")
	k := &killed{t: t, told: map[string]int64{}}
	producer, err := leatClient(t, p.Addr).NewProducer(leat.ProducerConfig{Partitioner: leat.ExplicitPartition(), BatchSize: 8 << 10, Linger: time.Millisecond})
	must(t, "producer", err)
	ctx, cancel := context.WithTimeout(t.Context(), killTime(t))
	defer cancel()
	var all sync.WaitGroup
	var sent atomic.Int64
	const goroutines = 6
	for g := range goroutines {
		all.Go(func() { sent.Add(int64(k.produce(ctx, producer, topic, g))) })
	}
	kills := 0
	for ctx.Err() == nil {
		before := k.n.Load()
		must(t, "progress", harness.Poll(time.Minute, func() error {
			if ctx.Err() == nil && k.n.Load() < before+2000 {
				return fmt.Errorf("%d records more", k.n.Load()-before)
			}
			return nil
		}))
		if kills++; kills%3 == 0 {
			must(t, "stop", p.Stop())
		} else {
			p.Kill()
		}
		must(t, "restart", p.Restart())
	}
	all.Wait()
	must(t, "close", producer.Close(deadline(t)))
	t.Logf("%d records, %d kills", sent.Load(), kills)
	equal(t, "told", k.n.Load(), sent.Load())
	next := map[string]int{}
	n := int64(0)
	for _, r := range readAll(t, p.Addr, topic) {
		g, number, _ := strings.Cut(string(r.Value), " ")
		if got, _ := strconv.Atoi(number); got != next[g] {
			t.Fatalf("partition %d, offset %d: %s follows %d", r.Partition, r.Offset, r.Value, next[g]-1)
		}
		next[g]++
		n++
		if told, ok := k.told[string(r.Value)]; !ok || told != r.Offset {
			t.Fatalf("%s is at %d, and was told to be at %d", r.Value, r.Offset, told)
		}
	}
	equal(t, "records in the log", n, sent.Load())
}
