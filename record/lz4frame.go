package record

import (
	"encoding/binary"
	"errors"
	"io"
)

// The LZ4 frame format: magic, FLG, BD, [content size 8], [dictionary id 4], header checksum; blocks, each a 4-byte little endian
// size (top bit: stored as is) with its data and [checksum 4]; a size of 0; [content checksum 4].
const (
	lz4Magic       = 0x184D2204
	lz4HeaderSize  = 7 // without optional fields
	lz4Stored      = 1 << 31
	lz4Independent = 1 << 5 // FLG bits
	lz4BlockSum    = 1 << 4
	lz4ContentSize = 1 << 3
	lz4ContentSum  = 1 << 2
	lz4Dictionary  = 1 << 0
)

var (
	errLZ4Frame   = errors.New("not an LZ4 frame")
	errLZ4Surplus = errors.New("bytes follow the LZ4 frame")
)

// lz4FrameSize is the size of the frame src begins with. It exists because readers differ in what they make of bytes behind the
// first frame: Java's ignores them, ours would read them as another frame, librdkafka refuses them.
func lz4FrameSize(src []byte) (int, error) {
	if len(src) < lz4HeaderSize {
		return 0, io.ErrUnexpectedEOF
	}
	if binary.LittleEndian.Uint32(src) != lz4Magic {
		return 0, errLZ4Frame
	}
	flags := src[4]
	i := lz4HeaderSize
	if flags&lz4ContentSize != 0 {
		i += 8
	}
	if flags&lz4Dictionary != 0 {
		i += 4
	}
	blockTail := 0
	if flags&lz4BlockSum != 0 {
		blockTail = 4
	}
	for {
		if len(src)-i < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		size := int64(binary.LittleEndian.Uint32(src[i:]) &^ lz4Stored)
		end := binary.LittleEndian.Uint32(src[i:]) == 0
		i += 4
		if end {
			break
		}
		if size += int64(blockTail); size > int64(len(src)-i) {
			return 0, io.ErrUnexpectedEOF
		}
		i += int(size)
	}
	if flags&lz4ContentSum != 0 {
		i += 4
	}
	if i > len(src) {
		return 0, io.ErrUnexpectedEOF
	}
	return i, nil
}

// lz4BlocksLinked says whether the frame's blocks refer to each other, which Kafka's Java reader cannot decode.
func lz4BlocksLinked(src []byte) bool { return len(src) > 4 && src[4]&lz4Independent == 0 }
