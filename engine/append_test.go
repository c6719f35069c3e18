package engine

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

func TestAppendAndRead(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", nil)
	p := watch(l)
	var want [][]byte
	next := int64(0)
	for i := range 20 {
		b := batchOf(testStartMs, 1+i%3, 100+i)
		a := f.mustAppend(l, b)
		if a.BaseOffset != next || a.LastOffset != next+int64(i%3) || a.Duplicate || a.LogAppendTimeMs != -1 || a.LogStartOffset != 0 {
			t.Fatalf("append %d: %+v", i, a)
		}
		next = a.LastOffset + 1
		want = append(want, bytes.Clone(b))
	}
	if err := p.await(next); err != nil {
		t.Fatal(err)
	}
	if l.EndOffset() != next || l.FlushedOffset() != next || l.HighWatermark() != next {
		t.Fatalf("end %d flushed %d hw %d, want %d", l.EndOffset(), l.FlushedOffset(), l.HighWatermark(), next)
	}
	got := f.readAll(l, 0, next)
	if len(got) != len(want) {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("batch %d differs", i)
		}
	}
	if p.early {
		t.Fatal("Flushed came before Appended")
	}
}

func TestAppendErrorsDoNotDisturbNeighbours(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", map[string]string{"max.message.bytes": "10000"})
	broken := batchOf(testStartMs, 1, 100)
	broken[len(broken)-1] ^= 1
	large := batchOf(testStartMs, 1, 20000)
	batches := [][]byte{batchOf(testStartMs, 1, 50), broken, batchOf(testStartMs, 2, 50), large, nil, []byte("short"), batchOf(testStartMs, 1, 50)}
	w := waiter{make(chan struct{}, len(batches))}
	appends := make([]*Append, len(batches))
	l.mu.Lock() // all in one turn
	for i, b := range batches {
		appends[i] = &Append{Batch: b, Done: w}
		l.Enqueue(appends[i])
	}
	l.mu.Unlock()
	for range batches {
		<-w.done
	}
	var kinds []string
	for _, a := range appends {
		var re *record.Error
		switch {
		case a.Err == nil:
			kinds = append(kinds, "ok")
		case errors.As(a.Err, &re):
			kinds = append(kinds, re.Kind.String())
			if a.BaseOffset != -1 || a.LastOffset != -1 {
				t.Errorf("failed append has offsets %d..%d", a.BaseOffset, a.LastOffset)
			}
		default:
			kinds = append(kinds, a.Err.Error())
		}
	}
	if got, want := strings.Join(kinds[:4], ","), "ok,corrupt message,ok,message too large"; got != want {
		t.Errorf("results %s, want %s", got, want)
	}
	if appends[4].Err == nil || appends[5].Err == nil || appends[6].Err != nil {
		t.Errorf("results %v", kinds)
	}
	if l.EndOffset() != 4 || len(f.readAll(l, 0, 4)) != 3 {
		t.Errorf("log end %d", l.EndOffset())
	}
}

func TestAppendLargerThanSegment(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", map[string]string{"segment.bytes": "1048576", "max.message.bytes": "3000000"})
	if a := appendBatch(l, batchOf(testStartMs, 1, 1<<20)); !errors.Is(a.Err, ErrRecordListTooLarge) {
		t.Fatal(a.Err)
	}
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
}

func TestAppendRollsInsideATurn(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", map[string]string{"segment.bytes": "1048576"})
	const n = 40
	w := waiter{make(chan struct{}, n)}
	appends := make([]*Append, n)
	l.mu.Lock()
	for i := range appends {
		appends[i] = &Append{Batch: batchOf(testStartMs, 1, 100_000), Done: w}
		l.Enqueue(appends[i])
	}
	l.mu.Unlock()
	p := watch(l)
	for i := range appends {
		<-w.done
		if appends[i].Err != nil || appends[i].BaseOffset != int64(i) {
			t.Fatalf("append %d: offset %d, %v", i, appends[i].BaseOffset, appends[i].Err)
		}
	}
	if err := p.await(n); err != nil {
		t.Fatal(err)
	}
	f.settle()
	segs := l.segs.Load()
	if len(segs.list) != 4 {
		t.Fatalf("%d segments", len(segs.list))
	}
	for i, h := range segs.list {
		if h.Base() != int64(i*10) {
			t.Errorf("segment %d begins at %d", i, h.Base())
		}
		if sealed := i+1 < len(segs.list); h.sealed.Load() != sealed {
			t.Errorf("segment %d: sealed %v", i, h.sealed.Load())
		}
	}
	if got := len(f.readAll(l, 0, n)); got != n {
		t.Fatalf("%d batches", got)
	}
}

