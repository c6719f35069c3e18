package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/client/assign"
	"github.com/leatmq/leat/client/leattest"
	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/record"
)

// patience is how long a test waits for what must happen; nothing is measured by it.
const patience = 30 * time.Second

// tp is a partition of topic t.
func tp(partition int32) TopicPartition { return TopicPartition{Topic: "t", Partition: partition} }

// rig is a broker with a client.
type rig struct {
	t      testing.TB
	broker *leattest.Broker
	client *Client
	ctx    context.Context
}

func newRig(t testing.TB, settings ...string) *rig {
	t.Helper()
	b := leattest.New(t, settings...)
	return &rig{t, b, dialRig(t, b), within(t, patience)}
}

func dialRig(t testing.TB, b *leattest.Broker) *Client {
	t.Helper()
	c, err := New(Config{BootstrapServers: []string{b.Addr()}, RetryBackoff: 5 * time.Millisecond, RetryBackoffMax: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (r *rig) ask(req kmsg.Request) kmsg.Response {
	r.t.Helper()
	conn, err := r.client.anyBroker(r.ctx)
	if err == nil {
		var resp kmsg.Response
		if resp, err = conn.Request(r.ctx, req, -1); err == nil {
			return resp
		}
	}
	r.t.Fatal(err)
	return nil
}

func (r *rig) topic(name string, partitions int32) {
	r.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	req.Topics, req.TimeoutMillis = append(req.Topics, t), 10_000
	if code := r.ask(req).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode; code != 0 {
		r.t.Fatal(rpc.ErrorOf(code, nil, name))
	}
}

// send appends one batch to a partition; the answer is its base offset.
func (r *rig) send(tp TopicPartition, batch []byte) int64 {
	r.t.Helper()
	info, err := r.client.topic(r.ctx, tp.Topic)
	if err != nil {
		r.t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	t, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = tp.Partition, batch
	t.Topic, t.TopicID, t.Partitions = tp.Topic, info.id, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	a := r.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if err := rpc.ErrorOf(a.ErrorCode, a.ErrorMessage, fmt.Sprint(tp)); err != nil {
		r.t.Fatal(err)
	}
	return a.BaseOffset
}

// put appends records with the values from..to-1 to a partition, in batches of up to 100.
func (r *rig) put(tp TopicPartition, from, to int) {
	r.t.Helper()
	for from < to {
		w := record.NewBuilder(record.Options{})
		for range min(100, to-from) {
			w.Append(int64(1000+from), nil, fmt.Append(nil, from), nil)
			from++
		}
		r.send(tp, w.Bytes())
	}
}

func (r *rig) consumer(config ConsumerConfig) *Consumer {
	r.t.Helper()
	c, err := r.client.NewConsumer(config)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// read polls until there are n records, and returns the values by partition.
func (r *rig) read(c *Consumer, n int) map[TopicPartition][]string {
	r.t.Helper()
	got := map[TopicPartition][]string{}
	for n > 0 {
		rs, err := c.Poll(r.ctx, n)
		if err != nil {
			r.t.Fatalf("%d to come: %v", n, err)
		}
		for _, rec := range rs {
			tp := TopicPartition{Topic: rec.Topic, Partition: rec.Partition}
			got[tp] = append(got[tp], string(rec.Value))
		}
		n -= len(rs)
	}
	return got
}

// numbers are from..to-1.
func numbers(from, to int) (all []string) {
	for ; from < to; from++ {
		all = append(all, fmt.Sprint(from))
	}
	return all
}

func (r *rig) check(got map[TopicPartition][]string, want map[TopicPartition][]string) {
	r.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("got %v\nwant %v", got, want)
	}
}

func TestConsumerAssign(t *testing.T) {
	r := newRig(t)
	r.topic("t", 3)
	for p := range int32(3) {
		r.put(tp(p), 0, 250)
	}
	c := r.consumer(ConsumerConfig{OffsetReset: ResetEarliest})
	if err := c.Assign(tp(0), tp(2)); err != nil {
		t.Fatal(err)
	}
	r.check(r.read(c, 500), map[TopicPartition][]string{tp(0): numbers(0, 250), tp(2): numbers(0, 250)})
	for _, p := range []int32{0, 2} {
		if at, err := c.Position(r.ctx, tp(p)); at != 250 || err != nil {
			t.Errorf("the position is %d, %v", at, err)
		}
		if lag, ok := c.Lag(tp(p)); lag != 0 || !ok {
			t.Errorf("the lag is %d, %v", lag, ok)
		}
	}
	r.put(tp(2), 250, 260)
	r.check(r.read(c, 10), map[TopicPartition][]string{tp(2): numbers(250, 260)})
	if err := c.Close(r.ctx); err != nil {
		t.Error(err)
	}
	if _, err := c.Poll(r.ctx, 1); err != ErrClosed {
		t.Errorf("Poll after Close: %v", err)
	}
}

func (r *rig) poll(c *Consumer, want string) {
	r.t.Helper()
	rs, err := c.Poll(r.ctx, 1)
	if err != nil || len(rs) != 1 || string(rs[0].Value) != want {
		r.t.Errorf("%d records, %v, want %s", len(rs), err, want)
		for _, rec := range rs {
			r.t.Errorf("got %s", rec.Value)
		}
	}
}

func TestConsumerSeek(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2)
	r.put(tp(0), 0, 250)
	c := r.consumer(ConsumerConfig{})
	if err := c.Seek(tp(0), At(3)); err == nil || err.Error() != "t-0 is not assigned to this consumer" {
		t.Errorf("Seek before Assign: %v", err)
	}
	if err := c.Assign(tp(0)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		to   Offset
		want string
	}{
		{At(120), "120"}, {At(5), "5"}, {Earliest, "0"}, {AtTime(time.UnixMilli(1177)), "177"}, {AfterRecord(&Record{Offset: 9, LeaderEpoch: 0}), "10"}, {AtTime(time.UnixMilli(0)), "0"},
	} {
		if err := c.Seek(tp(0), tc.to); err != nil {
			t.Fatal(err)
		}
		r.poll(c, tc.want)
	}
	for _, to := range []Offset{Latest, AtTime(time.UnixMilli(1 << 40))} {
		if err := c.Seek(tp(0), to); err != nil {
			t.Fatal(err)
		}
		at, err := c.Position(r.ctx, tp(0))
		if err != nil {
			t.Fatal(err)
		}
		r.put(tp(0), int(at), int(at)+1)
		r.poll(c, fmt.Sprint(at))
	}
	for at, want := range map[Offset]string{Earliest: "map[{t 0}:0 {t 1}:0]", Latest: "map[{t 0}:252 {t 1}:0]", AtTime(time.UnixMilli(1009)): "map[{t 0}:9 {t 1}:0]"} {
		if got, err := c.Offsets(r.ctx, at, tp(0), tp(1)); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
	}
	if all, err := c.Partitions(r.ctx, "t"); err != nil || len(all) != 2 || all[1] != tp(1) {
		t.Errorf("%v, %v", all, err)
	}
}

func TestConsumerResetPolicies(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	now := time.Now()
	for i := range 10 {
		w := record.NewBuilder(record.Options{})
		w.Append(now.Add(time.Duration(i-9)*time.Hour).UnixMilli(), nil, fmt.Append(nil, i), nil)
		r.send(tp(0), w.Bytes())
	}
	for policy, want := range map[ResetPolicy]string{ResetEarliest: "0", ResetByDuration(150 * time.Minute): "7", ResetByDuration(-1 + time.Hour/2): "9"} {
		c := r.consumer(ConsumerConfig{OffsetReset: policy})
		if err := c.Assign(tp(0)); err != nil {
			t.Fatal(err)
		}
		r.poll(c, want)
	}
	c := r.consumer(ConsumerConfig{OffsetReset: ResetNone})
	if err := c.Assign(tp(0)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Poll(r.ctx, 1); err == nil || err.Error() != "t-0 has no committed offset to begin at, and OffsetReset is none: Seek to one" {
		t.Error(err)
	}
	if _, err := c.Position(r.ctx, tp(0)); err == nil {
		t.Error("there is a position")
	}
}

// A topic that was deleted and made anew is read from its beginning: offsets of the old one mean nothing in it (B-F5).
func TestConsumerTopicMadeAnew(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	r.put(tp(0), 0, 20)
	c := r.consumer(ConsumerConfig{OffsetReset: ResetEarliest, MaxWait: 10 * time.Millisecond})
	if err := c.Assign(tp(0)); err != nil {
		t.Fatal(err)
	}
	r.read(c, 20)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10_000
	d := kmsg.NewDeleteTopicsRequestTopic()
	d.Topic = kmsg.StringPtr("t")
	req.Topics, req.TopicNames = append(req.Topics, d), []string{"t"}
	if code := r.ask(req).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; code != 0 {
		t.Fatal(rpc.ErrorOf(code, nil, "t"))
	}
	r.topic("t", 1)
	if _, err := r.client.refresh(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.put(tp(0), 100, 130)
	r.check(r.read(c, 30), map[TopicPartition][]string{tp(0): numbers(100, 130)})
}

// A broker that is restarted costs nothing but time.
func TestConsumerRestart(t *testing.T) {
	r := newRig(t)
	r.topic("t", 2)
	c := r.consumer(ConsumerConfig{OffsetReset: ResetEarliest})
	if err := c.Assign(tp(0), tp(1)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		for p := range int32(2) {
			r.put(tp(p), i*10, i*10+10)
		}
		r.check(r.read(c, 20), map[TopicPartition][]string{tp(0): numbers(i*10, i*10+10), tp(1): numbers(i*10, i*10+10)})
		r.broker.Restart()
		r.client = dialRig(t, r.broker)
	}
}

// Poll allocates for each call and each fetch, not for records.
func TestConsumerAllocations(t *testing.T) {
	r := newRig(t)
	r.topic("t", 1)
	const n = 20_000
	r.put(tp(0), 0, n)
	c := r.consumer(ConsumerConfig{OffsetReset: ResetEarliest})
	if err := c.Assign(tp(0)); err != nil {
		t.Fatal(err)
	}
	r.read(c, 1)
	left, until := n-1, n
	allocs := testing.AllocsPerRun(1, func() { // which calls it twice
		for until -= n / 3; left > until; {
			rs, err := c.Poll(r.ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			left -= len(rs)
		}
	})
	if perRecord := allocs / (n / 3); perRecord > 0.05 {
		t.Errorf("%.3f allocations for each record", perRecord)
	}
}

func TestConsumerConfig(t *testing.T) {
	c, err := New(Config{BootstrapServers: []string{"localhost:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for says, config := range map[string]ConsumerConfig{
		"MaxBytes is -1: 1 to 1073741824":                                                           {MaxBytes: -1},
		"BufferMemory is 1: 65536 to 1099511627776":                                                 {BufferMemory: 1},
		"MaxWait is 30s: it must be less than RequestTimeout (30s)":                                 {MaxWait: 30 * time.Second},
		"HeartbeatInterval is 9s: it must be less than SessionTimeout (9s), a third of it is usual": {HeartbeatInterval: 9 * time.Second, SessionTimeout: 9 * time.Second},
		"InstanceID is set, and Group is not":                                                       {InstanceID: "a"},
		"Assignors[1] is nil, has no name, or the name of another one":                              {Assignors: []assign.Assignor{assign.Range, assign.Range}},
		"IsolationLevel is 5: ReadUncommitted or ReadCommitted":                                     {IsolationLevel: 5},
		"OffsetReset is by a duration of -1s: that is in the future":                                {OffsetReset: ResetByDuration(-time.Second)},
		"Protocol is 9: ClassicProtocol or ConsumerProtocol":                                        {Protocol: 9},
	} {
		if _, err := c.NewConsumer(config); err == nil || err.Error() != says {
			t.Errorf("%v, want %q", err, says)
		}
	}
	r, err := c.NewConsumer(ConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Assign(TopicPartition{Topic: "t", Partition: -1}); err == nil {
		t.Error("a partition with a negative number is assigned")
	}
}
