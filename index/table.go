package index

import (
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
)

// table is what the offset and the time index share: a file of fixed-size entries in one of the two states of the package comment.
//
// The writer owns file, allocated and max, and all changes of count, tail and view. Readers use count, tail and view only.
type table struct {
	cols *columns
	name string
	base int64
	max  int // entries the file may have

	file      vfs.File
	allocated int64 // the part of the file that has space on disk behind it
	// count is the number of entries readers may see. It grows after an entry's bytes are written and shrinks before they are zeroed.
	count atomic.Int64
	view  atomic.Pointer[view] // nil: nothing is mapped yet, or closed
	tail  atomic.Pointer[tail] // nil: all entries are in the view

	// moving is held while entries go from the tail into the mapping, by the writer or by Sync, and while the view changes.
	moving sync.Mutex
	moved  int // entries in the mapping; guarded by moving
}

// Entries returns the number of entries.
func (t *table) Entries() int { return int(t.count.Load()) }

func (t *table) init(c *columns, name string, base int64, maxBytes int) {
	t.cols, t.name, t.base, t.max = c, name, base, maxBytes/c.width
	invariant.Must(t.max > 1, "index %s may have %d bytes, too few for two entries", name, maxBytes)
}

// create makes the file, empty. A file of that name is a leftover of a deleted segment.
func (t *table) create(fsys vfs.FS) (err error) {
	t.file, err = fsys.OpenFile(t.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	return err
}

// open opens the file for writing and keeps its longest valid prefix. damaged: there was something else than zeros behind it.
func (t *table) open(fsys vfs.FS) (damaged bool, err error) {
	t.file, err = fsys.OpenFile(t.name, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	if damaged, err = t.adopt(); err != nil {
		_ = t.file.Close()
	}
	return damaged, err
}

func (t *table) adopt() (damaged bool, err error) {
	size, err := t.file.Size()
	if err != nil {
		return false, err
	}
	data := make([]byte, min(size, int64(t.max*t.cols.width)))
	if err := readFull(t.file, data, 0); err != nil && len(data) > 0 {
		return false, err
	}
	n, _ := t.cols.validPrefix(data)
	end := int64(n * t.cols.width)
	damaged = size > int64(len(data)) || !allZero(data[end:])
	// What is behind the entries is given back even when it is zeros: it may be a hole, and a write to a hole through
	// the mapping on a full disk is a fault. Growing allocates.
	if size > end {
		if err := t.file.Truncate(end); err != nil {
			return damaged, err
		}
	}
	t.allocated = end
	if n == 0 {
		return damaged, nil
	}
	if err := t.mapFile(); err != nil {
		return damaged, err
	}
	t.moved = n
	t.count.Store(int64(n))
	return damaged, nil
}

// openSealed reads a file whose writer has finished: every byte of it must be a valid entry.
func (t *table) openSealed(fsys vfs.FS) error {
	f, err := fsys.OpenFile(t.name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		err = t.adoptSealed(f, size)
	}
	if err != nil || t.file == nil {
		_ = f.Close()
	}
	return err
}

// adoptSealed checks all entries and keeps one page whole or the first key of each of many pages.
func (t *table) adoptSealed(f vfs.File, size int64) error {
	c := t.cols
	if size%int64(c.width) != 0 {
		return &CorruptError{File: t.name, Entry: int(size / int64(c.width)), Msg: "incomplete entry"}
	}
	n := int(size / int64(c.width))
	perPage := pageBytes / c.width
	v := &view{}
	var prev [TimeEntrySize]byte
	buf := make([]byte, min(size, int64(16*perPage*c.width)))
	for first := 0; first < n; {
		here := min(n-first, 16*perPage)
		chunk := buf[:here*c.width]
		if err := readFull(f, chunk, int64(first*c.width)); err != nil {
			return err
		}
		if err := t.checkChunk(chunk, first, prev[:c.width]); err != nil {
			return err
		}
		for i := 0; i < here; i += perPage {
			v.top = append(v.top, c.key(chunk[i*c.width:]))
		}
		first += here
	}
	if n <= perPage {
		v.whole, v.top = buf[:n*c.width:n*c.width], nil
	} else {
		v.file, t.file = f, f
	}
	t.max = n
	t.view.Store(newView(v))
	t.count.Store(int64(n))
	return nil
}

// checkChunk checks the entries of chunk, of which the first has number first and follows prev, and leaves the last in prev.
func (t *table) checkChunk(chunk []byte, first int, prev []byte) error {
	c := t.cols
	for i := 0; i*c.width < len(chunk); i++ {
		cur := chunk[i*c.width : (i+1)*c.width]
		before := prev
		if first+i == 0 {
			before = nil
		}
		if p := c.check(before, cur); p != "" {
			return &CorruptError{File: t.name, Entry: first + i, Msg: p}
		}
		copy(prev, cur)
	}
	return nil
}

func (t *table) mapFile() error {
	region, err := t.file.Map(int64(t.max * t.cols.width))
	if err != nil {
		return err
	}
	t.view.Store(newView(&view{region: region}))
	return nil
}

// append adds an entry; the caller has checked that there is room and that the columns increase.
func (t *table) append(entry []byte) error {
	n := int(t.count.Load())
	end := int64((n + 1) * t.cols.width)
	if end > t.allocated {
		if err := t.grow(end); err != nil {
			return err
		}
	}
	w := t.tail.Load()
	if w == nil || n == w.first+tailEntries {
		var err error
		if w, err = t.nextTail(n); err != nil {
			return err
		}
	}
	copy(w.entries[(n-w.first)*t.cols.width:], entry)
	t.count.Store(int64(n + 1))
	return nil
}

// grow allocates as much again as there is, at least up to end.
func (t *table) grow(end int64) error {
	step := min(max(t.allocated, stepBytesMin), stepBytesMax)
	next := (t.allocated + step) &^ (stepBytesMin - 1)
	next = min(max(next, end), int64(t.max*t.cols.width))
	if err := t.file.Allocate(t.allocated, next-t.allocated); err != nil {
		return err
	}
	t.allocated = next
	return nil
}

// lookup copies the greatest entry whose key is <= target into entry.
func (t *table) lookup(target int64, entry []byte) (found bool, err error) {
	r := t.read()
	defer r.release()
	if r.inTail(t.cols, target) {
		w := r.w.entries
		return copyEntry(t.cols, w, t.cols.search(w, r.n-r.w.first, target), entry), nil
	}
	if r.mapped == 0 {
		return false, nil
	}
	return r.v.search(t.cols, t.name, r.mapped, target, entry)
}

// at copies entry i, or returns io.EOF if there are not that many.
func (t *table) at(i int, entry []byte) error {
	r := t.read()
	defer r.release()
	switch {
	case i < 0 || i >= r.n:
		return io.EOF
	case i >= r.mapped:
		copyEntry(t.cols, r.w.entries, i-r.w.first, entry)
		return nil
	}
	return r.v.at(t.cols, t.name, i, entry)
}

// warm tells whether a lookup of target stays in the end of a mapped index.
func (t *table) warm(target int64) (warm bool) {
	r := t.read()
	defer r.release()
	if r.v == nil || r.inTail(t.cols, target) {
		return true
	}
	n := r.mapped - warmBytes/t.cols.width
	if r.v.region == nil || n <= 0 {
		return r.v.file == nil
	}
	var err error
	defer vfs.GuardExit(vfs.GuardEnter(), t.name, &err) // a fault: not warm
	return t.cols.key(r.v.region.Bytes()[n*t.cols.width:]) <= target
}

// cached tells whether a lookup reads from memory. A mapped index counts as such: it was written, or read from end to end when it was opened.
func (t *table) cached() bool {
	v := t.acquire()
	if v == nil {
		return true
	}
	defer v.release()
	return v.file == nil || v.file.Cached(0, t.count.Load()*int64(t.cols.width))
}

// truncate keeps the first n entries of a writable index and zeroes the others.
func (t *table) truncate(n int) error {
	old := int(t.count.Load())
	if n >= old {
		return nil
	}
	if err := t.moveTail(); err != nil {
		return err
	}
	t.moving.Lock()
	defer t.moving.Unlock()
	t.count.Store(int64(n))
	region := t.view.Load().region
	invariant.Must(region != nil, "truncation of the sealed index %s", t.name)
	// Who reads the old view may have seen the old count; only when they are gone the tail may change.
	t.retire(newView(&view{region: region}))
	t.tail.Store(nil)
	t.moved = n
	return t.zero(region, n, old)
}

func (t *table) zero(region vfs.Region, from, to int) (err error) {
	defer vfs.GuardExit(vfs.GuardEnter(), t.name, &err)
	clear(region.Bytes()[from*t.cols.width : to*t.cols.width])
	return nil
}

// keep returns how many entries have an offset below rel.
func (t *table) keep(rel int64) (int, error) {
	var entry [TimeEntrySize]byte
	return t.partition(func(e []byte) bool { return int64(t.cols.rel(e)) < rel }, entry[:])
}

// partition returns the number of entries, from the first, for which low holds; it holds for a prefix.
func (t *table) partition(low func(entry []byte) bool, entry []byte) (int, error) {
	lo, hi := 0, int(t.count.Load())
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if err := t.at(mid, entry); err != nil {
			return 0, err
		}
		if low(entry) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, nil
}

// Seal cuts the file to its entries and ends writing. Lookups go on.
func (t *table) Seal() error {
	if t.Sealed() {
		return nil
	}
	if err := t.moveTail(); err != nil {
		return err
	}
	t.moving.Lock()
	defer t.moving.Unlock()
	n := int(t.count.Load())
	v := t.view.Load()
	next := &view{}
	if v != nil {
		if err := t.readOut(v.region, n, next); err != nil {
			return err
		}
	}
	old := t.retire(newView(next))
	t.tail.Store(nil)
	t.max = n // full from now on
	if old != nil {
		if err := old.region.Close(); err != nil {
			return err
		}
	}
	if err := t.file.Truncate(int64(n * t.cols.width)); err != nil {
		return err
	}
	t.allocated = int64(n * t.cols.width)
	return nil
}

// Sealed tells whether writing has ended. For the writer.
func (t *table) Sealed() bool {
	v := t.view.Load()
	return v != nil && v.region == nil
}

// readOut fills next, the view of a sealed index, from the mapping.
func (t *table) readOut(region vfs.Region, n int, next *view) (err error) {
	defer vfs.GuardExit(vfs.GuardEnter(), t.name, &err)
	b := region.Bytes()
	perPage := pageBytes / t.cols.width
	if n <= perPage {
		next.whole = append([]byte(nil), b[:n*t.cols.width]...)
		return nil
	}
	next.file = t.file
	next.top = make([]int64, 0, (n+perPage-1)/perPage)
	for i := 0; i < n; i += perPage {
		next.top = append(next.top, t.cols.key(b[i*t.cols.width:]))
	}
	return nil
}

// Sync makes the entries added so far durable. From any goroutine.
func (t *table) Sync() error {
	if err := t.moveTail(); err != nil {
		return err
	}
	v := t.acquire()
	if v != nil {
		defer v.release()
		if v.region != nil {
			if err := v.region.Sync(); err != nil {
				return err
			}
		}
	}
	if t.file == nil {
		return nil
	}
	return t.file.Sync()
}

// Close ends all use, after running lookups.
func (t *table) Close() error {
	t.moving.Lock()
	defer t.moving.Unlock()
	t.tail.Store(nil)
	old := t.retire(nil)
	var err error
	if old != nil && old.region != nil {
		err = old.region.Close()
	}
	if t.file != nil {
		if cerr := t.file.Close(); err == nil {
			err = cerr
		}
	}
	return err
}
