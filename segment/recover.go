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
	// Damaged: the valid batches end below what was promised. Nothing was cut, and the segment takes no Append.
	Damaged bool
}

// openActive opens the files for writing and finds the end of the data. It changes nothing when there is something behind the end.
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
	w, err := s.findEnd(f, size)
	if err != nil {
		return err
	}
	s.allocated = size
	s.unclean = size > w.end
	if !s.unclean {
		if w, err = s.restore(f, size, size, nil); err != nil {
			return err
		}
		s.unclean = size > w.end // to make an index again, all was read, and something below the last entry is damaged
	}
	s.publishWalk(&w)
	return nil
}

// findEnd walks from the last index entry that agrees with the data to the end of the valid batches. An entry agrees when the header it points to
// does; when the batch behind it did not reach the disk as a whole, the walk begins an entry earlier: it must see a valid batch to know what comes next.
func (s *Segment) findEnd(f vfs.File, size int64) (walked, error) {
	n, err := s.proven(f, size)
	if err != nil {
		return walked{}, err
	}
	r := newBatches(f, size)
	defer r.close()
	for ; ; n-- {
		pos := int64(0)
		if n > 0 {
			e, err := s.offsets.Load().Entry(n - 1)
			if err != nil {
				return walked{}, err
			}
			pos = int64(e.Position)
		}
		s.checked.trust(pos)
		w, err := s.walk(&r, walked{end: pos, next: s.base}, func(record.Batch, *walked) error { return nil })
		if err != nil || w.batches > 0 || n == 0 {
			return w, err
		}
	}
}

