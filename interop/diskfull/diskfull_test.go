//go:build linux

// Package diskfull runs the real binary on small real file systems that are filled again and again under load.
package diskfull

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/interop/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

const (
	limit      = time.Minute
	resumeMax  = 5 * time.Second // from space returning to the first acknowledged record
	partitions = 2
	producers  = 3
	topic      = "full"
	// stallTime without an acknowledged record, while the producers have something to send and not more than fullFree is free (what is released of the
	// reserve counts as that), is a full disk.
	stallTime = 300 * time.Millisecond
	fullFree  = 5 << 20
)

// rounds is how often a disk of a kind is filled: LEAT_DISKFULL_ROUNDS, else 100 times altogether in CI and a few times elsewhere.
func rounds(kind string) int {
	if n, err := strconv.Atoi(os.Getenv("LEAT_DISKFULL_ROUNDS")); err == nil {
		return n
	}
	if required() {
		return map[string]int{"tmpfs": 60, "ext4": 40}[kind]
	}
	return 5
}

// E1, A9, A11-A14, B-A7, B-A15: a disk that is filled under load, again and again: the process never ends, reading and everything that makes room
// goes on, producers resume soon after space has returned, restarts of all kinds work while there is none, and nothing acknowledged is lost.
func TestDiskFull(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ext4"} {
		t.Run(kind, func(t *testing.T) {
			d := mount(t, kind)
			f := newFilled(t, d)
			begin := time.Now()
			for n := range rounds(kind) {
				f.round(n)
				if n%10 == 9 {
					t.Logf("%d rounds in %v", n+1, time.Since(begin).Round(time.Second))
				}
			}
			f.finish()
			t.Logf("%d rounds in %v: %d records acknowledged, %d found on disk and compared, %d restarts on a full disk; producing resumed after %v at most",
				rounds(kind), time.Since(begin).Round(time.Second), f.acked.Load(), f.compared, f.restarts, f.slowest.Round(time.Millisecond))
		})
	}
}

// filled is a broker on a small disk, with producers that never stop.
type filled struct {
	t     *testing.T
	disk  *disk
	peer  *harness.Peer
	admin *kgo.Client

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup

	gate   sync.RWMutex // held for writing, the producers send nothing new
	acked  atomic.Int64 // records
	ledger [partitions]ledger

	compared, restarts int
	slowest            time.Duration
}

// ledger is what was acknowledged of a partition.
type ledger struct {
	sync.Mutex
	at map[int64]uint64 // offset to value
}

// from forgets what was deleted, below start, and returns the rest.
func (l *ledger) from(start int64) map[int64]uint64 {
	l.Lock()
	defer l.Unlock()
	maps.DeleteFunc(l.at, func(offset int64, _ uint64) bool { return offset < start })
	return maps.Clone(l.at)
}

func newFilled(t *testing.T, d *disk) *filled {
	dir := t.TempDir()
	f := &filled{t: t, disk: d}
	d.link(dir + "/data")
	bin, err := harness.BuildLeat(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.peer, err = harness.LaunchLeat(dir, bin, "log.segment.bytes=1048576", "log.retention.check.interval.ms=1000", "log.index.interval.bytes=1024",
		"log.segment.delete.delay.ms=1000") // counts while there is room: what is deleted on a full disk goes at once
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the broker's output:\n%s", f.peer.LogTail(20))
		}
		f.peer.Kill()
	})
	f.admin = f.client(kgo.MaxBufferedRecords(1))
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.create(topic, partitions)
	for p := range f.ledger {
		f.ledger[p].at = map[int64]uint64{}
	}
	for n := range producers {
		f.wait.Go(func() { f.produce(uint64(n)) })
	}
	t.Cleanup(func() { f.cancel(); f.wait.Wait() })
	return f
}

// client has a short back-off: what is measured is the broker.
func (f *filled) client(opts ...kgo.Opt) *kgo.Client {
	f.t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.peer.Addr), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression())}, opts...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Close)
	return c
}

const valueBytes = 20_000

