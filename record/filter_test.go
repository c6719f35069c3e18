package record

import (
	"bytes"
	"fmt"
	"testing"
)

// filterSource is a batch of ten records, every third a tombstone, at offsets 100..109.
func filterSource(codec Codec, t TimestampType) Batch {
	w := NewBuilder(Options{BaseOffset: 100, PartitionLeaderEpoch: 7, Codec: codec, TimestampType: t,
		Idempotent: true, ProducerID: 9, Epoch: 2, BaseSequence: 50})
	for i := range 10 {
		value := []byte(fmt.Sprintf("value %d", i))
		if i%3 == 0 {
			value = nil
		}
		w.Append(1000+int64(10*i), []byte{byte(i)}, value, []Header{{Key: "h", Value: []byte("x")}})
	}
	return w.Bytes()
}

type seenRecord struct {
	offset, ts int64
	key, value string
	tombstone  bool
	headers    int32
}

func seen(t *testing.T, b Batch) []seenRecord {
	t.Helper()
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	var all []seenRecord
	err := b.Records(func(r *Record) error {
		all = append(all, seenRecord{b.BaseOffset() + int64(r.OffsetDelta), b.BaseTimestamp() + r.TimestampDelta, string(r.Key), string(r.Value), r.ValueNull(), r.HeaderCount})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What stays of a batch keeps offsets, timestamps, sequence numbers and headers, with every codec, with and without a new delete horizon.
func TestFilterKeepsWhatStays(t *testing.T) {
	var f Filter
	for codec := None; codec <= Zstd; codec++ {
		for _, horizon := range []int64{-1, 0, 5_000_000} {
			src := filterSource(codec, CreateTime)
			var want []seenRecord
			for _, r := range seen(t, src) {
				if r.offset%2 == 0 {
					want = append(want, r)
				}
			}
			res, err := f.Run(src, 1<<20, func(r *Record) bool { return r.OffsetDelta%2 == 0 })
			if err != nil || res.Kept != 5 || res.Dropped != 5 || !res.Tombstones {
				t.Fatalf("%v: %+v, %v", codec, res, err)
			}
			got, err := f.Rewrite(src, horizon, 0)
			if err != nil {
				t.Fatal(err)
			}
			if s := seen(t, got); fmt.Sprint(s) != fmt.Sprint(want) {
				t.Errorf("%v, horizon %d: kept %v, want %v", codec, horizon, s, want)
			}
			if got.HasDeleteHorizon() != (horizon >= 0) || horizon >= 0 && got.BaseTimestamp() != horizon {
				t.Errorf("%v: horizon %v at %d, want %d", codec, got.HasDeleteHorizon(), got.BaseTimestamp(), horizon)
			}
			if got.BaseOffset() != 100 || got.LastOffset() != 109 || got.BaseSequence() != 50 || got.LastSequence() != 59 || got.MaxTimestamp() != 1080 ||
				got.Codec() != codec || got.PartitionLeaderEpoch() != 7 || got.ProducerEpoch() != 2 {
				t.Errorf("%v: header changed: % x", codec, []byte(got[:HeaderSize]))
			}
			again, err := f.Run(bytes.Clone(got), 1<<20, func(*Record) bool { return true })
			if err != nil || again.Dropped != 0 {
				t.Errorf("%v: second run: %+v, %v", codec, again, err)
			}
		}
	}
}

// The broker's timestamp stays whatever is left of the batch.
func TestFilterLogAppendTime(t *testing.T) {
	src := filterSource(None, LogAppendTime)
	src.SetMaxTimestamp(77_777)
	src.UpdateCRC()
	var f Filter
	if _, err := f.Run(src, 1<<20, func(r *Record) bool { return r.OffsetDelta == 1 }); err != nil {
		t.Fatal(err)
	}
	got, err := f.Rewrite(src, -1, 0)
	if err != nil || got.MaxTimestamp() != 77_777 || got.Count() != 1 || len(seen(t, got)) != 1 {
		t.Fatalf("max timestamp %d, %d records, %v", got.MaxTimestamp(), got.Count(), err)
	}
}

// Kafka's form of a batch without records.
func TestEmptyBatch(t *testing.T) {
	src := filterSource(Gzip, CreateTime)
	e := Batch(AppendEmpty([]byte("before"), src)[6:])
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	if len(e) != HeaderSize || e.Count() != 0 || e.Codec() != None || e.BaseTimestamp() != NoTimestamp || e.MaxTimestamp() != src.MaxTimestamp() ||
		e.BaseOffset() != 100 || e.LastOffset() != 109 || e.LastSequence() != 59 || e.ProducerID() != 9 {
		t.Fatalf("% x", []byte(e))
	}
	if len(seen(t, e)) != 0 {
		t.Fatal("an empty batch has records")
	}
}

// A batch that inflates to more than the limit is an error, not memory.
func TestFilterLimit(t *testing.T) {
	w := NewBuilder(Options{Codec: Zstd})
	w.Append(1, []byte("k"), make([]byte, 1<<20), nil)
	var f Filter
	if _, err := f.Run(w.Bytes(), 1<<10, func(*Record) bool { return true }); err == nil {
		t.Fatal("no error")
	}
}
