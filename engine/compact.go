package engine

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

var (
	// errMapFull ends the noting of keys: the rest of the range waits for the next round.
	errMapFull = errors.New("the map of keys is full")
	// errStopping ends a round because the engine closes. Nothing is lost but the work.
	errStopping = errors.New("the engine stops")
	// errMoved ends a round because the log's segments are not what they were when it began: retention took some, or the log is gone.
	errMoved = errors.New("the log has changed meanwhile")
)

// compactRound compacts one log once: keys of the range [from, to) are noted, then all segments below it are passed in groups, each of which is replaced
// by what is left of it. It holds no lock while it reads and writes.
type compactRound struct {
	c       *cleaner
	l       *Log
	cfg     *logConfig
	nowMs   int64
	from    int64 // everything below was compacted by an earlier round
	to      int64 // the end of a sealed segment, below high watermark, flushed offset and the first unstable offset
	sources []source
	s       survivors

	bytesIn, bytesOut int64
}

// source is a segment that is compacted.
type source struct {
	*handle
	end int64 // where the next one begins
}

// run returns up to where the log is compacted now.
func (r *compactRound) run() (end int64, err error) {
	if err := r.prepare(); err != nil {
		return r.from, err
	}
	if err := r.noteKeys(); err != nil {
		return r.from, err
	}
	for left := r.sources; len(left) > 0; {
		n, err := r.compactGroup(left)
		if err != nil {
			return r.from, err
		}
		left = left[n:]
	}
	return r.s.end, nil
}

// prepare looks at the log as it is now.
func (r *compactRound) prepare() error {
	l := r.l
	if err := l.prepareSwap(); err != nil {
		return err
	}
	segs := l.segs.Load()
	if segs == nil || l.Err() != nil {
		return errMoved
	}
	for i, h := range segs.list[:len(segs.list)-1] {
		if end := segs.nextBase(i, 0); end > l.logStart.Load() && h.Base() < r.to {
			r.sources = append(r.sources, source{h, end})
		}
	}
	r.s = survivors{
		keys: &r.c.keys, end: r.to, nowMs: r.nowMs, retentionMs: r.cfg.DeleteRetentionMs, level: r.level,
		inflateMax: int64(r.cfg.MaxDecompressedMessageBytes), last: l.lastBatches(),
	}
	r.c.keys.reset(r.to-r.from, l.e.o.Defaults.CleanerDedupeBufferBytes)
	return nil
}

// level is how strongly batches are compressed again: as the topic says if it is its codec, else as the codec does by default.
func (r *compactRound) level(c record.Codec) int {
	if rules := &r.cfg.rules[FromClient]; !rules.CodecIsProducer && rules.Codec == c {
		return rules.Level
	}
	return 0
}

// lastBatches tells what the log's producers wrote last.
func (l *Log) lastBatches() map[int64]lastBatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[int64]lastBatch, l.mu.producers.len())
	for id, p := range l.mu.producers.entries {
		m, _ := p.lastBatch()
		all[id] = lastBatch{m.lastOffset, p.epoch}
	}
	return all
}

