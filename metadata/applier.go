package metadata

import "sync"

// inflight holds groups between append and commit.
type inflight struct {
	mu struct {
		sync.Mutex
		groups    []group
		committed int64
		stopped   *Error // nothing will be committed any more
		ended     bool   // no group will come any more
	}
	wake chan struct{} // capacity 1
}

func (f *inflight) init(committed int64) {
	f.wake = make(chan struct{}, 1)
	f.mu.committed = committed
}

func (f *inflight) push(g group) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.groups = append(f.mu.groups, g)
	wake(f.wake)
}

// commit is told by the log that everything below an offset is committed.
func (f *inflight) commit(upTo int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.committed = max(f.mu.committed, upTo)
	wake(f.wake)
}

// stop says that nothing will be committed any more.
func (f *inflight) stop(why *Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.stopped == nil {
		f.mu.stopped = why
	}
	wake(f.wake)
}

// noMore says that the proposer has ended.
func (f *inflight) noMore() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.ended = true
	wake(f.wake)
}

// take removes the groups that can be answered: committed ones, or all when refused says that none will be. end means that
// the applier has nothing more to wait for.
func (f *inflight) take() (groups []group, refused *Error, end bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for n < len(f.mu.groups) && f.mu.groups[n].end <= f.mu.committed {
		n++
	}
	if n == 0 && f.mu.stopped != nil {
		n, refused = len(f.mu.groups), f.mu.stopped
	}
	groups, f.mu.groups = f.mu.groups[:n:n], f.mu.groups[n:]
	return groups, refused, f.mu.ended && len(f.mu.groups) == 0
}

// runApplier is the applier goroutine. It ends when the proposer has ended and everything is answered.
func (m *Manager) runApplier() {
	for range m.inflight.wake {
		for {
			groups, refused, end := m.inflight.take()
			for n := range groups {
				m.applyGroup(&groups[n], refused)
			}
			if end {
				return
			}
			if len(groups) == 0 {
				break
			}
		}
	}
}

// applyGroup publishes and answers a committed group, or refuses it.
func (m *Manager) applyGroup(g *group, refused *Error) {
	for n := range g.steps {
		s := &g.steps[n]
		switch {
		case refused != nil:
			s.done(refused)
		case s.err != nil:
			s.done(s.err)
		default:
			if s.image != nil {
				m.publish(s.image, s.delta)
			}
			s.done(nil)
		}
	}
	if refused == nil {
		m.snapshots.committed(m.Image(), g.bytes)
	}
}
