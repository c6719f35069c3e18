package record

import (
	"bytes"
	"slices"
	"testing"
)

// Run these with -fuzzminimizetime 10x: pooled codecs make coverage vary from run to run, and minimizing would never end.

// seeds are real batches, and damaged ones of every kind the tables know.
func seeds(f *testing.F) [][]byte {
	var s [][]byte
	for _, file := range fixtures(f) {
		p := readFixture(f, file)
		if len(p) < 6000 {
			s = append(s, p)
		}
	}
	for _, c := range codecs {
		s = append(s, sample(Options{Codec: c}, 5), timed(c, testNow, 1, 0, 0, 5, 3),
			rawBatch(c, 2, rawRecords(plainRecord(1), rawRecord{keyLen: -1, valueLen: 50})))
	}
	return append(s, make([]byte, 100), join(s[0], s[0]), sample(Options{Idempotent: true, Transactional: true, Control: true}, 1))
}

// Frame and Check never panic, and what they pass is framed right: it can be framed again, alone.
func FuzzFrame(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		b, rest, err := Frame(p)
		if err != nil {
			if len(rest) != len(p) {
				t.Fatal("an error consumed bytes")
			}
			return
		}
		if len(b)+len(rest) != len(p) || b.SizeInBytes() != len(b) || len(b) < HeaderSize {
			t.Fatalf("%d + %d of %d bytes", len(b), len(rest), len(p))
		}
		b.UpdateCRC() // let the fuzzer get behind the checksum
		if b.Check() != nil {
			return
		}
		if b.LastOffset() < b.BaseOffset() || b.NextOffset() <= 0 {
			t.Fatalf("offsets %d to %d", b.BaseOffset(), b.LastOffset())
		}
		n := int32(0)
		err = b.RecordsLimit(1<<20, func(r *Record) error {
			n++
			for it := r.Headers(); ; {
				if _, _, ok := it.Next(); !ok {
					return nil
				}
			}
		})
		if err == nil && n != b.Count() {
			t.Fatalf("%d records of %d", n, b.Count())
		}
	})
}

// Validate never panics, changes nothing it refuses, and what it accepts passes every check a reader makes.
func FuzzValidate(f *testing.F) {
	for i, s := range seeds(f) {
		f.Add(s, uint8(i))
	}
	var v Validator
	f.Fuzz(func(t *testing.T, p []byte, options uint8) {
		p = slices.Clone(p)
		if b, _, err := Frame(p); err == nil {
			b.SetBaseOffset(0)
			b.UpdateCRC()
		}
		sent := slices.Clone(p)
		r := defaultRules()
		r.InflateLimit = 1 << 20
		r.Codec, r.CodecIsProducer = Codec(options%5), options&0x80 != 0
		r.Compacted = options&0x40 != 0
		r.TimestampType = TimestampType(options >> 5 & 1)
		got, err := v.Validate(p, &r, testNow)
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("%T: %v", err, err)
			}
			if !bytes.Equal(sent, p) {
				t.Fatal("a refused batch was changed")
			}
			return
		}
		if err := got.Batch.Check(); err != nil {
			t.Fatal(err)
		}
		checkReadable(t, got, &r)
		again, err := v.Validate(slices.Clone(got.Batch), &r, testNow)
		if r.TimestampType == CreateTime && (err != nil || !bytes.Equal(again.Batch, got.Batch)) {
			t.Fatalf("an accepted batch is not a fixed point: %v", err)
		}
	})
}

func checkReadable(t *testing.T, got Validated, r *Rules) {
	t.Helper()
	maxTs, n := int64(NoTimestamp), int32(0)
	err := got.Batch.RecordsLimit(4<<20, func(rec *Record) error {
		maxTs = max(maxTs, got.Batch.BaseTimestamp()+rec.TimestampDelta)
		n++
		return nil
	})
	if err != nil || n != got.Count {
		t.Fatalf("%d records of %d: %v", n, got.Count, err)
	}
	if r.TimestampType == CreateTime && (maxTs != got.MaxTimestamp || maxTs != got.Batch.MaxTimestamp()) {
		t.Fatalf("maximum %d, header %d, records %d", got.MaxTimestamp, got.Batch.MaxTimestamp(), maxTs)
	}
}

// Decompress never panics and never goes beyond the limit.
func FuzzDecompress(f *testing.F) {
	for _, s := range seeds(f) {
		if b, _, err := Frame(s); err == nil {
			f.Add([]byte(b.Payload()), uint8(b.Codec()))
		}
	}
	linked, _ := lz4Linked()
	f.Add(linked, uint8(LZ4))
	f.Add(zstdStream(data(2000)), uint8(Zstd))
	f.Fuzz(func(t *testing.T, p []byte, c uint8) {
		const limit = 1 << 20
		out, err := Decompress(nil, p, Codec(c%5), limit)
		if len(out) > limit+windowKept || err == nil && len(out) > limit {
			t.Fatalf("%d bytes", len(out))
		}
		if err != nil {
			return
		}
		packed, err := Compress(nil, out, Codec(c%5), 0)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decompress(nil, packed, Codec(c%5), limit)
		if err != nil || !bytes.Equal(back, out) {
			t.Fatalf("does not come back: %v", err)
		}
	})
}
