package segment

import (
	"bytes"
	"errors"
	"io"
	"io/fs"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
)

// Load reads what a sealed segment opened from disk has not read yet: it checks both indexes, proves the last entry against the data, walks
// from there to the end, and rebuilds what is missing or wrong. Called by all that needs it; the first call may wait for the disk, and
// for a scan of the batch headers if an index has to be rebuilt.
func (s *Segment) Load() error {
	s.touch()
	if s.resting.Load() {
		return s.wake()
	}
	if s.nextOffset.Load() >= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nextOffset.Load() >= 0 {
		return nil
	}
	if s.mu.closed {
		return ErrClosed
	}
	return s.loadLocked()
}

func (s *Segment) loadLocked() error {
	f, err := s.fileLocked()
	if err != nil {
		return err
	}
	offsets, times, err := s.openSealedLocked()
	if err != nil {
		return err
	}
	h := newHeaders(f, s.size.Load())
	defer h.close()
	t, err := s.tail(&h, offsets, times)
	if err != nil || t.missing {
		// The end is found again by the rebuild, from the start.
		t, err = tail{}, nil
		if kept := s.tailOfDamaged(&h, offsets, times, &t); !kept {
			offsets, times = discard(offsets), discard(times)
		}
	}
	if offsets == nil || times == nil {
		if offsets, times, t, err = s.rebuildLocked(&h, offsets, times); err != nil {
			return err
		}
	}
	if t.damage != nil {
		s.damage.Store(t.damage)
	}
	s.offsets.Store(offsets)
	s.times.Store(times)
	s.stat.Lock()
	s.stat.maxTimestamp, s.stat.maxOffset, s.stat.maxKnown = t.ix.maxTimestamp, t.ix.maxOffset, true
	s.stat.Unlock()
	s.size.Store(t.end)
	s.recent.reset(t.next-s.base, t.end)
	s.nextOffset.Store(t.next)
	return nil
}

// openSealedLocked opens the indexes; nil for one that is missing or not valid.
func (s *Segment) openSealedLocked() (*index.Offset, *index.Time, error) {
	offsets, err := index.OpenSealedOffset(s.o.FS, s.pathLocked(IndexSuffix), s.base)
	if err != nil && !isDerivedDamage(err) {
		return nil, nil, err
	}
	times, err := index.OpenSealedTime(s.o.FS, s.pathLocked(TimeIndexSuffix), s.base)
	if err != nil && !isDerivedDamage(err) {
		discard(offsets)
		return nil, nil, err
	}
	return offsets, times, nil
}

// isDerivedDamage tells whether the error means that an index must be rebuilt, and not that the disk fails.
func isDerivedDamage(err error) bool {
	var corrupt *index.CorruptError
	return errors.As(err, &corrupt) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.ErrUnexpectedEOF)
}

// discard closes an index and returns nil.
func discard[X interface {
	*index.Offset | *index.Time
	Close() error
}](x X) X {
	if x != nil {
		_ = x.Close() // read only and about to be replaced
	}
	return nil
}

// tail is what a walk over the batch headers up to the end finds.
type tail struct {
	end, next int64
	ix        indexer
	missing   bool          // an index lacks an entry it must have, or has one it must not have
	damage    *CorruptError // of the data; end is there
}

// tail walks from the last entry of the offset index. Without indexes there is no tail to look for.
func (s *Segment) tail(h *headers, offsets *index.Offset, times *index.Time) (tail, error) {
	var t tail
	t.ix.reset(s.base)
	if offsets == nil || times == nil {
		t.missing = offsets == nil
		return t, nil
	}
	last := times.Last()
	t.ix.seed(h, last)
	pos := int64(0)
	if e, found := offsets.Last(); found {
		pos = int64(e.Position)
		b, _, err := h.at(pos)
		if err != nil || b.LastOffset() != e.Offset {
			t.missing = true
			return t, nil
		}
	}
	if known, err := s.lastTimeProven(h, offsets, last); err != nil || !known {
		t.missing = true
		return t, err
	}
	err := s.walkHeaders(h, pos, &t, func(*Entry, int64) { t.missing = true })
	// The last time entry is the largest timestamp of the segment, put there by Seal. The one it leaves out is timestamp 0 at the base.
	lateFound := t.ix.maxTimestamp > max(last.Timestamp, 0) || t.ix.maxTimestamp == 0 && t.ix.maxOffset != s.base && last.Timestamp < 0
	t.missing = t.missing || lateFound || last.Offset > max(t.next-1, s.base)
	return t, err
}

