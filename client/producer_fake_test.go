package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// fakeSink are the partitions of a fake cluster that takes records.
type fakeSink struct {
	f  *fakeCluster
	mu sync.Mutex
	// refuse may answer in place of the log.
	refuse func(addr, where string, b record.Batch) (protocol.Code, bool)
	logs   map[string]*modelBroker
}

// takesRecords makes a fake cluster answer InitProducerId and Produce as brokers do: only leaders take records, and tell who leads.
func (f *fakeCluster) takesRecords() *fakeSink {
	l := &fakeSink{f: f, logs: map[string]*modelBroker{}}
	f.on(22, func(_ string, req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
		resp.ProducerID = testID
		return resp
	})
	f.on(0, func(addr string, req kmsg.Request) kmsg.Response { return l.produce(addr, req.(*kmsg.ProduceRequest)) })
	return l
}

func (l *fakeSink) produce(addr string, req *kmsg.ProduceRequest) kmsg.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition = p.Partition
			var code protocol.Code
			if rp.BaseOffset, code = l.append(addr, fmt.Sprintf("%s-%d", t.Topic, p.Partition), t.Topic, p.Partition, record.Batch(p.Records)); code != 0 {
				rp.ErrorCode = int16(code)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	if req.Acks == 0 {
		return nil
	}
	return resp
}

func (l *fakeSink) append(addr, where, topic string, partition int32, b record.Batch) (int64, protocol.Code) {
	if err := b.Check(); err != nil {
		return 0, protocol.CorruptMessage
	}
	if l.refuse != nil {
		if code, refused := l.refuse(addr, where, b); refused {
			return 0, code
		}
	}
	l.f.mu.Lock()
	leaders := l.f.mu.topics[topic]
	led := int(partition) < len(leaders) && l.f.mu.brokers[leaders[partition]] == addr
	l.f.mu.Unlock()
	if !led {
		return 0, protocol.NotLeaderOrFollower
	}
	m := l.logs[where]
	if m == nil {
		m = &modelBroker{}
		l.logs[where] = m
	}
	if b.ProducerID() < 0 {
		m.known = false
	}
	return m.append(b)
}

// log is the records of a partition.
func (l *fakeSink) log(where string) []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logs[where] == nil {
		return nil
	}
	return slices.Clone(l.logs[where].log)
}

func (l *fakeSink) onAppend(refuse func(addr, where string, b record.Batch) (protocol.Code, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = refuse
}

// numbered is a record whose value is a number.
func numbered(topic string, n int) *Record {
	return &Record{Topic: topic, Value: strconv.AppendInt(nil, int64(n), 10)}
}

// A leader that moves takes the batches with it: none is lost, doubled or overtaken.
func TestLeaderMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 3)
		f.topic("a", 1)
		logs := f.takesRecords()
		p := producer(t, f.client(), ProducerConfig{Linger: -1})
		told := newLedger(t)
		for n := range 300 {
			if n%50 == 49 {
				f.topic("a", int32(n/50%3+1))
			}
			if err := p.Send(t.Context(), numbered("a", n), told.done); err != nil {
				t.Fatal(err)
			}
			if n%10 == 0 {
				time.Sleep(7 * time.Millisecond)
			}
		}
		if err := p.Flush(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		told.check(300)
		if log := logs.log("a-0"); len(log) != 300 || !slices.IsSorted(log) {
			t.Errorf("the log: %v", log)
		}
	})
}

