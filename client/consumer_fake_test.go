package client

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// fakeLogs are the partitions of a fakeCluster's topics, whose leaders all see the same.
type fakeLogs struct {
	cluster *fakeCluster
	mu      sync.Mutex
	logs    map[TopicPartition]*fakeLog
	changed chan struct{}
	refuse  func(addr string, tp TopicPartition, req *kmsg.FetchRequest) protocol.Code // of a fetch; nil: none
	prefer  map[string]int32                                                           // by the broker asked: who is to be asked instead
	fetches []string                                                                   // "ADDR SESSION/EPOCH TOPIC-PARTITION@OFFSET(LEADER EPOCH,LAST EPOCH) ..."
}

type fakeLog struct {
	start   int64
	batches []record.Batch
}

func (l *fakeLog) end() int64 {
	if len(l.batches) == 0 {
		return l.start
	}
	return l.batches[len(l.batches)-1].NextOffset()
}

func newFakeLogs(f *fakeCluster) *fakeLogs {
	l := &fakeLogs{cluster: f, logs: map[TopicPartition]*fakeLog{}, changed: make(chan struct{}), prefer: map[string]int32{}}
	f.on(1, func(addr string, req kmsg.Request) kmsg.Response { return l.fetch(addr, req.(*kmsg.FetchRequest)) })
	f.on(2, func(_ string, req kmsg.Request) kmsg.Response { return l.listOffsets(req.(*kmsg.ListOffsetsRequest)) })
	f.on(23, func(_ string, req kmsg.Request) kmsg.Response {
		return l.epochEnd(req.(*kmsg.OffsetForLeaderEpochRequest))
	})
	return l
}

// put appends a batch of n records, whose values are their offsets, written under a leader epoch.
func (l *fakeLogs) put(tp TopicPartition, epoch int32, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logs[tp] == nil {
		l.logs[tp] = &fakeLog{}
	}
	log := l.logs[tp]
	log.batches = append(log.batches, batchOf(record.Options{BaseOffset: log.end(), PartitionLeaderEpoch: epoch}, run(0, int32(n))...))
	close(l.changed)
	l.changed = make(chan struct{})
}

// truncate takes batches off the end.
func (l *fakeLogs) truncate(tp TopicPartition, batches int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.logs[tp]
	log.batches = log.batches[:len(log.batches)-batches]
}

func (l *fakeLogs) fetch(addr string, req *kmsg.FetchRequest) kmsg.Response {
	l.mu.Lock()
	l.fetches = append(l.fetches, fetchText(addr, req))
	l.mu.Unlock()
	late := time.After(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	for {
		resp, something, changed := l.tryFetch(addr, req)
		if something {
			return resp
		}
		select {
		case <-changed:
		case <-late:
			return resp
		}
	}
}

// last is the last fetch.
func (l *fakeLogs) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fetches[len(l.fetches)-1]
}

func fetchText(addr string, req *kmsg.FetchRequest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d/%d", addr, req.SessionID, req.SessionEpoch)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, " %s-%d@%d(%d,%d)", fakeName(t.TopicID), p.Partition, p.FetchOffset, p.CurrentLeaderEpoch, p.LastFetchedEpoch)
		}
	}
	return b.String()
}

// fakeName is the topic of an id that metadataOf made.
func fakeName(id [16]byte) string {
	name, _, _ := strings.Cut(string(id[:]), "..")
	return name
}

// tryFetch answers without a session: the whole of what was asked for must come each time.
func (l *fakeLogs) tryFetch(addr string, req *kmsg.FetchRequest) (resp *kmsg.FetchResponse, something bool, changed chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	resp = req.ResponseKind().(*kmsg.FetchResponse)
	for _, t := range req.Topics {
		at := kmsg.NewFetchResponseTopic()
		at.TopicID = t.TopicID
		for _, p := range t.Partitions {
			a := l.fetchOne(addr, TopicPartition{Topic: fakeName(t.TopicID), Partition: p.Partition}, p, req)
			something = something || a.ErrorCode != 0 || len(a.RecordBatches) > 0 || a.DivergingEpoch.EndOffset >= 0 || a.PreferredReadReplica >= 0
			at.Partitions = append(at.Partitions, a)
		}
		resp.Topics = append(resp.Topics, at)
	}
	return resp, something, l.changed
}

