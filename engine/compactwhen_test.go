package engine

import (
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// Only sealed segments below the high watermark are touched; the rest waits.
func TestCompactBelowHighWatermark(t *testing.T) {
	f := newFixture(t, vfs.NewMem(3))
	f.open()
	l := f.logWith("t", compactConfig(t, nil))
	p := watchOnly(l, nil)
	m := newCompactModel()
	f.fillKeys(l, m, 40, 10)
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(1))
	if n := f.e.CleanerStats().Rounds; n != 0 {
		t.Fatalf("%d rounds with a high watermark of 0", n)
	}
	segs := l.segs.Load()
	hw := segs.list[3].Base() + 1
	l.SetHighWatermark(hw)
	f.e.Clean(f.clock.advance(1))
	if l.CompactedOffset() != segs.list[3].Base() {
		t.Errorf("compacted up to %d with a high watermark of %d", l.CompactedOffset(), hw)
	}
	f.mustMatch(m, l)
}

// min.compaction.lag.ms keeps young segments, min.cleanable.dirty.ratio waits for enough, max.compaction.lag.ms overrules it and rolls.
func TestCompactWhen(t *testing.T) {
	f := newFixture(t, vfs.NewMem(4))
	f.open()
	cfg := compactConfig(t, func(c *config.Topic) { c.MinCompactionLagMs = 10_000 })
	l := f.logWith("t", cfg)
	p := watch(l)
	m := newCompactModel()
	f.fillKeys(l, m, 20, 10)
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(9_999))
	if n := f.e.CleanerStats().Rounds; n != 0 {
		t.Fatal("compacted before min.compaction.lag.ms was over")
	}
	f.e.Clean(f.clock.advance(1))
	if n := f.e.CleanerStats().Rounds; n != 1 {
		t.Fatalf("%d rounds after min.compaction.lag.ms", n)
	}
	f.mustMatch(m, l)
	// Clean is some 2 segments; a ratio of 0.99 is far.
	cfg = compactConfig(t, func(c *config.Topic) { c.MinCleanableDirtyRatio = 0.99 })
	l.SetConfig(cfg)
	f.fillKeys(l, m, 20, 10)
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(1))
	if n := f.e.CleanerStats().Rounds; n != 1 {
		t.Fatal("compacted though the ratio is not reached")
	}
	overdue := *cfg
	overdue.MaxCompactionLagMs = 50_000
	l.SetConfig(&overdue)
	f.e.Clean(f.clock.advance(39_900)) // since the oldest was appended: 49,901
	if n := f.e.CleanerStats().Rounds; n != 1 {
		t.Fatal("compacted before max.compaction.lag.ms was over")
	}
	active := l.segs.Load().active().Base()
	f.e.Clean(f.clock.advance(11_000))
	f.settle() // the segment that was rolled is sealed
	f.e.Clean(f.clock.advance(1))
	if l.segs.Load().active().Base() == active || l.CompactedOffset() != l.EndOffset() {
		t.Fatalf("compacted up to %d of %d, %+v\n%s", l.CompactedOffset(), l.EndOffset(), f.e.CleanerStats(), f.logs)
	}
	f.mustMatch(m, l)
}

