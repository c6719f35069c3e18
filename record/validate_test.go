package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// The answers in these tables are those of Kafka 4.4.0, asked with the same bytes, unless a row says "stricter" or "differs".

// accepted is the answer to a batch that is stored.
const accepted = Kind(0)

type validateCase struct {
	name  string
	buf   []byte
	want  Kind
	rules func(*Rules)
	check func(*testing.T, []byte, Validated) // of an accepted batch: bytes as sent, result
}

func runValidate(t *testing.T, cases []validateCase) {
	t.Helper()
	var v Validator // one for all: nothing may leak from one batch to the next
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := defaultRules()
			if c.rules != nil {
				c.rules(&r)
			}
			sent := slices.Clone(c.buf)
			got, err := v.Validate(c.buf, &r, testNow)
			checkAnswer(t, err, c.want)
			if err != nil {
				if !bytes.Equal(sent, c.buf) {
					t.Error("a refused batch was changed")
				}
				return
			}
			if err := got.Batch.Check(); err != nil {
				t.Errorf("the result does not check: %v", err)
			}
			if c.check != nil {
				c.check(t, sent, got)
			} else if !bytes.Equal(got.Batch, sent) {
				t.Errorf("stored differs from sent:\n%x\n%x", got.Batch, sent)
			}
		})
	}
}

