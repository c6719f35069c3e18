package engine

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/segment"
)

// manyLogs opens an engine and creates the partitions of one topic.
func (f *fixture) manyLogs(n int) []*Log {
	f.t.Helper()
	f.open()
	var logs []*Log
	for p := range n {
		l, err := f.e.Create(TopicPartition{Topic: "t", Partition: int32(p)}, testID, topicConfig(f.t, nil))
		if err != nil {
			f.t.Fatal(err)
		}
		logs = append(logs, l)
	}
	return logs
}

// fillFlushed appends count batches of about 1 KB and waits until they are flushed.
func (f *fixture) fillFlushed(l *Log, count int) {
	f.t.Helper()
	var last *Append
	for range count {
		last = f.mustAppend(l, batchOf(testStartMs, 1, 1000))
	}
	if err := watch(l).await(last.LastOffset + 1); err != nil {
		f.t.Fatal(err)
	}
}

// startCost is what a start did.
type startCost struct {
	read  int64          // bytes, of the files of partitions
	opens map[string]int // by suffix
}

func costOf(ops []vfs.Op) startCost {
	c := startCost{opens: map[string]int{}}
	for _, op := range ops {
		inPartition := strings.HasPrefix(op.Name, "/data/t-")
		if op.Kind == vfs.OpRead && inPartition {
			c.read += op.N
		}
		if (op.Kind == vfs.OpOpen || op.Kind == vfs.OpCreate) && inPartition {
			c.opens[filepath.Ext(op.Name)]++
		}
	}
	return c
}

// R7, R8, D1, D2: a start after a crash reads what was appended since the logs' state was noted, and nothing of idle partitions; one after a clean stop reads no
// data at all. 20 logs have 200 KB each, 4 of them 5 KB more than was noted, 30 are idle and empty.
func TestStartReadsTheTail(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	logs := f.manyLogs(50)
	for _, l := range logs[:20] {
		f.fillFlushed(l, 200)
	}
	f.e.Tick(f.clock.advance(2_000))
	for _, l := range logs[:4] {
		f.fillFlushed(l, 5)
	}
	fault := vfs.NewFault(mem.Crash(vfs.KeepAll))
	f.kill()
	f.fs = fault
	fault.Record()
	f.open()
	c := costOf(fault.Recorded())
	if c.read > 20*40<<10+50*64 { // the promise is 64 KiB beyond the tail
		t.Errorf("%d bytes were read", c.read)
	}
	if c.opens[".log"] > 20 || c.opens[".index"]+c.opens[".timeindex"]+c.opens[".snapshot"]+c.opens[""] > 0 {
		t.Errorf("files were opened: %v", c.opens)
	}
	for i, l := range logs {
		if got := f.e.Log(l.TP()); got.EndOffset() != l.EndOffset() || got.FlushedOffset() != l.EndOffset() {
			t.Errorf("log %d ends at %d, flushed %d, want %d", i, got.EndOffset(), got.FlushedOffset(), l.EndOffset())
		}
	}
	f.close()
	fault.Record()
	f.open()
	if c := costOf(fault.Recorded()); c.read > 50*64 || c.opens[".log"]+c.opens[".index"]+c.opens[".timeindex"]+c.opens[".snapshot"] > 0 {
		t.Errorf("after a clean stop %d bytes were read, opened: %v", c.read, c.opens)
	}
	for i, l := range logs[:20] {
		l = f.e.Log(l.TP())
		f.readAll(l, 0, l.EndOffset())
		if a := f.mustAppend(l, batchOf(testStartMs, 1, 10)); a.BaseOffset != logs[i].EndOffset() {
			t.Errorf("log %d goes on at %d, want %d", i, a.BaseOffset, logs[i].EndOffset())
		}
	}
}

