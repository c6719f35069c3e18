package engine

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/leatmq/leat/segment"
)

// Range is a piece of a segment file, made of whole batches except perhaps the last. It holds the segment open until Release. A Range with N 0
// holds nothing; Release is then a no-op.
type Range struct {
	Seg *segment.Segment
	Pos int64 // in the segment's file
	N   int   // bytes
}

// Fd returns the descriptor for sendfile; false when there is none.
func (r Range) Fd() (uintptr, bool) {
	if r.Seg == nil {
		return 0, false
	}
	return r.Seg.Fd()
}

// Cached tells whether the bytes are in the page cache.
func (r Range) Cached() bool { return r.Seg == nil || r.Seg.Cached(r.Pos, int64(r.N)) }

// NoReadAhead tells the kernel to read no more than what it is asked for, from this segment.
func (r Range) NoReadAhead() {
	if r.Seg != nil {
		r.Seg.NoReadAhead()
	}
}

// Prefetch asks the kernel to read n bytes of the segment; off counts from the start of the range, and may lie behind its end.
func (r Range) Prefetch(off, n int) {
	if r.Seg != nil {
		r.Seg.Prefetch(r.Pos+int64(off), int64(n))
	}
}

// ReadAt reads bytes of the range; off counts from its start.
func (r Range) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(r.N) {
		return 0, io.EOF
	}
	short := int64(len(p)) > int64(r.N)-off
	if short {
		p = p[:int64(r.N)-off]
	}
	n, err := r.Seg.ReadAt(p, r.Pos+off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Release gives the segment back. Exactly once.
func (r Range) Release() {
	if r.Seg != nil {
		r.Seg.Release()
	}
}

// Read returns the bytes from the batch that contains offset up to the batch that contains upTo (exclusive), at most maxBytes: the last batch may
// be cut. The first never is: when it does not fit it is returned whole with minOne, and not at all without. Nothing (N 0) when offset is at or above
// upTo. It never crosses a segment, so N may be small though more follows. ErrOffsetOutOfRange below the log start and above the log end.
func (l *Log) Read(offset int64, maxBytes int, upTo int64, minOne bool) (Range, error) {
	if offset < l.logStart.Load() || offset > l.logEnd.Load() {
		return Range{}, ErrOffsetOutOfRange
	}
	if offset >= upTo || maxBytes <= 0 && !minOne {
		return Range{}, l.readable()
	}
	for {
		cuts := l.awaitCut()
		segs := l.segs.Load()
		if segs == nil {
			return Range{}, l.readable()
		}
		r, ok, err := l.readFrom(segs, offset, max(maxBytes, 0), upTo, minOne)
		switch {
		case l.cuts.Load() != cuts:
			r.Release()
			if offset > l.logEnd.Load() {
				return Range{}, ErrOffsetOutOfRange
			}
			continue
		case err != nil:
			return Range{}, l.readError(err)
		case r.N > 0:
			return r, nil
		case offset < l.logStart.Load(): // the segment left the log after the check above
			return Range{}, ErrOffsetOutOfRange
		case ok:
			return r, nil
		}
		if err := l.readable(); err != nil {
			return Range{}, err
		}
	}
}

// readable returns why nothing can be read: nil when the log is only at its end. A log that failed for writing still serves what it has; a closed
// one does not.
func (l *Log) readable() error {
	if err := l.Err(); errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// readFrom reads from the first segment that has a batch at or above offset. ok is false when that segment is no longer part of the log.
func (l *Log) readFrom(segs *segmentList, offset int64, maxBytes int, upTo int64, minOne bool) (r Range, ok bool, err error) {
	for i := segs.find(offset); i < len(segs.list); i++ {
		h := segs.list[i]
		if h.Base() >= upTo {
			return Range{}, true, nil
		}
		if !h.Acquire() {
			return Range{}, false, nil
		}
		r, err := l.readSegment(h, i+1 < len(segs.list), segs.nextBase(i, upTo), offset, maxBytes, upTo, minOne)
		if err == io.EOF { // nothing at or above offset here
			err = l.checkGap(segs, i)
			if err == nil {
				h.Release()
				continue
			}
		}
		if err != nil {
			h.Release()
			return Range{}, true, err
		}
		if r.N == 0 {
			h.Release()
			r.Seg = nil
		}
		return r, true, nil
	}
	if err := l.Err(); err != nil { // a damaged log may end before its end
		return Range{}, true, err
	}
	return Range{}, true, nil
}

// checkGap decides whether it is right that segment i, which is loaded, has nothing at an offset below the next segment. Only compaction makes
// such gaps; without it they are records that were lost.
func (l *Log) checkGap(segs *segmentList, i int) error {
	if i+1 == len(segs.list) || l.gaps.Load() || l.cfg.Load().Compact {
		return nil
	}
	h := segs.list[i]
	if err := h.Damage(); err != nil {
		return err
	}
	next := h.NextOffset()
	if next >= segs.list[i+1].Base() {
		return nil
	}
	return &segment.CorruptError{File: filepath.Join(l.path, logFileName(h.Base())), Pos: h.Size(),
		Msg: fmt.Sprintf("the records from offset %d up to offset %d are missing", next, segs.list[i+1].Base())}
}

// readSegment finds the range in h, whose offsets end at nextBase. io.EOF when h has nothing at or above offset.
func (l *Log) readSegment(h *handle, sealed bool, nextBase, offset int64, maxBytes int, upTo int64, minOne bool) (Range, error) {
	if err := h.Load(); err != nil { // its size is not known before
		return Range{}, err
	}
	if !sealed {
		l.noteActiveDamage(h)
	}
	limit, err := l.endPosition(h, sealed, nextBase, upTo)
	if err != nil {
		return Range{}, err
	}
	pos, ok := l.startPosition(h, offset)
	if ok && pos < limit && limit-pos <= int64(maxBytes) {
		return Range{h.Segment, pos, int(limit - pos)}, nil
	}
	pos, _, first, err := h.PositionOf(offset, limit)
	if err != nil {
		return Range{}, err
	}
	n := min(limit-pos, int64(maxBytes))
	if n < int64(first) { // part of a batch alone is of no use to anyone
		n = 0
		if minOne {
			n = int64(first)
		}
	}
	return Range{h.Segment, pos, int(n)}, nil
}

// startPosition returns where the batch at offset starts when that is known without a lookup.
func (l *Log) startPosition(h *handle, offset int64) (int64, bool) {
	if offset == h.Base() {
		return 0, true
	}
	return l.tail.find(h, offset)
}

// endPosition returns the position in h below which everything is below upTo.
func (l *Log) endPosition(h *handle, sealed bool, nextBase, upTo int64) (int64, error) {
	if sealed && upTo >= nextBase {
		return h.Size(), nil
	}
	if pos, ok := l.tail.find(h, upTo); ok {
		return pos, nil
	}
	pos, _, _, err := h.PositionOf(upTo, h.Size())
	if err == io.EOF { // upTo is the end of the segment
		return pos, nil
	}
	return pos, err
}

// Checked tells whether the bytes of r, which Read returned, were seen to be whole since the log was opened. What this process appended or recovered was;
// what was on disk before is when Check has read it once. Never waits.
func (r Range) Checked() bool { return r.Seg == nil || r.Seg.Checked(r.Pos, int64(r.N)) }

// Check proves the batches of r, which Read returned, by their checksums and offsets, so that damage is never handed to anybody as data. It returns the
// range up to the first bad batch; ErrDamaged when that is the first of all, and r is then released. It reads what was not read since the log was
// opened, and so may wait for the disk.
func (l *Log) Check(r Range) (Range, error) {
	if r.N == 0 || r.Checked() {
		return r, nil
	}
	good, err := r.Seg.Check(r.Pos, r.Pos+int64(r.N))
	if err != nil {
		err = l.readError(err)
	}
	if good > r.Pos {
		r.N = int(min(int64(r.N), good-r.Pos))
		return r, nil
	}
	if err == nil {
		return r, nil
	}
	r.Release()
	return Range{}, err
}

// damagesMax bounds the places of damage that a log remembers having told about.
const damagesMax = 1000

// noteDamage logs damage that was met by a reader, each place once, and counts it.
func (l *Log) noteDamage(err *segment.CorruptError) {
	l.damages.Lock()
	defer l.damages.Unlock()
	if l.damages.places == nil {
		l.damages.places = map[string]bool{}
	}
	place := fmt.Sprintf("%s:%d", err.File, err.Pos)
	if l.damages.places[place] || len(l.damages.places) >= damagesMax {
		return
	}
	l.damages.places[place] = true
	l.e.log.Error("a log is damaged: what is there is not served", "partition", l.tp.String(), "file", err.File, "position", err.Pos, "what", err.Msg)
}

// Damages returns at how many places readers met damage since the log was opened. `leat log verify` finds them all.
func (l *Log) Damages() int {
	l.damages.Lock()
	defer l.damages.Unlock()
	return len(l.damages.places)
}

// readError classifies what reading a segment returned.
func (l *Log) readError(err error) error {
	var corrupt *segment.CorruptError
	if errors.As(err, &corrupt) {
		l.noteDamage(corrupt)
		return &StorageError{Path: l.path, Op: "read", Err: fmt.Errorf("%w: %w", ErrDamaged, err)}
	}
	var gap *DamageError
	if errors.As(err, &gap) {
		return &StorageError{Path: l.path, Op: "read", Err: fmt.Errorf("%w: %w", ErrDamaged, err)}
	}
	if errors.Is(err, ErrStorage) {
		return err
	}
	return &StorageError{Path: l.path, Op: "read", Err: err}
}

// Hot tells whether Read(offset) will find its index in memory, so that it may be done on an event loop.
func (l *Log) Hot(offset int64) bool {
	segs := l.segs.Load()
	if segs == nil {
		return true
	}
	h := segs.list[segs.find(offset)]
	if h == segs.active() {
		if _, ok := l.tail.find(h, offset); ok {
			return true
		}
	}
	if !h.Acquire() {
		return true
	}
	defer h.Release()
	return h.Hot(offset)
}
