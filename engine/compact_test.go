package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

func compactConfig(t testing.TB, change func(*config.Topic)) *config.Topic {
	return small(t, func(c *config.Topic) {
		c.Delete, c.Compact = false, true
		c.SegmentBytes, c.IndexIntervalBytes = 2_000, 300
		c.MinCleanableDirtyRatio, c.DeleteRetentionMs = 0.01, 100_000
		if change != nil {
			change(c)
		}
	})
}

// modelRecord is a record as it was appended.
type modelRecord struct {
	key, value string
	tombstone  bool
	ts         int64
	visible    bool // not of an aborted transaction
}

// compactModel is what was appended to a log, by offset.
type compactModel struct {
	records map[int64]modelRecord
	end     int64
}

func newCompactModel() *compactModel { return &compactModel{records: map[int64]modelRecord{}} }

// add notes the records of b, which got the base offset.
func (m *compactModel) add(base int64, b record.Batch, visible bool) {
	err := b.Records(func(r *record.Record) error {
		m.records[base+int64(r.OffsetDelta)] = modelRecord{string(r.Key), string(r.Value), r.ValueNull(), b.BaseTimestamp() + r.TimestampDelta, visible}
		return nil
	})
	if err != nil {
		panic(err)
	}
	m.end = base + int64(b.LastOffsetDelta()) + 1
}

// latest returns the latest offset of each key below upTo.
func (m *compactModel) latest(upTo int64) map[string]int64 {
	all := map[string]int64{}
	for offset, r := range m.records {
		if last, ok := all[r.key]; r.visible && offset < upTo && (!ok || offset > last) {
			all[r.key] = offset
		}
	}
	return all
}

