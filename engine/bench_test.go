package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// The benchmarks put the engine beside the bare system calls it cannot do without, in the same run and on the same disk. LEAT_BENCH_DIR chooses the disk.

const (
	benchBatchBytes   = 16 << 10
	benchSegmentBytes = 256 << 20
)

func benchDir(b *testing.B) string {
	dir := os.Getenv("LEAT_BENCH_DIR")
	if dir == "" {
		return b.TempDir()
	}
	dir, err := os.MkdirTemp(dir, "leat-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// benchBatch is a batch of about benchBatchBytes with 16 records.
func benchBatch() []byte { return batchOf(testStartMs, 16, benchBatchBytes/16-14) }

func benchLog(b *testing.B, change func(*config.Topic)) (*fixture, *Log) {
	f := newFixture(b, vfs.OS)
	f.dirs = []string{benchDir(b)}
	f.open()
	cfg := *topicConfig(b, nil)
	cfg.SegmentBytes, cfg.SegmentIndexBytes = benchSegmentBytes, 10<<20
	cfg.RetentionBytes, cfg.FileDeleteDelayMs = 0, 0
	if change != nil {
		change(&cfg)
	}
	return f, f.logWith("bench", &cfg)
}

// ring is a set of appends in flight: each is enqueued again as soon as it is done, until n are.
type ring struct {
	l       *Log
	left    atomic.Int64
	pending sync.WaitGroup
	failed  atomic.Pointer[error]
}

func (r *ring) AppendDone(a *Append) {
	if a.Err != nil {
		r.failed.Store(&a.Err)
	}
	if a.Err != nil || r.left.Add(-1) < 0 {
		r.pending.Done()
		return
	}
	record.Batch(a.Batch).SetBaseOffset(0) // as a client sends it
	r.l.Enqueue(a)
}

// BenchmarkAppend: one partition, batches queued by others, nothing synced. inflight is how many are queued at once.
func BenchmarkAppend(b *testing.B) {
	for _, inflight := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("engine/inflight=%d", inflight), func(b *testing.B) { benchAppend(b, inflight) })
		b.Run(fmt.Sprintf("pwritev/batches=%d", inflight), func(b *testing.B) { benchRaw(b, inflight) })
	}
}

func benchAppend(b *testing.B, inflight int) {
	f, l := benchLog(b, func(c *config.Topic) { c.WriteCaching = true })
	batches := make([][]byte, inflight)
	for i := range batches {
		batches[i] = benchBatch()
	}
	run := func(n int) {
		r := &ring{l: l}
		r.left.Store(int64(n - inflight))
		r.pending.Add(inflight)
		for i := range inflight {
			record.Batch(batches[i]).SetBaseOffset(0)
			l.Enqueue(&Append{Batch: batches[i], Done: r})
		}
		r.pending.Wait()
		if p := r.failed.Load(); p != nil {
			b.Fatal(*p)
		}
	}
	run(max(inflight, 100))
	b.SetBytes(int64(len(batches[0])))
	b.ReportAllocs()
	b.ResetTimer()
	const chunk = 1 << 14 // 256 MiB, then the disk is given back what retention takes
	for done := 0; done < b.N; done += chunk {
		run(max(inflight, min(chunk, b.N-done)))
		b.StopTimer()
		l.SetHighWatermark(l.EndOffset())
		f.e.Tick(f.clock.advance(1_000_000))
		f.settle()
		b.StartTimer()
	}
}

func benchRaw(b *testing.B, perCall int) {
	dir := benchDir(b)
	bufs := make([][]byte, perCall)
	for i := range bufs {
		bufs[i] = benchBatch()
	}
	b.SetBytes(int64(len(bufs[0])))
	b.ResetTimer()
	var file vfs.File
	pos := int64(benchSegmentBytes)
	for done := 0; done < b.N; done += perCall {
		if pos+int64(perCall*len(bufs[0])) > benchSegmentBytes {
			b.StopTimer()
			file = rawFile(b, dir, file)
			pos = 0
			b.StartTimer()
		}
		n, err := file.WritevAt(bufs, pos)
		if err != nil {
			b.Fatal(err)
		}
		pos += n
	}
}

