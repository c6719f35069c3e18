package segment

import (
	"errors"
	"math"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// A segment rests when it has no file open and nothing mapped, though its end is known: it costs its struct only. That is how an idle partition's
// active segment is, from its creation or the start of the broker on, and how any segment becomes when nobody used it for long (Rest). Load, which
// everything that reads or appends calls first, wakes it.
//
// Waking the active segment does what opening it would have done: both indexes are opened and proven, and the batches from the last index entry on are
// read. They must end exactly where the segment was said to end; if they do not, that is damage: what is before it can be read (Damage tells
// why no more), and Append answers ErrFailed. A sealed segment that rests is one that is not loaded.

// End tells where an active segment ends, as somebody noted who knew: State, or the recovery of an earlier run.
type End struct {
	Size, NextOffset int64
	// MaxTimestamp is the largest timestamp, MaxOffset the last offset of the first batch that has it; (-1, base) when there is none.
	MaxTimestamp, MaxOffset int64
}

// State returns the end as it is now. For the writer.
func (s *Segment) State() End {
	s.stat.Lock()
	defer s.stat.Unlock()
	return End{Size: s.size.Load(), NextOffset: s.nextOffset.Load(), MaxTimestamp: s.stat.maxTimestamp, MaxOffset: s.stat.maxOffset}
}

// OpenResting opens an active segment whose file is as long as end says, without reading anything. ok is false, with no segment, when the file is not
// what end describes.
func OpenResting(dir string, base int64, o *Options, end End) (s *Segment, ok bool, err error) {
	s = newSegment(dir, base, o)
	info, err := o.FS.Stat(s.path(LogSuffix))
	if err != nil {
		return nil, false, err
	}
	if info.Size != end.Size || end.Size > math.MaxInt32 || end.NextOffset < base || (end.NextOffset == base) != (end.Size == 0) {
		return nil, false, nil
	}
	s.stat.appendTimeMaxMs = info.ModTime.UnixMilli()
	s.stat.maxTimestamp, s.stat.maxOffset, s.stat.maxKnown = end.MaxTimestamp, end.MaxOffset, true
	s.allocated = end.Size
	s.size.Store(end.Size)
	s.recent.reset(end.NextOffset-base, end.Size)
	s.nextOffset.Store(end.NextOffset)
	s.resting.Store(true)
	return s, true, nil
}

// Resting tells whether the segment has no files open.
func (s *Segment) Resting() bool {
	return s.resting.Load() || s.sealed.Load() && s.nextOffset.Load() < 0 && s.data.Load() == nil
}

// used is set by whoever needs the files; Idle clears it.
func (s *Segment) touch() {
	if !s.used.Load() {
		s.used.Store(true)
	}
}

// Idle tells whether nobody needed the files since the last call.
func (s *Segment) Idle() bool { return !s.used.Swap(false) }

// restingRefs is the reference count while a segment is being put to rest: Acquire waits.
const restingRefs = math.MinInt32 / 2

// Rest closes the files if nobody but the owner has a reference. The caller keeps out the writer and whoever else uses the segment without a reference of
// its own, and has made the data durable. Index entries that are not durable yet are made so. An error leaves the segment as it was.
func (s *Segment) Rest() (done bool, err error) {
	if s.Resting() || s.unclean || s.failed != nil || s.syncErr.Load() != nil || s.damage.Load() != nil {
		return false, nil
	}
	s.waking.Lock()
	defer s.waking.Unlock()
	if !s.refs.CompareAndSwap(1, restingRefs) {
		return false, nil
	}
	defer s.refs.Store(1)
	if s.size.Load() > 0 { // else they are empty
		if err := s.SyncIndexes(); err != nil {
			return false, err
		}
	}
	if s.sealed.Load() {
		s.nextOffset.Store(-1)
	} else {
		s.resting.Store(true)
	}
	return true, s.restFiles()
}

// awaitRest waits until a Rest or wake that is running has ended.
func (s *Segment) awaitRest() {
	s.waking.Lock()
	defer s.waking.Unlock()
}

// restFiles is closeFiles for a segment that will be used again.
func (s *Segment) restFiles() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeFilesLocked()
}

// wake opens the files of an active segment that rests.
func (s *Segment) wake() error {
	s.waking.Lock()
	defer s.waking.Unlock()
	if !s.resting.Load() {
		return nil
	}
	if err := s.wakeFiles(); err != nil {
		_ = s.restFiles() // as it was
		return err
	}
	s.resting.Store(false)
	return nil
}

