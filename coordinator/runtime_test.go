package coordinator

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/internal/logtest"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/replication"
)

const patience = 30 * time.Second

// memLog is a Log in memory whose appends end when the test says so.
type memLog struct {
	mu        sync.Mutex
	bytes     []byte
	end       int64
	committed int64
	wake      func()
	appends   chan func(error) // ends of appends; nil error commits
	auto      bool
	fail      error
	batches   []int32 // records of each append
	loads     int     // begun
}

func newMemLog(auto bool) *memLog { return &memLog{appends: make(chan func(error), 100), auto: auto} }

func (l *memLog) Bounds() (int64, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loads++
	return 0, l.end
}

func (l *memLog) Read(offset int64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.bytes
	for len(b) > 0 {
		batch, rest, err := record.Frame(b)
		if err != nil {
			return nil, err
		}
		if batch.LastOffset() >= l.committed {
			return nil, nil
		}
		if batch.LastOffset() >= offset {
			return bytes.Clone(batch), nil
		}
		b = rest
	}
	return nil, nil
}

func (l *memLog) AwaitCommitted(offset int64, wake func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.committed > offset {
		return false
	}
	l.wake = wake
	return true
}

func (l *memLog) Append(b []byte, done func(error)) {
	l.mu.Lock()
	batch := record.Batch(bytes.Clone(b))
	l.batches = append(l.batches, batch.Count())
	fail := l.fail
	l.mu.Unlock()
	end := func(err error) {
		if err == nil {
			l.add(batch)
		}
		done(err)
	}
	if l.auto {
		end(fail)
		return
	}
	l.appends <- end
}

func (l *memLog) add(batch record.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch.SetBaseOffset(l.end)
	l.bytes = append(l.bytes, batch...)
	l.end += int64(batch.Count())
	l.committed = l.end
}

// sum is a machine that adds numbers: what is committed, and what is said to be.
type sum struct {
	committed, ahead int64
	next             int64
	ticks            int
	unloaded         bool
	parked           []machine.Ticket
	cursed           bool
}

func (m *sum) Replay(_ int64, r machine.Record) error {
	if len(r.Value) != 8 {
		return errors.New("not a number")
	}
	m.committed += int64(binary.BigEndian.Uint64(r.Value))
	return nil
}
func (m *sum) Loaded(int64, *machine.Out) {
	if m.cursed {
		panic("a bug in Loaded")
	}
	m.ahead = m.committed
}
func (m *sum) Next() int64 {
	if m.next == 0 {
		return machine.Never
	}
	return m.next
}
func (m *sum) Tick(int64, *machine.Out) { m.ticks++; m.next = 0 }
func (m *sum) Unload(out *machine.Out) {
	m.unloaded = true
	for _, t := range m.parked {
		out.Answer(t, machine.ErrUnloaded)
	}
	m.parked = nil
}

func number(n int64) machine.Record {
	return machine.Record{Key: []byte("k"), Value: binary.BigEndian.AppendUint64(nil, uint64(n))}
}

// add adds ahead of the commit, and takes it back when it fails.
func (m *sum) add(n int64, to machine.Ticket, out *machine.Out) {
	m.ahead += n
	after := m.ahead
	out.Write([]machine.Record{number(n)}, func(_ int64, err error, out *machine.Out) {
		if err != nil {
			if m.ahead != after {
				panic(fmt.Sprintf("taken back in the wrong order: %d, want %d", m.ahead, after))
			}
			m.ahead -= n
			out.Answer(to, err)
			return
		}
		m.committed += n
		out.Answer(to, m.committed)
	})
}

// ticket keeps one answer.
type ticket struct{ got chan any }

func newTicket() *ticket          { return &ticket{make(chan any, 1)} }
func (t *ticket) Answer(body any) { t.got <- body }

func (t *ticket) wait(tb testing.TB) any {
	tb.Helper()
	select {
	case a := <-t.got:
		return a
	case <-time.After(patience):
		tb.Fatal("no answer")
		return nil
	}
}

type rig struct {
	t     *testing.T
	rt    *Runtime[*sum]
	clock atomic.Int64
	soon  atomic.Int64
	logs  *logtest.Buffer
	last  atomic.Pointer[sum]
	most  atomic.Int64 // bytes of a batch

	cursed atomic.Bool // machines panic when they are loaded
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, logs: new(logtest.Buffer)}
	r.clock.Store(1000)
	r.most.Store(1000)
	r.rt = New(Options[*sum]{Topic: "__test", Now: r.clock.Load, MaxBatchBytes: func(int32) int { return int(r.most.Load()) }, Soon: func() { r.soon.Add(1) },
		New:    func(int32) *sum { m := &sum{cursed: r.cursed.Load()}; r.last.Store(m); return m },
		Logger: slog.New(slog.NewTextHandler(r.logs, nil))})
	t.Cleanup(r.rt.Close)
	return r
}

