package engine

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// BenchmarkCompact compacts 1 GiB (compressed: 256 MiB) of records of 1 KiB, a tenth of which have different keys. MB/s is input before compression, heap-MB the
// most memory in use meanwhile above what was in use before. Use -benchtime=1x.
func BenchmarkCompact(b *testing.B) {
	for codec, total := range map[record.Codec]int64{record.None: 1 << 30, record.LZ4: 256 << 20, record.Zstd: 256 << 20} {
		b.Run(codec.String(), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				f := newFixture(b, vfs.OS)
				f.dirs = []string{b.TempDir()}
				f.open()
				l, bytes := f.benchmarkLog(codec, total)
				runtime.GC()
				heap := watchHeap()
				started := time.Now()
				b.StartTimer()
				f.e.Clean(f.clock.advance(1))
				b.StopTimer()
				b.ReportMetric(float64(bytes)/1e6/time.Since(started).Seconds(), "MB/s")
				b.ReportMetric(float64(heap())/1e6, "heap-MB")
				if s := f.e.CleanerStats(); s.Failures != 0 || l.CompactedOffset() != l.EndOffset() {
					b.Fatalf("%+v\n%s", s, f.logs)
				}
				f.close()
				b.StartTimer()
			}
		})
	}
}

// benchmarkLog returns a log of sealed segments and how many bytes were appended to it before compression.
func (f *fixture) benchmarkLog(codec record.Codec, total int64) (l *Log, bytes int64) {
	const recordsPerBatch, valueSize = 15, 1000
	l = f.logWith("t", small(f.t, func(c *config.Topic) {
		c.Delete, c.Compact, c.WriteCaching = false, true, true
		c.SegmentBytes, c.IndexIntervalBytes, c.SegmentIndexBytes = 128<<20, 4096, 10<<20
	}))
	p := watch(l)
	rng := rand.New(rand.NewPCG(1, 2))
	keys := int(total / 1024 / 10)
	value := make([]byte, valueSize)
	w := record.NewBuilder(record.Options{})
	for bytes < total {
		w.Reset(record.Options{Codec: codec})
		for range recordsPerBatch {
			for i := 0; i < len(value); i += 16 { // compresses to about half
				binary.BigEndian.PutUint64(value[i:], rng.Uint64())
			}
			w.Append(testStartMs, fmt.Appendf(nil, "key-%010d", rng.IntN(keys)), value, nil)
		}
		bytes += int64(w.Size())
		f.mustAppend(l, w.Bytes())
	}
	l.flushAll()
	f.awaitFlushed(p, l)
	l.mu.Lock()
	sideMust(f.t, l.rollLocked(l.cfg.Load(), l.EndOffset(), f.clock.Now()))
	l.mu.Unlock()
	f.settle()
	return l, bytes
}

// watchHeap samples the memory in use until it is called again, which returns the most there was above the beginning.
func watchHeap() (stop func() (bytes int64)) {
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse)
	}
	start, most := inUse(), int64(0)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(20 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				most = max(most, inUse()-start)
			case <-quit:
				return
			}
		}
	}()
	return func() int64 {
		close(quit)
		<-done
		return most
	}
}
