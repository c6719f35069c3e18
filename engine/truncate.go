package engine

import (
	"io"

	"github.com/leatmq/leat/record"
)

// Truncate cuts the log so that to becomes its end; inside a batch, the batch goes as a whole. ErrBelowHighWatermark below the high watermark (B-D2);
// at or above the end it does nothing.
//
// The order is that of B-C12: first what was promised is lowered, durably, then the data is cut, then the side state follows. A crash at any
// point leaves a log that ends at or above to and whose promises it keeps.
func (l *Log) Truncate(to int64) error {
	l.maint.Lock()
	defer l.maint.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if to >= l.logEnd.Load() {
		return nil
	}
	to, err := l.batchBoundary(to)
	if err != nil {
		return l.readError(err)
	}
	if to < l.hw.Load() || to < l.logStart.Load() {
		return ErrBelowHighWatermark
	}
	m := l.currentMark()
	if err := l.lowerPromise(to); err != nil {
		return err
	}
	l.cuts.Add(1)
	defer l.cuts.Add(1)
	l.logEnd.Store(to) // readers stop before the bytes go
	l.tail.clear()
	if err := l.cutSegments(to); err != nil {
		return l.dir.fail("truncate", err)
	}
	if err := l.cutSideState(to, m); err != nil {
		return l.dir.fail("truncate", err)
	}
	l.requestFlush(to, l.flushGeneration())
	return nil
}

// awaitCut returns the count of cuts when none is under way.
func (l *Log) awaitCut() uint64 {
	if cuts := l.cuts.Load(); cuts&1 == 0 {
		return cuts
	}
	l.mu.Lock() // until it has ended
	defer l.mu.Unlock()
	return l.cuts.Load()
}

// batchBoundary returns the base offset of the batch that contains offset, or offset when none does.
func (l *Log) batchBoundary(offset int64) (int64, error) {
	segs := l.segs.Load()
	h := segs.list[segs.find(offset)]
	if err := h.Load(); err != nil {
		return 0, err
	}
	_, base, _, err := h.PositionOf(offset, h.Size())
	if err == io.EOF {
		return offset, nil
	}
	return min(offset, base), err
}

// lowerPromise takes back that anything at or above to is durable: in memory for running flush rounds, on disk for the next start.
func (l *Log) lowerPromise(to int64) error {
	l.flush.Lock()
	l.flush.gen++
	l.flush.target = min(l.flush.target, to)
	l.flushed.Store(min(l.flushed.Load(), to))
	l.flush.Unlock()
	marked := l.dropMarks(to)
	if l.promise.recoveryPoint.Load() <= to && !marked {
		return nil
	}
	l.promise.recoveryPoint.Store(min(l.promise.recoveryPoint.Load(), to))
	err := l.dir.writeCheckpoints(ckptRecoveryPoint | ckptMarks)
	if err == nil {
		l.marks.mu.Lock()
		l.marks.written = 0
		l.marks.mu.Unlock()
	}
	return err
}

// cutSegments removes the segments at or above to, newest first, and cuts the one that holds it, which is active again.
func (l *Log) cutSegments(to int64) error {
	segs := l.segs.Load()
	keep := segs.find(to)
	if segs.list[keep].Base() == to && keep > 0 {
		keep-- // the log ends exactly where a segment began
	}
	for i := len(segs.list) - 1; i > keep; i-- {
		h := segs.list[i]
		if err := h.Delete(); err != nil {
			return err
		}
		defer h.Release()
	}
	l.segs.Store(&segmentList{append([]*handle(nil), segs.list[:keep+1]...)})
	h := segs.list[keep]
	if err := h.Load(); err != nil {
		return err
	}
	if _, err := h.TruncateTo(to); err != nil {
		return err
	}
	h.sealed.Store(false)
	if err := h.Sync(); err != nil {
		return err
	}
	if err := h.SyncIndexes(); err != nil {
		return err
	}
	return l.syncDir()
}

// cutSideState makes leader epochs and producers those of a log that ends at to. m is the mark from before.
func (l *Log) cutSideState(to int64, m *mark) error {
	if l.epochs.truncateFromEnd(to) {
		l.epochsChangedLocked()
		if err := l.storeEpochs(); err != nil && !isDiskFull(err) {
			return err
		}
	}
	if err := removeSnapshotsAbove(l.e.o.FS, l.path, to); err != nil {
		return err
	}
	base, err := l.producerBase(m, l.segs.Load().list[0].Base(), to, nil)
	if err != nil {
		return err
	}
	l.promise.snapshotOffset = base.newest
	before := l.mu.producers
	l.mu.producers = newProducerTable(l.e.o.Defaults.ProducerIDExpirationMs)
	l.maybeUnstable.Store(true)
	base.use(l.mu.producers)
	err = l.eachBatch(base.offset, to, func(b record.Batch) {
		if b.BaseOffset() >= base.offset {
			l.mu.producers.update(b)
		}
	})
	l.mu.producers.widen(before, to)
	l.mu.producers.removeBelow(l.logStart.Load())
	return err
}
