package engine

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// C7, B-G4, R11: a compacted log has each key once, its segments are merged, and everything that looks into it lives with the gaps: reads from every offset,
// timestamps, verification, another round, a restart.
func TestCompact(t *testing.T) {
	f, l, p, m := openCompacted(t, vfs.NewMem(1), nil)
	f.fillKeys(l, m, 60, 25)
	f.awaitFlushed(p, l)
	before, segments := l.Size(), len(l.segs.Load().list)
	f.e.Clean(f.clock.advance(1))
	f.mustMatch(m, l)
	stats := f.e.CleanerStats()
	if stats.Rounds != 1 || stats.Failures != 0 || l.Size()*2 > before || len(l.segs.Load().list)*2 > segments {
		t.Fatalf("%+v, %d bytes of %d, %d segments of %d\n%s", stats, l.Size(), before, len(l.segs.Load().list), segments, f.logs)
	}
	if end := l.segs.Load().active().Base(); l.CompactedOffset() != end {
		t.Errorf("compacted up to %d, the active segment begins at %d", l.CompactedOffset(), end)
	}
	all := f.readAll(l, l.StartOffset(), l.EndOffset())
	for offset := l.StartOffset(); offset < l.EndOffset(); offset++ {
		for all[0].LastOffset() < offset {
			all = all[1:]
		}
		if b := f.readAll(l, offset, l.EndOffset())[0]; !bytes.Equal(b, all[0]) {
			t.Fatalf("reading from %d gives the batch %d..%d, want %d..%d", offset, b.BaseOffset(), b.LastOffset(), all[0].BaseOffset(), all[0].LastOffset())
		}
	}
	f.e.Clean(f.clock.advance(1))
	if n := f.e.CleanerStats().Rounds; n != 1 {
		t.Errorf("%d rounds: there was nothing to do", n)
	}
	for range 2 {
		f.restart()
		l = f.logWith("t", compactConfig(t, nil))
		p = watch(l)
		if l.Err() != nil || l.CompactedOffset() == 0 {
			t.Fatalf("%v, compacted up to %d", l.Err(), l.CompactedOffset())
		}
		f.mustMatch(m, l)
	}
	f.fillKeys(l, m, 20, 30)
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(1))
	f.mustMatch(m, l)
	if n := f.e.CleanerStats(); n.Rounds != 1 || n.Failures != 0 {
		t.Errorf("%+v\n%s", n, f.logs)
	}
}

// C9: a log that was compacted can be read and recovered whatever its policy is later, also after a crash that leaves nothing of its side files.
func TestCompactedThenOtherPolicy(t *testing.T) {
	for _, mode := range vfs.CrashModes {
		mem := vfs.NewMem(2)
		f, l, p, m := openCompacted(t, mem, nil)
		f.fillKeys(l, m, 40, 25)
		f.awaitFlushed(p, l)
		f.e.Clean(f.clock.advance(1))
		f.fillKeys(l, m, 3, 25)
		f.awaitFlushed(p, l)
		crashed := mem.Crash(mode)
		f.kill()
		for _, name := range []string{recoveryPointFileName, cleanerOffsetFileName, logStateFileName, logStateRecentFileName, logStartFileName} {
			_ = crashed.Remove(filepath.Join("/data", name))
		}
		f = newFixture(t, crashed)
		f.open()
		l = f.logWith("t", compactConfig(t, func(c *config.Topic) { c.Delete, c.Compact, c.RetentionMs = true, false, -1 }))
		if l.Err() != nil || l.EndOffset() != m.end {
			t.Fatalf("%v, end %d, want %d\n%s", l.Err(), l.EndOffset(), m.end, f.logs)
		}
		p = watch(l)
		f.fillKeys(l, m, 20, 25)
		f.awaitFlushed(p, l)
		if err := m.check(l, l.EndOffset()); err != nil && !strings.Contains(err.Error(), "compacted up to") {
			t.Fatal(err)
		}
		// Compact again, from the start, because nothing says how far it was.
		l.SetConfig(compactConfig(t, nil))
		f.e.Clean(f.clock.advance(1))
		f.mustMatch(m, l)
		f.close()
	}
}

