package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/record"
)

// inboxMax bounds what waits for a shard. Clients cannot get there: each connection has a few requests in flight.
const inboxMax = 1 << 16

// shard runs the machine of one partition.
type shard[M machine.Machine] struct {
	rt    *Runtime[M]
	p     int32
	epoch int32 // leader epoch for which it runs
	open  func() Log
	log   Log

	deadline atomic.Int64  // the machine's Next
	quit     chan struct{} // closed when the shard is stopped: ends a load
	quiet    chan struct{} // closed when it is stopped and nothing of it is on its way into the log

	before atomic.Pointer[shard[M]] // the one that ran the partition before; nil when that and all before it are known to be quiet

	mu struct {
		sync.Mutex
		state     state
		inbox     []Input[M]
		events    []func()   // of the shard itself: before the inbox
		scheduled bool       // it waits for its turn, or has it
		spare     []Input[M] // an inbox that was emptied
	}

	// The owner's: whoever has the turn.

	m      M
	active bool // m may be called
	served bool // m has said what it has to say about what was loaded
	broken bool // m has panicked: nothing but Unload and what was to be continued reaches it
	ended  bool // unloaded
	out    machine.Out
	queue  []*write // said, and not yet in an append
	flight []*part  // in the append under way
	flying bool     // an append is under way
	batch  *record.Builder
	buf    []byte
}

type state uint8

const (
	loading state = iota
	active
	failed
	stopped
)

// write is a Write of the machine on its way.
type write struct {
	machine.Write
	next int // first record that is in no append yet
}

// part is the piece of a write that is in one append.
type part struct {
	w    *write
	last bool
}

// put adds an input to the inbox.
func (s *shard[M]) put(in Input[M]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.state == loading:
		return ErrLoading
	case s.mu.state == failed:
		return ErrFailed
	case s.mu.state == stopped:
		return ErrNotCoordinator
	case len(s.mu.inbox) >= inboxMax:
		return ErrOverloaded
	}
	s.mu.inbox = append(s.mu.inbox, in)
	s.scheduleLocked()
	return nil
}

// quick does an input here and now, if it may and can be done so.
func (s *shard[M]) quick(in *Input[M]) (done bool) {
	s.mu.Lock()
	if s.mu.state != active || s.mu.scheduled || len(s.mu.events)+len(s.mu.inbox) > 0 {
		s.mu.Unlock()
		return false
	}
	s.mu.scheduled = true // nobody else gets the turn
	s.mu.Unlock()
	if s.serves() {
		s.guard(func() {
			done = in.Quick(s.m, s.rt.o.Now(), &s.out)
			invariant.Check(done || len(s.out.Answers) == 0, "an input was answered and not done")
			invariant.Check(len(s.out.Writes) == 0, "a quick input wrote")
			s.deliver()
		})
		s.announceDeadline()
	}
	s.endTurn()
	return done
}

// event adds something of the shard's own.
func (s *shard[M]) event(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.events = append(s.mu.events, fn)
	s.scheduleLocked()
}

func (s *shard[M]) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scheduleLocked()
}

func (s *shard[M]) scheduleLocked() {
	if !s.mu.scheduled {
		s.mu.scheduled = true
		s.rt.pool.schedule(s)
	}
}

// begin hands the loaded machine over. The loader's goroutine. Inputs are let in behind the event, and none is refused once Loaded is called: what a machine
// has not seen by then it is told.
func (s *shard[M]) begin(m M) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state != loading {
		return
	}
	s.mu.state = active
	s.mu.events = append(s.mu.events, func() { s.loaded(m) })
	s.scheduleLocked()
}

// loaded tells the machine that everything was replayed. One that panics here would do so again after every load: it is not served.
func (s *shard[M]) loaded(m M) {
	s.m, s.active = m, true
	s.guard(func() {
		s.m.Loaded(s.rt.o.Now(), &s.out)
		s.deliver()
		s.served = true
	})
}

// fail ends the service of a partition that cannot be loaded.
func (s *shard[M]) fail(err error) {
	if moved(err) {
		return // the end of the leadership is on its way
	}
	s.rt.o.Logger.Error("a partition of the coordinator cannot be loaded: what it holds is not served until it is repaired",
		"topic", s.rt.o.Topic, "partition", s.p, "error", err)
	s.giveUp(loading)
}

