package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/record"
)

// batchOf makes a batch of records with values "offset", at the given deltas of base.
func batchOf(o record.Options, deltas ...int32) []byte {
	o.BaseTimestamp = 1000
	w := record.NewBuilder(o)
	for _, d := range deltas {
		v := record.Record{Key: nil, Value: fmt.Appendf(nil, "%d", o.BaseOffset+int64(d))}
		w.AppendView(1000+int64(d), d, &v)
	}
	return w.Bytes()
}

func run(from, to int32) (deltas []int32) {
	for d := from; d < to; d++ {
		deltas = append(deltas, d)
	}
	return deltas
}

// values reads a chunk in reads of at most most records.
func values(t *testing.T, k *chunk, most int) string {
	t.Helper()
	var all []string
	for !k.done() {
		rs, err := k.read(nil, most)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rs {
			all = append(all, string(r.Value))
			if fmt.Sprint(r.Offset) != string(r.Value) {
				t.Errorf("offset %d has the value %q", r.Offset, r.Value)
			}
		}
	}
	return strings.Join(all, " ")
}

func chunkOf(from int64, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction, batches ...[]byte) *chunk {
	return newChunk(newPartition(TopicPartition{Topic: "t", Partition: 3}, 1), nil, 1, position{from, -1}, slices.Concat(batches...), aborted)
}

// A chunk hands out what is at and behind the offset that was asked for, over gaps and batches that compaction has emptied (C10), in reads of any size.
func TestChunkHandsOut(t *testing.T) {
	at := func(base int64) record.Options { return record.Options{BaseOffset: base, PartitionLeaderEpoch: 7} }
	gap := record.Batch(batchOf(at(20), 0, 3, 4))
	empty := record.AppendEmpty(nil, record.Batch(batchOf(at(30), run(0, 5)...)))
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		packed := at(35)
		packed.Codec = codec
		for _, most := range []int{1, 2, 3, 1000} {
			k := chunkOf(12, nil, batchOf(at(10), run(0, 5)...), gap, empty, batchOf(packed, run(0, 3)...))
			if k.end != (position{38, 7}) {
				t.Errorf("the end is %v", k.end)
			}
			if got, want := values(t, k, most), "12 13 14 20 23 24 35 36 37"; got != want {
				t.Errorf("%s, by %d: %q, want %q", codec, most, got, want)
			}
			if k.next != (position{38, 7}) {
				t.Errorf("the position is %v", k.next)
			}
		}
	}
}

// After a read the position is at the next record there is, so that the end of a partition is seen when it is reached.
func TestChunkPositions(t *testing.T) {
	o := record.Options{PartitionLeaderEpoch: 7}
	k := chunkOf(0, nil, batchOf(o, run(0, 3)...), control(t, 3, 9, false))
	for i, want := range []int64{1, 2, 4} {
		if rs, err := k.read(nil, 1); len(rs) != 1 || err != nil || k.next.offset != want {
			t.Errorf("read %d: %d records, %v, position %v", i, len(rs), err, k.next)
		}
	}
	if !k.done() {
		t.Error("it is not done")
	}
}

func control(t testing.TB, offset int64, producer int64, commit bool) []byte {
	t.Helper()
	w := record.NewBuilder(record.Options{BaseOffset: offset, PartitionLeaderEpoch: 7, Idempotent: true, ProducerID: producer, BaseSequence: -1, Transactional: true, Control: true})
	key := []byte{0, 0, 0, 0}
	if commit {
		key[3] = 1
	}
	w.Append(1000, key, make([]byte, 6), nil)
	return w.Bytes()
}

// What aborted transactions wrote is left out; what others wrote between, what the same producer committed before and after, and what is not transactional, is not (B-E3, B-E15).
func TestChunkLeavesOutAborted(t *testing.T) {
	txn := func(base, producer int64) record.Options {
		return record.Options{BaseOffset: base, PartitionLeaderEpoch: 7, Idempotent: true, ProducerID: producer, Transactional: true}
	}
	batches := [][]byte{
		batchOf(txn(0, 1), 0, 1), control(t, 2, 1, true), // 1 commits
		batchOf(txn(3, 1), 0), batchOf(txn(4, 2), 0), batchOf(record.Options{BaseOffset: 5}, 0), control(t, 6, 1, false), batchOf(txn(7, 2), 0), // 1 aborts, 2 goes on
		batchOf(txn(8, 1), 0), control(t, 9, 1, true), control(t, 10, 2, false), // 1 commits, 2 aborts
		batchOf(txn(11, 2), 0), control(t, 12, 2, true),
	}
	list := []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 2, FirstOffset: 4}, {ProducerID: 1, FirstOffset: 3}, {ProducerID: 1, FirstOffset: 99}}
	k := chunkOf(0, list, batches...)
	if got, want := values(t, k, 2), "0 1 5 8 11"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if k.next.offset != 13 {
		t.Errorf("the position is %v", k.next)
	}
}

