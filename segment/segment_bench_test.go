package segment

import (
	"os"
	"testing"
	"time"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// BenchmarkAppend16K appends batches of 16 KiB, 256 MiB per segment, and compares with pwritev alone into a file allocated at once: pwritev-ratio is their time divided by ours, 1 when the segment costs nothing.
func BenchmarkAppend16K(b *testing.B) {
	for _, group := range []int{1, 8} {
		b.Run(map[int]string{1: "each", 8: "of-8"}[group], func(b *testing.B) { benchmarkAppend(b, group) })
	}
}

func benchmarkAppend(b *testing.B, group int) {
	batch := makeBatch(0, 16<<10-record.HeaderSize-12, 1)
	bufs, entries := make([][]byte, group), make([]Entry, group)
	for i := range bufs {
		bufs[i] = append([]byte(nil), batch...)
	}
	const perFile = (256 << 20) / (16 << 10)
	b.SetBytes(int64(len(batch) * group))
	b.ReportAllocs()
	var ours, raw time.Duration
	dir := b.TempDir()
	o := &Options{FS: vfs.OS, MaxBytes: 1 << 30, IndexIntervalBytes: 4096, IndexMaxBytes: 10 << 20}
	for done := 0; done < b.N; {
		n := min(b.N-done, perFile/group)
		b.StopTimer()
		raw += rawAppend(b, dir, bufs, n)
		s := value[*Segment](b)(Create(dir, 0, o))
		b.StartTimer()
		start := time.Now()
		for i := range n {
			appendOnce(b, s, bufs, entries, int64(i))
		}
		ours += time.Since(start)
		b.StopTimer()
		must(b, s.Delete())
		s.Release()
		done += n
	}
	b.ReportMetric(float64(raw)/float64(ours), "pwritev-ratio")
}

func appendOnce(b *testing.B, s *Segment, bufs [][]byte, entries []Entry, nowMs int64) {
	next := s.NextOffset()
	for i := range bufs {
		batch := record.Batch(bufs[i])
		batch.SetBaseOffset(next)
		entries[i] = EntryOf(batch)
		next = batch.NextOffset()
	}
	if _, err := s.Append(bufs, entries, nowMs); err != nil {
		b.Fatal(err)
	}
}

func rawAppend(b *testing.B, dir string, bufs [][]byte, n int) time.Duration {
	f := value[vfs.File](b)(vfs.OS.OpenFile(dir+"/raw", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644))
	defer f.Close()
	total := int64(len(bufs) * len(bufs[0]))
	must(b, f.Allocate(0, total*int64(n)))
	start := time.Now()
	for i := range n {
		if _, err := f.WritevAt(bufs, int64(i)*total); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

// BenchmarkPositionOf finds batches of 1 KiB in a segment of 64 MiB: at the tail (nothing is read), anywhere while active, and anywhere sealed.
func BenchmarkPositionOf(b *testing.B) {
	dir := b.TempDir()
	o := &Options{FS: vfs.OS, MaxBytes: 1 << 30, IndexIntervalBytes: 4096, IndexMaxBytes: 10 << 20}
	s := value[*Segment](b)(Create(dir, 0, o))
	bufs, entries := make([][]byte, 64), make([]Entry, 64)
	for i := range bufs {
		bufs[i] = makeBatch(0, 1<<10-record.HeaderSize, 1)
	}
	for i := range 1024 {
		appendOnce(b, s, bufs, entries, int64(i))
	}
	end := s.NextOffset()
	run := func(name string, offset func(i int64) int64) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := int64(0)
			for b.Loop() {
				i++
				if _, _, _, err := s.PositionOf(offset(i), s.Size()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	anywhere := func(i int64) int64 { return i * 7919 % end }
	run("tail", func(i int64) int64 { return end - 1 - i%60 })
	run("active", anywhere)
	must(b, s.Seal(1))
	s = reopen(b, s, true)
	must(b, s.Load())
	run("sealed", anywhere)
}

// BenchmarkCheck reads back and proves 64 MiB of batches of 16 KiB from the page cache: what the first reader after a start pays, once.
func BenchmarkCheck(b *testing.B) {
	batch := makeBatch(0, 16<<10-record.HeaderSize-12, 1)
	bufs, entries := [][]byte{append([]byte(nil), batch...)}, make([]Entry, 1)
	o := &Options{FS: vfs.OS, MaxBytes: 1 << 30, IndexIntervalBytes: 4096, IndexMaxBytes: 10 << 20}
	s := value[*Segment](b)(Create(b.TempDir(), 0, o))
	defer s.Release()
	for i := range (64 << 20) / len(batch) {
		appendOnce(b, s, bufs, entries, int64(i))
	}
	b.SetBytes(s.Size())
	b.ReportAllocs()
	for b.Loop() {
		if good, err := s.Check(0, s.Size()); err != nil || good != s.Size() {
			b.Fatal(good, err)
		}
	}
}