// stop ends the shard. Any goroutine, once.
func (s *shard[M]) stop() {
	s.mu.Lock()
	s.mu.state = stopped
	s.mu.events = append(s.mu.events, s.unload)
	s.scheduleLocked()
	s.mu.Unlock()
	close(s.quit)
}

func (s *shard[M]) stopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.state == stopped
}

// turn does everything there is to do. The owner.
func (s *shard[M]) turn() {
	s.mu.Lock()
	events, inbox := s.mu.events, s.mu.inbox
	s.mu.events, s.mu.inbox = nil, s.mu.spare[:0]
	s.mu.spare = nil
	s.mu.Unlock()
	for _, fn := range events {
		fn()
	}
	for i := range inbox {
		s.input(&inbox[i])
	}
	s.guard(func() {
		if now := s.rt.o.Now(); s.serves() && s.m.Next() <= now {
			s.m.Tick(now, &s.out)
			s.deliver()
		}
	})
	s.append()
	s.announceDeadline()
	clear(inbox)
	s.mu.Lock()
	s.mu.spare = inbox[:0]
	s.mu.Unlock()
	s.endTurn()
}

// announceDeadline tells when the machine wants a turn.
func (s *shard[M]) announceDeadline() {
	next := int64(machine.Never)
	if s.serves() {
		next = s.m.Next()
	}
	if s.deadline.Swap(next) != next {
		s.rt.deadlineAt(next)
	}
}

// endTurn gives the turn back.
func (s *shard[M]) endTurn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.scheduled = false
	if len(s.mu.events)+len(s.mu.inbox) > 0 {
		s.scheduleLocked()
	}
}

func (s *shard[M]) input(in *Input[M]) {
	switch {
	case s.broken:
		in.Refuse(ErrFailed)
		return
	case !s.active:
		in.Refuse(ErrNotCoordinator)
		return
	}
	s.guard(func() {
		in.Run(s.m, s.rt.o.Now(), &s.out)
		s.deliver()
	})
}

// serves says whether the machine takes inputs.
func (s *shard[M]) serves() bool { return s.active && !s.broken }

// guard ends a shard whose machine panics: nothing more that it says goes into the log. It is loaded again, for what is in the log is what was promised;
// but not if it panicked over what was loaded.
func (s *shard[M]) guard(call func()) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		s.rt.o.Logger.Error("BUG: a coordinator panicked; its partition is loaded again, unless it did so at once", "topic", s.rt.o.Topic, "partition", s.p, "panic", p, "stack", string(debug.Stack()))
		s.out.Reset()
		s.broken = true
		if s.served {
			s.rt.restart(s)
		} else {
			s.giveUp(active)
		}
	}()
	call()
}

// giveUp ends the service of a partition that is in the state from.
func (s *shard[M]) giveUp(from state) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state == from {
		s.mu.state = failed
	}
}

// deliver does what the machine said: writes are queued, answers given, notes logged.
func (s *shard[M]) deliver() {
	for {
		tooLarge := s.takeWrites()
		for _, a := range s.out.Answers {
			a.To.Answer(a.Body)
		}
		for i := range s.out.Notes {
			s.note(&s.out.Notes[i])
		}
		s.out.Reset()
		if len(tooLarge) == 0 {
			return
		}
		for _, then := range tooLarge {
			then(s.rt.o.Now(), machine.ErrTooLarge, &s.out)
		}
	}
}

func (s *shard[M]) note(n *machine.Note) {
	level := slog.LevelInfo
	if n.Warn {
		level = slog.LevelWarn
	}
	s.rt.o.Notes.Log(level, n.Text, append(slices.Clone(n.Args), "partition", s.p)...)
}

// takeWrites queues the writes of the machine. It returns the continuations of those that can never be written: they fail alone.
func (s *shard[M]) takeWrites() (tooLarge []machine.Then) {
	most := s.rt.o.MaxBatchBytes(s.p)
	for i := range s.out.Writes {
		w := &write{Write: s.out.Writes[i]}
		if fits(w.Records, w.Split, most) {
			s.queue = append(s.queue, w)
		} else if w.Then != nil {
			tooLarge = append(tooLarge, w.Then)
		}
	}
	return tooLarge
}