func (r *rig) start(log Log) { r.rt.Start(0, 1, func() Log { return log }) }

// do runs fn on the machine and returns its answer; err when it is refused. Loading is waited for.
func (r *rig) do(fn func(m *sum, now int64, to machine.Ticket, out *machine.Out)) *ticket {
	t := newTicket()
	deadline := time.Now().Add(patience)
	for {
		refused := make(chan error, 1)
		ran := make(chan struct{})
		r.rt.Do(0, Input[*sum]{
			Run:    func(m *sum, now int64, out *machine.Out) { close(ran); fn(m, now, t, out) },
			Refuse: func(err error) { refused <- err },
		})
		select {
		case <-ran:
			return t
		case err := <-refused:
			if err != ErrLoading || time.Now().After(deadline) {
				t.Answer(err)
				return t
			}
		}
	}
}

// once is one try of do; the ticket gets the reason when it is refused.
func (r *rig) once(t *ticket, fn func(m *sum, out *machine.Out)) {
	r.rt.Do(0, Input[*sum]{Run: func(m *sum, _ int64, out *machine.Out) { fn(m, out) }, Refuse: func(err error) { t.Answer(err) }})
}

func (r *rig) add(n int64) *ticket {
	return r.do(func(m *sum, _ int64, to machine.Ticket, out *machine.Out) { m.add(n, to, out) })
}

func (r *rig) want(got any, want any) {
	r.t.Helper()
	if err, ok := got.(error); ok {
		if target, ok := want.(error); ok && errors.Is(err, target) {
			return
		}
	}
	if got != want {
		r.t.Fatalf("answer %v, want %v", got, want)
	}
}

// What was answered is in the log, and a machine loaded from it knows it.
func TestWriteAndReload(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	r.start(log)
	r.want(r.add(1).wait(t), int64(1))
	r.want(r.add(2).wait(t), int64(3))
	r.start(log)
	r.want(r.add(4).wait(t), int64(7))
	if log.end != 3 {
		t.Fatalf("%d records", log.end)
	}
}

// While an append is under way what is said goes into the next one; answers come when it is committed, in order.
func TestBatching(t *testing.T) {
	r, log := newRig(t), newMemLog(false)
	r.start(log)
	first := r.add(1)
	end := <-log.appends
	var rest []*ticket
	for range 5 {
		rest = append(rest, r.add(1))
	}
	r.do(func(m *sum, _ int64, to machine.Ticket, out *machine.Out) { out.Answer(to, m.committed) }).wait(t)
	select {
	case <-first.got:
		t.Fatal("answered before it was committed")
	default:
	}
	end(nil)
	r.want(first.wait(t), int64(1))
	(<-log.appends)(nil)
	for i, ti := range rest {
		r.want(ti.wait(t), int64(i+2))
	}
	if fmt.Sprint(log.batches) != "[1 5]" {
		t.Fatalf("appends of %v records", log.batches)
	}
}

