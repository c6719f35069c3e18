package record

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
)

const (
	// HeaderSize is the number of bytes before the records.
	HeaderSize = 61
	// LogOverhead is the number of bytes that batchLength does not count.
	LogOverhead = 12
	// MaxRecordOverhead is the most a record without headers adds to its key and value.
	MaxRecordOverhead = 21
	// FrameHeaderSize is what FrameSize needs to see: everything up to and including magic.
	FrameHeaderSize = 17

	// Magic is the only format version this package reads and writes.
	Magic = 2

	// NoTimestamp, NoProducerID, NoEpoch and NoSequence stand in the header where there is none.
	NoTimestamp  = -1
	NoProducerID = -1
	NoEpoch      = -1
	NoSequence   = -1
)

// Field offsets, see the package comment.
const (
	offBatchLength     = 8
	offLeaderEpoch     = 12
	offMagic           = 16
	offCRC             = 17
	offAttributes      = 21
	offLastOffsetDelta = 23
	offBaseTimestamp   = 27
	offMaxTimestamp    = 35
	offProducerID      = 43
	offProducerEpoch   = 51
	offBaseSequence    = 53
	offCount           = 57
)

// Attribute bits.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// legacyLengthMin is the smallest batchLength of any format version (a version 0 message): Kafka calls less corrupt before it
// looks at the version.
const legacyLengthMin = 14

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// TimestampType says who gives a record its timestamp.
type TimestampType uint8

const (
	// CreateTime: the producer.
	CreateTime TimestampType = iota
	// LogAppendTime: the broker.
	LogAppendTime
)

func (t TimestampType) String() string {
	if t == LogAppendTime {
		return "LogAppendTime"
	}
	return "CreateTime"
}

// Batch is exactly one batch of format version 2, header and records. Accessors do not check bounds beyond HeaderSize; Frame does.
type Batch []byte

// BaseOffset is the offset of the first record, or of the record that was first before compaction.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b)) }

// BatchLength is the size without its first LogOverhead bytes.
func (b Batch) BatchLength() int32 { return int32(binary.BigEndian.Uint32(b[offBatchLength:])) }

// SizeInBytes is the size of the whole batch by its own account.
func (b Batch) SizeInBytes() int { return int(b.BatchLength()) + LogOverhead }

// PartitionLeaderEpoch is the epoch of the leader that appended the batch.
func (b Batch) PartitionLeaderEpoch() int32 {
	return int32(binary.BigEndian.Uint32(b[offLeaderEpoch:]))
}

// Magic is the format version.
func (b Batch) Magic() int8 { return int8(b[offMagic]) }

// CRC is the stored checksum.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[offCRC:]) }

// Attributes are the raw attribute bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[offAttributes:])) }

// Codec is how the records are compressed; values above Zstd do not exist.
func (b Batch) Codec() Codec { return Codec(b[offAttributes+1] & attrCodec) }

// TimestampType says whether records carry their own timestamp or all have MaxTimestamp.
func (b Batch) TimestampType() TimestampType {
	if b[offAttributes+1]&attrLogAppendTime != 0 {
		return LogAppendTime
	}
	return CreateTime
}

// IsTransactional says whether the records belong to a transaction.
func (b Batch) IsTransactional() bool { return b[offAttributes+1]&attrTransactional != 0 }

// IsControl says whether the records are for the log itself, not for consumers.
func (b Batch) IsControl() bool { return b[offAttributes+1]&attrControl != 0 }

// HasDeleteHorizon says whether BaseTimestamp is the time from which tombstones may go.
func (b Batch) HasDeleteHorizon() bool { return b[offAttributes+1]&attrDeleteHorizon != 0 }

// LastOffsetDelta is LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[offLastOffsetDelta:])) }

// LastOffset is the offset of the last record, or of the record that was last before compaction.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the first offset after the batch.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// BaseTimestamp is what the records' timestamp deltas count from, in ms since the Unix epoch.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[offBaseTimestamp:])) }

// MaxTimestamp is the greatest timestamp of the records, in ms since the Unix epoch.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[offMaxTimestamp:])) }

// ProducerID is the idempotent producer's id or NoProducerID.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[offProducerID:])) }

// ProducerEpoch is the idempotent producer's epoch or NoEpoch.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[offProducerEpoch:])) }

// BaseSequence is the sequence number of the first record or NoSequence.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[offBaseSequence:])) }

// LastSequence is the sequence number of the last record or NoSequence. Sequences continue at 0 after the greatest int32.
func (b Batch) LastSequence() int32 {
	first := b.BaseSequence()
	if first == NoSequence {
		return NoSequence
	}
	return AddSequence(first, b.LastOffsetDelta())
}

// AddSequence is the sequence number n >= 0 records after seq >= 0.
func AddSequence(seq, n int32) int32 {
	if seq > math.MaxInt32-n {
		return n - (math.MaxInt32 - seq) - 1
	}
	return seq + n
}

// Count is the number of records.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[offCount:])) }

// Payload is the records as stored, compressed or not.
func (b Batch) Payload() []byte { return b[HeaderSize:] }

// SetBaseOffset leaves the checksum valid.
func (b Batch) SetBaseOffset(offset int64) { binary.BigEndian.PutUint64(b, uint64(offset)) }

// SetPartitionLeaderEpoch leaves the checksum valid.
func (b Batch) SetPartitionLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[offLeaderEpoch:], uint32(epoch))
}