func checkAnswer(t *testing.T, err error, want Kind) {
	t.Helper()
	if want == accepted {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	var e *Error
	if !errors.As(err, &e) || e.Kind != want {
		t.Errorf("got %v, want %v", err, want)
	}
}

func dropsTail(n int) func(*testing.T, []byte, Validated) {
	return func(t *testing.T, sent []byte, v Validated) {
		if !bytes.Equal(v.Batch, sent[:len(sent)-n]) {
			t.Error("the tail was not dropped")
		}
	}
}

func TestValidateFraming(t *testing.T) {
	g := []byte(sample(Options{}, 3))
	cases := []validateCase{
		{name: "good", buf: slices.Clone(g)},
		{name: "length 10", buf: patched(g, 8, 0, 0, 0, 10), want: CorruptMessage},
		{name: "length 13", buf: patched(g, 8, 0, 0, 0, 13), want: CorruptMessage},
		{name: "length 14", buf: patched(g, 8, 0, 0, 0, 14), want: CorruptMessage},
		{name: "length 48", buf: patched(g, 8, 0, 0, 0, 48), want: CorruptMessage},
		{name: "length 49", buf: patched(g, 8, 0, 0, 0, 49), want: CorruptMessage},
		{name: "length negative", buf: patched(g, 8, 0x80, 0, 0, 0), want: CorruptMessage},
		{name: "length zero", buf: patched(g, 8, 0, 0, 0, 0), want: CorruptMessage},
		{name: "zeros", buf: make([]byte, 100), want: CorruptMessage},
		{name: "length one short", buf: patched(g, 11, g[11]-1), want: CorruptMessage},
		{name: "length one too long", buf: patched(g, 11, g[11]+1), want: InvalidRecord},
		{name: "magic 0", buf: patched(g, 16, 0), want: InvalidRecord},
		{name: "magic 1", buf: patched(g, 16, 1), want: InvalidRecord},
		{name: "magic 3", buf: patched(g, 16, 3), want: CorruptMessage},
		{name: "magic -1", buf: patched(g, 16, 0xff), want: CorruptMessage},
		{name: "bad checksum", buf: badCRC(g), want: CorruptMessage},
		{name: "two batches", buf: join(g, g), want: InvalidRecord},
		{name: "two batches, first with bad checksum", buf: join(badCRC(g), g), want: InvalidRecord},
		{name: "second batch of magic 1", buf: patched(join(g, g), len(g)+16, 1), want: InvalidRecord},
		{name: "3 stray bytes", buf: join(g, []byte{1, 2, 3}), check: dropsTail(3)},
		{name: "11 stray zeros", buf: join(g, make([]byte, 11)), check: dropsTail(11)},
		{name: "12 stray zeros", buf: join(g, make([]byte, 12)), want: CorruptMessage},
		{name: "13 bytes of a second batch", buf: join(g, g[:13]), check: dropsTail(13)},
		{name: "17 bytes of a second batch", buf: join(g, g[:17]), check: dropsTail(17)},
		{name: "60 bytes of a second batch", buf: join(g, g[:60]), check: dropsTail(60)},
		{name: "40 bytes of a second batch of magic 9", buf: patched(join(g, g[:40]), len(g)+16, 9), want: CorruptMessage},
		{name: "16 bytes of a second batch of length 3", buf: patched(join(g, g[:16]), len(g)+8, 0, 0, 0, 3), want: CorruptMessage},
	}
	for n := range len(g) {
		cases = append(cases, validateCase{name: fmt.Sprintf("first %d bytes", n), buf: slices.Clone(g[:n]), want: InvalidRecord})
	}
	runValidate(t, cases)
}

func TestValidateHeader(t *testing.T) {
	two := func(changes ...change) []byte {
		return rawBatch(None, 2, rawRecords(plainRecord(0), plainRecord(1)), changes...)
	}
	baseOffset := set(0, 8, 5)
	big := func(r *Rules) { r.MaxBatchBytes = 78 } // one less than two() has
	fits := func(r *Rules) { r.MaxBatchBytes = 79 }
	runValidate(t, []validateCase{
		{name: "base offset 5", buf: two(baseOffset), want: InvalidRecord},
		{name: "base offset 5, bad checksum", buf: badCRC(two(baseOffset)), want: InvalidRecord},
		{name: "leader epoch 77", buf: two(set(offLeaderEpoch, 4, 77))},
		{name: "codec 5", buf: two(attributes(5)), want: Unknown},
		{name: "codec 6", buf: two(attributes(6)), want: Unknown},
		{name: "codec 7", buf: two(attributes(7)), want: Unknown},
		{name: "codec 5, bad checksum", buf: badCRC(two(attributes(5))), want: CorruptMessage},
		{name: "unused attribute bits", buf: two(attributes(0xff80))},
		{name: "delete horizon", buf: two(attributes(attrDeleteHorizon))},
		{name: "control batch", buf: two(attributes(attrControl)), want: InvalidRecord},
		{name: "compressed control batch", buf: rawBatch(Gzip, 1, rawRecords(plainRecord(0)), attributes(attrControl|1)), want: InvalidRecord},
		{name: "no records", buf: rawBatch(None, 0, nil), want: InvalidRecord},
		{name: "last offset delta -1", buf: two(lastOffsetDelta(-1)), want: InvalidRecord},
		{name: "count 0", buf: two(recordCount(0)), want: InvalidRecord},
		{name: "count -1", buf: two(recordCount(-1)), want: InvalidRecord},
		{name: "count too great", buf: two(recordCount(3), lastOffsetDelta(2)), want: InvalidRecord},
		{name: "count too small", buf: two(recordCount(1), lastOffsetDelta(0)), want: InvalidRecord},
		{name: "offsets beyond count", buf: two(lastOffsetDelta(5)), want: InvalidRecord},
		{name: "count greatest int", buf: two(recordCount(math.MaxInt32), lastOffsetDelta(math.MaxInt32-1)), want: InvalidRecord},
		{name: "counts that agree modulo 2^32", buf: two(recordCount(math.MinInt32), lastOffsetDelta(math.MaxInt32)), want: InvalidRecord},
		{name: "producer without sequence", buf: two(producer(1, 0, -1)), want: InvalidRecord},
		{name: "producer with sequence -2", buf: two(producer(1, 0, -2)), want: InvalidRecord},
		{name: "producer without epoch", buf: two(producer(900, -1, 0))},
		{name: "producer id -2", buf: two(producer(-2, -1, 5))},
		{name: "epoch and sequence without producer", buf: two(producer(-1, 3, 5))},
		{name: "as large as allowed", buf: two(), rules: fits},
		{name: "too large", buf: two(), rules: big, want: MessageTooLarge},
		{name: "too large, bad checksum", buf: badCRC(two()), rules: big, want: MessageTooLarge},
		{name: "too large, base offset 5", buf: two(baseOffset), rules: big, want: InvalidRecord},
		{name: "no size limit", buf: two(), rules: func(r *Rules) { r.MaxBatchBytes = 0 }},
	})
}

func TestValidateRecords(t *testing.T) {
	one := func(r rawRecord) []byte { return rawRecords(r) }
	rows := []struct {
		name    string
		count   int
		records []byte
		want    Kind // uncompressed
		packed  Kind // compressed
	}{
		{"plain", 2, rawRecords(plainRecord(0), plainRecord(1)), accepted, accepted},
		{"deltas equal", 2, rawRecords(plainRecord(0), plainRecord(0)), accepted, Unknown},
		{"deltas swapped", 2, rawRecords(plainRecord(1), plainRecord(0)), accepted, Unknown},
		{"deltas with a gap", 2, rawRecords(plainRecord(0), plainRecord(5)), accepted, Unknown},
		{"deltas negative", 2, rawRecords(plainRecord(-1), plainRecord(-2)), accepted, Unknown},
		{"deltas from 1", 2, rawRecords(plainRecord(1), plainRecord(2)), accepted, Unknown},
		{"record attributes", 1, one(rawRecord{attributes: 0x7f, keyLen: -1, valueLen: -1}), accepted, accepted},
		{"key length -2", 1, one(rawRecord{keyLen: -2, valueLen: -1}), accepted, accepted},
		{"value length -2", 1, one(rawRecord{keyLen: -1, valueLen: -2}), accepted, accepted},
		{"header count -1", 1, one(rawRecord{keyLen: -1, valueLen: -1, headerCount: -1}), InvalidRecord, InvalidRecord},
		{"5 headers, none there", 1, one(rawRecord{keyLen: -1, valueLen: -1, headerCount: 5}), InvalidRecord, InvalidRecord},
		{"header with null key", 1, one(rawRecord{keyLen: -1, valueLen: -1, headerCount: 1, headers: "\x01\x01"}), InvalidRecord, InvalidRecord},
		{"header with value length -2", 1, one(rawRecord{keyLen: -1, valueLen: -1, headerCount: 1, headers: "\x02k\x03"}), accepted, accepted},
		{"header key not UTF-8", 1, one(rawRecord{keyLen: -1, valueLen: -1, headerCount: 1, headers: "\x02\xff\x01"}), accepted, accepted},
		{"value beyond the record", 1, one(rawRecord{keyLen: -1, valueLen: 50, value: "v"}), InvalidRecord, InvalidRecord},
		{"value of 2 GiB", 1, one(rawRecord{keyLen: -1, valueLen: math.MaxInt32, value: "v"}), InvalidRecord, InvalidRecord},
		{"length too great (stricter when compressed)", 1, one(rawRecord{keyLen: -1, valueLen: 1, value: "v", lengthOff: 5}), InvalidRecord, InvalidRecord},
		{"length too small (stricter when compressed)", 1, one(rawRecord{keyLen: -1, valueLen: 1, value: "v", lengthOff: -1}), InvalidRecord, InvalidRecord},
		{"length too small, more after (stricter when compressed)", 2, rawRecords(rawRecord{keyLen: -1, valueLen: 1, value: "v", lengthOff: -1}, plainRecord(1)), InvalidRecord, InvalidRecord},
		{"spare byte in the record", 1, one(rawRecord{keyLen: -1, valueLen: 1, value: "v", headers: "x"}), InvalidRecord, InvalidRecord},
		{"spare byte in the first of two", 2, rawRecords(rawRecord{keyLen: -1, valueLen: 1, value: "v", headers: "x"}, plainRecord(1)), InvalidRecord, InvalidRecord},
		{"length 0", 1, []byte{0}, InvalidRecord, InvalidRecord},
		{"length -1", 1, []byte{1}, InvalidRecord, InvalidRecord},
		{"length 2 GiB", 1, one(rawRecord{keyLen: -1, valueLen: -1, length: []byte{0xfe, 0xff, 0xff, 0xff, 0x0f}}), InvalidRecord, MessageTooLarge}, // compressed: it might be there, and is refused unread
		{"length of more than 32 bits", 1, one(rawRecord{keyLen: -1, valueLen: 1, value: "v", length: []byte{0x8c, 0x80, 0x80, 0x80, 0x10}}), InvalidRecord, InvalidRecord},
		{"length of 6 bytes", 1, one(rawRecord{keyLen: -1, valueLen: 1, value: "v", length: []byte{0x8c, 0x80, 0x80, 0x80, 0x80, 0}}), InvalidRecord, InvalidRecord},
		{"length with padding", 1, one(rawRecord{keyLen: -1, valueLen: 1, value: "v", length: []byte{0x8e, 0x80, 0}}), accepted, accepted},
		{"surplus byte", 1, append(one(plainRecord(0)), 0), InvalidRecord, InvalidRecord},
		{"one record of two", 2, one(plainRecord(0)), InvalidRecord, InvalidRecord},
		{"one and a half", 2, append(one(plainRecord(0)), one(plainRecord(1))[:4]...), InvalidRecord, InvalidRecord},
	}
	var cases []validateCase
	for _, row := range rows {
		for _, c := range codecs {
			want := row.packed
			if c == None {
				want = row.want
			}
			cases = append(cases, validateCase{name: row.name + "/" + c.String(), buf: rawBatch(c, row.count, row.records), want: want})
		}
	}
	cases = append(cases, validateCase{name: "no payload", buf: payloadBatch(None, 1, nil), want: InvalidRecord})
	runValidate(t, cases)
}

func refusedRecords(t *testing.T, err error) (indexes []int32) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is not an *Error", err)
	}
	for _, r := range e.Records {
		if r.Msg == "" {
			t.Errorf("record %d has no message", r.Index)
		}
		indexes = append(indexes, r.Index)
	}
	return indexes
}

