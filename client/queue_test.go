package client

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

const (
	testID     = 77
	testLinger = 5
	testLimit  = 1000 // the delivery timeout
)

// bench is a queue under test: what it was given and what was told.
type bench struct {
	t    testing.TB
	q    queue
	now  int64
	sent int // records so far: their values are their numbers
	told []fate
}

type fate struct {
	d   Delivery
	err error
}

func newBench(t testing.TB, change func(*queueRules)) *bench {
	rules := &queueRules{topic: "a", linger: testLinger, maxInFlight: 5, idempotent: true, backoff: func(n int) int64 { return int64(10 * n) }}
	if change != nil {
		change(rules)
	}
	return &bench{t: t, q: queue{rules: rules, partition: 3, producerID: record.NoProducerID, knownUntil: never}} // the broker knows it
}

// add adds n records, to batches of three.
func (b *bench) add(n int) {
	for range n {
		number := b.sent
		b.sent++
		r := &Record{Value: strconv.AppendInt(nil, int64(number), 10)}
		done := func(d Delivery, err error) {
			if len(b.told) != number {
				b.t.Fatalf("told of record %d after %d", number, len(b.told)-1)
			}
			b.told = append(b.told, fate{d, err})
		}
		if b.q.open == nil {
			b.q.open = &batch{}
			b.q.open.reset(make([]byte, 0, 1024), record.Options{}, b.now, b.now+testLimit)
		}
		if !b.q.append(recordBound(r), b.now, r, done) {
			b.t.Fatal("no room")
		}
		if b.q.open.builder.Count() == 3 {
			b.q.seal()
		}
	}
}

// take takes a batch and makes its bytes.
func (b *bench) take() *batch {
	batch := b.q.take(b.now, testID)
	if batch != nil {
		if batch.data == nil {
			batch.seal(nil)
		}
		if err := batch.data.Check(); err != nil {
			b.t.Fatal(err)
		}
	}
	return batch
}

// takeAll takes what there is.
func (b *bench) takeAll() (all []*batch) {
	for batch := b.take(); batch != nil; batch = b.take() {
		all = append(all, batch)
	}
	return all
}

func (b *bench) answer(batch *batch, a answer) {
	b.q.answered(batch, a, b.now)
	b.tell()
}

func (b *bench) tell() {
	for batch := b.q.next(); batch != nil; batch = b.q.next() {
		batch.tell("a", 3)
	}
}

// codes are the answers that brokers give.
func coded(code protocol.Code) answer {
	return answer{kind: kindOf(code), err: rpc.ErrorOf(int16(code), nil, "a-3")}
}

func batchNumbers(batches []*batch) (all []string) {
	for _, b := range batches {
		all = append(all, fmt.Sprintf("%d@%d x%d", b.data.ProducerEpoch(), b.data.BaseSequence(), b.data.Count()))
	}
	return all
}

func (b *bench) want(batches []*batch, want ...string) []*batch {
	b.t.Helper()
	if got := batchNumbers(batches); !slices.Equal(got, want) {
		b.t.Fatalf("sent %v, want %v", got, want)
	}
	return batches
}

// A batch lingers, unless it is full or told to leave.
func TestLinger(t *testing.T) {
	b := newBench(t, nil)
	if b.q.sendAt() != never || b.q.expireAt() != never {
		t.Error("an empty queue has something to do")
	}
	b.now = 100
	b.add(1)
	if b.take() != nil || b.q.sendAt() != 105 || b.q.expireAt() != 1100 {
		t.Errorf("sent at %d, expires at %d", b.q.sendAt(), b.q.expireAt())
	}
	b.now = 105
	b.want(b.takeAll(), "0@0 x1")
	b.add(4) // one full, one open
	b.want(b.takeAll(), "0@1 x3")
	b.q.open.leave = true
	b.want(b.takeAll(), "0@4 x1")
	if b.q.sendAt() != never || b.q.expireAt() != never {
		t.Error("what is in flight is to be done")
	}
}

