package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/leatmq/leat/record"
)

// The pure core of compaction: what is left of batches.

type keyed struct {
	offset     int64
	key, value string // value "" is a tombstone, key "" none
}

// keyedBatch is a batch with the records at their offsets; o.BaseOffset is that of the first.
func keyedBatch(o record.Options, records ...keyed) record.Batch {
	o.BaseOffset = records[0].offset
	w := record.NewBuilder(o)
	for _, r := range records {
		var key, value []byte
		if r.key != "" {
			key = []byte(r.key)
		}
		if r.value != "" {
			value = []byte(r.value)
		}
		w.Append(testStartMs+r.offset, key, value, nil)
	}
	return w.Bytes()
}

// endMarker is the end of a transaction.
func endMarker(offset, producerID int64, epoch int16, kind uint16) record.Batch {
	w := record.NewBuilder(record.Options{BaseOffset: offset, Control: true, Transactional: true, Idempotent: true, ProducerID: producerID, Epoch: epoch,
		BaseSequence: noSequence})
	key := binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
	w.Append(testStartMs+offset, key, []byte{0, 0, 0, 0, 0, 1}, nil)
	return w.Bytes()
}

func txnOf(producerID int64, seq int32) record.Options {
	return record.Options{Transactional: true, Idempotent: true, ProducerID: producerID, BaseSequence: seq}
}

// newSurvivors notes the keys of log, whose end is end, as a round does.
func newSurvivors(t *testing.T, end, nowMs int64, log []record.Batch) *survivors {
	t.Helper()
	s := &survivors{keys: new(keyMap), end: end, nowMs: nowMs, retentionMs: 1000, inflateMax: 1 << 20, level: func(record.Codec) int { return 0 }, last: map[int64]lastBatch{}}
	s.keys.reset(1000, 1<<20)
	scan := newTxnScan(end)
	for _, b := range log {
		if scan.pass(b) {
			break
		}
	}
	s.aborted = scan.aborted
	for _, b := range log {
		if b.IsControl() || isAborted(s.aborted, b) {
			continue
		}
		sideMust(t, b.Records(func(r *record.Record) error {
			if o := b.BaseOffset() + int64(r.OffsetDelta); o < end && !r.KeyNull() {
				s.keys.put(hashKey(r.Key), o)
			}
			return nil
		}))
	}
	return s
}

// passAll returns what is left of log.
func (s *survivors) passAll(t *testing.T, log []record.Batch) (left []record.Batch) {
	t.Helper()
	for _, b := range log {
		out, err := s.pass(b, false)
		if err != nil {
			t.Fatal(err)
		}
		if out != nil {
			sideMust(t, out.Check())
			left = append(left, bytes.Clone(out))
		}
	}
	return left
}

// showLog lists records as offset:key=value, batches without as offset:empty, markers as offset:commit or abort, a delete horizon as @ms.
func showLog(t *testing.T, log []record.Batch) (all []string) {
	t.Helper()
	for _, b := range log {
		suffix := ""
		if b.HasDeleteHorizon() {
			suffix = fmt.Sprintf("@%d", b.BaseTimestamp()-testStartMs)
		}
		if b.Count() == 0 {
			all = append(all, fmt.Sprintf("%d:empty", b.LastOffset()))
			continue
		}
		if kind, ok := controlType(b); ok {
			all = append(all, fmt.Sprintf("%d:%s%s", b.BaseOffset(), []string{"abort", "commit"}[kind], suffix))
			continue
		}
		sideMust(t, b.Records(func(r *record.Record) error {
			all = append(all, fmt.Sprintf("%d:%s=%s%s", b.BaseOffset()+int64(r.OffsetDelta), r.Key, r.Value, suffix))
			if ts := b.BaseTimestamp() + r.TimestampDelta; ts != testStartMs+b.BaseOffset()+int64(r.OffsetDelta) {
				t.Errorf("offset %d: timestamp %d", b.BaseOffset()+int64(r.OffsetDelta), ts)
			}
			return nil
		}))
	}
	return all
}

func wantLog(t *testing.T, log []record.Batch, want ...string) {
	t.Helper()
	if got := showLog(t, log); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("left: %v\nwant: %v", got, want)
	}
}