func TestValidateCompacted(t *testing.T) {
	noKey := func(delta int64) rawRecord { return rawRecord{delta: delta, keyLen: -1, valueLen: 1, value: "v"} }
	late := rawRecord{delta: 1, tsDelta: 99_999_999, keyLen: 1, key: "k", valueLen: -1}
	for _, c := range codecs {
		for _, row := range []struct {
			name    string
			count   int
			records []byte
			want    Kind
			refused []int32
		}{
			{"keys", 2, rawRecords(plainRecord(0), plainRecord(1)), accepted, nil},
			{"empty key", 1, rawRecords(rawRecord{keyLen: 0, valueLen: -1}), accepted, nil},
			{"key length -2", 1, rawRecords(rawRecord{keyLen: -2, valueLen: -1}), InvalidRecord, []int32{0}},
			{"no key in 1 and 2", 3, rawRecords(plainRecord(0), noKey(1), noKey(2)), InvalidRecord, []int32{1, 2}},
			{"no key, bad timestamp", 2, rawRecords(noKey(0), late), InvalidTimestamp, []int32{0, 1}},
			{"no key, then a malformed record", 2, rawRecords(noKey(0), rawRecord{keyLen: -1, valueLen: 50}), InvalidRecord, nil},
			{"no key in a record larger than the window", 2, rawRecords(plainRecord(0), rawRecord{delta: 1, keyLen: -1, valueLen: 200_000, value: repeat("v", 200_000)}), InvalidRecord, []int32{1}},
			{"a key in a record larger than the window", 1, rawRecords(rawRecord{keyLen: 100_000, key: repeat("k", 100_000), valueLen: 1, value: "v"}), accepted, nil},
		} {
			r := defaultRules()
			r.Compacted = true
			_, err := new(Validator).Validate(rawBatch(c, row.count, row.records), &r, testNow)
			checkAnswer(t, err, row.want)
			if row.want != accepted {
				if got := refusedRecords(t, err); !slices.Equal(got, row.refused) {
					t.Errorf("%s, %s: records %v, want %v", c, row.name, got, row.refused)
				}
			}
		}
	}
}

