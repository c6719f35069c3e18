package realdata

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

// TestCompactedTopic lets the broker compact a topic of all codecs, with tombstones, while producers go on, and shows that readers get the latest value of each
// key over all gaps (C10), and that Kafka's tools have nothing to say against the files.
func TestCompactedTopic(t *testing.T) {
	harness.Need(t, "java", "mvn", "bash")
	p := harness.StartLeat(t, "log.cleaner.backoff.ms=200")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	topic := "compacted"
	set := func(s string) *string { return &s }
	configs := map[string]*string{"cleanup.policy": set("compact"), "segment.bytes": set(strconv.Itoa(1 << 20)), "min.cleanable.dirty.ratio": set("0.05"),
		"delete.retention.ms": set("1000"), "index.interval.bytes": set("1000")}
	if _, err := kadm.NewClient(client(t, p)).CreateTopic(ctx, 1, 1, configs, topic); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{} // a tombstone is no entry
	produced := 0
	for round, codec := range append(slices.Clone(codecs), codecs...) {
		cl := client(t, p, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(franzCodec(codec)), kgo.ProducerBatchMaxBytes(20_000), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for range 6000 {
			key := fmt.Sprintf("key-%d", rng.IntN(2000))
			value := make([]byte, 300) // half of it does not compress
			for i := range value[:150] {
				value[i] = byte(rng.Uint32())
			}
			want[key] = string(value)
			if rng.IntN(10) == 0 {
				value = nil
				delete(want, key)
			}
			cl.Produce(ctx, &kgo.Record{Key: []byte(key), Value: value, Headers: []kgo.RecordHeader{{Key: "round", Value: []byte{byte(round)}}}}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			produced++
		}
		if err := cl.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
	if t.Failed() {
		t.FailNow()
	}
	listed, err := kadm.NewClient(client(t, p)).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	end := listed[topic][0].Offset
	awaitCompacted(ctx, t, p, topic, end*3/4)
	got, read := latestOf(ctx, t, p, topic, end)
	if len(got) != len(want) {
		t.Errorf("%d keys with a value, want %d", len(got), len(want))
	}
	for key, value := range want {
		if got[key] != value {
			t.Fatalf("key %s: wrong value", key)
		}
	}
	t.Logf("%d records produced, %d left", produced, read)
	if read > produced/2 {
		t.Errorf("%d of %d records are left", read, produced)
	}
	out := new(bytes.Buffer)
	err = harness.ToolTo(limit, out, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", p.Addr, "--topic", topic,
		"--partition", "0", "--offset", "earliest", "--max-messages", fmt.Sprint(len(want)), "--timeout-ms", "60000", "--formatter-property", "print.value=false")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	for _, c := range complaints(t, p.DataDir()) {
		if !strings.Contains(strings.ToLower(c), "non-consecutive") { // which is what compaction does
			t.Error(c)
		}
	}
	verify := exec.Command(harness.LeatBinary(t), "log", "verify", p.DataDir())
	if report, err := verify.CombinedOutput(); err != nil {
		t.Errorf("leat log verify: %v\n%s", err, report)
	}
}

// awaitCompacted waits until the broker's checkpoint says that the topic's only partition is compacted up to an offset.
func awaitCompacted(ctx context.Context, t *testing.T, p *harness.Peer, topic string, upTo int64) {
	t.Helper()
	for {
		text, _ := os.ReadFile(filepath.Join(p.DataDir(), "cleaner-offset-checkpoint"))
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) != 3 || fields[0] != topic {
				continue
			}
			if offset, err := strconv.ParseInt(fields[2], 10, 64); err == nil && offset >= upTo {
				return
			}
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("not compacted up to %d: %q", upTo, text)
		}
	}
}

// latestOf reads the partition to its end and returns the latest value of each key that has one, and the number of records.
func latestOf(ctx context.Context, t *testing.T, p *harness.Peer, topic string, end int64) (latest map[string]string, read int) {
	t.Helper()
	latest = map[string]string{}
	cl := client(t, p, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	for last := int64(-1); last < end-1; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("after offset %d: %v", last, err)
		}
		for it := fs.RecordIter(); !it.Done(); read++ {
			r := it.Next()
			if r.Offset <= last || len(r.Headers) != 1 {
				t.Fatalf("offset %d after %d, %d headers", r.Offset, last, len(r.Headers))
			}
			last = r.Offset
			if r.Value == nil {
				delete(latest, string(r.Key))
			} else {
				latest[string(r.Key)] = string(r.Value)
			}
		}
	}
	return latest, read
}