func TestSurvivorsLatestOfEachKey(t *testing.T) {
	for codec := record.None; codec <= record.Zstd; codec++ {
		o := record.Options{Codec: codec}
		log := []record.Batch{
			keyedBatch(o, keyed{0, "a", "1"}, keyed{1, "b", "1"}, keyed{2, "a", "2"}),
			keyedBatch(o, keyed{3, "a", "3"}),
			keyedBatch(o, keyed{4, "", "no key"}, keyed{5, "c", "1"}),
			keyedBatch(o, keyed{6, "d", "1"}, keyed{7, "e", "1"}),
			keyedBatch(o, keyed{8, "b", "2"}, keyed{9, "a", "4"}),
		}
		s := newSurvivors(t, 8, testStartMs, log)
		left := s.passAll(t, log)
		// From offset 8 on nothing is known: b=1 and a=3 are the latest there are.
		wantLog(t, left, "1:b=1", "3:a=3", "5:c=1", "6:d=1", "7:e=1", "8:b=2", "9:a=4")
		if !bytes.Equal(left[3], log[3]) || !bytes.Equal(left[4], log[4]) {
			t.Errorf("%v: batches of which everything is left have changed", codec)
		}
		if left[0].Codec() != codec || left[0].LastOffset() != 2 {
			t.Errorf("codec %v, last offset %d", left[0].Codec(), left[0].LastOffset())
		}
		if s.kept != 7 || s.dropped != 3 {
			t.Errorf("%d kept, %d dropped", s.kept, s.dropped)
		}
	}
}

// A map that was full in the middle of a batch: what is behind stays, and nothing about it is changed.
func TestSurvivorsEndInsideBatch(t *testing.T) {
	log := []record.Batch{
		keyedBatch(record.Options{}, keyed{0, "a", "1"}, keyed{1, "b", "1"}),
		keyedBatch(record.Options{}, keyed{2, "c", "1"}, keyed{3, "a", ""}, keyed{4, "c", "2"}, keyed{5, "b", ""}, keyed{6, "a", "2"}),
	}
	s := newSurvivors(t, 5, testStartMs, log)
	wantLog(t, s.passAll(t, log), "1:b=1", "3:a=", "4:c=2", "5:b=", "6:a=2")
}

// C3, C4, B-G2, R11: a tombstone stays for delete.retention.ms from the first time it is passed, not a moment less, however often it is passed, and goes then.
func TestSurvivorsTombstones(t *testing.T) {
	log := []record.Batch{
		keyedBatch(record.Options{}, keyed{0, "a", "1"}),
		keyedBatch(record.Options{}, keyed{1, "a", ""}, keyed{2, "b", "1"}),
		keyedBatch(record.Options{}, keyed{3, "c", ""}),
	}
	for _, at := range []int64{0, 1, 500, 999} {
		s := newSurvivors(t, 4, testStartMs+at, log)
		log = s.passAll(t, log)
		wantLog(t, log, "1:a=@1000", "2:b=1@1000", "3:c=@1000")
		if s.horizonMs != testStartMs+1000 {
			t.Errorf("horizon %d", s.horizonMs)
		}
	}
	s := newSurvivors(t, 4, testStartMs+1000, log)
	log = s.passAll(t, log)
	wantLog(t, log, "2:b=1@1000")
	if s.horizonMs != 0 {
		t.Errorf("horizon %d", s.horizonMs)
	}
	// A retention without end never passes.
	s = newSurvivors(t, 4, testStartMs, []record.Batch{keyedBatch(record.Options{}, keyed{1, "a", ""})})
	s.retentionMs = 1<<63 - 1
	if b, err := s.pass(keyedBatch(record.Options{}, keyed{1, "a", ""}), false); err != nil || b.BaseTimestamp() != 1<<63-1 {
		t.Errorf("horizon %d, %v", b.BaseTimestamp(), err)
	}
}

// C5, C6, R11: markers have no keys and stay until nothing of their transaction is left, and then for delete.retention.ms. Aborted records go, and delete
// no older record with their key.
func TestSurvivorsTransactions(t *testing.T) {
	log := []record.Batch{
		keyedBatch(record.Options{}, keyed{0, "a", "1"}, keyed{1, "b", "1"}),
		keyedBatch(txnOf(7, 0), keyed{2, "a", "aborted"}),
		keyedBatch(txnOf(8, 0), keyed{3, "b", "committed"}),
		endMarker(4, 7, 0, markerAbort),
		endMarker(5, 8, 0, markerCommit),
		keyedBatch(txnOf(7, 1), keyed{6, "c", "committed"}),
		endMarker(7, 7, 0, markerCommit),
		keyedBatch(record.Options{}, keyed{8, "b", "3"}, keyed{9, "c", "4"}),
	}
	log = newSurvivors(t, 10, testStartMs, log).passAll(t, log)
	// The data was there when the markers were passed.
	wantLog(t, log, "0:a=1", "4:abort", "5:commit", "7:commit", "8:b=3", "9:c=4")
	for _, at := range []int64{10, 20} {
		log = newSurvivors(t, 10, testStartMs+at, log).passAll(t, log)
		wantLog(t, log, "0:a=1", "4:abort@1010", "5:commit@1010", "7:commit@1010", "8:b=3", "9:c=4")
	}
	log = newSurvivors(t, 10, testStartMs+1010, log).passAll(t, log)
	wantLog(t, log, "0:a=1", "8:b=3", "9:c=4")
}

