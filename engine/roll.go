package engine

import (
	"errors"
	"io/fs"
	"math"

	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

// makeRoom makes sure that the batch b, which comes at offset turn.next, may go into the active segment behind what is already placed; if not,
// what is placed is written and a new segment begun. l.mu is held.
func (w *worker) makeRoom(a *Append, b record.Batch, maxTimestamp int64) error {
	t := &w.turn
	active := t.segs.active()
	last := t.next + int64(b.LastOffsetDelta())
	if a.Origin == FromLeader {
		last = b.LastOffset()
	}
	roll := t.log.mustRoll(active, t.cfg, t.bytes, len(b), last, maxTimestamp, t.nowMs)
	if err := t.log.admit(active, t.bytes+len(b), roll); err != nil {
		return err
	}
	if !roll {
		return nil
	}
	if err := w.write(); err != nil {
		return err // b was checked against the batches that are not there now: after them its producer's sequence would have a gap
	}
	base := max(t.next, last-math.MaxInt32)
	if active.Size() == 0 && active.Base() == base {
		return nil // as much room as a new one has
	}
	err := t.log.rollLocked(t.cfg, base, t.nowMs)
	for isDiskFull(err) && t.log.usesReserve.Load() && t.log.dir.reserve.release() {
		err = t.log.rollLocked(t.cfg, base, t.nowMs)
	}
	if err != nil {
		return t.log.dir.failed("roll", err)
	}
	t.segs = t.log.segs.Load()
	return nil
}

// mustRoll tells whether a batch of n bytes needs a new segment when placed bytes wait to be written before it. Kafka's conditions, and the broker's
// clock: a segment does not stay active for longer than segment.ms, whatever its records' timestamps.
func (l *Log) mustRoll(active *handle, cfg *logConfig, placed, n int, lastOffset, maxTimestamp, nowMs int64) bool {
	size := active.Size() + int64(placed)
	switch {
	case !active.OffsetFits(lastOffset):
		return true
	case size == 0:
		return false
	case size+int64(n) > int64(cfg.SegmentBytes), active.IndexFull():
		return true
	}
	return l.rollIsDue(active, cfg, maxTimestamp, nowMs)
}

// rollIsDue tells whether the active segment, which is not empty, is too old for segment.ms.
func (l *Log) rollIsDue(active *handle, cfg *logConfig, maxTimestamp, nowMs int64) bool {
	limit := cfg.SegmentMs
	if cfg.Compact { // what is in the active segment cannot be compacted
		limit = min(limit, cfg.MaxCompactionLagMs)
	}
	limit -= l.jitterMs(active.Base(), cfg.SegmentJitterMs)
	if nowMs-active.createdMs > limit {
		return true
	}
	if maxTimestamp < 0 { // nothing is appended: an idle segment need not be opened
		return false
	}
	first, ok, err := active.FirstTimestamp()
	if err != nil || !ok || first < 0 {
		return false
	}
	return maxTimestamp-first > limit
}

// jitterMs spreads the rolls of many partitions over segment.jitter.ms. It is the same for every look at one segment.
func (l *Log) jitterMs(base, limitMs int64) int64 {
	if limitMs <= 0 {
		return 0
	}
	mixed := (l.seed ^ uint64(base)) * 0x9e3779b97f4a7c15 // Fibonacci hashing
	return int64((mixed ^ mixed>>32) % uint64(limitMs))
}

// rollLocked begins a new active segment at base, which is the log end (or above, when a replica's offsets have a huge gap). l.mu is held. The entry of the new file in the directory becomes durable with the next
// flush round, before anything in the file counts as flushed. Sealing the old segment is left to the background.
func (l *Log) rollLocked(cfg *logConfig, base, nowMs int64) error {
	segs := l.segs.Load()
	old := segs.active()
	h, err := l.createSegment(cfg, base, nowMs)
	if err != nil {
		return err
	}
	l.entries.add()
	l.segs.Store(segs.with(h))
	var state []snapshotEntry
	if l.mu.producers.len() > 0 {
		state = l.mu.producers.snapshot()
	}
	l.e.jobs.add(job{kind: jobSeal, log: l, seg: old, offset: base, producers: state})
	if cfg.WriteCaching {
		l.requestFlush(base, l.flushGeneration())
	}
	l.e.log.Debug("segment rolled", "partition", l.tp.String(), "base", base, "previous", old.Base(), "previousBytes", old.Size())
	return nil
}

// createSegment makes the files of a segment. A left-over file of that name holds nothing that belongs to the log (the log ends at base), so it
// is removed first; it must not exist in a healthy log.
func (l *Log) createSegment(cfg *logConfig, base, nowMs int64) (*handle, error) {
	s, err := segment.Create(l.path, base, l.segmentOptions(cfg))
	if errors.Is(err, fs.ErrExist) {
		l.e.log.Warn("removing a left-over segment at the log end", "partition", l.tp.String(), "base", base)
		if err = l.removeSegmentFiles(base); err == nil {
			s, err = segment.Create(l.path, base, l.segmentOptions(cfg))
		}
	}
	if err != nil {
		return nil, err
	}
	return &handle{Segment: s, createdMs: nowMs}, nil
}
