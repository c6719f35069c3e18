// Package realdata sends a real text, every line a keyed record, through a broker with kcat and franz-go in every codec,
// reads it back with Kafka's console consumer and with franz-go, and compares content and order per partition; then
// again while the broker is killed in the middle of producing; at last Kafka's own tools look at every file that leat
// left on disk.
package realdata

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const limit = 5 * time.Minute

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func franzCodec(name string) kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[name]
}

func own(t *testing.T, kind string) *harness.Peer {
	if kind == harness.KafkaKind {
		return harness.StartKafka(t)
	}
	return harness.StartLeat(t)
}

// TestRealData is the whole path: produce, read back, stop, look at the files.
func TestRealData(t *testing.T) {
	harness.Need(t, "kcat", "java", "mvn", "bash")
	in := makeInput(t, sizeMB(t))
	t.Logf("%d records, %d bytes", in.records(), in.bytes)
	for _, kind := range harness.Kinds() {
		t.Run(kind, func(t *testing.T) {
			p := own(t, kind)
			for i, codec := range codecs {
				t.Run("kcat-"+codec, func(t *testing.T) {
					topic := newTopic(t, p, "kcat-"+codec)
					kcatProduce(t, p, topic, in, "-z", codec)
					readBack(t, p, topic, in, i)
				})
				t.Run("franz-"+codec, func(t *testing.T) {
					topic := newTopic(t, p, "franz-"+codec)
					franzProduce(t, p, topic, in, nil, kgo.ProducerBatchCompression(franzCodec(codec)))
					readBack(t, p, topic, in, i+3)
				})
			}
			if err := p.Stop(); err != nil {
				t.Fatalf("stop: %v", err)
			}
			inspect(t, p.DataDir())
		})
	}
}

// readBack compares the whole topic through franz-go, and one or all partitions through the console consumer.
func readBack(t *testing.T, p *harness.Peer, topic string, in *input, turn int) {
	t.Helper()
	franzCompare(t, p, topic, in)
	for part := range partitions {
		if in.bytes < fullSizeMB<<20 && part != turn%partitions {
			continue
		}
		consoleCompare(t, p, topic, in, part)
	}
}

// TestKilledWhileProducing kills the broker when a third of the records is in, starts it again and lets the producers
// finish: idempotent ones must leave exactly the input.
func TestKilledWhileProducing(t *testing.T) {
	harness.Need(t, "kcat", "java", "mvn", "bash")
	in := makeInput(t, sizeMB(t))
	for _, kind := range harness.Kinds() {
		t.Run(kind, func(t *testing.T) {
			p := own(t, kind)
			t.Run("franz", func(t *testing.T) {
				topic := newTopic(t, p, "killed-franz")
				killer := newKiller(p, int64(in.records()/3))
				franzProduce(t, p, topic, in, killer.acked, kgo.ProducerBatchCompression(kgo.NoCompression()))
				killer.wait(t)
				franzCompare(t, p, topic, in)
				consoleCompare(t, p, topic, in, 0)
			})
			t.Run("kcat", func(t *testing.T) { killedKcat(t, p, in) })
			if err := p.Stop(); err != nil {
				t.Fatalf("stop: %v", err)
			}
			inspect(t, p.DataDir())
		})
	}
}

// killedKcat produces with kcat, which gives up when its only broker is gone. What was readable before the kill must
// still be there, what is there must be the beginning of the input, and another kcat can go on behind it.
func killedKcat(t *testing.T, p *harness.Peer, in *input) {
	args := []string{"-X", "enable.idempotence=true", "-X", "message.timeout.ms=300000", "-z", "lz4"}
	topic := newTopic(t, p, "killed-kcat")
	killer := newKiller(p, int64(in.records()/3))
	stop := watch(t, p, topic, killer)
	tryKcatProduce(p, topic, in.files, args...) // fails, or goes on over the restart: either is fine
	seen := stop()
	killer.wait(t)
	var rest [partitions]string
	for part, end := range endOffsets(t, p, topic) {
		if end < seen[part] {
			t.Errorf("partition %d: %d records were readable before the kill, %d are there after it", part, seen[part], end)
		}
		if end > int64(in.count[part]) {
			t.Fatalf("partition %d: %d records, more than the %d that were sent", part, end, in.count[part])
		}
		rest[part] = in.fileFrom(t, int(part), int(end))
	}
	for _, err := range tryKcatProduce(p, topic, rest, args...) {
		if err != nil {
			t.Fatal(err)
		}
	}
	franzCompare(t, p, topic, in)
	consoleCompare(t, p, topic, in, 1)
}

// killer kills a broker and starts it again when enough records are acknowledged.
type killer struct {
	p     *harness.Peer
	after int64
	n     atomic.Int64
	once  sync.Once
	done  chan error
}

func newKiller(p *harness.Peer, after int64) *killer {
	return &killer{p: p, after: after, done: make(chan error, 1)}
}

// acked counts an acknowledged record.
func (k *killer) acked() { k.reached(k.n.Add(1)) }

// reached notes that n records are acknowledged.
func (k *killer) reached(n int64) {
	if n >= k.after {
		k.once.Do(func() {
			go func() {
				k.p.Kill()
				k.done <- k.p.Restart()
			}()
		})
	}
}

// wait fails the test unless the broker was killed and came back.
func (k *killer) wait(t *testing.T) {
	t.Helper()
	select {
	case err := <-k.done:
		if err != nil {
			t.Fatalf("restart: %v", err)
		}
	case <-time.After(limit):
		t.Fatal("the broker was not killed")
	}
}