func (l *fakeLogs) fetchOne(addr string, tp TopicPartition, p kmsg.FetchRequestTopicPartition, req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	a := kmsg.NewFetchResponseTopicPartition()
	a.Partition = p.Partition
	log := l.logs[tp]
	if log == nil {
		a.ErrorCode = int16(protocol.UnknownTopicOrPartition)
		return a
	}
	if l.refuse != nil {
		if a.ErrorCode = int16(l.refuse(addr, tp, req)); a.ErrorCode != 0 {
			return a
		}
	}
	if id, ok := l.prefer[addr]; ok {
		a.PreferredReadReplica = id
		return a
	}
	if epoch, end := log.epochEnd(p.LastFetchedEpoch); p.LastFetchedEpoch >= 0 && (end < p.FetchOffset || epoch < p.LastFetchedEpoch) {
		a.DivergingEpoch.Epoch, a.DivergingEpoch.EndOffset = epoch, end
		return a
	}
	if p.FetchOffset < log.start || p.FetchOffset > log.end() {
		a.ErrorCode = int16(protocol.OffsetOutOfRange)
		return a
	}
	a.HighWatermark, a.LastStableOffset, a.LogStartOffset = log.end(), log.end(), log.start
	for _, b := range log.batches {
		if b.NextOffset() > p.FetchOffset && (len(a.RecordBatches) == 0 || len(a.RecordBatches)+len(b) <= int(p.PartitionMaxBytes)) {
			a.RecordBatches = append(a.RecordBatches, b...)
		}
	}
	return a
}

// epochEnd is the greatest epoch up to one, and where it ends.
func (l *fakeLog) epochEnd(epoch int32) (int32, int64) {
	found, end := int32(-1), int64(-1)
	for _, b := range l.batches {
		if e := b.PartitionLeaderEpoch(); e <= epoch {
			found, end = e, b.NextOffset()
		}
	}
	return found, end
}

func (l *fakeLogs) listOffsets(req *kmsg.ListOffsetsRequest) kmsg.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, t := range req.Topics {
		at := kmsg.NewListOffsetsResponseTopic()
		at.Topic = t.Topic
		for _, p := range t.Partitions {
			a := kmsg.NewListOffsetsResponseTopicPartition()
			a.Partition = p.Partition
			if log := l.logs[TopicPartition{Topic: t.Topic, Partition: p.Partition}]; log == nil {
				a.ErrorCode = int16(protocol.UnknownTopicOrPartition)
			} else if a.Offset = log.end(); p.Timestamp == timestampEarliest {
				a.Offset = log.start
			}
			at.Partitions = append(at.Partitions, a)
		}
		resp.Topics = append(resp.Topics, at)
	}
	return resp
}

func (l *fakeLogs) epochEnd(req *kmsg.OffsetForLeaderEpochRequest) kmsg.Response {
	l.mu.Lock()
	defer l.mu.Unlock()
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		at := kmsg.NewOffsetForLeaderEpochResponseTopic()
		at.Topic = t.Topic
		for _, p := range t.Partitions {
			a := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			a.Partition = p.Partition
			a.LeaderEpoch, a.EndOffset = l.logs[TopicPartition{Topic: t.Topic, Partition: p.Partition}].epochEnd(p.LeaderEpoch)
			at.Partitions = append(at.Partitions, a)
		}
		resp.Topics = append(resp.Topics, at)
	}
	return resp
}

// fakeRig is a consumer of a fakeCluster of two brokers with topic t, whose partitions are led by broker 1.
type fakeRig struct {
	t       *testing.T
	cluster *fakeCluster
	logs    *fakeLogs
	client  *Client
	c       *Consumer
	said    bytes.Buffer // the consumer's log
}

func fakeConsumer(t *testing.T, config ConsumerConfig, partitions int, run func(r *fakeRig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &fakeRig{t: t, cluster: newFakeCluster(t, 2)}
		r.cluster.topic("t", slices.Repeat([]int32{1}, partitions)...)
		r.logs = newFakeLogs(r.cluster)
		r.client = r.cluster.client(func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&r.said, nil)) })
		c, err := r.client.NewConsumer(config)
		if err != nil {
			t.Fatal(err)
		}
		r.c = c
		var all []TopicPartition
		for p := range int32(partitions) {
			r.logs.put(tp(p), 1, 3)
			all = append(all, tp(p))
		}
		if err := c.Assign(all...); err != nil {
			t.Fatal(err)
		}
		run(r)
		r.client.Close()
		r.cluster.serving.Wait()
		synctest.Wait() // what has been told to end may be on its last instruction
		if left := clientGoroutines(); left != "" {
			t.Errorf("goroutines are left:\n%s", left)
		}
	})
}

