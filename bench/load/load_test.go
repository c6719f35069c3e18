package load

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/broker"
	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/record"
)

func startBroker(t *testing.T) string {
	t.Helper()
	set := config.NewSet()
	for k, v := range map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": t.TempDir()} {
		if err := set.Override(k, v, config.Flag); err != nil {
			t.Fatal(err)
		}
	}
	b, err := broker.New(broker.Options{Config: set})
	if err != nil {
		t.Fatal(err)
	}
	go b.Serve()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return b.Addrs()[0].String()
}

// eachPoller runs a test with the sockets of this platform and with the portable ones.
func eachPoller(t *testing.T, fn func(t *testing.T, run func(o RunOptions, loads ...Load) *Report)) {
	for name, open := range map[string]func() (poller, error){"own": newPoller, "portable": func() (poller, error) { return newNetPoller(), nil }} {
		t.Run(name, func(t *testing.T) {
			fn(t, func(o RunOptions, loads ...Load) *Report {
				t.Helper()
				p, err := open()
				if err != nil {
					t.Fatal(err)
				}
				r, err := runOver(t.Context(), p, o, loads)
				if err != nil {
					t.Fatal(err)
				}
				return r
			})
		})
	}
}

const generous = time.Minute // runs of tests end at their bytes

func TestProduceThenFetch(t *testing.T) {
	addr := startBroker(t)
	if err := CheckVersions(t.Context(), addr); err != nil {
		t.Fatal(err)
	}
	eachPoller(t, func(t *testing.T, run func(RunOptions, ...Load) *Report) {
		topic := "t-" + strings.ReplaceAll(t.Name(), "/", "-")
		if made, err := CreateTopic(t.Context(), addr, topic, 5, map[string]string{"retention.ms": "-1"}); err != nil || !made {
			t.Fatal(made, err)
		}
		p := &ProduceLoad{Addr: addr, Topic: topic, Connections: 2, InFlight: 3, Records: 16, Size: 100, Acks: -1, Exclusive: true}
		r := run(RunOptions{Duration: generous, MaxBytes: 1 << 20}, p)
		got := r.Loads[0]
		if got.Bytes < 1<<20 || got.Records != got.Requests*16 || got.Bytes != got.Requests*int64(p.BatchBytes()) || got.Latency.Count() != uint64(got.Requests) {
			t.Fatalf("%+v", got)
		}
		for _, f := range []*FetchLoad{
			{Connections: 5, InFlight: 1},
			{Connections: 3, InFlight: 1},
			{Connections: 2, InFlight: 4, Uniform: Layout{p.BatchBytes(), 16}},
		} {
			f.Addr, f.Topic, f.MaxBytes, f.MaxWait, f.Exclusive = addr, topic, 10_000, time.Second, true
			r = run(RunOptions{Duration: generous, MaxBytes: 8 << 20}, f)
			if got = r.Loads[0]; got.Bytes < 8<<20 || got.Bytes/int64(p.BatchBytes())*16 != got.Records {
				t.Fatalf("%+v", got)
			}
		}
		if err := DeleteTopic(t.Context(), addr, topic); err != nil {
			t.Fatal(err)
		}
		if n, err := Partitions(t.Context(), addr, topic); n != 0 || err != nil {
			t.Fatal(n, err)
		}
	})
}

func TestTailSeesEverything(t *testing.T) {
	addr := startBroker(t)
	eachPoller(t, func(t *testing.T, run func(RunOptions, ...Load) *Report) {
		topic := "t-" + strings.ReplaceAll(t.Name(), "/", "-")
		if _, err := CreateTopic(t.Context(), addr, topic, 2, nil); err != nil {
			t.Fatal(err)
		}
		p := &ProduceLoad{Addr: addr, Topic: topic, Connections: 1, InFlight: 50, Records: 2, Size: 64, Rate: 10_000, Acks: -1, Exclusive: true, Stamp: true}
		f := &FetchLoad{Addr: addr, Topic: topic, Connections: 6, InFlight: 1, MaxBytes: 1 << 20, MaxWait: time.Second, Exclusive: true, Tail: p}
		r := run(RunOptions{Duration: generous, MaxBytes: 200_000}, p, f)
		if made, seen := r.Loads[0], r.Loads[1]; made.Records == 0 || seen.Records < made.Records || seen.Latency.Max() == 0 || seen.Latency.Max() > generous {
			t.Fatalf("%+v\n%+v", made, seen)
		}
	})
}

