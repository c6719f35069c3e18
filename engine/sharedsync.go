package engine

import "sync"

// sharedSync lets many callers share the syncs of one thing: each gets the result of a sync that began after its call.
type sharedSync struct {
	mu       sync.Mutex
	wake     *sync.Cond
	running  bool
	begun    uint64
	finished uint64
	err      error // the first failure: what it did not cover no later success covers (B-A1)
}

// sync returns when a sync that began after the call has ended, with its error or that of an earlier one.
func (s *sharedSync) sync(do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake == nil {
		s.wake = sync.NewCond(&s.mu)
	}
	for want := s.begun + 1; s.finished < want && s.err == nil; {
		if s.running {
			s.wake.Wait()
			continue
		}
		s.running = true
		s.begun++
		n := s.begun
		s.mu.Unlock()
		err := do()
		s.mu.Lock()
		s.running = false
		s.wake.Broadcast()
		switch {
		case err == nil:
			s.finished = n
		case isExhausted(err): // nothing was asked of the disk: the others try themselves
			return err
		default:
			s.err = err
		}
	}
	return s.err
}