// value is a record's content: a number nobody else writes, and padding.
func value(id uint64) []byte {
	v := make([]byte, valueBytes)
	binary.BigEndian.PutUint64(v, id)
	for i := 8; i < len(v); i++ {
		v[i] = byte(id) + byte(i*7)
	}
	return v
}

// produce sends unique records to the end of the test. The producer is idempotent and retries for ever, as franz-go does by default; any other outcome
// than an acknowledgement is a failure.
func (f *filled) produce(number uint64) {
	c := f.client(kgo.MaxBufferedRecords(40), kgo.RequiredAcks(kgo.AllISRAcks()))
	for n := uint64(0); f.ctx.Err() == nil; n++ {
		id := number<<40 | n
		r := &kgo.Record{Topic: topic, Partition: int32(n % partitions), Value: value(id)}
		f.gate.RLock()
		f.gate.RUnlock() // it only waits
		c.Produce(f.ctx, r, func(r *kgo.Record, err error) {
			if err != nil {
				if f.ctx.Err() == nil && !f.t.Failed() {
					f.t.Errorf("producer %d record %d: %v", number, n, err)
				}
				return
			}
			l := &f.ledger[r.Partition]
			l.Lock()
			if other, twice := l.at[r.Offset]; twice {
				f.t.Errorf("offset %d of partition %d was given to %#x and to %#x", r.Offset, r.Partition, other, id)
			}
			l.at[r.Offset] = id
			l.Unlock()
			f.acked.Add(1)
		})
	}
}

// round fills the disk, looks around, makes room in one of the ways there are, and waits for the producers to go on.
func (f *filled) round(n int) {
	f.t.Helper()
	way := n % 4
	if way == 2 {
		f.victim(n)
	}
	if way == 3 {
		f.intruder()
	}
	f.untilFull(n)
	if n%10 == 7 {
		f.disk.occupy(diskBytes) // not one byte is left outside the reserve
	}
	f.lookAround(n)
	if n%5 == 4 {
		f.restart(n)
		f.untilFull(n) // what segments had allocated ahead came back with the start
		f.lookAround(n)
	}
	switch way {
	case 0:
		f.deleteRecords()
	case 1:
		f.retain()
	case 2:
		f.deleteTopic(fmt.Sprint("victim-", n))
	}
	f.disk.vacate()
	if way == 3 && n%10 == 3 {
		f.restart(n)
	}
	f.untilResumed(n, way)
	if way == 2 || way == 3 { // of those two the topic stays as it was
		f.deleteRecords()
	}
}

