package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// golden is a batch written out by hand from the package comment.
const golden = "" +
	"0000000000000102" + // baseOffset 258
	"0000003c" + // batchLength 60
	"00000005" + // partitionLeaderEpoch
	"02" + // magic
	"d685007a" + // crc
	"0038" + // attributes: LogAppendTime, transactional, control
	"00000000" + // lastOffsetDelta
	"0000018bcfe56800" + // baseTimestamp 1700000000000
	"0000018bcfe56801" + // maxTimestamp
	"0000000000000007" + // producerId
	"0003" + // producerEpoch
	"7fffffff" + // baseSequence
	"00000001" + // recordCount
	"14" + "00" + "02" + "00" + "026b" + "01" + "02" + "0268" + "01" // length 10, attrs, ts +1, offset +0, "k", null, 1 header "h": null

func goldenBatch(t *testing.T) Batch {
	t.Helper()
	p, err := hex.DecodeString(golden)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGolden(t *testing.T) {
	b := goldenBatch(t)
	if err := b.Check(); err != nil {
		t.Error(err)
	}
	equal := func(name string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	equal("BaseOffset", b.BaseOffset(), int64(258))
	equal("BatchLength", b.BatchLength(), int32(60))
	equal("SizeInBytes", b.SizeInBytes(), 72)
	equal("PartitionLeaderEpoch", b.PartitionLeaderEpoch(), int32(5))
	equal("Magic", b.Magic(), int8(2))
	equal("CRC", b.CRC(), uint32(0xd685007a))
	equal("Attributes", b.Attributes(), int16(0x38))
	equal("Codec", b.Codec(), None)
	equal("TimestampType", b.TimestampType(), LogAppendTime)
	equal("IsTransactional", b.IsTransactional(), true)
	equal("IsControl", b.IsControl(), true)
	equal("HasDeleteHorizon", b.HasDeleteHorizon(), false)
	equal("LastOffset", b.LastOffset(), int64(258))
	equal("NextOffset", b.NextOffset(), int64(259))
	equal("BaseTimestamp", b.BaseTimestamp(), int64(1_700_000_000_000))
	equal("MaxTimestamp", b.MaxTimestamp(), int64(1_700_000_000_001))
	equal("ProducerID", b.ProducerID(), int64(7))
	equal("ProducerEpoch", b.ProducerEpoch(), int16(3))
	equal("BaseSequence", b.BaseSequence(), int32(math.MaxInt32))
	equal("LastSequence", b.LastSequence(), int32(math.MaxInt32))
	equal("Count", b.Count(), int32(1))
}

func TestGoldenBuilt(t *testing.T) {
	w := NewBuilder(Options{
		TimestampType: LogAppendTime, BaseOffset: 258, PartitionLeaderEpoch: 5, BaseTimestamp: 1_700_000_000_000,
		Idempotent: true, ProducerID: 7, Epoch: 3, BaseSequence: math.MaxInt32, Transactional: true, Control: true,
	})
	w.Append(1_700_000_000_001, []byte("k"), nil, []Header{{Key: "h"}})
	if got := w.Bytes(); !bytes.Equal(got, goldenBatch(t)) {
		t.Errorf("built\n%x, want\n%s", got, golden)
	}
	if w.Size() != len(golden)/2 || w.Count() != 1 {
		t.Errorf("size %d, count %d", w.Size(), w.Count())
	}
	if n := RecordSize(0, 1, []byte("k"), nil, []Header{{Key: "h"}}); n != 11 {
		t.Errorf("RecordSize is %d, want 11", n)
	}
}

func TestSetters(t *testing.T) {
	b := sample(Options{}, 3)
	b.SetBaseOffset(77)
	b.SetPartitionLeaderEpoch(9)
	if err := b.Check(); err != nil || b.BaseOffset() != 77 || b.PartitionLeaderEpoch() != 9 {
		t.Errorf("offset and epoch are not covered by the checksum: %v", err)
	}
	b.SetTimestampType(LogAppendTime)
	b.SetMaxTimestamp(5)
	if err := b.Check(); err == nil {
		t.Error("the checksum does not cover the timestamps")
	}
	b.UpdateCRC()
	if err := b.Check(); err != nil || b.TimestampType() != LogAppendTime || b.MaxTimestamp() != 5 {
		t.Errorf("after UpdateCRC: %v", err)
	}
	b.SetTimestampType(CreateTime)
	if b.TimestampType() != CreateTime || b.Codec() != None {
		t.Error("SetTimestampType(CreateTime)")
	}
}

func TestAddSequence(t *testing.T) {
	for _, c := range []struct{ seq, n, want int32 }{
		{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 3, 1}, {math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
	} {
		if got := AddSequence(c.seq, c.n); got != c.want {
			t.Errorf("AddSequence(%d, %d) = %d, want %d", c.seq, c.n, got, c.want)
		}
	}
}

// A preallocated tail reads as the end, never as a batch or as damage (R1, A15, A16); stale or torn bytes read as damage (A19).
func TestFrameErrors(t *testing.T) {
	good := sample(Options{}, 2)
	with := func(at int, bytes ...byte) []byte {
		b := slices.Clone(good)
		copy(b[at:], bytes)
		return b
	}
	for _, c := range []struct {
		name string
		buf  []byte
		want any // an error, or a Kind
	}{
		{"nothing", nil, io.EOF},
		{"11 zeros", make([]byte, 11), ErrShort},
		{"12 zeros", make([]byte, 12), ErrEnd},
		{"61 zeros", make([]byte, 61), ErrEnd},
		{"a page of zeros", make([]byte, 4096), ErrEnd},
		{"zeros, then something in the header", append(make([]byte, 60), 1), CorruptMessage},
		{"zeros, then something behind the header", append(make([]byte, 61), 1), ErrEnd},
		{"16 bytes", good[:16], ErrShort},
		{"header only", good[:61], ErrShort},
		{"one byte missing", good[:len(good)-1], ErrShort},
		{"length 13", with(8, 0, 0, 0, 13), CorruptMessage},
		{"length 48", with(8, 0, 0, 0, 48), CorruptMessage},
		{"length negative", with(8, 0xff, 0xff, 0xff, 0xff), CorruptMessage},
		{"length overflows", with(8, 0x7f, 0xff, 0xff, 0xff), CorruptMessage},
		{"length beyond the buffer", with(8, 0x70, 0, 0, 0), ErrShort},
		{"magic 0", with(16, 0), InvalidRecord},
		{"magic 1", with(16, 1), InvalidRecord},
		{"magic 3", with(16, 3), CorruptMessage},
		{"magic -1", with(16, 0xff), CorruptMessage},
	} {
		_, rest, err := Frame(c.buf)
		checkError(t, c.name, err, c.want)
		if len(rest) != len(c.buf) {
			t.Errorf("%s: rest is not the input", c.name)
		}
	}
}

func checkError(t *testing.T, name string, err error, want any) {
	t.Helper()
	switch want := want.(type) {
	case nil:
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	case Kind:
		var e *Error
		if !errors.As(err, &e) || e.Kind != want {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	case error:
		if err != want {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
}

func TestCheckHeader(t *testing.T) {
	with := func(change func(Batch)) Batch {
		b := sample(Options{}, 3)
		change(b)
		b.UpdateCRC()
		return b
	}
	put32 := func(at int, v int32) func(Batch) {
		return func(b Batch) { b[at], b[at+1], b[at+2], b[at+3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v) }
	}
	for _, c := range []struct {
		name string
		b    Batch
		want any
	}{
		{"good", with(func(Batch) {}), nil},
		{"fewer records than offsets, after compaction", with(put32(offLastOffsetDelta, 9)), nil},
		{"no records, after compaction", with(func(b Batch) { put32(offCount, 0)(b) }), nil},
		{"more records than offsets", with(put32(offLastOffsetDelta, 1)), CorruptMessage},
		{"negative delta", with(put32(offLastOffsetDelta, -1)), CorruptMessage},
		{"negative count", with(put32(offCount, -1)), CorruptMessage},
		{"codec 5", with(func(b Batch) { b[22] = 5 }), CorruptMessage},
		{"negative offset", with(func(b Batch) { b.SetBaseOffset(-1) }), CorruptMessage},
		{"offset overflows", with(func(b Batch) { b.SetBaseOffset(math.MaxInt64 - 2) }), CorruptMessage},
		{"greatest offset", with(func(b Batch) { b.SetBaseOffset(math.MaxInt64 - 3) }), nil},
		{"unused attribute bits", with(func(b Batch) { b[21], b[22] = 0xff, 0xc0 }), nil},
		{"cut", with(func(Batch) {})[:70], CorruptMessage},
		{"shorter than a header", with(func(Batch) {})[:60], CorruptMessage},
	} {
		checkError(t, c.name, c.b.Check(), c.want)
	}
}

func TestWalk(t *testing.T) {
	var log []byte
	var want []int
	for i := range 4 {
		want = append(want, len(log))
		log = append(log, sample(Options{Codec: codecs[i], BaseOffset: int64(10 * i)}, 10)...)
	}
	walk := func(p []byte) (got []int, end int, err error) {
		end, err = Walk(p, func(pos int, b Batch) error {
			got = append(got, pos)
			return nil
		})
		return got, end, err
	}
	if got, end, err := walk(log); err != nil || end != len(log) || !slices.Equal(got, want) {
		t.Errorf("whole: %v, %d, %v", got, end, err)
	}
	if got, end, err := walk(append(slices.Clone(log), make([]byte, 500)...)); err != ErrEnd || end != len(log) || len(got) != 4 {
		t.Errorf("zero tail: %v, %d, %v", got, end, err)
	}
	if got, end, err := walk(log[:len(log)-1]); err != ErrShort || end != want[3] || len(got) != 3 {
		t.Errorf("torn: %v, %d, %v", got, end, err)
	}
	torn := slices.Clone(log)
	torn[want[2]+30] ^= 1
	got, end, err := walk(torn)
	if checkError(t, "flipped", err, CorruptMessage); end != want[2] || len(got) != 2 {
		t.Errorf("flipped: %v, %d", got, end)
	}
	stop := errors.New("stop")
	if end, err := Walk(log, func(pos int, b Batch) error { return stop }); err != stop || end != 0 {
		t.Errorf("stopped: %d, %v", end, err)
	}
}

// Every prefix of a batch is an error, every flipped bit is caught by Frame or Check, except in the three fields that the checksum
// leaves to the broker (A17, A19: torn and stale bytes must not pass).
func TestEveryPrefixAndFlip(t *testing.T) {
	for _, c := range codecs {
		good := sample(Options{Codec: c}, 8)
		for n := range good {
			if _, _, err := Frame(good[:n]); err == nil {
				t.Fatalf("%s: a prefix of %d bytes is a batch", c, n)
			}
		}
		for i := range good {
			for bit := range 8 {
				bad := slices.Clone(good)
				bad[i] ^= 1 << bit
				survives := i < offBatchLength && bad.BaseOffset() >= 0 || i >= offLeaderEpoch && i < offMagic
				if err := frameAndCheck(bad); (err == nil) != survives {
					t.Fatalf("%s: byte %d, bit %d flipped: %v", c, i, bit, err)
				}
			}
		}
	}
}

func frameAndCheck(p []byte) error {
	b, rest, err := Frame(p)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return errors.New("bytes left")
	}
	return b.Check()
}

func TestBuilderRefusesMisuse(t *testing.T) {
	for name, misuse := range map[string]func(){
		"no records":                  func() { NewBuilder(Options{}).Bytes() },
		"producer without idempotent": func() { NewBuilder(Options{ProducerID: 5}) },
		"codec":                       func() { NewBuilder(Options{Codec: 5}) },
		"offsets go back": func() {
			w := NewBuilder(Options{})
			w.AppendView(0, 3, &Record{})
			w.AppendView(0, 3, &Record{})
		},
	} {
		func() {
			defer func() {
				if msg, _ := recover().(string); !strings.HasPrefix(msg, "BUG: ") {
					t.Errorf("%s: no BUG panic", name)
				}
			}()
			misuse()
		}()
	}
}

// AppendView is how a compacted batch is made: gaps stay, nothing else changes.
func TestBuilderAppendView(t *testing.T) {
	b := sample(Options{}, 20)
	w := NewBuilder(Options{Codec: Zstd, BaseTimestamp: b.BaseTimestamp()})
	err := b.Records(func(r *Record) error {
		if r.OffsetDelta%3 == 1 {
			w.AppendView(b.BaseTimestamp()+r.TimestampDelta, r.OffsetDelta, r)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kept := Batch(w.Bytes())
	if err := kept.Check(); err != nil || kept.Count() != 7 || kept.LastOffsetDelta() != 19 {
		t.Fatalf("%v, %d records, last delta %d", err, kept.Count(), kept.LastOffsetDelta())
	}
	i := 1
	err = kept.Records(func(r *Record) error {
		checkSampleRecord(t, i, r)
		i += 3
		return nil
	})
	if err != nil || i != 22 {
		t.Errorf("%v, ended at %d", err, i)
	}
}