// B-E2: what a producer sends again after a restart is known, all five batches it may have had on the way, after a crash and after a clean stop.
func TestProducerWindowSurvives(t *testing.T) {
	for _, clean := range []bool{true, false} {
		mem := vfs.NewMem(1)
		f := newFixture(t, mem)
		f.open()
		l := f.log("t", nil)
		for i := range 8 {
			f.mustAppend(l, idempotentBatch(7, 0, int32(i)*2, 2))
		}
		if err := watch(l).await(16); err != nil {
			t.Fatal(err)
		}
		if clean {
			f.restart()
		} else {
			f.e.Tick(f.clock.advance(2_000))
			f.fs = mem.Crash(vfs.KeepAll)
			f.kill()
			f.open()
		}
		l = f.e.Log(l.TP())
		for i := 3; i < 8; i++ {
			if a := appendBatch(l, idempotentBatch(7, 0, int32(i)*2, 2)); a.Err != nil || !a.Duplicate || a.BaseOffset != int64(i)*2 {
				t.Errorf("clean %v: batch %d again: %v, duplicate %v, offset %d", clean, i, a.Err, a.Duplicate, a.BaseOffset)
			}
		}
		if a := f.mustAppend(l, idempotentBatch(7, 0, 16, 1)); a.BaseOffset != 16 || a.Duplicate {
			t.Errorf("the next batch: %+v", a)
		}
	}
}

// B-C12: a truncation takes back what the log state files claim before it cuts: a crash behind it, after other data was appended, finds that data.
func TestTruncationDropsMarks(t *testing.T) {
	for _, mode := range []vfs.CrashMode{vfs.LoseUnsynced, vfs.KeepAll, vfs.RandomPages} {
		mem := vfs.NewMem(uint64(mode))
		f := newFixture(t, mem)
		f.open()
		l := f.log("t", nil)
		f.fillWithoutHW(l, 20)
		f.e.Tick(f.clock.advance(2_000))
		if err := l.Truncate(5); err != nil {
			t.Fatal(err)
		}
		f.fillWithoutHW(l, 3)
		f.fs = mem.Crash(mode)
		f.kill()
		f.open()
		l = f.e.Log(l.TP())
		if l.EndOffset() != 8 || l.Err() != nil {
			t.Fatalf("%v: end %d, %v", mode, l.EndOffset(), l.Err())
		}
		f.readAll(l, 0, 8)
		f.close()
	}
}

func (f *fixture) fillWithoutHW(l *Log, count int) {
	f.t.Helper()
	var last *Append
	for range count {
		last = f.mustAppend(l, batchOf(testStartMs, 1, 100))
	}
	if err := watchOnly(l, nil).await(last.LastOffset + 1); err != nil {
		f.t.Fatal(err)
	}
}

// R6: the log state files are derived: damaged in any byte, cut anywhere or missing, the start finds the same logs.
func TestDamagedLogState(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	logs := f.manyLogs(3)
	f.fillFlushed(logs[0], 10)
	f.e.Tick(f.clock.advance(100_000))
	f.fillFlushed(logs[1], 4)
	f.e.Tick(f.clock.advance(2_000))
	disk := mem.Crash(vfs.KeepAll)
	f.kill()
	for _, name := range []string{logStateFileName, logStateRecentFileName} {
		path := "/data/" + name
		data, err := vfs.ReadFile(disk, path, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for n := -1; n < len(data); n += max(1, len(data)/25) {
			broken := disk.Crash(vfs.KeepAll)
			switch changed := bytes.Clone(data); {
			case n < 0:
				err = broken.Remove(path)
			case n%2 == 0:
				changed[n] ^= 0x10
				err = vfs.WriteFileAtomic(broken, path, changed)
			default:
				err = vfs.WriteFileAtomic(broken, path, changed[:n])
			}
			if err != nil {
				t.Fatal(err)
			}
			f.fs = broken
			f.open()
			for p, end := range []int64{10, 4, 0} {
				if l := f.e.Log(logs[p].TP()); l.EndOffset() != end || l.Err() != nil {
					t.Fatalf("%s, byte %d: log %d ends at %d, %v", name, n, p, l.EndOffset(), l.Err())
				}
			}
			f.close()
		}
	}
}

func TestLogStateFormat(t *testing.T) {
	p := newProducerEntry(9)
	p.epoch = 3
	p.push(batchMeta{lastSequence: 4, offsetDelta: 1, lastOffset: 8, timestampMs: 77})
	want := map[TopicPartition]*mark{
		{Topic: "a", Partition: 0}: {topicID: testID, base: 0, end: segment.End{MaxTimestamp: -1}},
		{Topic: "b", Partition: 1}: {topicID: testID, base: 5, end: segment.End{Size: 100, NextOffset: 9, MaxTimestamp: 77, MaxOffset: 8},
			epochs: []epochEntry{{0, 5}, {2, 7}}, producers: []producerEntry{p}},
	}
	data := encodeLogState(want)
	got, err := decodeLogState(data)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%v, %d entries", err, len(got))
	}
	for tp, m := range want {
		if fmt.Sprintf("%+v", *got[tp]) != fmt.Sprintf("%+v", *m) {
			t.Errorf("%v: %+v, want %+v", tp, *got[tp], *m)
		}
	}
	for n := range data {
		broken := bytes.Clone(data)
		broken[n] ^= 0x40
		if _, err := decodeLogState(broken); err == nil {
			t.Errorf("byte %d changed: no error", n)
		}
		if _, err := decodeLogState(data[:n]); err == nil {
			t.Errorf("cut at %d: no error", n)
		}
	}
}