// timed has one record per timestamp delta.
func timed(c Codec, base, maxTs int64, bits int64, deltas ...int64) []byte {
	var rs []rawRecord
	for i, d := range deltas {
		rs = append(rs, rawRecord{delta: int64(i), tsDelta: d, keyLen: -1, valueLen: -1})
	}
	return rawBatch(c, len(deltas), rawRecords(rs...), baseTimestamp(base), maxTimestamp(maxTs), attributes(int64(c)|bits))
}

func TestValidateTimestamps(t *testing.T) {
	const now, lat = testNow, attrLogAppendTime
	appendTime := func(r *Rules) { r.TimestampType = LogAppendTime }
	narrow := func(r *Rules) { r.BeforeMaxMs, r.AfterMaxMs = 10_000, 5_000 }
	for _, c := range codecs {
		// stored checks the header, that nothing but type, maximum and checksum changed, and where the maximum is.
		stored := func(typ TimestampType, maxTs int64, delta int32) func(*testing.T, []byte, Validated) {
			return func(t *testing.T, sent []byte, v Validated) {
				b := v.Batch
				if b.TimestampType() != typ || b.MaxTimestamp() != maxTs || v.MaxTimestamp != maxTs || v.MaxTimestampOffsetDelta != delta {
					t.Errorf("%v %d, returned %d at %d; want %v %d at %d", b.TimestampType(), b.MaxTimestamp(), v.MaxTimestamp, v.MaxTimestampOffsetDelta, typ, maxTs, delta)
				}
				want := Batch(slices.Clone(sent))
				want.SetTimestampType(typ)
				want.SetMaxTimestamp(maxTs)
				want.UpdateCRC()
				if !bytes.Equal(want, b) {
					t.Errorf("more changed than it should:\n%x\n%x", b, want)
				}
			}
		}
		t.Run(c.String(), func(t *testing.T) {
			runValidate(t, []validateCase{
				{name: "maximum too low", buf: timed(c, now, 1, 0, 0, 5, 3), check: stored(CreateTime, now+5, 1)},
				{name: "maximum too high", buf: timed(c, now, now+99_999_999, 0, 0, 5, 3), check: stored(CreateTime, now+5, 1)},
				{name: "maximum right", buf: timed(c, now, now+5, 0, 0, 5, 3)},
				{name: "first of equals", buf: timed(c, now, now+5, 0, 0, 5, 5), check: stored(CreateTime, now+5, 1)},
				{name: "no timestamps", buf: timed(c, -1, -1, 0, 0, 0)},
				{name: "negative timestamps", buf: timed(c, -5, -5, 0, 0, 0), check: stored(CreateTime, -1, 0)},
				{name: "-1 and now", buf: timed(c, -1, now, 0, 0, now+1), check: stored(CreateTime, now, 1)},
				{name: "more than 2^32 ms apart (B4)", buf: timed(c, 0, now, 0, now, 5), check: stored(CreateTime, now, 0)},
				{name: "far future", buf: timed(c, now, now, 0, 0, 99_999_999, 3), want: InvalidTimestamp},
				{name: "least int64", buf: timed(c, math.MinInt64, now, 0, 0), want: InvalidTimestamp},
				{name: "greatest int64", buf: timed(c, math.MaxInt64, now, 0, 0), want: InvalidTimestamp},
				{name: "overflow", buf: timed(c, math.MaxInt64, now, 0, 10), want: InvalidTimestamp},
				{name: "earliest", buf: timed(c, now, now, 0, -10_000), rules: narrow, check: stored(CreateTime, now-10_000, 0)},
				{name: "too early", buf: timed(c, now, now, 0, 0, -10_001), rules: narrow, want: InvalidTimestamp},
				{name: "latest", buf: timed(c, now, now, 0, 5_000), rules: narrow, check: stored(CreateTime, now+5_000, 0)},
				{name: "too late", buf: timed(c, now, now, 0, 5_001), rules: narrow, want: InvalidTimestamp},
				{name: "-1 is never too early", buf: timed(c, -1, -1, 0, 0, 0), rules: narrow},
				{name: "-2 is", buf: timed(c, -2, now, 0, 0, 0), rules: narrow, want: InvalidTimestamp},

				{name: "LogAppendTime bit", buf: timed(c, now, now+5, lat, 0, 5, 3), check: stored(CreateTime, now+5, 1)},
				{name: "LogAppendTime bit, maximum -1", buf: timed(c, now, -1, lat, 0, 5, 3), want: InvalidTimestamp},
				{name: "LogAppendTime bit, maximum in the far future", buf: timed(c, now, now+99_999_999, lat, 0, 5, 3), want: InvalidTimestamp},
				{name: "LogAppendTime bit, other maximum (differs: Kafka keeps it)", buf: timed(c, now, now+1000, lat, 0, 5, 3), check: stored(CreateTime, now+5, 1)},
				{name: "LogAppendTime bit, record in the far future (stricter)", buf: timed(c, now, now, lat, 0, 99_999_999, 3), want: InvalidTimestamp},

				{name: "LogAppendTime topic", buf: timed(c, now, now, 0, 0, 5, 3), rules: appendTime, check: stored(LogAppendTime, testNow, 0)},
				{name: "LogAppendTime topic, any record time", buf: timed(c, 5, 5, 0, 0, 1<<50, -99), rules: appendTime, check: stored(LogAppendTime, testNow, 0)},
				{name: "LogAppendTime topic, delete horizon kept", buf: timed(c, now, now, attrDeleteHorizon, 0), rules: appendTime, check: stored(LogAppendTime, testNow, 0)},
				{name: "LogAppendTime topic, LogAppendTime bit", buf: timed(c, now, now, lat, 0, 5, 3), rules: appendTime, want: InvalidTimestamp},
			})
		})
	}
}

