package engine

import (
	"io"

	"github.com/leatmq/leat/record"
)

// OffsetForTimestamp returns the first record with a timestamp of at least ts below upTo, its own timestamp and its leader epoch.
func (l *Log) OffsetForTimestamp(ts, upTo int64) (offset, foundTs int64, epoch int32, found bool, err error) {
	err = l.eachSegment(upTo, func(h *handle) (done bool, err error) {
		largest, _, err := h.MaxTimestamp()
		if err != nil || largest < ts {
			return false, err
		}
		offset, foundTs, found, err = h.OffsetForTimestampFrom(ts, l.logStart.Load(), upTo)
		return found, err
	})
	return l.timestampAnswer(offset, foundTs, found, err)
}

// MaxTimestampOffset returns the first record with the largest timestamp below upTo.
func (l *Log) MaxTimestampOffset(upTo int64) (offset, foundTs int64, epoch int32, found bool, err error) {
	err = l.eachSegment(upTo, func(h *handle) (bool, error) {
		if largest, _, err := h.MaxTimestamp(); err != nil || found && largest <= foundTs {
			return false, err
		}
		o, ts, ok, err := h.MaxTimestampOffset(upTo)
		if start := l.logStart.Load(); ok && o < start {
			o, ts, ok, err = h.maxTimestampFrom(start, upTo)
		}
		if ok && (!found || ts > foundTs) {
			offset, foundTs, found = o, ts, true
		}
		return false, err
	})
	return l.timestampAnswer(offset, foundTs, found, err)
}

// maxTimestampFrom returns the first record with the largest timestamp in [from, upTo) by looking at all of them: for the segment whose largest
// timestamp was deleted.
func (h *handle) maxTimestampFrom(from, upTo int64) (offset, ts int64, found bool, err error) {
	pos, _, _, err := h.PositionOf(from, h.Size())
	if err != nil {
		if err == io.EOF {
			err = nil
		}
		return -1, -1, false, err
	}
	ts = record.NoTimestamp
	err = h.Batches(pos, h.Size(), func(b record.Batch, _ int64) error {
		if b.IsControl() || b.Count() == 0 || b.MaxTimestamp() <= ts || b.BaseOffset() >= upTo {
			return nil
		}
		appendTime := b.TimestampType() == record.LogAppendTime
		return b.Records(func(r *record.Record) error {
			o, t := b.BaseOffset()+int64(r.OffsetDelta), b.BaseTimestamp()+r.TimestampDelta
			if appendTime {
				t = b.MaxTimestamp()
			}
			if o >= from && o < upTo && t > ts {
				offset, ts, found = o, t, true
			}
			return nil
		})
	})
	if !found {
		offset, ts = -1, -1
	}
	return offset, ts, found, err
}

func (l *Log) timestampAnswer(offset, ts int64, found bool, err error) (int64, int64, int32, bool, error) {
	if err != nil || !found {
		return -1, -1, -1, false, err
	}
	return offset, ts, l.EpochAt(offset), true, nil
}

// eachSegment calls fn for the segments below upTo, oldest first, each under a reference, until fn is done. A segment that retention takes away
// meanwhile is skipped. After an error beside a truncation it begins again.
func (l *Log) eachSegment(upTo int64, fn func(*handle) (done bool, err error)) error {
	for {
		cuts := l.awaitCut()
		segs := l.segs.Load()
		if segs == nil {
			return l.readable()
		}
		err := segs.each(upTo, fn)
		if err == nil {
			return nil
		}
		if l.cuts.Load() == cuts {
			return l.readError(err)
		}
	}
}

func (s *segmentList) each(upTo int64, fn func(*handle) (done bool, err error)) error {
	for _, h := range s.list {
		if h.Base() >= upTo {
			return nil
		}
		if !h.Acquire() {
			continue
		}
		done, err := fn(h)
		h.Release()
		if err != nil || done {
			return err
		}
	}
	return nil
}