func TestLogAppendTime(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", map[string]string{"message.timestamp.type": "LogAppendTime"})
	a := f.mustAppend(l, batchOf(5, 3, 10))
	if a.LogAppendTimeMs != testStartMs {
		t.Fatalf("log append time %d", a.LogAppendTimeMs)
	}
	b := f.readAll(l, 0, 3)[0]
	if b.TimestampType() != record.LogAppendTime || b.MaxTimestamp() != testStartMs {
		t.Fatalf("%v %d", b.TimestampType(), b.MaxTimestamp())
	}
}

func TestIdempotentProducer(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", nil)
	for i := range int32(3) {
		f.mustAppend(l, idempotentBatch(7, 0, i*2, 2))
	}
	check := func(l *Log) {
		t.Helper()
		a := f.mustAppend(l, idempotentBatch(7, 0, 4, 2))
		if !a.Duplicate || a.BaseOffset != 4 || a.LastOffset != 5 {
			t.Errorf("duplicate: %+v", a)
		}
		if a := appendBatch(l, idempotentBatch(7, 0, 99, 1)); !errors.Is(a.Err, ErrOutOfOrderSequence) {
			t.Errorf("gap: %v", a.Err)
		}
		if l.EndOffset() != 6 {
			t.Errorf("log end %d", l.EndOffset())
		}
	}
	check(l)
	// A clean restart brings the state back from a snapshot, a crash from the batches.
	f.restart()
	l = f.log("t", nil)
	check(l)
	f.kill()
	f.open()
	l = f.log("t", nil)
	check(l)
	f.mustAppend(l, idempotentBatch(7, 1, 0, 1))
	if a := appendBatch(l, idempotentBatch(7, 0, 6, 1)); !errors.Is(a.Err, ErrInvalidProducerEpoch) {
		t.Errorf("old epoch: %v", a.Err)
	}
	all := l.Producers()
	if len(all) != 1 || all[0].ProducerID != 7 || all[0].Epoch != 1 {
		t.Errorf("producers %+v", all)
	}
}

// A duplicate in the same turn as its original must share its fate.
func TestDuplicateInFailedTurnFailsToo(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.open()
	l := f.log("t", nil)
	in := fault.Inject(vfs.Injection{Match: isLogWrite, Err: syscall.ENOSPC, Sticky: true})
	w := waiter{make(chan struct{}, 2)}
	a := &Append{Batch: idempotentBatch(1, 0, 0, 1), Done: w}
	b := &Append{Batch: idempotentBatch(1, 0, 0, 1), Done: w}
	l.mu.Lock()
	l.Enqueue(a)
	l.Enqueue(b)
	l.mu.Unlock()
	<-w.done
	<-w.done
	for _, a := range []*Append{a, b} {
		if !errors.Is(a.Err, ErrDiskFull) || a.Duplicate {
			t.Fatalf("%+v", a)
		}
	}
	in.Remove()
	if a := f.mustAppend(l, idempotentBatch(1, 0, 0, 1)); a.Duplicate || a.BaseOffset != 0 {
		t.Fatalf("%+v", a)
	}
}

func isLogWrite(op vfs.Op) bool {
	return op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, logSuffix)
}

// E1, E7, E8: a full disk is an error to the producer, not the end of the log, and is over when there is space again.
func TestDiskFull(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	p := watch(l)
	f.mustAppend(l, batchOf(testStartMs, 1, 1000))
	if err := p.await(1); err != nil {
		t.Fatal(err)
	}
	u, err := mem.Usage("/data")
	if err != nil {
		t.Fatal(err)
	}
	used := u.Total - u.Free
	mem.SetCapacity(used + 300_000)
	appended := int64(1)
	for {
		a := appendBatch(l, batchOf(testStartMs, 1, 100_000))
		if a.Err == nil {
			appended++
			continue
		}
		if !errors.Is(a.Err, ErrDiskFull) || !errors.Is(a.Err, syscall.ENOSPC) || errors.Is(a.Err, ErrStorage) {
			t.Fatalf("append to a full disk: %v", a.Err)
		}
		break
	}
	if l.Err() != nil || l.EndOffset() != appended {
		t.Fatalf("err %v, end %d, want %d", l.Err(), l.EndOffset(), appended)
	}
	f.e.Tick(f.clock.advance(120_000)) // checkpoints meet the full disk, too
	if l.Err() != nil {
		t.Fatal(l.Err())
	}
	mem.SetCapacity(1 << 40)
	f.e.Tick(f.clock.advance(1_000)) // the checkpoints took from the reserve: what space there is goes to that first
	f.mustAppend(l, batchOf(testStartMs, 1, 100_000))
	if err := p.await(appended + 1); err != nil {
		t.Fatal(err)
	}
	f.readAll(l, 0, appended+1)
	f.restart()
	if l := f.log("t", nil); l.EndOffset() != appended+1 {
		t.Fatalf("end %d after restart", l.EndOffset())
	}
}

