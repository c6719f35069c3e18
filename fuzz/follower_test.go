package fuzz

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// The truncation workload: a log as a follower keeps it. It appends what a leader of an epoch sends, and when the leader changes it cuts its end down to anywhere
// at or above the high watermark and takes other batches of the same offsets. The power is cut after every operation, also those of a truncation, as in the
// other workload. What must hold: the log ends at or above the high watermark, and holds the beginning of what was appended last; only while a truncation is
// under way may it still be the log from before, cut anywhere above where it is to end. Leader epochs and producers are those of the batches that are there.

// copied is a batch as the follower got it.
type copied struct {
	base, last int64
	epoch      int32
	producer   int64
	sequence   int32 // last
	bytes      []byte
}

// follower is a node with one log and what is known of it.
type follower struct {
	disk  *vfs.Mem
	gate  *gate
	rng   *rand.Rand
	clock *clock
	seed  uint64
	boots uint64
	hook  func(vfs.Op) // nil: none
	alive *atomic.Bool
	e     *engine.Engine
	l     *engine.Log
	say   *journal
	epoch int32

	mu sync.Mutex
	followed
}

// followed is what the disk has to keep.
type followed struct {
	line   []copied // what was appended, in order, without what was cut
	placed int      // of it, that was written
	old    []copied // while a truncation is under way: the line before
	hw     int64
	floor  int64 // the log start that was answered, or
	ceil   int64 // is being asked for
}

var followerTP = engine.TopicPartition{Topic: "followed"}

const followerSteps = 40

func endOf(line []copied) int64 {
	if len(line) == 0 {
		return 0
	}
	return line[len(line)-1].last + 1
}

// below is the part of a line that a log of this end holds; false when the end is inside a batch or behind all.
func below(line []copied, end int64) ([]copied, bool) {
	n := 0
	for n < len(line) && line[n].last < end {
		n++
	}
	return line[:n:n], endOf(line[:n]) == end
}

func (f *follower) open() error {
	f.boots++
	f.say = newJournal()
	set, err := newSet(smallConfig)
	if err != nil {
		return err
	}
	defaults, err := set.Broker()
	if err != nil {
		return err
	}
	topic, err := set.Topic(map[string]string{"index.interval.bytes": "300"})
	if err != nil {
		return err
	}
	cfg := *topic
	cfg.SegmentBytes = 1500
	f.alive = new(atomic.Bool)
	if f.hook != nil {
		f.disk.OnOp = whileAlive(f.alive, f.hook)
	}
	f.disk.SetNow(f.clock.time)
	f.e, err = engine.Open(engine.Options{FS: f.gate.through(f.disk), Dirs: []string{dataDir}, NodeID: nodeID, Defaults: defaults, Workers: 1, Now: f.clock.now,
		Logger: slog.New(f.say), SyncMethod: "fdatasync", CheckpointStepBytes: 500, Rand: seededReader{rand.New(rand.NewPCG(f.seed, f.boots))}})
	if err != nil {
		return fmt.Errorf("start refused: %w", err)
	}
	f.l, err = f.e.Create(followerTP, [16]byte{1, 2, 3}, &cfg)
	return err
}

// start opens the log, compares it with what must be there, and goes on from what is.
func (f *follower) start(how stopKind) error {
	if err := f.open(); err != nil {
		return err
	}
	line, err := f.check(how)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, f.say.text())
	}
	f.mu.Lock()
	f.line, f.placed, f.old = line, len(line), nil
	f.floor, f.ceil = f.l.StartOffset(), f.l.StartOffset()
	f.hw = max(f.hw, f.floor)
	f.mu.Unlock()
	f.l.SetHighWatermark(f.hw)
	f.epoch = max(f.epoch, f.l.LatestEpoch()) + 1
	return nil
}

func (f *follower) check(how stopKind) ([]copied, error) {
	if c := f.say.complaint(); c != "" {
		return nil, fmt.Errorf("the start complains: %s", c)
	}
	start, end := f.l.StartOffset(), f.l.EndOffset()
	if start < f.floor || start > f.ceil {
		return nil, fmt.Errorf("starts at %d; it must be from %d to %d", start, f.floor, f.ceil)
	}
	if f.l.FlushedOffset() != end {
		return nil, fmt.Errorf("flushed %d, log end %d", f.l.FlushedOffset(), end)
	}
	least := f.hw
	if how != powerCut { // all that was written, or that is to stay
		least = max(least, endOf(f.line[:f.placed]))
	}
	if end < least {
		return nil, fmt.Errorf("ends at %d; it must be at %d at least, the high watermark is %d", end, least, f.hw)
	}
	line, err := f.compare(f.line, start, end)
	if err != nil && f.old != nil {
		line, err = f.compare(f.old, start, end)
	}
	if err != nil {
		return nil, err
	}
	return line, f.checkProducers(line)
}

