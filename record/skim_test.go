package record

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Records larger than the window are judged by other code than small ones, and must be judged the same.
func TestSkimLikeParse(t *testing.T) {
	const n = 100_000
	big := repeat("v", n)
	for name, c := range map[string]struct {
		count   int
		records []byte
	}{
		"good":                          {2, rawRecords(rawRecord{keyLen: 1, key: "k", valueLen: n, value: big}, plainRecord(1))},
		"null key, large header":        {1, rawRecords(rawRecord{keyLen: -1, valueLen: -1, headerCount: 2, headers: "\x02a\x01" + "\x02b" + string(appendVarint(nil, n)) + big})},
		"large header key":              {1, rawRecords(rawRecord{keyLen: -1, valueLen: -1, headerCount: 1, headers: string(appendVarint(nil, n)) + big + "\x00"})},
		"large timestamp delta":         {1, rawRecords(rawRecord{tsDelta: -1 << 50, keyLen: -1, valueLen: n, value: big})},
		"key length -2":                 {1, rawRecords(rawRecord{keyLen: -2, valueLen: n, value: big})},
		"value beyond the record":       {1, rawRecords(rawRecord{keyLen: -1, valueLen: n + 9, value: big})},
		"value beyond, more after":      {2, rawRecords(rawRecord{keyLen: -1, valueLen: n + 9, value: big}, rawRecord{delta: 1, keyLen: -1, valueLen: 40, value: repeat("x", 40)})},
		"value of 2 GiB":                {1, rawRecords(rawRecord{keyLen: -1, valueLen: math.MaxInt32, value: big})},
		"spare byte":                    {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big, headers: "x"})},
		"header count -1":               {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big, headerCount: -1})},
		"header count too great":        {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big, headerCount: 9, headers: "\x02a\x01"})},
		"header count beyond record":    {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big, headerCount: 2, headers: "\x02a\x01"})},
		"header with null key":          {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big, headerCount: 1, headers: "\x01\x01"})},
		"header value beyond":           {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big, headerCount: 1, headers: "\x02a\x20"})},
		"key fills the record":          {1, rawRecords(rawRecord{keyLen: n + 2, key: big + "..", valueLen: 0, lengthOff: -2})},
		"no room for the value length":  {1, append(appendVarint(nil, n+6), append([]byte{0, 0, 0}, append(appendVarint(nil, n), big...)...)...)},
		"timestamp of 11 bytes":         {1, append(appendVarint(nil, n), append([]byte{0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, big[:n-12]...)...)},
		"offset delta of 6 bytes":       {1, append(appendVarint(nil, n), append([]byte{0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, big[:n-8]...)...)},
		"length beyond the batch":       {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big, lengthOff: 500})},
		"length short":                  {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big, lengthOff: -1})},
		"batch ends within the value":   {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big})[:n/2]},
		"batch ends before the headers": {1, rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big})[:n+7]},
		"surplus":                       {1, append(rawRecords(rawRecord{keyLen: -1, valueLen: n, value: big}), 0)},
	} {
		compareCodecs(t, name, c.count, c.records)
	}
}

// compareCodecs checks that a batch gets the same answer whatever it is compressed with.
func compareCodecs(t *testing.T, name string, count int, records []byte) {
	t.Helper()
	answer := func(c Codec) (Validated, Kind) {
		r := defaultRules()
		r.Compacted = true
		got, err := new(Validator).Validate(rawBatch(c, count, records), &r, testNow)
		if err != nil {
			return got, err.(*Error).Kind
		}
		return got, accepted
	}
	plainGot, plainKind := answer(None)
	for _, c := range codecs[1:] {
		got, kind := answer(c)
		if kind != plainKind || got.MaxTimestamp != plainGot.MaxTimestamp || got.MaxTimestampOffsetDelta != plainGot.MaxTimestampOffsetDelta {
			t.Errorf("%s: uncompressed %v %d, %s %v %d", name, plainKind, plainGot.MaxTimestamp, c, kind, got.MaxTimestamp)
		}
	}
}

// The same for random damage to the fields around a large value. Offset deltas are left alone: those are judged differently.
func TestSkimLikeParseRandom(t *testing.T) {
	const n = 70_000
	good := rawRecords(plainRecord(0), rawRecord{delta: 1, tsDelta: 300, keyLen: 3, key: "key", valueLen: n, value: repeat("v", n), headerCount: 2, headers: "\x02a\x02b\x02c\x01"}, plainRecord(2))
	value := bytes.Index(good, []byte("vvv"))
	rng := rand.New(rand.NewPCG(9, 9))
	for range 300 {
		bad := slices.Clone(good)
		for range 1 + rng.IntN(2) {
			at := rng.IntN(value)
			if rng.IntN(2) == 0 {
				at = len(bad) - 1 - rng.IntN(len(bad)-value-n)
			}
			bad[at] ^= 1 << rng.IntN(8)
		}
		if d := deltas(bad); d != nil && !slices.Equal(d, []int32{0, 1, 2}) {
			continue
		}
		compareCodecs(t, "random", 3, bad)
	}
}

// deltas are the offset deltas of three well-formed records.
func deltas(p []byte) (d []int32) {
	var r Record
	for range 3 {
		if parseRecord(p, &r) != "" {
			return nil
		}
		d = append(d, r.OffsetDelta)
		p = p[r.Size:]
	}
	return d
}

func TestSaturatingBounds(t *testing.T) {
	for _, c := range []struct{ got, want int64 }{
		{subSaturating(5, 3), 2}, {subSaturating(math.MinInt64+5, 9), math.MinInt64}, {subSaturating(5, math.MaxInt64), 6 - math.MaxInt64 - 1}, {subSaturating(-5, math.MaxInt64), math.MinInt64},
		{addSaturating(5, 3), 8}, {addSaturating(5, math.MaxInt64), math.MaxInt64}, {addSaturating(-5, math.MaxInt64), math.MaxInt64 - 5},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}

// Kafka's Java client cannot read linked blocks, so a batch with them must not be stored, though we could read it.
func TestValidateLinkedBlocks(t *testing.T) {
	linked, _ := lz4Linked()
	r := defaultRules()
	_, err := new(Validator).Validate(payloadBatch(LZ4, 1, linked), &r, testNow)
	checkAnswer(t, err, Unknown)
}
