// Package coordinator runs state machines over the partitions of an internal topic: one machine for each partition that this
// broker leads. What a machine is, is package machine; which machines there are, coordinator/group.
//
//	runtime.go  which partitions are run here; what is asked of them
//	shard.go    one partition: its inbox, its turn, its writes
//	load.go     the replay of the log
//	log.go      the log of a partition, over package replication
//	pool.go     the goroutines
//
// # States of a shard
//
//	loading  the log is replayed: ErrLoading
//	active   inputs reach the machine
//	failed   the log cannot be understood, or the machine has a bug: ErrFailed, until the partition is led anew. Nothing is guessed: a
//	         group is never said not to exist because its record could not be read. A bug that shows later makes the shard load again
//	stopped  this broker does not lead the partition any more: ErrNotCoordinator
//
// # Who does what
//
// A shard has an inbox. Whoever puts something into it schedules the shard at the pool, whose goroutine gives it a turn: it is
// the owner of the machine then. A turn takes the whole inbox; the records of all that it makes go into one append. One append
// of a shard is under way at a time; what is said meanwhile goes into the next. So the cost of a sync of the disk is shared by
// everybody who waits for it, and an append that fails takes with it exactly what was said since. The end of an append comes as
// something in the inbox. Loading has goroutines of its own, a few at a time.
//
// What is answered at once (a heartbeat of a group at rest) is not worth the way to another goroutine and back, which costs several times what it
// does itself: when nobody has the turn and nothing waits, whoever brings it takes the turn, does it (Input.Quick), and gives the turn back.
//
// # Locks
//
// Runtime.mu (which shards there are), then shard.mu (inbox and state), then pool.mu. None is held while a machine, a log or a
// ticket is called.
package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/coordinator/machine"
)

// Why an input does not reach a machine.
var (
	ErrNotCoordinator = machine.ErrUnloaded
	ErrLoading        = errors.New("the partition is being loaded")
	ErrFailed         = errors.New("the partition could not be loaded; the broker's log says why")
	ErrOverloaded     = errors.New("too many requests wait for the partition")
)

// Options make a Runtime. All but Workers, Loaders and Logger are mandatory.
type Options[M machine.Machine] struct {
	Topic         string            // for messages
	New           func(p int32) M   // an empty machine for a partition
	Now           func() int64      // ms since the Unix epoch
	MaxBatchBytes func(p int32) int // the largest batch that the log takes
	Workers       int               // default 2
	Loaders       int               // default 2
	Logger        *slog.Logger
	Notes         Notes  // where what the machines note is logged; default Logger
	Soon          func() // a deadline is less than SoonMs away; called at most once between two Ticks; must not block; may be nil
}

// Notes is a log for what clients can cause: package internal/loglimit.
type Notes interface {
	Log(level slog.Level, message string, args ...any)
}

// plainNotes is a Logger as Notes.
type plainNotes struct{ log *slog.Logger }

func (n plainNotes) Log(level slog.Level, message string, args ...any) {
	n.log.Log(context.Background(), level, message, args...)
}

// SoonMs is how soon a deadline must be for Options.Soon: who waits no longer than that for the next Tick misses none.
const SoonMs = 1000

// Runtime runs the partitions of one internal topic that are led here.
type Runtime[M machine.Machine] struct {
	o     Options[M]
	pool  *pool
	loads sync.WaitGroup
	slots chan struct{} // of loaders
	told  atomic.Bool   // Soon was called since the last Tick

	shards atomic.Pointer[map[int32]*shard[M]] // replaced under mu
	mu     struct {
		sync.Mutex
		closed bool
		latest map[int32]*shard[M] // of each partition that was ever run, stopped ones too: the next loads behind it
	}
}

// New makes a Runtime without partitions.
func New[M machine.Machine](o Options[M]) *Runtime[M] {
	if o.Workers == 0 {
		o.Workers = 2
	}
	if o.Loaders == 0 {
		o.Loaders = 2
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Notes == nil {
		o.Notes = plainNotes{o.Logger}
	}
	r := &Runtime[M]{o: o, pool: newPool(o.Workers), slots: make(chan struct{}, o.Loaders)}
	r.shards.Store(&map[int32]*shard[M]{})
	r.mu.latest = map[int32]*shard[M]{}
	return r
}

// Start runs a partition that this broker leads from now on, in place of what was run of it before. open makes its Log.
func (r *Runtime[M]) Start(p int32, epoch int32, open func() Log) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startLocked(p, epoch, open)
}