// watch tells the killer the end offsets of a topic until stop is called, which returns the largest ones seen.
func watch(t *testing.T, p *harness.Peer, topic string, k *killer) (stop func() map[int32]int64) {
	ctx, cancel := context.WithCancel(context.Background())
	cl := client(t, p)
	seen := map[int32]int64{}
	var wg sync.WaitGroup
	wg.Go(func() {
		adm := kadm.NewClient(cl)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			if ends, err := adm.ListEndOffsets(ctx, topic); err == nil {
				total := int64(0)
				ends.Each(func(o kadm.ListedOffset) {
					if o.Err == nil {
						seen[o.Partition] = max(seen[o.Partition], o.Offset)
					}
				})
				for _, n := range seen {
					total += n
				}
				k.reached(total)
			}
			<-tick.C
		}
	})
	return func() map[int32]int64 {
		cancel()
		wg.Wait()
		return seen
	}
}

func client(t *testing.T, p *harness.Peer, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(p.Addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func newTopic(t *testing.T, p *harness.Peer, what string) string {
	t.Helper()
	var b [3]byte
	rand.Read(b[:])
	name := what + "-" + hex.EncodeToString(b[:])
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if _, err := kadm.NewClient(client(t, p)).CreateTopic(ctx, partitions, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	endOffsets(t, p, name) // Kafka's partitions come up a moment after the answer
	return name
}

// kcatProduce sends the whole input.
func kcatProduce(t *testing.T, p *harness.Peer, topic string, in *input, args ...string) {
	t.Helper()
	for _, err := range tryKcatProduce(p, topic, in.files, args...) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// tryKcatProduce sends each partition's file with a kcat of its own, two at a time.
func tryKcatProduce(p *harness.Peer, topic string, files [partitions]string, args ...string) (errs [partitions]error) {
	sem := make(chan struct{}, 2)
	var wg sync.WaitGroup
	for part, name := range files {
		sem <- struct{}{}
		wg.Go(func() {
			defer func() { <-sem }()
			f, err := os.Open(name)
			if err == nil {
				defer f.Close()
				_, err = harness.TryProgram(limit, f, "kcat", append([]string{"-P", "-b", p.Addr, "-t", topic, "-p", fmt.Sprint(part), "-K", "\t", "-X", "acks=all"}, args...)...)
			}
			errs[part] = err
		})
	}
	wg.Wait()
	return errs
}

// endOffsets returns the high watermarks of a topic's partitions; a broker that has just come back is given time.
func endOffsets(t *testing.T, p *harness.Peer, topic string) map[int32]int64 {
	t.Helper()
	cl := client(t, p)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	out := map[int32]int64{}
	err := harness.Poll(time.Minute, func() error {
		ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
		if err == nil && len(ends[topic]) != partitions {
			err = errors.New("not all partitions are listed")
		}
		ends.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
		return errors.Join(err, ends.Error())
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// franzProduce sends all partitions and calls acked, if given, for every acknowledged record.
func franzProduce(t *testing.T, p *harness.Peer, topic string, in *input, acked func(), opts ...kgo.Opt) {
	t.Helper()
	cl := client(t, p, append([]kgo.Opt{kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordRetries(1 << 30)}, opts...)...)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var failed atomic.Pointer[error]
	done := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		} else if acked != nil {
			acked()
		}
	}
	var wg sync.WaitGroup
	for part := range partitions {
		wg.Go(func() {
			in.each(part, func(key, value []byte) {
				cl.Produce(ctx, &kgo.Record{Partition: int32(part), Key: key, Value: value}, done)
			})
		})
	}
	wg.Wait()
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
}

// franzCompare reads the topic with franz-go and compares every record.
func franzCompare(t *testing.T, p *harness.Peer, topic string, in *input) {
	t.Helper()
	from := map[int32]kgo.Offset{}
	for part := range int32(partitions) {
		from[part] = kgo.NewOffset().AtStart()
	}
	cl := client(t, p, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ends := endOffsets(t, p, topic)
	for part, n := range in.count {
		if end := ends[int32(part)]; end != int64(n) {
			t.Errorf("partition %d ends at %d, want %d", part, end, n)
		}
	}
	check := newChecker(in)
	for read := 0; read < in.records(); {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("after %d records: %v", read, err)
		}
		for it := fs.RecordIter(); !it.Done(); read++ {
			r := it.Next()
			if r.Offset != int64(check.n[r.Partition]) {
				t.Fatalf("partition %d: offset %d, want %d", r.Partition, r.Offset, check.n[r.Partition])
			}
			if err := check.next(r.Partition, r.Key, r.Value); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// consoleCompare reads one partition with Kafka's console consumer; its output must be the input, byte for byte.
func consoleCompare(t *testing.T, p *harness.Peer, topic string, in *input, part int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = harness.ToolTo(limit, f, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", p.Addr, "--topic", topic,
		"--partition", fmt.Sprint(part), "--offset", "earliest", "--max-messages", fmt.Sprint(in.count[part]), "--timeout-ms", "60000",
		"--formatter-property", "print.key=true")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, in.parts[part]) {
		t.Fatalf("partition %d: the console consumer printed other bytes (%d, want %d) from %d on", part, len(got), len(in.parts[part]), firstDifference(got, in.parts[part]))
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
