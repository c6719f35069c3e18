package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// The crash test runs a small workload on a memory disk, takes a picture of the disk after its mutating operations as a power cut would leave it
// (each crash mode), and opens each picture: what was acknowledged when it was taken must be there, in order; then the log must take appends,
// survive a second cut and open again (R5, A6, B-A8).

// history is what a workload did to one partition, for the checker.
type history struct {
	mu       sync.Mutex
	id       [16]byte
	attempts map[int64][][]byte // by base offset: every batch that was written there
	acked    int64              // flushed and told
	start    int64              // highest log start that was promised
	deleted  bool
	creating bool
}

// world is the workload's view of all partitions.
type world struct {
	mu   sync.Mutex
	logs map[TopicPartition]*history
}

// picture is the disk at a crash point, with what had been promised just before.
type picture struct {
	op       int
	mode     vfs.CrashMode
	what     string
	disk     *vfs.Mem
	promised map[TopicPartition]promised
}

type promised struct {
	h            *history
	id           [16]byte
	acked, start int64
	deleted      bool // being deleted: may be there or not
	creating     bool // being created
}

func (w *world) promises() map[TopicPartition]promised {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[TopicPartition]promised{}
	for tp, h := range w.logs {
		h.mu.Lock()
		all[tp] = promised{h, h.id, h.acked, h.start, h.deleted, h.creating}
		h.mu.Unlock()
	}
	return all
}

// Observer of a history: what is flushed is acknowledged.
type acker struct {
	h *history
	l *Log
}

func (a acker) Appended(int64) {}
func (a acker) Failed(error)   {}
func (a acker) Flushed(flushed int64) {
	a.l.SetHighWatermark(flushed)
	a.h.mu.Lock()
	a.h.acked = max(a.h.acked, flushed)
	a.h.mu.Unlock()
}

func crashConfig(t testing.TB) *config.Topic {
	return small(t, func(c *config.Topic) {
		c.SegmentBytes = 3_000
		c.IndexIntervalBytes = 500
		c.SegmentIndexBytes = 1_200
		c.FileDeleteDelayMs = 1_000
	})
}

// workload drives an engine and keeps the histories.
type workload struct {
	*fixture
	w   *world
	rng *rand.Rand
	cfg *config.Topic
	seq map[TopicPartition]int32
}

func (wl *workload) create(topic string, id byte) *Log {
	tp := TopicPartition{Topic: topic}
	h := &history{id: [16]byte{id}, attempts: map[int64][][]byte{}, creating: true}
	wl.w.mu.Lock()
	wl.w.logs[tp] = h
	wl.w.mu.Unlock()
	l, err := wl.e.Create(tp, h.id, wl.cfg)
	if err != nil {
		wl.t.Fatal(err)
	}
	h.mu.Lock()
	h.creating = false
	h.mu.Unlock()
	l.SetObserver(acker{h, l})
	return l
}

// reattach watches the logs again after a restart.
func (wl *workload) reattach() {
	for tp, h := range wl.w.logs {
		if l := wl.e.Log(tp); l != nil && !h.deleted {
			l.SetConfig(wl.cfg)
			l.SetObserver(acker{h, l})
			acker{h, l}.Flushed(l.FlushedOffset())
		}
	}
}

func (wl *workload) append(topic string, n int) {
	tp := TopicPartition{Topic: topic}
	l, h := wl.e.Log(tp), wl.w.logs[tp]
	w := waiter{make(chan struct{}, n)}
	appends := make([]*Append, n)
	for i := range appends {
		records := 1 + wl.rng.IntN(3)
		b := buildBatch(record.Options{Idempotent: true, ProducerID: 5, BaseSequence: wl.seq[tp]}, wl.clock.Now(), records, 20+wl.rng.IntN(400))
		wl.seq[tp] += int32(records)
		appends[i] = &Append{Batch: b, Done: recorder{h, w}}
	}
	for _, a := range appends {
		l.Enqueue(a)
	}
	for _, a := range appends {
		<-w.done
		if a.Err != nil {
			wl.t.Fatal(a.Err)
		}
	}
}

// recorder notes a batch before anybody can acknowledge it.
type recorder struct {
	h *history
	w waiter
}

func (r recorder) AppendDone(a *Append) {
	r.h.mu.Lock()
	r.h.attempts[a.BaseOffset] = append(r.h.attempts[a.BaseOffset], bytes.Clone(a.Batch))
	r.h.mu.Unlock()
	r.w.AppendDone(a)
}

