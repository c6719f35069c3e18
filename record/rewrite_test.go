package record

import (
	"bytes"
	"slices"
	"testing"
)

func recompressRules(c Codec) Rules {
	r := defaultRules()
	r.Codec, r.CodecIsProducer = c, false
	return r
}

// plain is the batch's records, decompressed.
func plain(t testing.TB, b Batch) []byte {
	t.Helper()
	p, err := Decompress(nil, b.Payload(), b.Codec(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRecompress(t *testing.T) {
	for _, from := range codecs {
		for _, to := range codecs {
			sent := sample(Options{Codec: from, Idempotent: true, ProducerID: 7, Epoch: 3, BaseSequence: 5, Transactional: true}, 300)
			before := slices.Clone(sent)
			r := recompressRules(to)
			got, err := new(Validator).Validate(sent, &r, testNow)
			if err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			b := got.Batch
			if got.Rewritten != (from != to) || b.Codec() != to || !bytes.Equal(sent, before) {
				t.Errorf("%s to %s: rewritten %v, codec %s", from, to, got.Rewritten, b.Codec())
			}
			if err := b.Check(); err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
			}
			if !bytes.Equal(plain(t, b), plain(t, sent)) {
				t.Errorf("%s to %s: records changed", from, to)
			}
			// Everything else in the header stays: blank what may differ and compare.
			same := func(b Batch) []byte {
				h := slices.Clone(b[:HeaderSize])
				copy(h[offBatchLength:], "....")
				copy(h[offCRC:], "....")
				h[offAttributes+1] &^= attrCodec
				return h
			}
			if !bytes.Equal(same(b), same(sent)) {
				t.Errorf("%s to %s: header changed", from, to)
			}
			if got.Count != 300 || got.MaxTimestamp != testNow+299 || got.MaxTimestampOffsetDelta != 299 {
				t.Errorf("%s to %s: %+v", from, to, got)
			}
		}
	}
}

func TestRecompressTimestamps(t *testing.T) {
	r := recompressRules(LZ4)
	got, err := new(Validator).Validate(timed(Gzip, testNow, 1, 0, 0, 5, 3), &r, testNow)
	if err != nil || got.Batch.MaxTimestamp() != testNow+5 || got.MaxTimestampOffsetDelta != 1 || got.Batch.TimestampType() != CreateTime {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = new(Validator).Validate(timed(None, testNow, testNow, attrLogAppendTime, 0, 5), &r, testNow)
	if err != nil || got.Batch.TimestampType() != CreateTime || got.Batch.MaxTimestamp() != testNow+5 {
		t.Errorf("LogAppendTime bit: %+v, %v", got, err)
	}
	r.TimestampType = LogAppendTime
	got, err = new(Validator).Validate(timed(Gzip, testNow, 1, 0, 0, 5, 3), &r, testNow+77)
	if err != nil || got.Batch.MaxTimestamp() != testNow+77 || got.MaxTimestamp != testNow+77 || got.Batch.TimestampType() != LogAppendTime {
		t.Errorf("LogAppendTime topic: %+v, %v", got, err)
	}
}

// As in Kafka, recompression makes offsets consecutive, and keeps of the attributes only what it knows.
func TestRecompressNormalizes(t *testing.T) {
	odd := rawRecords(plainRecord(-3), rawRecord{attributes: 0x7f, delta: 9, tsDelta: -7, keyLen: 0, valueLen: -1, headerCount: 1, headers: "\x02h\x01"})
	for _, from := range codecs {
		for _, to := range codecs {
			if from == to {
				continue
			}
			r := recompressRules(to)
			got, err := new(Validator).Validate(rawBatch(from, 2, odd, attributes(int64(from)|0xff00|attrDeleteHorizon|0x80)), &r, testNow)
			if err != nil {
				t.Errorf("%s to %s: %v", from, to, err)
				continue
			}
			want := rawRecords(plainRecord(0), rawRecord{attributes: 0x7f, delta: 1, tsDelta: -7, keyLen: 0, valueLen: -1, headerCount: 1, headers: "\x02h\x01"})
			if !bytes.Equal(plain(t, got.Batch), want) || got.Batch.Attributes() != int16(to) {
				t.Errorf("%s to %s: attributes %#x, records\n%x", from, to, got.Batch.Attributes(), plain(t, got.Batch))
			}
		}
	}
	r := recompressRules(Gzip) // the codec it has: nothing to rebuild, so the gap is an error
	_, err := new(Validator).Validate(rawBatch(Gzip, 2, odd), &r, testNow)
	checkAnswer(t, err, Unknown)
}

func TestRecompressSize(t *testing.T) {
	r := recompressRules(None)
	sent := sample(Options{Codec: Zstd}, 300)
	grown := HeaderSize + len(plain(t, sent))
	r.MaxBatchBytes = grown
	if _, err := new(Validator).Validate(sent, &r, testNow); err != nil {
		t.Errorf("as large as allowed: %v", err)
	}
	r.MaxBatchBytes = grown - 1
	_, err := new(Validator).Validate(sent, &r, testNow)
	checkAnswer(t, err, MessageTooLarge)

	r = recompressRules(Gzip)
	r.InflateLimit = 1000
	_, err = new(Validator).Validate(sent, &r, testNow)
	checkAnswer(t, err, MessageTooLarge)
}

// Refused batches are refused before anything is recompressed, and results do not share memory.
func TestRecompressKeepsResultsApart(t *testing.T) {
	var v Validator
	r := recompressRules(None)
	first, err := v.Validate(sample(Options{Codec: Snappy}, 50), &r, testNow)
	if err != nil {
		t.Fatal(err)
	}
	kept := slices.Clone(first.Batch)
	if _, err := v.Validate(timed(Zstd, testNow, 0, 0, 1, 2, 3), &r, testNow); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Batch, kept) {
		t.Error("the second batch overwrote the first")
	}
}
