package engine

import (
	"encoding/binary"
	"math"
	"sort"

	"github.com/leatmq/leat/record"
)

// survivors decides what compaction leaves of a log: a function of its batches, passed in order, and of what is known beforehand. It has no clock, file or lock.
//
// A record stays if
//
//   - its offset is at or above end: nothing is known of what comes after, so nothing is done;
//   - or its batch is a control batch. Markers have no keys (R11, C5);
//   - or no record below end with its key has a greater offset, and it is no tombstone whose delete horizon has passed.
//
// Records of aborted transactions go. Records without a key go: whoever compacts a log they are in says that only keys count.
//
// The delete horizon (KIP-534): the first time a batch with a tombstone is passed, now + delete.retention.ms becomes its base timestamp. By then every
// older record with the key has gone, from then on everybody has that long to see that it has. The same for the marker of a transaction of which no batch is
// left. A horizon never moves.
//
// A batch of which no record stays goes, unless
//
//   - it is the last one of a producer that the log knows: it carries the producer's epoch and last sequence number;
//   - or its caller says that it must stay (the last one of a segment that is being made, so that segments end where the next ones begin).
//
// Then its header stays, without records.
type survivors struct {
	keys        *keyMap // the latest offsets in the range of the round, below end
	end         int64
	nowMs       int64
	retentionMs int64
	inflateMax  int64
	level       func(record.Codec) int
	last        map[int64]lastBatch  // of the log's producers
	aborted     map[int64][]txnRange // by producer, in order

	withData map[int64]bool // producers of which a batch of the transaction being passed was seen
	filter   record.Filter
	empty    []byte

	// horizonMs is the earliest delete horizon seen that has not passed; 0: none.
	horizonMs int64
	kept      int64 // records
	dropped   int64
}

// lastBatch is what a producer wrote last.
type lastBatch struct {
	offset int64 // its last data batch ends there; noOffset when only markers are known
	epoch  int16
}

// pass returns what is left of b: b itself if that is everything, nil if it is nothing. The result is valid until the next call.
func (s *survivors) pass(b record.Batch, mustStay bool) (record.Batch, error) {
	markerOnly := false // a marker whose transaction has nothing else left
	if b.IsControl() {
		markerOnly = s.passMarker(b)
	} else if b.IsTransactional() {
		s.noteData(b.ProducerID())
	}
	aborted := b.IsTransactional() && isAborted(s.aborted, b)
	switch {
	case b.BaseOffset() >= s.end, b.LastOffset() >= s.end && (b.IsControl() || aborted):
		return s.whole(b), nil
	case b.Count() == 0 || aborted && !b.IsControl():
		return s.gone(b, mustStay), nil
	case b.IsControl():
		return s.control(b, markerOnly, mustStay)
	}
	return s.data(b, mustStay)
}

func (s *survivors) noteData(producerID int64) {
	if s.withData == nil {
		s.withData = map[int64]bool{}
	}
	s.withData[producerID] = true
}

// passMarker notes the end of a transaction and tells whether none of its batches is left.
func (s *survivors) passMarker(b record.Batch) (markerOnly bool) {
	kind, ok := controlType(b)
	if !ok || kind != markerAbort && kind != markerCommit {
		return false
	}
	had := s.withData[b.ProducerID()]
	delete(s.withData, b.ProducerID())
	return !had
}

func (s *survivors) control(b record.Batch, markerOnly, mustStay bool) (record.Batch, error) {
	switch {
	case !markerOnly:
		return s.whole(b), nil
	case s.horizonPassed(b):
		return s.gone(b, mustStay), nil
	case b.HasDeleteHorizon():
		return s.whole(b), nil
	}
	if _, err := s.filter.Run(b, s.inflateMax, func(*record.Record) bool { return true }); err != nil {
		return nil, err
	}
	return s.rewrite(b, s.newHorizon())
}