// fits says whether records can be written: together, or each of them when they may be split.
func fits(records []machine.Record, split bool, most int) bool {
	size := record.HeaderSize
	for i := range records {
		if split {
			size = record.HeaderSize
		}
		if size += sizeOf(&records[i]); size > most {
			return false
		}
	}
	return true
}

// sizeOf is the most that a record takes in a batch.
func sizeOf(r *machine.Record) int { return record.MaxRecordOverhead + len(r.Key) + len(r.Value) }

// append sends what is queued, as much as one batch holds, if nothing is under way.
func (s *shard[M]) append() {
	if s.flying || len(s.queue) == 0 || !s.serves() {
		return
	}
	s.flying = true
	s.fill(s.rt.o.MaxBatchBytes(s.p))
	if s.batch.Count() == 0 { // writes without records: nothing is to be waited for
		s.appended(nil)
		s.append()
		return
	}
	s.buf = s.batch.Build(s.buf[:0])
	s.log.Append(s.buf, func(err error) { s.event(func() { s.appended(err) }) })
}

// fill moves writes from the queue into the next batch: as many as fit, and one in any case. It fitted when it was said; if the limit has been lowered
// since, the log refuses the batch.
func (s *shard[M]) fill(most int) {
	if s.batch == nil {
		s.batch = record.NewBuilder(record.Options{})
	}
	s.batch.Reset(record.Options{})
	now, size := s.rt.o.Now(), record.HeaderSize
	for len(s.queue) > 0 {
		w := s.queue[0]
		if !w.Split && size > record.HeaderSize && size+total(w.Records) > most {
			return
		}
		for w.next < len(w.Records) {
			r := &w.Records[w.next]
			if w.Split && size > record.HeaderSize && size+sizeOf(r) > most {
				break
			}
			size += sizeOf(r)
			s.batch.Append(now, r.Key, r.Value, nil)
			w.next++
		}
		last := w.next == len(w.Records)
		s.flight = append(s.flight, &part{w, last})
		if !last {
			return
		}
		s.queue[0] = nil
		s.queue = s.queue[1:]
	}
}

func total(records []machine.Record) (n int) {
	for i := range records {
		n += sizeOf(&records[i])
	}
	return n
}

// appended is the end of an append.
func (s *shard[M]) appended(err error) {
	s.flying = false
	if s.ended {
		close(s.quiet)
		return
	}
	if err != nil {
		s.rt.o.Logger.Warn("a coordinator could not write", "topic", s.rt.o.Topic, "partition", s.p, "error", err)
		if moved(err) {
			err = errors.Join(machine.ErrUnloaded, err)
		}
		s.failWrites(err)
		return
	}
	flight := s.flight
	s.flight = nil
	for _, f := range flight {
		if f.last && f.w.Then != nil {
			s.continueWith(f.w.Then, nil)
		}
	}
}

func (s *shard[M]) continueWith(then machine.Then, err error) {
	s.guard(func() {
		then(s.rt.o.Now(), err, &s.out)
		s.deliver()
	})
}

// failWrites ends everything that is not committed, the latest first. What the continuations write stays queued.
func (s *shard[M]) failWrites(err error) {
	var all []*write
	for _, f := range s.flight {
		if f.last {
			all = append(all, f.w)
		}
	}
	all = append(all, s.queue...)
	s.flight, s.queue = nil, nil
	for _, w := range slices.Backward(all) {
		if w.Then != nil {
			s.continueWith(w.Then, err)
		}
	}
}

// unload ends the machine. The batch under way, if any, stays with the log.
func (s *shard[M]) unload() {
	s.ended = true
	if !s.flying {
		close(s.quiet)
	}
	if !s.active {
		return
	}
	s.failWrites(fmt.Errorf("partition %d: %w", s.p, machine.ErrUnloaded))
	s.guard(func() {
		s.m.Unload(&s.out)
		s.deliver()
	})
	s.active = false
	s.queue = nil
	var none M
	s.m = none // the shard is remembered until the next one begins
}
