package index

import (
	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
)

// OffsetImage is an offset index being rebuilt in memory.
type OffsetImage struct {
	base    int64
	entries []byte
}

// NewOffsetImage starts a rebuild.
func NewOffsetImage(base int64) *OffsetImage { return &OffsetImage{base: base} }

// Add adds an entry, larger in both columns than the last.
func (m *OffsetImage) Add(offset int64, pos int32) {
	var e [OffsetEntrySize]byte
	putOffsetEntry(e[:], relative(offset, m.base), pos)
	m.entries = append(m.entries, e[:]...)
}

// Store puts the rebuilt index in place, durably and atomically.
func (m *OffsetImage) Store(fsys vfs.FS, name string) error {
	return vfs.WriteFileAtomic(fsys, name, m.entries)
}

// StoreNew writes the index to a file that nobody reads yet (vfs.WriteFileSynced).
func (m *OffsetImage) StoreNew(fsys vfs.FS, name string) error {
	return vfs.WriteFileSynced(fsys, name, m.entries)
}

// Install puts the rebuilt index in place, durably and atomically, and opens it. If it cannot be written (a full disk), the index works from
// memory and stored says why.
func (m *OffsetImage) Install(fsys vfs.FS, name string) (x *Offset, stored error) {
	if stored = m.Store(fsys, name); stored == nil {
		if x, stored = OpenSealedOffset(fsys, name, m.base); stored == nil {
			return x, nil
		}
	}
	return m.Open(name), stored
}

// Open makes an index of the image that lives in memory; name is only for errors.
func (m *OffsetImage) Open(name string) *Offset {
	x := &Offset{}
	x.hold(&offsetColumns, name, m.base, m.entries)
	invariant.Must(x.loadLast() == nil, "index %s in memory cannot be read", name)
	return x
}

// TimeImage is a time index being rebuilt in memory.
type TimeImage struct {
	base    int64
	last    int64
	entries []byte
}

// NewTimeImage starts a rebuild.
func NewTimeImage(base int64) *TimeImage { return &TimeImage{base: base, last: NoTimestamp} }

// MaybeAdd is MaybeAppend for the image.
func (m *TimeImage) MaybeAdd(ts, offset int64) {
	rel := relative(offset, m.base)
	if ts <= m.last || ts == 0 && rel == 0 {
		return
	}
	var e [TimeEntrySize]byte
	putTimeEntry(e[:], ts, rel)
	m.entries = append(m.entries, e[:]...)
	m.last = ts
}

// Store is OffsetImage.Store for the time index.
func (m *TimeImage) Store(fsys vfs.FS, name string) error {
	return vfs.WriteFileAtomic(fsys, name, m.entries)
}

// StoreNew is OffsetImage.StoreNew for the time index.
func (m *TimeImage) StoreNew(fsys vfs.FS, name string) error {
	return vfs.WriteFileSynced(fsys, name, m.entries)
}

// Install is OffsetImage.Install for the time index.
func (m *TimeImage) Install(fsys vfs.FS, name string) (x *Time, stored error) {
	if stored = m.Store(fsys, name); stored == nil {
		if x, stored = OpenSealedTime(fsys, name, m.base); stored == nil {
			return x, nil
		}
	}
	return m.Open(name), stored
}

// Open is OffsetImage.Open for the time index.
func (m *TimeImage) Open(name string) *Time {
	x := newTime(m.base)
	x.hold(&timeColumns, name, m.base, m.entries)
	invariant.Must(x.loadLast() == nil, "time index %s in memory cannot be read", name)
	return x
}

// hold makes a sealed index of entries in memory.
func (t *table) hold(c *columns, name string, base int64, entries []byte) {
	t.cols, t.name, t.base, t.max = c, name, base, len(entries)/c.width
	t.view.Store(newView(&view{whole: entries}))
	t.count.Store(int64(t.max))
}
