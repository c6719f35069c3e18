package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/leatmq/leat/record"
)

// pBatch describes a batch of a producer.
type pBatch struct {
	id     int64
	epoch  int16
	seq    int32 // of the first record
	n      int32 // records, default 1
	offset int64
	ts     int64
	txn    bool
}

// batch returns the header: all that the table looks at, for data.
func (p pBatch) batch() record.Batch {
	b := make(record.Batch, record.HeaderSize)
	n := max(p.n, 1)
	b.SetBaseOffset(p.offset)
	binary.BigEndian.PutUint32(b[8:], record.HeaderSize-record.LogOverhead)
	b[16] = record.Magic
	if p.txn {
		b[22] |= 0x10
	}
	binary.BigEndian.PutUint32(b[23:], uint32(n-1))
	binary.BigEndian.PutUint64(b[35:], uint64(p.ts))
	binary.BigEndian.PutUint64(b[43:], uint64(p.id))
	binary.BigEndian.PutUint16(b[51:], uint16(p.epoch))
	binary.BigEndian.PutUint32(b[53:], uint32(p.seq))
	binary.BigEndian.PutUint32(b[57:], uint32(n))
	return b
}

// markerBatch returns a whole control batch that ends a transaction.
func markerBatch(id int64, epoch int16, offset, ts int64, kind uint16, coordinatorEpoch int32) record.Batch {
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	value := binary.BigEndian.AppendUint32([]byte{0, 0}, uint32(coordinatorEpoch))
	w := record.NewBuilder(record.Options{BaseOffset: offset, Idempotent: true, ProducerID: id, Epoch: epoch, BaseSequence: -1, Transactional: true, Control: true})
	w.Append(ts, key, value, nil)
	return w.Bytes()
}

// appendTo checks and updates like the append path does.
func appendTo(tab *producerTable, b record.Batch) (string, error) {
	dup, isDup, err := tab.check(b)
	switch {
	case err != nil:
		return "", err
	case isDup:
		return fmt.Sprintf("dup %d-%d", dup.baseOffset(), dup.lastOffset), nil
	}
	tab.update(b)
	return "ok", nil
}

func mustAppend(t *testing.T, tab *producerTable, b record.Batch, want string) {
	t.Helper()
	if got, err := appendTo(tab, b); got != want || err != nil {
		t.Fatalf("got %q, %v; want %q", got, err, want)
	}
}

func mustRefuse(t *testing.T, tab *producerTable, b record.Batch, want error) {
	t.Helper()
	before := tableText(tab)
	if got, err := appendTo(tab, b); !errors.Is(err, want) {
		t.Fatalf("got %q, %v; want %v", got, err, want)
	}
	if tableText(tab) != before {
		t.Fatal("a refused batch changed the table")
	}
}

// tableText shows all of a table that behaviour depends on.
func tableText(tab *producerTable) string {
	var b strings.Builder
	for _, p := range tab.sorted() {
		fmt.Fprintf(&b, "%d e%d c%d ts%d active%d,%v txn%d %v\n", p.id, p.epoch, p.coordinatorEpoch, p.lastTimestampMs, p.activeMs, p.active, p.txnFirstOffset, p.window[:p.batches])
	}
	for _, p := range tab.openTxns {
		fmt.Fprintf(&b, "open %d@%d ", p.id, p.txnFirstOffset)
	}
	fmt.Fprintf(&b, "ended %v\n", tab.endedTxns)
	return b.String()
}

