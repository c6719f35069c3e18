package record

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// Header is a record header to write. A nil Value is null.
type Header struct {
	Key   string
	Value []byte
}

// Options are the header fields of the batches a Builder makes. The zero value makes a plain uncompressed batch.
type Options struct {
	Codec                Codec
	Level                int // Kafka's level of the codec; 0: its default
	TimestampType        TimestampType
	BaseOffset           int64
	PartitionLeaderEpoch int32
	BaseTimestamp        int64 // ms; 0: the first record's timestamp
	Idempotent           bool  // write the next three; without it they are -1
	ProducerID           int64
	Epoch                int16
	BaseSequence         int32
	Transactional        bool
	Control              bool
}

// check refuses producer fields that would silently not be written.
func (o *Options) check() {
	if !o.Idempotent && (o.ProducerID > 0 || o.Epoch > 0 || o.BaseSequence > 0) {
		panic("BUG: record.Options has producer fields without Idempotent")
	}
	if o.Codec > Zstd {
		panic("BUG: record.Options has an unknown codec")
	}
}

func (o *Options) attributes() (a int16) {
	a = int16(o.Codec)
	if o.TimestampType == LogAppendTime {
		a |= attrLogAppendTime
	}
	if o.Transactional {
		a |= attrTransactional
	}
	if o.Control {
		a |= attrControl
	}
	return a
}

// Builder makes batches: Append records, then Build, or Seal where the batch may take the place of the records. It keeps its buffer over Reset and is not safe for
// concurrent use.
type Builder struct {
	o         Options
	buf       []byte // place for the header, then the records, uncompressed
	count     int32
	lastDelta int32
	baseTs    int64
	maxTs     int64

	sum    uint32 // CRC-32C of the records in buf before summed
	summed int
}

// sumChunk is how many bytes are summed at once: they are still in the processor's nearest cache.
const sumChunk = 8 << 10

// NewBuilder returns an empty builder.
func NewBuilder(o Options) *Builder {
	w := &Builder{}
	w.Reset(o)
	return w
}

// Reset forgets the records and takes new options.
func (w *Builder) Reset(o Options) {
	o.check()
	*w = Builder{o: o, buf: w.buf[:0], lastDelta: -1, baseTs: o.BaseTimestamp, maxTs: NoTimestamp}
	if cap(w.buf) >= HeaderSize {
		w.buf = w.buf[:HeaderSize]
	} else {
		w.buf = make([]byte, HeaderSize)
	}
	w.summed = HeaderSize
}

// ResetIn is Reset with another buffer, whose content is lost.
func (w *Builder) ResetIn(buf []byte, o Options) {
	w.buf = buf
	w.Reset(o)
}

// SetBuffer moves the records into another buffer, which must have room for them, and returns the old one. A nil buffer takes it away: ResetIn comes next. Append makes a larger
// one only where Room is too small.
func (w *Builder) SetBuffer(buf []byte) (old []byte) {
	old = w.buf
	if w.buf = buf; buf != nil {
		if cap(buf) < len(old) || cap(buf) < HeaderSize {
			panic("BUG: record.Builder: the buffer is too small")
		}
		w.buf = append(buf[:0], old...)
	}
	return old
}

// Room is how many bytes of records the buffer has place for.
func (w *Builder) Room() int { return cap(w.buf) - len(w.buf) }

// SetProducer sets the producer fields of the options, which may be known late.
func (w *Builder) SetProducer(id int64, epoch int16, baseSequence int32) {
	w.o.Idempotent, w.o.ProducerID, w.o.Epoch, w.o.BaseSequence = true, id, epoch, baseSequence
}

// Append adds a record at the next offset. ts is in ms since the Unix epoch; a nil key or value is null.
func (w *Builder) Append(ts int64, key, value []byte, headers []Header) {
	w.note(ts, w.lastDelta+1)
	w.buf = appendRecord(w.buf, ts-w.baseTs, w.lastDelta, key, value, headers)
	if len(w.buf)-w.summed >= sumChunk && w.o.Codec == None {
		w.sumRecords()
	}
}

// AppendView adds a copy of r, a record of another batch, with timestamp ts at the given offset delta, which must be greater than
// the last one; offsets may be left out. Attributes and headers are kept.
func (w *Builder) AppendView(ts int64, offsetDelta int32, r *Record) {
	if offsetDelta <= w.lastDelta {
		panic("BUG: record.Builder: offsets must grow")
	}
	w.note(ts, offsetDelta)
	w.buf = appendView(w.buf, ts-w.baseTs, offsetDelta, r)
}

func (w *Builder) note(ts int64, offsetDelta int32) {
	if w.count == 0 && w.o.BaseTimestamp == 0 {
		w.baseTs = ts
	}
	if w.count == math.MaxInt32 || offsetDelta < 0 {
		panic("BUG: record.Builder: too many records")
	}
	w.count++
	w.lastDelta = offsetDelta
	w.maxTs = max(w.maxTs, ts)
}

// Count is the number of records so far.
func (w *Builder) Count() int32 { return w.count }

// Size is the batch's size so far, before compression.
func (w *Builder) Size() int { return len(w.buf) }

// RecordSize is how many bytes Append would add at offset delta and timestamp delta.
func RecordSize(offsetDelta int32, timestampDelta int64, key, value []byte, headers []Header) int {
	body := bodySize(offsetDelta, timestampDelta, key, value, headers)
	return varintSize(int64(body)) + body
}

