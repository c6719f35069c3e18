package replication

import (
	"errors"
	"testing"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// TestAcks: acks 0 and 1 are answered when the batch is written, acks all when it is flushed.
func TestAcks(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := start(t, fault)
	defer n.stop()
	p := n.create("a", 1)
	release := holdSyncs(fault)
	defer release()
	all := produce(p, -1, 2)
	for _, acks := range []int16{0, 1} {
		if c := produce(p, acks, 1); c.wait() != nil {
			t.Error(acks, c.Err)
		}
	}
	if p.LogEnd() != 4 || p.HighWatermark() != 0 {
		t.Errorf("written %d, visible %d", p.LogEnd(), p.HighWatermark())
	}
	select {
	case <-all.done:
		t.Error("acks=all was answered before the flush")
	default:
	}
	if !all.appended.Load() {
		t.Error("the buffer of a written batch is kept")
	}
	release()
	if err := all.wait(); err != nil || all.BaseOffset != 0 || all.LastOffset != 1 || p.HighWatermark() < 2 {
		t.Errorf("%v, %+v", err, all)
	}
}

// TestReadsSeeOnlyWhatIsStable: nothing above the high watermark is read.
func TestReadsSeeOnlyWhatIsStable(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := start(t, fault)
	defer n.stop()
	p := n.create("a", 1)
	if err := produce(p, -1, 2).wait(); err != nil {
		t.Fatal(err)
	}
	release := holdSyncs(fault)
	defer release()
	if err := produce(p, 1, 3).wait(); err != nil {
		t.Fatal(err)
	}
	f := func(offset int64, some bool, want error) {
		t.Helper()
		for _, committed := range []bool{false, true} {
			r, err := p.Read(offset, 1<<20, true, committed)
			if !errors.Is(err, want) || r.N > 0 != some || r.HW != 2 || r.LSO != 2 || r.LogStart != 0 {
				t.Errorf("read %d: %+v, %v", offset, r, err)
			}
			r.Release()
		}
	}
	f(0, true, nil)
	f(1, true, nil)
	f(2, false, nil)
	f(4, false, nil)
	f(6, false, engine.ErrOffsetOutOfRange)
	f(-1, false, engine.ErrOffsetOutOfRange)
	var x Waiter
	w := newWakes()
	x.Init(w)
	if p.Await(&x, 1) || !p.Await(&x, 2) {
		t.Error("waits for what is there, or not for what is not")
	}
	release()
	if <-w.c != &x {
		t.Error("woke somebody else")
	}
	if p.Cancel(&x) {
		t.Error("cancelled a wait that is over")
	}
}

func TestWriteCaching(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := start(t, fault)
	defer n.stop()
	p := n.create("a", 1, "write.caching", "true")
	release := holdSyncs(fault)
	if c := produce(p, -1, 2); c.wait() != nil || p.HighWatermark() != 2 {
		t.Errorf("%v, high watermark %d", c.Err, p.HighWatermark())
	}
	release()
	n.alter("a", "write.caching", "false")
	release = holdSyncs(fault)
	c := produce(p, -1, 2)
	if produce(p, 1, 1).wait() != nil || p.HighWatermark() != 2 {
		t.Errorf("without write.caching the high watermark is %d before a flush", p.HighWatermark())
	}
	release()
	if err := c.wait(); err != nil {
		t.Error(err)
	}
}

func TestProduceTimesOut(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := start(t, fault)
	defer n.stop()
	p := n.create("a", 1)
	release := holdSyncs(fault)
	defer release()
	late := produce(p, -1, 1)
	later := &call{done: make(chan struct{})}
	later.Sink, later.Acks, later.TimeoutMs, later.Batch = later, -1, 5000, batch(1)
	p.Produce(&later.Produce)
	if err := produce(p, 1, 1).wait(); err != nil { // both are parked behind it
		t.Fatal(err)
	}
	if !n.m.Tick(1499) {
		t.Error("the tick does not say that something is parked")
	}
	select {
	case <-late.done:
		t.Error("timed out too early")
	default:
	}
	n.m.Tick(1500)
	if err := late.wait(); err != ErrTimedOut {
		t.Error(err)
	}
	n.m.Tick(1501)
	release()
	if err := later.wait(); err != nil || p.HighWatermark() != 3 {
		t.Errorf("%v, high watermark %d", err, p.HighWatermark())
	}
	n.m.Tick(9999)
	if n.m.Tick(9999) || len(n.m.timers.mu.partitions) != 0 {
		t.Error("a partition without parked produces is still listed")
	}
	if got := n.parked.Load(); got != 1 {
		t.Errorf("Parked was called %d times for the produces of one partition", got)
	}
	if err := produce(p, -1, 1).wait(); err != nil || n.parked.Load() != 2 {
		t.Errorf("%v; Parked was called %d times, the second time when nothing was left", err, n.parked.Load())
	}
}

// TestDiskFails: a failed sync fails everyone who waits for it and everyone who comes; nobody waits for ever (R18).
func TestDiskFails(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := start(t, fault)
	p := n.create("a", 1)
	if err := produce(p, -1, 1).wait(); err != nil {
		t.Fatal(err)
	}
	var x Waiter
	w := newWakes()
	x.Init(w)
	p.Await(&x, 1)
	fault.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpSync, vfs.OpSyncFS), Err: errors.New("broken"), Sticky: true})
	calls := []*call{produce(p, -1, 1), produce(p, -1, 1), produce(p, -1, 1)}
	for _, c := range calls {
		if err := c.wait(); !errors.Is(err, engine.ErrStorage) {
			t.Error(err)
		}
	}
	<-w.c
	if err := p.Check(-1); !errors.Is(err, engine.ErrStorage) {
		t.Error(err)
	}
	if p.Await(&x, 100) {
		t.Error("waits for a partition that has failed")
	}
	if p.HighWatermark() != 1 {
		t.Errorf("high watermark %d", p.HighWatermark())
	}
	n.m.Close()
	_ = n.meta.Close(ctx)
	_ = n.e.Close(ctx)
}

