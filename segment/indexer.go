package segment

import "github.com/leatmq/leat/index"

// indexer decides when a batch gets an index entry and keeps the running maximum of the timestamps. The same for appending, recovery and
// rebuilding, so that all make the same entries.
type indexer struct {
	bytesSince   int64 // since the last entry
	maxTimestamp int64
	maxOffset    int64 // last offset of the first batch with maxTimestamp
}

func (x *indexer) reset(base int64) { *x = indexer{maxTimestamp: index.NoTimestamp, maxOffset: base} }

// seed sets the running maximum from the last entry of a time index, for a continuation behind the first batch. The time index has no entry
// for timestamp 0 at the base offset, so without an entry the first batch is asked.
func (x *indexer) seed(h *headers, last index.TimeEntry) {
	x.maxTimestamp, x.maxOffset = last.Timestamp, last.Offset
	if last.Timestamp >= 0 {
		return
	}
	b, _, err := h.at(0)
	if err == nil && movesTime(b) && b.MaxTimestamp() == 0 && b.LastOffset() == last.Offset {
		x.maxTimestamp = 0
	}
}

// add counts a batch and tells whether it gets an entry.
func (x *indexer) add(e *Entry, intervalBytes int) (due bool) {
	if !e.Control && e.MaxTimestamp > x.maxTimestamp {
		x.maxTimestamp, x.maxOffset = e.MaxTimestamp, e.LastOffset
	}
	due = x.bytesSince > int64(intervalBytes)
	if due {
		x.bytesSince = 0
	}
	x.bytesSince += int64(e.Size)
	return due
}

// index counts a batch at pos and adds its entries if they are due. For the writer.
func (s *Segment) index(e *Entry, pos int64) (due bool) {
	due = s.builder.add(e, s.o.IndexIntervalBytes)
	if due {
		if err := s.addIndexEntries(e.LastOffset, pos); err != nil {
			s.noteIndexErr(err)
		}
	}
	return due
}

// addIndexEntries adds to both or, if the offset index has no room or no space, to none.
func (s *Segment) addIndexEntries(lastOffset, pos int64) error {
	if err := s.offsets.Load().Append(lastOffset, int32(pos)); err != nil {
		return err
	}
	return s.times.Load().MaybeAppend(s.builder.maxTimestamp, s.builder.maxOffset, false)
}

// publishStat makes what the writer counted visible to others.
func (s *Segment) publishStat(first *Entry, nowMs int64) {
	s.stat.Lock()
	defer s.stat.Unlock()
	s.stat.appendTimeMaxMs = max(s.stat.appendTimeMaxMs, nowMs)
	s.stat.maxTimestamp, s.stat.maxOffset, s.stat.maxKnown = s.builder.maxTimestamp, s.builder.maxOffset, true
	if first != nil {
		s.stat.firstTimestamp, s.stat.firstKnown = first.MaxTimestamp, true
	}
}