// poll reads n records and returns them as "PARTITION:OFFSET ...".
func (r *fakeRig) poll(n int) string {
	r.t.Helper()
	var got []string
	for len(got) < n {
		rs, err := r.c.Poll(within(r.t, time.Minute), n-len(got))
		if err != nil {
			r.t.Fatalf("after %v: %v", got, err)
		}
		for _, rec := range rs {
			got = append(got, fmt.Sprintf("%d:%d", rec.Partition, rec.Offset))
		}
	}
	return strings.Join(got, " ")
}

func (r *fakeRig) expect(n int, want string) {
	r.t.Helper()
	if got := r.poll(n); got != want {
		r.t.Errorf("polled %q, want %q", got, want)
	}
}

// failure is the error of a Poll.
func (r *fakeRig) failure() error {
	r.t.Helper()
	rs, err := r.c.Poll(within(r.t, time.Minute), 10)
	if err == nil || len(rs) > 0 {
		r.t.Fatalf("%d records, %v", len(rs), err)
	}
	return err
}

// Who leads is asked again when a fetch meets the wrong broker, and whatever had been fetched stays.
func TestConsumerFollowsTheLeader(t *testing.T) {
	fakeConsumer(t, ConsumerConfig{OffsetReset: ResetEarliest}, 1, func(r *fakeRig) {
		r.expect(2, "0:0 0:1")
		r.logs.mu.Lock()
		r.logs.refuse = func(addr string, _ TopicPartition, _ *kmsg.FetchRequest) protocol.Code {
			if addr == "b1:9092" {
				return protocol.NotLeaderOrFollower
			}
			return 0
		}
		r.logs.mu.Unlock()
		r.cluster.topic("t", 2)
		r.logs.put(tp(0), 2, 2)
		r.expect(3, "0:2 0:3 0:4")
		if last := r.logs.last(); !strings.HasPrefix(last, "b2:9092 ") {
			t.Errorf("the last fetch: %s", last)
		}
	})
}

// A broker that cannot be reached is asked again until it can; Poll says meanwhile why there is nothing.
func TestConsumerOutage(t *testing.T) {
	fakeConsumer(t, ConsumerConfig{OffsetReset: ResetEarliest}, 1, func(r *fakeRig) {
		r.expect(3, "0:0 0:1 0:2")
		r.cluster.down("b1:9092", true)
		r.logs.put(tp(0), 1, 1)
		err := r.failure()
		if !strings.Contains(err.Error(), "b1:9092 cannot be reached") || !errors.Is(err, within(r.t, 0).Err()) {
			t.Errorf("while it is down: %v", err)
		}
		r.cluster.down("b1:9092", false)
		r.expect(1, "0:3")
	})
}

// A new leader that does not have what was read is noticed by the leader epochs, whether it is asked (OffsetForLeaderEpoch) or says so itself (B-C5).
func TestConsumerTruncation(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy ResetPolicy
		asks   bool // the consumer hears of the new leader before it fetches from it
	}{{"asked", ResetEarliest, true}, {"told", ResetEarliest, false}, {"asked-none", ResetNone, true}, {"told-none", ResetNone, false}} {
		t.Run(tc.name, func(t *testing.T) {
			fakeConsumer(t, ConsumerConfig{OffsetReset: tc.policy}, 1, func(r *fakeRig) {
				if tc.policy == ResetNone {
					if _, ok := errors.AsType[*NoOffsetError](r.failure()); !ok {
						t.Fatal("no offset is no error")
					}
					if err := r.c.Seek(tp(0), At(0)); err != nil {
						t.Fatal(err)
					}
				}
				r.logs.put(tp(0), 1, 2)
				r.expect(5, "0:0 0:1 0:2 0:3 0:4")
				synctest.Wait()
				r.logs.truncate(tp(0), 1)
				if tc.asks {
					r.cluster.topic("t", 1)
					if _, err := r.client.refresh(within(r.t, time.Minute)); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				r.logs.put(tp(0), 2, 4) // 3..6 anew
				if tc.policy == ResetNone {
					e, ok := errors.AsType[*TruncatedError](r.failure())
					if !ok || e.Offset != 5 || e.Common != 3 || e.Partition != tp(0) {
						t.Errorf("%+v", e)
					}
					if err := r.c.Seek(tp(0), At(e.Common)); err != nil {
						t.Fatal(err)
					}
				}
				r.expect(4, "0:3 0:4 0:5 0:6")
				if got := len(r.cluster.requests("OffsetForLeaderEpoch")); (got > 0) != tc.asks {
					t.Errorf("asked %d times", got)
				}
				if told := strings.Contains(r.said.String(), "lost records"); told != (tc.policy != ResetNone) {
					t.Errorf("the log: %s", r.said.String())
				}
			})
		})
	}
}