func TestCloseAnswersEverybody(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := start(t, fault)
	p := n.create("a", 1)
	release := holdSyncs(fault)
	c := produce(p, -1, 1)
	if err := produce(p, 1, 1).wait(); err != nil {
		t.Fatal(err)
	}
	var x Waiter
	w := newWakes()
	x.Init(w)
	p.Await(&x, 5)
	n.m.Close()
	if err := c.wait(); err != ErrNotLeader {
		t.Error(err)
	}
	<-w.c
	if err := produce(p, 1, 1).wait(); err != ErrNotLeader {
		t.Error(err)
	}
	release()
	n.stop()
}

func TestNotEnoughReplicas(t *testing.T) {
	n := start(t, vfs.NewMem(1))
	defer n.stop()
	p := n.create("a", 1, "min.insync.replicas", "2")
	// protocol.md 6: above the replication factor it is clipped to it.
	if err := produce(p, -1, 1).wait(); err != nil {
		t.Error(err)
	}
	p.assign(assignment{leads: true, epoch: p.LeaderEpoch(), replicas: []int32{1, 2}, isr: []int32{1}, minISR: 2})
	if err := produce(p, -1, 1).wait(); err != ErrNotEnoughReplicas {
		t.Error(err)
	}
	if err := produce(p, 1, 1).wait(); err != nil {
		t.Error(err)
	}
}

// TestLosingLeadership: who waits is told at once.
func TestLosingLeadership(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := start(t, fault)
	defer n.stop()
	p := n.create("a", 1)
	release := holdSyncs(fault)
	defer release()
	c := produce(p, -1, 1)
	if err := produce(p, 1, 1).wait(); err != nil {
		t.Fatal(err)
	}
	p.assign(assignment{epoch: 7, replicas: []int32{1, 2}, isr: []int32{2}})
	if err := c.wait(); err != ErrNotLeader {
		t.Error(err)
	}
	if err := p.Check(7); err != ErrNotLeader {
		t.Error(err)
	}
	if err := p.Check(0); err != ErrFencedLeaderEpoch {
		t.Error(err)
	}
}

// sink counts answers.
type sink struct{ done chan *Produce }

func (s *sink) Appended(*Produce)      {}
func (s *sink) ProduceDone(r *Produce) { s.done <- r }

// BenchmarkProduce is the way of a batch from Produce to its answer with 16 in flight; 0 allocations per batch.
func BenchmarkProduce(b *testing.B) {
	for name, acks := range map[string]int16{"acks=1": 1, "acks=all": -1} {
		b.Run(name, func(b *testing.B) {
			n := start(b, vfs.OS, b.TempDir())
			defer n.stop()
			p := n.create("a", 1)
			s := &sink{make(chan *Produce, 16)}
			for range cap(s.done) {
				s.done <- &Produce{Append: engine.Append{Batch: batch(16)}, Acks: acks, TimeoutMs: 30000, Sink: s}
			}
			b.ReportAllocs()
			for b.Loop() {
				r := <-s.done
				if r.Err != nil {
					b.Fatal(r.Err)
				}
				record.Batch(r.Batch).SetBaseOffset(0) // the engine patched it
				p.Produce(r)
			}
			for range cap(s.done) {
				<-s.done
			}
		})
	}
}