// No more are in flight than allowed; answers make room, and are told in order.
func TestInFlight(t *testing.T) {
	b := newBench(t, nil)
	b.add(21)
	flying := b.want(b.takeAll(), "0@0 x3", "0@3 x3", "0@6 x3", "0@9 x3", "0@12 x3")
	if b.q.sendAt() != never {
		t.Error("a sixth is sent")
	}
	b.answer(flying[0], answer{offset: 40, appendMs: -1})
	if len(b.told) != 3 || b.told[2].d.Offset != 42 || b.told[2].d.Partition != 3 || b.told[2].err != nil || !b.told[2].d.Appended.IsZero() {
		t.Errorf("told %+v", b.told)
	}
	b.want(b.takeAll(), "0@15 x3")
	b.answer(flying[2], answer{offset: 46, appendMs: 7})
	if len(b.told) != 3 {
		t.Error("the third is told of before the second")
	}
	b.answer(flying[1], answer{offset: 43, appendMs: -1})
	if len(b.told) != 9 || b.told[8].d.Offset != 48 || b.told[8].d.Appended.UnixMilli() != 7 {
		t.Errorf("told %+v", b.told)
	}
}

// After a failure nothing is sent until all in flight are answered; then all that failed, in order and with their numbers, after a back-off.
func TestRetryKeepsOrder(t *testing.T) {
	b := newBench(t, nil)
	b.add(12)
	flying := b.takeAll()
	b.answer(flying[0], coded(protocol.NotLeaderOrFollower))
	if b.take() != nil || b.q.sendAt() != never {
		t.Error("sent while others are in flight")
	}
	b.answer(flying[1], coded(protocol.OutOfOrderSequenceNumber)) // it came to the new leader
	b.answer(flying[2], answer{kind: retry, err: &LostError{}})
	b.answer(flying[3], answer{kind: retry, err: &LostError{}})
	if b.q.sendAt() != 10 || b.take() != nil {
		t.Errorf("again at %d", b.q.sendAt())
	}
	b.now = 10
	again := b.want(b.takeAll(), "0@0 x3", "0@3 x3", "0@6 x3", "0@9 x3")
	b.answer(again[0], coded(protocol.NotLeaderOrFollower))
	for _, batch := range again[1:] {
		b.answer(batch, coded(protocol.NotLeaderOrFollower))
	}
	if b.q.sendAt() != 30 { // a longer pause
		t.Errorf("again at %d", b.q.sendAt())
	}
	b.now = 30
	for i, batch := range b.takeAll() {
		b.answer(batch, answer{offset: int64(3 * i), appendMs: -1})
	}
	if len(b.told) != 12 || b.q.failures != 0 {
		t.Errorf("told of %d", len(b.told))
	}
}

// A batch that is rejected leaves a gap: those behind it are numbered anew in the next epoch, but first those whose fate is not known are asked for with their old numbers.
func TestGap(t *testing.T) {
	b := newBench(t, nil)
	b.add(15)
	flying := b.takeAll()
	b.answer(flying[0], answer{offset: 0, appendMs: -1})
	b.answer(flying[1], coded(protocol.InvalidRecord))
	if len(b.told) != 6 || Code(b.told[5].err) != protocol.InvalidRecord {
		t.Fatalf("told %+v", b.told)
	}
	b.answer(flying[2], answer{kind: retry, err: &LostError{}})
	b.answer(flying[3], answer{kind: retry, err: &LostError{}})
	b.answer(flying[4], answer{kind: retry, err: &LostError{}})
	b.now = 10
	probe := b.want(b.takeAll(), "0@6 x3") // one at a time
	b.answer(probe[0], coded(protocol.OutOfOrderSequenceNumber))
	first := b.want(b.takeAll(), "1@0 x3") // alone, for the broker does not know the epoch
	b.answer(first[0], answer{offset: 3, appendMs: -1})
	b.want(b.takeAll(), "1@3 x3", "1@6 x3")
}

// What a broker that does not know the producer gets first, nothing follows: it would take it with any number.
func TestFirstAlone(t *testing.T) {
	b := newBench(t, nil)
	b.q.knownUntil = 0
	b.add(9)
	first := b.want(b.takeAll(), "0@0 x3")
	b.answer(first[0], coded(protocol.NotLeaderOrFollower))
	b.now = 10
	first = b.want(b.takeAll(), "0@0 x3")
	b.answer(first[0], answer{offset: 0, appendMs: -1})
	for _, batch := range b.want(b.takeAll(), "0@3 x3", "0@6 x3") {
		b.answer(batch, answer{offset: 3, appendMs: -1})
	}
	b.now += silence // it may have forgotten
	b.add(6)
	b.want(b.takeAll(), "0@9 x3")
}

