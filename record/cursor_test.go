package record

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A cursor shows what Records shows, of batches of any shape, and outlives the visit of each record.
func TestCursorShowsWhatRecordsShows(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b, want := randomBatch(rng, codecs[rng.IntN(5)])
		payload, err := Decompress(nil, b.Payload(), b.Codec(), DefaultInflateLimit)
		if err != nil {
			t.Fatal(err)
		}
		c := b.Cursor(payload)
		var all []Fields
		for {
			if left := c.Left(); left != len(want)-len(all) {
				t.Fatalf("seed %d: %d are left after %d of %d", seed, left, len(all), len(want))
			}
			var f Fields
			more, err := c.Next(&f)
			if err != nil {
				t.Fatal(err)
			}
			if more == (len(all) == len(want)) || !more && !c.Done() {
				t.Fatalf("seed %d: more after %d of %d: %v, done: %v", seed, len(all), len(want), more, c.Done())
			}
			if !more {
				break
			}
			all = append(all, f)
		}
		for i, f := range all {
			r := Record{TimestampDelta: f.Timestamp - b.BaseTimestamp(), Key: f.Key, Value: f.Value, HeaderCount: f.HeaderCount, headers: f.headers}
			if have := describe(b, &r); fmt.Sprint(have) != fmt.Sprint(want[i]) || int(f.OffsetDelta) != i {
				t.Fatalf("seed %d, record %d:\n%v\n%v", seed, i, have, want[i])
			}
		}
	}
}

// With LogAppendTime all records have the time of the batch.
func TestCursorLogAppendTime(t *testing.T) {
	b := sample(Options{}, 3)
	b.SetTimestampType(LogAppendTime)
	b.SetMaxTimestamp(42)
	c := b.Cursor(b.Payload())
	var f Fields
	for range 3 {
		if more, err := c.Next(&f); !more || err != nil || f.Timestamp != 42 {
			t.Fatalf("%v, %v, timestamp %d", more, err, f.Timestamp)
		}
	}
}

// What is wrong with the bytes is said at the record that has it, and no count makes Left larger than they can hold.
func TestCursorErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		b    Batch
		good int
	}{
		"surplus":   {rawBatch(None, 1, append(rawRecords(plainRecord(0)), 0)), 1},
		"missing":   {rawBatch(None, 2, rawRecords(plainRecord(0))), 1},
		"malformed": {rawBatch(None, 1, rawRecords(rawRecord{keyLen: 99})), 0},
		"length":    {rawBatch(None, 1, []byte{1}), 0},
		"count":     {rawBatch(None, 1<<31-1, rawRecords(plainRecord(0))), 1},
	} {
		c := tc.b.Cursor(tc.b.Payload())
		if c.Left() > len(tc.b) {
			t.Errorf("%s: Left is %d", name, c.Left())
		}
		var f Fields
		for i := range tc.good {
			if more, err := c.Next(&f); !more || err != nil {
				t.Errorf("%s: record %d: %v, %v", name, i, more, err)
			}
		}
		more, err := c.Next(&f)
		if more {
			t.Errorf("%s: one too many", name)
		}
		checkError(t, name, err, InvalidRecord)
	}
	empty := payloadBatch(None, 1, nil, recordCount(0))
	c := empty.Cursor(empty.Payload())
	if more, err := c.Next(new(Fields)); more || err != nil {
		t.Errorf("a batch emptied by compaction: %v, %v", more, err)
	}
}

func BenchmarkCursor(b *testing.B) {
	w := NewBuilder(Options{})
	value := make([]byte, 100)
	for range 160 {
		w.Append(testNow, nil, value, nil)
	}
	batch := Batch(w.Bytes())
	b.ReportAllocs()
	b.SetBytes(int64(len(batch)))
	for b.Loop() {
		c := batch.Cursor(batch.Payload())
		var f Fields
		for {
			more, err := c.Next(&f)
			if err != nil {
				b.Fatal(err)
			}
			if !more {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/160, "ns/record")
}
