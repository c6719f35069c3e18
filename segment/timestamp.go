package segment

import (
	"errors"
	"io"
	"math"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/record"
)

// MaxTimestamp returns the largest timestamp of the user's records and the last offset of the first batch that has it; (-1, Base) when there
// is none. The first call on a sealed segment may wait for the disk.
func (s *Segment) MaxTimestamp() (ts, lastOffset int64, err error) {
	s.stat.Lock()
	ts, lastOffset, known := s.stat.maxTimestamp, s.stat.maxOffset, s.stat.maxKnown
	s.stat.Unlock()
	if known {
		return ts, lastOffset, nil
	}
	if err := s.Load(); err != nil {
		return index.NoTimestamp, s.base, err
	}
	s.stat.Lock()
	defer s.stat.Unlock()
	return s.stat.maxTimestamp, s.stat.maxOffset, nil
}

// MaxTimestampOffset finds the first record with the largest timestamp among those in batches wholly below upTo.
func (s *Segment) MaxTimestampOffset(upTo int64) (offset, ts int64, found bool, err error) {
	if err := s.Load(); err != nil {
		return -1, -1, false, err
	}
	ts, last, err := s.MaxTimestamp()
	if err != nil || ts < 0 {
		return -1, -1, false, err
	}
	if last >= upTo {
		if ts, err = s.maxTimestampBelow(upTo); err != nil || ts < 0 {
			return -1, -1, false, err
		}
	}
	return s.OffsetForTimestampFrom(ts, s.base, upTo)
}

// maxTimestampBelow is MaxTimestamp of the batches wholly below upTo.
func (s *Segment) maxTimestampBelow(upTo int64) (ts int64, err error) {
	e, err := s.times.Load().Before(upTo)
	if err != nil {
		return -1, err
	}
	ix := indexer{maxTimestamp: e.Timestamp, maxOffset: e.Offset}
	err = s.eachHeader(e.Offset, func(b record.Batch, _ int64, _ int) (bool, error) {
		if b.LastOffset() >= upTo {
			return false, nil
		}
		entry := EntryOf(b)
		ix.add(&entry, math.MaxInt)
		return true, nil
	})
	return ix.maxTimestamp, err
}

// eachHeader calls fn with the header, position and size of batches from about offset on (never later), until it returns false.
func (s *Segment) eachHeader(offset int64, fn func(b record.Batch, pos int64, size int) (more bool, err error)) error {
	f, err := s.file()
	if err != nil {
		return err
	}
	h := newHeaders(f, s.size.Load())
	defer h.close()
	pos, err := startOf(&h, s.offsets.Load(), offset)
	for more := true; more && err == nil; {
		var b record.Batch
		var size int
		if b, size, err = h.at(pos); err == nil {
			more, err = fn(b, pos, size)
		}
		pos += int64(size)
	}
	switch {
	case err == io.EOF:
		return nil
	case err != nil && notABatch(err):
		return s.corrupt(pos, err)
	}
	return err
}

// OffsetForTimestamp finds the first record with an offset below upTo and a timestamp >= ts, and returns its offset and timestamp. It looks into
// compressed batches. Control batches are skipped.
func (s *Segment) OffsetForTimestamp(ts, upTo int64) (offset, foundTs int64, found bool, err error) {
	return s.OffsetForTimestampFrom(ts, s.base, upTo)
}

// OffsetForTimestampFrom is OffsetForTimestamp among the records with offsets >= from, such as the log start offset.
func (s *Segment) OffsetForTimestampFrom(ts, from, upTo int64) (offset, foundTs int64, found bool, err error) {
	if err := s.Load(); err != nil {
		return -1, -1, false, err
	}
	e, err := s.times.Load().Lookup(ts)
	if err != nil {
		return -1, -1, false, err
	}
	q := timeQuery{ts: ts, from: from, upTo: upTo, offset: -1, found: -1}
	err = s.eachHeader(max(e.Offset, from), func(b record.Batch, pos int64, size int) (bool, error) {
		if b.BaseOffset() >= upTo {
			return false, nil
		}
		if b.IsControl() || b.LastOffset() < from || b.MaxTimestamp() < ts || b.Count() == 0 {
			return true, nil
		}
		err := s.lookInside(&q, pos, size)
		return q.offset < 0 && err == nil, err
	})
	if err != nil {
		return -1, -1, false, err
	}
	return q.offset, q.found, q.offset >= 0, nil
}

// timeQuery is a search for the first record in [from, upTo) with a timestamp >= ts. offset and found are -1 until it is found.
type timeQuery struct {
	ts, from, upTo int64
	offset, found  int64
}

var errFound = errors.New("segment: found")

// lookInside reads the batch at pos and looks at its records.
func (s *Segment) lookInside(q *timeQuery, pos int64, size int) error {
	return ignoreFound(s.batchAt(pos, size, func(b record.Batch) error {
		base, baseTs, maxTs := b.BaseOffset(), b.BaseTimestamp(), b.MaxTimestamp()
		appendTime := b.TimestampType() == record.LogAppendTime
		return b.Records(func(r *record.Record) error {
			offset, ts := base+int64(r.OffsetDelta), baseTs+r.TimestampDelta
			if appendTime {
				ts = maxTs
			}
			if ts < q.ts || offset < q.from || offset >= q.upTo {
				return nil
			}
			q.offset, q.found = offset, ts
			return errFound
		})
	}))
}

func ignoreFound(err error) error {
	if errors.Is(err, errFound) {
		return nil
	}
	return err
}

// batchAt reads and checks the batch at pos.
func (s *Segment) batchAt(pos int64, size int, fn func(b record.Batch) error) error {
	f, err := s.file()
	if err != nil {
		return err
	}
	buf := scanPool.Get().(*[scanChunkBytes]byte)
	defer scanPool.Put(buf)
	p := buf[:min(size, len(buf))]
	if size > len(buf) {
		p = make([]byte, size) // a batch header is only believed as far as the file goes
	}
	n, err := readAtMost(f, p, pos)
	if err != nil {
		return err
	}
	b := record.Batch(p[:n])
	if err := b.Check(); err != nil {
		return s.corrupt(pos, err)
	}
	return fn(b)
}
