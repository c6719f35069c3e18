package metadata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Limits of what a decoder believes.
const (
	stringBytesMax = 1 << 20 // any one string
	arrayItemsMax  = 1 << 20 // any one array; each item also needs at least one byte that is there
)

// errNewer marks a record of a type or version this build doesn't know.
var errNewer = errors.New("written by a newer version of leat")

// AppendRecord appends the encoding of r to dst.
func AppendRecord(dst []byte, r Record) []byte {
	dst = binary.AppendUvarint(dst, r.recordType())
	dst = binary.AppendUvarint(dst, 0) // version: every type is at its first
	switch r := r.(type) {
	case NoOp:
	case FeatureLevel:
		dst = appendString(dst, r.Name)
		dst = binary.AppendVarint(dst, int64(r.Level))
	case BrokerRegistration:
		dst = appendRegistration(dst, r)
	case BrokerChange:
		dst = binary.AppendVarint(dst, int64(r.ID))
		dst = binary.AppendVarint(dst, r.Epoch)
		dst = appendBool(dst, r.Fenced)
	case TopicRecord:
		dst = appendString(dst, r.Name)
		dst = append(dst, r.ID[:]...)
		dst = appendBool(dst, r.Internal)
	case PartitionRecord:
		dst = appendPartition(dst, r)
	case PartitionChange:
		dst = appendPartitionChange(dst, r)
	case RemoveTopic:
		dst = append(dst, r.ID[:]...)
	case ConfigRecord:
		dst = append(dst, byte(r.Resource))
		dst = appendString(dst, r.Name)
		dst = appendString(dst, r.Key)
		dst = appendBool(dst, r.Delete)
		dst = appendString(dst, r.Value)
	case ProducerIDs:
		dst = binary.AppendVarint(dst, int64(r.Broker))
		dst = binary.AppendVarint(dst, r.BrokerEpoch)
		dst = binary.AppendVarint(dst, r.Next)
	case snapshotHeader:
		dst = binary.AppendVarint(dst, r.Offset)
		dst = binary.AppendVarint(dst, int64(r.Epoch))
		dst = binary.AppendVarint(dst, r.TimeMs)
	case snapshotTrailer:
		dst = binary.AppendVarint(dst, r.Records)
		dst = binary.BigEndian.AppendUint32(dst, r.CRC)
	default:
		panic(fmt.Sprintf("BUG: no encoding for %T", r))
	}
	return dst
}

func appendRegistration(dst []byte, r BrokerRegistration) []byte {
	dst = binary.AppendVarint(dst, int64(r.ID))
	dst = binary.AppendVarint(dst, r.Epoch)
	dst = append(dst, r.Incarnation[:]...)
	dst = appendString(dst, r.Rack)
	dst = appendBool(dst, r.Fenced)
	dst = binary.AppendUvarint(dst, uint64(len(r.Listeners)))
	for _, l := range r.Listeners {
		dst = appendString(dst, l.Name)
		dst = appendString(dst, l.Host)
		dst = binary.AppendVarint(dst, int64(l.Port))
		dst = appendString(dst, l.Security)
	}
	return dst
}

func appendPartition(dst []byte, r PartitionRecord) []byte {
	dst = append(dst, r.TopicID[:]...)
	dst = binary.AppendVarint(dst, int64(r.Partition))
	dst = appendIDs(dst, r.Replicas)
	dst = appendIDs(dst, r.ISR)
	dst = appendIDs(dst, r.ELR)
	dst = binary.AppendVarint(dst, int64(r.Leader))
	dst = binary.AppendVarint(dst, int64(r.LeaderEpoch))
	return binary.AppendVarint(dst, int64(r.PartitionEpoch))
}

// Bits of PartitionChange: which fields follow.
const (
	hasReplicas = 1 << iota
	hasISR
	hasELR
	hasLeader
	hasAll = 1<<iota - 1
)

// has is the mask of what the change names.
func (r PartitionChange) has() byte {
	var has byte
	if r.Replicas != nil {
		has |= hasReplicas
	}
	if r.ISR != nil {
		has |= hasISR
	}
	if r.ELR != nil {
		has |= hasELR
	}
	if r.Leader != NoChange {
		has |= hasLeader
	}
	return has
}

func appendPartitionChange(dst []byte, r PartitionChange) []byte {
	dst = append(dst, r.TopicID[:]...)
	dst = binary.AppendVarint(dst, int64(r.Partition))
	dst = append(dst, r.has())
	for _, ids := range [...][]int32{r.Replicas, r.ISR, r.ELR} {
		if ids != nil {
			dst = appendIDs(dst, ids)
		}
	}
	if r.Leader != NoChange {
		dst = binary.AppendVarint(dst, int64(r.Leader))
	}
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendIDs(dst []byte, ids []int32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = binary.AppendVarint(dst, int64(id))
	}
	return dst
}