// Records that were fetched ahead and are not in the log any more are never handed out.
func TestConsumerTruncationOfWhatWasFetchedAhead(t *testing.T) {
	fakeConsumer(t, ConsumerConfig{OffsetReset: ResetEarliest}, 1, func(r *fakeRig) {
		r.logs.put(tp(0), 1, 2)
		r.expect(2, "0:0 0:1")
		synctest.Wait() // 2..4 are here, and the next fetch waits at 5
		r.logs.truncate(tp(0), 1)
		r.logs.put(tp(0), 2, 2)
		r.cluster.topic("t", 1)
		if _, err := r.client.refresh(within(r.t, time.Minute)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		rs, err := r.c.Poll(within(r.t, time.Minute), 10)
		for err == nil && rs[len(rs)-1].Offset < 4 {
			var more []Record
			more, err = r.c.Poll(within(r.t, time.Minute), 10)
			rs = append(rs, more...)
		}
		if err != nil || len(rs) != 3 || rs[0].Offset != 2 || rs[1].LeaderEpoch != 2 {
			t.Errorf("%v, %+v", err, rs)
		}
		if strings.Contains(r.said.String(), "lost records") {
			t.Errorf("the log: %s", r.said.String())
		}
	})
}

// Offsets answers about all partitions or not at all: one that is refused for now is asked for again, also when another has no record as late. A partition that is named twice is asked for once.
func TestOffsetsOfAll(t *testing.T) {
	fakeConsumer(t, ConsumerConfig{}, 2, func(r *fakeRig) {
		refused := false
		r.cluster.on(2, func(_ string, req kmsg.Request) kmsg.Response {
			resp := r.logs.listOffsets(req.(*kmsg.ListOffsetsRequest)).(*kmsg.ListOffsetsResponse)
			seen := map[int32]bool{}
			for i, p := range req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions {
				if seen[p.Partition] {
					t.Errorf("partition %d is asked for twice in a request", p.Partition)
				}
				seen[p.Partition] = true
				a := &resp.Topics[0].Partitions[i]
				switch {
				case p.Timestamp < 0:
				case p.Partition == 0 && !refused:
					a.Offset, a.ErrorCode, refused = -1, int16(protocol.LeaderNotAvailable), true
				case p.Partition == 1:
					a.Offset = -1
				}
			}
			return resp
		})
		for _, partitions := range [][]TopicPartition{{tp(0), tp(1)}, {tp(0), tp(0), tp(1)}} {
			refused = false
			got, err := r.c.Offsets(within(r.t, time.Minute), AtTime(time.Now()), partitions...)
			if want := (map[TopicPartition]int64{tp(0): 3, tp(1): 3}); err != nil || !maps.Equal(got, want) {
				t.Errorf("%v, %v; want %v", got, err, want)
			}
		}
	})
}

// An offset that retention has overtaken is what the policy says, and the log says so (G11).
func TestConsumerOutOfRange(t *testing.T) {
	for _, policy := range []ResetPolicy{ResetEarliest, ResetLatest, ResetNone} {
		fakeConsumer(t, ConsumerConfig{OffsetReset: policy}, 1, func(r *fakeRig) {
			r.logs.mu.Lock()
			r.logs.logs[tp(0)].start = 2
			r.logs.mu.Unlock()
			if policy == ResetNone {
				r.failure()
			}
			if err := r.c.Seek(tp(0), At(1)); err != nil {
				t.Fatal(err)
			}
			switch policy {
			case ResetNone:
				if e, ok := errors.AsType[*OutOfRangeError](r.failure()); !ok || e.Offset != 1 {
					t.Errorf("%+v", e)
				}
				if err := r.c.Seek(tp(0), Earliest); err != nil {
					t.Fatal(err)
				}
				r.expect(1, "0:2")
			case ResetEarliest:
				r.expect(1, "0:2")
			default:
				synctest.Wait()
				time.Sleep(time.Second)
				r.logs.put(tp(0), 1, 1)
				r.expect(1, "0:3")
			}
			if policy != ResetNone && !strings.Contains(r.said.String(), "not in the log") {
				t.Errorf("the log: %s", r.said.String())
			}
		})
	}
}

// A leader may send its readers to a replica; when that does not work, the leader is asked again.
func TestConsumerPreferredReplica(t *testing.T) {
	fakeConsumer(t, ConsumerConfig{OffsetReset: ResetEarliest, Rack: "a"}, 1, func(r *fakeRig) {
		r.logs.mu.Lock()
		r.logs.prefer["b1:9092"] = 2
		r.logs.mu.Unlock()
		r.logs.put(tp(0), 1, 1)
		r.expect(4, "0:0 0:1 0:2 0:3")
		synctest.Wait()
		if last := r.logs.last(); !strings.HasPrefix(last, "b2:9092 ") {
			t.Errorf("the last fetch: %s", last)
		}
		r.logs.mu.Lock()
		r.logs.prefer = nil
		r.logs.mu.Unlock()
		r.cluster.down("b2:9092", true)
		r.logs.put(tp(0), 1, 1)
		r.expect(1, "0:4")
	})
}

// What is not there is told once, and read when it is there; the rest is not held up.
func TestConsumerUnknownTopic(t *testing.T) {
	fakeConsumer(t, ConsumerConfig{OffsetReset: ResetEarliest}, 1, func(r *fakeRig) {
		r.expect(3, "0:0 0:1 0:2")
		if err := r.c.Assign(tp(0), tp(7), TopicPartition{Topic: "none"}); err != nil {
			t.Fatal(err)
		}
		first, second := r.failure(), r.failure()
		if _, ok := errors.AsType[*UnknownTopicError](second); !ok || Code(first) != protocol.UnknownTopicOrPartition || !strings.Contains(first.Error(), "the topic has 1 partitions") {
			t.Errorf("%v; %v", first, second)
		}
		r.logs.put(tp(0), 1, 1)
		r.expect(1, "0:3") // the others are not held up, and nothing is said twice
		r.cluster.topic("none", 2)
		r.logs.put(TopicPartition{Topic: "none"}, 1, 2)
		r.expect(2, "0:0 0:1")
	})
}

// What is fetched and not polled is bounded, and goes on when there is room.
func TestConsumerPrefetchBound(t *testing.T) {
	fakeConsumer(t, ConsumerConfig{OffsetReset: ResetEarliest, MaxPartitionBytes: 100, BufferMemory: bufferBytesMin}, 3, func(r *fakeRig) {
		for p := range int32(3) {
			for range 200 {
				r.logs.put(tp(p), 1, 1) // each is its own fetch
			}
		}
		synctest.Wait()
		r.logs.mu.Lock()
		before := len(r.logs.fetches)
		r.logs.mu.Unlock()
		if before > 10 {
			t.Errorf("%d fetches before the first Poll", before)
		}
		if n := len(strings.Fields(r.poll(609))); n != 609 {
			t.Errorf("%d records", n)
		}
		r.c.mu.Lock()
		defer r.c.mu.Unlock()
		for id, f := range r.c.mu.fetchers {
			if f.buffered != 0 {
				t.Errorf("broker %d: %d bytes are accounted for that are not there", id, f.buffered)
			}
		}
	})
}

// A paused partition is neither fetched nor handed out, and loses nothing.
func TestConsumerPause(t *testing.T) {
	fakeConsumer(t, ConsumerConfig{OffsetReset: ResetEarliest}, 2, func(r *fakeRig) {
		synctest.Wait()
		if err := r.c.Pause(tp(0)); err != nil {
			t.Fatal(err)
		}
		r.logs.put(tp(0), 1, 1)
		r.logs.put(tp(1), 1, 1)
		r.expect(4, "1:0 1:1 1:2 1:3")
		if err := r.c.Resume(tp(0)); err != nil {
			t.Fatal(err)
		}
		r.expect(4, "0:0 0:1 0:2 0:3")
		if _, ok := errors.AsType[*NotAssignedError](r.c.Pause(tp(5))); !ok {
			t.Error("a partition that is not there is paused")
		}
	})
}
