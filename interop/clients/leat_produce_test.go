package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

// leatFed is leatRun with something on standard input; it must succeed.
func leatFed(t *testing.T, p *harness.Peer, in string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(deadline(t), harness.LeatBinary(t), append(args, "--bootstrap-server", p.Addr)...)
	var out, errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(in), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("leat %v: %v: %s", args, err, errs.String())
	}
	return out.String()
}

type leatRecord struct {
	Partition  int32
	Offset     int64
	Timestamp  int64
	Key, Value *string
	Headers    []struct{ Key, Value string }
}

// leatRecords is what `leat consume --output json` prints.
func leatRecords(t *testing.T, out string) (all []leatRecord) {
	t.Helper()
	for line := range strings.Lines(out) {
		var r leatRecord
		must(t, "JSON of "+line, json.Unmarshal([]byte(line), &r))
		all = append(all, r)
	}
	return all
}

// TestLeatProduce: what `leat produce` writes, with every codec, another client reads, in the partitions that its own partitioner chooses; on Kafka and on leat.
func TestLeatProduce(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := topicName("leat-produce")
		leatRun(t, p, "topic", "create", topic, "--partitions", "5")
		want := map[string]string{}
		for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
			var lines strings.Builder
			for i := range 200 {
				key, value := fmt.Sprintf("%s-%d", codec, i), strings.Repeat(fmt.Sprint(i, " "), 20)
				fmt.Fprintf(&lines, "%s\t%s\n", key, value)
				want[key] = value
			}
			equal(t, "said of "+codec, leatFed(t, p, lines.String(), "produce", topic, "--key-separator", `\t`, "--compression", codec, "--header", "codec="+codec),
				fmt.Sprintf("200 records are written to %s.\n", topic))
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		must(t, "client", err)
		defer cl.Close()
		partitioner := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
		for read := 0; read < len(want); {
			fetches := cl.PollFetches(deadline(t))
			must(t, "poll", fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) {
				read++
				key := string(r.Key)
				equal(t, "value of "+key, string(r.Value), want[key])
				codec, _, _ := strings.Cut(key, "-")
				equal(t, "headers of "+key, fmt.Sprintf("%s", r.Headers), fmt.Sprintf("[{codec %s}]", codec))
				equal(t, "partition of "+key, int(r.Partition), partitioner.Partition(r, 5))
			})
		}
		equal(t, "counted", leatFed(t, p, "", "consume", topic, "--from-beginning", "--exit-at-end", "--count"), "1000\n")
	})
}

// TestLeatConsume: `leat consume` reads what another client wrote: codecs, headers, null, and with read_committed no transaction that was aborted.
func TestLeatConsume(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := topicName("leat-consume")
		leatRun(t, p, "topic", "create", topic)
		for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
			cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec))
			must(t, "client", err)
			must(t, "produce", cl.ProduceSync(deadline(t), &kgo.Record{Key: []byte("k"), Value: []byte(strings.Repeat("v", 1000)), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("1")}}},
				&kgo.Record{Key: []byte("gone")}).FirstErr())
			cl.Close()
		}
		all := leatRecords(t, leatFed(t, p, "", "consume", topic, "--from-beginning", "--exit-at-end", "--output", "json"))
		equal(t, "records", len(all), 10)
		for i, r := range all {
			equal(t, fmt.Sprint("record ", i), fmt.Sprint(r.Offset, *r.Key, r.Value == nil, len(r.Headers), r.Timestamp > 0), fmt.Sprint(i, []string{"k", "gone"}[i%2], i%2 == 1, (i+1)%2, true))
		}
		equal(t, "the last two", leatFed(t, p, "", "consume", topic, "--offset", "-2", "--exit-at-end", "--template", `%o,%K,%S;`), "8,1,1000;9,4,-1;")

		if p.Kind == harness.LeatKind {
			return // it coordinates no transactions
		}
		tx, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.DefaultProduceTopic(topic), kgo.TransactionalID(topic))
		must(t, "client", err)
		defer tx.Close()
		for _, commit := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
			must(t, "begin", tx.BeginTransaction())
			must(t, "produce", tx.ProduceSync(deadline(t), kgo.StringRecord(fmt.Sprint(commit))).FirstErr())
			must(t, "end", tx.EndTransaction(context.WithoutCancel(deadline(t)), commit))
		}
		equal(t, "all", len(leatRecords(t, leatFed(t, p, "", "consume", topic, "--offset", "10", "--exit-at-end", "--output", "json"))), 3)
		equal(t, "committed", leatFed(t, p, "", "consume", topic, "--offset", "10", "--exit-at-end", "--isolation-level", "read_committed"), fmt.Sprintln(kgo.TryCommit))
	})
}
