package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// R17: a reader that holds a range of a segment reads it to the end though the segment is replaced, twice.
func TestReaderKeepsReplacedSegment(t *testing.T) {
	f, l, p, m := openCompacted(t, vfs.NewMem(9), nil)
	f.fillKeys(l, m, 30, 20)
	f.awaitFlushed(p, l)
	r, err := l.Read(0, 1500, l.EndOffset(), true)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, r.N)
	if _, err := r.ReadAt(want, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		f.e.Clean(f.clock.advance(1))
		f.fillKeys(l, m, 30, 20)
		f.awaitFlushed(p, l)
	}
	got := make([]byte, r.N)
	if _, err := r.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("the range has changed: %v", err)
	}
	r.Release()
	f.settle()
	f.mustMatch(m, l)
	entries, err := f.fs.ReadDir(l.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, deletedSuffix) {
			t.Errorf("%s is left", e.Name)
		}
	}
}

// The answers to timestamps and to "the largest timestamp" come from records that are there.
func TestTimestampsOfCompactedLog(t *testing.T) {
	f, l, p, m := openCompacted(t, vfs.NewMem(10), nil)
	f.clock.advance(1000)
	f.appendKeyed(l, m, record.Options{Idempotent: true, ProducerID: 5}, "a=newest") // an empty batch later
	f.clock.advance(-500)
	for i := range 12 {
		f.appendKeyed(l, m, record.Options{}, fmt.Sprintf("k%d=%s", i, strings.Repeat("x", 300)), fmt.Sprintf("a=%s", strings.Repeat("x", 300)))
		f.clock.advance(10)
	}
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(1))
	f.mustMatch(m, l)
	type at struct{ offset, ts int64 }
	var left []at
	for _, b := range f.readAll(l, 0, l.EndOffset()) {
		_ = b.Records(func(r *record.Record) error {
			left = append(left, at{b.BaseOffset() + int64(r.OffsetDelta), b.BaseTimestamp() + r.TimestampDelta})
			return nil
		})
	}
	for ts := int64(testStartMs + 450); ts < testStartMs+1100; ts += 5 {
		want := at{-1, -1}
		if i := slices.IndexFunc(left, func(r at) bool { return r.ts >= ts }); i >= 0 {
			want = left[i]
		}
		offset, found, _, ok, err := l.OffsetForTimestamp(ts, l.EndOffset())
		if err != nil || ok != (want.offset >= 0) || ok && (at{offset, found}) != want {
			t.Errorf("timestamp %d: offset %d, %d, %v, %v, want %v", ts-testStartMs, offset, found, ok, err, want)
		}
	}
	newest := slices.MaxFunc(left, func(a, b at) int { return int(a.ts - b.ts) })
	offset, ts, _, ok, err := l.MaxTimestampOffset(l.EndOffset())
	if err != nil || !ok || ts != newest.ts || offset != newest.offset && left[slices.IndexFunc(left, func(r at) bool { return r.offset == offset })].ts != ts {
		t.Errorf("largest timestamp %d at %d, %v, %v, want %v", ts, offset, ok, err, newest)
	}
}

// readThrough reads from offset to the high watermark as it is then, piece by piece.
func readThrough(l *Log, offset int64) error {
	for to := l.HighWatermark(); offset < to; {
		hw := l.HighWatermark()
		r, err := l.Read(offset, 700, hw, true)
		if err != nil {
			return err
		}
		if r.N == 0 { // everything up to there was compacted away, which can only be if it was not the high watermark any more
			if l.HighWatermark() == hw {
				return fmt.Errorf("nothing at offset %d though the high watermark is %d", offset, hw)
			}
			continue
		}
		buf := make([]byte, r.N)
		_, err = r.ReadAt(buf, 0)
		r.Release()
		if err != nil {
			return err
		}
		for first := true; len(buf) > 0; first = false {
			b, rest, err := record.Frame(buf)
			if errors.Is(err, record.ErrShort) && !first {
				break
			}
			if err == nil {
				err = b.Check()
			}
			if err != nil || b.LastOffset() < offset {
				return fmt.Errorf("at offset %d: %w", offset, err)
			}
			offset, buf = b.NextOffset(), rest
		}
	}
	return nil
}

// C11, R17: readers who go through the log from any offset while it is appended to and compacted meet whole batches only, in order, and never stop.
func TestReadersDuringCompaction(t *testing.T) {
	f, l, p, m := openCompacted(t, vfs.NewMem(17), nil)
	f.fillKeys(l, m, 20, 12)
	f.awaitFlushed(p, l)
	done := make(chan struct{})
	var readers sync.WaitGroup
	var passes atomic.Int64
	for i := range 2 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := readThrough(l, rng.Int64N(l.HighWatermark())); err != nil {
					t.Error(err)
					return
				}
				if _, _, _, _, err := l.OffsetForTimestamp(testStartMs, l.HighWatermark()); err != nil {
					t.Error(err)
					return
				}
				passes.Add(1)
			}
		})
	}
	for range 10 {
		f.fillKeys(l, m, 10, 12)
		f.awaitFlushed(p, l)
		f.e.Clean(f.clock.advance(1))
		f.e.restIdle(true)
	}
	close(done)
	readers.Wait()
	if s := f.e.CleanerStats(); s.Failures > 0 || passes.Load() == 0 {
		t.Errorf("%+v, %d passes", s, passes.Load())
	}
	f.mustMatch(m, l)
}