// tailOfDamaged finds out whether it is the data and not the indexes that is damaged: both indexes are valid by themselves, and a walk from their last entry
// that agrees with the data meets damage. The indexes are then kept as they are, for they lead around the damage, and t ends at it.
func (s *Segment) tailOfDamaged(h *headers, offsets *index.Offset, times *index.Time, t *tail) bool {
	if offsets == nil || times == nil {
		return false
	}
	t.ix.reset(s.base)
	t.ix.seed(h, times.Last())
	n := offsets.Entries()
	pos := int64(0)
	for ; n > 0; n-- {
		e, err := offsets.Entry(n - 1)
		if err != nil {
			return false
		}
		if b, _, err := h.at(int64(e.Position)); err == nil && b.LastOffset() == e.Offset {
			pos = int64(e.Position)
			break
		}
	}
	err := s.walkHeaders(h, pos, t, func(*Entry, int64) {})
	return errors.As(err, &t.damage)
}

// lastTimeProven tells whether there is a batch that ends with the offset of the last time entry and has its timestamp.
func (s *Segment) lastTimeProven(h *headers, offsets *index.Offset, last index.TimeEntry) (bool, error) {
	if last.Timestamp < 0 {
		return true, nil
	}
	pos, err := startOf(h, offsets, last.Offset)
	if err == nil {
		pos, _, _, err = s.walkTo(h, pos, last.Offset, h.end)
	}
	if err != nil {
		return false, err
	}
	b, _, err := h.at(pos)
	return err == nil && b.LastOffset() == last.Offset && b.MaxTimestamp() == last.Timestamp, err
}