// A log with more keys than the map has room for is compacted in several rounds.
func TestCompactSmallMap(t *testing.T) {
	f := newFixture(t, vfs.NewMem(6))
	f.tweak = func(o *Options) { o.Defaults.CleanerDedupeBufferBytes = 24 * 40 } // 32 keys
	f.open()
	l := f.logWith("t", compactConfig(t, nil))
	p := watch(l)
	m := newCompactModel()
	f.fillKeys(l, m, 40, 200)
	f.awaitFlushed(p, l)
	to := l.segs.Load().active().Base()
	for round := 0; l.CompactedOffset() < to; round++ {
		before := l.CompactedOffset()
		f.e.Clean(f.clock.advance(1))
		if l.CompactedOffset() <= before || round > 100 {
			t.Fatalf("no progress at %d\n%s", before, f.logs)
		}
		f.mustMatch(m, l)
	}
}

// What producers wrote is known after compaction and a crash: a batch that is sent again is recognised, and the next one is accepted (transactions too).
func TestCompactKeepsProducers(t *testing.T) {
	mem := vfs.NewMem(11)
	f := newFixture(t, mem)
	f.open()
	cfg := compactConfig(t, nil)
	l := f.logWith("t", cfg)
	p := watch(l)
	m := newCompactModel()
	for pid := int64(1); pid <= 4; pid++ {
		f.appendKeyed(l, m, record.Options{Idempotent: true, ProducerID: pid, Epoch: 2}, "a=1", "b=1")
		f.appendKeyed(l, m, record.Options{Idempotent: true, ProducerID: pid, Epoch: 2, BaseSequence: 2}, "a=2")
	}
	f.fillKeys(l, m, 3, 5)
	f.appendKeyed(l, m, record.Options{}, "a=3", "b=3")
	f.fillKeys(l, m, 20, 5)
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(1))
	f.mustMatch(m, l)
	empties := 0
	for _, b := range f.readAll(l, 0, l.EndOffset()) {
		if b.ProducerID() > 0 && b.Count() == 0 {
			empties++
		}
	}
	if empties != 4 {
		t.Errorf("%d empty batches of 4 producers", empties)
	}
	for _, dropState := range []bool{false, true} {
		crashed := mem.Crash(vfs.LoseUnsynced)
		if dropState { // nothing but the batches tells about producers
			for _, dir := range []string{"/data", l.path} {
				entries, err := crashed.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if strings.HasSuffix(e.Name, snapshotSuffix) || strings.HasPrefix(e.Name, logStateFileName) {
						sideMust(t, crashed.Remove(filepath.Join(dir, e.Name)))
					}
				}
			}
		}
		g := newFixture(t, crashed)
		g.open()
		l := g.logWith("t", cfg)
		watch(l)
		for pid := int64(1); pid <= 4; pid++ {
			batch := func(seq int32) []byte {
				return buildBatch(record.Options{Idempotent: true, ProducerID: pid, Epoch: 2, BaseSequence: seq}, testStartMs, 1, 20)
			}
			if a := appendBatch(l, batch(2)); a.Err != nil || !a.Duplicate {
				t.Errorf("sent again: %v, duplicate %v", a.Err, a.Duplicate)
			}
			older := buildBatch(record.Options{Idempotent: true, ProducerID: pid, Epoch: 2}, testStartMs, 2, 20)
			if a := appendBatch(l, older); !dropState && (a.Err != nil || !a.Duplicate) { // gone from the log, known by the mark
				t.Errorf("an older batch sent again: %v, duplicate %v", a.Err, a.Duplicate)
			}
			if a := appendBatch(l, batch(9)); a.Err == nil {
				t.Error("a gap in the sequence was accepted")
			}
			if a := appendBatch(l, batch(3)); a.Err != nil {
				t.Errorf("the next batch: %v", a.Err)
			}
		}
		g.close()
	}
}

// What is replaced by more than fits into one segment becomes several, which follow each other (R13, B-G1: the cleaner never goes back).
func TestCompactIntoSeveralSegments(t *testing.T) {
	f, l, p, m := openCompacted(t, vfs.NewMem(12), nil)
	for i := range 60 { // tombstones: the horizon makes timestamps longer
		f.appendKeyed(l, m, record.Options{}, fmt.Sprintf("t%d=", i), fmt.Sprintf("u%d=", i), fmt.Sprintf("v%d=", i))
	}
	f.awaitFlushed(p, l)
	before := len(l.segs.Load().list)
	f.e.Clean(f.clock.advance(1))
	f.mustMatch(m, l)
	if s := f.e.CleanerStats(); s.Failures != 0 || s.BytesLeft <= s.BytesRead || len(l.segs.Load().list) <= before {
		t.Errorf("%+v, %d segments of %d\n%s", s, len(l.segs.Load().list), before, f.logs)
	}
	f.restart()
	f.mustMatch(m, f.logWith("t", compactConfig(t, nil)))
}