// flush waits until everything is flushed.
func (wl *workload) flush(topic string) {
	l := wl.e.Log(TopicPartition{Topic: topic})
	for l.FlushedOffset() < l.EndOffset() {
		wl.settle()
	}
}

func (wl *workload) deleteRecords(topic string, upTo int64) {
	tp := TopicPartition{Topic: topic}
	if _, err := wl.e.Log(tp).DeleteRecords(upTo); err != nil {
		wl.t.Fatal(err)
	}
	h := wl.w.logs[tp]
	h.mu.Lock()
	h.start = max(h.start, upTo)
	h.mu.Unlock()
}

func (wl *workload) delete(topic string) {
	tp := TopicPartition{Topic: topic}
	h := wl.w.logs[tp]
	h.mu.Lock()
	h.deleted = true
	h.mu.Unlock()
	if err := wl.e.Delete(tp); err != nil {
		wl.t.Fatal(err)
	}
}

// run is the workload: every kind of change to the disk happens in it.
func (wl *workload) run() {
	wl.open()
	wl.create("a", 1)
	wl.append("a", 3)
	wl.create("b", 2)
	for range 5 {
		wl.append("a", 1+wl.rng.IntN(6))
		wl.append("b", 1+wl.rng.IntN(3))
	}
	wl.flush("a")
	wl.e.due.checkpoint = 0
	wl.e.checkpoint()
	wl.append("a", 4)
	wl.flush("a")
	wl.deleteRecords("a", 9)
	wl.e.Tick(wl.clock.advance(400_000))
	wl.append("b", 8)
	wl.delete("b")
	wl.create("b", 3)
	wl.seq[TopicPartition{Topic: "b"}] = 0
	wl.append("b", 5)
	wl.e.Tick(wl.clock.advance(400_000))
	wl.flush("b")
	wl.restart()
	wl.reattach()
	wl.append("a", 12)
	wl.append("b", 3)
	wl.flush("a")
	wl.e.checkpoint()
	wl.append("a", 2)
	wl.flush("a")
	wl.flush("b")
	wl.close()
}

func TestCrashPoints(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("LEAT_SEED"); s != "" {
		fmt.Sscan(s, &seed)
	}
	t.Logf("LEAT_SEED=%d", seed)
	stride := 3
	if testing.Short() {
		stride = 29
	}
	mem := vfs.NewMem(seed)
	w := &world{logs: map[TopicPartition]*history{}}
	var mu sync.Mutex
	var pictures []picture
	ops := 0
	phase := rand.New(rand.NewPCG(seed, 1)).IntN(stride)
	mem.OnOp = func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		ops++
		if ops%stride != phase {
			return
		}
		p := w.promises() // before the picture: what is promised later need not be in it
		mode := vfs.CrashModes[len(pictures)%len(vfs.CrashModes)]
		pictures = append(pictures, picture{ops, mode, op.String(), mem.Crash(mode), p})
	}
	wl := &workload{fixture: newFixture(t, mem), w: w, rng: rand.New(rand.NewPCG(seed, 2)), cfg: crashConfig(t), seq: map[TopicPartition]int32{}}
	wl.run()
	t.Logf("%d mutating operations, %d pictures", ops, len(pictures))
	for _, p := range pictures {
		if err := checkPicture(t, &p); err != nil {
			t.Fatalf("power cut (%v) after operation %d, %s: %v", p.mode, p.op, p.what, err)
		}
	}
}

// checkPicture opens the disk, checks it, appends, cuts the power again, opens and checks again.
func checkPicture(t *testing.T, p *picture) error {
	f := newFixture(t, p.disk)
	want := p.promised
	for round := range 2 {
		if _, err := f.tryOpen(); err != nil {
			return fmt.Errorf("round %d: open: %w", round, err)
		}
		for tp, promise := range want {
			if err := checkLog(f.e, promise.h, tp, promise); err != nil {
				return fmt.Errorf("round %d: %v: %w\n%s", round, tp, err, f.logs)
			}
		}
		want = map[TopicPartition]promised{}
		for tp := range p.promised {
			l := f.e.Log(tp)
			if l == nil {
				continue
			}
			h := p.promised[tp].h
			if l.TopicID() != h.id {
				continue
			}
			obs := watch(l)
			wait := waiter{make(chan struct{}, 1)}
			l.Enqueue(&Append{Batch: batchOf(testStartMs, 2, 300), Done: recorder{h, wait}})
			<-wait.done
			if err := obs.await(l.EndOffset()); err != nil {
				return fmt.Errorf("round %d: append to %v after the crash: %w", round, tp, err)
			}
			want[tp] = promised{h: h, id: h.id, acked: l.EndOffset(), start: l.StartOffset()}
		}
		f.fs = p.disk.Crash(vfs.CrashModes[(p.op+round)%len(vfs.CrashModes)])
		f.kill()
		p.disk = f.fs.(*vfs.Mem)
	}
	return nil
}