// noteKeys reads the range and notes the keys. If there is no room for all, the range ends before the first that found none.
func (r *compactRound) noteKeys() error {
	scanned := false
	for _, src := range r.sources {
		if src.end <= r.from {
			continue
		}
		err := src.use(func() error {
			return src.batchesFrom(max(r.from, src.Base()), func(b record.Batch) error {
				if err := r.c.moved(len(b)); err != nil {
					return err
				}
				if b.IsControl() || b.LastOffset() < r.from {
					return nil
				}
				if b.IsTransactional() && !scanned {
					scanned = true
					if err := r.findAborted(); err != nil {
						return err
					}
				}
				if b.IsTransactional() && isAborted(r.s.aborted, b) {
					return nil
				}
				return r.noteBatch(b)
			})
		})
		if err == errMapFull {
			r.cutSources()
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *compactRound) noteBatch(b record.Batch) error {
	base := b.BaseOffset()
	return b.RecordsLimit(r.s.inflateMax, func(rec *record.Record) error {
		offset := base + int64(rec.OffsetDelta)
		if offset < r.from || rec.KeyNull() {
			return nil
		}
		if !r.s.keys.put(hashKey(rec.Key), offset) {
			r.s.end = offset
			return errMapFull
		}
		return nil
	})
}

// cutSources leaves the segments out that the range does not reach any more.
func (r *compactRound) cutSources() {
	for n := len(r.sources); n > 0 && r.sources[n-1].Base() >= r.s.end; n-- {
		r.sources = r.sources[:n-1]
	}
}

// findAborted reads the range, and on to the ends of the transactions in it, for those that were aborted.
func (r *compactRound) findAborted() error {
	segs := r.l.segs.Load()
	if segs == nil {
		return errMoved
	}
	scan := newTxnScan(r.to)
	done := false
	for i := segs.find(r.from); i < len(segs.list) && !done; i++ {
		src := source{segs.list[i], 0}
		err := src.use(func() error {
			return src.batchesFrom(max(r.from, src.Base()), func(b record.Batch) error {
				if err := r.c.moved(len(b)); err != nil {
					return err
				}
				if done = scan.pass(b); done {
					return io.EOF
				}
				return nil
			})
		})
		if err != nil && err != io.EOF {
			return err
		}
	}
	for id, first := range scan.open {
		return fmt.Errorf("the transaction of producer %d that begins at offset %d has no end, though everything up to offset %d is stable", id, first, r.to)
	}
	r.s.aborted = scan.aborted
	return nil
}

// use calls fn while the segment is held and known to be whole.
func (src *source) use(fn func() error) error {
	if !src.Acquire() {
		return errMoved
	}
	defer src.Release()
	if err := src.Load(); err != nil {
		return err
	}
	if err := src.Damage(); err != nil {
		return err
	}
	return fn()
}

// batchesFrom calls fn for the batches from the one that contains offset on.
func (src *source) batchesFrom(offset int64, fn func(b record.Batch) error) error {
	pos, _, _, err := src.PositionOf(offset, src.Size())
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	return src.Batches(pos, src.Size(), func(b record.Batch, _ int64) error { return fn(b) })
}

// groupSegmentsMax bounds the segments that are replaced at once, all of which are open meanwhile.
const groupSegmentsMax = 32

// compactGroup replaces the first of the sources by what is left of them, as many as make about one segment, and returns how many that were. A single segment of
// which everything is left stays, and so does one without batches.
func (r *compactRound) compactGroup(sources []source) (n int, err error) {
	if sources[0].Size() == 0 {
		return 1, nil
	}
	w := &groupWriter{r: r, sources: sources}
	defer w.release()
	if err := w.begin(sources[0].Base()); err != nil {
		return 0, err
	}
	for !w.closed {
		if err := w.copySegment(); err != nil {
			return 0, errors.Join(err, r.l.abortCleaned(w.outs))
		}
	}
	if w.n == 1 && !w.changed {
		return 1, r.l.abortCleaned(w.outs)
	}
	return w.n, r.l.replaceSegments(sources[:w.n], w.outs)
}

// groupWriter writes what is left of a group: one segment, or more when that of its last source does not fit.
type groupWriter struct {
	r       *compactRound
	sources []source
	n       int  // how many of them are in the group
	closed  bool // no more of them
	outs    []*segment.Cleaned
	changed bool
	txns    []index.AbortedTxn // of the segment being copied, not passed yet
}

func (w *groupWriter) release() {
	for _, src := range w.sources[:w.n] {
		src.Release()
	}
}

// full decides, before the last batch of the group's newest segment is passed, whether the group ends with it. It goes on while what is left fills less than
// half a segment; what does not fit then begins another one.
func (w *groupWriter) full(last record.Batch) bool {
	if w.n == len(w.sources) || w.n == groupSegmentsMax || len(w.outs) > 1 {
		return true
	}
	next, out := &w.sources[w.n], w.outs[0]
	return next.Size() == 0 || next.end-1-out.Base() > math.MaxInt32 || out.Size()+int64(len(last)) > int64(w.r.cfg.SegmentBytes)/2
}

func (w *groupWriter) begin(base int64) error {
	out, err := w.r.l.createCleaned(base)
	if err == nil {
		w.outs = append(w.outs, out)
	}
	return err
}

// copySegment takes the next segment into the group.
func (w *groupWriter) copySegment() (err error) {
	h := w.sources[w.n].handle
	if !h.Acquire() {
		return errMoved
	}
	w.n++
	if err := h.Load(); err != nil {
		return err
	}
	if err := h.Damage(); err != nil {
		return err
	}
	if h.Size() == 0 {
		return fmt.Errorf("segment %d has no batches", h.Base())
	}
	if w.txns, _, err = h.AbortedTxns(w.txns[:0], 0, math.MaxInt64); err != nil {
		return err
	}
	if len(w.txns) > 0 && h.Base() == w.outs[0].Base() {
		w.outs[0].ReplaceTxns()
	}
	return h.Batches(0, h.Size(), func(b record.Batch, _ int64) error {
		if b.NextOffset() == h.NextOffset() {
			w.closed = w.full(b)
		}
		// The batch a group ends with stays, so that the segments of a log follow each other.
		left, err := w.r.s.pass(b, w.closed)
		if err != nil {
			return err
		}
		w.r.bytesIn += int64(len(b))
		w.r.bytesOut += int64(len(left))
		w.changed = w.changed || len(left) == 0 || &left[0] != &b[0]
		if err := w.r.c.moved(len(b) + len(left)); err != nil || left == nil {
			return err
		}
		return w.add(left)
	})
}

// add appends b, and the entry of the transaction index that belongs to it: an entry without its marker would make readers take what the producer wrote
// later for aborted.
func (w *groupWriter) add(b record.Batch) error {
	out := w.outs[len(w.outs)-1]
	if !out.Fits(b) {
		if err := w.begin(out.NextOffset()); err != nil {
			return err
		}
		out = w.outs[len(w.outs)-1]
	}
	for b.IsControl() && len(w.txns) > 0 && w.txns[0].LastOffset <= b.LastOffset() {
		if b.Count() > 0 && w.txns[0].LastOffset >= b.BaseOffset() {
			out.AppendAborted(w.txns[0])
		}
		w.txns = w.txns[1:]
	}
	return out.Append(b)
}

// compactable is what of a log can be compacted, and how much it is worth.
type compactable struct {
	l        *Log
	from, to int64 // the range that is not compacted yet
	ratio    float64
}

// compactable tells whether it is the log's turn to be compacted.
func (l *Log) compactable(nowMs int64) (c compactable, ok bool) {
	cfg := l.cfg.Load()
	if !cfg.Compact || l.Err() != nil || l.dir.reserve.space() == spaceTapped || nowMs < l.compaction.retryMs && l.compaction.retryMs-nowMs <= retryMsMax {
		return c, false
	}
	segs := l.segs.Load()
	if segs == nil {
		return c, false
	}
	start := l.logStart.Load()
	c = compactable{l: l, from: max(l.compaction.end.Load(), start)}
	if c.from > l.logEnd.Load() {
		c.from = start
	}
	stable := l.stableOffset()
	var clean, dirty int64
	overdue := false
	for i, h := range segs.list[:len(segs.list)-1] {
		end := segs.nextBase(i, 0)
		if end <= start {
			continue
		}
		if !h.sealed.Load() || end > stable || end > c.from && h.tooYoung(cfg.Topic, nowMs) {
			break
		}
		c.to = end
		if end <= c.from {
			clean += h.Size()
			continue
		}
		overdue = overdue || dirty == 0 && h.overdue(cfg.Topic, nowMs)
		dirty += h.Size()
	}
	switch {
	case c.to == 0:
		return c, false
	case dirty == 0:
		c.from = c.to
		return c, l.horizonPassed(cfg, nowMs, clean)
	}
	c.ratio = float64(dirty) / float64(clean+dirty)
	return c, c.ratio > cfg.MinCleanableDirtyRatio || overdue
}

// stableOffset is the offset below which everything is replicated and durable, and every transaction has ended.
func (l *Log) stableOffset() int64 {
	stable := min(l.hw.Load(), l.flushed.Load())
	if unstable, ok := l.FirstUnstableOffset(); ok {
		stable = min(stable, unstable)
	}
	return stable
}

// tooYoung tells whether min.compaction.lag.ms keeps a segment. It counts from the last append, on the broker's clock: what a producer says about time
// may lengthen it, not shorten it.
func (h *handle) tooYoung(cfg *config.Topic, nowMs int64) bool {
	return cfg.MinCompactionLagMs > 0 && h.ageMs(nowMs, cfg.MinCompactionLagMs) < cfg.MinCompactionLagMs
}

// overdue tells whether max.compaction.lag.ms has passed for the first record of the segment, by its timestamp or, if that is earlier, by the time of the
// segment's last append.
func (h *handle) overdue(cfg *config.Topic, nowMs int64) bool {
	if cfg.MaxCompactionLagMs == math.MaxInt64 {
		return false
	}
	since := h.AppendTimeMaxMs()
	if first, ok, err := h.FirstTimestamp(); err == nil && ok && first >= 0 {
		since = min(since, first)
	}
	return nowMs-since > cfg.MaxCompactionLagMs
}

// horizonPassed tells whether a log of which everything is compacted has tombstones or markers that may go now: nobody appends, so nothing else would bring
// the cleaner to it (C4). What a start does not know it assumes to be as late as it can be.
func (l *Log) horizonPassed(cfg *logConfig, nowMs, bytes int64) bool {
	if l.compaction.horizonMs == 0 && bytes > 0 {
		l.compaction.horizonMs = max(1, nowMs+min(cfg.DeleteRetentionMs, math.MaxInt64-nowMs))
	}
	return l.compaction.horizonMs > 0 && l.compaction.horizonMs <= nowMs
}