// A quick input is done by whoever brings it, when nobody has the turn and nothing waits; else it waits behind what came before. One that cannot be
// done quickly goes the usual way.
func TestQuick(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	r.start(log)
	r.add(1).wait(t)
	tried, ran := 0, 0
	ask := func(can bool) *ticket {
		to := newTicket()
		r.rt.Do(0, Input[*sum]{
			Quick: func(m *sum, _ int64, out *machine.Out) bool {
				if tried++; can {
					out.Answer(to, m.committed)
				}
				return can
			},
			Run:    func(m *sum, _ int64, out *machine.Out) { ran++; out.Answer(to, -m.committed) },
			Refuse: func(err error) { to.Answer(err) },
		})
		return to
	}
	await := func(what string, ok func() bool) { // the owner gives the turn back after it has answered
		for deadline := time.Now().Add(patience); !ok(); runtime.Gosched() {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	s := (*r.rt.shards.Load())[0]
	free := func() bool { s.mu.Lock(); defer s.mu.Unlock(); return !s.mu.scheduled }
	await("the turn is not given back", free)
	to := ask(true)
	select {
	case got := <-to.got:
		r.want(got, int64(1))
	default:
		t.Fatal("it was not answered on the spot")
	}
	r.want(ask(false).wait(t), int64(-1))
	if tried != 2 || ran != 1 {
		t.Fatalf("tried %d times, ran %d times", tried, ran)
	}
	await("the turn is not given back", free)
	var inside *ticket
	r.do(func(*sum, int64, machine.Ticket, *machine.Out) { inside = ask(true) }) // while somebody has the turn
	await("the first is not done", free)
	r.want(inside.wait(t), int64(-1))
	if tried != 2 || ran != 2 {
		t.Fatalf("tried %d times, ran %d times", tried, ran)
	}
	r.rt.Stop(0)
	r.want(ask(true).wait(t), ErrNotCoordinator)
}

// A quick input that panics is refused, and the machine is loaded anew.
func TestQuickPanics(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	r.start(log)
	r.want(r.add(1).wait(t), int64(1))
	for broken := false; !broken; {
		to := newTicket()
		r.rt.Do(0, Input[*sum]{
			Quick:  func(*sum, int64, *machine.Out) bool { panic("a bug in Quick") },
			Run:    func(_ *sum, _ int64, out *machine.Out) { out.Answer(to, nil) }, // the owner has not given the turn back yet
			Refuse: func(err error) { to.Answer(err) },
		})
		err, _ := to.wait(t).(error)
		broken = err != nil
	}
	r.want(r.add(2).wait(t), int64(3))
}

// An append that fails takes back what was said since, the latest first; the next one works.
func TestFailedAppend(t *testing.T) {
	r, log := newRig(t), newMemLog(false)
	r.start(log)
	broken := errors.New("disk full")
	a := r.add(1)
	end := <-log.appends
	b, c := r.add(2), r.add(3)
	r.do(func(m *sum, _ int64, to machine.Ticket, out *machine.Out) { out.Answer(to, m.ahead) }).wait(t)
	end(broken)
	for _, ti := range []*ticket{a, b, c} {
		r.want(ti.wait(t), broken)
	}
	d := r.add(5)
	(<-log.appends)(nil)
	r.want(d.wait(t), int64(5))
	if log.end != 1 {
		t.Fatalf("%d records in the log", log.end)
	}
}

// Records that fit into no batch fail alone; those that may be split come in several.
func TestLargeWrites(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	r.start(log)
	big := machine.Record{Key: []byte("k"), Value: make([]byte, 2000)}
	got := r.do(func(_ *sum, _ int64, to machine.Ticket, out *machine.Out) {
		out.Write([]machine.Record{big}, func(_ int64, err error, out *machine.Out) { out.Answer(to, err) })
	}).wait(t)
	r.want(got, machine.ErrTooLarge)
	many := make([]machine.Record, 100)
	for i := range many {
		many[i] = number(1)
	}
	write := func(split bool) any {
		return r.do(func(_ *sum, _ int64, to machine.Ticket, out *machine.Out) {
			out.Writes = append(out.Writes, machine.Write{Records: many, Split: split, Then: func(_ int64, err error, out *machine.Out) { out.Answer(to, err) }})
		}).wait(t)
	}
	r.want(write(false), machine.ErrTooLarge)
	r.want(write(true), nil)
	if log.end != 100 || len(log.batches) < 3 {
		t.Fatalf("%d records in %v", log.end, log.batches)
	}
	r.want(r.add(1).wait(t), int64(1))
}

// The limit of batches may be lowered while writes wait that fitted before: they go to the log whole, which refuses them or not.
func TestLowerBatchLimit(t *testing.T) {
	r, log := newRig(t), newMemLog(false)
	r.start(log)
	first := r.add(1)
	end := <-log.appends
	write := func(split bool) *ticket {
		return r.do(func(_ *sum, _ int64, to machine.Ticket, out *machine.Out) {
			out.Writes = append(out.Writes, machine.Write{Records: []machine.Record{number(1), number(1)}, Split: split,
				Then: func(_ int64, err error, out *machine.Out) { out.Answer(to, err) }})
		})
	}
	together, split := write(false), write(true)
	r.do(func(_ *sum, _ int64, to machine.Ticket, out *machine.Out) { out.Answer(to, nil) }).wait(t)
	r.most.Store(10) // less than any record
	end(nil)
	r.want(first.wait(t), int64(1))
	refused := errors.New("larger than max.message.bytes")
	(<-log.appends)(refused)
	r.want(together.wait(t), refused)
	r.want(split.wait(t), refused)
	if fmt.Sprint(log.batches) != "[1 2]" {
		t.Fatalf("appends of %v records", log.batches)
	}
	r.most.Store(1000)
	second := r.add(1)
	(<-log.appends)(nil)
	r.want(second.wait(t), int64(2)) // of what is committed the machine counts what add brought
}

// A record that cannot be understood fails the partition, with its offset in the log; the others go on. Nothing is guessed.
func TestDamagedRecord(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	b := record.NewBuilder(record.Options{})
	b.Append(1, []byte("k"), number(1).Value, nil)
	b.Append(1, []byte("k"), []byte("nonsense!"), nil)
	log.add(record.Batch(b.Bytes()))
	r.start(log)
	r.rt.Start(1, 1, func() Log { return newMemLog(true) })
	r.want(r.add(1).wait(t), ErrFailed)
	if !strings.Contains(r.logs.String(), "offset 1") || !strings.Contains(r.logs.String(), "not a number") {
		t.Fatalf("log: %s", r.logs)
	}
	other := newTicket()
	deadline := time.Now().Add(patience)
	for ok := false; !ok && time.Now().Before(deadline); {
		done := make(chan bool, 1)
		r.rt.Do(1, Input[*sum]{Run: func(m *sum, _ int64, out *machine.Out) { m.add(1, other, out); done <- true }, Refuse: func(error) { done <- false }})
		ok = <-done
	}
	r.want(other.wait(t), int64(1))

	// Likewise damage that the checksum finds.
	log = newMemLog(true)
	log.add(record.Batch(b.Bytes()))
	log.bytes[len(log.bytes)-1] ^= 1
	r.start(log)
	r.want(r.add(1).wait(t), ErrFailed)
}

// What is in the log and not committed when a shard begins is waited for: another leader may have promised it.
func TestLoadWaitsForCommit(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	b := record.NewBuilder(record.Options{})
	b.Append(1, []byte("k"), number(5).Value, nil)
	log.add(record.Batch(b.Bytes()))
	log.committed = 0
	r.start(log)
	eventually(t, func() bool { log.mu.Lock(); defer log.mu.Unlock(); return log.wake != nil })
	refused := newTicket()
	r.rt.Do(0, Input[*sum]{Run: func(*sum, int64, *machine.Out) { refused.Answer("ran") }, Refuse: func(err error) { refused.Answer(err) }})
	r.want(refused.wait(t), ErrLoading)
	log.mu.Lock()
	log.committed = 1
	wake := log.wake
	log.mu.Unlock()
	wake()
	r.want(r.add(1).wait(t), int64(6))
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("did not happen")
		}
	}
}

