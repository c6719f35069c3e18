package index

import (
	"encoding/binary"
	"math"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
)

// Offset is an offset index: from an offset to where in the data file to start looking for it.
type Offset struct {
	t    table
	last OffsetEntry // writer: the last entry, when there is one
}

// CreateOffset makes an empty index file name for a segment with base offset base, replacing what is there.
func CreateOffset(fsys vfs.FS, name string, base int64, maxBytes int) (*Offset, error) {
	x := &Offset{}
	x.t.init(&offsetColumns, name, base, maxBytes)
	if err := x.t.create(fsys); err != nil {
		return nil, err
	}
	return x, nil
}

// OpenOffset opens the index for writing and keeps its longest valid prefix; damaged tells that bytes behind it were not zero. A missing
// file is an error that is fs.ErrNotExist.
func OpenOffset(fsys vfs.FS, name string, base int64, maxBytes int) (x *Offset, damaged bool, err error) {
	x = &Offset{}
	x.t.init(&offsetColumns, name, base, maxBytes)
	if damaged, err = x.t.open(fsys); err == nil {
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
	x.t.cols, x.t.name, x.t.base = &offsetColumns, name, base
	err := x.t.openSealed(fsys)
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
	rel := relative(offset, x.t.base)
	if x.Entries() > 0 && (offset <= x.last.Offset || pos <= x.last.Position) || rel == 0 && pos == 0 {
		invariant.Must(false, "index %s: entry (%d, %d) does not follow (%d, %d)", x.t.name, offset, pos, x.last.Offset, x.last.Position)
	}
	var entry [OffsetEntrySize]byte
	putOffsetEntry(entry[:], rel, pos)
	if err := x.t.append(entry[:]); err != nil {
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
	return OffsetEntry{Offset: x.t.base + int64(offsetRel(entry)), Position: position(entry)}
}

// Lookup returns the greatest entry with an offset <= target. found is false when there is none: the search starts at (base, 0).
func (x *Offset) Lookup(target int64) (e OffsetEntry, found bool, err error) {
	e = OffsetEntry{Offset: x.t.base}
	rel := target - x.t.base
	if rel < 0 {
		return e, false, nil
	}
	var entry [OffsetEntrySize]byte
	found, err = x.t.lookup(min(rel, math.MaxInt32), entry[:])
	if err != nil || !found {
		return e, false, err
	}
	return x.decode(entry[:]), true, nil
}

// Entry returns entry i, io.EOF when there are not that many.
func (x *Offset) Entry(i int) (OffsetEntry, error) {
	var entry [OffsetEntrySize]byte
	if err := x.t.at(i, entry[:]); err != nil {
		return OffsetEntry{}, err
	}
	return x.decode(entry[:]), nil
}

// Last returns the last entry; found is false when there is none. For the writer.
func (x *Offset) Last() (e OffsetEntry, found bool) { return x.last, x.Entries() > 0 }

// Entries returns the number of entries.
func (x *Offset) Entries() int { return int(x.t.count.Load()) }

// Full tells that Append will answer ErrFull. For the writer.
func (x *Offset) Full() bool { return x.Entries() >= x.t.max }

// Warm tells whether a lookup of target only touches memory used by every append.
func (x *Offset) Warm(target int64) bool { return x.t.warm(target - x.t.base) }

// Cached tells whether a Lookup of any target finds the entries in the page cache.
func (x *Offset) Cached() bool { return x.t.cached() }

// TruncateTo drops the entries with an offset >= offset. For the writer; waits for running lookups.
func (x *Offset) TruncateTo(offset int64) error {
	n, err := x.t.keep(offset - x.t.base)
	return x.cut(n, err)
}

// TruncateToPosition drops the entries with a position >= pos. For the writer.
func (x *Offset) TruncateToPosition(pos int64) error {
	var entry [OffsetEntrySize]byte
	n, err := x.t.partition(func(e []byte) bool { return int64(position(e)) < pos }, entry[:])
	return x.cut(n, err)
}

func (x *Offset) cut(n int, err error) error {
	if err == nil {
		err = x.t.truncate(n)
	}
	if err == nil {
		err = x.loadLast()
	}
	return err
}

// Reset drops all entries. For the writer.
func (x *Offset) Reset() error { return x.cut(0, nil) }

// Seal cuts the file to its entries and ends writing. Lookups go on.
func (x *Offset) Seal() error { return x.t.seal() }

// Sealed tells whether writing has ended. For the writer.
func (x *Offset) Sealed() bool { return x.t.isSealed() }

// Sync makes the entries added so far durable. From any goroutine.
func (x *Offset) Sync() error { return x.t.sync() }

// Close ends all use, after running lookups.
func (x *Offset) Close() error { return x.t.close() }
