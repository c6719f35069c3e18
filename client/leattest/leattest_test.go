package leattest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/record"
)

func put(t testing.TB, b *Broker, topic string) int64 {
	t.Helper()
	ctx := context.Background()
	c, err := rpc.Dial(ctx, b.Addr(), rpc.Options{ClientID: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	meta := kmsg.NewPtrMetadataRequest()
	meta.AllowAutoTopicCreation = true
	mt := kmsg.NewMetadataRequestTopic()
	mt.Topic = &topic
	meta.Topics = append(meta.Topics, mt)
	if _, err := c.Request(ctx, meta, 9); err != nil {
		t.Fatal(err)
	}
	w := record.NewBuilder(record.Options{})
	w.Append(time.Now().UnixMilli(), []byte("k"), []byte("v"), nil)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Records = w.Bytes()
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := c.Request(ctx, req, 9)
	if err != nil {
		t.Fatal(err)
	}
	p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("code %d", p.ErrorCode)
	}
	return p.BaseOffset
}

// What was acknowledged is there after a restart, on the same address; brokers of tests that run at once don't see one another.
func TestRestart(t *testing.T) {
	for _, name := range []string{"one", "other"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := New(t, "num.partitions=2")
			addr := b.Addr()
			for want := range int64(3) {
				if offset := put(t, b, name); offset != want {
					t.Errorf("offset %d, want %d", offset, want)
				}
				b.Restart()
			}
			b.Stop()
			b.Stop()
			if b.Addr() != addr {
				t.Errorf("%s became %s", addr, b.Addr())
			}
		})
	}
}

// A setting that cannot be used ends the test with a sentence about it.
func TestSettings(t *testing.T) {
	for setting, want := range map[string]string{"num.partitions": "KEY=VALUE", "num.partitions=many": "num.partitions", "no.such.key=1": "no.such.key"} {
		b := &Broker{t: t, dir: t.TempDir(), settings: []string{setting}, addr: "127.0.0.1:0"}
		if err := b.start(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// The log of a broker is bounded.
func TestLogs(t *testing.T) {
	var l logs
	line := []byte(strings.Repeat("x", 1000) + "\n")
	for range 2000 {
		if n, err := l.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := len(l.String()); n > logsMax+len(line) {
		t.Errorf("%d bytes", n)
	}
}

// From nothing to the first acknowledged record, the first connection included.
func BenchmarkFirstRecord(b *testing.B) {
	for b.Loop() {
		br := New(b)
		put(b, br, "t")
		b.StopTimer()
		br.Stop()
		b.StartTimer()
	}
}