// One that timed out may have been appended, and so may those behind it.
func TestGapAfterTimeout(t *testing.T) {
	b := newBench(t, nil)
	b.add(3)
	b.now = 500
	b.add(6)
	flying := b.takeAll()
	for _, batch := range flying {
		b.answer(batch, answer{kind: retry, err: &LostError{Addr: "b1"}})
	}
	b.now = 1000
	if b.q.expireAt() != 1000 {
		t.Errorf("expires at %d", b.q.expireAt())
	}
	b.q.expire(b.now, nil)
	b.tell()
	if e, ok := errors.AsType[*DeliveryTimeoutError](b.told[2].err); !ok || len(b.told) != 3 || !e.Sent || e.Error() !=
		"records for a-3 were not acknowledged within the delivery timeout: the connection to b1 is lost: <nil>" {
		t.Fatalf("told %+v", b.told)
	}
	probe := b.want(b.takeAll(), "0@3 x3")
	b.answer(probe[0], answer{offset: 3, appendMs: -1}) // it was there, so the first is as well
	probe = b.want(b.takeAll(), "0@6 x3")
	b.answer(probe[0], coded(protocol.OutOfOrderSequenceNumber))
	b.want(b.takeAll(), "1@0 x3")
}

// Records that were never sent expire, too, open or sealed, and leave no gap.
func TestExpire(t *testing.T) {
	b := newBench(t, nil)
	b.add(4)
	b.q.blocked(errors.New("no leader"), 0)
	b.q.expire(999, nil)
	if b.tell(); len(b.told) != 0 {
		t.Error("too early")
	}
	b.now = 1000
	b.q.expire(b.now, nil)
	b.tell()
	if len(b.told) != 4 || b.told[0].err.Error() != "records for a-3 could not be sent within the delivery timeout: no leader" {
		t.Errorf("told %+v", b.told)
	}
	b.add(3)
	b.now = 2000
	b.want(b.takeAll(), "0@0 x3")
}

// The broker refuses what must come next: it has lost what it acknowledged. Nothing goes on, and nothing that waits is sent.
func TestLostByTheBroker(t *testing.T) {
	b := newBench(t, nil)
	b.add(16)
	flying := b.takeAll()
	b.answer(flying[0], answer{offset: 0, appendMs: -1})
	b.answer(flying[1], coded(protocol.OutOfOrderSequenceNumber))
	b.answer(flying[2], coded(protocol.OutOfOrderSequenceNumber))
	b.answer(flying[3], answer{kind: retry, err: &LostError{}})
	b.answer(flying[4], answer{offset: 9, appendMs: -1}) // whatever: the answer counts
	if len(b.told) != 16 || b.told[2].err != nil || b.told[12].err != nil || b.take() != nil || b.q.sendAt() != never {
		t.Fatalf("told %+v", b.told)
	}
	for _, n := range []int{3, 6, 9, 15} {
		if e, ok := errors.AsType[*FatalError](b.told[n].err); !ok || Code(e) != protocol.OutOfOrderSequenceNumber {
			t.Errorf("record %d: %v", n, b.told[n].err)
		}
	}
}

// Whoever is fenced is told so, and stops.
func TestFenced(t *testing.T) {
	for _, code := range []protocol.Code{protocol.InvalidProducerEpoch, protocol.ProducerFenced} {
		b := newBench(t, nil)
		b.add(7)
		flying := b.takeAll()
		b.answer(flying[0], coded(code))
		b.answer(flying[1], coded(code))
		if len(b.told) != 7 || b.q.fatal == nil {
			t.Fatalf("told %+v", b.told)
		}
		for _, f := range b.told {
			if _, ok := errors.AsType[*FatalError](f.err); !ok || Code(f.err) != code {
				t.Errorf("%v", f.err)
			}
		}
	}
}

// A broker that has forgotten the producer gets a new epoch.
func TestUnknownProducer(t *testing.T) {
	b := newBench(t, nil)
	b.add(6)
	for _, batch := range b.takeAll() {
		b.answer(batch, coded(protocol.UnknownProducerID))
	}
	b.now = 10
	first := b.want(b.takeAll(), "1@0 x3")
	b.answer(first[0], answer{offset: 3, appendMs: -1})
	b.want(b.takeAll(), "1@3 x3")
}

