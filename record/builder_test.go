package record

import (
	"bytes"
	"fmt"
	"testing"
)

var codecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

// sample builds n records with keys, null keys, empty and null values and headers in turn.
func sample(o Options, n int) Batch {
	w := NewBuilder(o)
	for i := range n {
		key, value, headers := sampleRecord(i)
		w.Append(1_700_000_000_000+int64(i), key, value, headers)
	}
	return w.Bytes()
}

func sampleRecord(i int) (key, value []byte, headers []Header) {
	if i%3 != 2 {
		key = fmt.Appendf(nil, "key-%d", i)
	}
	switch i % 4 {
	case 0:
		value = bytes.Repeat(fmt.Appendf(nil, "value %d;", i), 1+i%50)
	case 1:
		value = []byte{}
	case 2:
		value = fmt.Appendf(nil, "v%d", i)
		headers = []Header{{"a", []byte("1")}, {"", []byte{}}, {"null", nil}}
	}
	return key, value, headers
}

func TestBuilderRecords(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.String(), func(t *testing.T) {
			b := sample(Options{Codec: c, Idempotent: true, ProducerID: 7, Epoch: 3, BaseSequence: 5}, 1000)
			got, rest, err := Frame(b)
			if err != nil || len(rest) != 0 || !bytes.Equal(got, b) {
				t.Fatalf("Frame: %v, %d bytes left", err, len(rest))
			}
			if err := b.Check(); err != nil {
				t.Fatal(err)
			}
			i := 0
			err = b.Records(func(r *Record) error {
				checkSampleRecord(t, i, r)
				i++
				return nil
			})
			if err != nil || i != 1000 {
				t.Fatalf("%d records, %v", i, err)
			}
			if b.ProducerID() != 7 || b.ProducerEpoch() != 3 || b.BaseSequence() != 5 || b.LastSequence() != 1004 {
				t.Errorf("producer fields: %d %d %d %d", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence())
			}
			if b.BaseTimestamp() != 1_700_000_000_000 || b.MaxTimestamp() != 1_700_000_000_999 {
				t.Errorf("timestamps: %d %d", b.BaseTimestamp(), b.MaxTimestamp())
			}
		})
	}
}

func checkSampleRecord(t *testing.T, i int, r *Record) {
	t.Helper()
	key, value, headers := sampleRecord(i)
	if int(r.OffsetDelta) != i || r.TimestampDelta != int64(i) {
		t.Fatalf("record %d has deltas %d, %d", i, r.OffsetDelta, r.TimestampDelta)
	}
	if !same(r.Key, key) || !same(r.Value, value) || r.KeyNull() != (key == nil) || r.ValueNull() != (value == nil) {
		t.Fatalf("record %d is %q=%q, want %q=%q", i, r.Key, r.Value, key, value)
	}
	it := r.Headers()
	for _, h := range headers {
		k, v, ok := it.Next()
		if !ok || string(k) != h.Key || !same(v, h.Value) {
			t.Fatalf("record %d: header %q=%q, want %q=%q", i, k, v, h.Key, h.Value)
		}
	}
	if _, _, ok := it.Next(); ok {
		t.Fatalf("record %d: a header too many", i)
	}
}

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// A batch that takes the place of its records is the one that Build makes, unless compression would make it larger.
func TestSeal(t *testing.T) {
	var scratch []byte
	for _, c := range codecs {
		o := Options{Codec: c}
		w, sealed := NewBuilder(o), NewBuilder(o)
		for i := range 100 {
			key, value, headers := sampleRecord(i)
			w.Append(int64(i), key, value, headers)
			sealed.Append(int64(i), key, value, headers)
		}
		w.SetProducer(7, 3, 5)
		sealed.SetProducer(7, 3, 5)
		var got Batch
		if got, scratch = sealed.Seal(scratch); !bytes.Equal(got, w.Bytes()) {
			t.Errorf("%v: another batch", c)
		}
		if got.SetProducer(8, 4, 6); got.ProducerID() != 8 || got.ProducerEpoch() != 4 || got.BaseSequence() != 6 {
			t.Errorf("%v: %d %d %d", c, got.ProducerID(), got.ProducerEpoch(), got.BaseSequence())
		}
		if got.UpdateCRC(); got.Check() != nil {
			t.Error("no batch any more")
		}
		sealed.Reset(o)
		sealed.Append(1, nil, []byte{1}, nil)
		if got, scratch = sealed.Seal(scratch); got.Codec() != None || got.Check() != nil {
			t.Errorf("%v: one byte is compressed with %v", c, got.Codec())
		}
	}
}

// The buffer of a builder can be given, replaced while records are in it, and taken away; nothing is allocated then.
func TestBuilderBuffer(t *testing.T) {
	w, small, large := NewBuilder(Options{}), make([]byte, 200), make([]byte, 400)
	allocs := testing.AllocsPerRun(10, func() {
		w.ResetIn(small, Options{BaseOffset: 4})
		if w.Room() != 200-HeaderSize {
			t.Fatalf("room for %d", w.Room())
		}
		w.Append(5, nil, small[:100], nil)
		if old := w.SetBuffer(large); &old[0] != &small[0] || w.Room() != 400-w.Size() {
			t.Fatalf("room for %d", w.Room())
		}
		clear(small)
		w.Append(6, nil, small[:100], nil)
		b, _ := w.Seal(nil)
		if &b[0] != &large[0] || b.Count() != 2 || b.BaseOffset() != 4 || b.Check() != nil {
			t.Fatalf("%d records", b.Count())
		}
		w.SetBuffer(nil)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
