package engine

import (
	"fmt"
	"path/filepath"

	"github.com/leatmq/leat/internal/invariant"
)

// futureToleranceMs is how far a record's timestamp may be ahead of the time it was appended and still count for retention.
const futureToleranceMs = 3_600_000

// retain applies retention to all logs: first the new log starts are durable, then the files go (C13). A crash in between is repaired by the next
// check, because a segment below the log start is deleted whatever the policy.
func (e *Engine) retain(now int64) {
	for _, d := range e.dirs {
		if d.err() != nil {
			continue
		}
		var raised []*Log
		for _, l := range d.list() {
			if l.raiseStartByRetention(now) {
				raised = append(raised, l)
			}
		}
		if len(raised) > 0 {
			if err := d.writeCheckpoints(ckptLogStart); err != nil {
				e.log.Warn("writing log starts before retention failed", "dir", d.path, "err", err)
				if d.err() != nil {
					continue
				}
				// The disk is full, and deleting is what helps. Without the durable log start the files must go one by one, oldest first.
			}
		}
		d.deleteBelowStarts(now)
	}
}

// raiseStartByRetention moves the log start above the segments that retention no longer keeps, and reports whether it did.
func (l *Log) raiseStartByRetention(now int64) bool {
	l.maint.Lock()
	defer l.maint.Unlock()
	if l.Err() != nil {
		return false
	}
	cfg := l.cfg.Load()
	if !cfg.Delete {
		return false
	}
	segs := l.segs.Load()
	n, why := l.expired(segs, cfg, now)
	if n == 0 {
		return false
	}
	if n == len(segs.list) && !l.rollForRetention(cfg, now) {
		n--
	}
	if n == 0 {
		return false
	}
	start := l.segs.Load().list[n].Base()
	for i := range n {
		h := segs.list[i]
		l.e.log.Info("retention deletes a segment", "partition", l.tp.String(), "segment", h.Base(), "bytes", h.Size(), "why", why[i])
	}
	return l.raiseStart(start)
}

// expired returns how many of the oldest segments go, and why each. None that reaches above the high watermark does.
func (l *Log) expired(segs *segmentList, cfg *logConfig, now int64) (n int, why []string) {
	hw, end := l.hw.Load(), l.logEnd.Load()
	total := segs.size()
	for i, h := range segs.list {
		if segs.nextBase(i, end) > hw || h.Size() == 0 && i == len(segs.list)-1 {
			break
		}
		reason := ""
		if cfg.RetentionMs >= 0 {
			if age := h.ageMs(now, cfg.RetentionMs); age > cfg.RetentionMs {
				reason = fmt.Sprintf("retention.ms=%d: the last append was %d ms ago", cfg.RetentionMs, age)
			}
		}
		if reason == "" && cfg.RetentionBytes >= 0 && total-h.Size() >= cfg.RetentionBytes {
			reason = fmt.Sprintf("retention.bytes=%d: the log without it still has %d", cfg.RetentionBytes, total-h.Size())
		}
		if reason == "" {
			break
		}
		total -= h.Size()
		why = append(why, reason)
	}
	return len(why), why
}

// ageMs is how old the segment is for retention.ms: the time since the broker made the last append to it. A record timestamp that lies in the
// future of that append makes the segment younger, by futureToleranceMs at most; others mean nothing: a producer's wrong clock neither pins nor
// deletes data (B10). Records are looked at only when the segment would be too old without.
func (h *handle) ageMs(now, limitMs int64) int64 {
	appended := h.AppendTimeMaxMs()
	if now-appended <= limitMs {
		return now - appended
	}
	ts, _, err := h.MaxTimestamp()
	if err != nil || ts <= appended {
		return now - appended
	}
	return now - min(ts, appended+futureToleranceMs)
}

// rollForRetention begins a new segment so that the active one may go.
func (l *Log) rollForRetention(cfg *logConfig, now int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.logEnd.Load()
	if l.mu.closed || end > l.hw.Load() { // something was appended meanwhile
		return false
	}
	err := l.dir.withReserve(func() error { return l.rollLocked(cfg, end, now) })
	if err != nil {
		l.rollError(err)
	}
	return err == nil
}

// raiseStart moves the log start up to start and reports whether it did. maint is held.
func (l *Log) raiseStart(start int64) bool {
	invariant.Must(start <= l.hw.Load(), "%v: log start %d above the high watermark %d", l.tp, start, l.hw.Load())
	if start <= l.logStart.Load() || l.syncBelow(start) != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logStart.Store(start)
	if l.epochs.truncateFromStart(start) {
		l.epochsChangedLocked()
	}
	l.mu.producers.removeBelow(start)
	return true
}

// syncBelow makes everything below offset durable: with write.caching it need not be, and a log must not end below its start after a power cut. The
// flushed offset is left to the flusher. maint is held.
func (l *Log) syncBelow(offset int64) error {
	from := l.flushed.Load()
	if offset <= from {
		return nil
	}
	err := l.syncDir()
	segs := l.segs.Load()
	for i := segs.find(from); err == nil && i < len(segs.list) && segs.list[i].Base() < offset; i++ {
		err = segs.list[i].Sync()
	}
	if err != nil {
		return l.dir.fail("sync", err)
	}
	l.promise.synced.Store(offset)
	return nil
}

// cut is what of a log lies below its start and is to be deleted.
type cut struct {
	log       *Log
	first     int64     // base offset of the first segment that stays
	segs      []*handle // no longer in the log's list
	leftovers []int64   // base offsets of segments that a start found
}