func (r *Runtime[M]) startLocked(p int32, epoch int32, open func() Log) {
	if r.mu.closed {
		return
	}
	s := &shard[M]{rt: r, p: p, epoch: epoch, open: open, log: open(), quit: make(chan struct{}), quiet: make(chan struct{})}
	s.deadline.Store(machine.Never)
	s.before.Store(r.mu.latest[p])
	r.mu.latest[p] = s
	if old := r.swapLocked(p, s); old != nil {
		old.stop()
	}
	r.loads.Go(s.load)
}

// restart runs a partition anew after a bug, unless it has moved on.
func (r *Runtime[M]) restart(s *shard[M]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if (*r.shards.Load())[s.p] == s {
		r.startLocked(s.p, s.epoch, s.open)
	}
}

// Epoch is the leader epoch for which a partition is run; -1 when it is not.
func (r *Runtime[M]) Epoch(p int32) int32 {
	if s := (*r.shards.Load())[p]; s != nil {
		return s.epoch
	}
	return -1
}

// Stop ends what is run of a partition: this broker does not lead it any more.
func (r *Runtime[M]) Stop(p int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.swapLocked(p, nil); old != nil {
		old.stop()
	}
}

func (r *Runtime[M]) swapLocked(p int32, s *shard[M]) (old *shard[M]) {
	next := map[int32]*shard[M]{}
	for n, other := range *r.shards.Load() {
		next[n] = other
	}
	old = next[p]
	if delete(next, p); s != nil {
		next[p] = s
	}
	r.shards.Store(&next)
	return old
}

// Input is something for a machine. Run or Refuse is called, on a goroutine of the runtime or, for Refuse, the caller's; unless Quick did it all.
type Input[M machine.Machine] struct {
	// Quick, if not nil, is tried first, on the caller's goroutine, when nothing else waits for the machine. It takes a microsecond or two. true: it did all
	// that Run would have done, and said nothing but answers. false: it did nothing.
	Quick  func(m M, nowMs int64, out *machine.Out) bool
	Run    func(m M, nowMs int64, out *machine.Out)
	Refuse func(error) // ErrNotCoordinator, ErrLoading, ErrFailed, ErrOverloaded
}

// Do gives an input to the machine of a partition.
func (r *Runtime[M]) Do(p int32, in Input[M]) {
	s := (*r.shards.Load())[p]
	if s == nil {
		in.Refuse(ErrNotCoordinator)
		return
	}
	if in.Quick != nil && s.quick(&in) {
		return
	}
	if err := s.put(in); err != nil {
		in.Refuse(err)
	}
}

// Partitions are the partitions that are run here.
func (r *Runtime[M]) Partitions() []int32 {
	var all []int32
	for p := range *r.shards.Load() {
		all = append(all, p)
	}
	return all
}

// Tick gives a turn to the shards with a deadline that is over, and returns the earliest of the others: machine.Never when
// there is none. Call it then, but no later than after SoonMs, and soon when Options.Soon is called.
func (r *Runtime[M]) Tick(nowMs int64) (next int64) {
	r.told.Store(false)
	next = machine.Never
	for _, s := range *r.shards.Load() {
		if at := s.deadline.Load(); at <= nowMs {
			s.wake()
		} else {
			next = min(next, at)
		}
	}
	return next
}

// deadlineAt is told of a shard's earliest deadline after a turn.
func (r *Runtime[M]) deadlineAt(at int64) {
	if r.o.Soon != nil && at != machine.Never && at < r.o.Now()+SoonMs && !r.told.Swap(true) {
		r.o.Soon()
	}
}

// Close stops everything: whoever waits is answered. It returns when nothing of the runtime runs any more.
func (r *Runtime[M]) Close() {
	r.mu.Lock()
	r.mu.closed = true
	shards := *r.shards.Load()
	r.shards.Store(&map[int32]*shard[M]{})
	r.mu.Unlock()
	for _, s := range shards {
		s.stop()
	}
	r.loads.Wait()
	r.pool.close()
}