// Epochs end some time.
func TestLastEpoch(t *testing.T) {
	b := newBench(t, nil)
	b.q.epoch = math.MaxInt16
	b.add(6)
	flying := b.takeAll()
	b.answer(flying[0], coded(protocol.InvalidRecord))
	b.answer(flying[1], coded(protocol.OutOfOrderSequenceNumber))
	if b.take() != nil {
		t.Error("sent")
	}
	b.tell()
	if _, ok := errors.AsType[*FatalError](b.told[5].err); !ok || b.q.fatal == nil {
		t.Errorf("%v", b.told[5].err)
	}
}

// Sequence numbers go on at 0 behind the last one. A17: never negative.
func TestSequenceWraps(t *testing.T) {
	b := newBench(t, nil)
	b.q.nextSeq = math.MaxInt32 - 4
	b.add(9)
	b.want(b.takeAll(), "0@2147483643 x3", "0@2147483646 x3", "0@1 x3")
}

// What takes the place of a batch that was too large goes before those behind it, in a new epoch; when the producer has ended meanwhile, it fails in its turn.
func TestReplace(t *testing.T) {
	for _, ended := range []bool{false, true} {
		b := newBench(t, nil)
		b.add(9)
		flying := b.takeAll()
		b.answer(flying[0], answer{offset: 0, appendMs: -1})
		if ended {
			b.q.end(errors.New("ended"))
		}
		var halves []*batch
		for _, numbers := range [][]int{{3}, {4, 5}} {
			half := &batch{}
			half.reset(make([]byte, 0, 1024), record.Options{}, b.now, b.now+testLimit)
			for _, n := range numbers {
				half.add(0, &Record{Value: strconv.AppendInt(nil, int64(n), 10)}, flying[1].dones[n-3])
			}
			halves = append(halves, half)
		}
		b.q.replace(flying[1], halves)
		b.answer(flying[2], coded(protocol.OutOfOrderSequenceNumber))
		if ended {
			if len(b.told) != 9 || b.told[3].err == nil || b.told[8].err == nil {
				t.Errorf("told %+v", b.told)
			}
			continue
		}
		first := b.want(b.takeAll(), "1@0 x1")
		b.answer(first[0], answer{offset: 3, appendMs: -1})
		for i, batch := range b.want(b.takeAll(), "1@1 x2", "1@3 x3") {
			b.answer(batch, answer{offset: int64(4 + 2*i), appendMs: -1})
		}
		if len(b.told) != 9 || b.told[8].d.Offset != 8 {
			t.Errorf("told %+v", b.told)
		}
	}
}

// Without idempotence there are no numbers and no gaps.
func TestNotIdempotent(t *testing.T) {
	b := newBench(t, func(r *queueRules) { r.idempotent = false })
	b.add(6)
	flying := b.want(b.takeAll(), "-1@-1 x3", "-1@-1 x3")
	b.answer(flying[0], coded(protocol.OutOfOrderSequenceNumber))
	b.answer(flying[1], answer{kind: retry, err: &LostError{}})
	if len(b.told) != 3 || b.q.fatal != nil {
		t.Errorf("told %+v", b.told)
	}
	b.now = 10
	b.want(b.takeAll(), "-1@-1 x3")
}

// modelBroker is a partition as Kafka keeps it: the log, and of a producer its epoch and its last five batches.
type modelBroker struct {
	log    []int // numbers of records
	epoch  int16
	known  bool
	next   int32
	window []modelBatch
}

type modelBatch struct {
	seq, count int32
	offset     int64
}