// deleteBelowStarts deletes the segments below the log starts. What the batches in them tell about their producers is noted durably before (producerstart.go),
// unless the disk is too full for that: then room comes first.
func (d *logDir) deleteBelowStarts(now int64) {
	var cuts []cut
	unnoted := false
	for _, l := range d.list() {
		if c := l.takeBelowStart(); c.segs != nil || c.leftovers != nil {
			cuts = append(cuts, c)
			unnoted = unnoted || l.durableMark() < c.first
		}
	}
	if unnoted {
		if err := d.markLogs(); err != nil {
			d.e.log.Warn("segments are deleted, and what their producers did is not noted", "dir", d.path, "err", err)
		}
	}
	for i := range cuts {
		cuts[i].delete(now)
	}
}

// takeBelowStart takes the segments that end at or below the log start out of the log. Never the active segment.
func (l *Log) takeBelowStart() cut {
	l.maint.Lock()
	defer l.maint.Unlock()
	c := cut{log: l}
	if l.Err() != nil {
		return c
	}
	if err := l.finishSwapLocked(); err != nil {
		l.e.log.Warn("segments are not deleted before compacted ones are in place", "partition", l.tp.String(), "err", err)
		return c
	}
	c.leftovers, l.leftovers = l.leftovers, nil
	l.mu.Lock()
	segs, start := l.segs.Load(), l.logStart.Load()
	n := 0
	for n+1 < len(segs.list) && segs.list[n+1].Base() <= start {
		n++
	}
	if n > 0 {
		c.segs = segs.list[:n:n]
		l.segs.Store(&segmentList{append([]*handle(nil), segs.list[n:]...)})
	}
	l.mu.Unlock()
	c.first = segs.list[n].Base()
	if (n > 0 || c.leftovers != nil) && l.durableMark() < c.first { // a mark is wanted, for which all is to be sealed and flushed
		l.retrySealing()
		l.requestFlush(l.logEnd.Load(), l.flushGeneration())
	}
	return c
}

// delete renames the files at once, oldest first; they are removed after the delay.
func (c *cut) delete(now int64) {
	l := c.log
	l.maint.Lock()
	defer l.maint.Unlock()
	if l.Err() != nil {
		c.release(0)
		return
	}
	if !l.entries.durable() { // a power cut must not leave a log without any segment
		if err := l.dir.syncFailed("sync directory", l.syncDir()); err != nil {
			l.e.log.Warn("segments below the log start are kept until the next start", "partition", l.tp.String(), "err", err)
			c.release(0)
			return
		}
	}
	for i, base := range c.leftovers {
		if err := l.dir.withReserve(func() error { return l.removeSegmentFiles(base) }); err != nil {
			c.failed(base, err)
			l.leftovers = c.leftovers[i:]
			break
		}
	}
	for i, h := range c.segs {
		if err := l.dir.withReserve(h.Delete); err != nil {
			c.failed(h.Base(), err) // the files keep their names; the next start finds them below the log start
			c.release(i)
			return
		}
		l.e.trash.addSegment(l.dir, h.Segment, now+l.cfg.Load().FileDeleteDelayMs)
	}
	_ = removeSnapshotsBelow(l.e.o.FS, l.path, min(c.first, l.promise.snapshotOffset)) // derived; the next time
}

func (c *cut) failed(base int64, err error) {
	err = c.log.dir.failed("delete segment", err)
	c.log.e.log.Warn("deleting a segment failed", "partition", c.log.tp.String(), "segment", base, "err", err)
}

func (c *cut) release(from int) {
	for _, h := range c.segs[from:] {
		h.Release()
	}
}

// removeLeftovers removes the segments below the log start that the start has found, if nothing of them is needed any more; else retention does it.
func (l *Log) removeLeftovers() error {
	l.maint.Lock()
	defer l.maint.Unlock()
	if l.leftovers == nil || l.Err() != nil || l.durableMark() < l.segs.Load().list[0].Base() {
		return nil
	}
	for _, base := range l.leftovers {
		if err := l.removeSegmentFiles(base); err != nil {
			return err
		}
	}
	l.leftovers = nil
	return nil
}

// removeSnapshot removes one producer snapshot; it is a derived file, so a failure only leaves it behind.
func (l *Log) removeSnapshot(offset int64) {
	_ = l.e.o.FS.Remove(filepath.Join(l.path, snapshotFileName(offset)))
}

// DeleteRecords raises the log start offset to upTo (-1: the high watermark) durably and returns it. A value below the present log start changes
// nothing. ErrOffsetOutOfRange above the high watermark.
func (l *Log) DeleteRecords(upTo int64) (logStart int64, err error) {
	l.maint.Lock()
	defer l.maint.Unlock()
	if err := l.Err(); err != nil {
		return -1, err
	}
	if cfg := l.cfg.Load(); cfg.Compact && !cfg.Delete {
		return -1, ErrPolicyViolation
	}
	hw := l.hw.Load()
	if upTo == -1 {
		upTo = hw
	}
	if upTo < 0 || upTo > hw {
		return -1, ErrOffsetOutOfRange
	}
	if !l.raiseStart(upTo) {
		return l.logStart.Load(), l.Err()
	}
	if err := l.dir.writeCheckpoints(ckptLogStart); err != nil {
		return -1, err
	}
	l.e.log.Info("records deleted on request", "partition", l.tp.String(), "logStart", upTo)
	return upTo, nil
}
