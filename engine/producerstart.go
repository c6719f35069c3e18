package engine

import (
	"io"
	"slices"

	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

// What a log knows of its producers is a function of all its batches, also of those that were deleted meanwhile. After a start it is rebuilt from what was noted
// of an earlier offset (producerBase) and the batches from there on, as long as their files are there: also those below the log start. Sources, best first:
//
//	the log's mark    (marks.go) knows the newest five batches of each producer. About a second old after a crash, exact after a clean stop
//	older snapshots   for a log that has no mark although the log state files are whole: it is new. Batches are replayed from so far back
//	                  (replayBytesMax) that the five newest of each producer are among them
//	newest snapshot   knows one batch of each producer: an older one that is sent again is refused
//	nothing           when batches between all that was noted and the first file are gone: what was noted may be older than what the producers did
//	                  since, and would refuse their next batch. Files are deleted only behind a mark or snapshot (retention.go), so this is damage
const replayBytesMax = 64 << 20

// producerBase is where rebuilding the producers begins.
type producerBase struct {
	offset    int64 // the state is as of this offset: batches from here on are replayed
	mark      *mark
	snapshot  []snapshotEntry
	newest    int64 // offset of the newest usable snapshot file, noOffset: none
	unusables []error
}

// use makes the table what it was at the base.
func (b *producerBase) use(t *producerTable) {
	if b.mark != nil {
		t.restoreEntries(b.mark.producers)
		return
	}
	t.restore(b.snapshot)
}

// producerBase chooses among m, which may be nil, and the snapshots. Batches in [first, end) can be replayed. bytesFrom, when not nil, tells how many bytes a
// replay from an offset reads: then older snapshots are better.
func (l *Log) producerBase(m *mark, first, end int64, bytesFrom func(offset int64) int64) (producerBase, error) {
	base := producerBase{offset: noOffset, newest: noOffset}
	offsets, err := listSnapshots(l.e.o.FS, l.path)
	if err != nil {
		return base, err
	}
	marked := m != nil && first <= m.offset() && m.offset() <= end
	for _, offset := range slices.Backward(offsets) {
		if offset > end {
			continue
		}
		older := base.offset != noOffset
		if offset < first || older && (marked || bytesFrom == nil || bytesFrom(offset) > replayBytesMax) {
			break
		}
		entries, err := readSnapshot(l.e.o.FS, l.path, offset)
		if err != nil {
			base.unusables = append(base.unusables, err)
			continue
		}
		base.offset, base.snapshot, base.newest = offset, entries, max(base.newest, offset)
	}
	switch {
	case marked:
		base.offset, base.snapshot, base.mark = m.offset(), nil, m
	case first == 0 && (base.offset == noOffset || bytesFrom != nil && bytesFrom(0) <= replayBytesMax):
		base.offset, base.snapshot = 0, nil
	case base.offset == noOffset:
		base.offset = first
	}
	return base, nil
}

// belowStart is the segments below the log start whose files a start still finds: the end of them that is without a gap.
type belowStart struct {
	first int64 // the base offset of the first of them, or of the log's first segment
	segs  []*segment.Segment
}

// openBelow opens segments below the log start, from the last one back, as far as they follow each other (any of them may have been removed already; in
// a compacted log nobody can tell): until the offset is among them, and, if wide, as many more as a replay may read.
func (r *loader) openBelow(offset int64, wide bool) *belowStart {
	opts := r.l.segmentOptions(r.l.cfg.Load())
	b := &belowStart{first: r.list[0].Base()}
	for _, base := range slices.Backward(r.below) {
		if b.first <= offset && !(wide && r.replayBytes(b, b.first) < replayBytesMax) || !opts.Dense {
			break
		}
		s, err := segment.Open(r.l.path, base, opts, true)
		if err != nil {
			break
		}
		if err := s.Load(); err != nil || s.Damage() != nil || s.NextOffset() != b.first {
			s.Release()
			break
		}
		b.first, b.segs = base, slices.Insert(b.segs, 0, s)
	}
	return b
}

func (b *belowStart) release() {
	for _, s := range b.segs {
		s.Release()
	}
}

// replay calls fn for the batches from an offset on.
func (b *belowStart) replay(from int64, fn func(record.Batch)) error {
	for _, s := range b.segs {
		if err := eachBatchOf(s, from, fn); err != nil {
			return err
		}
	}
	return nil
}

// eachBatchOf calls fn for every batch of s that has offsets at or above from.
func eachBatchOf(s *segment.Segment, from int64, fn func(record.Batch)) error {
	if err := s.Load(); err != nil {
		return err
	}
	pos, _, _, err := s.PositionOf(max(from, s.Base()), s.Size())
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Batches(pos, s.Size(), func(b record.Batch, _ int64) error { fn(b); return nil })
}

// restoreProducers begins the producer table: it restores what was noted and replays what is below the log's first segment. It returns the offset from which on
// the caller is to replay the rest.
func (r *loader) restoreProducers(end int64) (from int64, err error) {
	l := r.l
	wide := r.producers == nil && r.marksWhole && l.segmentOptions(l.cfg.Load()).Dense
	below := r.openBelow(r.knownProducers(end), wide)
	defer below.release()
	var bytesFrom func(int64) int64
	if wide {
		bytesFrom = func(offset int64) int64 { return r.replayBytes(below, offset) }
	}
	base, err := l.producerBase(r.producers, below.first, end, bytesFrom)
	if err != nil {
		return 0, err
	}
	for _, unusable := range base.unusables {
		l.e.log.Warn("a producer snapshot is unusable", "partition", l.tp.String(), "err", unusable)
	}
	base.use(l.mu.producers)
	l.promise.snapshotOffset = base.newest
	first := r.list[0].Base()
	if err := below.replay(base.offset, l.mu.producers.update); err != nil {
		l.e.log.Warn("the producers of a log are forgotten: reading batches below its start failed", "partition", l.tp.String(), "err", err)
		l.mu.producers = newProducerTable(l.e.o.Defaults.ProducerIDExpirationMs)
		return first, nil
	}
	return max(base.offset, first), nil
}

// knownProducers is the offset that something is known of: from where the segments below the log start are wanted.
func (r *loader) knownProducers(end int64) int64 {
	if r.producers != nil {
		return r.producers.offset()
	}
	for _, offset := range slices.Backward(r.snapshots) {
		if offset <= end {
			return offset
		}
	}
	return 0
}

// replayBytes tells how much a replay from an offset reads.
func (r *loader) replayBytes(below *belowStart, offset int64) (n int64) {
	for i := len(r.list) - 1; i >= 0 && r.nextBase(i) > offset; i-- {
		n += r.list[i].Size()
	}
	for i := len(below.segs) - 1; i >= 0 && below.segs[i].NextOffset() > offset; i-- {
		n += below.segs[i].Size()
	}
	return n
}
