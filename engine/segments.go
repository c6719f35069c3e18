package engine

import (
	"sort"
	"sync/atomic"

	"github.com/leatmq/leat/segment"
)

// handle is the engine's view of a segment: the segment and what the engine knows about its life. The log owns the segment's first reference.
type handle struct {
	*segment.Segment
	createdMs int64       // broker time of the creation or, after a restart, of the opening
	sealed    atomic.Bool // trimmed, and data and indexes are durable: the recovery point may pass its end
}

// segmentList is an immutable list of segments, ascending by base offset, never empty while the log is open. Readers load it without a lock
// and take a reference on the segment they want; when that fails the segment has just left the log and they load again.
type segmentList struct {
	list []*handle
}

func (s *segmentList) active() *handle { return s.list[len(s.list)-1] }

// find returns the index of the last segment with base <= offset, 0 when there is none.
func (s *segmentList) find(offset int64) int {
	if last := len(s.list) - 1; s.list[last].Base() <= offset {
		return last // most calls are about the end
	}
	i := sort.Search(len(s.list), func(i int) bool { return s.list[i].Base() > offset })
	return max(i-1, 0)
}

// nextBase returns where segment i ends: the base of the next one, or logEnd for the active one.
func (s *segmentList) nextBase(i int, logEnd int64) int64 {
	if i+1 < len(s.list) {
		return s.list[i+1].Base()
	}
	return logEnd
}

// size returns the bytes of all segments.
func (s *segmentList) size() int64 {
	n := int64(0)
	for _, h := range s.list {
		n += h.Size()
	}
	return n
}

// with returns the list with h behind it.
func (s *segmentList) with(h *handle) *segmentList {
	list := make([]*handle, 0, len(s.list)+1)
	return &segmentList{list: append(append(list, s.list...), h)}
}

// contains tells whether h is still part of the log.
func (s *segmentList) contains(h *handle) bool {
	i := s.find(h.Base())
	return s.list[i] == h
}
