package record

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// benchBatch has n records of about size bytes that compress roughly 2:1.
func benchBatch(c Codec, n, size int) Batch {
	rng := rand.New(rand.NewPCG(1, 2))
	w := NewBuilder(Options{Codec: c})
	for i := range n {
		value := make([]byte, size/2)
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		w.Append(1_700_000_000_000+int64(i), fmt.Appendf(nil, "key-%d", i), append(value, bytes.Repeat([]byte("ab"), size/4)...), nil)
	}
	return w.Bytes()
}

var benchRules = Rules{MaxBatchBytes: 1 << 20, BeforeMaxMs: 1 << 60, AfterMaxMs: 3_600_000, CodecIsProducer: true}

func BenchmarkValidate(b *testing.B) {
	for _, n := range []int{16, 64} {
		for _, c := range codecs {
			b.Run(fmt.Sprintf("%dx1KiB/%s", n, c), func(b *testing.B) {
				batch := benchBatch(c, n, 1024)
				var v Validator
				b.SetBytes(int64(n * 1024))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := v.Validate(batch, &benchRules, 1_700_000_000_000); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkValidateSmall shows the cost per record: its records are almost nothing but their fields.
func BenchmarkValidateSmall(b *testing.B) {
	batch := benchBatch(None, 1000, 4)
	var v Validator
	b.ReportAllocs()
	for b.Loop() {
		if _, err := v.Validate(batch, &benchRules, 1_700_000_000_000); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
}

func BenchmarkRecords(b *testing.B) {
	for _, c := range codecs {
		b.Run(c.String(), func(b *testing.B) {
			batch := benchBatch(c, 64, 1024)
			visit := func(*Record) error { return nil }
			b.SetBytes(64 * 1024)
			b.ReportAllocs()
			for b.Loop() {
				if err := batch.Records(visit); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, c := range codecs {
		b.Run(c.String(), func(b *testing.B) {
			w := NewBuilder(Options{Codec: c})
			value := bytes.Repeat([]byte("some text, "), 93)
			var dst []byte
			b.SetBytes(64 * 1024)
			b.ReportAllocs()
			for b.Loop() {
				w.Reset(Options{Codec: c})
				for i := range 64 {
					w.Append(int64(i), nil, value, nil)
				}
				dst = w.Build(dst[:0])
			}
		})
	}
}
