package replication

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/leatmq/leat/engine"
)

// model is what a parked list should hold.
func (l *parked) check(t *testing.T, model []*Produce) {
	t.Helper()
	var forth, back []*Produce
	for r := l.head; r != nil; r = r.next {
		forth = append(forth, r)
	}
	for r := l.tail; r != nil; r = r.prev {
		back = append(back, r)
	}
	slices.Reverse(back)
	if !slices.Equal(forth, model) || !slices.Equal(back, model) {
		t.Fatalf("forth %v, back %v, want %v", offsets(forth), offsets(back), offsets(model))
	}
}

func offsets(l []*Produce) (s string) {
	for _, r := range l {
		s += fmt.Sprintf(" %d@%d", r.LastOffset, r.deadlineMs)
	}
	return s
}

// collect takes a list linked by next apart, as finish does.
func collect(r *Produce) (l []*Produce) {
	for r != nil {
		next := r.next
		r.next, r.prev = nil, nil
		l = append(l, r)
		r = next
	}
	return l
}

func TestParkedProperty(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 14))
	for range 300 {
		var l parked
		var model []*Produce // by offset, then by arrival
		for range 40 {
			var got, want []*Produce
			keep := model[:0:0]
			switch rnd.IntN(5) {
			case 0, 1, 2:
				r := &Produce{Append: engine.Append{LastOffset: rnd.Int64N(20)}, deadlineMs: rnd.Int64N(20)}
				l.insert(r)
				at := len(model)
				for at > 0 && model[at-1].LastOffset > r.LastOffset {
					at--
				}
				model = slices.Insert(model, at, r)
				l.check(t, model)
				continue
			case 3:
				hw := rnd.Int64N(20)
				for _, r := range model {
					if r.LastOffset < hw {
						want = append(want, r)
					} else {
						keep = append(keep, r)
					}
				}
				got = collect(l.below(hw))
			case 4:
				now := rnd.Int64N(20)
				for _, r := range model {
					if r.deadlineMs <= now {
						want = append(want, r)
					} else {
						keep = append(keep, r)
					}
				}
				got = collect(l.due(now))
			}
			if !slices.Equal(got, want) {
				t.Fatalf("took %v, want %v", offsets(got), offsets(want))
			}
			model = keep
			l.check(t, model)
		}
		if got := collect(l.all()); !slices.Equal(got, model) || !l.empty() {
			t.Fatalf("all are %v, want %v", offsets(got), offsets(model))
		}
	}
}

func TestWaiterList(t *testing.T) {
	var l waiters
	ws := make([]Waiter, 6)
	for n := range ws {
		ws[n].offset = int64(n)
		l.add(&ws[n])
	}
	l.remove(&ws[5]) // head
	l.remove(&ws[0]) // tail
	l.remove(&ws[2]) // inside
	ready := map[*Waiter]bool{}
	for w := l.below(4); w != nil; w = w.next {
		ready[w] = true
	}
	if len(ready) != 2 || !ready[&ws[1]] || !ready[&ws[3]] || ws[1].parked || !ws[4].parked {
		t.Errorf("ready %v", ready)
	}
	if w := l.all(); w != &ws[4] || w.next != nil || l.head != nil || w.parked {
		t.Error("the last one")
	}
}