// SetTimestampType needs UpdateCRC after it.
func (b Batch) SetTimestampType(t TimestampType) {
	b[offAttributes+1] &^= attrLogAppendTime
	if t == LogAppendTime {
		b[offAttributes+1] |= attrLogAppendTime
	}
}

// SetMaxTimestamp needs UpdateCRC after it.
func (b Batch) SetMaxTimestamp(ts int64) { binary.BigEndian.PutUint64(b[offMaxTimestamp:], uint64(ts)) }

// SetProducer sets the producer fields. It needs UpdateCRC after it.
func (b Batch) SetProducer(id int64, epoch int16, baseSequence int32) {
	binary.BigEndian.PutUint64(b[offProducerID:], uint64(id))
	binary.BigEndian.PutUint16(b[offProducerEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(b[offBaseSequence:], uint32(baseSequence))
}

// UpdateCRC stores the checksum of what the batch holds now.
func (b Batch) UpdateCRC() { binary.BigEndian.PutUint32(b[offCRC:], b.ComputeCRC()) }

// ComputeCRC is the checksum of what the batch holds now.
func (b Batch) ComputeCRC() uint32 { return crc32.Checksum(b[offAttributes:], castagnoli) }

// FrameSize is the size of the batch that begins at header, from its first FrameHeaderSize bytes; header may be longer.
//
// Errors: io.EOF for no bytes at all, ErrShort for too few, ErrEnd when all of the first HeaderSize bytes (or as many as there
// are, at least LogOverhead) are zero, *Error when no batch of format version 2 can begin so.
func FrameSize(header []byte) (int, error) {
	if len(header) == 0 {
		return 0, io.EOF
	}
	if len(header) < LogOverhead {
		return 0, ErrShort
	}
	length := int32(binary.BigEndian.Uint32(header[offBatchLength:]))
	if length == 0 && allZero(header[:min(len(header), HeaderSize)]) {
		return 0, ErrEnd
	}
	if length < legacyLengthMin {
		return 0, errorf(CorruptMessage, "batch length %d is less than any batch has", length)
	}
	if len(header) < FrameHeaderSize {
		return 0, ErrShort
	}
	switch magic := int8(header[offMagic]); {
	case magic == 0 || magic == 1:
		return 0, errorf(InvalidRecord, "format version %d is not supported, only version %d is", magic, Magic)
	case magic != Magic:
		return 0, errorf(CorruptMessage, "invalid format version %d", magic)
	case length < HeaderSize-LogOverhead || length > math.MaxInt32-LogOverhead:
		return 0, errorf(CorruptMessage, "batch length %d is out of range", length)
	}
	return int(length) + LogOverhead, nil
}

func allZero(p []byte) bool {
	for _, c := range p {
		if c != 0 {
			return false
		}
	}
	return true
}

// Frame cuts the first batch off buf by its length field. It checks length, format version and completeness, not the checksum.
// The batch and rest alias buf. Errors are those of FrameSize, and ErrShort when the batch goes on beyond buf.
func Frame(buf []byte) (b Batch, rest []byte, err error) {
	size, err := FrameSize(buf)
	if err != nil {
		return nil, buf, err
	}
	if size > len(buf) {
		return nil, buf, ErrShort
	}
	return Batch(buf[:size:size]), buf[size:], nil
}

// Check proves the checksum and that the header agrees with itself: what recovery and readers need of a framed batch. It does not
// walk the records. It accepts what compaction leaves behind: fewer records than offsets, even none.
func (b Batch) Check() error {
	if len(b) < HeaderSize || b.SizeInBytes() != len(b) {
		return errorf(CorruptMessage, "batch of %d bytes does not fit its length field", len(b))
	}
	if b.Magic() != Magic {
		return errorf(CorruptMessage, "invalid format version %d", b.Magic())
	}
	if stored, computed := b.CRC(), b.ComputeCRC(); stored != computed {
		return errorf(CorruptMessage, "checksum is %#08x, stored is %#08x", computed, stored)
	}
	return b.checkHeader()
}

// checkHeader checks what holds for every stored batch, by clients, by us, and after compaction.
func (b Batch) checkHeader() error {
	delta, count := b.LastOffsetDelta(), b.Count()
	switch {
	case b.Codec() > Zstd:
		return errorf(CorruptMessage, "unknown codec %d", b.Codec())
	case delta < 0 || count < 0 || int64(count) > int64(delta)+1:
		return errorf(CorruptMessage, "%d records in %d offsets", count, int64(delta)+1)
	case b.BaseOffset() < 0 || b.BaseOffset() > math.MaxInt64-1-int64(delta):
		return errorf(CorruptMessage, "base offset %d with last offset delta %d is out of range", b.BaseOffset(), delta)
	}
	return nil
}

// Walk visits the batches of buf in order, each framed and checked, with its position. It returns the position of the first byte
// not visited and why: nil at the end of buf, else an error of Frame, Check or visit. Offline tools read log files with it.
func Walk(buf []byte, visit func(pos int, b Batch) error) (int, error) {
	pos := 0
	for {
		b, _, err := Frame(buf[pos:])
		if err == io.EOF {
			return pos, nil
		}
		if err == nil {
			err = b.Check()
		}
		if err == nil {
			err = visit(pos, b)
		}
		if err != nil {
			return pos, err
		}
		pos += len(b)
	}
}
