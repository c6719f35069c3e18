package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/leatmq/leat/internal/vfs"
)

// A producer snapshot, file %020d.snapshot, is the producer table as of the offset in its name (exclusive). Kafka's format, version 1, big endian:
//
//	0   2  version = 1
//	2   4  CRC-32C of the bytes from 6 on
//	6   4  number of entries
//	10     entries, 46 bytes each:
//	         0   8  producer id
//	         8   2  producer epoch
//	         10  4  last sequence, -1 without a batch of that epoch
//	         14  8  last offset, -1 without
//	         22  4  last offset - base offset of that batch
//	         26  8  timestamp
//	         34  4  coordinator epoch, -1 without a marker
//	         38  8  first offset of the open transaction, -1 without
//
// It is a derived file: a broken one is passed over in favour of an older one, with more of the log to read.
const (
	snapshotVersion     = 1
	snapshotHeaderSize  = 10
	snapshotCRCFrom     = 6
	snapshotEntrySize   = 46
	snapshotEntriesMax  = (sideFileBytesMax - snapshotHeaderSize) / snapshotEntrySize
	snapshotNoTimestamp = -1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// snapshotEntry is one producer in a snapshot.
type snapshotEntry struct {
	producerID       int64
	epoch            int16
	lastSequence     int32
	lastOffset       int64
	offsetDelta      int32
	timestampMs      int64
	coordinatorEpoch int32
	txnFirstOffset   int64
}

// encodeSnapshot returns the bytes of a snapshot file.
func encodeSnapshot(entries []snapshotEntry) []byte {
	out := make([]byte, snapshotHeaderSize, snapshotHeaderSize+len(entries)*snapshotEntrySize)
	binary.BigEndian.PutUint16(out, snapshotVersion)
	binary.BigEndian.PutUint32(out[snapshotCRCFrom:], uint32(len(entries)))
	for i := range entries {
		out = entries[i].append(out)
	}
	binary.BigEndian.PutUint32(out[2:], crc32.Checksum(out[snapshotCRCFrom:], castagnoli))
	return out
}

func (e *snapshotEntry) append(out []byte) []byte {
	out = binary.BigEndian.AppendUint64(out, uint64(e.producerID))
	out = binary.BigEndian.AppendUint16(out, uint16(e.epoch))
	out = binary.BigEndian.AppendUint32(out, uint32(e.lastSequence))
	out = binary.BigEndian.AppendUint64(out, uint64(e.lastOffset))
	out = binary.BigEndian.AppendUint32(out, uint32(e.offsetDelta))
	out = binary.BigEndian.AppendUint64(out, uint64(e.timestampMs))
	out = binary.BigEndian.AppendUint32(out, uint32(e.coordinatorEpoch))
	return binary.BigEndian.AppendUint64(out, uint64(e.txnFirstOffset))
}

// decodeSnapshot reads the bytes of a snapshot file. An error says what is wrong with them.
func decodeSnapshot(data []byte) ([]snapshotEntry, error) {
	if len(data) < snapshotHeaderSize {
		return nil, fmt.Errorf("%d bytes are no snapshot", len(data))
	}
	if v := binary.BigEndian.Uint16(data); v != snapshotVersion {
		return nil, fmt.Errorf("version %d is not known", v)
	}
	count := binary.BigEndian.Uint32(data[snapshotCRCFrom:])
	if count > snapshotEntriesMax || len(data) != snapshotHeaderSize+int(count)*snapshotEntrySize {
		return nil, fmt.Errorf("%d bytes cannot hold %d producers", len(data), count)
	}
	if stored, computed := binary.BigEndian.Uint32(data[2:]), crc32.Checksum(data[snapshotCRCFrom:], castagnoli); stored != computed {
		return nil, fmt.Errorf("checksum is %#08x, stored is %#08x", computed, stored)
	}
	return decodeSnapshotEntries(data[snapshotHeaderSize:], int(count))
}

func decodeSnapshotEntries(data []byte, count int) ([]snapshotEntry, error) {
	entries := make([]snapshotEntry, count)
	seen := make(map[int64]struct{}, count)
	for i := range entries {
		e := &entries[i]
		e.decode(data[i*snapshotEntrySize:])
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("producer %d: %w", e.producerID, err)
		}
		if _, twice := seen[e.producerID]; twice {
			return nil, fmt.Errorf("producer %d is listed twice", e.producerID)
		}
		seen[e.producerID] = struct{}{}
	}
	return entries, nil
}

