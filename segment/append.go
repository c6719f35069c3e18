package segment

import (
	"fmt"
	"math"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// Entry describes one batch of an Append.
type Entry struct {
	BaseOffset, LastOffset int64
	MaxTimestamp           int64
	Size                   int
	Control                bool // control batches do not move the time index, nor do batches that compaction left without records
}

// EntryOf describes b.
func EntryOf(b record.Batch) Entry {
	return Entry{
		BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(), MaxTimestamp: b.MaxTimestamp(), Size: b.SizeInBytes(), Control: !movesTime(b),
	}
}

// movesTime tells whether the timestamps of b count for the time index: whether they are those of a user's records.
func movesTime(b record.Batch) bool { return !b.IsControl() && b.Count() > 0 }

// Append writes the batches in bufs, described in order by entries, at the end, and returns the position of the first. Their offsets must
// follow the segment's (gaps are allowed). On error nothing was appended: what was written is cut off again, or the segment is failed.
// nowMs is the broker's time.
func (s *Segment) Append(bufs [][]byte, entries []Entry, nowMs int64) (pos int64, err error) {
	if err := s.Load(); err != nil {
		return s.size.Load(), err
	}
	pos = s.size.Load()
	if err := s.appendable(); err != nil {
		return pos, err
	}
	next := s.nextOffset.Load()
	total, err := s.checkEntries(entries, next)
	if err != nil {
		return pos, err
	}
	if invariant.Enabled {
		checkBuffers(bufs, entries, total)
	}
	if pos+total > math.MaxInt32 {
		return pos, ErrFull
	}
	f, err := s.file()
	if err != nil {
		return pos, err
	}
	if err := s.reserve(f, pos+total); err != nil {
		return pos, err
	}
	n, err := f.WritevAt(bufs, pos)
	if err != nil { // whatever n says, up to total bytes may have been touched
		s.undo(f, pos, total)
		return pos, err
	}
	if n != total { // a call with arguments allocates even when the condition holds
		invariant.Must(false, "entries describe %d bytes, %d were appended", total, n)
	}
	s.publish(entries, pos, nowMs)
	return pos, nil
}

func (s *Segment) appendable() error {
	switch {
	case s.failed != nil:
		return s.failed
	case s.sealed.Load():
		return ErrSealed
	case s.unclean:
		return ErrNotRecovered
	}
	return nil
}

// checkEntries returns the number of bytes.
func (s *Segment) checkEntries(entries []Entry, next int64) (total int64, err error) {
	for i := range entries {
		e := &entries[i]
		switch {
		case e.BaseOffset < next:
			return 0, &OffsetError{Offset: e.BaseOffset, NextOffset: next, Msg: "offsets go back"}
		case e.LastOffset < e.BaseOffset || e.LastOffset == math.MaxInt64:
			return 0, &OffsetError{Offset: e.BaseOffset, NextOffset: next, Msg: fmt.Sprintf("last offset of the batch is %d", e.LastOffset)}
		case !s.OffsetFits(e.LastOffset):
			return 0, &OffsetError{Offset: e.LastOffset, NextOffset: next, Msg: fmt.Sprintf("too far from base offset %d", s.base)}
		}
		next = e.LastOffset + 1
		total += int64(e.Size)
	}
	return total, nil
}

// checkBuffers proves the entries against the batches when each has its own buffer.
func checkBuffers(bufs [][]byte, entries []Entry, total int64) {
	var n int64
	for _, b := range bufs {
		n += int64(len(b))
	}
	invariant.Check(n == total, "entries describe %d bytes, there are %d", total, n)
	if len(bufs) != len(entries) {
		return
	}
	for i, e := range entries {
		if b := record.Batch(bufs[i]); len(b) == e.Size && len(b) >= record.HeaderSize {
			invariant.Check(EntryOf(b) == e, "entry %+v does not describe its batch %+v", e, EntryOf(b))
		}
	}
}

// publish makes the written batches visible: indexes, then the size, then the short cut for the tail.
func (s *Segment) publish(entries []Entry, pos, nowMs int64) {
	if len(entries) == 0 {
		return
	}
	var first *Entry
	if pos == 0 {
		first = &entries[0]
	}
	next, end := s.nextOffset.Load(), pos
	gap := false
	for i := range entries {
		e := &entries[i]
		s.index(e, end)
		end += int64(e.Size)
		gap = gap || e.BaseOffset != next
		next = e.LastOffset + 1
	}
	s.publishStat(first, nowMs)
	s.nextOffset.Store(next)
	s.size.Store(end)
	s.remember(entries, pos, gap)
}

func (s *Segment) remember(entries []Entry, pos int64, gap bool) {
	if gap {
		last := entries[len(entries)-1].LastOffset + 1
		s.recent.reset(last-s.base, s.size.Load())
		return
	}
	for i := range entries {
		pos += int64(entries[i].Size)
		s.recent.add(entries[i].LastOffset+1-s.base, pos)
	}
}

// reserve makes sure that the file has space up to end.
func (s *Segment) reserve(f vfs.File, end int64) error {
	if end <= s.allocated || s.o.PreallocStep < 0 {
		return nil
	}
	next := end
	if s.o.Sparing == nil || !s.o.Sparing() {
		next = s.allocationTarget(end)
	}
	err := f.Allocate(s.allocated, next-s.allocated)
	if err != nil && next > end {
		// The disk may have room for the data if not for a step ahead.
		next = end
		err = f.Allocate(s.allocated, next-s.allocated)
	}
	if err != nil {
		// Give back what was allocated in part; a failure only wastes space, zeros behind the end are harmless.
		_ = f.Truncate(s.allocated)
		return err
	}
	s.allocated = next
	return nil
}

func (s *Segment) allocationTarget(end int64) int64 {
	first := s.o.PreallocStep
	if first == 0 {
		first = preallocStepDefault
	}
	step := max(first, min(s.allocated, preallocStepMax))
	next := (s.allocated + step + preallocAlign - 1) &^ (preallocAlign - 1)
	return max(end, min(next, int64(s.o.MaxBytes)))
}

// undo makes the n bytes of a failed append at the end unreadable, durably, so that no recovery finds them behind what is appended next: the
// file is cut there, or else zeroed. If neither works the segment is failed.
func (s *Segment) undo(f vfs.File, end, n int64) {
	err := f.Truncate(end)
	if err == nil {
		s.allocated = end
	} else {
		err = writeZeros(f, end, n)
	}
	if err == nil {
		err = s.Sync()
	}
	if err != nil {
		s.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	}
}

func writeZeros(f vfs.File, off, n int64) error {
	zeros := make([]byte, min(n, 64<<10))
	for n > 0 {
		here := min(n, int64(len(zeros)))
		if _, err := f.WriteAt(zeros[:here], off); err != nil {
			return err
		}
		off, n = off+here, n-here
	}
	return nil
}