// B-G1: a transaction that is aborted only behind the end of the range is aborted all the same.
func TestSurvivorsAbortBehindTheRange(t *testing.T) {
	log := []record.Batch{
		keyedBatch(record.Options{}, keyed{0, "a", "1"}),
		keyedBatch(txnOf(7, 0), keyed{1, "a", "aborted"}),
		keyedBatch(txnOf(9, 0), keyed{2, "x", "committed"}),
		keyedBatch(record.Options{}, keyed{3, "z", "1"}),
		endMarker(4, 9, 0, markerCommit),
		endMarker(5, 7, 0, markerAbort),
	}
	s := newSurvivors(t, 3, testStartMs, log)
	wantLog(t, s.passAll(t, log), "0:a=1", "2:x=committed", "3:z=1", "4:commit", "5:abort")
	scan := newTxnScan(3)
	for i, b := range log {
		if done := scan.pass(b); done != (i == 5) {
			t.Errorf("batch %d: done is %v", i, done)
		}
	}
	// Not of a transaction that began before it and was committed, nor of one that begins behind the end.
	log = append(log, keyedBatch(txnOf(7, 1), keyed{6, "a", "2"}), endMarker(7, 7, 0, markerCommit))
	s = newSurvivors(t, 8, testStartMs, log)
	wantLog(t, s.passAll(t, log), "2:x=committed", "3:z=1", "4:commit", "5:abort", "6:a=2", "7:commit")
}

// The last batch of each producer that the log knows keeps its header, and with it epoch and sequence numbers; so does a batch that must stay.
func TestSurvivorsEmptyBatches(t *testing.T) {
	idem := func(id int64, seq int32) record.Options {
		return record.Options{Idempotent: true, ProducerID: id, Epoch: 3, BaseSequence: seq, Codec: record.LZ4}
	}
	log := []record.Batch{
		keyedBatch(idem(1, 0), keyed{0, "a", "1"}),
		keyedBatch(idem(1, 1), keyed{1, "a", "2"}, keyed{2, "a", "3"}),
		keyedBatch(idem(2, 0), keyed{3, "a", "4"}),
		endMarker(4, 5, 9, markerCommit),
		keyedBatch(idem(6, 0), keyed{5, "a", "5"}),
		keyedBatch(record.Options{}, keyed{6, "a", "6"}),
	}
	s := newSurvivors(t, 7, testStartMs, log)
	s.last = map[int64]lastBatch{1: {offset: 2, epoch: 3}, 2: {offset: 9, epoch: 3}, 5: {offset: noOffset, epoch: 9}}
	left := s.passAll(t, log)
	wantLog(t, left, "2:empty", "4:commit@1000", "6:a=6")
	if e := left[0]; e.ProducerID() != 1 || e.ProducerEpoch() != 3 || e.LastSequence() != 2 || e.BaseOffset() != 1 || e.Codec() != record.None {
		t.Errorf("% x", []byte(e))
	}
	s = newSurvivors(t, 7, testStartMs+5000, left)
	s.last = map[int64]lastBatch{1: {offset: 2, epoch: 3}, 5: {offset: noOffset, epoch: 9}}
	again := s.passAll(t, left)
	wantLog(t, again, "2:empty", "4:empty", "6:a=6")
	s = newSurvivors(t, 7, testStartMs+9000, again)
	wantLog(t, s.passAll(t, again), "6:a=6") // both were forgotten
	if b, err := s.pass(log[0], true); err != nil || b.Count() != 0 || b.LastOffset() != 0 {
		t.Errorf("a batch that must stay: %v, %v", b, err)
	}
}

// A map takes what its memory has room for, and a key that is there always.
func TestKeyMap(t *testing.T) {
	var m keyMap
	if m.latest(hashKey([]byte("a"))) != noOffset {
		t.Error("an empty map has keys")
	}
	m.reset(1<<40, 24*1000)
	if len(m.slots) != 1000 {
		t.Fatalf("%d slots", len(m.slots))
	}
	n := 0
	for m.put(hashKey(fmt.Append(nil, n)), int64(n)) {
		n++
	}
	if n != m.capacity() || n != 800 {
		t.Errorf("%d keys, capacity %d", n, m.capacity())
	}
	for i := range n {
		h := hashKey(fmt.Append(nil, i))
		if m.latest(h) != int64(i) || !m.put(h, int64(i)+5000) || m.latest(h) != int64(i)+5000 || !m.put(h, 3) || m.latest(h) != int64(i)+5000 {
			t.Fatalf("key %d", i)
		}
	}
	m.reset(10, 1<<20)
	if m.used != 0 || m.latest(hashKey(fmt.Append(nil, 1))) != noOffset || m.capacity() < 10 {
		t.Error("not empty after reset")
	}
	m.reset(1<<20, 1<<30)
	m.trim()
	if m.slots != nil {
		t.Error("memory is kept")
	}
}
