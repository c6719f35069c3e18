package engine

import (
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// flushedWaiter hands on what is durable.
type flushedWaiter struct{ flushed chan int64 }

func (w flushedWaiter) Appended(int64) {}
func (w flushedWaiter) Failed(error)   {}

// Flushed keeps the newest only: nobody may be waiting.
func (w flushedWaiter) Flushed(end int64) {
	select {
	case <-w.flushed:
	default:
	}
	w.flushed <- end
}

// An append in the steady state, from Enqueue to AppendDone, allocates nothing; neither do its flush round and reading at the tail.
func TestAppendAndReadAllocateNothing(t *testing.T) {
	t.Run("durable", func(t *testing.T) { appendAndReadAllocateNothing(t, false) })
	t.Run("write.caching", func(t *testing.T) { appendAndReadAllocateNothing(t, true) })
}

func appendAndReadAllocateNothing(t *testing.T, caching bool) {
	if invariant.Enabled {
		t.Skip("invariant checks allocate")
	}
	f := newFixture(t, vfs.OS)
	f.dirs = []string{t.TempDir()}
	f.open()
	cfg := *topicConfig(t, nil)
	cfg.WriteCaching, cfg.FlushMessages = caching, config.NoLimit
	l := f.logWith("t", &cfg)
	flushed := make(chan int64, 1)
	if !caching {
		l.SetObserver(flushedWaiter{flushed})
	}
	w := waiter{make(chan struct{}, 1)}
	a := &Append{Batch: buildBatch(record.Options{Idempotent: true, ProducerID: 1}, testStartMs, 4, 1000), Done: w}
	sequence := int32(0)
	turn := func() {
		b := record.Batch(a.Batch)
		b.SetBaseOffset(0)
		b[53], b[54], b[55], b[56] = byte(sequence>>24), byte(sequence>>16), byte(sequence>>8), byte(sequence)
		b.UpdateCRC()
		sequence += 4
		l.Enqueue(a)
		<-w.done
		if a.Err != nil {
			t.Fatal(a.Err)
		}
		for end := l.FlushedOffset(); !caching && end <= a.LastOffset; {
			end = <-flushed
		}
		r, err := l.Read(a.BaseOffset, 1<<20, l.EndOffset(), true)
		if err != nil || r.N != len(b) {
			t.Fatal(r.N, err)
		}
		r.Release()
	}
	for range 100 {
		turn()
	}
	if n := testing.AllocsPerRun(200, turn); n > 0 {
		t.Errorf("%v allocations per append", n)
	}
}