// Stopping answers everybody: who waits in the machine, whose write is under way, who comes after. A shard that takes over
// does not load before the write under way is in the log or has failed.
func TestStopAndTakeOver(t *testing.T) {
	r, log := newRig(t), newMemLog(false)
	r.start(log)
	parked := r.do(func(m *sum, _ int64, to machine.Ticket, _ *machine.Out) { m.parked = append(m.parked, to) })
	w := r.add(7)
	end := <-log.appends
	r.start(log)
	r.want(parked.wait(t), machine.ErrUnloaded)
	r.want(w.wait(t), machine.ErrUnloaded)
	end(nil) // it was answered as unknown, and it is in the log
	next := r.add(1)
	(<-log.appends)(nil)
	r.want(next.wait(t), int64(8))
	r.rt.Stop(0)
	r.want(r.add(1).wait(t), ErrNotCoordinator)
}

// The write under way is waited for, too, when the leadership was lost for a while, and when the shards in between never got to load.
func TestTakeOverAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, log := newRig(t), newMemLog(false)
		r.start(log)
		w := r.add(7)
		end := <-log.appends
		r.rt.Stop(0)
		r.want(w.wait(t), machine.ErrUnloaded)
		for range 3 {
			r.start(log)
		}
		synctest.Wait()
		if log.loads != 1 {
			t.Fatal("it loads while a write is under way")
		}
		end(nil)
		next := r.add(1)
		(<-log.appends)(nil)
		r.want(next.wait(t), int64(8))
	})
}

// The end of the leadership that shows as a failed append is told as such.
func TestAppendWithoutLeadership(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	log.fail = replication.ErrNotLeader
	r.start(log)
	r.want(r.add(1).wait(t), machine.ErrUnloaded)
}

