package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/segment"
)

// The log state files of a log directory say in which state logs were when everything below an offset was on stable storage, so that a start has
// nothing to read but what was appended since: no batch below it, no index, no other file of the partition. They are ours, not Kafka's, and derived: a
// file that is missing or damaged is as good as none, and the start reads more.
//
//	.leat-log-state          all logs, written with the checkpoint files
//	.leat-log-state-recent   logs that moved since, written about once a second while there are any
//
// Both are replaced as a whole (vfs.WriteFileAtomic). What they say of a log stays true until it is truncated or deleted; before that, they are written
// without it. Of two statements about one log the one with the higher offset counts.
//
// The format, version 1; integers are varints (unsigned unless marked s), except where a width in bytes is given:
//
//	8  "leatlogs"
//	2  version = 1, big endian
//	4  CRC-32C of the bytes from 14 on, big endian
//	   number of logs
//	   each log: topic length, topic, partition, 16 bytes of topic id, base offset of the segment, bytes of it, next offset, largest timestamp (s), its offset,
//	      number of leader epochs, each: epoch, start offset
//	      number of producers, each: producer id, epoch (s), coordinator epoch (s), last timestamp (s), broker time of the last activity (s),
//	         first offset of the open transaction (s), number of batches, each: last sequence, offset delta, last offset, timestamp (s)
const (
	logStateFileName       = ".leat-log-state"
	logStateRecentFileName = ".leat-log-state-recent"

	logStateMagic      = "leatlogs"
	logStateVersion    = 1
	logStateHeaderSize = 14
)

// mark is the state of a log as of an offset, end.NextOffset. Immutable.
type mark struct {
	topicID   [16]byte
	base      int64 // of the segment that was active
	end       segment.End
	epochs    []epochEntry
	producers []producerEntry
}

func (m *mark) offset() int64 { return m.end.NextOffset }

// writeLogState replaces the file name of a log directory. Durable when it returns nil.
func writeLogState(fsys vfs.FS, dir, name string, marks map[TopicPartition]*mark) error {
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, name), encodeLogState(marks))
}

func encodeLogState(marks map[TopicPartition]*mark) []byte {
	tps := make([]TopicPartition, 0, len(marks))
	for tp := range marks {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, compareTP)
	out := append(make([]byte, 0, 64+128*len(marks)), logStateMagic...)
	out = binary.BigEndian.AppendUint16(out, logStateVersion)
	out = append(out, 0, 0, 0, 0)
	out = binary.AppendUvarint(out, uint64(len(tps)))
	for _, tp := range tps {
		out = binary.AppendUvarint(out, uint64(len(tp.Topic)))
		out = append(out, tp.Topic...)
		out = binary.AppendUvarint(out, uint64(tp.Partition))
		out = marks[tp].append(out)
	}
	binary.BigEndian.PutUint32(out[10:], crc32.Checksum(out[logStateHeaderSize:], castagnoli))
	return out
}

func (m *mark) append(out []byte) []byte {
	out = append(out, m.topicID[:]...)
	for _, v := range []int64{m.base, m.end.Size, m.end.NextOffset} {
		out = binary.AppendUvarint(out, uint64(v))
	}
	out = binary.AppendVarint(out, m.end.MaxTimestamp)
	out = binary.AppendUvarint(out, uint64(m.end.MaxOffset))
	out = binary.AppendUvarint(out, uint64(len(m.epochs)))
	for _, e := range m.epochs {
		out = binary.AppendUvarint(out, uint64(e.Epoch))
		out = binary.AppendUvarint(out, uint64(e.StartOffset))
	}
	out = binary.AppendUvarint(out, uint64(len(m.producers)))
	for i := range m.producers {
		out = m.producers[i].appendState(out)
	}
	return out
}

func (p *producerEntry) appendState(out []byte) []byte {
	out = binary.AppendUvarint(out, uint64(p.id))
	for _, v := range []int64{int64(p.epoch), int64(p.coordinatorEpoch), p.lastTimestampMs, p.activeMs, p.txnFirstOffset} {
		out = binary.AppendVarint(out, v)
	}
	out = binary.AppendUvarint(out, uint64(p.batches))
	for _, b := range p.window[:p.batches] {
		out = binary.AppendUvarint(out, uint64(b.lastSequence))
		out = binary.AppendUvarint(out, uint64(b.offsetDelta))
		out = binary.AppendUvarint(out, uint64(b.lastOffset))
		out = binary.AppendVarint(out, b.timestampMs)
	}
	return out
}