// R13: sealed segments whose offsets are too far apart are not merged.
func TestCompactFarOffsets(t *testing.T) {
	f := newFixture(t, vfs.NewMem(13))
	f.open()
	l := f.logWith("t", compactConfig(t, func(c *config.Topic) { c.SegmentBytes = 20_000 }))
	p := watch(l)
	for _, offset := range []int64{0, 5, math.MaxInt32, 1 << 33, 1<<33 + 10, 1 << 40} {
		for i := range int64(2) {
			if a := appendAs(l, keyedBatch(record.Options{}, keyed{offset + i, "a", "1"}), FromLeader, 0); a.Err != nil {
				t.Fatal(a.Err)
			}
		}
	}
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(1))
	if s := f.e.CleanerStats(); s.Failures != 0 || s.Rounds != 1 {
		t.Fatalf("%+v\n%s", s, f.logs)
	}
	batches := f.readAll(l, 0, l.EndOffset())
	last := batches[len(batches)-1]
	if last.BaseOffset() != 1<<40+1 || last.Count() != 1 {
		t.Errorf("the last batch is at %d", last.BaseOffset())
	}
	f.restart()
	if l := f.log2("t"); l.Err() != nil || l.EndOffset() != 1<<40+2 {
		t.Fatalf("%v, end %d", l.Err(), l.EndOffset())
	}
}

// C8: a truncation cuts behind what is compacted, and the log goes on from there, also after a restart.
func TestTruncateCompacted(t *testing.T) {
	f := newFixture(t, vfs.NewMem(14))
	f.open()
	cfg := compactConfig(t, nil)
	l := f.logWith("t", cfg)
	p := watchOnly(l, nil)
	m := newCompactModel()
	f.fillKeys(l, m, 30, 12)
	f.awaitFlushed(p, l)
	hw := l.segs.Load().active().Base()
	l.SetHighWatermark(hw)
	f.e.Clean(f.clock.advance(1))
	if l.CompactedOffset() != hw {
		t.Fatalf("compacted up to %d\n%s", l.CompactedOffset(), f.logs)
	}
	f.appendKeyed(l, m, record.Options{}, "cut=1")
	if l.Truncate(hw-1) == nil {
		t.Fatal("cut below the high watermark")
	}
	if err := l.Truncate(hw); err != nil {
		t.Fatal(err)
	}
	for offset := range m.records {
		if offset >= hw {
			delete(m.records, offset)
		}
	}
	m.end = hw
	f.mustMatch(m, l)
	f.fillKeys(l, m, 10, 12)
	f.awaitFlushed(p, l)
	l.SetHighWatermark(l.EndOffset())
	f.e.Clean(f.clock.advance(1))
	f.mustMatch(m, l)
	f.restart()
	f.mustMatch(m, f.logWith("t", cfg))
}

// C12: no reference, file or memory is left of rounds that are over.
func TestCompactionLeavesNothing(t *testing.T) {
	f, l, p, m := openCompacted(t, vfs.NewMem(15), nil)
	for range 12 {
		f.fillKeys(l, m, 20, 12)
		f.awaitFlushed(p, l)
		f.e.Clean(f.clock.advance(1))
		f.settle()
	}
	f.mustMatch(m, l)
	for _, h := range l.segs.Load().list {
		if h.Refs() != 1 {
			t.Errorf("segment %d has %d references", h.Base(), h.Refs())
		}
	}
	entries, err := f.fs.ReadDir(l.path)
	if err != nil {
		t.Fatal(err)
	}
	if most := 4*len(l.segs.Load().list) + 20; len(entries) > most {
		t.Errorf("%d files, more than %d", len(entries), most)
	}
	if n := cap(f.e.cleaner.keys.slots); n > keysKeptMax {
		t.Errorf("a map of %d slots is kept", n)
	}
	if s := f.e.CleanerStats(); s.Rounds != 12 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
}