func TestProducerSequences(t *testing.T) {
	tab := newProducerTable(1000)
	// An unknown producer may begin with any sequence number.
	mustAppend(t, tab, pBatch{id: 1, seq: 17, n: 3, offset: 100}.batch(), "ok")
	mustRefuse(t, tab, pBatch{id: 1, seq: 21, offset: 103}.batch(), ErrOutOfOrderSequence) // 20 is missing
	mustRefuse(t, tab, pBatch{id: 1, seq: 19, offset: 103}.batch(), ErrOutOfOrderSequence) // overlaps
	mustRefuse(t, tab, pBatch{id: 1, seq: 17, n: 2, offset: 103}.batch(), ErrOutOfOrderSequence)
	mustAppend(t, tab, pBatch{id: 1, seq: 17, n: 3, offset: 103}.batch(), "dup 100-102")
	mustAppend(t, tab, pBatch{id: 1, seq: 20, offset: 103}.batch(), "ok")

	// A new epoch begins with 0, the old one is fenced.
	mustRefuse(t, tab, pBatch{id: 1, epoch: 1, seq: 21, offset: 104}.batch(), ErrOutOfOrderSequence)
	mustAppend(t, tab, pBatch{id: 1, epoch: 1, seq: 0, offset: 104}.batch(), "ok")
	mustRefuse(t, tab, pBatch{id: 1, epoch: 0, seq: 21, offset: 105}.batch(), ErrInvalidProducerEpoch)
	mustRefuse(t, tab, pBatch{id: 1, epoch: 0, seq: 20, offset: 105}.batch(), ErrInvalidProducerEpoch) // also what the old epoch wrote
	mustAppend(t, tab, pBatch{id: 1, epoch: 1, seq: 0, offset: 105}.batch(), "dup 104-104")

	// Batches without a producer are nobody's.
	mustAppend(t, tab, pBatch{id: -1, epoch: -1, seq: -1}.batch(), "ok")
	mustAppend(t, tab, pBatch{id: -1, epoch: 5, seq: 9}.batch(), "ok")
	if tab.len() != 1 {
		t.Fatalf("%d producers", tab.len())
	}
}

func TestProducerSequenceWraps(t *testing.T) {
	tab := newProducerTable(1000)
	mustAppend(t, tab, pBatch{id: 1, seq: math.MaxInt32 - 1, offset: 0}.batch(), "ok")
	mustAppend(t, tab, pBatch{id: 1, seq: math.MaxInt32, n: 3, offset: 1}.batch(), "ok") // MaxInt32, 0, 1
	mustAppend(t, tab, pBatch{id: 1, seq: math.MaxInt32, n: 3, offset: 4}.batch(), "dup 1-3")
	mustAppend(t, tab, pBatch{id: 1, seq: 2, n: math.MaxInt32 - 1, offset: 4}.batch(), "ok") // up to MaxInt32
	mustAppend(t, tab, pBatch{id: 1, seq: 0, offset: 4 + math.MaxInt32 - 1}.batch(), "ok")
	for _, m := range []batchMeta{{lastSequence: 1, offsetDelta: 2}, {lastSequence: 5, offsetDelta: 5}, {lastSequence: 0, offsetDelta: math.MaxInt32}} {
		if got := record.AddSequence(m.baseSequence(), m.offsetDelta); got != m.lastSequence {
			t.Errorf("%+v begins with %d, which ends with %d", m, m.baseSequence(), got)
		}
	}
}

// B-E2: the last five batches are recognised and answered with the offsets they got; an older one is out of order.
func TestProducerWindow(t *testing.T) {
	tab := newProducerTable(1000)
	for i := range int32(8) {
		mustAppend(t, tab, pBatch{id: 1, seq: i * 10, n: 10, offset: int64(i) * 100, ts: int64(i)}.batch(), "ok")
	}
	for i := range int32(8) {
		b := pBatch{id: 1, seq: i * 10, n: 10, offset: 9999}.batch()
		if i < 3 {
			mustRefuse(t, tab, b, ErrOutOfOrderSequence)
			continue
		}
		mustAppend(t, tab, b, fmt.Sprintf("dup %d-%d", i*100, i*100+9))
		if dup, _, _ := tab.check(b); dup.timestampMs != int64(i) {
			t.Errorf("duplicate of batch %d has timestamp %d", i, dup.timestampMs)
		}
	}
	mustAppend(t, tab, pBatch{id: 1, seq: 80, offset: 800}.batch(), "ok")
}

