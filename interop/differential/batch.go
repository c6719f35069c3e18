package differential

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec numbers of batch attributes.
const (
	none = iota
	gzipped
	snappied
	lz4d
	zstded
)

var codecNames = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// rec is one record of a batch under construction.
type rec struct {
	off      *int32 // offset delta; nil: its index
	ts       int64  // timestamp delta
	key, val *string
	headers  [][2]string
	attrs    int8
}

// batch builds record batches, well formed unless told otherwise.
type batch struct {
	baseOffset int64
	epoch      int32
	magic      int8
	attrs      int16
	lastDelta  *int32
	baseTs     int64
	maxTs      *int64 // nil: the largest of the records
	pid        int64
	pepoch     int16
	seq        int32
	count      *int32
	length     *int32
	recs       []rec
	payload    []byte // instead of the records
	badCRC     bool
	tail       []byte // behind the batch, not counted in its length
}

func ptr[T any](v T) *T { return &v }

// kv is a record with key and value.
func kv(k, v string) rec { return rec{key: &k, val: &v} }

// val is a record without a key.
func val(v string) rec { return rec{val: &v} }

// recs makes n keyed records 10 ms apart.
func recs(n int) []rec {
	out := make([]rec, n)
	for i := range out {
		out[i] = kv("k"+string(rune('a'+i%26)), "value-"+string(rune('a'+i%26)))
		out[i].ts = int64(i) * 10
	}
	return out
}

func newBatch(r ...rec) *batch {
	return &batch{epoch: -1, magic: 2, baseTs: baseTime, pid: -1, pepoch: -1, seq: -1, recs: r}
}

func (b *batch) codec(c int16) *batch { b.attrs = b.attrs&^7 | c; return b }
func (b *batch) producer(id int64, epoch int16, seq int32) *batch {
	b.pid, b.pepoch, b.seq = id, epoch, seq
	return b
}
func (b *batch) with(f func(*batch)) *batch { f(b); return b }

// bytes encodes the batch.
func (b *batch) bytes() []byte {
	payload := b.payload
	if payload == nil {
		payload = compress(int(b.attrs&7), encodeRecords(b.recs))
	}
	maxTs := b.baseTs
	for _, r := range b.recs {
		maxTs = max(maxTs, b.baseTs+r.ts)
	}
	or := func(p *int32, v int) uint32 {
		if p != nil {
			return uint32(*p)
		}
		return uint32(v)
	}
	if b.maxTs != nil {
		maxTs = *b.maxTs
	}
	be := binary.BigEndian
	body := be.AppendUint16(nil, uint16(b.attrs))
	body = be.AppendUint32(body, or(b.lastDelta, len(b.recs)-1))
	body = be.AppendUint64(body, uint64(b.baseTs))
	body = be.AppendUint64(body, uint64(maxTs))
	body = be.AppendUint64(body, uint64(b.pid))
	body = be.AppendUint16(body, uint16(b.pepoch))
	body = be.AppendUint32(body, uint32(b.seq))
	body = be.AppendUint32(body, or(b.count, len(b.recs)))
	body = append(body, payload...)
	crc := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli))
	if b.badCRC {
		crc ^= 1
	}
	out := be.AppendUint64(nil, uint64(b.baseOffset))
	out = be.AppendUint32(out, or(b.length, len(body)+9))
	out = be.AppendUint32(out, uint32(b.epoch))
	out = append(out, byte(b.magic))
	out = be.AppendUint32(out, crc)
	out = append(out, body...)
	return append(out, b.tail...)
}

func encodeRecords(rs []rec) []byte {
	var out []byte
	for i, r := range rs {
		off := int32(i)
		if r.off != nil {
			off = *r.off
		}
		body := []byte{byte(r.attrs)}
		body = binary.AppendVarint(body, r.ts)
		body = binary.AppendVarint(body, int64(off))
		body = appendNullable(body, r.key)
		body = appendNullable(body, r.val)
		body = binary.AppendVarint(body, int64(len(r.headers)))
		for _, h := range r.headers {
			body = appendNullable(body, &h[0])
			body = appendNullable(body, &h[1])
		}
		out = binary.AppendVarint(out, int64(len(body)))
		out = append(out, body...)
	}
	return out
}

func appendNullable(dst []byte, s *string) []byte {
	if s == nil {
		return binary.AppendVarint(dst, -1)
	}
	dst = binary.AppendVarint(dst, int64(len(*s)))
	return append(dst, *s...)
}

var xerialHeader = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

// compress encodes src as Kafka's clients do: snappy in one xerial block, lz4 as a frame.
func compress(codec int, src []byte) []byte {
	var b bytes.Buffer
	switch codec {
	case gzipped:
		w := gzip.NewWriter(&b)
		w.Write(src)
		w.Close()
	case snappied:
		block := snappy.Encode(nil, src)
		b.Write(xerialHeader)
		binary.Write(&b, binary.BigEndian, uint32(len(block)))
		b.Write(block)
	case lz4d:
		w := lz4.NewWriter(&b)
		w.Write(src)
		w.Close()
	case zstded:
		w, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		return w.EncodeAll(src, nil)
	default:
		return src
	}
	return b.Bytes()
}