func TestFill(t *testing.T) {
	addr := startBroker(t)
	if _, err := CreateTopic(t.Context(), addr, "fill", 2, nil); err != nil {
		t.Fatal(err)
	}
	u, records, err := Fill(t.Context(), addr, "fill", 1<<20)
	if err != nil || u.Records != fillRecords || u.BatchBytes < fillRecords*fillSize || records*1024 < 1<<20 {
		t.Fatal(u, records, err)
	}
}

func TestARunStopsWithItsContext(t *testing.T) {
	addr := startBroker(t)
	if _, err := CreateTopic(t.Context(), addr, "stop", 1, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	_, err = runOver(ctx, p, RunOptions{Duration: generous}, []Load{&ProduceLoad{Addr: addr, Topic: "stop", Connections: 1, InFlight: 1, Records: 1, Size: 10, Acks: 1}})
	if err == nil {
		t.Fatal("a run began without a context")
	}
}

func TestImpossibleLoads(t *testing.T) {
	for i, l := range []interface{ check() error }{
		&ProduceLoad{},
		&ProduceLoad{Connections: 1, InFlight: 1, Records: 1, Acks: 0},
		&ProduceLoad{Connections: 1, InFlight: 1, Records: 1, Acks: 1, Size: 7, Stamp: true},
		&FetchLoad{},
		&FetchLoad{Connections: 1, InFlight: 2, MaxBytes: 100},
		&FetchLoad{Connections: 1, InFlight: 1, MaxBytes: 100, Uniform: Layout{101, 1}},
		&FetchLoad{Connections: 1, InFlight: 1, MaxBytes: 100, Tail: &ProduceLoad{}},
	} {
		if l.check() == nil {
			t.Errorf("load %d was accepted", i)
		}
	}
	if _, err := sameLeader([]int32{0, 1}, []string{"a", "b"}); err == nil {
		t.Error("one connection for two leaders was accepted")
	}
}

func TestShares(t *testing.T) {
	for _, c := range []struct {
		conn, conns, partitions int
		want                    string
	}{{0, 1, 3, "[0 1 2]"}, {1, 2, 5, "[1 3]"}, {4, 16, 3, "[1]"}, {2, 3, 3, "[2]"}} {
		if got := fmt.Sprint(partitionsOf(c.conn, c.conns, c.partitions)); got != c.want {
			t.Errorf("connection %d of %d has %s of %d partitions, want %s", c.conn, c.conns, got, c.partitions, c.want)
		}
	}
}

// produceAnswerBytes is a whole answer to a produce.
func produceAnswerBytes(topic string, partition int32, code int16, offset int64) []byte {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = produceVersion
	t := kmsg.NewProduceResponseTopic()
	t.Topic = topic
	p := kmsg.NewProduceResponseTopicPartition()
	p.Partition, p.ErrorCode, p.BaseOffset = partition, code, offset
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	return sized(resp.AppendTo(make([]byte, answerHead+1)))
}

func sized(b []byte) []byte {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func TestWrongProduceAnswersAreRefused(t *testing.T) {
	l := &ProduceLoad{Topic: "topic", Records: 4, Exclusive: true, acked: make([]int64, 3)}
	fresh := func() *produceSource {
		return &produceSource{load: l, topic: "topic", partitions: []int32{2}, next: []int64{40}, shape: newProduceAnswer("topic"), oncePerConn: true}
	}
	good := produceAnswerBytes("topic", 2, 0, 40)
	if d, err := fresh().answer(0, good, len(good), time.Time{}); err != nil || d.records != 4 || l.acked[2] != 44 {
		t.Fatal(d, err, l.acked)
	}
	for name, b := range map[string][]byte{
		"a gap":             produceAnswerBytes("topic", 2, 0, 44),
		"the same again":    produceAnswerBytes("topic", 2, 0, 36),
		"an error":          produceAnswerBytes("topic", 2, 6, -1),
		"another partition": produceAnswerBytes("topic", 1, 0, 40),
		"cut short":         good[:len(good)-9],
	} {
		if _, err := fresh().answer(0, b, len(b), time.Time{}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// fetchAnswerBytes is a whole answer to a fetch.
func fetchAnswerBytes(topic string, code int16, records []byte) []byte {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = fetchVersion
	t := kmsg.NewFetchResponseTopic()
	t.Topic = topic
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode, p.HighWatermark, p.RecordBatches = 1, code, 1000, records
	t.Partitions = append(t.Partitions, p)
	resp.Topics = append(resp.Topics, t)
	return sized(resp.AppendTo(make([]byte, answerHead+1)))
}

func batchAt(offset int64) record.Batch {
	b, _ := newBatch(4, 50, uint64(offset))
	b.SetBaseOffset(offset)
	return b
}

func TestWrongFetchAnswersAreRefused(t *testing.T) {
	size := len(batchAt(0))
	join := func(batches ...record.Batch) (b []byte) {
		for _, x := range batches {
			b = append(b, x...)
		}
		return b
	}
	broken := batchAt(104)
	broken[size-1]++
	short := join(batchAt(100), batchAt(104))
	for name, uniform := range map[string]Layout{"unknown layout": {}, "known layout": {size, 4}} {
		l := &FetchLoad{Topic: "topic", MaxBytes: 2*size + 5, Exclusive: true, Uniform: uniform}
		fresh := func() *fetchSource {
			f := &fetchSource{load: l, partitions: []int32{1}, begin: []int64{0}, end: []int64{1000}, asks: []int64{100}, due: []int64{100}}
			if uniform != (Layout{}) {
				f.head = fetchHead("topic")
			}
			return f
		}
		good := fetchAnswerBytes("topic", 0, append(short[:len(short):len(short)], batchAt(108)[:5]...))
		f := fresh()
		if d, err := f.answer(0, good, len(good), time.Time{}); err != nil || d.records != 8 || d.bytes != int64(2*size) || f.due[0] != 108 {
			t.Fatal(name, d, err, f.due)
		}
		for what, b := range map[string][]byte{
			"a wrong CRC":        fetchAnswerBytes("topic", 0, join(batchAt(100), broken)),
			"a gap":              fetchAnswerBytes("topic", 0, join(batchAt(100), batchAt(108))),
			"a batch twice":      fetchAnswerBytes("topic", 0, join(batchAt(100), batchAt(100))),
			"records before":     fetchAnswerBytes("topic", 0, join(batchAt(92), batchAt(96))),
			"records behind":     fetchAnswerBytes("topic", 0, join(batchAt(104), batchAt(108))),
			"half a batch":       fetchAnswerBytes("topic", 0, short[:size-1]),
			"an error":           fetchAnswerBytes("topic", 1, nil),
			"another topic":      fetchAnswerBytes("other", 0, short),
			"a long topic":       fetchAnswerBytes(strings.Repeat("t", 200), 0, short),
			"an answer cut down": good[:25],
		} {
			if _, err := fresh().answer(0, b, len(b), time.Time{}); err == nil {
				t.Errorf("%s: %s was accepted", name, what)
			}
		}
	}
}

func TestNewBatch(t *testing.T) {
	a, at := newBatch(3, 100, 1)
	b, _ := newBatch(3, 100, 2)
	if err := a.Check(); err != nil || a.Count() != 3 || string(a.Payload()) == string(b.Payload()) || at < record.HeaderSize {
		t.Fatal(err, a.Count(), at)
	}
	packed, err := record.Compress(nil, a.Payload(), record.Zstd, 3)
	if err != nil || len(packed) < len(a.Payload())*95/100 {
		t.Fatalf("%d bytes compress to %d (%v)", len(a.Payload()), len(packed), err)
	}
}

// Commits of one group and of many are acknowledged, counted, and there afterwards.
func TestCommits(t *testing.T) {
	addr := startBroker(t)
	eachPoller(t, func(t *testing.T, run func(RunOptions, ...Load) *Report) {
		topic := "t-" + strings.ReplaceAll(t.Name(), "/", "-")
		if _, err := CreateTopic(t.Context(), addr, topic, 12, nil); err != nil {
			t.Fatal(err)
		}
		for _, groups := range []int{1, 3} {
			l := &CommitLoad{Addr: addr, Topic: topic, Group: fmt.Sprint(topic, groups), Groups: groups, Connections: 4, InFlight: 1, Partitions: 3}
			r := run(RunOptions{Duration: generous, MaxBytes: 10_000}, l)
			if got := r.Loads[0]; got.Bytes < 10_000 || got.Records != 3*got.Requests {
				t.Fatalf("%+v", got)
			}
			if err := l.Verify(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.acked[3]++
			if err := l.Verify(t.Context()); err == nil {
				t.Fatal("an offset that is missing was not missed")
			}
			if err := l.DeleteGroups(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	})
	undo, err := ConfigureOffsets(t.Context(), addr, map[string]string{"write.caching": "true"})
	if err != nil {
		t.Fatal(err)
	}
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	l := &CommitLoad{Addr: addr, Topic: "no-topic", Group: "g", Groups: 1, Connections: 1, InFlight: 1, Partitions: 1}
	if _, err := Run(t.Context(), RunOptions{Duration: generous}, l); err == nil {
		t.Fatal("offsets of no topic were committed")
	}
}