// untilFull waits until the producers stand still.
func (f *filled) untilFull(n int) {
	f.t.Helper()
	deadline, last, since := time.Now().Add(limit), int64(-1), time.Now()
	for time.Since(since) < stallTime {
		f.alive(n)
		if now := f.acked.Load(); now != last || f.disk.free() > fullFree {
			last, since = now, time.Now()
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("round %d: the disk does not get full, %d bytes are free", n, f.disk.free())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (f *filled) alive(n int) {
	f.t.Helper()
	if err := f.peer.Running(); err != nil {
		f.t.Fatalf("round %d: %v", n, err)
	}
	if f.t.Failed() {
		f.t.FailNow()
	}
}

// untilResumed waits for a record that is acknowledged, and notes how long after there was room again that was.
func (f *filled) untilResumed(n, way int) {
	f.t.Helper()
	deadline := time.Now().Add(limit)
	var roomAt time.Time
	before := f.acked.Load()
	for f.acked.Load() == before {
		f.alive(n)
		if roomAt.IsZero() && f.disk.free() >= diskBytes/6 {
			roomAt = time.Now()
		}
		if !roomAt.IsZero() && time.Since(roomAt) > resumeMax {
			f.t.Fatalf("round %d, way %d: %d bytes are free for %v, and nothing was acknowledged", n, way, f.disk.free(), resumeMax)
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("round %d, way %d: making room does not make any, %d bytes are free", n, way, f.disk.free())
		}
		time.Sleep(2 * time.Millisecond)
	}
	if !roomAt.IsZero() {
		f.slowest = max(f.slowest, time.Since(roomAt))
	}
}

// lookAround does what must work while the disk is full, and what must be refused.
func (f *filled) lookAround(n int) {
	f.t.Helper()
	f.alive(n)
	f.compare()
	name := fmt.Sprint("refused-", n)
	resp := f.request(f.createRequest(name, 3)).(*kmsg.CreateTopicsResponse).Topics[0]
	for deadline := time.Now().Add(limit); resp.ErrorCode == 0 && time.Now().Before(deadline); { // the machine stood still, not the disk
		f.deleteTopic(name)
		f.untilFull(n)
		resp = f.request(f.createRequest(name, 3)).(*kmsg.CreateTopicsResponse).Topics[0]
	}
	if !errors.Is(kerr.ErrorForCode(resp.ErrorCode), kerr.KafkaStorageError) || resp.ErrorMessage == nil || !strings.Contains(*resp.ErrorMessage, "no space left") {
		f.t.Fatalf("round %d: creating a topic on a full disk: %v %v", n, kerr.ErrorForCode(resp.ErrorCode), resp.ErrorMessage)
	}
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	if d := f.request(dirs).(*kmsg.DescribeLogDirsResponse).Dirs[0]; d.ErrorCode != 0 || d.TotalBytes <= 0 {
		f.t.Fatalf("round %d: %+v", n, d)
	}
}

// compare reads what the partitions hold: every acknowledged record that was not deleted, unchanged, none twice.
func (f *filled) compare() {
	f.t.Helper()
	for p := range int32(partitions) {
		start := f.offset(p, -2)
		at := f.ledger[p].from(start)
		end := f.offset(p, -1)
		seen := map[uint64]int64{}
		c := f.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(start)}}), kgo.FetchMaxWait(100*time.Millisecond))
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		next := start
		for next < end {
			fetches := c.PollFetches(ctx)
			for _, e := range fetches.Errors() {
				f.t.Fatalf("partition %d, at offset %d of %d..%d: %v", p, next, start, end, e.Err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if r.Offset != next {
					f.t.Fatalf("partition %d: offset %d follows %d", p, r.Offset, next-1)
				}
				next++
				id := binary.BigEndian.Uint64(r.Value)
				if other, twice := seen[id]; twice {
					f.t.Fatalf("partition %d: record %#x is at offsets %d and %d", p, id, other, r.Offset)
				}
				seen[id] = r.Offset
				if string(r.Value) != string(value(id)) {
					f.t.Fatalf("partition %d: offset %d has not what was written", p, r.Offset)
				}
				if want, ok := at[r.Offset]; ok && want != id {
					f.t.Fatalf("partition %d: offset %d has %#x, acknowledged was %#x", p, r.Offset, id, want)
				}
				f.compared++
			})
		}
		cancel()
		c.Close()
		for o := range at {
			if o >= end {
				f.t.Fatalf("partition %d: offset %d was acknowledged, and the log ends at %d", p, o, end)
			}
		}
	}
}

// restart ends the broker while the disk is full, as a person or as the kernel would, and starts it.
func (f *filled) restart(n int) {
	f.t.Helper()
	if n%2 == 0 {
		f.peer.Kill()
	} else if err := f.peer.Stop(); err != nil {
		f.t.Fatalf("round %d: stop: %v", n, err)
	}
	if err := f.peer.Restart(); err != nil {
		f.t.Fatalf("round %d: start on a full disk: %v", n, err)
	}
	f.restarts++
}

func (f *filled) deleteRecords() {
	f.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = topic
	for p := range int32(partitions) {
		q := kmsg.NewDeleteRecordsRequestTopicPartition()
		q.Partition, q.Offset = p, f.offset(p, -1)-20
		t.Partitions = append(t.Partitions, q)
	}
	req.Topics = append(req.Topics, t)
	for _, p := range f.request(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			f.t.Fatalf("DeleteRecords on a full disk: %v", err)
		}
	}
}

// retain lets retention.bytes make room, and takes it back when it has.
func (f *filled) retain() {
	f.t.Helper()
	f.alter("retention.bytes", "2000000")
	if err := harness.Poll(limit, func() error {
		if free := f.disk.free(); free < diskBytes/6 {
			return fmt.Errorf("%d bytes are free", free)
		}
		return nil
	}); err != nil {
		f.t.Fatalf("retention on a full disk: %v", err)
	}
	f.alter("retention.bytes", "-1")
}

