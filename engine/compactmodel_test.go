package engine

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

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

// openCompacted opens an engine on fsys with a log that is compacted, and makes what its tests use: how far it is flushed, and its model.
func openCompacted(t testing.TB, fsys vfs.FS, change func(*config.Topic)) (*fixture, *Log, *progress, *compactModel) {
	f := newFixture(t, fsys)
	f.open()
	l := f.logWith("t", compactConfig(t, change))
	return f, l, watch(l), newCompactModel()
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
