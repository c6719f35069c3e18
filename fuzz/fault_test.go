package fuzz

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/leatmq/leat/internal/vfs"
)

// A single fault: from a state, a node starts, is checked, and does a little of everything, as after any power cut; but one operation of all that fails, comes up
// short, or is done last of all that can be done without it. What clients are told then may be an error, and the start may be refused. Then the node is
// stopped, or the power is cut soon after the fault, and the disk works again: a start must find everything that was promised.

// faultKind is a sort of fault.
type faultKind uint8

const (
	faultFail  faultKind = iota // EIO
	faultFull                   // ENOSPC
	faultShort                  // a write that stores only its first bytes, then ENOSPC
	faultDelay                  // nothing fails
	faultKinds
)

func (k faultKind) String() string {
	return [faultKinds]string{"fail", "full", "short write", "delay"}[k]
}

// fault is one of them, at the nth operation it can happen to.
type fault struct {
	kind faultKind
	nth  int
	what *vfs.Op // it was; for failures
}

// faultsWithin bounds the operation: starting and what follows has some 130, a third of them writes.
func (k faultKind) within() int {
	if k == faultShort {
		return 50
	}
	return secondCutWithin
}

func (f *fault) String() string {
	return fmt.Sprintf("fault %v at operation %d, %v", f.kind, f.nth, f.what)
}

// inject returns the disk behind the gate, with the fault.
func (f *fault) inject(disk *vfs.Mem, g *gate, rng *rand.Rand) (*vfs.Fault, *vfs.Injected) {
	faulty := vfs.NewFault(disk)
	in := vfs.Injection{Match: vfs.Mutating, Nth: f.nth, Before: g.enter}
	switch f.kind {
	case faultFail:
		in.Err = vfs.ErrDiskBroken
	case faultFull:
		in.Err = vfs.ErrDiskFull
	case faultShort:
		in.Match, in.Err, in.Short = vfs.OfKind(vfs.OpWrite), vfs.ErrDiskFull, 1+rng.Int64N(700)
	case faultDelay:
		in.Before = g.enterLate
	}
	wait := in.Before
	in.Before = func(op vfs.Op) {
		f.what = &op
		wait(op)
	}
	injected := faulty.Inject(in)
	faulty.Inject(vfs.Injection{Match: vfs.Mutating, Before: g.enter})
	return faulty, injected
}

// exploreFault is the life after a power cut, with a fault.
func (s *state) exploreFault(t *tally, f *fault) error {
	c := &chain{s: s, rng: rand.New(rand.NewPCG(s.rngSeed(), 99)), clock: newClock(s.nowMs), t: t}
	w := s.world.clone()
	if s.cut.mode != vfs.KeepAll {
		w.forget()
	}
	second, err := c.withFault(w, f)
	if err != nil {
		return fmt.Errorf("%v: %w", f, err)
	}
	if err := c.again(second); err != nil {
		return fmt.Errorf("%v: %w", f, err)
	}
	return nil
}

// faultRun is a node on a disk with a fault.
type faultRun struct {
	*chain
	w      *world
	disk   *vfs.Mem
	hit    *vfs.Injected
	second *state

	mu  sync.Mutex
	n   *node
	ops int // since the fault
	at  int // of them: the power is cut
}

// withFault lives with it, and returns what is left.
func (c *chain) withFault(w *world, f *fault) (*state, error) {
	r := &faultRun{chain: c, w: w, disk: c.s.power(), at: 1 + c.rng.IntN(80)}
	r.second = &state{moment: &moment{seed: c.s.rngSeed(), o: c.s.o}, cut: cuts[c.rng.IntN(len(cuts))]}
	r.disk.SetNow(c.clock.time)
	o := c.s.o
	o.seed = c.s.rngSeed()*8 + 1
	faulty, hit := f.inject(r.disk, newGate(o.seed), c.rng)
	r.hit, w.hadFaults = hit, f.kind != faultDelay
	w.faulty = func() bool { return f.kind != faultDelay && hit.Hits() > 0 }
	r.disk.OnOp = r.onOp
	n, err := boot(faulty, c.clock, o)
	if err == nil {
		c.t.Starts++
		err = r.live(n)
	}
	if err != nil && !w.faulty() {
		return nil, err
	}
	if err := w.err(); err != nil {
		return nil, err
	}
	if hit.Hits() > 0 {
		c.t.Faults[f.kind.String()]++
	} else {
		c.t.Missed++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.second.disk == nil {
		r.snap(vfs.Op{})
	}
	return r.second, nil
}

// live checks the node, uses it and stops it.
func (r *faultRun) live(n *node) error {
	err := r.w.check(n, r.s.cut.how())
	if err == nil {
		r.mu.Lock()
		r.n = n
		r.mu.Unlock()
		err = r.chain.live(n, r.w)
		r.w.observe(n)
	}
	stopped := n.stop()
	r.mu.Lock()
	r.n = nil
	r.mu.Unlock()
	if err == nil {
		err = stopped
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, n.journal.text())
	}
	return err
}

func (r *faultRun) onOp(op vfs.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hit.Hits() > 0 {
		if r.ops++; r.ops == r.at {
			r.snap(op)
		}
	}
}

// snap cuts the power. mu is held.
func (r *faultRun) snap(op vfs.Op) {
	if r.n != nil {
		r.w.observe(r.n)
	}
	s := r.second
	s.op, s.what, s.world, s.nowMs = r.ops, op, r.w.clone(), r.clock.now()
	s.disk = r.disk.Fork()
}
