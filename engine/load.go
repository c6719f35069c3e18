package engine

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

// load opens the log from its directory. After an unclean stop it scans what lies at or above the recovery point, cuts a torn tail and makes
// durable what it accepts; below the recovery point nothing is scanned and nothing is ever cut. Errors are failures of the directory; damage to
// this log alone makes it a failed log that still reads.
func (l *Log) load(state *dirState) error {
	l.maint.Lock()
	defer l.maint.Unlock()
	var err error
	if l.id, err = readTopicID(l.e.o.FS, l.path); err != nil {
		if !isCorrupt(err) {
			return err
		}
		l.e.log.Warn("the partition's topic id is unreadable; it takes the next one it is created with", "partition", l.tp.String(), "err", err)
	}
	bases, snapshots, err := l.listSegments()
	var damage *DamageError
	if errors.As(err, &damage) {
		l.e.log.Error("a log is damaged: it takes no appends", "partition", l.tp.String(), "err", err)
		l.fail(&StorageError{Path: l.path, Op: "load", Err: damage})
		return nil
	}
	if err != nil {
		return err
	}
	r := loader{l: l, clean: state.clean, recoveryPoint: state.recoveryPoint[l.tp], logStart: state.logStart[l.tp], snapshots: snapshots, marksWhole: state.marksWhole}
	r.checkpointed = r.recoveryPoint
	r.promised = max(r.recoveryPoint, state.highWatermark[l.tp])
	r.useMark(state.marks[l.tp])
	if len(bases) == 0 {
		err = r.empty(state.logStart[l.tp])
	} else {
		err = r.open(bases)
	}
	if err != nil {
		return err
	}
	if l.segs.Load() == nil {
		return nil // all is gone, and said so
	}
	l.compaction.end.Store(state.compacted[l.tp])
	logStart, known := state.logStart[l.tp]
	return r.restore(logStart, known, state.highWatermark[l.tp])
}

// listSegments returns the base offsets of the segments in the directory, ascending, and the offsets of producer snapshots, and removes what an earlier run did
// not get to remove.
func (l *Log) listSegments() (bases, snapshots []int64, err error) {
	entries, err := l.e.o.FS.ReadDir(l.path)
	if err != nil {
		return nil, nil, err
	}
	changed, err := settleSwap(l.e.o.FS, l.path, entries)
	if err == nil && changed {
		entries, err = l.e.o.FS.ReadDir(l.path)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		if entry.Name == compactedFileName {
			l.gaps.Store(true)
		}
		if base, ok := parseBaseOffset(entry.Name, logSuffix); ok && !entry.IsDir {
			bases = append(bases, base)
			continue
		}
		if offset, ok := parseBaseOffset(entry.Name, snapshotSuffix); ok {
			snapshots = append(snapshots, offset)
		}
		if strings.HasSuffix(entry.Name, deletedSuffix) || strings.HasSuffix(entry.Name, ".tmp") {
			if err := l.e.o.FS.Remove(filepath.Join(l.path, entry.Name)); err != nil {
				return nil, nil, err
			}
		}
	}
	slices.Sort(bases)
	return bases, snapshots, nil
}