// Connections that break at any time, partitions that are refused for a while: nothing is lost, doubled or overtaken.
func TestBrokenConnections(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeCluster(t, 2)
			f.topic("a", 1, 2, 1)
			logs, random := f.takesRecords(), rand.New(rand.NewPCG(seed, 2))
			var mu sync.Mutex
			chance := func(n int) bool {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n) == 0
			}
			logs.onAppend(func(string, string, record.Batch) (protocol.Code, bool) {
				return protocol.NotEnoughReplicas, chance(15)
			})
			c := f.client(func(c *Config) {
				c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					conn, err := f.dial(ctx, network, addr)
					return &frail{Conn: conn, breaks: func() bool { return chance(40) }}, err
				}
			})
			p := producer(t, c, ProducerConfig{Linger: time.Millisecond, BatchSize: 1024, Partitioner: RoundRobin()})
			told := newLedger(t)
			for n := range 600 {
				if err := p.Send(t.Context(), numbered("a", n), told.done); err != nil {
					t.Fatal(err)
				}
				if n%20 == 0 {
					time.Sleep(3 * time.Millisecond)
				}
			}
			if err := p.Flush(within(t, time.Hour)); err != nil {
				t.Fatal(err)
			}
			told.check(600)
			var all []int
			for n := range 3 {
				log := logs.log(fmt.Sprint("a-", n))
				if !slices.IsSorted(log) {
					t.Errorf("a-%d: %v", n, log)
				}
				all = append(all, log...)
			}
			if slices.Sort(all); len(all) != 600 || len(slices.Compact(all)) != 600 {
				t.Errorf("%d records in the logs", len(all))
			}
		})
	}
}

// frail is a connection that breaks when it is written to, before or after the bytes, or in their midst.
type frail struct {
	net.Conn
	breaks func() bool
}

func (c *frail) Write(b []byte) (int, error) {
	if c.breaks() {
		n := 0
		if c.breaks() || len(b) > 1 {
			n, _ = c.Conn.Write(b[:len(b)/2])
		}
		c.Conn.Close()
		return n, errors.New("broken on purpose")
	}
	n, err := c.Conn.Write(b)
	if c.breaks() {
		c.Conn.Close()
	}
	return n, err
}

// Records leave when they have lingered, in one batch; full ones at once; flushed and synchronous ones as well.
func TestProducerLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("a", 1)
		logs := f.takesRecords()
		var mu sync.Mutex
		records, batches := 0, 0
		p := producer(t, f.client(func(c *Config) {
			c.Hooks.Delivered = func(topic string, partition int32, n, bytes int, took time.Duration, err error) {
				mu.Lock()
				defer mu.Unlock()
				records, batches = records+n, batches+1
				if topic != "a" || partition != 0 || n == 0 || bytes < record.HeaderSize || took < 0 || err != nil {
					t.Errorf("told of %s-%d, %d records, %d bytes, %v, %v", topic, partition, n, bytes, took, err)
				}
			}
		}), ProducerConfig{Linger: time.Second, BatchSize: 1024})
		if d, err := p.SendSync(t.Context(), numbered("a", 0)); err != nil || d != (Delivery{Topic: "a"}) {
			t.Fatalf("%+v, %v", d, err)
		}
		begin := time.Now()
		if _, err := p.SendSync(t.Context(), numbered("a", 1)); err != nil || time.Since(begin) > 10*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		for n := range 3 {
			if err := p.Send(t.Context(), numbered("a", n), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
		}
		if n := len(logs.log("a-0")); n != 2 {
			t.Errorf("%d records before the time", n)
		}
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		if n := len(logs.log("a-0")); n != 5 {
			t.Errorf("%d records in time", n)
		}
		before := len(f.requests("Produce"))
		if before != 3 {
			t.Errorf("%d requests", before)
		}
		for n := range 200 { // more than one batch
			if err := p.Send(t.Context(), numbered("a", n), nil); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := len(logs.log("a-0")); n < 5+60 || n == 205 {
			t.Errorf("%d records when one batch is full", n)
		}
		begin = time.Now()
		if err := p.Flush(t.Context()); err != nil || time.Since(begin) > 10*time.Millisecond || len(logs.log("a-0")) != 205 {
			t.Errorf("flushed in %v, %v", time.Since(begin), err)
		}
		mu.Lock()
		defer mu.Unlock()
		if records != 205 || batches < 5 {
			t.Errorf("told of %d records in %d batches", records, batches)
		}
	})
}