// checkAgainst compares the log with the model: what is in it was appended there, in order; every key has its latest value; what is compacted has each key
// once at most.
func (m *compactModel) check(l *Log, upTo int64) error {
	batches, err := readBatches(l, l.StartOffset(), upTo)
	if err != nil {
		return err
	}
	found := map[int64]bool{}
	compactedKeys := map[string]int64{}
	next := int64(0)
	for _, b := range batches {
		if b.BaseOffset() < next {
			return fmt.Errorf("offset %d after %d", b.BaseOffset(), next-1)
		}
		next = b.NextOffset()
		if b.IsControl() {
			continue
		}
		lastDelta := int32(-1)
		err := b.Records(func(r *record.Record) error {
			offset := b.BaseOffset() + int64(r.OffsetDelta)
			if r.OffsetDelta <= lastDelta {
				return fmt.Errorf("offset %d: deltas do not grow", offset)
			}
			lastDelta = r.OffsetDelta
			was, ok := m.records[offset]
			is := modelRecord{string(r.Key), string(r.Value), r.ValueNull(), b.BaseTimestamp() + r.TimestampDelta, was.visible}
			if !ok || is != was {
				return fmt.Errorf("offset %d is %+v, was appended as %+v", offset, is, was)
			}
			found[offset] = true
			if !is.visible {
				return nil
			}
			if before, twice := compactedKeys[is.key]; twice && offset < l.CompactedOffset() {
				return fmt.Errorf("key %q is at %d and at %d, compacted up to %d", is.key, before, offset, l.CompactedOffset())
			}
			compactedKeys[is.key] = offset
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(batches) > 0 && next != upTo {
		return fmt.Errorf("the last batch ends at %d, not at %d", next, upTo)
	}
	for key, offset := range m.latest(upTo) {
		switch r := m.records[offset]; {
		case offset < l.StartOffset() || found[offset]:
		case !r.tombstone:
			return fmt.Errorf("key %q: its latest value at %d is missing", key, offset)
		case compactedKeys[key] != 0 || found[0] && m.records[0].key == key:
			return fmt.Errorf("key %q is back at %d: its tombstone at %d is missing", key, compactedKeys[key], offset)
		}
	}
	return nil
}

// checkSegments checks that the log's segments follow each other, that their files are in order, and that nothing of a compaction is left.
func checkSegments(fsys vfs.FS, l *Log) error {
	var problems []string
	note := func(p segment.Problem) error {
		if !p.Harmless() {
			problems = append(problems, p.String())
		}
		return nil
	}
	if err := segment.VerifyOrder(fsys, l.path, note); err != nil {
		return err
	}
	segs := l.segs.Load()
	for i, h := range segs.list {
		if err := h.Load(); err != nil {
			return err
		}
		if err := segment.VerifySegment(fsys, l.path, h.Base(), true, note); err != nil {
			return err
		}
		if h.NextOffset() != segs.nextBase(i, l.EndOffset()) {
			problems = append(problems, fmt.Sprintf("segment %d ends at %d, the next begins at %d", h.Base(), h.NextOffset(), segs.nextBase(i, l.EndOffset())))
		}
	}
	entries, err := fsys.ReadDir(l.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if base, ok := parseBaseOffset(e.Name, logSuffix); ok && !slices.ContainsFunc(segs.list, func(h *handle) bool { return h.Base() == base }) {
			problems = append(problems, e.Name+" is no segment of the log")
		}
		if strings.HasSuffix(e.Name, ".cleaned") || strings.HasSuffix(e.Name, ".swap") || strings.HasSuffix(e.Name, ".tmp") {
			problems = append(problems, e.Name+" is left")
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s", strings.Join(problems, "\n"))
	}
	return nil
}

// appendKeyed appends a batch of records, "key=value" each ("key=" is a tombstone).
func (f *fixture) appendKeyed(l *Log, m *compactModel, o record.Options, records ...string) *Append {
	f.t.Helper()
	w := record.NewBuilder(o)
	for _, r := range records {
		key, value, _ := strings.Cut(r, "=")
		v := []byte(value)
		if value == "" {
			v = nil
		}
		w.Append(f.clock.Now(), []byte(key), v, nil)
	}
	b := record.Batch(w.Bytes())
	a := f.mustAppend(l, bytes.Clone(b))
	if m != nil {
		m.add(a.BaseOffset, b, true)
	}
	return a
}

func (f *fixture) awaitFlushed(p *progress, l *Log) {
	f.t.Helper()
	if err := p.await(l.EndOffset()); err != nil {
		f.t.Fatal(err)
	}
	f.settle()
}

func (f *fixture) mustMatch(m *compactModel, l *Log) {
	f.t.Helper()
	if err := m.check(l, l.EndOffset()); err != nil {
		f.t.Fatalf("%v\n%s", err, f.logs)
	}
	if err := checkSegments(f.fs, l); err != nil {
		f.t.Fatalf("%v\n%s", err, f.logs)
	}
}

// fillKeys appends n batches of ten records with keys from few.
func (f *fixture) fillKeys(l *Log, m *compactModel, n, keys int) {
	for i := range n {
		var records []string
		for k := range 10 {
			records = append(records, fmt.Sprintf("key-%d=%s-%d-%d", (i*7+k)%keys, strings.Repeat("v", 30), i, k))
		}
		f.appendKeyed(l, m, record.Options{Codec: record.Codec(i % 5)}, records...)
	}
}

// C7, B-G4, R11: a compacted log has each key once, its segments are merged, and everything that looks into it lives with the gaps: reads from every offset,
// timestamps, verification, another round, a restart.
func TestCompact(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.logWith("t", compactConfig(t, nil))
	p := watch(l)
	m := newCompactModel()
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
		f := newFixture(t, mem)
		f.open()
		l := f.logWith("t", compactConfig(t, nil))
		p := watch(l)
		m := newCompactModel()
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

// B-G5: a log start inside or above what is to be compacted.
func TestCompactAboveLogStart(t *testing.T) {
	f := newFixture(t, vfs.NewMem(7))
	f.open()
	l := f.logWith("t", compactConfig(t, func(c *config.Topic) { c.Delete, c.RetentionMs = true, -1 }))
	p := watch(l)
	m := newCompactModel()
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
	f := newFixture(t, vfs.NewMem(8))
	f.open()
	l := f.logWith("t", compactConfig(t, func(c *config.Topic) { c.Delete, c.RetentionMs = true, 1_000_000 }))
	p := watch(l)
	m := newCompactModel()
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

// R17: a reader that holds a range of a segment reads it to the end though the segment is replaced, twice.
func TestReaderKeepsReplacedSegment(t *testing.T) {
	f := newFixture(t, vfs.NewMem(9))
	f.open()
	l := f.logWith("t", compactConfig(t, nil))
	p := watch(l)
	m := newCompactModel()
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
	f := newFixture(t, vfs.NewMem(10))
	f.open()
	l := f.logWith("t", compactConfig(t, nil))
	p := watch(l)
	m := newCompactModel()
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
	f := newFixture(t, vfs.NewMem(12))
	f.open()
	l := f.logWith("t", compactConfig(t, nil))
	p := watch(l)
	m := newCompactModel()
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

func seedOf(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("LEAT_SEED"); s != "" {
		fmt.Sscan(s, &seed)
	}
	t.Logf("LEAT_SEED=%d", seed)
	return seed
}

// compactWorkload appends what a random program of producers does: idempotent, transactional and plain batches of keys, values and tombstones.
type compactWorkload struct {
	*fixture
	rng  *rand.Rand
	m    *compactModel
	seq  map[int64]int32
	open map[int64][]int64 // offsets of the open transaction of each transactional producer
}

func (w *compactWorkload) append(l *Log) {
	o := record.Options{Codec: record.Codec(w.rng.IntN(5))}
	id := int64(w.rng.IntN(8))
	if id >= 3 {
		o.Idempotent, o.ProducerID, o.BaseSequence = true, id, w.seq[id]
	}
	if id >= 6 {
		o.Transactional = true
		if len(w.open[id]) > 0 && w.rng.IntN(3) == 0 {
			w.endTransaction(l, id)
			return
		}
	}
	b := record.NewBuilder(o)
	n := 1 + w.rng.IntN(6)
	for range n {
		value := bytes.Repeat([]byte{byte('a' + w.rng.IntN(26))}, w.rng.IntN(120))
		if w.rng.IntN(4) == 0 {
			value = nil
		}
		b.Append(w.clock.Now()-int64(w.rng.IntN(2000)), fmt.Appendf(nil, "k%d", w.rng.IntN(30)), value, nil)
	}
	batch := record.Batch(b.Bytes())
	a := w.mustAppend(l, bytes.Clone(batch))
	w.m.add(a.BaseOffset, batch, id < 6)
	w.seq[id] += int32(n)
	if id >= 6 {
		for i := range n {
			w.open[id] = append(w.open[id], a.BaseOffset+int64(i))
		}
	}
}

func (w *compactWorkload) endTransaction(l *Log, id int64) {
	kind := uint16(w.rng.IntN(2))
	a := appendAs(l, markerBatch(id, 0, 0, w.clock.Now(), kind, 1), FromInternal, 0)
	if a.Err != nil {
		w.t.Fatal(a.Err)
	}
	w.m.end = a.BaseOffset + 1
	for _, offset := range w.open[id] {
		r := w.m.records[offset]
		r.visible = kind == markerCommit
		w.m.records[offset] = r
	}
	w.open[id] = nil
}

// A random log that is compacted at random points, restarted, crashed: what readers can make of it is the same as of the whole log.
func TestCompactMetamorphic(t *testing.T) {
	seed := seedOf(t)
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		mem := vfs.NewMem(seed + uint64(round))
		w := &compactWorkload{fixture: newFixture(t, mem), rng: rand.New(rand.NewPCG(seed, uint64(round))), m: newCompactModel(), seq: map[int64]int32{}, open: map[int64][]int64{}}
		if round%3 == 1 {
			w.tweak = func(o *Options) { o.Defaults.CleanerDedupeBufferBytes = 24 * 17 }
		}
		cfg := compactConfig(t, func(c *config.Topic) { c.DeleteRetentionMs = 3_000 })
		w.fixture.open()
		l := w.logWith("t", cfg)
		p := watch(l)
		for step := range 60 {
			for range w.rng.IntN(12) {
				w.append(l)
			}
			w.awaitFlushed(p, l)
			now := w.clock.advance(int64(w.rng.IntN(1500)))
			switch w.rng.IntN(6) {
			case 0, 1, 2:
				w.e.Clean(now)
			case 3:
				w.e.Tick(now)
			case 4:
				if w.rng.IntN(4) > 0 {
					continue
				}
				w.restart()
				l = w.logWith("t", cfg)
				p = watch(l)
			case 5:
				if w.rng.IntN(4) > 0 {
					continue
				}
				crashed := mem.Crash(vfs.CrashModes[w.rng.IntN(len(vfs.CrashModes))])
				w.kill()
				mem, w.fs = crashed, crashed
				w.fixture.open()
				l = w.logWith("t", cfg)
				p = watch(l)
			}
			if s := w.e.CleanerStats(); s.Failures > 0 {
				t.Fatalf("round %d, step %d: %+v\n%s", round, step, s, w.logs)
			}
			if err := w.checkVisible(l); err != nil {
				t.Fatalf("round %d, step %d: %v\n%s", round, step, err, w.logs)
			}
		}
		if err := checkSegments(w.fs, l); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		w.close()
	}
}

// checkVisible checks the log up to the first offset of an open transaction.
func (w *compactWorkload) checkVisible(l *Log) error {
	upTo := l.EndOffset()
	if first, ok := l.FirstUnstableOffset(); ok {
		upTo = first
	}
	if upTo == 0 {
		return nil
	}
	return w.m.check(l, upTo)
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
	f := newFixture(t, vfs.NewMem(15))
	f.open()
	l := f.logWith("t", compactConfig(t, nil))
	p := watch(l)
	m := newCompactModel()
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
	f := newFixture(t, vfs.NewMem(17))
	f.open()
	l := f.logWith("t", compactConfig(t, nil))
	p := watch(l)
	m := newCompactModel()
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