// A batch that was cut off is fetched again; one that is damaged is an error at its offset, behind which nothing is read.
func TestChunkEnds(t *testing.T) {
	good := batchOf(record.Options{PartitionLeaderEpoch: 7}, 0, 1)
	next := batchOf(record.Options{BaseOffset: 2, PartitionLeaderEpoch: 7}, 0, 1)
	for cut := range next {
		k := chunkOf(0, nil, good, next[:cut])
		if got := values(t, k, 10); got != "0 1" || k.end != (position{2, 7}) || k.next != k.end {
			t.Fatalf("cut at %d: %q, end %v, position %v", cut, got, k.end, k.next)
		}
	}
	for name, damage := range map[string]func(b []byte){
		"a bit":     func(b []byte) { b[len(b)-1] ^= 1 },
		"the magic": func(b []byte) { b[16] = 1 },
		"the codec": func(b []byte) { b[22] |= 7; record.Batch(b).UpdateCRC() },
		"the count": func(b []byte) { b[60]++; record.Batch(b).UpdateCRC() },
	} {
		bad := slices.Clone(next)
		damage(bad)
		k := chunkOf(0, nil, good, bad, batchOf(record.Options{BaseOffset: 4}, 0))
		rs, err := k.read(nil, 10)
		if err == nil || len(rs) < 2 || len(rs) > 4 || k.next.offset != int64(len(rs)) {
			t.Errorf("%s: %d records, %v, position %v", name, len(rs), err, k.next)
		}
		if more, again := k.read(nil, 10); len(more) > 0 || again != err {
			t.Errorf("%s: then %d records, %v", name, len(more), again)
		}
	}
}

func TestChunkHeaders(t *testing.T) {
	w := record.NewBuilder(record.Options{})
	for i := range 50 {
		var hs []record.Header
		for j := range i % 5 {
			hs = append(hs, record.Header{Key: fmt.Sprint("k", j), Value: fmt.Append(nil, i, j)})
		}
		w.Append(int64(i), nil, nil, append(hs, record.Header{Key: "null"}))
	}
	rs, err := chunkOf(0, nil, w.Bytes()).read(nil, 100)
	if err != nil || len(rs) != 50 {
		t.Fatal(len(rs), err)
	}
	for i, r := range rs {
		if len(r.Headers) != i%5+1 || r.Headers[i%5].Key != "null" || r.Headers[i%5].Value != nil || r.Key != nil || r.Value != nil || r.Timestamp.UnixMilli() != int64(i) {
			t.Fatalf("record %d: %+v", i, r)
		}
		for j := range i % 5 {
			if h := r.Headers[j]; h.Key != fmt.Sprint("k", j) || string(h.Value) != fmt.Sprint(i, j) {
				t.Fatalf("record %d: %+v", i, h)
			}
		}
	}
}

// Whatever the bytes are, a chunk ends, and its position does not go back.
func TestChunkAnyBytes(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 3))
		b := slices.Concat(batchOf(record.Options{BaseOffset: 5}, run(0, 9)...), control(t, 14, 1, true), batchOf(record.Options{BaseOffset: 15, Codec: record.Codec(rng.IntN(5))}, run(0, 9)...))
		for range 1 + rng.IntN(4) {
			i := rng.IntN(len(b))
			b[i] = byte(rng.Uint32())
			if rng.IntN(2) == 0 { // so that it is not only the checksum that says so
				if first, _, err := record.Frame(b); err == nil {
					first.UpdateCRC()
				}
			}
		}
		k := chunkOf(6, nil, b)
		for before := k.next; !k.done(); before = k.next {
			rs, err := k.read(nil, 4)
			if k.next.offset < before.offset || len(rs) > 4 {
				t.Fatalf("seed %d: position %v after %v, %d records", seed, k.next, before, len(rs))
			}
			if err != nil {
				break
			}
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var data []byte
			offset := int64(0)
			for len(data) < 1<<20 {
				w := record.NewBuilder(record.Options{BaseOffset: offset})
				for range 16384 / size {
					w.Append(offset, nil, make([]byte, size), nil)
					offset++
				}
				data = w.Build(data)
			}
			p := newPartition(TopicPartition{Topic: "t"}, 1)
			b.ReportAllocs()
			for b.Loop() {
				k := newChunk(p, nil, 1, position{0, -1}, data, nil)
				for !k.done() {
					if _, err := k.read(make([]Record, 0, 1000), 1000); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(offset), "ns/record")
		})
	}
}