// append takes a batch or not.
func (m *modelBroker) append(b record.Batch) (int64, protocol.Code) {
	switch {
	case m.known && b.ProducerEpoch() < m.epoch:
		return 0, protocol.InvalidProducerEpoch
	case m.known && b.ProducerEpoch() > m.epoch && b.BaseSequence() != 0:
		return 0, protocol.OutOfOrderSequenceNumber
	case !m.known || b.ProducerEpoch() > m.epoch:
		m.known, m.epoch, m.next, m.window = true, b.ProducerEpoch(), b.BaseSequence(), nil
	}
	for _, w := range m.window {
		if w.seq == b.BaseSequence() && w.count == b.Count() {
			return w.offset, protocol.None
		}
	}
	if b.BaseSequence() != m.next {
		return 0, protocol.OutOfOrderSequenceNumber
	}
	offset := int64(len(m.log))
	_ = b.Records(func(r *record.Record) error {
		n, err := strconv.Atoi(string(r.Value))
		m.log = append(m.log, n)
		return err
	})
	m.window = append(m.window, modelBatch{b.BaseSequence(), b.Count(), offset})
	m.window = m.window[max(0, len(m.window)-5):]
	m.next = record.AddSequence(m.next, b.Count())
	return offset, protocol.None
}

// TestQueueModel: whatever happens to connections, answers, leaders, single batches and time, every record is told of once and in order; what is acknowledged is in the log where
// it is said to be, in order; nothing is there twice; and what was rejected is not there.
func TestQueueModel(t *testing.T) {
	runs := 3000
	if testing.Short() {
		runs = 300
	}
	for seed := range runs {
		runModel(t, uint64(seed))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func runModel(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	b, m := newBench(t, func(rules *queueRules) { rules.maxInFlight = 1 + r.IntN(5) }), &modelBroker{}
	b.q.knownUntil = 0
	var wire []*batch // sent and not yet answered, in the order of the connection
	poison := map[*batch]bool{}
	step := func(calm bool) {
		switch n := r.IntN(12); {
		case n < 3 && !calm:
			b.add(1 + r.IntN(4))
		case n < 5:
			b.now += int64(r.IntN(30))
		case n < 8:
			if batch := b.take(); batch != nil {
				wire = append(wire, batch)
				if _, seen := poison[batch]; !seen {
					poison[batch] = r.IntN(15) == 0
				}
			}
		case n == 8 && !calm: // the connection is lost; the broker has read some of it
			if r.IntN(4) > 0 {
				return
			}
			for i, batch := range wire {
				if i <= r.IntN(len(wire)+1) && !poison[batch] {
					m.append(batch.data)
				} else {
					break
				}
			}
			lost := wire
			wire = nil
			for _, batch := range lost {
				b.answer(batch, answer{kind: retry, err: &LostError{Addr: "b"}})
			}
		case len(wire) > 0:
			batch := wire[0]
			wire = wire[1:]
			if !calm && r.IntN(10) == 0 {
				b.answer(batch, coded(protocol.NotLeaderOrFollower))
				return
			}
			if poison[batch] {
				b.answer(batch, coded(protocol.InvalidRecord))
				return
			}
			offset, code := m.append(batch.data)
			a := coded(code)
			a.offset, a.appendMs = offset, -1
			b.answer(batch, a)
		case !calm && r.IntN(20) == 0:
			b.now += testLimit / 2
		}
		b.q.expire(b.now, nil)
		b.tell()
	}
	for range 300 {
		step(false)
	}
	for i := 0; len(b.told) < b.sent; i++ {
		if i > 100_000 {
			t.Fatalf("seed %d: %d of %d told", seed, len(b.told), b.sent)
		}
		step(true)
	}
	checkModel(t, b, m)
}

func checkModel(t *testing.T, b *bench, m *modelBroker) {
	if b.q.fatal != nil {
		t.Errorf("it ended: %v", b.q.fatal)
	}
	if !slices.IsSorted(m.log) || len(slices.Compact(slices.Clone(m.log))) != len(m.log) {
		t.Errorf("the log is out of order or has a record twice: %v", m.log)
	}
	at := map[int]int64{}
	for offset, n := range m.log {
		at[n] = int64(offset)
	}
	for n, f := range b.told {
		offset, there := at[n]
		switch {
		case f.err == nil && (!there || offset != f.d.Offset):
			t.Errorf("record %d is said to be at %d: there %t, %d", n, f.d.Offset, there, offset)
		case Code(f.err) == protocol.InvalidRecord && there:
			t.Errorf("record %d was rejected and is there", n)
		}
		if e, ok := errors.AsType[*DeliveryTimeoutError](f.err); ok && !e.Sent && there {
			t.Errorf("record %d is said never to have been sent, and is there", n)
		}
	}
}