// removeSegmentFiles unlinks the files of the segment at base.
func (l *Log) removeSegmentFiles(base int64) error {
	for _, name := range []string{logFileName(base), indexFileName(base), timeIndexFileName(base), txnIndexFileName(base)} {
		path := filepath.Join(l.path, name)
		if _, err := l.e.o.FS.Stat(path); err != nil {
			continue
		}
		if err := l.e.o.FS.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func isCorrupt(err error) bool {
	var corrupt *CorruptError
	return errors.As(err, &corrupt)
}

// loader opens one log.
type loader struct {
	l             *Log
	clean         bool
	recoveryPoint int64 // below it everything was durable, and need not be scanned
	// promised is how far the data is known to have been on stable storage: the recovery point, or the high watermark that was checkpointed, which passes
	// only what is flushed. What is not valid below it is damage; above it, the torn tail of an unclean stop.
	promised     int64
	mark         *mark // of this log, if it can be used; recoveryPoint is then at least its offset
	producers    *mark // of this log, also when its segment is gone
	marksWhole   bool  // nothing is wrong with the log state files: a log that has no mark is new, or was cut
	checkpointed int64 // the recovery point of the checkpoint file
	snapshots    []int64
	opened       bool    // by the mark: nothing is open but what was scanned is known
	logStart     int64   // the checkpointed one
	below        []int64 // base offsets of segments that lie below it
	list         []*handle
	recovered    bool // something was scanned
	damage       error
}

// empty handles a directory without segments: one that was being created when the process ended, or one whose data is gone.
func (r *loader) empty(logStart int64) error {
	l := r.l
	if r.promised > 0 {
		r.damaged(r.promised, "there is no segment, though everything below this offset was on stable storage")
		l.fail(&StorageError{Path: l.path, Op: "load", Err: r.damage})
		return nil
	}
	h, err := l.createSegment(l.cfg.Load(), max(0, logStart), l.e.o.Now())
	if err != nil {
		return err
	}
	r.list = []*handle{h}
	l.segs.Store(&segmentList{r.list})
	return l.e.o.FS.SyncDir(l.path)
}

// open opens the segments.
func (r *loader) open(bases []int64) error {
	bases, err := r.dropFailedRolls(bases)
	if err != nil {
		return err
	}
	bases = r.skipBelow(bases)
	if ok, err := r.openMarked(bases); ok || err != nil {
		return err
	}
	if r.mark != nil && !slices.Contains(bases, r.mark.base) {
		r.mark, r.recoveryPoint = nil, r.checkpointed
	}
	first := len(bases) - 1 // to be looked at
	if !r.clean {
		for first > 0 && bases[first] > r.recoveryPoint {
			first--
		}
	}
	for i, base := range bases {
		h, err := r.openSegment(base, i < first)
		if err != nil {
			r.release()
			return err
		}
		r.list = append(r.list, h)
	}
	whole, err := r.whole()
	if err == nil && !whole {
		err = r.recover(first)
	}
	if err != nil {
		r.release()
		return err
	}
	r.l.segs.Store(&segmentList{r.list})
	return nil
}

// dropFailedRolls removes empty segments at the end that are not part of the log. A roll may fail when its data file is there already, and the log goes on in the
// segment it has, beyond where the new one was to begin. The file was removed then, but a power cut may bring it back.
func (r *loader) dropFailedRolls(bases []int64) ([]int64, error) {
	for n := len(bases) - 1; n > 0; n = len(bases) - 1 {
		if r.mark != nil && r.mark.base == bases[n] {
			return bases, nil
		}
		info, err := r.l.e.o.FS.Stat(filepath.Join(r.l.path, logFileName(bases[n])))
		if err != nil {
			return nil, err
		}
		if info.Size > 0 {
			return bases, nil
		}
		beyond, err := r.reachesBeyond(bases[n-1], bases[n])
		if err != nil || !beyond {
			return bases, err
		}
		r.l.e.log.Warn("removing a segment that could not be made", "partition", r.l.tp.String(), "base", bases[n])
		if err := r.l.removeSegmentFiles(bases[n]); err != nil {
			return nil, err
		}
		bases = bases[:n]
	}
	return bases, nil
}

// reachesBeyond tells whether the log is known to go on in the segment at base, beyond offset, or is found to.
func (r *loader) reachesBeyond(base, offset int64) (bool, error) {
	if r.mark != nil && r.mark.base == base && r.mark.offset() > offset {
		return true, nil
	}
	s, err := segment.Open(r.l.path, base, r.l.cfg.Load().segment, true)
	if err != nil {
		return false, err
	}
	defer s.Release()
	if err := s.Load(); err != nil {
		return false, nil // whatever it is, it is met again
	}
	return s.NextOffset() > offset, nil
}

// skipBelow leaves out the segments that end at or below the log start. Their removal had begun, maybe: after a power cut any of them may be gone, so
// they need not follow each other.
func (r *loader) skipBelow(bases []int64) []int64 {
	n := 0
	for n+1 < len(bases) && bases[n+1] <= r.logStart {
		n++
	}
	r.below = bases[:n]
	return bases[n:]
}

// whole tells whether the log can be used as it is: the stop was clean, and the active segment's file indeed ends with its last batch.
func (r *loader) whole() (bool, error) {
	if !r.clean {
		return false, nil
	}
	active := r.list[len(r.list)-1]
	if active.NextOffset() != r.recoveryPoint && r.recoveryPoint > 0 { // a clean stop checkpoints the log end
		r.l.e.log.Warn("the stop was clean but the log does not end where it did: recovering it", "partition", r.l.tp.String(), "end", active.NextOffset(), "was", r.recoveryPoint)
		return false, nil
	}
	info, err := r.l.e.o.FS.Stat(filepath.Join(r.l.path, logFileName(active.Base())))
	if err != nil || info.Size == active.Size() {
		return err == nil, err
	}
	r.l.e.log.Warn("the stop was clean but the log has a tail: recovering it", "partition", r.l.tp.String(), "bytes", info.Size-active.Size())
	return false, nil
}

func (r *loader) release() {
	for _, h := range r.list {
		h.Release()
	}
	r.list = nil
}

func (r *loader) openSegment(base int64, sealed bool) (*handle, error) {
	s, err := segment.Open(r.l.path, base, r.l.segmentOptions(r.l.cfg.Load()), sealed)
	if err != nil {
		return nil, err
	}
	h := &handle{Segment: s, createdMs: r.l.e.o.Now()}
	h.sealed.Store(sealed)
	return h, nil
}

// recover scans the segments from first on. The first batch that is not valid is the end of the log: what follows was never promised.
func (r *loader) recover(first int) error {
	r.recovered = true
	for i := first; i < len(r.list); i++ {
		h := r.list[i]
		from := int64(0)
		if i == first && r.recoveryPoint > h.Base() {
			if !r.reaches(h, r.recoveryPoint) {
				return nil
			}
			pos, err := h.positionOfTail(r.recoveryPoint)
			if err != nil {
				return err
			}
			from = pos
		}
		res, err := h.RecoverPromised(from, min(r.promised, r.nextBase(i)), nil)
		if err != nil {
			return err
		}
		if res.Damaged {
			r.damaged(res.NextOffset, fmt.Sprintf("%s has no valid batch at position %d, though everything below offset %d was on stable storage: %s",
				logFileName(h.Base()), res.Size, r.promised, res.Detail))
			return nil
		}
		r.tellCut(h.Base(), &res)
		if i+1 == len(r.list) {
			break
		}
		if res.CutBytes > 0 || res.NextOffset != r.list[i+1].Base() {
			return r.cutBehind(i, res.NextOffset)
		}
		if err := r.finishSealed(h); err != nil {
			return err
		}
	}
	return r.syncDir()
}

// tellCut logs what a recovery cut off.
func (r *loader) tellCut(base int64, res *segment.RecoverResult) {
	if res.CutBytes > 0 {
		r.l.e.log.Warn("cut the tail of a log that was not on stable storage when the broker stopped", "partition", r.l.tp.String(),
			"segment", base, "offset", res.NextOffset, "bytes", res.CutBytes, "why", res.Detail)
	}
}

// nextBase is the offset at which segment i should end; for the last one there is no limit.
func (r *loader) nextBase(i int) int64 {
	if i+1 < len(r.list) {
		return r.list[i+1].Base()
	}
	return math.MaxInt64
}

// positionOfTail returns where to begin scanning for what was appended at or above an offset. When a page there never reached the disk, the way to
// it may end before it; then it is the beginning of the segment, and the scan tells how far the log goes.
func (h *handle) positionOfTail(offset int64) (int64, error) {
	pos, _, _, err := h.PositionOf(offset, h.Size())
	var corrupt *segment.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return 0, nil
	case err != nil && err != io.EOF:
		return 0, err
	}
	return pos, nil
}

// reaches checks that the log below the recovery point is whole enough to continue it. If not, the damage is noted and nothing is cut.
func (r *loader) reaches(h *handle, recoveryPoint int64) bool {
	next := h.NextOffset()
	if next >= recoveryPoint {
		return true
	}
	r.damaged(next, fmt.Sprintf("%s has no valid batch at position %d, though everything below offset %d was on stable storage",
		logFileName(h.Base()), h.Size(), recoveryPoint))
	return false
}

func (r *loader) damaged(offset int64, msg string) {
	r.damage = &DamageError{Path: r.l.path, Offset: offset, Msg: msg}
	r.l.e.log.Error("a log is damaged: it stays readable where it is whole and takes no appends", "partition", r.l.tp.String(), "offset", offset, "what", msg)
}

// finishSealed does what the background would have done with a segment that was rolled.
func (r *loader) finishSealed(h *handle) error {
	if err := h.Seal(r.l.e.o.Now()); err != nil {
		return err
	}
	if err := h.Sync(); err != nil {
		return err
	}
	if err := h.SyncIndexes(); err != nil {
		return err
	}
	h.sealed.Store(true)
	return nil
}

// cutBehind removes the segments behind i: the log ends in segment i.
func (r *loader) cutBehind(i int, end int64) error {
	for _, h := range r.list[i+1:] {
		r.l.e.log.Warn("removing a segment behind the end of the log", "partition", r.l.tp.String(), "segment", h.Base(), "logEnd", end)
		if err := h.Delete(); err != nil {
			return err
		}
		h.Release()
	}
	r.list = r.list[:i+1]
	return r.syncDir()
}

func (r *loader) syncDir() error { return r.l.e.o.FS.SyncDir(r.l.path) }

// restore sets the offsets and rebuilds the state beside the data.
func (r *loader) restore(logStart int64, known bool, hw int64) error {
	l := r.l
	active := l.segs.Load().active()
	end := active.NextOffset()
	if r.damage != nil {
		end = max(end, r.promised)
	}
	start := max(logStart, r.list[0].Base())
	if known && logStart < start {
		l.e.log.Error("the first segments of a log are missing: it begins where its first file does", "partition", l.tp.String(),
			"logStart", logStart, "file", filepath.Join(l.path, logFileName(r.list[0].Base())))
	}
	if start > end {
		r.damaged(end, fmt.Sprintf("the log ends below its start offset %d", start))
		end = start
	}
	l.logStart.Store(start)
	l.logEnd.Store(end)
	l.flushed.Store(end)
	l.flush.target = end
	l.hw.Store(min(max(hw, start), end))
	if r.damage != nil {
		l.promise.recoveryPoint.Store(r.recoveryPoint)
		l.fail(&StorageError{Path: l.path, Op: "load", Err: r.damage})
	}
	if err := r.restoreSideState(start, end); err != nil {
		return err
	}
	if r.damage != nil {
		return nil
	}
	l.leftovers = r.below
	return r.promise(active, end)
}

// restoreSideState loads the leader epochs and producers and brings them up to end from the batches they have not seen.
func (r *loader) restoreSideState(start, end int64) error {
	if r.opened {
		return r.restoreMarked(start, end)
	}
	l := r.l
	epochs, err := loadEpochs(l.e.o.FS, l.path)
	epochsFrom := end
	if r.recovered {
		epochsFrom = r.recoveryPoint
	}
	switch {
	case r.mark != nil:
		l.epochs = newEpochCache()
		l.epochs.replace(r.mark.epochs)
		l.epochsUnsure.Store(true)
	case err == nil:
		l.epochs = epochs
	case isCorrupt(err):
		l.e.log.Warn("the leader epoch file is unusable and will be rebuilt", "partition", l.tp.String(), "err", err)
	default:
		return err
	}
	if _, ok := l.epochs.latest(); !ok {
		epochsFrom = start
	}
	changed := l.epochs.truncateFromEnd(end)
	changed = l.epochs.truncateFromStart(start) || changed
	if err := removeSnapshotsAbove(l.e.o.FS, l.path, end); err != nil {
		return err
	}
	producersFrom, err := r.restoreProducers(end)
	if err != nil {
		return err
	}
	err = l.eachBatch(min(producersFrom, max(epochsFrom, start)), end, func(b record.Batch) {
		if b.BaseOffset() >= producersFrom {
			l.mu.producers.update(b)
		}
		if e := b.PartitionLeaderEpoch(); e >= 0 && b.LastOffset() >= start {
			if latest, ok := l.epochs.latest(); !ok || e > latest {
				changed = l.epochs.assign(e, b.BaseOffset()) || changed
			}
		}
	})
	l.mu.producers.removeBelow(start)
	l.epochsChangedLocked()
	l.epochsDirty.Store(changed)
	if err != nil {
		l.e.log.Warn("the producers of a log are known only in part: reading its batches failed", "partition", l.tp.String(), "err", err)
	}
	return nil
}

// eachBatch calls fn for every batch with offsets in [from, to).
func (l *Log) eachBatch(from, to int64, fn func(record.Batch)) error {
	if from >= to {
		return nil
	}
	segs := l.segs.Load()
	for i := segs.find(from); i < len(segs.list); i++ {
		h := segs.list[i]
		if h.Base() >= to {
			return nil
		}
		if err := eachBatchOf(h.Segment, from, fn); err != nil {
			return err
		}
	}
	return nil
}

// promise makes the recovery point the log end: what is below it is durable, the data (by Recover, or the clean stop) and what is derived from it.
func (r *loader) promise(active *handle, end int64) error {
	l := r.l
	if r.opened { // the data is durable, but perhaps not what is derived from it. The next start has the mark all the same
		l.promise.recoveryPoint.Store(min(r.checkpointed, end))
		return nil
	}
	if err := l.storeEpochs(); err != nil {
		if !isDiskFull(err) {
			return err
		}
		l.e.log.Warn("writing the leader epochs is put off: the disk is full", "partition", l.tp.String(), "err", err)
		l.promise.recoveryPoint.Store(min(r.recoveryPoint, end))
		return nil
	}
	if r.recovered {
		if err := active.SyncIndexes(); err != nil {
			return err
		}
	}
	l.promise.recoveryPoint.Store(end)
	return nil
}
