//go:build linux

package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

const (
	batch16Records = 16
	appendBytes    = 512 << 20 // of one turn of the append workload; a segment (1 GiB, the default) is not filled by it
)

// newBatch builds a producer's batch of n records whose values have size bytes.
func newBatch(n, size int) []byte {
	w := record.NewBuilder(record.Options{})
	now := time.Now().UnixMilli()
	for i := range n {
		value := make([]byte, size)
		for j := 0; j+8 <= size; j += 8 {
			binary.LittleEndian.PutUint64(value[j:], uint64(i*size+j)*0x9E3779B97F4A7C15)
		}
		w.Append(now+int64(i), nil, value, nil)
	}
	return w.Bytes()
}

// batch16KiB has 16 records of about 1 KiB, and 16 KiB in all.
func batch16KiB() []byte {
	b := newBatch(batch16Records, 1013)
	if len(b) < 16<<10-64 || len(b) > 16<<10+64 {
		panic(fmt.Sprintf("BUG: the batch has %d bytes", len(b)))
	}
	return b
}

// mallocs is the number of heap objects made so far.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// timed measures fn, which works in this process.
func timed(ops, records int, bytes int64, fn func()) sample {
	allocs, cpu, begin := mallocs(), cpuTime(), time.Now()
	fn()
	s := sample{ops: ops, records: records, bytes: bytes, elapsed: time.Since(begin)}
	s.cpu, s.allocs = cpuTime()-cpu, mallocs()-allocs
	return s
}

// openLog opens an engine with one partition in a fresh directory; discard deletes it without writing it back.
func openLog(b *testing.B, caching bool) (l *engine.Log, discard func()) {
	b.Helper()
	dir := scratch(b)
	e, err := engine.Open(engine.Options{Dirs: []string{dir}, NodeID: 1})
	if err != nil {
		b.Fatal(err)
	}
	cfg, err := config.NewSet().Topic(map[string]string{
		"write.caching": fmt.Sprint(caching), "file.delete.delay.ms": "0",
	})
	if err != nil {
		b.Fatal(err)
	}
	tp := engine.TopicPartition{Topic: "bench"}
	if l, err = e.Create(tp, [16]byte{1}, cfg); err != nil {
		b.Fatal(err)
	}
	return l, func() {
		if err := e.Delete(tp); err != nil {
			b.Fatal(err)
		}
		if err := e.Close(context.Background()); err != nil {
			b.Fatal(err)
		}
		os.RemoveAll(dir)
	}
}

// bareFile is a file with n bytes allocated.
func bareFile(b *testing.B, n int64) (f vfs.File, discard func()) {
	b.Helper()
	name := filepath.Join(scratch(b), "bare")
	f, err := vfs.OS.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = f.Allocate(0, n)
	}
	if err != nil {
		b.Fatal(err)
	}
	return f, func() {
		f.Close()
		os.Remove(name)
	}
}

// BenchmarkEngineAppend appends batches of 16 KiB to one partition, nothing synced. The floor is a loop of pwritev with as many batches in each call as
// the workload has queued at once.
func BenchmarkEngineAppend(b *testing.B) {
	for _, queued := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("queued=%d", queued), func(b *testing.B) {
			target := ">= 70%, 0 allocs"
			if queued == 1 {
				target = "" // a turn per batch measures two goroutines waking each other
			}
			compare(b, fmt.Sprintf("engine append 16 KiB, %d queued", queued), target,
				func() sample { return appendTurn(b, queued) }, func() sample { return pwritevTurn(b, queued) })
		})
	}
}

// ring keeps a number of batches queued: each is enqueued again as soon as it is in the log, left times.
type ring struct {
	l       *engine.Log
	left    atomic.Int64
	pending sync.WaitGroup
	failed  atomic.Pointer[error]
}

func (r *ring) AppendDone(a *engine.Append) {
	if a.Err != nil {
		r.failed.Store(&a.Err)
	}
	if a.Err != nil || r.left.Add(-1) < 0 {
		r.pending.Done()
		return
	}
	enqueue(r.l, a)
}

// enqueue queues the batch as a client sends it.
func enqueue(l *engine.Log, a *engine.Append) {
	record.Batch(a.Batch).SetBaseOffset(0)
	l.Enqueue(a)
}

func (r *ring) run(b *testing.B, appends []engine.Append, n int) {
	b.Helper()
	r.left.Store(int64(n - len(appends)))
	r.pending.Add(len(appends))
	for i := range appends {
		enqueue(r.l, &appends[i])
	}
	r.pending.Wait()
	if err := r.failed.Load(); err != nil {
		b.Fatal(*err)
	}
}

func appendTurn(b *testing.B, queued int) sample {
	l, discard := openLog(b, true)
	defer discard()
	r := &ring{l: l}
	appends := make([]engine.Append, queued)
	for i := range appends {
		appends[i] = engine.Append{Batch: batch16KiB(), Done: r}
	}
	r.run(b, appends, 4*queued)
	size := int64(len(appends[0].Batch))
	n, before := int(appendBytes/size), l.EndOffset()
	s := timed(n, n*batch16Records, int64(n)*size, func() { r.run(b, appends, n) })
	if got := l.EndOffset() - before; got != int64(n*batch16Records) {
		b.Fatalf("%d records are in the log, want %d", got, n*batch16Records)
	}
	return s
}

