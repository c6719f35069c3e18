package fuzz

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"

	"github.com/leatmq/leat/internal/vfs"
)

// The crash suite cuts the power after every operation that changes the disk.
//
// A workload runs on a disk in memory. After every operation, whoever does it, the power is cut in several ways (cuts), without the workload
// noticing: what is left is a state, together with what the clients had been promised at that moment. From each state:
//
//	start, check, send again what was not answered, append to every partition and a few other changes, and cut the power once more after a random
//	operation of all that; start, check, append, stop cleanly; start, check that nothing has changed, verify every file.
//
// The same is done from some states with a single fault on the way (fault_test.go), and with a log that is truncated (follower_test.go).
//
// Runs are repeatable: one processor, goroutines take turns at the disk as the seed says (gate_test.go), and everything else by chance comes from the seed. A
// state is named by seed, operation, mode and variant.

// cut is a way to lose power.
type cut struct {
	mode    vfs.CrashMode
	variant uint64
}

// cuts are made after every operation. The first two leave no choice; the others are tried with several.
var cuts = [...]cut{
	{vfs.LoseUnsynced, 0}, {vfs.KeepAll, 0},
	{vfs.RandomPages, 0}, {vfs.RandomPages, 1}, {vfs.RandomPages, 2},
	{vfs.Torn512, 0}, {vfs.Torn512, 1}, {vfs.Torn512, 2},
}

func (c cut) how() stopKind {
	if c.mode == vfs.KeepAll {
		return killed
	}
	return powerCut
}

// moment is the time between two operations: the disk, and what it has to keep whatever comes.
type moment struct {
	seed  uint64
	op    int    // operations before
	hash  uint64 // of them
	what  vfs.Op
	disk  *vfs.Mem // a fork
	world *world
	nowMs int64
	o     nodeOptions
}

// state is what a power cut leaves of a moment.
type state struct {
	*moment
	cut cut
}

func (s *state) String() string {
	return fmt.Sprintf("%v (variant %d) after operation %d, %v", s.cut.mode, s.cut.variant, s.op, s.what)
}

// rngSeed is different for every state.
func (s *state) rngSeed() uint64 {
	return s.seed*1_000_003 + uint64(s.op)*64 + uint64(s.cut.mode)*8 + s.cut.variant
}

// power cuts it and returns the disk that is left.
func (s *state) power() *vfs.Mem { return s.disk.CrashAt(s.cut.mode, s.rngSeed()) }

// recorder is the hook of a workload's disk: it keeps the moment after every operation.
type recorder struct {
	wl   *workload
	keep bool

	mu      sync.Mutex
	kinds   map[string]int
	moments []*moment
	ops     int
	hash    uint64 // of the operations: the same seed mostly does the same
}

// recordRun runs the workload of a seed.
func recordRun(seed uint64) (*recorder, error) {
	r := &recorder{wl: newWorkload(seed), keep: true, kinds: map[string]int{}}
	r.wl.hook = r.onOp
	return r, r.wl.run()
}

func (r *recorder) onOp(op vfs.Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	r.kinds[op.Kind.String()]++
	h := fnv.New64a()
	if op.N > 0 && strings.HasSuffix(op.Name, ".lock") {
		op.N = 1 // it holds the process id
	}
	fmt.Fprintf(h, "%d %v", r.hash, op)
	r.hash = h.Sum64()
	if r.keep {
		r.momentLocked(op)
	}
}

// momentLocked keeps this moment. What is promised is asked first: what is promised later need not be in the picture.
func (r *recorder) momentLocked(op vfs.Op) {
	wl := r.wl
	if n := wl.shown.Load(); n != nil {
		wl.w.observe(n)
	}
	m := &moment{seed: wl.seed, op: r.ops, hash: r.hash, what: op, world: wl.w.clone(), nowMs: wl.clock.now(), o: wl.o}
	m.disk = wl.disk.Fork()
	r.moments = append(r.moments, m)
}

// tally counts what a run has seen.
type tally struct {
	States     map[string]int // by mode: first power cuts
	Seconds    map[string]int // by mode: second power cuts, at a random operation of start, check and appends
	Starts     int
	Restarts   int            // after a clean stop
	Truncation map[string]int // by mode: power cuts of the truncation workload
	Faults     map[string]int // by kind: single faults that happened
	Missed     int            // single faults planned for an operation that did not come
	Ops        map[string]int // of the workloads, by kind
	Steps      map[string]int // of the workloads
}

// chain explores one state to its end.
type chain struct {
	s     *state
	rng   *rand.Rand
	clock *clock
	t     *tally
}

// secondCutWithin bounds the operation at which the power is cut for the second time. Starting and the changes that follow take some 130; when
// there are fewer than was chosen, it is cut after the last.
const secondCutWithin = 150

// explore is the life after a power cut.
func (s *state) explore(t *tally) error {
	c := &chain{s: s, rng: rand.New(rand.NewPCG(s.rngSeed(), 77)), clock: newClock(s.nowMs), t: t}
	w := s.world.clone()
	if s.cut.mode != vfs.KeepAll {
		w.forget()
	}
	second, n, err := c.first(w)
	if err != nil {
		return err
	}
	if err := n.stop(); err != nil {
		return fmt.Errorf("stop after the first start: %w", err)
	}
	return c.again(second)
}

