package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/leatmq/leat/internal/invariant"
)

func TestVarint(t *testing.T) {
	for _, v := range []int64{0, -1, 1, 63, -64, 64, -65, 8191, -8192, 8192, 1 << 20, math.MaxInt32, math.MinInt32, 1 << 40, math.MaxInt64, math.MinInt64} {
		p := appendVarint64([]byte("x"), v)
		if len(p)-1 != varintSize(v) {
			t.Errorf("%d: size %d, want %d", v, varintSize(v), len(p)-1)
		}
		if got, next := readVarint64(p, 1); got != v || next != len(p) {
			t.Errorf("%d: read %d, next %d", v, got, next)
		}
		for n := 1; n < len(p); n++ {
			if _, next := readVarint64(p[:n], 1); next != -1 {
				t.Errorf("%d: %d of its bytes read", v, n-1)
			}
		}
		got, next := readVarint(p, 1)
		if small := v == int64(int32(v)); small != (next == len(p)) || small && int64(got) != v {
			t.Errorf("%d as int32: %d, next %d", v, got, next)
		}
	}
	for _, p := range [][]byte{nil, {0x80}, {0x80, 0x80, 0x80, 0x80, 0x10}, {0x80, 0x80, 0x80, 0x80, 0x80, 0}} {
		if _, next := readVarint(p, 0); next != -1 {
			t.Errorf("%x reads as int32", p)
		}
	}
	for _, p := range [][]byte{nil, {0x80}, append(bytes.Repeat([]byte{0x80}, 9), 2), append(bytes.Repeat([]byte{0x80}, 10), 0)} {
		if _, next := readVarint64(p, 0); next != -1 {
			t.Errorf("%x reads as int64", p)
		}
	}
	if _, next := readVarint([]byte{0}, -1); next != -1 {
		t.Error("-1 does not stick")
	}
	if _, next := readVarint64([]byte{0}, -1); next != -1 {
		t.Error("-1 does not stick")
	}
}

// randomBatch builds a batch of any shape together with what its records are.
func randomBatch(rng *rand.Rand, c Codec) (Batch, []rawRecord) {
	word := func(max int) []byte {
		switch n := rng.IntN(max + 2); n {
		case 0:
			return nil
		default:
			p := make([]byte, n-1)
			for i := range p {
				p[i] = byte(rng.IntN(4))
			}
			return p
		}
	}
	large := []int{20, 20, 2_000, 90_000}[rng.IntN(4)]
	w := NewBuilder(Options{Codec: c})
	var want []rawRecord
	for range 1 + rng.IntN(30) {
		ts := testNow - rng.Int64N(1<<uint(1+rng.IntN(35)))
		key, value := word(20), word(large)
		var headers []Header
		text := ""
		for range rng.IntN(3) {
			h := Header{string(word(5)), word(9)}
			headers = append(headers, h)
			text += fmt.Sprintf("%q=%q,%v ", h.Key, h.Value, h.Value == nil)
		}
		w.Append(ts, key, value, headers)
		want = append(want, rawRecord{tsDelta: ts, key: fmt.Sprint(key == nil, key), value: fmt.Sprint(value == nil, value), headers: text})
	}
	return w.Bytes(), want
}

func describe(b Batch, r *Record) rawRecord {
	text := ""
	for it := r.Headers(); ; {
		k, v, ok := it.Next()
		if !ok {
			break
		}
		text += fmt.Sprintf("%q=%q,%v ", k, v, v == nil)
	}
	return rawRecord{tsDelta: b.BaseTimestamp() + r.TimestampDelta, key: fmt.Sprint(r.KeyNull(), r.Key), value: fmt.Sprint(r.ValueNull(), r.Value), headers: text}
}

