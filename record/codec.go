package record

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is a compression codec, by its number in the attributes.
type Codec uint8

const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

func (c Codec) String() string {
	if int(c) < len(codecNames) {
		return codecNames[c]
	}
	return fmt.Sprintf("Codec(%d)", uint8(c))
}

// ParseCodec reads the name String gives; "uncompressed", as compression.type has it, is None too.
func ParseCodec(name string) (Codec, error) {
	if name == "uncompressed" {
		return None, nil
	}
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return None, fmt.Errorf("unknown codec %q: want none, gzip, snappy, lz4 or zstd", name)
}

// Compress appends src, compressed, to dst. level is Kafka's for the codec (gzip 1..9, lz4 1..17, zstd -131072..22); 0, and Kafka's
// own default, is the codec's default; snappy has none. Levels out of range are taken as the nearest one that exists.
func Compress(dst, src []byte, c Codec, level int) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return deflateGzip(dst, src, level)
	case Snappy:
		return deflateSnappy(dst, src), nil
	case LZ4:
		return deflateLZ4(dst, src, level)
	case Zstd:
		return deflateZstd(dst, src, level)
	}
	return dst, errorf(Unknown, "unknown codec %d", uint8(c))
}

// appendWriter collects what an encoder writes.
type appendWriter struct{ b []byte }

func (w *appendWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// encoder is a pooled streaming encoder with the writer it writes to, so that using one allocates nothing.
type encoder[W interface {
	io.WriteCloser
	Reset(io.Writer)
}] struct {
	out appendWriter
	w   W
}

func (e *encoder[W]) run(dst, src []byte) ([]byte, error) {
	e.out.b = dst
	e.w.Reset(&e.out)
	_, err := e.w.Write(src)
	if cerr := e.w.Close(); err == nil {
		err = cerr
	}
	dst, e.out.b = e.out.b, nil
	return dst, err
}

const (
	gzipLevelDefault = 6
	gzipLevelMax     = 9
	lz4LevelDefault  = 9 // the fast mode, as in Kafka, whose other levels search harder
	lz4LevelMax      = 17
	zstdLevelDefault = 3
)

var gzipEncoders [gzipLevelMax + 1]sync.Pool // by level

func deflateGzip(dst, src []byte, level int) ([]byte, error) {
	if level <= 0 {
		level = gzipLevelDefault
	}
	level = min(level, gzipLevelMax)
	e, _ := gzipEncoders[level].Get().(*encoder[*gzip.Writer])
	if e == nil {
		w, err := gzip.NewWriterLevel(nil, level)
		if err != nil {
			return dst, err
		}
		e = &encoder[*gzip.Writer]{w: w}
	}
	defer gzipEncoders[level].Put(e)
	return e.run(dst, src)
}

var lz4Levels = [...]lz4.CompressionLevel{lz4.Fast, lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9}

var lz4Encoders [len(lz4Levels)]sync.Pool // by index into lz4Levels

// lz4LevelIndex maps Kafka's levels: the default is the fast mode, 1..17 the searching ones.
func lz4LevelIndex(level int) int {
	if level <= 0 || level == lz4LevelDefault {
		return 0
	}
	return 1 + (min(level, lz4LevelMax)-1)*(len(lz4Levels)-1)/lz4LevelMax
}

func deflateLZ4(dst, src []byte, level int) ([]byte, error) {
	i := lz4LevelIndex(level)
	e, _ := lz4Encoders[i].Get().(*encoder[*lz4.Writer])
	if e == nil {
		w := lz4.NewWriter(nil)
		// 64 KiB blocks without checksums are what the Java client writes; readers need no more than one block of memory.
		err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.BlockChecksumOption(false),
			lz4.CompressionLevelOption(lz4Levels[i]), lz4.ConcurrencyOption(1))
		if err != nil {
			return dst, err
		}
		e = &encoder[*lz4.Writer]{w: w}
	}
	defer lz4Encoders[i].Put(e)
	return e.run(dst, src)
}

var zstdEncoders [zstd.SpeedBestCompression + 1]struct { // by speed; an encoder is safe for concurrent use and lives for ever
	once sync.Once
	e    *zstd.Encoder
	err  error
}

func deflateZstd(dst, src []byte, level int) ([]byte, error) {
	if level == 0 {
		level = zstdLevelDefault
	}
	speed := zstd.EncoderLevelFromZstd(level)
	slot := &zstdEncoders[speed]
	slot.once.Do(func() {
		slot.e, slot.err = zstd.NewWriter(nil, zstd.WithEncoderLevel(speed), zstd.WithWindowSize(zstdWindowWritten), zstd.WithLowerEncoderMem(true))
	})
	if slot.err != nil {
		return dst, slot.err
	}
	return slot.e.EncodeAll(src, dst), nil
}

// zstdWindowWritten is a window every reader accepts: half of the 8 MiB the format recommends to support.
const zstdWindowWritten = 4 << 20

// The framing of snappy-java: magic, version and the oldest version that can read it, then blocks, each with its length in front.
const xerialMagic = "\x82SNAPPY\x00"

const (
	xerialHeaderSize = len(xerialMagic) + 8
	xerialVersion    = 1
	xerialBlockSize  = 32 << 10
)

func deflateSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	dst = binary.BigEndian.AppendUint32(dst, xerialVersion)
	for len(src) > 0 {
		n := min(len(src), xerialBlockSize)
		dst = appendSnappyBlock(dst, src[:n])
		src = src[n:]
	}
	return dst
}

func appendSnappyBlock(dst, src []byte) []byte {
	head := len(dst)
	need := head + 4 + s2.MaxEncodedLen(len(src))
	if cap(dst) < need {
		grown := make([]byte, head, max(need, 2*cap(dst)))
		copy(grown, dst)
		dst = grown
	}
	block := s2.EncodeSnappy(dst[head+4:need], src)
	binary.BigEndian.PutUint32(dst[head:head+4], uint32(len(block)))
	return dst[:head+4+len(block)]
}
