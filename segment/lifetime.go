package segment

import (
	"errors"
	"io/fs"

	"github.com/leatmq/leat/internal/invariant"
)

// Acquire takes a reference; false when the last one is gone already.
func (s *Segment) Acquire() bool {
	for {
		n := s.refs.Load()
		if n == restingRefs { // for as long as it takes to close a few files
			s.awaitRest()
			continue
		}
		if n <= 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a reference back, the owner's too. The last one closes the files, and removes them after Delete.
func (s *Segment) Release() {
	n := s.refs.Add(-1)
	if n > 0 {
		return
	}
	invariant.Must(n == 0, "segment %d of %s released too often", s.base, s.Dir())
	if s.o.Reap != nil {
		s.o.Reap(s)
		return
	}
	_ = s.Destroy() // nobody is left to tell; whoever cares has a Reap
}

// Refs returns the number of references.
func (s *Segment) Refs() int { return int(s.refs.Load()) }

// Delete renames the files to *.deleted at once, so that a restart does not see the segment. The owner keeps its reference as long as the
// files shall stay (file.delete.delay.ms); the last Release removes them. The caller syncs the directory.
func (s *Segment) Delete() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.deleted {
		return nil
	}
	for i, suffix := range suffixes {
		err := s.o.FS.Rename(s.path(suffix), s.path(suffix)+DeletedSuffix)
		if err != nil && (i == 0 || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
		s.mu.deleted = true
	}
	return nil
}

// Deleted tells whether Delete was called.
func (s *Segment) Deleted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.deleted
}

// Destroy closes the files and, when the segment is deleted, removes them. Called once, after the last Release.
func (s *Segment) Destroy() error {
	invariant.Must(s.refs.Load() == 0, "segment %d of %s destroyed with %d references", s.base, s.Dir(), s.refs.Load())
	err := s.closeFiles()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.deleted {
		return err
	}
	for _, suffix := range suffixes {
		rerr := s.o.FS.Remove(s.pathLocked(suffix))
		if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}
	return err
}

func (s *Segment) closeFiles() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
	return s.closeFilesLocked()
}

func (s *Segment) closeFilesLocked() error {
	var errs [4]error
	if !s.mu.deleted {
		s.flushIndexes()
	}
	if x := s.offsets.Swap(nil); x != nil {
		errs[0] = x.Close()
	}
	if x := s.times.Swap(nil); x != nil {
		errs[1] = x.Close()
	}
	if s.mu.txn != nil {
		errs[2] = s.mu.txn.Close()
		s.mu.txn = nil
	}
	if f := s.data.Swap(nil); f != nil {
		errs[3] = (*f).Close()
	}
	return errors.Join(errs[:]...)
}

// flushIndexes spares the next opening a scan; what it cannot do is no loss.
func (s *Segment) flushIndexes() {
	if x := s.offsets.Load(); x != nil {
		_ = x.Flush()
	}
	if x := s.times.Load(); x != nil {
		_ = x.Flush()
	}
}