// compare reads the log and compares it with a line.
func (f *follower) compare(line []copied, start, end int64) ([]copied, error) {
	line, ok := below(line, end)
	if !ok {
		return nil, fmt.Errorf("ends at %d, where nothing ended that was sent", end)
	}
	for _, c := range line {
		if c.last < start {
			continue
		}
		stored, err := f.batchAt(max(c.base, start))
		if err != nil {
			return nil, fmt.Errorf("at %d: %w", c.base, err)
		}
		if !bytes.Equal(stored, c.bytes) {
			return nil, fmt.Errorf("another batch at %d than was sent last", c.base)
		}
		if got := f.l.EpochAt(max(c.base, start)); got != c.epoch {
			return nil, fmt.Errorf("leader epoch %d at %d, the batch says %d", got, c.base, c.epoch)
		}
	}
	return line, nil
}

func (f *follower) batchAt(offset int64) (record.Batch, error) {
	r, err := f.l.Read(offset, 1, f.l.EndOffset(), true)
	if err == nil {
		r, err = f.l.Check(r)
	}
	if err != nil {
		return nil, err
	}
	defer r.Release()
	buf := make([]byte, r.N)
	if _, err := r.ReadAt(buf, 0); err != nil {
		return nil, err
	}
	b, _, err := record.Frame(buf)
	return b, err
}

func (f *follower) checkProducers(line []copied) error {
	want, got := map[int64]int32{}, map[int64]int32{}
	for _, c := range line {
		if c.producer >= 0 {
			want[c.producer] = c.sequence
		}
	}
	for _, p := range f.l.Producers() {
		got[p.ProducerID] = p.LastSequence
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("producers are at %v, their batches say %v", got, want)
	}
	return nil
}

// run is the workload.
func (f *follower) run() error {
	if err := f.open(); err != nil {
		return err
	}
	for range followerSteps {
		if err := f.step(); err != nil {
			return err
		}
	}
	return f.e.Close(ctx)
}

func (f *follower) step() error {
	switch x := f.rng.IntN(20); {
	case x < 9:
		return f.append(1 + f.rng.IntN(4))
	case x < 11:
		f.raise()
		return nil
	case x < 15:
		return f.truncate()
	case x < 17:
		f.clock.ms.Add(1 + f.rng.Int64N(3000))
		f.e.Tick(f.clock.now())
		return nil
	case x < 18:
		return f.deleteRecords()
	}
	return f.restart()
}

// nextSequence is what the producer sends next.
func (f *follower) nextSequence(producer int64) int32 {
	for _, c := range slices.Backward(f.line) {
		if c.producer == producer {
			return c.sequence + 1
		}
	}
	return 0
}

// append appends batches of the leader, and sometimes waits until they are flushed.
func (f *follower) append(n int) error {
	for range n {
		c := copied{base: f.l.EndOffset(), epoch: f.epoch, producer: -1}
		o := record.Options{BaseOffset: c.base, PartitionLeaderEpoch: c.epoch}
		records := 1 + f.rng.Int32N(3)
		if f.rng.IntN(3) > 0 {
			c.producer = f.rng.Int64N(2)
			o.Idempotent, o.ProducerID, o.BaseSequence = true, c.producer, f.nextSequence(c.producer)
			c.sequence = o.BaseSequence + records - 1
		}
		b := record.NewBuilder(o)
		for i := range records {
			b.Append(f.clock.now(), nil, fmt.Appendf(nil, "%d/%d/%d:%0*d", c.base, i, c.epoch, f.rng.IntN(300), 0), nil)
		}
		c.bytes, c.last = b.Bytes(), c.base+int64(records)-1
		f.mu.Lock()
		f.line = append(f.line[:len(f.line):len(f.line)], c)
		f.mu.Unlock()
		done := make(answered, 1)
		f.l.Enqueue(&engine.Append{Batch: bytes.Clone(c.bytes), Origin: engine.FromLeader, Done: done})
		if err := <-done; err != nil {
			return fmt.Errorf("append at %d: %w", c.base, err)
		}
		f.mu.Lock()
		f.placed = len(f.line)
		f.mu.Unlock()
	}
	if f.rng.IntN(2) == 0 {
		for f.l.FlushedOffset() < f.l.EndOffset() && f.l.Err() == nil {
			runtime.Gosched()
		}
	}
	return f.l.Err()
}

// raise raises the high watermark to the end of some batch that is flushed.
func (f *follower) raise() {
	flushed := f.l.FlushedOffset()
	f.mu.Lock()
	for _, c := range f.line {
		if c.last < flushed && c.last >= f.hw && f.rng.IntN(3) == 0 {
			f.hw = c.last + 1
		}
	}
	f.mu.Unlock()
	f.l.SetHighWatermark(f.hw)
}

