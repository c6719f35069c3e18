package segment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// Reason tells what was behind the last valid batch.
type Reason uint8

const (
	// Clean: nothing.
	Clean Reason = iota
	// ZeroTail: only zeros, space allocated ahead.
	ZeroTail
	// Torn: an incomplete or invalid batch, and no valid batch right behind it: the end of what reached the disk.
	Torn
	// Corrupt: an invalid batch with a valid one right behind it. After a power cut that may be a page that was never written; anywhere
	// else it is damage in the middle of the log, worth a warning.
	Corrupt
	// OffsetOrder: a valid batch whose offset does not follow: left over from before a truncation.
	OffsetOrder
)

var reasonNames = [...]string{"clean", "zero tail", "torn batch", "corrupt batch", "offsets out of order"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// RecoverResult tells what Recover found and did.
type RecoverResult struct {
	Size       int64  // end of the last valid batch: the new end of the segment
	NextOffset int64  // after the last valid batch
	Batches    int    // valid batches scanned, also those before the start position
	CutBytes   int64  // what was behind Size and is cut off; 0 when it was only zeros
	Reason     Reason // what was behind Size
	Detail     string // about the batch that ended the scan; empty when Reason is Clean or ZeroTail
}

// openActive opens the files for writing and finds the end of the data.
func (s *Segment) openActive() error {
	s.mu.Lock()
	f, err := s.fileLocked()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	if err := s.openIndexes(); err != nil {
		return err
	}
	w, err := s.walkFromIndex(f, size, 0, nil)
	if err != nil {
		return err
	}
	s.allocated = size
	s.unclean = size > w.end
	s.publishWalk(&w)
	return nil
}

// openIndexes opens both indexes for writing. One that is missing starts empty; if that is the time index, so does the other, as their
// entries are made together.
func (s *Segment) openIndexes() error {
	name := s.path(IndexSuffix)
	offsets, _, err := index.OpenOffset(s.o.FS, name, s.base, s.o.indexMaxBytes())
	if errors.Is(err, fs.ErrNotExist) {
		offsets, err = index.CreateOffset(s.o.FS, name, s.base, s.o.indexMaxBytes())
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	discard(s.offsets.Swap(offsets))
	s.mu.Unlock()
	return s.openTimeIndex(offsets)
}

func (s *Segment) openTimeIndex(offsets *index.Offset) error {
	name := s.path(TimeIndexSuffix)
	times, damaged, err := index.OpenTime(s.o.FS, name, s.base, s.o.indexMaxBytes())
	if errors.Is(err, fs.ErrNotExist) {
		damaged = true
		times, err = index.CreateTime(s.o.FS, name, s.base, s.o.indexMaxBytes())
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	discard(s.times.Swap(times))
	s.mu.Unlock()
	if damaged {
		return offsets.Reset()
	}
	return nil
}

// walked is what a scan of whole batches up to the end finds.
type walked struct {
	end, next int64
	batches   int
	first     Entry // the batch at position 0, if it was seen
	why       error // what ended it; nil at the end of the file
}

// walkFromIndex scans from the last index entry that agrees with the data to the end of the valid batches, adding index entries. visit
// is called for batches from position from on.
func (s *Segment) walkFromIndex(f vfs.File, size, from int64, visit func(b record.Batch, pos int64) error) (walked, error) {
	start, err := s.resume(f, size)
	if err != nil {
		return walked{}, err
	}
	r := newBatches(f, size)
	defer r.close()
	w, err := s.walk(&r, start, from, visit)
	if err != nil {
		return w, err
	}
	// The entry the scan began at may itself point to a batch that is torn.
	if err := s.offsets.Load().TruncateToPosition(w.end); err != nil {
		return w, err
	}
	return w, s.times.Load().TruncateTo(w.next)
}

// resume drops index entries that disagree with the data and sets the builder to the state it had right before the batch of the last
// remaining entry, whose position it returns.
func (s *Segment) resume(f vfs.File, size int64) (int64, error) {
	if err := s.dropUnproven(f, size); err != nil {
		return 0, err
	}
	times := s.times.Load()
	last, found := s.offsets.Load().Last()
	keep := s.base
	if found {
		keep = last.Offset + 1
	}
	if err := times.TruncateTo(keep); err != nil {
		return 0, err
	}
	s.builder.reset(s.base)
	if !found {
		return 0, nil
	}
	h := newHeaders(f, size)
	defer h.close()
	s.builder.seed(&h, times.Last())
	return int64(last.Position), nil
}

// dropUnproven finds the last index entry that points to a batch header ending with the entry's offset. Entries are good up to some point and
// not behind it (the data there never reached the disk), except for chance: so search, then step back.
func (s *Segment) dropUnproven(f vfs.File, size int64) error {
	offsets := s.offsets.Load()
	h := newHeaders(f, size)
	defer h.close()
	var failure error
	proven := func(i int) bool {
		e, err := offsets.Entry(i)
		if err != nil {
			failure = err
			return false
		}
		b, _, err := h.at(int64(e.Position))
		if err != nil && err != io.EOF && !notABatch(err) {
			failure = err
		}
		return err == nil && b.LastOffset() == e.Offset
	}
	n := offsets.Entries()
	if n == 0 || proven(n-1) {
		return failure
	}
	n = sort.Search(n, func(i int) bool { return !proven(i) })
	for n > 0 && !proven(n-1) {
		n--
	}
	if failure != nil {
		return failure
	}
	if n == 0 {
		return offsets.Reset()
	}
	e, err := offsets.Entry(n)
	if err != nil {
		return err
	}
	return offsets.TruncateTo(e.Offset)
}

// walk scans valid batches from pos, a batch boundary, on. Its error is one of reading or of visit; what ended the valid batches is in why.
func (s *Segment) walk(r *batches, pos, from int64, visit func(b record.Batch, pos int64) error) (walked, error) {
	w := walked{end: pos, next: s.base}
	for {
		b, err := r.at(w.end)
		if err == nil {
			err = s.acceptable(b, w.next)
		}
		switch {
		case err == io.EOF:
			return w, nil
		case err != nil && (notABatch(err) || isOffsetError(err)):
			w.why = err
			return w, nil
		case err != nil:
			return w, err
		}
		if visit != nil && w.end >= from {
			if err := visit(b, w.end); err != nil {
				return w, err
			}
		}
		s.accept(&w, b)
	}
}

func (s *Segment) acceptable(b record.Batch, next int64) error {
	if err := b.Check(); err != nil {
		return err
	}
	if b.BaseOffset() < next || !s.OffsetFits(b.LastOffset()) {
		return &OffsetError{Offset: b.BaseOffset(), NextOffset: next, Msg: "it does not follow"}
	}
	return nil
}

func isOffsetError(err error) bool {
	var e *OffsetError
	return errors.As(err, &e)
}

func (s *Segment) accept(w *walked, b record.Batch) {
	e := EntryOf(b)
	if w.end == 0 {
		w.first = e
	}
	s.index(&e, w.end)
	w.end += int64(len(b))
	w.next = e.LastOffset + 1
	w.batches++
}

func (s *Segment) publishWalk(w *walked) {
	var first *Entry
	if w.first.Size > 0 {
		first = &w.first
	}
	if w.end == 0 {
		s.stat.Lock()
		s.stat.firstKnown = false
		s.stat.Unlock()
	}
	s.publishStat(first, 0)
	s.recent.reset(w.next-s.base, w.end)
	s.nextOffset.Store(w.next)
	s.size.Store(w.end)
}

// Recover makes the segment usable after an unclean stop: it drops all index entries at or behind position from, scans from the last entry
// before it (or the start), checks every batch, stops at the first that is not valid or does not follow, cuts the file there,
// rebuilds the index entries, and makes the result durable: what it accepts nobody can lose any more. visit, if not nil, is called
// for each valid batch from position from on; an error of it ends the recovery and leaves the segment unclean.
//
// Index entries before from are trusted as far as they agree with the data, so SyncIndexes must have come before from became the recovery
// point. A second Recover changes nothing. RecoverResult.Size < from means that synced data is gone: the caller decides what that means.
func (s *Segment) Recover(from int64, visit func(b record.Batch, pos int64) error) (RecoverResult, error) {
	if s.sealed.Load() {
		return RecoverResult{}, ErrSealed
	}
	f, err := s.file()
	if err != nil {
		return RecoverResult{}, err
	}
	size, err := f.Size()
	if err != nil {
		return RecoverResult{}, err
	}
	s.unclean = true
	if err := s.offsets.Load().TruncateToPosition(from); err != nil {
		return RecoverResult{}, err
	}
	w, err := s.walkFromIndex(f, size, from, s.withTxns(visit))
	if err != nil {
		return RecoverResult{}, err
	}
	if err := s.cutTxns(w.next); err != nil {
		return RecoverResult{}, err
	}
	result, err := s.judge(f, size, &w)
	if err != nil {
		return result, err
	}
	return result, s.finishRecovery(f, size, &w)
}

// withTxns cuts the transaction index at the first batch visited: visit adds again what belongs there.
func (s *Segment) withTxns(visit func(b record.Batch, pos int64) error) func(b record.Batch, pos int64) error {
	cut := false
	return func(b record.Batch, pos int64) error {
		if !cut {
			cut = true
			if err := s.cutTxns(b.BaseOffset()); err != nil {
				return err
			}
		}
		if visit == nil {
			return nil
		}
		return visit(b, pos)
	}
}

func (s *Segment) finishRecovery(f vfs.File, size int64, w *walked) error {
	if size > w.end {
		if err := f.Truncate(w.end); err != nil {
			return err
		}
	}
	s.allocated = w.end
	if err := s.Sync(); err != nil {
		return err
	}
	s.unclean = false
	s.publishWalk(w)
	return nil
}

// judge tells what is behind the last valid batch.
func (s *Segment) judge(f vfs.File, size int64, w *walked) (RecoverResult, error) {
	result := RecoverResult{Size: w.end, NextOffset: w.next, Batches: w.batches}
	if w.why == nil {
		return result, nil
	}
	zeros, err := onlyZeros(f, w.end, size)
	if err != nil {
		return result, err
	}
	if zeros {
		result.Reason = ZeroTail
		return result, nil
	}
	result.CutBytes, result.Detail = size-w.end, w.why.Error()
	result.Reason = Torn
	switch {
	case isOffsetError(w.why):
		result.Reason = OffsetOrder
	case s.validBehind(f, size, w):
		result.Reason = Corrupt
	}
	return result, nil
}

// validBehind tells whether the batch at the end, invalid as it is, has a length that leads to a valid batch.
func (s *Segment) validBehind(f vfs.File, size int64, w *walked) bool {
	r := newBatches(f, size)
	defer r.close()
	bad, err := r.at(w.end)
	if err != nil {
		return false
	}
	next, err := r.at(w.end + int64(len(bad)))
	return err == nil && s.acceptable(next, w.next) == nil
}

// TruncateTo removes the batch that contains offset, or the first behind it, and all that follow, and returns the new size. Also a sealed
// segment, which is then written to again. The caller has lowered its durable recovery point to offset or below before, and no reader asks for
// what is cut. Index entries go first, so that after a crash in between they are never ahead of the data.
func (s *Segment) TruncateTo(offset int64) (int64, error) {
	if s.unclean {
		return 0, ErrNotRecovered
	}
	pos, _, _, err := s.PositionOf(offset, s.Size())
	if err == io.EOF {
		return s.size.Load(), nil
	}
	if err != nil {
		return 0, err
	}
	f, err := s.file()
	if err != nil {
		return 0, err
	}
	if err := s.unseal(); err != nil {
		return 0, err
	}
	if err := s.cutIndexes(offset); err != nil {
		return 0, err
	}
	s.size.Store(pos)
	s.recent.reset(0, pos) // finds nothing
	if err := f.Truncate(pos); err != nil {
		s.failed = fmt.Errorf("%w: %w", ErrFailed, err)
		return 0, err
	}
	s.allocated = pos
	w, err := s.walkFromIndex(f, pos, pos, nil)
	if err != nil {
		return 0, err
	}
	if w.end != pos {
		return 0, s.corrupt(w.end, w.why)
	}
	s.publishWalk(&w)
	return pos, nil
}

// unseal makes a sealed segment writable.
func (s *Segment) unseal() error {
	if !s.sealed.Load() {
		return nil
	}
	if err := s.openIndexes(); err != nil {
		return err
	}
	s.sealed.Store(false)
	return nil
}

func (s *Segment) cutIndexes(offset int64) error {
	if err := s.offsets.Load().TruncateTo(offset); err != nil {
		return err
	}
	if err := s.times.Load().TruncateTo(offset); err != nil {
		return err
	}
	return s.cutTxns(offset)
}
