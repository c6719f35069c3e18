package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

func TestCodecNames(t *testing.T) {
	for i, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		c, err := ParseCodec(name)
		if err != nil || c != Codec(i) || c.String() != name {
			t.Errorf("%q: %v, %v", name, c, err)
		}
	}
	if c, err := ParseCodec("uncompressed"); c != None || err != nil {
		t.Errorf("uncompressed: %v, %v", c, err)
	}
	if _, err := ParseCodec("producer"); err == nil {
		t.Error("producer is not a codec")
	}
	if Codec(9).String() != "Codec(9)" || Kind(99).String() != "Kind(99)" {
		t.Error("names of what does not exist")
	}
}

// data mixes runs that compress and bytes that do not.
func data(n int) []byte {
	rng := rand.New(rand.NewPCG(3, uint64(n)))
	p := make([]byte, 0, n+64)
	for len(p) < n {
		if rng.IntN(2) == 0 {
			p = append(p, bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(60))...)
		} else {
			p = binary.LittleEndian.AppendUint64(p, rng.Uint64())
		}
	}
	return p[:n]
}

func TestCompressRoundTrip(t *testing.T) {
	sizes := []int{0, 1, 10, 1000, xerialBlockSize - 1, xerialBlockSize, xerialBlockSize + 1, windowSize, 3*windowSize + 5, 1 << 20}
	for _, c := range codecs {
		for _, n := range sizes {
			src := data(n)
			packed, err := Compress([]byte("before"), src, c, 0)
			if err != nil || !bytes.HasPrefix(packed, []byte("before")) {
				t.Fatalf("%s, %d bytes: %v", c, n, err)
			}
			got, err := Decompress([]byte("head"), packed[6:], c, int64(n))
			if err != nil || !bytes.HasPrefix(got, []byte("head")) || !bytes.Equal(got[4:], src) {
				t.Errorf("%s, %d bytes: %v, %d bytes", c, n, err, len(got)-4)
			}
			if n > 0 {
				if _, err := Decompress(nil, packed[6:], c, int64(n)-1); err != ErrInflate {
					t.Errorf("%s, %d bytes, limit one less: %v", c, n, err)
				}
			}
		}
	}
	if _, err := Compress(nil, nil, 5, 0); err == nil {
		t.Error("codec 5 compresses")
	}
	_, err := Decompress(nil, nil, 7, 10)
	checkAnswer(t, err, Unknown)
}

func TestCompressLevels(t *testing.T) {
	src := data(100_000)
	for c, levels := range map[Codec][]int{Gzip: {-1, 0, 1, 9, 99}, LZ4: {-5, 0, 1, 2, 9, 17, 99}, Zstd: {-131072, -1, 0, 1, 3, 10, 22, 99}, Snappy: {0, 5}} {
		for _, level := range levels {
			packed, err := Compress(nil, src, c, level)
			if err != nil {
				t.Fatalf("%s level %d: %v", c, level, err)
			}
			if got, err := Decompress(nil, packed, c, 1<<20); err != nil || !bytes.Equal(got, src) {
				t.Errorf("%s level %d: %v", c, level, err)
			}
		}
	}
	if lz4LevelIndex(1) != 1 || lz4LevelIndex(17) != len(lz4Levels)-1 && lz4LevelIndex(17) < 8 {
		t.Errorf("lz4 levels 1 and 17 map to %d and %d", lz4LevelIndex(1), lz4LevelIndex(17))
	}
}

func lz4Frame(src []byte, options ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := errors.Join(w.Apply(options...), func() error { _, err := w.Write(src); return err }(), w.Close()); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// lz4Linked is a frame whose second block copies from the first: FLG has version 1 and nothing else.
func lz4Linked() (frame, plain []byte) {
	frame = []byte{0x04, 0x22, 0x4d, 0x18, 0x40, 0x40, 0xc0} // the last is the header checksum
	first := []byte("0123456789abcdef")
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(first))|lz4Stored)
	frame = append(frame, first...)
	second := []byte{0x04, 16, 0, 0x50, 'v', 'w', 'x', 'y', 'z'} // copy 8 from 16 back, then 5 literals
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(second)))
	frame = append(frame, second...)
	return append(frame, 0, 0, 0, 0), []byte("0123456789abcdef" + "01234567" + "vwxyz")
}

func zstdStream(src []byte, options ...zstd.EOption) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, options...)
	if err != nil {
		panic(err)
	}
	w.Write(src)
	w.Flush() // so that the frame does not know its size, as from Java
	w.Close()
	return out.Bytes()
}

