package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// producer makes a producer that ends with the test.
func producer(t testing.TB, c *Client, config ProducerConfig) *Producer {
	t.Helper()
	p, err := c.NewProducer(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close(within(t, patience)) })
	return p
}

// ledger notes what becomes of records, whose functions it makes; it checks their order.
type ledger struct {
	t    testing.TB
	mu   sync.Mutex
	next map[int32]int64 // the offset that follows, by partition
	told int
	errs []error
}

func newLedger(t testing.TB) *ledger { return &ledger{t: t, next: map[int32]int64{}} }

func (l *ledger) done(d Delivery, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told++
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	if d.Offset >= 0 && d.Offset != l.next[d.Partition] {
		l.t.Errorf("partition %d: offset %d, want %d", d.Partition, d.Offset, l.next[d.Partition])
	}
	l.next[d.Partition]++
}

func (l *ledger) check(told int) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.told != told || len(l.errs) > 0 {
		l.t.Errorf("told of %d of %d records; %d errors, the first: %v", l.told, told, len(l.errs), errors.Join(l.errs[:min(1, len(l.errs))]...))
	}
}

// Whatever a record may be arrives as it is, in all codecs and with all acks.
func TestProduce(t *testing.T) {
	l := startLeat(t, vfs.NewMem(1))
	for codec := range record.Zstd + 1 {
		for _, acks := range []Acks{AcksAll, AcksLeader, AcksNone} {
			topic := fmt.Sprintf("%v-%d", codec, acks)
			l.topic(topic, 1)
			p := producer(t, l.client(), ProducerConfig{Acks: acks, Compression: codec, Linger: time.Millisecond})
			told, at := newLedger(t), time.UnixMilli(time.Now().UnixMilli())
			records := []Record{
				{Key: []byte("k"), Value: []byte("v"), Timestamp: at},
				{Value: []byte{}, Timestamp: at},
				{Key: []byte{}, Timestamp: at, Headers: []Header{{Key: "h", Value: []byte("1")}, {Key: "", Value: nil}}},
				{Key: []byte("k"), Value: []byte(strings.Repeat("long ", 1000)), Timestamp: at},
			}
			for i := range records {
				records[i].Topic = topic
				if err := p.Send(t.Context(), &records[i], told.done); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Flush(within(t, patience)); err != nil {
				t.Fatal(err)
			}
			told.check(4)
			if err := p.Close(within(t, patience)); err != nil {
				t.Error(err)
			}
			got := l.log(topic, 0)
			for acks != AcksAll && len(got) < len(records) {
				got = l.log(topic, 0)
			}
			for i, r := range records {
				headers := ""
				for _, h := range r.Headers {
					headers += fmt.Sprintf("%s=%s;", h.Key, text(h.Value))
				}
				if want := (stored{int64(i), at.UnixMilli(), text(r.Key), text(r.Value), headers}); got[i] != want {
					t.Errorf("%s: %+v, want %+v", topic, got[i], want)
				}
			}
		}
	}
}

// Many goroutines, partitions and batches: nothing is lost, doubled or out of order, and a record may be used again at once.
func TestProduceMany(t *testing.T) {
	l := startLeat(t, vfs.NewMem(1))
	l.topic("many", 5)
	for name, config := range map[string]ProducerConfig{
		"default": {},
		"small":   {BatchSize: 1024, Linger: -1, BufferMemory: 1 << 20, MaxRequestSize: 4096},
	} {
		c := l.client()
		p := producer(t, c, config)
		told := newLedger(t)
		for n := range int32(5) {
			told.next[n] = int64(len(l.log("many", n)))
		}
		const goroutines, each = 4, 5000
		var all sync.WaitGroup
		for g := range goroutines {
			all.Go(func() {
				var r Record
				for i := range each {
					r.Topic, r.Key, r.Value = "many", fmt.Appendf(r.Key[:0], "%s %d", name, g), fmt.Appendf(r.Value[:0], "%d", i)
					if err := p.Send(t.Context(), &r, told.done); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if err := p.Close(within(t, patience)); err != nil {
			t.Error(err)
		}
		told.check(goroutines * each)
		if used := p.pool.inUse(); used != 0 {
			t.Errorf("%d bytes are still used", used)
		}
		next := map[string]int{}
		for n := range int32(5) {
			for _, r := range l.log("many", n) {
				if r.value != fmt.Sprint(next[r.key]) {
					t.Fatalf("%s: %s follows %d", r.key, r.value, next[r.key]-1)
				}
				next[r.key]++
			}
		}
		for g := range goroutines {
			if key := fmt.Sprintf("%s %d", name, g); next[key] != each {
				t.Errorf("%s: %d records", key, next[key])
			}
		}
	}
}

// A batch that is larger than the topic allows is divided until its parts are not, and those that follow are smaller; a record that is too large by itself fails, and only that one.
func TestBatchTooLarge(t *testing.T) {
	l := startLeat(t, vfs.NewMem(1))
	for codec := range record.Zstd + 1 {
		for _, plain := range []bool{false, true} {
			topic := fmt.Sprintf("%v-%t", codec, plain)
			l.topic(topic, 1, "max.message.bytes=3000")
			p := producer(t, l.client(), ProducerConfig{Compression: codec, Linger: 50 * time.Millisecond, NotIdempotent: plain, MaxInFlight: map[bool]int{true: 1}[plain]})
			random := rand.New(rand.NewPCG(1, 2))
			large := make([]byte, 5000)
			for i := range large {
				large[i] = byte(random.Uint32())
			}
			var failed []string
			told := 0
			for n := range 3000 {
				r := &Record{Topic: topic, Key: fmt.Append(nil, n), Value: fmt.Append(nil, random.Uint64()), Timestamp: time.UnixMilli(int64(1_700_000_000_000 - 17*n))}
				if n == 777 {
					r.Value = large
				}
				key, want := string(r.Key), n
				err := p.Send(t.Context(), r, func(d Delivery, err error) {
					if err != nil {
						failed = append(failed, key+" "+Code(err).Name())
					}
					if told != want {
						t.Errorf("told of %d after %d", want, told-1)
					}
					told++
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Flush(within(t, patience)); err != nil {
				t.Fatal(err)
			}
			if told != 3000 || len(failed) != 1 || failed[0] != "777 MESSAGE_TOO_LARGE" {
				t.Errorf("%s: told of %d; failed: %v", topic, told, failed)
			}
			got := l.log(topic, 0)
			for i, r := range got {
				if i >= 777 {
					i++
				}
				if r.key != fmt.Sprint(i) || r.ms != int64(1_700_000_000_000-17*i) {
					t.Fatalf("%s: %d is %+v", topic, i, r)
				}
			}
			if used := p.pool.inUse(); len(got) != 2999 || used != 0 {
				t.Errorf("%s: %d records, %d bytes are used", topic, len(got), used)
			}
		}
	}
}

// A topic may be deleted and made again, and grow, while records are sent: what was acknowledged before is gone with the old one, and what comes is in the new one, in order.
func TestTopicDeletedAndGrown(t *testing.T) {
	l := startLeat(t, vfs.NewMem(1), "auto.create.topics.enable=false", "log.segment.delete.delay.ms=0")
	l.topic("a", 1)
	c := l.client(func(c *Config) { c.MetadataMaxAge = 50 * time.Millisecond })
	p := producer(t, c, ProducerConfig{Linger: -1, Partitioner: RoundRobin()})
	next := 0
	send := func(n int) {
		t.Helper()
		for range n {
			if _, err := p.SendSync(within(t, patience), numbered("a", next)); err != nil {
				t.Fatalf("record %d: %v", next, err)
			}
			next++
		}
	}
	send(20)
	del := kmsg.NewPtrDeleteTopicsRequest()
	name := kmsg.NewDeleteTopicsRequestTopic()
	name.Topic = new(string)
	*name.Topic = "a"
	del.Topics, del.TopicNames, del.TimeoutMillis = append(del.Topics, name), []string{"a"}, 30_000
	if r := l.ask(del).(*kmsg.DeleteTopicsResponse).Topics[0]; r.ErrorCode != 0 {
		t.Fatalf("deleted: %d", r.ErrorCode)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := p.SendSync(within(t, patience), numbered("a", 20))
		waits <- err
	}()
	l.topic("a", 1)
	err := <-waits
	if _, unknown := errors.AsType[*UnknownTopicError](err); err != nil && !unknown {
		t.Fatal(err)
	}
	if next = 20; err == nil {
		next = 21
	}
	send(20)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	to := kmsg.NewCreatePartitionsRequestTopic()
	to.Topic, to.Count = "a", 3
	grow.Topics, grow.TimeoutMillis = append(grow.Topics, to), 30_000
	if r := l.ask(grow).(*kmsg.CreatePartitionsResponse).Topics[0]; r.ErrorCode != 0 {
		t.Fatalf("grown: %d", r.ErrorCode)
	}
	for len(l.log("a", 2)) == 0 {
		send(1)
	}
	var all []int
	for n := range int32(3) {
		last := -1
		for _, r := range l.log("a", n) {
			v, err := strconv.Atoi(r.value)
			if err != nil || v <= last {
				t.Errorf("a-%d: %s follows %d", n, r.value, last)
			}
			last = v
			all = append(all, v)
		}
	}
	slices.Sort(all)
	if first := all[0]; first < 20 || len(all) != next-first || len(slices.Compact(all)) != next-first {
		t.Errorf("%d records from %d on, want %d", len(all), all[0], next-20)
	}
}

// A topic that is made anew with fewer partitions has only those: keys go to partitions that exist, and to choose another is a mistake at once.
func TestTopicMadeAnewWithFewerPartitions(t *testing.T) {
	r := newRig(t)
	r.topic("t", 4)
	p := producer(t, r.client, ProducerConfig{Linger: -1})
	explicit := producer(t, r.client, ProducerConfig{Linger: -1, Partitioner: ExplicitPartition()})
	send := func(p *Producer, key string, partition int32) error {
		_, err := p.SendSync(within(t, patience), &Record{Topic: "t", Key: []byte(key), Partition: partition})
		return err
	}
	for i := range 20 {
		if err := errors.Join(send(p, strconv.Itoa(i), 0), send(explicit, "", int32(i%4))); err != nil {
			t.Fatal(err)
		}
	}
	del := kmsg.NewPtrDeleteTopicsRequest()
	name := kmsg.NewDeleteTopicsRequestTopic()
	name.Topic = kmsg.StringPtr("t")
	del.Topics, del.TopicNames, del.TimeoutMillis = append(del.Topics, name), []string{"t"}, 30_000
	if code := r.ask(del).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("deleted: %d", code)
	}
	r.topic("t", 1)
	for _, p := range []*Producer{p, explicit} {
		for p.mu.topics["t"].table.Load().view.Count != 1 {
			if _, err := r.client.refresh(r.ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 20 {
		if err := send(p, strconv.Itoa(i), 0); err != nil {
			t.Fatalf("key %d: %v", i, err)
		}
	}
	if err := errors.Join(send(p, "", 0), send(explicit, "", 0)); err != nil {
		t.Error(err)
	}
	if err := send(explicit, "", 2); err == nil || !strings.Contains(err.Error(), "chose partition 2 of t, which has 1") {
		t.Error(err)
	}
}