// rawFile replaces old by a new file with benchSegmentBytes allocated.
func rawFile(b *testing.B, dir string, old vfs.File) vfs.File {
	name := filepath.Join(dir, "raw")
	if old != nil {
		old.Close()
		if err := os.Remove(name); err != nil {
			b.Fatal(err)
		}
	}
	file, err := vfs.OS.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = file.Allocate(0, benchSegmentBytes)
	}
	if err != nil {
		b.Fatal(err)
	}
	return file
}

// BenchmarkDurableAppend: 64 appenders, each waits until its batch is on stable storage before it sends the next.
func BenchmarkDurableAppend(b *testing.B) {
	b.Run("engine", benchDurable)
	b.Run("pwrite+fdatasync", benchRawDurable)
}

const benchAppenders = 64

func benchDurable(b *testing.B) {
	f, l := benchLog(b, nil)
	watchers := newOffsetWaiters(l)
	var left atomic.Int64
	left.Store(int64(b.N))
	b.SetBytes(benchBatchBytes)
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range benchAppenders {
		wg.Go(func() {
			a := &durableAppend{ready: make(chan struct{}, 1), waiters: watchers}
			a.Batch, a.Done = benchBatch(), a
			for left.Add(-1) >= 0 {
				record.Batch(a.Batch).SetBaseOffset(0)
				l.Enqueue(&a.Append)
				<-a.ready
				if a.Err != nil {
					b.Error(a.Err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	_ = f
}

// durableAppend is one appender's batch: done when it is flushed.
type durableAppend struct {
	Append
	ready   chan struct{}
	waiters *offsetWaiters
}

func (a *durableAppend) AppendDone(*Append) {
	if a.Err != nil {
		a.ready <- struct{}{}
		return
	}
	a.waiters.add(a)
}

// offsetWaiters wakes appends when their offset is flushed, as replication does.
type offsetWaiters struct {
	mu    sync.Mutex
	queue []*durableAppend // in offset order
}

func newOffsetWaiters(l *Log) *offsetWaiters {
	w := &offsetWaiters{}
	l.SetObserver(w)
	return w
}

func (w *offsetWaiters) add(a *durableAppend) {
	w.mu.Lock()
	w.queue = append(w.queue, a)
	w.mu.Unlock()
}

func (w *offsetWaiters) Appended(int64) {}
func (w *offsetWaiters) Failed(error)   {}
func (w *offsetWaiters) Flushed(flushed int64) {
	w.mu.Lock()
	n := 0
	for n < len(w.queue) && w.queue[n].LastOffset < flushed {
		w.queue[n].ready <- struct{}{}
		n++
	}
	w.queue = append(w.queue[:0], w.queue[n:]...)
	w.mu.Unlock()
}

// benchRawDurable is the same with nothing but the system calls: each appender writes its buffer at a position of its own, one goroutine syncs for all.
func benchRawDurable(b *testing.B) {
	file := rawFile(b, benchDir(b), nil)
	buf := benchBatch()
	var next, left atomic.Int64
	left.Store(int64(b.N))
	queue := struct {
		sync.Mutex
		waiting []chan struct{}
		cond    *sync.Cond
		done    bool
	}{}
	queue.cond = sync.NewCond(&queue)
	b.SetBytes(benchBatchBytes)
	b.ResetTimer()
	var wg, syncer sync.WaitGroup
	syncer.Go(func() {
		var round []chan struct{}
		for {
			queue.Lock()
			for len(queue.waiting) == 0 && !queue.done {
				queue.cond.Wait()
			}
			if len(queue.waiting) == 0 {
				queue.Unlock()
				return
			}
			round, queue.waiting = queue.waiting, round[:0]
			queue.Unlock()
			if err := file.Sync(); err != nil {
				b.Error(err)
			}
			for _, c := range round {
				c <- struct{}{}
			}
		}
	})
	for range benchAppenders {
		wg.Go(func() {
			ready := make(chan struct{}, 1)
			for left.Add(-1) >= 0 {
				pos := (next.Add(1) - 1) * int64(len(buf)) % (benchSegmentBytes - benchBatchBytes)
				if _, err := file.WriteAt(buf, pos); err != nil {
					b.Error(err)
				}
				queue.Lock()
				queue.waiting = append(queue.waiting, ready)
				queue.cond.Signal()
				queue.Unlock()
				<-ready
			}
		})
	}
	wg.Wait()
	queue.Lock()
	queue.done = true
	queue.cond.Signal()
	queue.Unlock()
	syncer.Wait()
}