// DecodeRecord reads one record; it keeps nothing of b. Errors: damaged bytes, or (errNewer) a type or version this build
// doesn't know.
func DecodeRecord(b []byte) (Record, error) {
	d := decoder{b: b}
	kind, version := d.uvarint(), d.uvarint()
	if d.err != nil {
		return nil, d.err
	}
	if !knownType(kind) {
		return nil, fmt.Errorf("record type %d: %w", kind, errNewer)
	}
	if version != 0 {
		return nil, fmt.Errorf("record type %d has version %d, known is 0: %w", kind, version, errNewer)
	}
	r := d.record(kind)
	if d.err == nil && len(d.b) > 0 {
		d.err = fmt.Errorf("%d bytes too many", len(d.b))
	}
	if d.err != nil {
		return nil, fmt.Errorf("record type %d: %w", kind, d.err)
	}
	return r, nil
}

func knownType(kind uint64) bool {
	return kind >= typeNoOp && kind <= typeProducerIDs || kind == typeSnapshotHeader || kind == typeSnapshotTrailer
}

// decoder reads fields off b; the first error stays and makes all later reads return zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) record(kind uint64) Record {
	switch kind {
	case typeNoOp:
		return NoOp{}
	case typeFeatureLevel:
		return FeatureLevel{Name: d.string(), Level: d.int16()}
	case typeBrokerRegistration:
		return d.registration()
	case typeBrokerChange:
		return BrokerChange{ID: d.int32(), Epoch: d.varint(), Fenced: d.bool()}
	case typeTopic:
		return TopicRecord{Name: d.string(), ID: d.id(), Internal: d.bool()}
	case typePartition:
		return PartitionRecord{TopicID: d.id(), Partition: d.int32(), Replicas: d.ids(), ISR: d.ids(), ELR: d.ids(),
			Leader: d.int32(), LeaderEpoch: d.int32(), PartitionEpoch: d.int32()}
	case typePartitionChange:
		return d.partitionChange()
	case typeRemoveTopic:
		return RemoveTopic{ID: d.id()}
	case typeConfig:
		return ConfigRecord{Resource: ResourceType(d.byte()), Name: d.string(), Key: d.string(), Delete: d.bool(), Value: d.string()}
	case typeProducerIDs:
		return ProducerIDs{Broker: d.int32(), BrokerEpoch: d.varint(), Next: d.varint()}
	case typeSnapshotHeader:
		return snapshotHeader{Offset: d.varint(), Epoch: d.int32(), TimeMs: d.varint()}
	case typeSnapshotTrailer:
		return snapshotTrailer{Records: d.varint(), CRC: d.uint32()}
	}
	panic(fmt.Sprintf("BUG: known record type %d has no decoder", kind))
}

func (d *decoder) registration() BrokerRegistration {
	r := BrokerRegistration{ID: d.int32(), Epoch: d.varint(), Incarnation: d.id(), Rack: d.string(), Fenced: d.bool()}
	n := d.count()
	for range n {
		if d.err != nil {
			break
		}
		r.Listeners = append(r.Listeners, Endpoint{Name: d.string(), Host: d.string(), Port: d.int32(), Security: d.string()})
	}
	return r
}

func (d *decoder) partitionChange() PartitionChange {
	r := PartitionChange{TopicID: d.id(), Partition: d.int32(), Leader: NoChange}
	has := d.byte()
	if has&^hasAll != 0 {
		d.fail("unknown bits in the mask of a partition change")
	}
	for _, f := range [...]struct {
		bit byte
		ids *[]int32
	}{{hasReplicas, &r.Replicas}, {hasISR, &r.ISR}, {hasELR, &r.ELR}} {
		if has&f.bit == 0 {
			continue
		}
		if *f.ids = d.ids(); *f.ids == nil {
			*f.ids = []int32{} // named and empty is not the same as not named
		}
	}
	if has&hasLeader != 0 {
		if r.Leader = d.int32(); r.Leader < -1 {
			d.fail("a leader below -1")
		}
	}
	return r
}

func (d *decoder) fail(msg string) {
	if d.err == nil {
		d.err = errors.New(msg)
	}
	d.b = nil
}

// take cuts n bytes off.
func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail("ends too early")
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail("bad varint")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail("bad varint")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int32() int32 {
	v := d.varint()
	if v < math.MinInt32 || v > math.MaxInt32 {
		d.fail("number out of range")
		return 0
	}
	return int32(v)
}

func (d *decoder) int16() int16 {
	v := d.varint()
	if v < math.MinInt16 || v > math.MaxInt16 {
		d.fail("number out of range")
		return 0
	}
	return int16(v)
}

func (d *decoder) uint32() uint32 {
	if p := d.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (d *decoder) byte() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.byte()
	if b > 1 {
		d.fail("a boolean that is neither 0 nor 1")
	}
	return b == 1
}

func (d *decoder) id() (id [16]byte) {
	copy(id[:], d.take(16))
	return id
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > stringBytesMax {
		d.fail("string too long")
		return ""
	}
	return string(d.take(int(n)))
}

// count reads the length of an array whose items take at least one byte each.
func (d *decoder) count() int {
	n := d.uvarint()
	if n > arrayItemsMax || n > uint64(len(d.b)) {
		d.fail("array longer than the record")
		return 0
	}
	return int(n)
}

// ids reads an array of broker ids; nil when it is empty.
func (d *decoder) ids() []int32 {
	n := d.count()
	if n == 0 {
		return nil
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = d.int32()
	}
	return ids
}