func TestValidateTimestampErrors(t *testing.T) {
	r := defaultRules()
	_, err := new(Validator).Validate(timed(None, testNow, testNow, 0, 99_999_999, 0, 99_999_999), &r, testNow)
	if got := refusedRecords(t, err); !slices.Equal(got, []int32{0, 2}) {
		t.Errorf("records %v, want 0 and 2", got)
	}
	if msg := err.(*Error).Records[0].Msg; !strings.Contains(msg, "1700099999999") || !strings.Contains(msg, "1700003600000") {
		t.Errorf("message %q does not name the timestamp and the bound", msg)
	}
	r.TimestampType = LogAppendTime
	_, err = new(Validator).Validate(timed(Zstd, testNow, testNow, attrLogAppendTime, 0, 0), &r, testNow)
	if got := refusedRecords(t, err); !slices.Equal(got, []int32{0, 1}) {
		t.Errorf("records %v, want all", got)
	}
	_, err = new(Validator).Validate(rawBatch(None, 2, rawRecords(rawRecord{tsDelta: 99_999_999}, rawRecord{valueLen: 50})), &r, testNow)
	if checkAnswer(t, err, InvalidRecord); len(refusedRecords(t, err)) != 0 {
		t.Error("a malformed record outweighs a refused one")
	}
}