// B-E8: sequence numbers begin anew after a transaction was aborted with a new epoch; what is sent then is no duplicate of the aborted records.
func TestProducerSequencesAfterAbort(t *testing.T) {
	tab := newProducerTable(1000)
	mustAppend(t, tab, pBatch{id: 1, epoch: 3, seq: 0, n: 2, offset: 0, txn: true}.batch(), "ok")
	mustAppend(t, tab, markerBatch(1, 4, 2, 5, markerAbort, 0), "ok")
	mustRefuse(t, tab, pBatch{id: 1, epoch: 3, seq: 0, n: 2, offset: 3, txn: true}.batch(), ErrInvalidProducerEpoch)
	mustRefuse(t, tab, pBatch{id: 1, epoch: 4, seq: 2, n: 2, offset: 3, txn: true}.batch(), ErrOutOfOrderSequence)
	mustAppend(t, tab, pBatch{id: 1, epoch: 4, seq: 0, n: 2, offset: 3, txn: true}.batch(), "ok")
	mustAppend(t, tab, pBatch{id: 1, epoch: 4, seq: 0, n: 2, offset: 3, txn: true}.batch(), "dup 3-4")
	mustAppend(t, tab, pBatch{id: 1, epoch: 5, seq: 0, n: 2, offset: 5, txn: true}.batch(), "ok")
}

func TestProducerTransactions(t *testing.T) {
	tab := newProducerTable(1000)
	unstable := func(want int64) {
		t.Helper()
		offset, ok := tab.firstUnstableOffset()
		if !ok {
			offset = -1
		}
		if offset != want {
			t.Fatalf("first unstable offset is %d, want %d", offset, want)
		}
	}
	unstable(-1)
	mustAppend(t, tab, pBatch{id: 1, seq: 0, offset: 0}.batch(), "ok")
	unstable(-1)
	mustAppend(t, tab, pBatch{id: 1, seq: 1, offset: 10, txn: true}.batch(), "ok")
	mustAppend(t, tab, pBatch{id: 1, seq: 2, offset: 11, txn: true}.batch(), "ok")
	mustAppend(t, tab, pBatch{id: 2, seq: 0, offset: 20, txn: true}.batch(), "ok")
	unstable(10)
	mustRefuse(t, tab, pBatch{id: 1, seq: 3, offset: 30}.batch(), ErrInvalidTxnState)
	mustAppend(t, tab, markerBatch(1, 0, 30, 77, markerCommit, 4), "ok")
	unstable(10) // B-E6: until the marker is replicated
	tab.replicatedTo(30)
	unstable(10)
	tab.replicatedTo(31)
	unstable(20)
	mustAppend(t, tab, pBatch{id: 1, seq: 3, offset: 31, txn: true}.batch(), "ok")
	mustAppend(t, tab, markerBatch(2, 0, 32, 78, markerAbort, 4), "ok")
	unstable(20)
	tab.removeBelow(25) // deleted in the middle of an open transaction
	unstable(25)
	tab.replicatedTo(33)
	unstable(31)

	var states []ProducerState
	tab.each(func(p ProducerState) { states = append(states, p) })
	want := []ProducerState{
		{ProducerID: 1, LastSequence: 3, CoordinatorEpoch: 4, CurrentTxnStartOffset: 31},
		{ProducerID: 2, LastSequence: 0, LastTimestampMs: 78, CoordinatorEpoch: 4, CurrentTxnStartOffset: -1},
	}
	if !slices.Equal(states, want) {
		t.Fatalf("got %+v", states)
	}
	// Of a coordinator that has been replaced, and of an old epoch.
	mustRefuse(t, tab, markerBatch(1, 0, 33, 0, markerAbort, 3), ErrCoordinatorFenced)
	mustAppend(t, tab, markerBatch(1, 6, 33, 0, markerAbort, 4), "ok")
	mustRefuse(t, tab, markerBatch(1, 5, 34, 0, markerAbort, 5), ErrInvalidProducerEpoch)
	// A marker without a transaction is legal and holds nothing back.
	tab.replicatedTo(34)
	mustAppend(t, tab, markerBatch(3, 0, 34, 0, markerCommit, 0), "ok")
	unstable(-1)
}

