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