// What a hostile batch makes us remember is bounded, whatever it holds.
func TestValidateRecordErrorsBounded(t *testing.T) {
	r := defaultRules()
	for _, c := range []Codec{None, LZ4} {
		_, err := new(Validator).Validate(timed(c, testNow, testNow, 0, slices.Repeat([]int64{99_999_999}, 50_000)...), &r, testNow)
		checkAnswer(t, err, InvalidTimestamp)
		if n := len(refusedRecords(t, err)); n != recordErrorsMax {
			t.Errorf("%s: %d record errors, want %d", c, n, recordErrorsMax)
		}
		if !strings.Contains(err.Error(), "50000") {
			t.Errorf("%v does not count all", err)
		}
	}
}

// Offsets in uncompressed batches are the client's; what the index is told stays within the batch.
func TestValidateMaxTimestampOffset(t *testing.T) {
	late := func(delta int64) rawRecord { return rawRecord{delta: delta, tsDelta: 9, keyLen: -1, valueLen: -1} }
	r := defaultRules()
	for _, c := range []struct {
		delta int64
		want  int32
	}{{-7, 0}, {0, 0}, {1, 1}, {50, 1}} {
		got, err := new(Validator).Validate(rawBatch(None, 2, rawRecords(plainRecord(0), late(c.delta))), &r, testNow)
		if err != nil || got.MaxTimestampOffsetDelta != c.want {
			t.Errorf("delta %d: %d, %v; want %d", c.delta, got.MaxTimestampOffsetDelta, err, c.want)
		}
	}
}

