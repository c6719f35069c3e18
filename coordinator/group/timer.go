package group

import (
	"container/heap"

	"github.com/leatmq/leat/coordinator/machine"
)

// timer is one deadline. It belongs to whoever waits, is in the heap while it is set, and may be set and stopped at any time.
type timer struct {
	at    int64 // ms
	order int64 // of being set: equal deadlines fire in this order
	index int   // in the heap, from 1; 0: not set
	fire  func(nowMs int64, out *machine.Out)
}

// timers are the deadlines of a shard: a heap, the earliest first.
type timers struct {
	heap  []*timer
	order int64
}

func (t *timers) set(tm *timer, at int64) {
	t.order++
	tm.at, tm.order = at, t.order
	if tm.index > 0 {
		heap.Fix(t, tm.index-1)
		return
	}
	heap.Push(t, tm)
}

func (t *timers) stop(tm *timer) {
	if tm.index > 0 {
		heap.Remove(t, tm.index-1)
	}
}

func (tm *timer) isSet() bool { return tm.index > 0 }

// next is the earliest deadline.
func (t *timers) next() int64 {
	if len(t.heap) == 0 {
		return machine.Never
	}
	return t.heap[0].at
}

// popDue takes the earliest timer that is due.
func (t *timers) popDue(nowMs int64) *timer {
	if len(t.heap) == 0 || t.heap[0].at > nowMs {
		return nil
	}
	return heap.Pop(t).(*timer)
}

// heap.Interface.

func (t *timers) Len() int { return len(t.heap) }

func (t *timers) Less(i, j int) bool {
	a, b := t.heap[i], t.heap[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (t *timers) Swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].index, t.heap[j].index = i+1, j+1
}

func (t *timers) Push(x any) {
	tm := x.(*timer)
	t.heap = append(t.heap, tm)
	tm.index = len(t.heap)
}

func (t *timers) Pop() any {
	n := len(t.heap) - 1
	tm := t.heap[n]
	t.heap[n] = nil
	t.heap = t.heap[:n]
	tm.index = 0
	return tm
}