// R18, B-A1: a failed sync fails everybody who waits and everything after; it is not retried.
func TestSyncErrorTakesTheDirectoryOffline(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.open()
	a, b := f.log("a", nil), f.log("b", nil)
	pa, pb := watch(a), watch(b)
	f.mustAppend(a, batchOf(testStartMs, 1, 10))
	if err := pa.await(1); err != nil {
		t.Fatal(err)
	}
	fault.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpSync, vfs.OpSyncFS), Nth: 1, Err: syscall.EIO}) // once: a retry would succeed
	f.mustAppend(a, batchOf(testStartMs, 1, 10))
	for _, p := range []*progress{pa, pb} {
		if err := p.awaitFailure(); !errors.Is(err, ErrStorage) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("observer heard %v", err)
		}
	}
	if a.FlushedOffset() != 1 || a.HighWatermark() != 1 {
		t.Fatalf("flushed %d, hw %d", a.FlushedOffset(), a.HighWatermark())
	}
	for _, l := range []*Log{a, b} {
		if r := appendBatch(l, batchOf(testStartMs, 1, 10)); !errors.Is(r.Err, ErrStorage) {
			t.Fatalf("append after: %v", r.Err)
		}
	}
	if got := f.readAll(a, 0, 1); len(got) != 1 { // reading goes on
		t.Fatal("not readable")
	}
	if d := f.e.Dirs(); d[0].Err == nil {
		t.Fatal("directory is not offline")
	}
	if _, err := f.e.Create(TopicPartition{Topic: "c"}, testID, topicConfig(t, nil)); !errors.Is(err, ErrStorage) {
		t.Fatalf("create: %v", err)
	}
}

func TestWriteErrorTakesTheDirectoryOffline(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.open()
	l := f.log("t", nil)
	p := watch(l)
	fault.Inject(vfs.Injection{Match: isLogWrite, Nth: 1, Err: syscall.EIO})
	if a := appendBatch(l, batchOf(testStartMs, 1, 10)); !errors.Is(a.Err, ErrStorage) || !errors.Is(a.Err, syscall.EIO) {
		t.Fatalf("append: %v", a.Err)
	}
	if err := p.awaitFailure(); !errors.Is(err, ErrStorage) {
		t.Fatal(err)
	}
}

// B-H2: offsets given by the caller must continue the log.
func TestReplicaAppend(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", nil)
	at := func(offset int64, epoch int32) []byte {
		return buildBatch(record.Options{BaseOffset: offset, PartitionLeaderEpoch: epoch}, testStartMs, 2, 10)
	}
	for _, step := range []struct {
		offset int64
		epoch  int32
		err    error
		end    int64
	}{{0, 3, nil, 2}, {2, 3, nil, 4}, {3, 3, ErrInvalidOffsets, 4}, {0, 3, ErrInvalidOffsets, 4}, {10, 5, nil, 12}} {
		a := appendAs(l, at(step.offset, step.epoch), FromLeader, 0)
		if !errors.Is(a.Err, step.err) || l.EndOffset() != step.end {
			t.Fatalf("append at %d: %v, end %d", step.offset, a.Err, l.EndOffset())
		}
	}
	if l.LatestEpoch() != 5 || l.EpochAt(3) != 3 {
		t.Fatalf("epochs %d %d", l.LatestEpoch(), l.EpochAt(3))
	}
	if e, end := l.EndOffsetForEpoch(4); e != 3 || end != 10 {
		t.Fatalf("end of epoch 4: %d at %d", e, end)
	}
}

func TestEnqueueAfterClose(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", nil)
	f.close()
	if a := appendBatch(l, batchOf(testStartMs, 1, 10)); !errors.Is(a.Err, ErrClosed) {
		t.Fatal(a.Err)
	}
	if _, err := l.Read(0, 100, 1, true); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrOffsetOutOfRange) {
		t.Fatal(err)
	}
}