// checkLog checks one log against what was promised about it.
func checkLog(e *Engine, h *history, tp TopicPartition, p promised) error {
	l := e.Log(tp)
	if l == nil || l.TopicID() != p.id {
		if p.deleted || p.creating {
			return nil
		}
		return errors.New("the log is gone")
	}
	if err := l.Err(); err != nil {
		return err
	}
	if l.EndOffset() < p.acked || l.StartOffset() < p.start {
		return fmt.Errorf("log is %d..%d, promised %d..%d", l.StartOffset(), l.EndOffset(), p.start, p.acked)
	}
	if l.FlushedOffset() != l.EndOffset() {
		return fmt.Errorf("flushed %d, end %d: what a restart accepts must be durable", l.FlushedOffset(), l.EndOffset())
	}
	batches, err := readBatches(l, l.StartOffset(), l.EndOffset())
	if err != nil {
		return err
	}
	next := l.StartOffset()
	for _, b := range batches {
		if b.BaseOffset() > next {
			return fmt.Errorf("hole at offset %d", next)
		}
		next = b.NextOffset()
		if !h.wrote(b) {
			return fmt.Errorf("batch at offset %d was never written", b.BaseOffset())
		}
	}
	return nil
}

func (h *history) wrote(b record.Batch) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.attempts[b.BaseOffset()] {
		if bytes.Equal(a, b) {
			return true
		}
	}
	return false
}

// A truncation interrupted at any operation leaves a log that ends between the new and the old end and keeps what was below (B-C12).
func TestCrashDuringTruncate(t *testing.T) {
	for _, to := range []int64{20, 17, 12, 5, 1} {
		mem := vfs.NewMem(uint64(to))
		var recording atomic.Bool
		var pictures []picture
		var mu sync.Mutex
		mem.OnOp = func(op vfs.Op) {
			mu.Lock()
			defer mu.Unlock()
			for _, mode := range vfs.CrashModes {
				if recording.Load() {
					pictures = append(pictures, picture{mode: mode, what: op.String(), disk: mem.Crash(mode)})
				}
			}
		}
		f := newFixture(t, mem)
		f.open()
		l := f.logWith("t", crashConfig(t))
		p := watchOnly(l, nil)
		h := &history{attempts: map[int64][][]byte{}}
		for range 24 {
			a := f.mustAppend(l, batchOf(testStartMs, 1, 400))
			h.attempts[a.BaseOffset] = [][]byte{bytes.Clone(a.Batch)}
		}
		if err := p.await(24); err != nil {
			t.Fatal(err)
		}
		f.settle()
		l.SetHighWatermark(to)
		f.e.checkpoint()
		recording.Store(true)
		if err := l.Truncate(to); err != nil {
			t.Fatal(err)
		}
		if l.EndOffset() != to || l.FlushedOffset() != to {
			t.Fatalf("end %d, flushed %d after truncating to %d", l.EndOffset(), l.FlushedOffset(), to)
		}
		recording.Store(false)
		last := f.mustAppend(l, batchOf(testStartMs, 1, 400))
		if last.BaseOffset != to {
			t.Fatalf("append after truncating at %d", last.BaseOffset)
		}
		if err := p.await(to + 1); err != nil {
			t.Fatal(err)
		}
		f.readAll(l, 0, to+1)
		f.restart()
		if l := f.log2("t"); l.EndOffset() != to+1 {
			t.Fatalf("end %d after restart", l.EndOffset())
		}
		f.close()
		for _, p := range pictures {
			f := newFixture(t, p.disk)
			if _, err := f.tryOpen(); err != nil {
				t.Fatalf("to %d, %s, %v: %v", to, p.what, p.mode, err)
			}
			l := f.log2("t")
			if l.Err() != nil || l.EndOffset() < to || l.EndOffset() > 24 {
				t.Fatalf("to %d, %s, %v: end %d, %v\n%s", to, p.what, p.mode, l.EndOffset(), l.Err(), f.logs)
			}
			for _, b := range f.readAll(l, 0, l.EndOffset()) {
				if !h.wrote(b) {
					t.Fatalf("to %d: unknown batch at %d", to, b.BaseOffset())
				}
			}
			_ = f.e.Close(context.Background())
		}
	}
}