func TestValidateOrigins(t *testing.T) {
	control := func() []byte {
		return NewBuilder(Options{BaseOffset: 40, Control: true, Transactional: true, Idempotent: true}).withRecord().Bytes()
	}
	compacted := func(changes ...change) []byte { // two records left of six
		return rawBatch(Zstd, 2, rawRecords(plainRecord(1), plainRecord(4)), append([]change{set(0, 8, 100), lastOffsetDelta(5)}, changes...)...)
	}
	as := func(o Origin) func(*Rules) {
		return func(r *Rules) {
			*r = Rules{Origin: o, MaxBatchBytes: 1 << 20, Compacted: true, TimestampType: LogAppendTime, Codec: Gzip} // none of which is theirs
		}
	}
	tiny := func(r *Rules) { as(Replica)(r); r.MaxBatchBytes = 10 }
	runValidate(t, []validateCase{
		{name: "replica: control batch", buf: control(), rules: as(Replica)},
		{name: "replica: compacted batch", buf: compacted(), rules: as(Replica)},
		{name: "replica: wrong maximum is the leader's business", buf: compacted(maxTimestamp(5)), rules: as(Replica)},
		{name: "replica: size is the leader's business", buf: compacted(), rules: tiny},
		{name: "replica: bad checksum", buf: badCRC(control()), rules: as(Replica), want: CorruptMessage},
		{name: "replica: more records than offsets", buf: compacted(lastOffsetDelta(0)), rules: as(Replica), want: CorruptMessage},
		{name: "replica: negative offset", buf: compacted(set(0, 8, -5)), rules: as(Replica), want: CorruptMessage},
		{name: "internal: control batch", buf: control(), rules: as(Internal)},
		{name: "internal: old timestamps, no keys", buf: timed(Zstd, 5, 10, 0, 5, 0), rules: as(Internal)},
		{name: "internal: malformed record", buf: rawBatch(None, 1, []byte{0}), rules: as(Internal), want: InvalidRecord},
		{name: "internal: count", buf: compacted(), rules: as(Internal), want: InvalidRecord},
		{name: "internal: bad checksum", buf: badCRC(control()), rules: as(Internal), want: CorruptMessage},
		{name: "internal: too large", buf: control(), rules: func(r *Rules) { as(Internal)(r); r.MaxBatchBytes = 10 }, want: MessageTooLarge},
	})
}

func (w *Builder) withRecord() *Builder {
	w.Append(testNow, []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 0}, nil)
	return w
}

func TestValidateReturns(t *testing.T) {
	b := sample(Options{}, 10)
	r := defaultRules()
	got, err := new(Validator).Validate(b, &r, testNow)
	if err != nil || got.Count != 10 || got.Rewritten || &got.Batch[0] != &b[0] || got.MaxTimestamp != testNow+9 || got.MaxTimestampOffsetDelta != 9 {
		t.Errorf("%+v, %v", got, err)
	}
	r.Origin = Replica
	got, err = new(Validator).Validate(b, &r, testNow)
	if err != nil || got.Count != 10 || got.MaxTimestamp != testNow+9 || got.MaxTimestampOffsetDelta != 9 {
		t.Errorf("replica: %+v, %v", got, err)
	}
}

func TestValidateAllocations(t *testing.T) {
	var v Validator
	r := defaultRules()
	for _, rules := range []func(*Rules){func(*Rules) {}, func(r *Rules) { r.TimestampType = LogAppendTime }} {
		rules(&r)
		buf := append(timed(None, testNow, 1, 0, 0, 5, 3), 1, 2, 3) // is patched and cut
		work := slices.Clone(buf)
		n := testing.AllocsPerRun(100, func() {
			copy(work, buf)
			if _, err := v.Validate(work, &r, testNow); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
