package index

import (
	"encoding/binary"
	"math"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
)

// Offset is an offset index: from an offset to where in the data file to start looking for it.
type Offset struct {
	table
	last OffsetEntry // writer: the last entry, when there is one
}

// CreateOffset makes an empty index file name for a segment with base offset base, replacing what is there.
func CreateOffset(fsys vfs.FS, name string, base int64, maxBytes int) (*Offset, error) {
	x := &Offset{}
	x.init(&offsetColumns, name, base, maxBytes)
	if err := x.create(fsys); err != nil {
		return nil, err
	}
	return x, nil
}

// OpenOffset opens the index for writing and keeps its longest valid prefix; damaged tells that bytes behind it were not zero. A missing
// file is an error that is fs.ErrNotExist.
func OpenOffset(fsys vfs.FS, name string, base int64, maxBytes int) (x *Offset, damaged bool, err error) {
	x = &Offset{}
	x.init(&offsetColumns, name, base, maxBytes)
	if damaged, err = x.open(fsys); err == nil {
		err = x.loadLast()
	}
	if err != nil {
		return nil, damaged, err
	}
	return x, damaged, nil
}

// OpenSealedOffset opens the index of a sealed segment for reading. A file with anything but valid entries is a *CorruptError.
func OpenSealedOffset(fsys vfs.FS, name string, base int64) (*Offset, error) {
	x := &Offset{}
	x.cols, x.name, x.base = &offsetColumns, name, base
	err := x.openSealed(fsys)
	if err == nil {
		err = x.loadLast()
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

func (x *Offset) loadLast() error {
	n := x.Entries()
	if n == 0 {
		return nil
	}
	last, err := x.Entry(n - 1)
	x.last = last
	return err
}

// Append adds the entry (offset, pos), both larger than those of the last one. ErrFull when there is no room.
func (x *Offset) Append(offset int64, pos int32) error {
	if x.Full() {
		return ErrFull
	}
	rel := relative(offset, x.base)
	if x.Entries() > 0 && (offset <= x.last.Offset || pos <= x.last.Position) || rel == 0 && pos == 0 {
		invariant.Must(false, "index %s: entry (%d, %d) does not follow (%d, %d)", x.name, offset, pos, x.last.Offset, x.last.Position)
	}
	var entry [OffsetEntrySize]byte
	putOffsetEntry(entry[:], rel, pos)
	if err := x.append(entry[:]); err != nil {
		return err
	}
	x.last = OffsetEntry{Offset: offset, Position: pos}
	return nil
}

func putOffsetEntry(b []byte, rel, pos int32) {
	binary.BigEndian.PutUint32(b, uint32(rel))
	binary.BigEndian.PutUint32(b[4:], uint32(pos))
}

func (x *Offset) decode(entry []byte) OffsetEntry {
	return OffsetEntry{Offset: x.base + int64(offsetRel(entry)), Position: position(entry)}
}

// Lookup returns the greatest entry with an offset <= target. found is false when there is none: the search starts at (base, 0).
func (x *Offset) Lookup(target int64) (e OffsetEntry, found bool, err error) {
	e = OffsetEntry{Offset: x.base}
	rel := target - x.base
	if rel < 0 {
		return e, false, nil
	}
	var entry [OffsetEntrySize]byte
	found, err = x.lookup(min(rel, math.MaxInt32), entry[:])
	if err != nil || !found {
		return e, false, err
	}
	return x.decode(entry[:]), true, nil
}

// Entry returns entry i, io.EOF when there are not that many.
func (x *Offset) Entry(i int) (OffsetEntry, error) {
	var entry [OffsetEntrySize]byte
	if err := x.at(i, entry[:]); err != nil {
		return OffsetEntry{}, err
	}
	return x.decode(entry[:]), nil
}

// Last returns the last entry; found is false when there is none. For the writer.
func (x *Offset) Last() (e OffsetEntry, found bool) { return x.last, x.Entries() > 0 }

// Full tells that Append will answer ErrFull. For the writer.
func (x *Offset) Full() bool { return x.Entries() >= x.max }

// Warm tells whether a lookup of target only touches memory used by every append.
func (x *Offset) Warm(target int64) bool { return x.warm(target - x.base) }

// Cached tells whether a Lookup of any target finds the entries in the page cache.
func (x *Offset) Cached() bool { return x.cached() }

// TruncateTo drops the entries with an offset >= offset. For the writer; waits for running lookups.
func (x *Offset) TruncateTo(offset int64) error {
	n, err := x.keep(offset - x.base)
	return x.cut(n, err)
}

// TruncateToPosition drops the entries with a position >= pos. For the writer.
func (x *Offset) TruncateToPosition(pos int64) error {
	var entry [OffsetEntrySize]byte
	n, err := x.partition(func(e []byte) bool { return int64(position(e)) < pos }, entry[:])
	return x.cut(n, err)
}

func (x *Offset) cut(n int, err error) error {
	if err == nil {
		err = x.truncate(n)
	}
	if err == nil {
		err = x.loadLast()
	}
	return err
}

// Reset drops all entries. For the writer.
func (x *Offset) Reset() error { return x.cut(0, nil) }
