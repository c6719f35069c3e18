package index

import (
	"encoding/binary"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
)

// NoTimestamp is the timestamp of Time.Last and Lookup when there is no entry.
const NoTimestamp = -1

// Time is a time index: from a timestamp to an offset before which there is no record as late as that.
type Time struct {
	table
	last TimeEntry // writer: the last entry, (NoTimestamp, base) when there is none
}

// CreateTime makes an empty index file name for a segment with base offset base, replacing what is there.
func CreateTime(fsys vfs.FS, name string, base int64, maxBytes int) (*Time, error) {
	x := newTime(base)
	x.init(&timeColumns, name, base, maxBytes)
	if err := x.create(fsys); err != nil {
		return nil, err
	}
	return x, nil
}

// OpenTime opens the index for writing and keeps its longest valid prefix; damaged tells that bytes behind it were not zero. A missing
// file is an error that is fs.ErrNotExist.
func OpenTime(fsys vfs.FS, name string, base int64, maxBytes int) (x *Time, damaged bool, err error) {
	x = newTime(base)
	x.init(&timeColumns, name, base, maxBytes)
	if damaged, err = x.open(fsys); err == nil {
		err = x.loadLast()
	}
	if err != nil {
		return nil, damaged, err
	}
	return x, damaged, nil
}

// OpenSealedTime opens the index of a sealed segment for reading. A file with anything but valid entries is a *CorruptError.
func OpenSealedTime(fsys vfs.FS, name string, base int64) (*Time, error) {
	x := newTime(base)
	x.cols, x.name, x.base = &timeColumns, name, base
	err := x.openSealed(fsys)
	if err == nil {
		err = x.loadLast()
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

func newTime(base int64) *Time { return &Time{last: TimeEntry{Timestamp: NoTimestamp, Offset: base}} }

func (x *Time) loadLast() error {
	x.last = TimeEntry{Timestamp: NoTimestamp, Offset: x.base}
	n := x.Entries()
	if n == 0 {
		return nil
	}
	last, err := x.Entry(n - 1)
	if err == nil {
		x.last = last
	}
	return err
}

// MaybeAppend adds (ts, offset) if ts is later than the last entry's; ts and offset are running maxima, so they never go back. At the
// roll the reserved last slot may be used. ErrFull when there is no room.
func (x *Time) MaybeAppend(ts, offset int64, atRoll bool) error {
	if ts <= x.last.Timestamp {
		return nil
	}
	rel := relative(offset, x.base)
	if ts == 0 && rel == 0 {
		return nil // would read as the end
	}
	n := x.Entries()
	if n >= x.max || !atRoll && x.Full() {
		return ErrFull
	}
	if n > 0 && offset <= x.last.Offset {
		invariant.Must(false, "time index %s: entry (%d, %d) does not follow (%d, %d)", x.name, ts, offset, x.last.Timestamp, x.last.Offset)
	}
	var entry [TimeEntrySize]byte
	putTimeEntry(entry[:], ts, rel)
	if err := x.append(entry[:]); err != nil {
		return err
	}
	x.last = TimeEntry{Timestamp: ts, Offset: offset}
	return nil
}

func putTimeEntry(b []byte, ts int64, rel int32) {
	binary.BigEndian.PutUint64(b, uint64(ts))
	binary.BigEndian.PutUint32(b[8:], uint32(rel))
}

func (x *Time) decode(entry []byte) TimeEntry {
	return TimeEntry{Timestamp: timestamp(entry), Offset: x.base + int64(timeRel(entry))}
}

// Lookup returns the greatest entry with a timestamp <= ts, (NoTimestamp, base) when there is none. The first record with a timestamp >= ts
// is in the batch that ends with that offset or behind it.
func (x *Time) Lookup(ts int64) (TimeEntry, error) {
	var entry [TimeEntrySize]byte
	found, err := x.lookup(ts, entry[:])
	if err != nil || !found {
		return TimeEntry{Timestamp: NoTimestamp, Offset: x.base}, err
	}
	return x.decode(entry[:]), nil
}

// Before returns the last entry with an offset < offset, (NoTimestamp, base) when there is none.
func (x *Time) Before(offset int64) (TimeEntry, error) {
	n, err := x.keep(offset - x.base)
	if err != nil || n == 0 {
		return TimeEntry{Timestamp: NoTimestamp, Offset: x.base}, err
	}
	return x.Entry(n - 1)
}

// Entry returns entry i, io.EOF when there are not that many.
func (x *Time) Entry(i int) (TimeEntry, error) {
	var entry [TimeEntrySize]byte
	if err := x.at(i, entry[:]); err != nil {
		return TimeEntry{}, err
	}
	return x.decode(entry[:]), nil
}

// Last returns the last entry, (NoTimestamp, base) when there is none. For the writer, and for anyone once sealed.
func (x *Time) Last() TimeEntry { return x.last }

// Full tells that MaybeAppend may answer ErrFull; one slot is kept for the roll. For the writer.
func (x *Time) Full() bool { return x.Entries() >= x.max-1 }

// TruncateTo drops the entries with an offset >= offset. For the writer; waits for running lookups.
func (x *Time) TruncateTo(offset int64) error {
	n, err := x.keep(offset - x.base)
	return x.cut(n, err)
}

func (x *Time) cut(n int, err error) error {
	if err == nil {
		err = x.truncate(n)
	}
	if err == nil {
		err = x.loadLast()
	}
	return err
}

// Reset drops all entries. For the writer.
func (x *Time) Reset() error { return x.cut(0, nil) }