// Whatever is built validates unchanged, survives any recompression, and reads back as it went in.
func TestBuildValidateReadProperty(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		from, to := codecs[rng.IntN(5)], codecs[rng.IntN(5)]
		b, want := randomBatch(rng, from)
		r := recompressRules(to)
		r.MaxBatchBytes = 0
		r.CodecIsProducer = rng.IntN(2) == 0
		got, err := new(Validator).Validate(b, &r, testNow)
		if err != nil {
			t.Fatalf("seed %d, %s to %s: %v", seed, from, to, err)
		}
		if !got.Rewritten && !bytes.Equal(got.Batch, b) {
			t.Fatalf("seed %d: changed", seed)
		}
		var size, i int
		err = got.Batch.Records(func(rec *Record) error {
			if have := describe(got.Batch, rec); fmt.Sprint(have) != fmt.Sprint(want[i]) || int(rec.OffsetDelta) != i {
				t.Fatalf("seed %d, record %d:\n%v\n%v", seed, i, have, want[i])
			}
			size += rec.Size
			i++
			return nil
		})
		if err != nil || i != len(want) || size != len(plain(t, got.Batch)) {
			t.Fatalf("seed %d: %d records of %d, %d bytes, %v", seed, i, len(want), size, err)
		}
	}
}

func TestRecordsStops(t *testing.T) {
	stop := errors.New("stop")
	for _, c := range codecs {
		n := 0
		err := sample(Options{Codec: c}, 10).Records(func(*Record) error {
			n++
			if n == 3 {
				return stop
			}
			return nil
		})
		if err != stop || n != 3 {
			t.Errorf("%s: %v after %d", c, err, n)
		}
	}
}

func TestRecordsErrors(t *testing.T) {
	for _, c := range codecs {
		for name, b := range map[string]Batch{
			"surplus":   rawBatch(c, 1, append(rawRecords(plainRecord(0)), 0)),
			"missing":   rawBatch(c, 2, rawRecords(plainRecord(0))),
			"malformed": rawBatch(c, 1, rawRecords(rawRecord{keyLen: 99})),
			"length":    rawBatch(c, 1, []byte{1}),
		} {
			err := b.Records(func(*Record) error { return nil })
			checkError(t, c.String()+": "+name, err, InvalidRecord)
		}
	}
	err := payloadBatch(6, 1, []byte("x")).Records(func(*Record) error { return nil })
	checkError(t, "codec 6", err, Unknown)
	empty := payloadBatch(None, 1, nil, recordCount(0))
	if err := empty.Records(func(*Record) error { return errVisited }); err != nil {
		t.Errorf("a batch emptied by compaction: %v", err)
	}
}

var errVisited = errors.New("visited")

// Visits may nest, as when a batch is read while another is copied: buffers are not shared.
func TestRecordsNest(t *testing.T) {
	outer, inner := sample(Options{Codec: Zstd}, 40), sample(Options{Codec: Zstd}, 3)
	i := 0
	err := outer.Records(func(r *Record) error {
		if err := inner.Records(func(*Record) error { return nil }); err != nil {
			return err
		}
		checkSampleRecord(t, i, r)
		i++
		return nil
	})
	if err != nil || i != 40 {
		t.Errorf("%d, %v", i, err)
	}
}

// Pooled state belongs to one user at a time (B-H1).
func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var v Validator
			for i := range 50 {
				c, n := codecs[(g+i)%5], 1+(g*7+i)%60
				b := sample(Options{Codec: c}, n)
				r := recompressRules(codecs[i%5])
				got, err := v.Validate(b, &r, testNow)
				if err != nil {
					t.Error(err)
					return
				}
				k := 0
				if err := got.Batch.Records(func(r *Record) error { checkSampleRecord(t, k, r); k++; return nil }); err != nil || k != n {
					t.Errorf("%d of %d records, %v", k, n, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestRecordsAllocations(t *testing.T) {
	if invariant.Enabled {
		t.Skip("under the race detector pools drop what they are given")
	}
	for _, c := range codecs {
		b := sample(Options{Codec: c}, 50)
		var n int
		visit := func(r *Record) error {
			for it := r.Headers(); ; n++ {
				if _, _, ok := it.Next(); !ok {
					return nil
				}
			}
		}
		allocs := testing.AllocsPerRun(50, func() {
			if err := b.Records(visit); err != nil {
				t.Fatal(err)
			}
		})
		if c == None && allocs != 0 || allocs >= 5 { // codecs may lose a pooled decoder to the collector, records never cost one
			t.Errorf("%s: %v allocations for 50 records", c, allocs)
		}
	}
}