// The memory is a hard limit: Send waits for it, or fails, as configured; batches that would linger leave.
func TestBufferMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("a", 1)
		logs := f.takesRecords()
		config := ProducerConfig{Linger: time.Hour, DeliveryTimeout: 2 * time.Hour, BatchSize: 1 << 10, MaxRequestSize: 4 << 10, BufferMemory: 4 << 10, MaxBlock: 10 * time.Second}
		p := producer(t, f.client(), config)
		told := newLedger(t)
		for n := range 1000 {
			if err := p.Send(t.Context(), numbered("a", n), told.done); err != nil {
				t.Fatal(err)
			}
			if used := p.pool.inUse(); used > 4<<10 {
				t.Fatalf("%d bytes are used", used)
			}
		}
		if err := p.Close(t.Context()); err != nil || len(logs.log("a-0")) != 1000 {
			t.Errorf("%v, %d records", err, len(logs.log("a-0")))
		}
		told.check(1000)
		f.down("b1:9092", true)
		fill := func(p *Producer, ctx context.Context) (err error) {
			for err == nil {
				err = p.Send(ctx, &Record{Topic: "a", Value: make([]byte, 400)}, nil)
			}
			return err
		}
		c := f.client()
		f.down("b1:9092", false)
		if _, err := c.topic(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		c.metadata.want("a")
		f.down("b1:9092", true)
		begin := time.Now()
		waits := producer(t, c, config)
		err := fill(waits, t.Context())
		if e, ok := errors.AsType[*BufferFullError](err); !ok || e.Limit != 4<<10 || time.Since(begin) != 10*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := fill(waits, ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "buffer memory") {
			t.Errorf("%v", err)
		}
		config.FailOnFullBuffer = true
		fails := producer(t, c, config)
		begin = time.Now()
		if _, ok := errors.AsType[*BufferFullError](fill(fails, t.Context())); !ok || time.Since(begin) != 0 {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		third := producer(t, c, config.waiting())
		go func() {
			time.Sleep(time.Second)
			third.shut()
		}()
		if err := fill(third, context.Background()); !errors.Is(err, ErrClosed) {
			t.Errorf("closed while it waits: %v", err)
		}
		for _, p := range []*Producer{waits, fails} {
			if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("closed with %v", err)
			}
			if used := p.pool.inUse(); used != 0 {
				t.Errorf("%d bytes are still used", used)
			}
		}
	})
}

// waiting is the configuration of a producer that waits for memory.
func (c ProducerConfig) waiting() ProducerConfig {
	c.FailOnFullBuffer = false
	return c
}

// Records that cannot be delivered in time fail then: when nobody answers, when there is no leader, when the broker refuses them for now.
func TestDeliveryTimeout(t *testing.T) {
	for name, cause := range map[string]func(f *fakeCluster, logs *fakeSink){
		"silent":    func(f *fakeCluster, _ *fakeSink) { f.on(0, func(string, kmsg.Request) kmsg.Response { return nil }) },
		"down":      func(f *fakeCluster, _ *fakeSink) { f.down("b2:9092", true) },
		"no leader": func(f *fakeCluster, _ *fakeSink) { f.topic("a", -1) },
		"refused": func(_ *fakeCluster, logs *fakeSink) {
			logs.onAppend(func(string, string, record.Batch) (protocol.Code, bool) { return protocol.NotEnoughReplicas, true })
		},
		"no id": func(f *fakeCluster, _ *fakeSink) { f.on(22, func(string, kmsg.Request) kmsg.Response { return nil }) },
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeCluster(t, 2)
			f.topic("a", 2)
			cause(f, f.takesRecords())
			p := producer(t, f.client(), ProducerConfig{DeliveryTimeout: 45 * time.Second})
			begin := time.Now()
			failed := make(chan error, 3)
			for n := range 3 {
				if err := p.Send(t.Context(), numbered("a", n), func(_ Delivery, err error) { failed <- err }); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 {
				err := <-failed
				if e, ok := errors.AsType[*DeliveryTimeoutError](err); !ok || e.Topic != "a" || e.Last == nil || e.Sent != (name == "silent" || name == "refused") {
					t.Errorf("%s: %v", name, err)
				}
			}
			if d := time.Since(begin); d < 45*time.Second || d > 46*time.Second {
				t.Errorf("%s: after %v", name, d)
			}
		})
	}
}