// restoreSparse is restore for a segment that ends at size. The index may have lost its last entries (they were not durable, and need not be): they
// are added again by a walk from the last one there is, instead of making the whole index again.
func (s *Segment) restoreSparse(f vfs.File, size int64) (walked, error) {
	if err := s.offsets.Load().TruncateToPosition(size); err != nil {
		return walked{}, err
	}
	good, err := s.resume(f, size)
	if err != nil {
		return walked{}, err
	}
	if good {
		w, err := s.walkOn(f, size, 0, size, nil)
		if err != errSparse {
			return w, err
		}
	}
	return s.restore(f, size, size, nil)
}

func (s *Segment) wakeFiles() error {
	f, err := s.file()
	if err != nil {
		return err
	}
	length, err := f.Size()
	if err != nil {
		return err
	}
	if err := s.openIndexes(); err != nil {
		return err
	}
	size, next := s.size.Load(), s.nextOffset.Load()
	w, err := s.restoreSparse(f, min(size, length))
	if err != nil {
		return err
	}
	s.allocated = length
	if w.end != size || w.next != next {
		why := w.why
		if why == nil {
			why = &OffsetError{Offset: w.next, NextOffset: next, Msg: "the segment ended elsewhere"}
		}
		e := &CorruptError{File: s.path(LogSuffix), Pos: w.end, Msg: why.Error()}
		s.damage.Store(e)
		s.failed = errors.Join(ErrFailed, e)
	}
	s.publishWalk(&w)
	return nil
}

// RecoverTail is Open and Recover in one for an active segment whose state was noted when everything below end was on stable storage: only what is behind it is
// read and checked, visit is called for each valid batch there, the file is cut behind the last one, and what was accepted is made durable. No index is
// looked at: the segment rests, and they are put right when it wakes. ok is false, and nothing was changed, when the file does not fit end or its valid batches
// end below the offset promised: Open and Recover then find out what is wrong.
func RecoverTail(dir string, base int64, o *Options, end End, promised int64, visit func(b record.Batch)) (s *Segment, res RecoverResult, ok bool, err error) {
	s = newSegment(dir, base, o)
	info, err := o.FS.Stat(s.path(LogSuffix))
	if err != nil {
		return nil, res, false, err
	}
	s.stat.appendTimeMaxMs = info.ModTime.UnixMilli()
	if info.Size >= end.Size && info.Size <= math.MaxInt32 {
		res, ok, err = s.recoverTail(info.Size, end, promised, visit)
	}
	if closed := s.restFiles(); err == nil {
		err = closed
	}
	if err != nil || !ok {
		return nil, res, false, err
	}
	return s, res, true, nil
}

func (s *Segment) recoverTail(size int64, end End, promised int64, visit func(b record.Batch)) (res RecoverResult, ok bool, err error) {
	f, err := s.file()
	if err != nil {
		return res, false, err
	}
	f.NoReadAhead() // behind the tail is space allocated ahead: megabytes of zeros, which to read and to drop takes longer than all the rest
	ix := indexer{maxTimestamp: end.MaxTimestamp, maxOffset: end.MaxOffset}
	r := newBatches(f, size)
	defer r.close()
	gap := false
	w, err := s.walk(&r, walked{end: end.Size, next: end.NextOffset}, func(b record.Batch, w *walked) error {
		gap = gap || s.o.Dense && b.BaseOffset() != w.next
		e := EntryOf(b)
		ix.add(&e, math.MaxInt)
		visit(b)
		return nil
	})
	if err != nil || gap || w.next < promised {
		return res, false, err
	}
	if res, err = s.judge(f, size, &w); err != nil {
		return res, false, err
	}
	if size > w.end {
		if err := f.Truncate(w.end); err != nil {
			return res, false, err
		}
	}
	if size > w.end || w.batches > 0 {
		if err := s.Sync(); err != nil {
			return res, false, err
		}
	}
	if err := s.cutTxns(w.next); err != nil {
		return res, false, err
	}
	s.allocated = w.end
	s.stat.maxTimestamp, s.stat.maxOffset, s.stat.maxKnown = ix.maxTimestamp, ix.maxOffset, true
	s.size.Store(w.end)
	s.recent.reset(w.next-s.base, w.end)
	s.nextOffset.Store(w.next)
	s.resting.Store(true)
	return res, true, nil
}