// Variants of each format that clients send, or could.
func TestDecompressVariants(t *testing.T) {
	src := data(300_000)
	split := func(c Codec) []byte {
		a, _ := Compress(nil, src[:1000], c, 0)
		b, _ := Compress(nil, src[1000:], c, 0)
		return append(a, b...)
	}
	linked, linkedPlain := lz4Linked()
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}
	xerialOf := func(v, compatible byte) []byte {
		p := deflateSnappy(nil, src)
		p[11], p[15] = v, compatible
		return p
	}
	for _, c := range []struct {
		name string
		c    Codec
		in   []byte
		want []byte
	}{
		{"snappy: bare block (franz-go, sarama)", Snappy, s2.EncodeSnappy(nil, src), src},
		{"snappy: bare empty block", Snappy, []byte{0}, nil},
		{"snappy: bare block, better", Snappy, s2.EncodeSnappyBest(nil, src), src},
		{"snappy: other version numbers", Snappy, xerialOf(2, 2), src},
		{"snappy: empty block at the end", Snappy, append(deflateSnappy(nil, src), 0, 0, 0, 1, 0), src},
		{"snappy: no blocks", Snappy, deflateSnappy(nil, nil), nil},
		{"lz4: block checksums", LZ4, lz4Frame(src, lz4.BlockChecksumOption(true)), src},
		{"lz4: content checksum", LZ4, lz4Frame(src, lz4.ChecksumOption(true)), src},
		{"lz4: content size", LZ4, lz4Frame(src, lz4.SizeOption(uint64(len(src)))), src},
		{"lz4: 4 MiB blocks", LZ4, lz4Frame(src, lz4.BlockSizeOption(lz4.Block4Mb)), src},
		{"lz4: everything", LZ4, lz4Frame(src, lz4.BlockSizeOption(lz4.Block256Kb), lz4.BlockChecksumOption(true), lz4.ChecksumOption(true), lz4.SizeOption(uint64(len(src)))), src},
		{"lz4: linked blocks", LZ4, linked, linkedPlain},
		{"gzip: two members", Gzip, split(Gzip), src},
		{"zstd: two frames", Zstd, split(Zstd), src},
		{"zstd: skippable frame first", Zstd, append(slices.Clone(skippable), split(Zstd)...), src},
		{"zstd: window of 64 MiB, as from level 21", Zstd, zstdStream(src, zstd.WithWindowSize(64<<20)), src},
		{"zstd: window of 8 MiB", Zstd, zstdStream(src, zstd.WithWindowSize(8<<20)), src},
		{"zstd: no bytes", Zstd, nil, nil},
	} {
		got, err := Decompress(nil, c.in, c.c, 1<<20)
		if err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %v, %d bytes of %d", c.name, err, len(got), len(c.want))
		}
	}
}

func TestDecompressErrors(t *testing.T) {
	src := data(5000)
	repetitive := bytes.Repeat([]byte("abcdefgh"), 400)
	for _, c := range codecs[1:] {
		good, _ := Compress(nil, src, c, 0)
		for n := range good {
			if n == 0 && c == Zstd || c == Snappy && n == xerialHeaderSize {
				continue // an empty stream
			}
			if _, err := Decompress(nil, good[:n], c, 1<<20); err == nil {
				t.Errorf("%s: first %d bytes of %d decompress", c, n, len(good))
			}
		}
		for _, tail := range []string{"\x00", "garbage garbage garbage"} {
			if _, err := Decompress(nil, append(slices.Clone(good), tail...), c, 1<<20); err == nil {
				t.Errorf("%s: bytes behind the end pass", c)
			}
		}
		_, err := Decompress(nil, []byte("this is text and not compressed at all"), c, 1<<20)
		checkAnswer(t, err, Unknown)
	}
	frame := lz4Frame(src)
	linked, _ := lz4Linked()
	for name, c := range map[string]struct {
		c  Codec
		in []byte
	}{
		"lz4: second frame":       {LZ4, append(slices.Clone(frame), frame...)},
		"lz4: legacy":             {LZ4, lz4Frame(src, lz4.LegacyOption(true))},
		"lz4: header checksum":    {LZ4, patched(frame, 6, frame[6]^1)},
		"lz4: skippable first":    {LZ4, append([]byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9}, frame...)},
		"lz4: dictionary":         {LZ4, patched(frame, 4, frame[4]|lz4Dictionary)},
		"lz4: link beyond start":  {LZ4, patched(linked, 7+4+16+4+1, 200)},
		"snappy: S2 block":        {Snappy, s2.EncodeBest(nil, repetitive)},
		"snappy: length too long": {Snappy, append([]byte{0x7f}, s2.EncodeSnappy(nil, src)[2:]...)},
		"snappy: block length 0":  {Snappy, append(deflateSnappy(nil, src), 0, 0, 0, 0)},
		"snappy: literal head":    {Snappy, []byte{5, 0xfc, 1}},
		"snappy: copy too short":  {Snappy, []byte{5, 0x00, 'a', 0x02, 1}},
	} {
		if _, err := Decompress(nil, c.in, c.c, 1<<20); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if bytes.Equal(s2.EncodeBest(nil, repetitive), s2.EncodeSnappyBest(nil, repetitive)) {
		t.Error("the S2 sample is plain snappy and tests nothing")
	}
}

