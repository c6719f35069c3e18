package segment

import (
	"io"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/record"
)

// PositionOf finds the batch that contains offset, or the next one if offset lies in a gap: the first batch with a last offset >= offset. It
// must end at or before limit, a batch boundary. io.EOF when there is none; pos is then limit (at most the size).
//
// At the tail, in the last 64 batches, nothing is read. Elsewhere: an index lookup and a few small reads of the data file.
func (s *Segment) PositionOf(offset, limit int64) (pos, batchBase int64, size int, err error) {
	if err := s.Load(); err != nil {
		return 0, 0, 0, err
	}
	limit = min(limit, s.size.Load())
	if offset >= s.nextOffset.Load() {
		return limit, 0, 0, io.EOF
	}
	if rel, pos, end, ok := s.recent.find(offset - s.base); ok {
		if end > limit {
			return limit, 0, 0, io.EOF
		}
		return pos, s.base + rel, int(end - pos), nil
	}
	f, err := s.file()
	if err != nil {
		return 0, 0, 0, err
	}
	h := newHeaders(f, s.size.Load())
	defer h.close()
	start, err := startOf(&h, s.offsets.Load(), offset)
	if err != nil {
		return 0, 0, 0, err
	}
	return s.walkTo(&h, start, offset, limit)
}

// startOf returns a batch boundary at or before the batch that contains offset, from the index if the batch the entry points to agrees.
func startOf(h *headers, offsets *index.Offset, offset int64) (int64, error) {
	e, found, err := offsets.Lookup(offset)
	if err != nil || !found {
		return 0, err
	}
	b, _, err := h.at(int64(e.Position))
	switch {
	case err == nil && b.LastOffset() == e.Offset:
		return int64(e.Position), nil
	case err == nil || err == io.EOF || notABatch(err):
		return 0, nil // damaged in a way that its own order does not show: do without
	}
	return 0, err
}

// walkTo goes from batch to batch until one ends at or behind offset; io.EOF if it does not end by limit.
func (s *Segment) walkTo(h *headers, pos, offset, limit int64) (int64, int64, int, error) {
	next, known := s.base, pos == 0
	for {
		if pos >= limit {
			return limit, 0, 0, io.EOF
		}
		b, size, err := h.at(pos)
		if err == io.EOF {
			return limit, 0, 0, io.EOF
		}
		if err == nil {
			err = s.follows(b, next, known)
		}
		if err != nil {
			if notABatch(err) || isOffsetError(err) {
				err = s.corrupt(pos, err)
			}
			return 0, 0, 0, err
		}
		if b.LastOffset() >= offset {
			if pos+int64(size) > limit {
				return limit, 0, 0, io.EOF
			}
			return pos, b.BaseOffset(), size, nil
		}
		pos += int64(size)
		next, known = b.NextOffset(), true
	}
}

// Hot tells whether PositionOf(offset) does not wait for the disk: offset is near the end of a segment being written, where the index
// and the data are in memory because they were written a moment ago; or the index and the data that a lookup reads are in the page cache.
func (s *Segment) Hot(offset int64) bool {
	x := s.offsets.Load()
	if x == nil {
		return false
	}
	if !s.sealed.Load() && x.Warm(offset) {
		return true
	}
	if !x.Cached() {
		return false
	}
	e, _, err := x.Lookup(offset)
	pos := int64(e.Position)
	return err == nil && s.Cached(pos, min(hotBytes, s.size.Load()-pos))
}

// hotBytes is what must be in the page cache from the batch of an index entry on: where the headers up to the next entry are, nearly always.
const hotBytes = 64 << 10

// ReadAt reads from the data file up to Size; less than len(p) bytes come with io.EOF.
func (s *Segment) ReadAt(p []byte, pos int64) (int, error) {
	f, err := s.file()
	if err != nil {
		return 0, err
	}
	left := max(0, s.size.Load()-pos)
	if int64(len(p)) <= left {
		return f.ReadAt(p, pos)
	}
	n, err := f.ReadAt(p[:left], pos)
	if err == nil {
		err = io.EOF
	}
	return n, err
}

// Fd returns the descriptor of the data file for sendfile; valid as long as the caller holds a reference. False when there is none: read with
// ReadAt, which also tells why.
func (s *Segment) Fd() (uintptr, bool) {
	f, err := s.file()
	if err != nil {
		return 0, false
	}
	return f.Fd()
}

// Cached tells whether reading [pos, pos+n) does not wait for the disk.
func (s *Segment) Cached(pos, n int64) bool {
	f, err := s.file()
	return err == nil && f.Cached(pos, n)
}

// NoReadAhead tells the kernel to read no more of the data file than what it is asked for, from now on.
func (s *Segment) NoReadAhead() {
	if f, err := s.file(); err == nil {
		f.NoReadAhead()
	}
}

// Prefetch asks the kernel to read [pos, pos+n), as far as there is data.
func (s *Segment) Prefetch(pos, n int64) {
	if n = min(n, s.size.Load()-pos); n <= 0 {
		return
	}
	if f, err := s.file(); err == nil {
		f.Prefetch(pos, n)
	}
}

// header reads the header of the batch at pos into a copy.
func (s *Segment) header(pos int64) (record.Batch, error) {
	f, err := s.file()
	if err != nil {
		return nil, err
	}
	h := newHeaders(f, s.size.Load())
	defer h.close()
	b, _, err := h.at(pos)
	if err != nil {
		if notABatch(err) {
			err = s.corrupt(pos, err)
		}
		return nil, err
	}
	return append(record.Batch(nil), b...), nil
}

// FirstTimestamp returns the max timestamp of the first batch, from which time-based rolling counts; false when there is no batch.
func (s *Segment) FirstTimestamp() (ts int64, ok bool, err error) {
	if err := s.Load(); err != nil {
		return 0, false, err
	}
	if s.size.Load() == 0 {
		return 0, false, nil
	}
	s.stat.Lock()
	ts, ok = s.stat.firstTimestamp, s.stat.firstKnown
	s.stat.Unlock()
	if ok {
		return ts, true, nil
	}
	b, err := s.header(0)
	if err != nil {
		return 0, false, err
	}
	s.stat.Lock()
	defer s.stat.Unlock()
	s.stat.firstTimestamp, s.stat.firstKnown = b.MaxTimestamp(), true
	return b.MaxTimestamp(), true, nil
}
