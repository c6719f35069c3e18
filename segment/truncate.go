package segment

import (
	"fmt"
	"io"
)

// TruncateTo removes the batch that contains offset, or the first behind it, and all that follow, and returns the new size. Also a sealed
// segment, which is then written to again, even if there was nothing to remove. The caller has lowered its durable recovery point to offset or below before, and no reader asks for
// what is cut. Index entries go first, so that after a crash in between they are never ahead of the data. Durable when it returns.
func (s *Segment) TruncateTo(offset int64) (int64, error) {
	if s.unclean {
		return 0, ErrNotRecovered
	}
	pos, _, _, err := s.PositionOf(offset, s.Size())
	if err == io.EOF && !s.needsUnsealing() {
		return pos, nil
	}
	if err != nil && err != io.EOF {
		return 0, err
	}
	f, err := s.file()
	if err != nil {
		return 0, err
	}
	if err := s.unseal(); err != nil {
		return 0, err
	}
	if err := s.cutIndexes(offset); err != nil {
		return 0, err
	}
	s.size.Store(pos)
	s.recent.reset(0, pos) // finds nothing
	if err := f.Truncate(pos); err != nil {
		s.failed = fmt.Errorf("%w: %w", ErrFailed, err)
		return 0, err
	}
	s.allocated = pos
	// What is cut must not come back behind batches appended from now on.
	if err := s.Sync(); err != nil {
		return 0, err
	}
	w, err := s.restore(f, pos, pos, nil)
	if err != nil {
		return 0, err
	}
	if w.end != pos {
		return 0, s.corrupt(w.end, w.why)
	}
	s.publishWalk(&w)
	return pos, nil
}

// needsUnsealing is also true when a Seal failed half way.
func (s *Segment) needsUnsealing() bool {
	return s.sealed.Load() || s.offsets.Load().Sealed() || s.times.Load().Sealed()
}

// unseal makes a sealed segment writable.
func (s *Segment) unseal() error {
	if !s.needsUnsealing() {
		return nil
	}
	if err := s.openIndexes(); err != nil {
		return err
	}
	s.sealed.Store(false)
	return nil
}

func (s *Segment) cutIndexes(offset int64) error {
	if err := s.offsets.Load().TruncateTo(offset); err != nil {
		return err
	}
	if err := s.times.Load().TruncateTo(offset); err != nil {
		return err
	}
	return s.cutTxns(offset)
}
