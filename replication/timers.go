package replication

import "sync"

// timers is the partitions that may have parked produces, so that a tick does not look at all partitions. A partition enters
// when it parks its first produce, and leaves at the tick that finds none: at most one entry per partition and tick, however
// fast produces come and go. Lock order: Partition.mu, then timers.mu.
type timers struct {
	mu struct {
		sync.Mutex
		partitions []*Partition
	}
	spare []*Partition // the list that the last tick went through; the ticker's alone
}

func (t *timers) add(p *Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.partitions = append(t.mu.partitions, p)
}

// tick times out produces. One caller at a time.
func (t *timers) tick(nowMs int64) {
	t.mu.Lock()
	due := t.mu.partitions
	t.mu.partitions = t.spare[:0]
	t.mu.Unlock()
	for n, p := range due {
		if p.expire(nowMs) {
			t.add(p)
		}
		due[n] = nil
	}
	t.spare = due
}