// walkHeaders goes from batch to batch up to the end, counts them, and calls due for those that get an index entry. Zeros up to the end of
// the file are the end; anything else that is no batch is a *CorruptError.
func (s *Segment) walkHeaders(h *headers, pos int64, t *tail, due func(e *Entry, pos int64)) error {
	t.end, t.next = pos, s.base
	for {
		b, size, err := h.at(t.end)
		if err == nil {
			if err := s.follows(b, t.next, pos == 0 || t.end > pos); err != nil {
				return s.corrupt(t.end, err)
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil && notABatch(err):
			return s.zerosOrCorrupt(h, t.end, err)
		case err != nil:
			return err
		}
		e := EntryOf(b)
		if t.ix.add(&e, s.o.IndexIntervalBytes) {
			due(&e, t.end)
		}
		t.end += int64(size)
		t.next = e.LastOffset + 1
	}
}

func (s *Segment) zerosOrCorrupt(h *headers, pos int64, why error) error {
	zeros, err := onlyZeros(h.f, pos, h.end)
	if err != nil {
		return err
	}
	if !zeros {
		return s.corrupt(pos, why)
	}
	return nil
}

// onlyZeros tells whether [from, to) of the file, or as much as there is, is zero.
func onlyZeros(f vfs.File, from, to int64) (bool, error) {
	buf := scanPool.Get().(*[scanChunkBytes]byte)
	defer scanPool.Put(buf)
	for from < to {
		n, err := readAtMost(f, buf[:min(scanChunkBytes, to-from)], from)
		if err != nil {
			return false, err
		}
		if n == 0 {
			return true, nil
		}
		if !allZero(buf[:n]) {
			return false, nil
		}
		from += int64(n)
	}
	return true, nil
}

var zeroPage [4 << 10]byte

func allZero(p []byte) bool {
	for len(p) > len(zeroPage) {
		if !bytes.Equal(p[:len(zeroPage)], zeroPage[:]) {
			return false
		}
		p = p[len(zeroPage):]
	}
	return bytes.Equal(p, zeroPage[:len(p)])
}

// rebuildLocked makes the index that is nil, or both, from the batch headers.
func (s *Segment) rebuildLocked(h *headers, offsets *index.Offset, times *index.Time) (*index.Offset, *index.Time, tail, error) {
	var t tail
	t.ix.reset(s.base)
	offsetImage, timeImage := index.NewOffsetImage(s.base), index.NewTimeImage(s.base)
	err := s.walkHeaders(h, 0, &t, func(e *Entry, pos int64) {
		offsetImage.Add(e.LastOffset, int32(pos))
		timeImage.MaybeAdd(t.ix.maxTimestamp, t.ix.maxOffset)
	})
	if errors.As(err, &t.damage) { // what there is before the damage can be read; an index that ends there must not stay on disk
		discard(offsets)
		discard(times)
		timeImage.MaybeAdd(t.ix.maxTimestamp, t.ix.maxOffset)
		return offsetImage.Open(s.pathLocked(IndexSuffix)), timeImage.Open(s.pathLocked(TimeIndexSuffix)), t, nil
	}
	if err != nil {
		discard(offsets)
		discard(times)
		return nil, nil, t, err
	}
	timeImage.MaybeAdd(t.ix.maxTimestamp, t.ix.maxOffset)
	// A full disk must not keep the segment from being read (E1): the rebuilt index then lives in memory.
	if offsets == nil {
		offsets, err = offsetImage.Install(s.o.FS, s.pathLocked(IndexSuffix))
		s.noteIndexErr(err)
	}
	if times == nil {
		times, err = timeImage.Install(s.o.FS, s.pathLocked(TimeIndexSuffix))
		s.noteIndexErr(err)
	}
	return offsets, times, t, nil
}

func (s *Segment) noteIndexErr(err error) {
	if err != nil {
		s.indexErr.CompareAndSwap(nil, &err)
	}
}

// txnLocked opens the transaction index.
func (s *Segment) txnLocked() (*index.Txn, error) {
	if s.mu.txn != nil {
		return s.mu.txn, nil
	}
	if s.mu.closed {
		return nil, ErrClosed
	}
	x, err := index.OpenTxn(s.o.FS, s.pathLocked(TxnIndexSuffix))
	if err != nil {
		return nil, err
	}
	s.mu.txn = x
	return x, nil
}

func (s *Segment) txn() (*index.Txn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.txnLocked()
}

// AppendAborted adds an aborted transaction, whose marker is in this segment, to the transaction index.
func (s *Segment) AppendAborted(t index.AbortedTxn) error {
	x, err := s.txn()
	if err != nil {
		return err
	}
	return x.Append(t)
}

// AbortedTxns appends to dst the aborted transactions with records in [from, upTo) whose marker is in this segment. complete: no later
// segment has another one. A damaged transaction index is an *index.CorruptError.
func (s *Segment) AbortedTxns(dst []index.AbortedTxn, from, upTo int64) (txns []index.AbortedTxn, complete bool, err error) {
	x, err := s.txn()
	if err != nil {
		return dst, false, err
	}
	txns, complete = x.Collect(dst, from, upTo)
	return txns, complete, nil
}

// cutTxns drops the aborted transactions with a marker at or behind offset; a damaged index keeps its valid prefix.
func (s *Segment) cutTxns(offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.txn == nil {
		x, err := index.OpenTxn(s.o.FS, s.path(TxnIndexSuffix))
		if x == nil {
			return err
		}
		s.mu.txn = x
	}
	return s.mu.txn.TruncateTo(offset)
}