// Deadlines are met without any input.
func TestTick(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	r.start(log)
	r.do(func(m *sum, now int64, to machine.Ticket, out *machine.Out) { m.next = now + 500; out.Answer(to, nil) }).wait(t)
	ticks := func() any {
		return r.do(func(m *sum, _ int64, to machine.Ticket, out *machine.Out) { out.Answer(to, m.ticks) }).wait(t)
	}
	if next := r.rt.Tick(1499); next != 1500 {
		t.Fatalf("the next deadline is %d", next)
	}
	r.want(ticks(), 0)
	if got := r.soon.Load(); got < 1 || got > 3 {
		t.Fatalf("Soon was called %d times", got)
	}
	r.clock.Store(1500)
	eventually(t, func() bool { r.rt.Tick(1500); return ticks() == 1 })
}

// A machine with a bug does not take the broker along: its partition is loaded again.
func TestPanic(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	r.start(log)
	r.want(r.add(3).wait(t), int64(3))
	parked := r.do(func(m *sum, _ int64, to machine.Ticket, _ *machine.Out) { m.parked = append(m.parked, to) })
	r.do(func(*sum, int64, machine.Ticket, *machine.Out) { panic("a bug") })
	r.want(parked.wait(t), machine.ErrUnloaded)
	var got any
	eventually(t, func() bool { got = r.add(1).wait(t); _, ok := got.(int64); return ok })
	r.want(got, int64(4))
	if !strings.Contains(r.logs.String(), "a bug") {
		t.Fatalf("log: %s", r.logs)
	}
}

// Nothing that a machine with a bug says after it gets into the log, though other inputs of the same turn come behind.
func TestNothingAfterPanic(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	r.start(log)
	r.want(r.add(3).wait(t), int64(3))
	before, after := newTicket(), newTicket()
	held, release := make(chan bool), make(chan bool)
	r.do(func(*sum, int64, machine.Ticket, *machine.Out) { close(held); <-release })
	<-held // what comes now is one turn
	r.once(before, func(m *sum, out *machine.Out) { m.add(10, before, out) })
	r.once(newTicket(), func(m *sum, _ *machine.Out) { m.committed = 77; panic("a bug") })
	r.once(after, func(m *sum, out *machine.Out) { m.add(100, after, out) })
	close(release)
	r.want(after.wait(t), ErrFailed)
	r.want(before.wait(t), machine.ErrUnloaded)
	var got any
	eventually(t, func() bool { got = r.add(1).wait(t); _, ok := got.(int64); return ok })
	r.want(got, int64(4))
}

// A machine that panics over what was loaded would do so after every load: it is not loaded again and again.
func TestPanicWhenLoaded(t *testing.T) {
	r, log := newRig(t), newMemLog(true)
	r.cursed.Store(true)
	r.start(log)
	r.want(r.add(1).wait(t), ErrFailed)
	first := r.last.Load()
	r.rt.Tick(2000)
	r.want(r.add(1).wait(t), ErrFailed)
	if r.last.Load() != first {
		t.Fatal("it was loaded again")
	}
	r.cursed.Store(false)
	r.start(log) // led anew
	r.want(r.add(1).wait(t), int64(1))
}

// Many clients, appends that end at any time, some failing, and take-overs: what was answered is in the log and nothing else is
// counted twice.
func TestHammer(t *testing.T) {
	r, log := newRig(t), newMemLog(false)
	r.start(log)
	stop := make(chan struct{})
	var ender sync.WaitGroup
	ender.Go(func() {
		for n := 0; ; n++ {
			select {
			case end := <-log.appends:
				if n%7 == 3 {
					end(errors.New("no"))
				} else {
					end(nil)
				}
			case <-stop:
				return
			}
		}
	})
	var clients sync.WaitGroup
	var promised atomic.Int64
	for range 8 {
		clients.Go(func() {
			for range 200 {
				if _, ok := r.add(1).wait(t).(int64); ok {
					promised.Add(1)
				}
			}
		})
	}
	for range 5 {
		r.add(0).wait(t)
		r.start(log)
	}
	clients.Wait()
	total := r.do(func(m *sum, _ int64, to machine.Ticket, out *machine.Out) { out.Answer(to, m.committed) }).wait(t).(int64)
	r.rt.Stop(0)
	close(stop)
	ender.Wait()
	if total < promised.Load() {
		t.Fatalf("%d were promised, %d are there", promised.Load(), total)
	}
	m := new(sum)
	if _, _, err := replayBatches(m, log.bytes, 0); err != nil || m.committed != total {
		t.Fatalf("the log says %d (%v), the machine said %d", m.committed, err, total)
	}
}