func (e *snapshotEntry) decode(p []byte) {
	e.producerID = int64(binary.BigEndian.Uint64(p))
	e.epoch = int16(binary.BigEndian.Uint16(p[8:]))
	e.lastSequence = int32(binary.BigEndian.Uint32(p[10:]))
	e.lastOffset = int64(binary.BigEndian.Uint64(p[14:]))
	e.offsetDelta = int32(binary.BigEndian.Uint32(p[22:]))
	e.timestampMs = int64(binary.BigEndian.Uint64(p[26:]))
	e.coordinatorEpoch = int32(binary.BigEndian.Uint32(p[34:]))
	e.txnFirstOffset = int64(binary.BigEndian.Uint64(p[38:]))
}

// check refuses what no writer makes, although the checksum is right.
func (e *snapshotEntry) check() error {
	switch {
	case e.producerID < 0:
		return errors.New("negative producer id")
	case e.lastSequence < noSequence || e.lastOffset < noOffset || e.txnFirstOffset < noOffset:
		return errors.New("negative sequence or offset")
	case e.offsetDelta < 0 || e.lastOffset != noOffset && int64(e.offsetDelta) > e.lastOffset:
		return errors.New("the last batch begins at a negative offset")
	case e.timestampMs < snapshotNoTimestamp:
		return errors.New("negative timestamp")
	}
	return nil
}

// reach returns the largest offset the entry speaks of.
func (e *snapshotEntry) reach() int64 { return max(e.lastOffset, e.txnFirstOffset) }

// writeSnapshot writes the snapshot at offset. It is durable when it returns nil.
func writeSnapshot(fsys vfs.FS, dir string, offset int64, entries []snapshotEntry) error {
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, snapshotFileName(offset)), encodeSnapshot(entries))
}

func readSnapshot(fsys vfs.FS, dir string, offset int64) ([]snapshotEntry, error) {
	path := filepath.Join(dir, snapshotFileName(offset))
	data, err := vfs.ReadFile(fsys, path, sideFileBytesMax)
	if err != nil {
		return nil, err
	}
	entries, err := decodeSnapshot(data)
	if err != nil {
		return nil, &CorruptError{Path: path, Msg: err.Error()}
	}
	for i := range entries {
		if entries[i].reach() >= offset {
			return nil, &CorruptError{Path: path, Msg: fmt.Sprintf("producer %d has offset %d, which is beyond the snapshot", entries[i].producerID, entries[i].reach())}
		}
	}
	return entries, nil
}

// listSnapshots returns the offsets of the snapshots in dir, oldest first.
func listSnapshots(fsys vfs.FS, dir string) ([]int64, error) {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var offsets []int64
	for _, e := range list {
		if offset, ok := parseBaseOffset(e.Name, snapshotSuffix); ok && !e.IsDir {
			offsets = append(offsets, offset)
		}
	}
	return offsets, nil
}

// removeSnapshotsAbove removes the snapshots with a larger offset, durably: after a truncation they speak of batches that are gone, and their
// offsets will be used again. What an interrupted writeSnapshot left goes, too.
func removeSnapshotsAbove(fsys vfs.FS, dir string, offset int64) error {
	removed, err := removeSnapshots(fsys, dir, func(name string) bool {
		o, ok := parseBaseOffset(name, snapshotSuffix)
		_, isTemp := parseBaseOffset(name, snapshotSuffix+vfs.TempSuffix)
		return ok && o > offset || isTemp
	})
	if err != nil || removed == 0 {
		return err
	}
	return fsys.SyncDir(dir)
}

// removeSnapshotsBelow removes the snapshots with a smaller offset. Not durably: should they come back, nobody uses them.
func removeSnapshotsBelow(fsys vfs.FS, dir string, offset int64) error {
	_, err := removeSnapshots(fsys, dir, func(name string) bool {
		o, ok := parseBaseOffset(name, snapshotSuffix)
		return ok && o < offset
	})
	return err
}

func removeSnapshots(fsys vfs.FS, dir string, gone func(name string) bool) (removed int, err error) {
	list, err := fsys.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range list {
		if e.IsDir || !gone(e.Name) {
			continue
		}
		if err := fsys.Remove(filepath.Join(dir, e.Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed++
	}
	return removed, nil
}