// allocated runs f and returns the bytes it allocated.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// bomb is one record of n zeros.
func bomb(c Codec, n int) Batch {
	w := NewBuilder(Options{Codec: c})
	w.Append(testNow, nil, make([]byte, n), nil)
	return w.Bytes()
}

// A small batch that inflates without end costs time up to the limit, and memory only for a window and the codec.
func TestValidateBombs(t *testing.T) {
	const inflated, limit = 24 << 20, 8 << 20
	for _, c := range codecs[1:] {
		records := map[string]Batch{"one record": bomb(c, inflated)}
		w := NewBuilder(Options{Codec: c})
		for range inflated / 4096 {
			w.Append(testNow, nil, make([]byte, 4096), nil)
		}
		records["many records"] = w.Bytes()
		for name, b := range records {
			r := defaultRules()
			r.MaxBatchBytes, r.InflateLimit = 0, limit
			var err error
			var v Validator
			n := allocated(func() { _, err = v.Validate(b, &r, testNow) })
			checkAnswer(t, err, MessageTooLarge)
			if n > 9<<20 {
				t.Errorf("%s, %s: %d bytes that inflate to %d made us allocate %d", c, name, len(b), inflated, n)
			}
		}
	}
}

// A frame that asks for a great window gets memory for what its blocks hold, and never more than the limit.
func TestZstdGreatWindow(t *testing.T) {
	src := rawRecords(rawRecord{keyLen: -1, valueLen: 20 << 20, value: repeat("\x00", 20<<20)})
	b := payloadBatch(Zstd, 1, zstdStream(src, zstd.WithWindowSize(64<<20)))
	for _, c := range []struct {
		limit int64
		want  Kind
		most  uint64
	}{{0, accepted, 23 << 20}, {int64(len(src)), accepted, 23 << 20}, {int64(len(src)) - 1, MessageTooLarge, 23 << 20}, {1 << 20, MessageTooLarge, 4 << 20}} {
		r := defaultRules()
		r.InflateLimit = c.limit
		var v Validator
		var err error
		n := allocated(func() { _, err = v.Validate(b, &r, testNow) })
		checkAnswer(t, err, c.want)
		if n > c.most {
			t.Errorf("limit %d: %d bytes allocated", c.limit, n)
		}
	}
	whole := zstdStream(data(300_000), zstd.WithWindowSize(64<<20))
	for n := 1; n < len(whole); n += 1 + len(whole)/500 {
		if _, err := Decompress(nil, whole[:n], Zstd, 1<<20); err == nil {
			t.Errorf("first %d bytes of %d decompress", n, len(whole))
		}
	}
	small := zstdStream([]byte("small"), zstd.WithWindowSize(64<<20))
	if n := allocated(func() { Decompress(nil, small, Zstd, 1<<30) }); n > 2<<20 {
		t.Errorf("a small frame with a great window: %d bytes allocated", n)
	}
}

// An honest large record passes without being held.
func TestValidateLargeRecord(t *testing.T) {
	const size = 12 << 20
	for _, c := range codecs[1:] {
		b := bomb(c, size)
		r := defaultRules()
		r.MaxBatchBytes = 0
		var v Validator
		var err error
		n := allocated(func() { _, err = v.Validate(b, &r, testNow) })
		checkAnswer(t, err, accepted)
		if n > 9<<20 {
			t.Errorf("%s: %d bytes allocated", c, n)
		}
		got := 0
		err = b.Records(func(r *Record) error { got = len(r.Value); return nil })
		if err != nil || got != size {
			t.Errorf("%s: Records: %d bytes, %v", c, got, err)
		}
		if err := b.RecordsLimit(size/2, func(*Record) error { return nil }); err != ErrInflate {
			t.Errorf("%s: Records beyond the limit: %v", c, err)
		}
	}
}

// Sizes that are only claimed are not believed.
func TestClaimedSizes(t *testing.T) {
	claimed := rawRecords(rawRecord{keyLen: -1, valueLen: 100 << 20, value: "v", lengthOff: 100<<20 - 1})
	snappyClaim := append(binary.AppendUvarint(nil, 100<<20), 0, 'a')
	zstdClaim := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0x40, 0x06, 0x01, 0, 0} // single segment of 100 MiB, one empty last block
	for name, b := range map[string]Batch{
		"record length":      rawBatch(Gzip, 1, claimed),
		"snappy block":       payloadBatch(Snappy, 1, snappyClaim),
		"zstd content":       payloadBatch(Zstd, 1, zstdClaim),
		"count":              rawBatch(LZ4, 1<<30, rawRecords(plainRecord(0))),
		"count uncompressed": rawBatch(None, 1<<30, rawRecords(plainRecord(0))),
	} {
		r := defaultRules()
		var v Validator
		var err error
		n := allocated(func() {
			_, err = v.Validate(b, &r, testNow)
			if err == nil {
				t.Errorf("%s: accepted", name)
			}
			if err := b.Records(func(*Record) error { return nil }); err == nil {
				t.Errorf("%s: read", name)
			}
		})
		if n > 3<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
}
