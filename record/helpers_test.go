package record

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Batches that no builder would make.

// rawRecord is a record's fields as they shall stand in the bytes, right or wrong.
type rawRecord struct {
	attributes     byte
	tsDelta, delta int64
	keyLen         int64
	key            string
	valueLen       int64
	value          string
	headerCount    int64
	headers        string
	lengthOff      int64  // added to the right length
	length         []byte // instead of the right length
}

// plainRecord has one-byte key and value.
func plainRecord(delta int64) rawRecord {
	return rawRecord{delta: delta, keyLen: 1, key: "k", valueLen: 1, value: "v"}
}

func (r rawRecord) append(dst []byte) []byte {
	body := []byte{r.attributes}
	body = appendVarint64(body, r.tsDelta)
	body = appendVarint64(body, r.delta)
	body = append(appendVarint64(body, r.keyLen), r.key...)
	body = append(appendVarint64(body, r.valueLen), r.value...)
	body = append(appendVarint64(body, r.headerCount), r.headers...)
	if r.length != nil {
		dst = append(dst, r.length...)
	} else {
		dst = appendVarint64(dst, int64(len(body))+r.lengthOff)
	}
	return append(dst, body...)
}

func rawRecords(rs ...rawRecord) (p []byte) {
	for _, r := range rs {
		p = r.append(p)
	}
	return p
}

const testNow = 1_700_000_000_000

// change alters a batch before its checksum is made.
type change func(Batch)

func set(at, size int, v int64) change {
	return func(b Batch) {
		var p [8]byte
		binary.BigEndian.PutUint64(p[:], uint64(v))
		copy(b[at:], p[8-size:])
	}
}

func attributes(v int64) change      { return set(offAttributes, 2, v) }
func lastOffsetDelta(v int64) change { return set(offLastOffsetDelta, 4, v) }
func baseTimestamp(v int64) change   { return set(offBaseTimestamp, 8, v) }
func maxTimestamp(v int64) change    { return set(offMaxTimestamp, 8, v) }
func recordCount(v int64) change     { return set(offCount, 4, v) }
func producer(id, epoch, seq int64) change {
	return func(b Batch) {
		set(offProducerID, 8, id)(b)
		set(offProducerEpoch, 2, epoch)(b)
		set(offBaseSequence, 4, seq)(b)
	}
}

// payloadBatch has exactly these bytes for records.
func payloadBatch(c Codec, count int, payload []byte, changes ...change) Batch {
	b := make(Batch, HeaderSize, HeaderSize+len(payload))
	b = append(b, payload...)
	b[offMagic] = Magic
	set(offBatchLength, 4, int64(len(b)-LogOverhead))(b)
	for _, ch := range append([]change{
		attributes(int64(c)), lastOffsetDelta(int64(count - 1)), baseTimestamp(testNow), maxTimestamp(testNow), producer(-1, -1, -1), recordCount(int64(count)),
	}, changes...) {
		ch(b)
	}
	b.UpdateCRC()
	return b
}

// rawBatch compresses the records given.
func rawBatch(c Codec, count int, records []byte, changes ...change) Batch {
	p, err := Compress(nil, records, c, 0)
	if err != nil {
		panic(err)
	}
	return payloadBatch(c, count, p, changes...)
}

func badCRC(b []byte) []byte {
	b = slices.Clone(b)
	b[offCRC+3]++
	return b
}

func join(p ...[]byte) []byte { return slices.Concat(p...) }

func patched(b []byte, at int, p ...byte) []byte {
	b = slices.Clone(b)
	copy(b[at:], p)
	return b
}

func defaultRules() Rules {
	return Rules{MaxBatchBytes: 1 << 20, BeforeMaxMs: 1<<63 - 1, AfterMaxMs: 3_600_000, CodecIsProducer: true}
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }
