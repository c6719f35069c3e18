package record

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/zstd"
)

// zstdWindowStreamed is the greatest window a pooled streaming decoder accepts: what RFC 8878 recommends to support. Its memory
// is allocated from the frame's word alone, so frames that want more are decoded in one piece, into memory
// that is allocated from what their blocks can hold and from the limit.
const zstdWindowStreamed = 8 << 20

// zstdWindowMax is the greatest window Java's decoder accepts.
const zstdWindowMax = 128 << 20

// zstdBlockMax is the most a block of any frame decompresses to.
const zstdBlockMax = 128 << 10

type zstdInflater struct {
	in    bytes.Reader
	z     *zstd.Decoder
	whole *bytes.Reader // the output of a frame with a great window
}

func (d *zstdInflater) open(src []byte, limit int64) error {
	if len(src) == 0 {
		d.whole = bytes.NewReader(nil) // no frame: an empty stream, for Java's reader too
		return nil
	}
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return err
	}
	if h.WindowSize > zstdWindowStreamed || h.SingleSegment && h.FrameContentSize > zstdWindowStreamed {
		return d.openWhole(src, limit)
	}
	if d.z == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindowStreamed), zstd.WithDecoderMaxMemory(zstdWindowStreamed))
		if err != nil {
			return err
		}
		d.z = z
	}
	d.in.Reset(src)
	return d.z.Reset(&d.in)
}

func (d *zstdInflater) openWhole(src []byte, limit int64) error {
	most, err := zstdOutputMax(src)
	if err != nil {
		return err
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdWindowMax), zstd.WithDecoderMaxMemory(uint64(max(limit, zstdWindowMax))), zstd.WithDecodeAllCapLimit(true))
	if err != nil {
		return err
	}
	defer z.Close()
	const slack = zstdBlockMax + 64 // the block that goes beyond the limit must fit, and the decoder likes to copy in words
	out, err := z.DecodeAll(src, make([]byte, 0, min(most, limit)+slack))
	switch {
	case int64(len(out)) > limit:
		return ErrInflate // whatever else happened then
	case err != nil:
		return err
	}
	d.whole = bytes.NewReader(out)
	return nil
}

// zstdOutputMax is the most the frames in src can decompress to, by the headers of their blocks: 3 bytes, little endian, of 1 bit
// "last", 2 bits type and 21 bits size.
func zstdOutputMax(src []byte) (most int64, err error) {
	for len(src) > 0 {
		var h zstd.Header
		if err := h.Decode(src); err != nil {
			return 0, err
		}
		size := h.HeaderSize
		if h.Skippable {
			size += int(h.SkippableSize)
		}
		if size > len(src) {
			return 0, io.ErrUnexpectedEOF
		}
		src = src[size:]
		if !h.Skippable {
			var n int64
			if n, src, err = zstdBlocksMax(src); err != nil {
				return 0, err
			}
			most += n
		}
		if h.HasCheckSum {
			src = src[min(4, len(src)):]
		}
	}
	return most, nil
}

// zstdBlocksMax does so for the blocks of one frame, and returns what follows them.
func zstdBlocksMax(src []byte) (most int64, rest []byte, err error) {
	const blockRaw, blockRLE, blockCompressed = 0, 1, 2
	for last := false; !last; {
		if len(src) < 3 {
			return 0, nil, io.ErrUnexpectedEOF
		}
		header := int(src[0]) | int(src[1])<<8 | int(src[2])<<16
		last = header&1 != 0
		stored, out := header>>3, header>>3
		switch header >> 1 & 3 {
		case blockRaw:
		case blockRLE:
			stored = 1
		case blockCompressed:
			out = zstdBlockMax
		default:
			return 0, nil, zstd.ErrReservedBlockType
		}
		if src = src[3:]; stored > len(src) {
			return 0, nil, io.ErrUnexpectedEOF
		}
		src = src[stored:]
		most += int64(out)
	}
	return most, src, nil
}

func (d *zstdInflater) Read(p []byte) (int, error) {
	if d.whole != nil {
		return d.whole.Read(p)
	}
	return d.z.Read(p)
}

func (d *zstdInflater) release() {
	d.whole = nil
	d.in.Reset(nil)
}