func (s *survivors) data(b record.Batch, mustStay bool) (record.Batch, error) {
	base, deletes := b.BaseOffset(), s.horizonPassed(b)
	res, err := s.filter.Run(b, s.inflateMax, func(r *record.Record) bool {
		offset := base + int64(r.OffsetDelta)
		switch {
		case offset >= s.end:
			return true
		case r.KeyNull() || r.ValueNull() && deletes:
			return false
		}
		return offset >= s.keys.latest(hashKey(r.Key))
	})
	if err != nil {
		return nil, err
	}
	// A batch that goes on behind the end may have tombstones there that do not count yet.
	fresh := res.Tombstones && !b.HasDeleteHorizon() && b.LastOffset() < s.end
	switch {
	case res.Kept == 0:
		return s.gone(b, mustStay), nil
	case fresh:
		s.dropped += int64(res.Dropped)
		return s.rewrite(b, s.newHorizon())
	case res.Dropped > 0:
		s.dropped += int64(res.Dropped)
		return s.rewrite(b, -1)
	}
	return s.whole(b), nil
}

func (s *survivors) rewrite(b record.Batch, horizonMs int64) (record.Batch, error) {
	out, err := s.filter.Rewrite(b, horizonMs, s.level(b.Codec()))
	if err != nil {
		return nil, err
	}
	return s.whole(out), nil
}

func (s *survivors) newHorizon() int64 {
	if s.retentionMs > math.MaxInt64-s.nowMs {
		return math.MaxInt64
	}
	return s.nowMs + s.retentionMs
}

func (s *survivors) horizonPassed(b record.Batch) bool {
	return b.HasDeleteHorizon() && b.BaseTimestamp() <= s.nowMs
}

// whole notes that b stays as it is.
func (s *survivors) whole(b record.Batch) record.Batch {
	s.kept += int64(b.Count())
	if h := b.BaseTimestamp(); b.HasDeleteHorizon() && h > s.nowMs && (s.horizonMs == 0 || h < s.horizonMs) {
		s.horizonMs = h
	}
	return b
}

// gone returns what stays of b when its records do not.
func (s *survivors) gone(b record.Batch, mustStay bool) record.Batch {
	s.dropped += int64(b.Count())
	switch {
	case !mustStay && !s.isLast(b):
		return nil
	case b.Count() == 0:
		return b
	}
	s.empty = record.AppendEmpty(s.empty[:0], b)
	return s.empty
}

// isLast tells whether b is what its producer wrote last.
func (s *survivors) isLast(b record.Batch) bool {
	if b.ProducerID() < 0 {
		return false
	}
	last, known := s.last[b.ProducerID()]
	switch {
	case !known:
		return false
	case last.offset == noOffset:
		return b.IsControl() && b.ProducerEpoch() == last.epoch
	}
	return b.LastOffset() == last.offset
}

// isAborted tells whether b, a batch of a transaction, is in one of the ranges of aborted ones.
func isAborted(aborted map[int64][]txnRange, b record.Batch) bool {
	ranges := aborted[b.ProducerID()]
	offset := b.BaseOffset()
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].marker > offset })
	return i < len(ranges) && ranges[i].first <= offset
}

// controlType returns the type of the first record of a control batch; false when it has none.
func controlType(b record.Batch) (kind uint16, ok bool) {
	if !b.IsControl() || b.Count() == 0 {
		return 0, false
	}
	err := b.Records(func(r *record.Record) error {
		if !ok && len(r.Key) >= markerKeySize {
			kind, ok = binary.BigEndian.Uint16(r.Key[2:]), true
		}
		return nil
	})
	return kind, ok && err == nil
}

// txnScan finds the aborted transactions in a range of a log from its batches, passed in order: the transaction index is derived from them, and one that is
// missing must not bring aborted records back as committed ones (B-G1).
type txnScan struct {
	end     int64           // transactions that begin at or above it do not matter
	open    map[int64]int64 // producer to the first offset seen
	aborted map[int64][]txnRange
}

func newTxnScan(end int64) *txnScan {
	return &txnScan{end: end, open: map[int64]int64{}, aborted: map[int64][]txnRange{}}
}

// pass takes the next batch; done tells that nothing that comes later matters.
func (t *txnScan) pass(b record.Batch) (done bool) {
	id := b.ProducerID()
	if kind, ok := controlType(b); ok && (kind == markerAbort || kind == markerCommit) {
		first, known := t.open[id]
		if known && kind == markerAbort {
			t.aborted[id] = append(t.aborted[id], txnRange{first: first, marker: b.BaseOffset()})
		}
		delete(t.open, id)
	} else if b.IsTransactional() && !b.IsControl() && b.BaseOffset() < t.end {
		if _, known := t.open[id]; !known {
			t.open[id] = b.BaseOffset()
		}
	}
	return b.NextOffset() >= t.end && len(t.open) == 0
}