func pwritevTurn(b *testing.B, perCall int) sample {
	f, discard := bareFile(b, appendBytes+64<<20)
	defer discard()
	bufs := make([][]byte, perCall)
	for i := range bufs {
		bufs[i] = batch16KiB()
	}
	size := int64(len(bufs[0]))
	calls := int(appendBytes / size / int64(perCall))
	return timed(calls*perCall, calls*perCall*batch16Records, int64(calls*perCall)*size, func() {
		var pos int64
		for range calls {
			n, err := f.WritevAt(bufs, pos)
			if err != nil {
				b.Fatal(err)
			}
			pos += n
		}
	})
}

const (
	appenders   = 64
	commitCount = 8192 // batches of one turn
)

// BenchmarkGroupCommit has 64 appenders, each of which waits until its batch of 16 KiB is on stable storage before it sends the next. The floor's
// appenders write by themselves, and one goroutine calls fdatasync for all who wait.
func BenchmarkGroupCommit(b *testing.B) {
	compare(b, "group commit 16 KiB, 64 appenders", ">= 75%", func() sample { return commitTurn(b) }, func() sample { return fdatasyncTurn(b) })
}

// durable is one appender's batch on its way to stable storage.
type durable struct {
	engine.Append
	ready chan struct{}
	waits *flushWaits
}

func (a *durable) AppendDone(*engine.Append) {
	if a.Err != nil {
		a.ready <- struct{}{}
		return
	}
	a.waits.mu.Lock()
	a.waits.mu.queue = append(a.waits.mu.queue, a)
	a.waits.mu.Unlock()
}

// flushWaits wakes appenders when what they sent is flushed.
type flushWaits struct {
	mu struct {
		sync.Mutex
		queue []*durable // in offset order
	}
}

func (w *flushWaits) Appended(int64) {}
func (w *flushWaits) Failed(error)   {}
func (w *flushWaits) Flushed(flushed int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for n < len(w.mu.queue) && w.mu.queue[n].LastOffset < flushed {
		w.mu.queue[n].ready <- struct{}{}
		n++
	}
	w.mu.queue = append(w.mu.queue[:0], w.mu.queue[n:]...)
}

func commitTurn(b *testing.B) sample {
	l, discard := openLog(b, false)
	defer discard()
	waits := &flushWaits{}
	l.SetObserver(waits)
	all := make([]durable, appenders)
	for i := range all {
		all[i] = durable{ready: make(chan struct{}, 1), waits: waits}
		all[i].Batch, all[i].Done = batch16KiB(), &all[i]
	}
	s := commitLoop(b, func(i int) error {
		enqueue(l, &all[i].Append)
		<-all[i].ready
		return all[i].Err
	})
	if got := l.FlushedOffset(); got != commitCount*batch16Records {
		b.Fatalf("%d records are flushed, want %d", got, commitCount*batch16Records)
	}
	return s
}

// commitLoop lets the appenders share the turn's batches.
func commitLoop(b *testing.B, commit func(appender int) error) sample {
	size := int64(len(batch16KiB()))
	latencies := make([]int64, commitCount)
	s := timed(commitCount, commitCount*batch16Records, commitCount*size, func() {
		var next atomic.Int64
		var wg sync.WaitGroup
		for i := range appenders {
			wg.Go(func() {
				for n := next.Add(1) - 1; n < commitCount; n = next.Add(1) - 1 {
					begin := time.Now()
					if err := commit(i); err != nil {
						b.Error(err)
						return
					}
					latencies[n] = int64(time.Since(begin))
				}
			})
		}
		wg.Wait()
	})
	s.latencies = latencies
	return s
}

func fdatasyncTurn(b *testing.B) sample {
	f, discard := bareFile(b, commitCount*17<<10)
	defer discard()
	batch := batch16KiB()
	y := newSyncer(f.Sync)
	defer y.stop()
	var pos atomic.Int64
	ready := make([]chan error, appenders)
	for i := range ready {
		ready[i] = make(chan error, 1)
	}
	return commitLoop(b, func(i int) error {
		if _, err := f.WriteAt(batch, pos.Add(int64(len(batch)))-int64(len(batch))); err != nil {
			return err
		}
		y.join(ready[i])
		return <-ready[i]
	})
}

// syncer syncs for all who have joined while the last sync ran.
type syncer struct {
	sync func() error
	mu   struct {
		sync.Mutex
		waiting []chan error
		stopped bool
	}
	wake *sync.Cond
	done chan struct{}
}

func newSyncer(fn func() error) *syncer {
	y := &syncer{sync: fn, done: make(chan struct{})}
	y.wake = sync.NewCond(&y.mu.Mutex)
	go y.loop()
	return y
}

func (y *syncer) join(ready chan error) {
	y.mu.Lock()
	y.mu.waiting = append(y.mu.waiting, ready)
	y.wake.Signal()
	y.mu.Unlock()
}

func (y *syncer) loop() {
	defer close(y.done)
	var round []chan error
	for {
		y.mu.Lock()
		for len(y.mu.waiting) == 0 && !y.mu.stopped {
			y.wake.Wait()
		}
		round, y.mu.waiting = y.mu.waiting, round[:0]
		y.mu.Unlock()
		if len(round) == 0 {
			return
		}
		err := y.sync()
		for _, ready := range round {
			ready <- err
		}
	}
}

func (y *syncer) stop() {
	y.mu.Lock()
	y.mu.stopped = true
	y.wake.Signal()
	y.mu.Unlock()
	<-y.done
}