// Control batches that are no markers, or from which compaction removed the record, change nothing.
func TestProducerIgnoresOtherControlBatches(t *testing.T) {
	tab := newProducerTable(1000)
	tab.update(pBatch{id: 1, seq: 0, offset: 0, txn: true}.batch())
	before := tableText(tab)
	tab.update(markerBatch(1, 9, 1, 0, 3, 0))
	empty := pBatch{id: 1, epoch: 9, seq: -1, offset: 1}.batch()
	empty[22] |= 0x30
	binary.BigEndian.PutUint32(empty[57:], 0)
	tab.update(empty)
	header := markerBatch(1, 9, 1, 0, markerCommit, 0)[:record.HeaderSize]
	tab.update(header)
	if tableText(tab) != before {
		t.Fatal(tableText(tab))
	}
}

func TestProducerRollback(t *testing.T) {
	tab := newProducerTable(1000)
	for i := range int32(7) {
		tab.update(pBatch{id: 1, seq: i, offset: int64(i)}.batch())
	}
	tab.update(pBatch{id: 2, seq: 0, offset: 7, txn: true}.batch())
	before := tableText(tab)
	tab.begin()
	mustAppend(t, tab, pBatch{id: 1, seq: 7, offset: 8}.batch(), "ok")
	mustAppend(t, tab, pBatch{id: 1, seq: 8, offset: 9}.batch(), "ok")
	mustAppend(t, tab, pBatch{id: 1, seq: 7, offset: 10}.batch(), "dup 8-8") // of a batch of the same turn
	mustAppend(t, tab, markerBatch(2, 1, 10, 0, markerCommit, 0), "ok")
	mustAppend(t, tab, pBatch{id: 3, seq: 0, offset: 11, txn: true}.batch(), "ok")
	mustAppend(t, tab, pBatch{id: 3, seq: 1, offset: 12, txn: true}.batch(), "ok")
	tab.rollback()
	if tableText(tab) != before {
		t.Fatalf("got\n%swant\n%s", tableText(tab), before)
	}
	tab.begin()
	mustAppend(t, tab, pBatch{id: 1, seq: 7, offset: 8}.batch(), "ok")
	tab.commit()
	mustAppend(t, tab, pBatch{id: 1, seq: 7, offset: 9}.batch(), "dup 8-8")
}

// Idle time counts on the broker's clock, whatever the timestamps of the batches say (B-E9).
func TestProducerExpiry(t *testing.T) {
	tab := newProducerTable(100)
	tab.update(pBatch{id: 1, seq: 0, ts: 5}.batch())                       // old data
	tab.update(pBatch{id: 2, seq: 0, ts: 1 << 50}.batch())                 // from the future
	tab.update(pBatch{id: 3, seq: 0, ts: 5, txn: true, offset: 2}.batch()) // open transaction
	tab.expire(100000)
	tab.expire(100099)
	tab.update(pBatch{id: 1, seq: 1, ts: 6}.batch())
	if tab.len() != 3 {
		t.Fatal("expired early")
	}
	tab.expire(100100)
	if tab.len() != 2 || tab.entries[2] != nil {
		t.Fatal(tableText(tab))
	}
	tab.expire(100199)
	tab.expire(100200)
	if tab.len() != 1 || tab.entries[3] == nil {
		t.Fatal(tableText(tab))
	}
	tab.update(markerBatch(3, 0, 3, 5, markerCommit, 0))
	tab.expire(100300)
	if tab.len() != 1 {
		t.Fatal("the marker is activity")
	}
	tab.expire(50) // the clock was set back
	tab.expire(149)
	if tab.len() != 1 {
		t.Fatal("expired although idle for 99 ms only")
	}
	tab.expire(150)
	if tab.len() != 0 {
		t.Fatal(tableText(tab))
	}
}