func FuzzLogState(f *testing.F) {
	p := newProducerEntry(9)
	p.push(batchMeta{lastSequence: 4, offsetDelta: 1, lastOffset: 8, timestampMs: 77})
	f.Add(encodeLogState(map[TopicPartition]*mark{{Topic: "b", Partition: 1}: {topicID: testID, base: 5, end: segment.End{Size: 100, NextOffset: 9},
		epochs: []epochEntry{{0, 5}}, producers: []producerEntry{p}}})[logStateHeaderSize:])
	f.Fuzz(func(t *testing.T, body []byte) { // behind a right checksum
		d := stateDecoder{rest: body}
		for range d.count(1) {
			d.bytes(d.count(1))
			d.unsigned(1<<31 - 1)
			if m := d.mark(); !d.failed && m.offset() < m.base {
				t.Fatalf("%+v", m)
			}
		}
	})
}

// B-E2: the recovery point may be ahead of the log's mark when the process dies, with a roll between them. What a producer sends again is known all the
// same: a producer snapshot remembers one batch of the five, the mark all.
func TestProducerWindowBehindRecoveryPoint(t *testing.T) {
	for _, roll := range []bool{false, true} {
		mem := vfs.NewMem(1)
		f := newFixture(t, mem)
		f.tweak = func(o *Options) { o.CheckpointStepBytes = 1 }
		f.open()
		l := f.log("t", nil)
		send := func(from, to int) {
			for i := from; i < to; i++ {
				f.mustAppend(l, idempotentBatch(7, 0, int32(i)*2, 2))
			}
			if err := watch(l).await(int64(to) * 2); err != nil {
				t.Fatal(err)
			}
		}
		send(0, 3)
		f.e.Tick(f.clock.advance(2_000)) // notes the state
		send(3, 8)
		if roll {
			l.mu.Lock()
			err := l.rollLocked(l.cfg.Load(), l.EndOffset(), f.clock.Now())
			l.mu.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			f.settle()
		}
		f.e.checkpoint() // and the process ends before the next note
		if rp := l.promise.recoveryPoint.Load(); rp != 16 {
			t.Fatalf("recovery point %d", rp)
		}
		f.fs = mem.Crash(vfs.KeepAll)
		f.kill()
		f.open()
		l = f.e.Log(l.TP())
		for i := 3; i < 8; i++ {
			if a := appendBatch(l, idempotentBatch(7, 0, int32(i)*2, 2)); a.Err != nil || !a.Duplicate || a.BaseOffset != int64(i)*2 {
				t.Errorf("roll %v: batch %d again: %v, duplicate %v, offset %d", roll, i, a.Err, a.Duplicate, a.BaseOffset)
			}
		}
		if a := f.mustAppend(l, idempotentBatch(7, 0, 16, 1)); a.BaseOffset != 16 || a.Duplicate {
			t.Errorf("the next batch: %+v", a)
		}
	}
}