// C4: a tombstone goes though nobody appends any more, also when the broker was restarted meanwhile; not before its time (C3, B-G2).
func TestTombstonesOfQuietLog(t *testing.T) {
	for _, restart := range []bool{false, true} {
		f := newFixture(t, vfs.NewMem(5))
		f.open()
		cfg := compactConfig(t, nil)
		l := f.logWith("t", cfg)
		p := watch(l)
		m := newCompactModel()
		f.appendKeyed(l, m, record.Options{}, "gone=1", "stays=1")
		f.appendKeyed(l, m, record.Options{}, "gone=")
		f.fillKeys(l, m, 10, 5)
		f.awaitFlushed(p, l)
		f.e.Clean(f.clock.advance(1))
		has := func() bool {
			for _, b := range f.readAll(l, 0, l.EndOffset()) {
				if b.BaseOffset() == 2 {
					return b.Count() > 0
				}
			}
			return false
		}
		if !has() {
			t.Fatal("the tombstone went at once")
		}
		if restart {
			f.restart()
			l = f.logWith("t", cfg)
			watch(l)
			f.e.Clean(f.clock.Now()) // sees the log for the first time
		}
		f.e.Clean(f.clock.advance(cfg.DeleteRetentionMs - 1))
		if !has() {
			t.Fatal("the tombstone went before delete.retention.ms was over")
		}
		f.e.Clean(f.clock.advance(1))
		if has() {
			t.Fatalf("restart %v: the tombstone is still there\n%s", restart, f.logs)
		}
		f.mustMatch(m, l)
		rounds := f.e.CleanerStats().Rounds
		f.e.Clean(f.clock.advance(10 * cfg.DeleteRetentionMs))
		if f.e.CleanerStats().Rounds != rounds {
			t.Error("compacted again for nothing")
		}
	}
}

// B-G5: a log start inside or above what is to be compacted.
func TestCompactAboveLogStart(t *testing.T) {
	f, l, p, m := openCompacted(t, vfs.NewMem(7), func(c *config.Topic) { c.Delete, c.RetentionMs = true, -1 })
	f.fillKeys(l, m, 30, 20)
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(1))
	for _, start := range []int64{l.segs.Load().list[1].Base() + 3, l.segs.Load().active().Base() + 2, l.EndOffset()} {
		if _, err := l.DeleteRecords(start); err != nil {
			t.Fatal(err)
		}
		f.fillKeys(l, m, 10, 20)
		f.awaitFlushed(p, l)
		f.e.Clean(f.clock.advance(1))
		if s := f.e.CleanerStats(); s.Failures != 0 {
			t.Fatalf("%+v\n%s", s, f.logs)
		}
		if err := m.check(l, l.EndOffset()); err != nil {
			t.Fatalf("start %d: %v", start, err)
		}
	}
	f.e.retain(f.clock.Now())
	f.restart()
}

// compact,delete: both happen, and a segment's age for retention outlives its compaction.
func TestCompactAndDelete(t *testing.T) {
	f, l, p, m := openCompacted(t, vfs.NewMem(8), func(c *config.Topic) { c.Delete, c.RetentionMs = true, 1_000_000 })
	f.fillKeys(l, m, 30, 20)
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(500_000))
	f.mustMatch(m, l)
	f.fillKeys(l, m, 30, 20)
	f.awaitFlushed(p, l)
	end := l.segs.Load().list[0].NextOffset()
	f.e.Tick(f.clock.advance(500_001))
	if l.StartOffset() < end {
		t.Errorf("log start %d, want %d: a compacted segment seems younger than it is", l.StartOffset(), end)
	}
	if err := m.check(l, l.EndOffset()); err != nil {
		t.Fatal(err)
	}
}

// Nothing is compacted that its topic does not want compacted, and nothing at all while the disk is so full that only what makes room may write.
func TestNotCompacted(t *testing.T) {
	f := newFixture(t, vfs.NewMem(16))
	f.open()
	l := f.logWith("t", compactConfig(t, func(c *config.Topic) { c.Delete, c.Compact = true, false }))
	p := watch(l)
	f.fillKeys(l, newCompactModel(), 30, 12)
	f.awaitFlushed(p, l)
	f.e.Clean(f.clock.advance(1))
	if n := f.e.CleanerStats().Rounds; n != 0 {
		t.Error("compacted with cleanup.policy=delete")
	}
	l.SetConfig(compactConfig(t, nil))
	l.dir.reserve.state.Store(int32(spaceTapped))
	f.e.Clean(f.clock.advance(1))
	if n := f.e.CleanerStats().Rounds; n != 0 {
		t.Error("compacted on a full disk")
	}
	l.dir.reserve.state.Store(int32(spaceRoom))
	f.e.Clean(f.clock.advance(1))
	if n := f.e.CleanerStats().Rounds; n != 1 {
		t.Error("not compacted")
	}
}
