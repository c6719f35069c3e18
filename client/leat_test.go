package client

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/broker"
	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/logtest"
	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// leat is a real broker on an in-memory file system.
type leat struct {
	t    testing.TB
	b    *broker.Broker
	fs   *vfs.Mem
	addr string
	logs *logtest.Buffer
	stop func()
}

// startLeat serves until the test ends, or stop.
func startLeat(t testing.TB, fs *vfs.Mem, settings ...string) *leat {
	t.Helper()
	set := config.NewSet()
	for _, kv := range append([]string{"listeners=PLAINTEXT://127.0.0.1:0", "log.dirs=/data", "log.index.size.max.bytes=16384"}, settings...) {
		k, v, _ := strings.Cut(kv, "=")
		if err := set.Override(k, v, config.Flag); err != nil {
			t.Fatal(err)
		}
	}
	l := &leat{t: t, fs: fs, logs: new(logtest.Buffer)}
	b, err := broker.New(broker.Options{FS: fs, Config: set, Logger: slog.New(slog.NewTextHandler(l.logs, nil))})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- b.Serve() }()
	stopped := false
	l.b, l.addr = b, b.Addrs()[0].String()
	l.stop = func() {
		if stopped {
			return
		}
		stopped = true
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = b.Close(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		l.stop()
		if t.Failed() {
			t.Logf("broker log:\n%s", l.logs)
		}
	})
	return l
}

// client is a client of the broker.
func (l *leat) client(change ...func(*Config)) *Client {
	l.t.Helper()
	config := Config{BootstrapServers: []string{l.addr}, RetryBackoff: 10 * time.Millisecond}
	for _, c := range change {
		c(&config)
	}
	c, err := New(config)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c
}

// ask sends one request.
func (l *leat) ask(req kmsg.Request) kmsg.Response {
	l.t.Helper()
	conn, err := rpc.Dial(within(l.t, patience), l.addr, rpc.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	defer conn.Close()
	resp, err := conn.Request(within(l.t, patience), req, -1)
	if err != nil {
		l.t.Fatal(err)
	}
	return resp
}

// topic makes a topic.
func (l *leat) topic(name string, partitions int32, configs ...string) {
	l.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 30_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for _, kv := range configs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		k, v, _ := strings.Cut(kv, "=")
		c.Name, c.Value = k, &v
		topic.Configs = append(topic.Configs, c)
	}
	req.Topics = append(req.Topics, topic)
	if r := l.ask(req).(*kmsg.CreateTopicsResponse).Topics[0]; r.ErrorCode != 0 {
		l.t.Fatalf("topic %s: %d %v", name, r.ErrorCode, r.ErrorMessage)
	}
}

// stored is a record as it is in a log.
type stored struct {
	offset     int64
	ms         int64
	key, value string // "<nil>" is null
	headers    string
}

// log reads a partition from its beginning.
func (l *leat) log(topic string, partition int32) (all []stored) {
	l.t.Helper()
	for {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxBytes, req.SessionEpoch = 12, 10<<20, -1
		ft := kmsg.NewFetchRequestTopic()
		ft.Topic = topic
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.PartitionMaxBytes, fp.CurrentLeaderEpoch, fp.LastFetchedEpoch = partition, 10<<20, -1, -1
		if len(all) > 0 {
			fp.FetchOffset = all[len(all)-1].offset + 1
		}
		ft.Partitions = append(ft.Partitions, fp)
		req.Topics = append(req.Topics, ft)
		conn, err := rpc.Dial(within(l.t, patience), l.addr, rpc.Options{})
		if err != nil {
			l.t.Fatal(err)
		}
		resp, err := conn.Request(within(l.t, patience), req, 12)
		conn.Close()
		if err != nil {
			l.t.Fatal(err)
		}
		p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 {
			l.t.Fatalf("fetch of %s-%d: %d", topic, partition, p.ErrorCode)
		}
		before := len(all)
		_, err = record.Walk(p.RecordBatches, func(_ int, b record.Batch) error {
			return b.Records(func(r *record.Record) error {
				s := stored{offset: b.BaseOffset() + int64(r.OffsetDelta), ms: b.BaseTimestamp() + r.TimestampDelta, key: text(r.Key), value: text(r.Value)}
				headers := r.Headers()
				for k, v, ok := headers.Next(); ok; k, v, ok = headers.Next() {
					s.headers += fmt.Sprintf("%s=%s;", k, text(v))
				}
				all = append(all, s)
				return nil
			})
		})
		if err != nil {
			l.t.Fatal(err)
		}
		if len(all) == before {
			return all
		}
	}
}

func text(b []byte) string {
	if b == nil {
		return "<nil>"
	}
	return string(b)
}