// openIndexes opens both indexes for writing. One that is missing starts empty, which restore sees.
func (s *Segment) openIndexes() error {
	offsets, _, err := index.OpenOffset(s.o.FS, s.path(IndexSuffix), s.base, s.o.indexMaxBytes())
	if errors.Is(err, fs.ErrNotExist) {
		offsets, err = index.CreateOffset(s.o.FS, s.path(IndexSuffix), s.base, s.o.indexMaxBytes())
	}
	if err != nil {
		return err
	}
	times, _, err := index.OpenTime(s.o.FS, s.path(TimeIndexSuffix), s.base, s.o.indexMaxBytes())
	if errors.Is(err, fs.ErrNotExist) {
		times, err = index.CreateTime(s.o.FS, s.path(TimeIndexSuffix), s.base, s.o.indexMaxBytes())
	}
	if err != nil {
		discard(offsets)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	discard(s.offsets.Swap(offsets))
	discard(s.times.Swap(times))
	return nil
}

// walked is what a scan of whole batches up to the end finds.
type walked struct {
	end, next int64
	batches   int
	first     Entry // the batch at position 0, if it was seen
	why       error // what ended it; nil at the end of the file
}

// restore makes indexes and builder what they are after appending all valid batches up to size. Index entries for positions below from are
// kept if they prove good, all others are made again. visit is called for the valid batches at from and behind it.
func (s *Segment) restore(f vfs.File, size, from int64, visit func(b record.Batch, pos int64) error) (walked, error) {
	if err := s.offsets.Load().TruncateToPosition(from); err != nil {
		return walked{}, err
	}
	good, err := s.resume(f, size)
	if err != nil {
		return walked{}, err
	}
	if good {
		w, err := s.walkOn(f, size, from, from, visit)
		if err != errSparse {
			return w, err
		}
	}
	if err := s.rebuildBelow(f, size, from); err != nil {
		return walked{}, err
	}
	return s.walkOn(f, size, 0, from, visit)
}

// errSparse says that an index lacks an entry below the position up to which it must be complete.
var errSparse = errors.New("segment: index lacks entries")

// resume sets the builder to the state it had right before the batch of the last offset entry. good is false when the indexes do not agree
// with the data or each other, so that they have to be rebuilt.
func (s *Segment) resume(f vfs.File, size int64) (good bool, err error) {
	offsets, times := s.offsets.Load(), s.times.Load()
	n, err := s.proven(f, size)
	if err != nil || n < offsets.Entries() {
		return false, err
	}
	s.builder.reset(s.base)
	last, found := offsets.Last()
	if !found {
		return true, times.Reset()
	}
	// What Seal added behind the last offset entry is found again by the walk.
	if err := times.TruncateTo(last.Offset + 1); err != nil {
		return false, err
	}
	h := newHeaders(f, size)
	defer h.close()
	s.builder.seed(&h, times.Last())
	if s.knownMax(times.Last(), last) {
		return true, nil
	}
	return s.timesComplete(&h, times.Last(), int64(last.Position))
}

// knownMax tells whether the last time entry holds the largest timestamp of the whole segment, as it was noted by somebody who knew: then there cannot be a later
// one behind it. It spares the walk of timesComplete, which is long when timestamps stay the same.
func (s *Segment) knownMax(t index.TimeEntry, last index.OffsetEntry) bool {
	s.stat.Lock()
	defer s.stat.Unlock()
	return s.stat.maxKnown && t.Timestamp >= 0 && t.Timestamp == s.stat.maxTimestamp && t.Offset == s.stat.maxOffset && t.Offset <= last.Offset
}

// timesComplete tells whether the last time entry is true, and no later timestamp comes behind it up to the batch at upTo: what must hold
// right after that batch got its entries. The walk is short unless timestamps go back for long.
func (s *Segment) timesComplete(h *headers, t index.TimeEntry, upTo int64) (bool, error) {
	pos := int64(0)
	if t.Timestamp >= 0 {
		var err error
		if pos, err = startOf(h, s.offsets.Load(), t.Offset); err != nil {
			return false, err
		}
	}
	proven := t.Timestamp < 0
	for {
		b, size, err := h.at(pos)
		switch {
		case err == io.EOF || err != nil && notABatch(err):
			return false, nil
		case err != nil:
			return false, err
		case b.LastOffset() == t.Offset && b.MaxTimestamp() == t.Timestamp:
			proven = true
		case movesTime(b) && b.MaxTimestamp() > s.builder.maxTimestamp:
			return false, nil
		}
		switch {
		case pos == upTo:
			return proven, nil
		case pos+int64(size) > upTo:
			return false, nil // a length below upTo is damaged: no batch ends where the one at upTo begins
		}
		pos += int64(size)
	}
}

// walkOn scans from the last offset entry to the end of the valid batches and adds the entries behind it; errSparse when one is due below
// complete, or when the batch of the last entry is not valid. visit is called from position from on.
func (s *Segment) walkOn(f vfs.File, size, complete, from int64, visit func(b record.Batch, pos int64) error) (walked, error) {
	r := newBatches(f, size)
	defer r.close()
	start := walked{next: s.base}
	if last, found := s.offsets.Load().Last(); found {
		start.end = int64(last.Position)
	}
	w, err := s.walk(&r, start, func(b record.Batch, w *walked) error {
		e := EntryOf(b)
		if s.index(&e, w.end) && w.end < complete {
			return errSparse
		}
		if visit == nil || w.end < from {
			return nil
		}
		return visit(b, w.end)
	})
	if err == nil && w.batches == 0 && start.end > 0 {
		// The batch the walk began at is itself not whole, so nothing says what comes before it.
		err = errSparse
	}
	if err != nil {
		return w, err
	}
	// There may be an entry of the first batch though that is not whole.
	if err := s.offsets.Load().TruncateToPosition(w.end); err != nil {
		return w, err
	}
	return w, s.times.Load().TruncateTo(w.next)
}

// rebuildBelow makes both indexes again up to position from and puts them in place durably: they are to be trusted after the next unclean
// stop. If that is not possible (a full disk must not keep a log from starting) they start empty, and stay sparse.
func (s *Segment) rebuildBelow(f vfs.File, size, from int64) error {
	r := newBatches(f, min(size, from))
	defer r.close()
	var ix indexer
	ix.reset(s.base)
	offsets, times := index.NewOffsetImage(s.base), index.NewTimeImage(s.base)
	_, err := s.walk(&r, walked{next: s.base}, func(b record.Batch, w *walked) error {
		e := EntryOf(b)
		if ix.add(&e, s.o.IndexIntervalBytes) {
			offsets.Add(e.LastOffset, int32(w.end))
			times.MaybeAdd(ix.maxTimestamp, ix.maxOffset)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.noteIndexErr(offsets.Store(s.o.FS, s.path(IndexSuffix)))
	s.noteIndexErr(times.Store(s.o.FS, s.path(TimeIndexSuffix)))
	if err := s.openIndexes(); err != nil {
		return err
	}
	good, err := s.resume(f, size)
	if err != nil || good {
		return err
	}
	s.builder.reset(s.base)
	return errors.Join(s.offsets.Load().Reset(), s.times.Load().Reset())
}

// proven returns how many offset entries, from the first, point to a batch header that ends with the entry's offset. Entries are good up to
// some point and not behind it (the data there never reached the disk), except for chance: so search, then step back.
func (s *Segment) proven(f vfs.File, size int64) (int, error) {
	offsets := s.offsets.Load()
	h := newHeaders(f, size)
	defer h.close()
	var failure error
	agrees := func(i int) bool {
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
	if n == 0 || agrees(n-1) {
		return n, failure
	}
	n = sort.Search(n, func(i int) bool { return !agrees(i) })
	for n > 0 && !agrees(n-1) {
		n--
	}
	return n, failure
}

// walk scans valid batches from w.end, a batch boundary, on and calls fn for each with what was found before it. Its error is one of
// reading or of fn; what ended the valid batches is in why.
func (s *Segment) walk(r *batches, w walked, fn func(b record.Batch, w *walked) error) (walked, error) {
	start := w.end
	for {
		b, err := r.at(w.end)
		if err == nil {
			err = s.acceptable(b, w.next, start == 0 || w.end > start)
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
		if err := fn(b, &w); err != nil {
			return w, err
		}
		if w.end == 0 {
			w.first = EntryOf(b)
		}
		w.end += int64(len(b))
		w.next = b.NextOffset()
		w.batches++
	}
}

func (s *Segment) acceptable(b record.Batch, next int64, known bool) error {
	if err := b.Check(); err != nil {
		return err
	}
	return s.follows(b, next, known)
}

// follows checks the offsets of a batch behind which next is due; known: the batch before it was seen, so next is not only a lower bound.
func (s *Segment) follows(b record.Batch, next int64, known bool) error {
	if b.BaseOffset() < next || !s.OffsetFits(b.LastOffset()) || known && s.o.Dense && b.BaseOffset() != next {
		return &OffsetError{Offset: b.BaseOffset(), NextOffset: next, Msg: "it does not follow"}
	}
	return nil
}

func isOffsetError(err error) bool {
	var e *OffsetError
	return errors.As(err, &e)
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
// Index entries before from are kept if they agree with the data and are complete: that is so if SyncIndexes came before from became the
// recovery point, else they are made again, which takes a scan of the whole segment. A second Recover changes nothing. RecoverResult.Size < from means that synced data is gone: the caller decides what that means.
func (s *Segment) Recover(from int64, visit func(b record.Batch, pos int64) error) (RecoverResult, error) {
	return s.RecoverPromised(from, s.base, visit)
}

// RecoverPromised is Recover for a segment whose batches below the offset promised were on stable storage. If the valid batches end before it, what
// follows is damage and no torn tail: the data file is left as it is (RecoverResult.Damaged).
func (s *Segment) RecoverPromised(from, promised int64, visit func(b record.Batch, pos int64) error) (RecoverResult, error) {
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
	w, err := s.restore(f, size, from, s.withTxns(visit))
	if err != nil {
		return RecoverResult{}, err
	}
	result, err := s.judge(f, size, &w)
	if err != nil {
		return result, err
	}
	if result.Damaged = w.next < promised; result.Damaged {
		s.publishWalk(&w)
		return result, nil
	}
	if err := s.cutTxns(w.next); err != nil {
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
	s.flushIndexes()
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
	// Space allocated ahead may be a thousand times more than what was ever written, so only its beginning is looked at: all of it is cut in any case.
	zeros, err := onlyZeros(f, w.end, min(size, w.end+zeroTailBytesMax))
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
	return err == nil && s.acceptable(next, w.next, false) == nil
}