// A producer that writes old data is remembered after a restart: its snapshot has the broker time of its last activity.
func TestProducerExpiryAfterRestart(t *testing.T) {
	tab := newProducerTable(100)
	tab.expire(1000000)
	tab.update(pBatch{id: 1, seq: 0, ts: 5}.batch())
	restarted := newProducerTable(100)
	restarted.restore(tab.snapshot())
	restarted.expire(1000099)
	mustAppend(t, restarted, pBatch{id: 1, seq: 0}.batch(), "dup 0-0")
	restarted.restore(tab.snapshot())
	restarted.expire(1000100)
	if restarted.len() != 0 {
		t.Fatal(tableText(restarted))
	}
}

func TestProducerRestore(t *testing.T) {
	tab := newProducerTable(1000)
	for i := range int32(3) {
		tab.update(pBatch{id: 1, epoch: 2, seq: i * 2, n: 2, offset: int64(i) * 2, ts: int64(i)}.batch())
	}
	tab.update(pBatch{id: 9, seq: 0, offset: 6, txn: true}.batch())
	tab.update(pBatch{id: 4, seq: 0, offset: 7, txn: true}.batch())
	tab.update(markerBatch(5, 3, 8, 8, markerCommit, 2))
	restored := newProducerTable(1000)
	restored.update(pBatch{id: 77, seq: 0}.batch()) // is replaced
	restored.restore(tab.snapshot())
	if offset, ok := restored.firstUnstableOffset(); offset != 6 || !ok {
		t.Fatal(offset, ok)
	}
	if !slices.Equal(restored.snapshot(), tab.snapshot()) {
		t.Fatalf("got %v, want %v", restored.snapshot(), tab.snapshot())
	}
	// Only the newest batch is known.
	mustAppend(t, restored, pBatch{id: 1, epoch: 2, seq: 4, n: 2}.batch(), "dup 4-5")
	mustRefuse(t, restored, pBatch{id: 1, epoch: 2, seq: 2, n: 2}.batch(), ErrOutOfOrderSequence)
	mustRefuse(t, restored, pBatch{id: 5, epoch: 3, seq: 1, offset: 9}.batch(), ErrOutOfOrderSequence)
	mustAppend(t, restored, pBatch{id: 5, epoch: 3, seq: 0, offset: 9}.batch(), "ok")
	mustRefuse(t, restored, pBatch{id: 9, seq: 1, offset: 10}.batch(), ErrInvalidTxnState)
}

// The state of a log that Kafka 4.4 wrote, transactions included, is byte for byte what Kafka's snapshots say.
func TestProducerStateOfKafka(t *testing.T) {
	tab := newProducerTable(86400000)
	checked := 0
	check := func(end int64) {
		name := snapshotFileName(end)
		if end != 7 && end != 13 && end != 21 {
			return
		}
		checked++
		if got, want := encodeSnapshot(tab.snapshot()), kafkaFile(t, name); !bytes.Equal(got, want) {
			kafkas, err := decodeSnapshot(want)
			t.Errorf("%s: got\n%+v\nwant\n%+v, %v", name, tab.snapshot(), kafkas, err)
		}
	}
	for line := range strings.Lines(string(kafkaFile(t, "batches.hex"))) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		raw, err := hex.DecodeString(strings.TrimSpace(line))
		sideMust(t, err)
		b := record.Batch(raw)
		if _, isDup, err := tab.check(b); isDup || err != nil {
			t.Fatalf("offset %d: dup %v, %v", b.BaseOffset(), isDup, err)
		}
		tab.update(b)
		check(b.NextOffset())
	}
	if checked != 3 {
		t.Fatalf("%d snapshots compared", checked)
	}
	if _, ok := tab.firstUnstableOffset(); !ok {
		t.Error("markers count as replicated before they are")
	}
	tab.replicatedTo(21)
	if offset, ok := tab.firstUnstableOffset(); ok {
		t.Errorf("unstable from %d on", offset)
	}
}