func (f *follower) truncate() error {
	end := f.l.EndOffset()
	if end == f.hw {
		return nil
	}
	to := f.hw + f.rng.Int64N(end-f.hw)
	f.mu.Lock()
	line, _ := below(f.line, to)
	f.old, f.line, f.placed = f.line, line, len(line)
	f.mu.Unlock()
	if err := f.l.Truncate(to); err != nil {
		return fmt.Errorf("truncate to %d of %d: %w", to, end, err)
	}
	if got, want := f.l.EndOffset(), endOf(line); got != want {
		return fmt.Errorf("ends at %d after a truncation to %d, which is in the batch at %d", got, to, want)
	}
	f.mu.Lock()
	f.old = nil
	f.mu.Unlock()
	f.epoch++
	return f.checkProducers(line)
}

func (f *follower) deleteRecords() error {
	if f.hw == f.floor {
		return nil
	}
	to := f.floor + 1 + f.rng.Int64N(f.hw-f.floor)
	f.mu.Lock()
	f.ceil = to
	f.mu.Unlock()
	_, err := f.l.DeleteRecords(to)
	f.mu.Lock()
	f.floor = to
	f.mu.Unlock()
	return err
}

// restart stops the node cleanly, kills it, or cuts the power.
func (f *follower) restart() error {
	if f.rng.IntN(3) == 0 {
		if err := f.e.Close(ctx); err != nil {
			return err
		}
		return f.start(stopped)
	}
	mode := vfs.CrashModes[f.rng.IntN(len(vfs.CrashModes))]
	after := f.disk.CrashAt(mode, f.rng.Uint64())
	f.alive.Store(false)
	_ = f.e.Close(ctx)
	f.disk = after
	if mode == vfs.KeepAll {
		return f.start(killed)
	}
	f.placed = 0
	return f.start(powerCut)
}

func newFollower(seed uint64) *follower {
	return &follower{disk: vfs.NewMem(seed), gate: newGate(seed), rng: rand.New(rand.NewPCG(seed, 21)), clock: newClock(startMs), seed: seed}
}

// followerMoment is a moment of a follower.
type followerMoment struct {
	followed
	op    int
	what  vfs.Op
	disk  *vfs.Mem
	nowMs int64
}

// recordFollower runs the workload of a seed.
func recordFollower(seed uint64, ops map[string]int) ([]*followerMoment, error) {
	f := newFollower(seed)
	var moments []*followerMoment
	f.hook = func(op vfs.Op) {
		f.mu.Lock()
		defer f.mu.Unlock()
		ops[op.Kind.String()]++
		moments = append(moments, &followerMoment{f.followed, len(moments) + 1, op, f.disk.Fork(), f.clock.now()})
	}
	return moments, f.run()
}

// explore is the life of a follower after a power cut: it starts, is checked, appends, cuts, and loses power once more while it appends.
func (m *followerMoment) explore(seed uint64, c cut, t *tally) error {
	seed = seed*1_000_003 + uint64(m.op)*64 + uint64(c.mode)*8 + c.variant
	f := newFollower(seed)
	f.disk, f.clock, f.followed = m.disk.CrashAt(c.mode, seed), newClock(m.nowMs), m.followed
	if c.mode != vfs.KeepAll {
		f.placed = 0
	}
	var second *followerMoment
	at, ops := 1+f.rng.IntN(60), 0
	f.hook = func(op vfs.Op) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if ops++; ops == at {
			second = &followerMoment{f.followed, ops, op, f.disk.Fork(), f.clock.now()}
		}
	}
	steps := []func() error{
		func() error { return f.start(c.how()) },
		func() error { return f.append(2) },
		f.truncate,
		func() error { return f.append(2) },
		func() error { return f.e.Close(ctx) },
	}
	for _, do := range steps {
		if err := do(); err != nil {
			return err
		}
	}
	t.Starts++
	if second == nil {
		second = &followerMoment{f.followed, ops, vfs.Op{}, f.disk.Fork(), f.clock.now()}
	}
	c = cuts[f.rng.IntN(len(cuts))]
	t.Truncation[c.mode.String()]++
	g := newFollower(seed + 1)
	g.disk, g.clock, g.followed = second.disk.CrashAt(c.mode, seed), newClock(m.nowMs), second.followed
	if err := errors.Join(g.start(c.how()), g.append(1), g.e.Close(ctx)); err != nil {
		return fmt.Errorf("second power cut, %v after operation %d, %v: %w", c.mode, second.op, second.what, err)
	}
	t.Starts++
	return nil
}