func (c *chain) boot(disk *vfs.Mem, number uint64) (*node, error) {
	o := c.s.o
	o.seed = c.s.rngSeed()*8 + number
	n, err := boot(newGate(o.seed).through(disk), c.clock, o)
	if err != nil {
		return nil, fmt.Errorf("start refused: %w", err)
	}
	c.t.Starts++
	return n, nil
}

// first starts the state, checks it, appends; on the way the power is cut.
func (c *chain) first(w *world) (*state, *node, error) {
	at := 1 + c.rng.IntN(secondCutWithin)
	second := &state{moment: &moment{seed: c.s.rngSeed(), o: c.s.o}, cut: cuts[c.rng.IntN(len(cuts))]}
	disk := c.s.power()
	disk.SetNow(c.clock.time)
	var mu sync.Mutex
	var n *node
	ops := 0
	snap := func(op vfs.Op) {
		if n != nil {
			w.observe(n)
		}
		second.op, second.what, second.world, second.nowMs = ops, op, w.clone(), c.clock.now()
		second.disk = disk.Fork()
	}
	disk.OnOp = func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if ops++; ops == at && second.disk == nil {
			snap(op)
		}
	}
	booted, err := c.boot(disk, 1)
	if err != nil {
		return nil, nil, err
	}
	if err := w.check(booted, c.s.cut.how()); err != nil {
		return nil, nil, fmt.Errorf("first start: %w\n%s", err, booted.journal.text())
	}
	mu.Lock()
	n = booted
	mu.Unlock()
	if err := c.live(n, w); err != nil {
		return nil, nil, fmt.Errorf("after the first start: %w\n%s", err, booted.journal.text())
	}
	mu.Lock()
	defer mu.Unlock()
	if second.disk == nil {
		snap(vfs.Op{})
	}
	return second, n, nil
}

// live does a little of everything.
func (c *chain) live(n *node, w *world) error {
	shrink(n, w)
	if err := w.resend(n); err != nil {
		return err
	}
	if c.rng.IntN(4) == 0 {
		c.clock.ms.Add(4000)
		tick(n, w)
	}
	if err := c.append(n, w, 1+c.rng.IntN(2)); err != nil {
		return err
	}
	switch c.rng.IntN(8) {
	case 0:
		if err := createTopic(n, w, "new", kinds[c.rng.IntN(len(kinds))], 1); err != nil {
			return err
		}
	case 1:
		if alive := w.alive(); len(alive) > 0 {
			if err := deleteTopic(n, w, alive[c.rng.IntN(len(alive))]); err != nil {
				return err
			}
		}
	case 2:
		c.clock.ms.Add(4000)
		tick(n, w)
	}
	return w.err()
}

// append sends batches to every partition and waits for them.
func (c *chain) append(n *node, w *world, batches int) error {
	type one struct {
		t *topic
		p *part
		b *batch
	}
	var all []one
	for _, t := range w.alive() {
		for _, p := range t.parts {
			idempotent := c.rng.IntN(2) == 0 && !t.kind.caching && w.unanswered(p)+batches <= resendMax
			if w.faulty != nil { // the second of two would be taken for the producer's first if the first fails
				idempotent = idempotent && w.unanswered(p) == 0
			}
			for i := range batches {
				all = append(all, one{t, p, w.makeBatch(t, p, c.rng, c.clock.now(), idempotent && (i == 0 || w.faulty == nil))})
			}
		}
	}
	runtime.Gosched()
	var calls []*call
	for _, o := range all {
		calls = append(calls, w.send(n, o.t, o.p, o.b, -1))
	}
	for _, call := range calls {
		<-call.done
	}
	return w.err()
}

// again starts after the second power cut, checks, appends, stops, and starts once more.
func (c *chain) again(s *state) error {
	c.t.Seconds[s.cut.mode.String()]++
	c.clock.ms.Store(s.nowMs)
	disk := s.power()
	n, err := c.boot(disk, 2)
	if err != nil {
		return fmt.Errorf("second power cut, %v after operation %d, %v: %w", s.cut.mode, s.op, s.what, err)
	}
	w := s.world
	err = w.check(n, s.cut.how())
	if err == nil {
		shrink(n, w)
		err = w.resend(n)
	}
	if err == nil {
		err = c.append(n, w, 1)
	}
	if err == nil {
		err = n.stop()
	}
	if err != nil {
		return fmt.Errorf("second power cut, %v after operation %d, %v: %w\n%s", s.cut.mode, s.op, s.what, err, n.journal.text())
	}
	if err := verifyFiles(disk); err != nil {
		return fmt.Errorf("second power cut, %v after operation %d, %v: after a clean stop: %w", s.cut.mode, s.op, s.what, err)
	}
	c.t.Restarts++
	if n, err = c.boot(disk, 3); err != nil {
		return fmt.Errorf("after a clean stop: %w", err)
	}
	if err := w.check(n, stopped); err != nil {
		return fmt.Errorf("after a clean stop: %w\n%s", err, n.journal.text())
	}
	return n.stop()
}
