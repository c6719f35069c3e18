// Package clients runs the clients that people use, unmodified, against both brokers: each makes a topic, produces with
// every codec it has, idempotently where it can, reads the partitions back by assignment and in groups, and uses its admin calls.
// Kafka comes first: a client that fails there is used wrongly.
package clients

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	partitions = 3
	perCodec   = 60 // records that a client produces with each codec
	limit      = 60 * time.Second
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// message is one record as all clients see it.
type message struct {
	partition  int32
	key, value string
}

// messages makes n records whose values tell codec and place; values are large enough to compress.
func messages(label string, n int) []message {
	out := make([]message, n)
	for i := range out {
		out[i] = message{
			partition: int32(i % partitions),
			key:       fmt.Sprintf("key-%d", i%7),
			value:     fmt.Sprintf("%s %06d %s", label, i, strings.Repeat("leat ", i%40)),
		}
	}
	return out
}

// topicName makes a name that no other run uses.
func topicName(what string) string {
	var b [4]byte
	rand.Read(b[:])
	return what + "-" + hex.EncodeToString(b[:])
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// byPartition groups messages, keeping their order.
func byPartition(ms []message) map[int32][]message {
	out := map[int32][]message{}
	for _, m := range ms {
		out[m.partition] = append(out[m.partition], m)
	}
	return out
}

// same fails the test unless both lists hold the same messages in the same order in each partition.
func same(t *testing.T, want, got []message) {
	t.Helper()
	w, g := byPartition(want), byPartition(got)
	for p := range int32(partitions) {
		for i := range max(len(w[p]), len(g[p])) {
			switch {
			case i >= len(g[p]):
				t.Fatalf("partition %d: %d records, want %d; first missing %.60q", p, len(g[p]), len(w[p]), w[p][i].value)
			case i >= len(w[p]):
				t.Fatalf("partition %d: %d records, want %d; first too many %.60q", p, len(g[p]), len(w[p]), g[p][i].value)
			case w[p][i] != g[p][i]:
				t.Fatalf("partition %d, record %d: %.60q/%.60q, want %.60q/%.60q", p, i, g[p][i].key, g[p][i].value, w[p][i].key, w[p][i].value)
			}
		}
	}
}

// newTopic makes a topic through franz-go, for the suites of clients that cannot, and waits for its leaders.
func newTopic(t *testing.T, p *harness.Peer, what string) string {
	t.Helper()
	name := topicName(what)
	cl := admin(t, p)
	if _, err := cl.CreateTopic(deadline(t), partitions, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	awaitTopic(t, p, name, partitions)
	return name
}

func admin(t *testing.T, p *harness.Peer) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

// awaitTopic waits until all partitions answer: Kafka's come up a moment after CreateTopics was answered.
func awaitTopic(t *testing.T, p *harness.Peer, name string, n int) {
	t.Helper()
	cl := admin(t, p)
	err := harness.Poll(30*time.Second, func() error {
		ends, err := cl.ListEndOffsets(deadline(t), name)
		if err != nil {
			return err
		}
		if len(ends[name]) != n {
			return fmt.Errorf("%d partitions", len(ends[name]))
		}
		return ends.Error()
	})
	if err != nil {
		t.Fatalf("topic %s: %v", name, err)
	}
}

// counts returns the end offsets of a topic.
func counts(t *testing.T, p *harness.Peer, name string) map[int32]int64 {
	t.Helper()
	ends, err := admin(t, p).ListEndOffsets(deadline(t), name)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	return out
}

// must fails the test on an error.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// equal fails the test unless both are the same.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// differs is an error unless both are the same.
func differs[T comparable](got, want T) error {
	if got != want {
		return fmt.Errorf("%v, want %v", got, want)
	}
	return nil
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must(t, "write", os.WriteFile(name, []byte(content), 0o644))
	return name
}

// codecsKept fails the test unless some batch of each of the wanted codecs is in the topic: clients turn a codec off
// without a word when they do not like the versions that a broker lists.
func codecsKept(t *testing.T, addr, topic string, n int) {
	t.Helper()
	seen := map[uint8]bool{}
	franzEach(t, addr, topic, n, func(r *kgo.Record) { seen[r.Attrs.CompressionType()] = true })
	for i, name := range codecs {
		if !seen[uint8(i)] {
			t.Errorf("no record is stored in codec %s", name)
		}
	}
}