// readLogState reads a file that writeLogState wrote. A missing file has no marks; nonsense is a *CorruptError.
func readLogState(fsys vfs.FS, dir, name string) (map[TopicPartition]*mark, error) {
	path := filepath.Join(dir, name)
	data, err := readSideFile(fsys, path)
	if err != nil || data == nil {
		return nil, err
	}
	marks, err := decodeLogState(data)
	if err != nil {
		return nil, &CorruptError{Path: path, Msg: err.Error()}
	}
	return marks, nil
}

func decodeLogState(data []byte) (map[TopicPartition]*mark, error) {
	if len(data) < logStateHeaderSize || string(data[:len(logStateMagic)]) != logStateMagic {
		return nil, errors.New("it does not begin as a log state file")
	}
	if v := binary.BigEndian.Uint16(data[8:]); v != logStateVersion {
		return nil, fmt.Errorf("version %d is not known", v)
	}
	if stored, computed := binary.BigEndian.Uint32(data[10:]), crc32.Checksum(data[logStateHeaderSize:], castagnoli); stored != computed {
		return nil, fmt.Errorf("checksum is %#08x, stored is %#08x", computed, stored)
	}
	d := stateDecoder{rest: data[logStateHeaderSize:]}
	marks := map[TopicPartition]*mark{}
	for range d.count(1) {
		topic := d.bytes(d.count(1))
		tp := TopicPartition{Topic: string(topic), Partition: int32(d.unsigned(1<<31 - 1))}
		m := d.mark()
		if d.failed {
			break
		}
		marks[tp] = m
	}
	if d.failed || len(d.rest) > 0 {
		return nil, errors.New("an entry is not as its format says")
	}
	return marks, nil
}

// stateDecoder reads fields off rest. After a failure everything is zero.
type stateDecoder struct {
	rest   []byte
	failed bool
}

func (d *stateDecoder) fail() { d.rest, d.failed = nil, true }

// unsigned reads a number of at most most.
func (d *stateDecoder) unsigned(most uint64) int64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 || v > most {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return int64(v)
}

func (d *stateDecoder) offset() int64 { return d.unsigned(1<<63 - 1) }

// signed reads a number in [-1, most].
func (d *stateDecoder) signed(most int64) int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 || v > most || v < -1 {
		d.fail()
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// count reads how many things of at least size bytes follow: no more than there is room for.
func (d *stateDecoder) count(size int) int { return int(d.unsigned(uint64(len(d.rest) / size))) }

func (d *stateDecoder) bytes(n int) []byte {
	if n > len(d.rest) {
		d.fail()
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *stateDecoder) mark() *mark {
	m := &mark{}
	copy(m.topicID[:], d.bytes(len(m.topicID)))
	m.base, m.end.Size, m.end.NextOffset = d.offset(), d.offset(), d.offset()
	m.end.MaxTimestamp, m.end.MaxOffset = d.signed(1<<63-1), d.offset()
	for range d.count(2) {
		e := epochEntry{Epoch: int32(d.unsigned(1<<31 - 1)), StartOffset: d.offset()}
		if n := len(m.epochs); n > 0 && (m.epochs[n-1].Epoch >= e.Epoch || m.epochs[n-1].StartOffset >= e.StartOffset) {
			d.fail()
		}
		m.epochs = append(m.epochs, e)
	}
	for range d.count(7) {
		m.producers = append(m.producers, d.producer())
	}
	if m.end.NextOffset < m.base {
		d.fail()
	}
	return m
}

func (d *stateDecoder) producer() producerEntry {
	p := newProducerEntry(d.offset())
	p.epoch, p.coordinatorEpoch = int16(d.signed(1<<15-1)), int32(d.signed(1<<31-1))
	p.lastTimestampMs, p.activeMs, p.txnFirstOffset = d.signed(1<<63-1), d.signed(1<<63-1), d.signed(1<<63-1)
	n := d.count(4)
	if n > producerWindow {
		d.fail()
		return p
	}
	for range n {
		p.push(batchMeta{
			lastSequence: int32(d.unsigned(1<<31 - 1)), offsetDelta: int32(d.unsigned(1<<31 - 1)), lastOffset: d.offset(), timestampMs: d.signed(1<<63 - 1),
		})
	}
	return p
}

// removeLogState removes a log state file, durably.
func removeLogState(fsys vfs.FS, dir, name string) error {
	err := fsys.Remove(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}
