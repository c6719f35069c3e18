package fuzz

import (
	"cmp"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/leatmq/leat/internal/vfs"
)

// gate makes a run of many goroutines repeatable: whoever is about to change the disk waits until nobody else has anything to do but wait, too; then the
// seed decides who goes first. It needs a processor of its own (GOMAXPROCS=1), where a goroutine that yields comes back only when all others have waited or
// yielded. Which goroutine does what between two operations is up to the Go scheduler, which is repeatable there, unless it takes the processor from a
// goroutine because 10 ms have passed.
type gate struct {
	mu      sync.Mutex
	rng     *rand.Rand
	waiting []*ticket
	arrived int // tickets ever
	seen    int // arrived, when somebody looked last
	quiet   int // looks since somebody arrived
}

type ticket struct {
	what string
	late bool // goes when nobody else wants to
	open bool
}

// quietLooks is how often everybody who waits has to look and see nobody new.
const quietLooks = 2

func newGate(seed uint64) *gate { return &gate{rng: rand.New(rand.NewPCG(seed, 11))} }

// through returns the disk behind the gate.
func (g *gate) through(disk *vfs.Mem) *vfs.Fault {
	f := vfs.NewFault(disk)
	f.Inject(vfs.Injection{Match: vfs.Mutating, Before: g.enter})
	return f
}

// enter waits for its turn.
func (g *gate) enter(op vfs.Op) { g.wait(&ticket{what: op.String()}) }

// enterLate waits until nothing else can happen without this operation.
func (g *gate) enterLate(op vfs.Op) { g.wait(&ticket{what: op.String(), late: true}) }

func (g *gate) wait(t *ticket) {
	g.mu.Lock()
	g.waiting = append(g.waiting, t)
	g.arrived++
	g.mu.Unlock()
	for !g.pass(t) {
		runtime.Gosched()
	}
}

func (g *gate) pass(t *ticket) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.open {
		return true
	}
	if g.arrived != g.seen {
		g.seen, g.quiet = g.arrived, 0
	}
	if g.quiet++; g.quiet <= quietLooks*len(g.waiting) {
		return false
	}
	slices.SortStableFunc(g.waiting, func(a, b *ticket) int { return cmp.Compare(a.what, b.what) })
	i := g.rng.IntN(len(g.waiting))
	if g.waiting[i].late && len(g.waiting) > 1 {
		i = (i + 1) % len(g.waiting)
	}
	next := g.waiting[i]
	g.waiting = slices.Delete(g.waiting, i, i+1)
	next.open, g.quiet = true, 0
	return next == t
}

// settle waits until everything that goes on by itself has come to rest.
func (g *gate) settle() {
	last := -1
	for quiet := 0; quiet < 10; quiet++ {
		g.mu.Lock()
		if g.arrived != last || len(g.waiting) > 0 {
			last, quiet = g.arrived, 0
		}
		g.mu.Unlock()
		runtime.Gosched()
	}
}
