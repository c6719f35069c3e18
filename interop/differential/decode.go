package differential

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// describeRecords adds one field per batch of fetched bytes, and one for a trailing piece.
func (n *normaliser) describeRecords(path string, b []byte, out *fields) {
	if b == nil {
		out.add(path, "null")
		return
	}
	i := 0
	for ; len(b) >= 61; i++ {
		size := int(binary.BigEndian.Uint32(b[8:])) + 12
		if size < 61 || size > len(b) {
			break
		}
		out.add(fmt.Sprintf("%s.batch%d", path, i), n.describeBatch(b[:size]))
		b = b[size:]
	}
	out.add(path+".batches", fmt.Sprint(i))
	if len(b) > 0 {
		out.add(path+".trailing", fmt.Sprintf("%d bytes", len(b)))
	}
}

// describeBatch prints a batch with run-dependent values normalised. The size of a compressed batch is left out: a
// broker that compresses it again may come to another one.
func (n *normaliser) describeBatch(b []byte) string {
	be := binary.BigEndian
	attrs := be.Uint16(b[21:])
	var s strings.Builder
	fmt.Fprintf(&s, "base=%d epoch=%d magic=%d attrs=%#x lastDelta=%d", int64(be.Uint64(b)), int32(be.Uint32(b[12:])), b[16], attrs, int32(be.Uint32(b[23:])))
	fmt.Fprintf(&s, " baseTs=%s maxTs=%s", n.time(int64(be.Uint64(b[27:]))), n.time(int64(be.Uint64(b[35:]))))
	fmt.Fprintf(&s, " pid=%s/%d seq=%d count=%d", n.producer(int64(be.Uint64(b[43:]))), int16(be.Uint16(b[51:])), int32(be.Uint32(b[53:])), int32(be.Uint32(b[57:])))
	if attrs&7 == 0 {
		fmt.Fprintf(&s, " size=%d", len(b))
	}
	if crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)) != be.Uint32(b[17:]) {
		s.WriteString(" CRC-MISMATCH")
	}
	payload, err := decompress(int(attrs&7), b[61:])
	if err != nil {
		fmt.Fprintf(&s, " [%v]", err)
		return s.String()
	}
	fmt.Fprintf(&s, " records=%s", describePayload(payload))
	return s.String()
}

// describePayload prints at most eight records; the rest only count through the checksum.
func describePayload(p []byte) string {
	var s strings.Builder
	all := p
	for i := 0; len(p) > 0 && i < 8; i++ {
		size, n := binary.Varint(p)
		if n <= 0 || size < 0 || size > int64(len(p)-n) {
			fmt.Fprintf(&s, "(undecodable %x)", p[:min(len(p), 16)])
			return s.String()
		}
		r := p[n : n+int(size)]
		p = p[n+int(size):]
		if len(r) > 48 {
			fmt.Fprintf(&s, "(%x.. %d)", r[:24], len(r))
		} else {
			fmt.Fprintf(&s, "(%q)", r)
		}
	}
	if len(p) > 0 {
		fmt.Fprintf(&s, "..%d bytes %08x", len(all), crc32.ChecksumIEEE(all))
	}
	return s.String()
}

func decompress(codec int, src []byte) ([]byte, error) {
	switch codec {
	case none:
		return src, nil
	case gzipped:
		r, err := gzip.NewReader(bytes.NewReader(src))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case snappied:
		return unxerial(src)
	case lz4d:
		return io.ReadAll(lz4.NewReader(bytes.NewReader(src)))
	case zstded:
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		return d.DecodeAll(src, nil)
	}
	return nil, fmt.Errorf("codec %d", codec)
}

func unxerial(src []byte) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialHeader[:8]) {
		return snappy.Decode(nil, src)
	}
	var out []byte
	for src = src[16:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, errors.New("snappy block length cut short")
		}
		n := binary.BigEndian.Uint32(src)
		if uint64(n) > uint64(len(src)-4) {
			return nil, errors.New("snappy block cut short")
		}
		block, err := snappy.Decode(nil, src[4:4+n])
		if err != nil {
			return nil, err
		}
		out = append(out, block...)
		src = src[4+n:]
	}
	return out, nil
}