// What ends a producer ends it for good: it says why, everything that waits fails with it, and so does every Send.
func TestProducerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("a", 1, 1)
		logs := f.takesRecords()
		p := producer(t, f.client(), ProducerConfig{Partitioner: ExplicitPartition()})
		if _, err := p.SendSync(t.Context(), numbered("a", 1)); err != nil {
			t.Fatal(err)
		}
		logs.onAppend(func(_, where string, _ record.Batch) (protocol.Code, bool) {
			return protocol.OutOfOrderSequenceNumber, where == "a-0"
		})
		var errs []error
		other := numbered("a", 3)
		other.Partition = 1
		for _, r := range []*Record{numbered("a", 2), other} {
			if err := p.Send(t.Context(), r, func(_ Delivery, err error) { errs = append(errs, err) }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		_, again := p.SendSync(t.Context(), numbered("a", 4))
		closed := p.Close(t.Context())
		for _, err := range []error{errs[0], again, closed} {
			if e, ok := errors.AsType[*FatalError](err); !ok || Code(err) != protocol.OutOfOrderSequenceNumber || !strings.HasPrefix(e.Error(), "the producer cannot go on: a-0 refuses records") {
				t.Errorf("%v", err)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("a", 1)
		f.takesRecords()
		f.on(22, func(_ string, req kmsg.Request) kmsg.Response {
			resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
			resp.ErrorCode = int16(protocol.ClusterAuthorizationFailed)
			return resp
		})
		p := producer(t, f.client(), ProducerConfig{})
		if _, err := p.SendSync(t.Context(), numbered("a", 1)); Code(err) != protocol.ClusterAuthorizationFailed {
			t.Errorf("without an id: %v", err)
		}
	})
}

// Old brokers are spoken to in their own way.
func TestOldProduce(t *testing.T) {
	for newest, idempotent := range map[int16]bool{3: false, 7: true, 9: true, 13: true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeCluster(t, 1)
			f.topic("a", 1)
			f.topic("b", 1, 1)
			logs := f.takesRecords()
			f.on(18, func(string, kmsg.Request) kmsg.Response {
				resp := protocol.APIVersions(3, nil, 0)
				for i := range resp.ApiKeys {
					if resp.ApiKeys[i].ApiKey == keyProduce {
						resp.ApiKeys[i].MaxVersion = newest
					}
				}
				return resp
			})
			p := producer(t, f.client(), ProducerConfig{NotIdempotent: !idempotent, Partitioner: RoundRobin(), Linger: time.Second})
			for n := range 6 {
				if err := p.Send(t.Context(), numbered([]string{"a", "b"}[n%2], n), nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Flush(within(t, patience)); err != nil {
				t.Fatal(err)
			}
			if a, b, c := logs.log("a-0"), logs.log("b-0"), logs.log("b-1"); !slices.Equal(a, []int{0, 2, 4}) || !slices.Equal(b, []int{1, 5}) || !slices.Equal(c, []int{3}) {
				t.Errorf("%v %v %v", a, b, c)
			}
			if got := f.requests("Produce"); len(got) != 1 || got[0] != fmt.Sprintf("Produce v%d b1:9092", min(newest, produceNewest)) {
				t.Errorf("%v", got)
			}
		})
	}
}

// A record that cannot be sent is refused at once, and whoever closes leaves nothing running.
func TestSendRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("a", 1)
		f.takesRecords()
		c := f.client()
		p := producer(t, c, ProducerConfig{Partitioner: ExplicitPartition(), MaxRequestSize: 2048})
		_, err := p.SendSync(t.Context(), &Record{Topic: "a", Value: make([]byte, 2000)})
		if e, ok := errors.AsType[*RecordTooLargeError](err); !ok || e.Limit != 2048 {
			t.Errorf("%v", err)
		}
		if err := p.Send(t.Context(), &Record{Topic: "a", Partition: 1}, nil); err == nil || err.Error() != "the partitioner chose partition 1 of a, which has 1" {
			t.Errorf("%v", err)
		}
		if err := p.Send(t.Context(), &Record{Topic: "nope"}, nil); Code(err) != protocol.UnknownTopicOrPartition {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Send(ctx, &Record{Topic: "nope"}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		c.Close()
		if err := p.Send(t.Context(), numbered("a", 1), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		if _, err := c.NewProducer(ProducerConfig{}); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Errorf("%v", err)
		}
		f.serving.Wait()
		synctest.Wait()
		if left := clientGoroutines(); left != "" {
			t.Errorf("left running:\n%s", left)
		}
	})
}