func TestProducerTableAllocatesNothing(t *testing.T) {
	tab := newProducerTable(1000)
	p := pBatch{id: 1}
	b := p.batch()
	tab.update(b)
	seq := int32(0)
	n := testing.AllocsPerRun(1000, func() {
		tab.begin()
		for range 3 {
			seq++
			binary.BigEndian.PutUint32(b[53:], uint32(seq))
			if _, isDup, err := tab.check(b); isDup || err != nil {
				t.Fatal(isDup, err)
			}
			tab.update(b)
		}
		tab.commit()
	})
	if n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// naiveProducer judges a batch by the whole history of its producer.
type naiveProducer struct{ history []pBatch }

func (h naiveProducer) judge(p pBatch) string {
	if len(h.history) == 0 {
		return "ok"
	}
	last := h.history[len(h.history)-1]
	var same []pBatch // the batches of the newest epoch, newest last
	for _, old := range h.history {
		if old.epoch == last.epoch {
			same = append(same, old)
		}
	}
	if p.epoch == last.epoch {
		for _, old := range same[max(0, len(same)-5):] {
			if old.seq == p.seq && old.n == p.n {
				return fmt.Sprintf("dup %d-%d", old.offset, old.offset+int64(old.n)-1)
			}
		}
	}
	next := (int64(last.seq) + int64(last.n)) % (1 << 31)
	switch {
	case p.epoch < last.epoch:
		return ErrInvalidProducerEpoch.Error()
	case p.epoch > last.epoch && p.seq != 0, p.epoch == last.epoch && int64(p.seq) != next:
		return ErrOutOfOrderSequence.Error()
	}
	return "ok"
}

// Random batches in random turns, some of which are rolled back, against a judge that looks through the whole history.
func TestProducerTableAgainstModel(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 9))
		tab := newProducerTable(1 << 40)
		model := map[int64]naiveProducer{}
		offset := int64(0)
		for range 200 {
			tab.begin()
			before, text, startOffset := map[int64]int{}, tableText(tab), offset
			for id, h := range model {
				before[id] = len(h.history)
			}
			for range rng.IntN(4) {
				p := randomBatch(rng, model, offset)
				got, err := appendTo(tab, p.batch())
				for _, class := range []error{ErrInvalidProducerEpoch, ErrOutOfOrderSequence} {
					if errors.Is(err, class) {
						got = class.Error()
					}
				}
				h := model[p.id]
				if want := h.judge(p); got != want {
					t.Fatalf("seed %d: %+v: got %q, %v; want %q; history %+v", seed, p, got, err, want, h.history)
				}
				if got == "ok" {
					h.history = append(h.history, p)
					model[p.id] = h
					offset += int64(p.n)
				}
			}
			if rng.IntN(3) > 0 {
				tab.commit()
				continue
			}
			tab.rollback()
			offset = startOffset
			for id, h := range model {
				if h.history = h.history[:before[id]]; len(h.history) == 0 {
					delete(model, id)
				} else {
					model[id] = h
				}
			}
			if tableText(tab) != text {
				t.Fatalf("seed %d: rollback left\n%swant\n%s", seed, tableText(tab), text)
			}
		}
	}
}

// randomBatch makes a batch that is likely to be the next one, or a duplicate, of one of three producers.
func randomBatch(rng *rand.Rand, model map[int64]naiveProducer, offset int64) pBatch {
	p := pBatch{id: rng.Int64N(3), n: 1 + rng.Int32N(3), offset: offset}
	h := model[p.id].history
	if len(h) == 0 {
		p.seq = []int32{0, 5, math.MaxInt32 - 2}[rng.IntN(3)]
		return p
	}
	last := h[len(h)-1]
	p.epoch = last.epoch
	switch rng.IntN(10) {
	case 0:
		p.epoch, p.seq = last.epoch+1, 0
	case 1:
		p.epoch, p.seq = last.epoch+1, rng.Int32N(3)
	case 2:
		p.epoch--
		p.seq = last.seq
	case 3, 4:
		old := h[max(0, len(h)-1-rng.IntN(8))]
		p.epoch, p.seq, p.n = old.epoch, old.seq, old.n
	case 5:
		p.seq = rng.Int32N(20)
	default:
		p.seq = record.AddSequence(last.seq, last.n)
	}
	return p
}