func (f *filled) alter(key, value string) {
	f.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = key, &value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	if got := f.request(req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]; got.ErrorCode != 0 {
		f.t.Fatalf("%s=%s on a full disk: %v", key, value, kerr.ErrorForCode(got.ErrorCode))
	}
}

// victim makes a topic of some size that is to be deleted.
func (f *filled) victim(n int) {
	f.t.Helper()
	name := fmt.Sprint("victim-", n)
	f.gate.Lock()
	defer f.gate.Unlock()
	f.deleteRecords()
	f.create(name, 1)
	c := f.client(kgo.DefaultProduceTopic(name))
	defer c.Close()
	for i := range 800 {
		c.Produce(f.ctx, &kgo.Record{Topic: name, Value: value(uint64(i))}, func(_ *kgo.Record, err error) {
			if err != nil && f.ctx.Err() == nil {
				f.t.Errorf("%s: %v", name, err)
			}
		})
	}
	ctx, cancel := context.WithTimeout(f.ctx, limit)
	defer cancel()
	if err := c.Flush(ctx); err != nil {
		f.t.Fatalf("%s: %v", name, err)
	}
}

// intruder lets somebody else have a good part of the disk.
func (f *filled) intruder() {
	f.t.Helper()
	f.gate.Lock()
	defer f.gate.Unlock()
	f.deleteRecords()
	const size = 20 << 20
	if err := harness.Poll(limit, func() error {
		if free := f.disk.free(); free < size+fullFree {
			return fmt.Errorf("%d bytes are free", free)
		}
		return nil
	}); err != nil {
		f.t.Fatalf("after deleting records: %v", err)
	}
	f.disk.occupy(size)
}

func (f *filled) createRequest(name string, count int32) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, count, 1
	req.Topics = append(req.Topics, t)
	return req
}

// create makes a topic; in the second after space has returned the broker may not have noticed.
func (f *filled) create(name string, count int32) {
	f.t.Helper()
	err := harness.Poll(resumeMax, func() error {
		return kerr.ErrorForCode(f.request(f.createRequest(name, count)).(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	})
	if err != nil {
		f.t.Fatalf("create %s: %v", name, err)
	}
}

func (f *filled) deleteTopic(name string) {
	f.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &name
	req.TopicNames, req.Topics = []string{name}, append(req.Topics, t)
	if got := f.request(req).(*kmsg.DeleteTopicsResponse).Topics[0]; got.ErrorCode != 0 {
		f.t.Fatalf("deleting a topic on a full disk: %v", kerr.ErrorForCode(got.ErrorCode))
	}
}

// offset asks for the first (-2) or the end (-1) offset.
func (f *filled) offset(p int32, timestamp int64) int64 {
	f.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	q := kmsg.NewListOffsetsRequestTopicPartition()
	q.Partition, q.Timestamp = p, timestamp
	t.Partitions = append(t.Partitions, q)
	req.Topics = append(req.Topics, t)
	got := f.request(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	if got.ErrorCode != 0 {
		f.t.Fatalf("ListOffsets: %v", kerr.ErrorForCode(got.ErrorCode))
	}
	return got.Offset
}

// request asks the broker; connections that a restart has broken are tried again by the client.
func (f *filled) request(req kmsg.Request) kmsg.Response {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	resp, err := f.admin.SeedBrokers()[0].RetriableRequest(ctx, req)
	if err != nil {
		f.t.Fatalf("%T: %v", req, err)
	}
	return resp
}

// finish stops the load and looks at everything once more, after a clean restart.
func (f *filled) finish() {
	f.t.Helper()
	f.cancel()
	f.wait.Wait()
	if err := f.peer.Stop(); err != nil {
		f.t.Fatalf("the last stop: %v", err)
	}
	if err := f.peer.Restart(); err != nil {
		f.t.Fatalf("the last start: %v", err)
	}
	f.compare()
	if f.acked.Load() == 0 || f.compared == 0 {
		f.t.Fatal("nothing was acknowledged or compared")
	}
}
