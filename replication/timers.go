package replication

import "sync"

// timers is the partitions that may have parked produces, so that a tick does not look at all partitions. A partition enters
// when it parks its first produce, and leaves at the tick that finds none: at most one entry per partition and tick, however
// fast produces come and go. Lock order: Partition.mu, then timers.mu.
type timers struct {
	begun func() // called when there is something to time out where there was nothing; must not block
	mu    struct {
		sync.Mutex
		partitions []*Partition
	}
	spare []*Partition // the list that the last tick went through; the ticker's alone
}

// add is for a partition that parks its first produce.
func (t *timers) add(p *Partition) {
	if t.list(p) == 1 && t.begun != nil {
		t.begun()
	}
}

// list adds a partition and returns how many there are now.
func (t *timers) list(p *Partition) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.partitions = append(t.mu.partitions, p)
	return len(t.mu.partitions)
}

// tick times out produces, and tells whether any are left. One caller at a time.
func (t *timers) tick(nowMs int64) (left bool) {
	t.mu.Lock()
	due := t.mu.partitions
	t.mu.partitions = t.spare[:0]
	t.mu.Unlock()
	for n, p := range due {
		if p.expire(nowMs) {
			t.list(p)
		}
		due[n] = nil
	}
	t.spare = due
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.mu.partitions) > 0
}