// Records for a partition without a leader, or of a topic that is deleted and made again, leave as soon as there is one.
func TestLeaderComesBack(t *testing.T) {
	for name, away := range map[string]func(f *fakeCluster){
		"no leader": func(f *fakeCluster) { f.topic("a", -1) },
		"deleted": func(f *fakeCluster) {
			f.mu.Lock()
			defer f.mu.Unlock()
			delete(f.mu.topics, "a")
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeCluster(t, 2)
			f.topic("a", 1)
			logs := f.takesRecords()
			c := f.client()
			p := producer(t, c, ProducerConfig{})
			told := newLedger(t)
			for n := range 20 {
				if err := p.Send(t.Context(), numbered("a", n), told.done); err != nil {
					t.Fatal(err)
				}
				if n == 9 {
					if err := p.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
					away(f)
					if name == "no leader" {
						_, _ = c.refresh(t.Context())
						synctest.Wait()
					}
				}
			}
			time.Sleep(20 * time.Second)
			f.topic("a", 2)
			begin := time.Now()
			if err := p.Flush(t.Context()); err != nil || time.Since(begin) > 3*time.Second {
				t.Errorf("%s: %v after %v", name, err, time.Since(begin))
			}
			told.check(20)
			if log := logs.log("a-0"); len(log) != 20 {
				t.Errorf("%s: %v", name, log)
			}
			if n := len(f.requests("Metadata")); n > 60 {
				t.Errorf("%s: asked for metadata %d times", name, n)
			}
		})
	}
}

// Partitions that are added while records are sent get some.
func TestPartitionsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 2)
		f.topic("a", 1)
		logs := f.takesRecords()
		p := producer(t, f.client(func(c *Config) { c.MetadataMaxAge = time.Minute }), ProducerConfig{Partitioner: RoundRobin()})
		for n := range 10 {
			if _, err := p.SendSync(t.Context(), numbered("a", n)); err != nil {
				t.Fatal(err)
			}
			if n == 4 {
				f.topic("a", 1, 2)
				time.Sleep(2 * time.Minute)
			}
		}
		if log := logs.log("a-1"); len(log) < 2 {
			t.Errorf("the new partition has %v", log)
		}
	})
}

func TestProducerConfig(t *testing.T) {
	c, err := New(Config{BootstrapServers: []string{"a:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for setting, config := range map[string]ProducerConfig{
		"Acks": {Acks: 3}, "BatchSize": {BatchSize: 10}, "MaxRequestSize": {MaxRequestSize: 10}, "MaxInFlight": {MaxInFlight: 6}, "BufferMemory": {BufferMemory: 1000},
		"Compression": {Compression: 9}, "DeliveryTimeout": {DeliveryTimeout: time.Millisecond}, "MaxBlock": {MaxBlock: -1},
	} {
		if _, err := c.NewProducer(config); err == nil || !strings.HasPrefix(err.Error(), setting+" is ") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	p, err := c.NewProducer(ProducerConfig{Acks: AcksLeader, MaxInFlight: 20})
	if err != nil || !p.config.NotIdempotent || p.config.Linger != 5*time.Millisecond || p.config.MaxInFlight != 20 {
		t.Errorf("%+v, %v", p.config, err)
	}
}