// Build appends the batch to dst. The builder keeps its records until Reset. A batch needs at least one record.
func (w *Builder) Build(dst []byte) []byte {
	if w.count == 0 {
		panic("BUG: record.Builder: no records")
	}
	head := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	dst = w.compress(dst)
	if len(dst)-head-LogOverhead > math.MaxInt32-LogOverhead {
		panic("BUG: record.Builder: batch larger than 2 GiB")
	}
	w.writeHeader(Batch(dst[head:]))
	return dst
}

func (w *Builder) compress(dst []byte) []byte {
	dst, err := Compress(dst, w.buf[HeaderSize:], w.o.Codec, w.o.Level)
	if err != nil {
		panic("BUG: record.Builder: compression into memory failed: " + err.Error())
	}
	return dst
}

// Seal makes the batch in place of the records, where it is valid until Reset or SetBuffer; nothing can be appended any more. Records that compression does not make
// smaller stay as they are. scratch is memory to compress in; it is returned, grown or not.
func (w *Builder) Seal(scratch []byte) (Batch, []byte) {
	if w.count == 0 {
		panic("BUG: record.Builder: no records")
	}
	if w.o.Codec == None {
		w.sumRecords()
		w.fillHeader(Batch(w.buf))
		head := crc32.Checksum(w.buf[offAttributes:HeaderSize], castagnoli)
		binary.BigEndian.PutUint32(w.buf[offCRC:], combineCRC(head, w.sum, len(w.buf)-HeaderSize))
		return Batch(w.buf), scratch
	}
	if scratch = w.compress(scratch[:0]); len(scratch) < len(w.buf)-HeaderSize {
		w.buf = append(w.buf[:HeaderSize], scratch...)
	} else {
		w.o.Codec = None
	}
	w.writeHeader(Batch(w.buf))
	return Batch(w.buf), scratch
}

// Bytes is the batch in a buffer of its own.
func (w *Builder) Bytes() []byte { return w.Build(nil) }

// sumRecords sums the records that are not summed yet.
func (w *Builder) sumRecords() {
	w.sum = crc32.Update(w.sum, castagnoli, w.buf[w.summed:])
	w.summed = len(w.buf)
}

func (w *Builder) writeHeader(b Batch) {
	w.fillHeader(b)
	b.UpdateCRC()
}

// fillHeader writes the header but for the checksum.
func (w *Builder) fillHeader(b Batch) {
	pid, epoch, seq := int64(NoProducerID), int16(NoEpoch), int32(NoSequence)
	if w.o.Idempotent {
		pid, epoch, seq = w.o.ProducerID, w.o.Epoch, w.o.BaseSequence
	}
	be := binary.BigEndian
	b.SetBaseOffset(w.o.BaseOffset)
	be.PutUint32(b[offBatchLength:], uint32(len(b)-LogOverhead))
	b.SetPartitionLeaderEpoch(w.o.PartitionLeaderEpoch)
	b[offMagic] = Magic
	be.PutUint16(b[offAttributes:], uint16(w.o.attributes()))
	be.PutUint32(b[offLastOffsetDelta:], uint32(w.lastDelta))
	be.PutUint64(b[offBaseTimestamp:], uint64(w.baseTs))
	b.SetMaxTimestamp(w.maxTs)
	be.PutUint64(b[offProducerID:], uint64(pid))
	be.PutUint16(b[offProducerEpoch:], uint16(epoch))
	be.PutUint32(b[offBaseSequence:], uint32(seq))
	be.PutUint32(b[offCount:], uint32(w.count))
}

func appendRecord(dst []byte, tsDelta int64, offsetDelta int32, key, value []byte, headers []Header) []byte {
	dst = appendVarint(dst, int32(bodySize(offsetDelta, tsDelta, key, value, headers)))
	dst = append(dst, 0) // attributes: none are defined
	dst = appendVarint64(dst, tsDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = appendBytes(dst, key)
	dst = appendBytes(dst, value)
	dst = appendVarint(dst, int32(len(headers)))
	for i := range headers {
		dst = appendVarint(dst, int32(len(headers[i].Key)))
		dst = append(dst, headers[i].Key...)
		dst = appendBytes(dst, headers[i].Value)
	}
	return dst
}

func appendBytes(dst, p []byte) []byte {
	if p == nil {
		return appendVarint(dst, -1)
	}
	dst = appendVarint(dst, int32(len(p)))
	return append(dst, p...)
}

func bodySize(offsetDelta int32, tsDelta int64, key, value []byte, headers []Header) int {
	n := 1 + varintSize(tsDelta) + varintSize(int64(offsetDelta)) + bytesSize(key) + bytesSize(value) + varintSize(int64(len(headers)))
	for i := range headers {
		n += varintSize(int64(len(headers[i].Key))) + len(headers[i].Key) + bytesSize(headers[i].Value)
	}
	return n
}

func bytesSize(p []byte) int {
	if p == nil {
		return 1
	}
	return varintSize(int64(len(p))) + len(p)
}

// appendView writes r anew with other deltas.
func appendView(dst []byte, tsDelta int64, offsetDelta int32, r *Record) []byte {
	body := 1 + varintSize(tsDelta) + varintSize(int64(offsetDelta)) + bytesSize(r.Key) + bytesSize(r.Value) +
		varintSize(int64(r.HeaderCount)) + len(r.headers)
	dst = appendVarint(dst, int32(body))
	dst = append(dst, byte(r.Attributes))
	dst = appendVarint64(dst, tsDelta)
	dst = appendVarint(dst, offsetDelta)
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	dst = appendVarint(dst, r.HeaderCount)
	return append(dst, r.headers...)
}
