package index

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/internal/vfs"
)

// view is one way to get at the bytes of an index; exactly one of region, whole and file is set. It is immutable. refs starts at 1 for the
// table; a reader holds one while it looks.
type view struct {
	region vfs.Region // writable: the mapped file
	whole  []byte     // sealed and small, or rebuilt without being able to write it: all entries
	file   vfs.File   // sealed: read page by page
	top    []int64    // of file: the key of each page's first entry

	refs    atomic.Int32
	drained chan struct{} // closed when refs reaches 0
}

func newView(v *view) *view {
	v.refs.Store(1)
	v.drained = make(chan struct{})
	return v
}

// acquire returns the current view with a reference, or nil if there is none.
func (t *table) acquire() *view {
	for {
		v := t.view.Load()
		if v == nil {
			return nil
		}
		if n := v.refs.Load(); n > 0 && v.refs.CompareAndSwap(n, n+1) {
			return v
		}
	}
}

func (v *view) release() {
	if v.refs.Add(-1) == 0 {
		close(v.drained)
	}
}

// retire replaces the current view by next and returns the old one when no reader is in it any more.
func (t *table) retire(next *view) *view {
	old := t.view.Swap(next)
	if old != nil {
		old.release()
		<-old.drained
	}
	return old
}

// search returns the greatest entry in [0, n) whose key is <= target; found is false when there is none.
func (v *view) search(c *columns, name string, n int, target int64, entry []byte) (found bool, err error) {
	switch {
	case v.region != nil:
		return v.searchMapped(c, name, n, target, entry)
	case v.file != nil:
		return v.searchPages(c, n, target, entry)
	}
	return copyEntry(c, v.whole, c.search(v.whole, n, target), entry), nil
}

func copyEntry(c *columns, entries []byte, i int, entry []byte) bool {
	if i < 0 {
		return false
	}
	copy(entry[:c.width], entries[i*c.width:])
	return true
}

// searchMapped looks at the warm end first.
func (v *view) searchMapped(c *columns, name string, n int, target int64, entry []byte) (found bool, err error) {
	defer vfs.GuardExit(vfs.GuardEnter(), name, &err)
	b := v.region.Bytes()
	warm := max(0, n-warmBytes/c.width)
	if warm > 0 && c.key(b[warm*c.width:]) > target {
		return copyEntry(c, b, c.search(b, warm, target), entry), nil
	}
	tail := b[warm*c.width:]
	return copyEntry(c, tail, c.search(tail, n-warm, target), entry), nil
}

var pagePool = sync.Pool{New: func() any { return new([pageBytes]byte) }}

func (v *view) searchPages(c *columns, n int, target int64, entry []byte) (found bool, err error) {
	page := searchKeys(v.top, target)
	if page < 0 {
		return false, nil
	}
	perPage := pageBytes / c.width
	buf := pagePool.Get().(*[pageBytes]byte)
	defer pagePool.Put(buf)
	first := page * perPage
	here := min(perPage, n-first)
	if err := readFull(v.file, buf[:here*c.width], int64(first*c.width)); err != nil {
		return false, err
	}
	return copyEntry(c, buf[:], c.search(buf[:], here, target), entry), nil
}

func searchKeys(keys []int64, target int64) int {
	lo, hi := -1, len(keys)
	for hi-lo > 1 {
		mid := int(uint(lo+hi) >> 1)
		if keys[mid] <= target {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// at copies entry i, which exists.
func (v *view) at(c *columns, name string, i int, entry []byte) (err error) {
	switch {
	case v.region != nil:
		defer vfs.GuardExit(vfs.GuardEnter(), name, &err)
		copyEntry(c, v.region.Bytes(), i, entry)
	case v.file != nil:
		return readFull(v.file, entry[:c.width], int64(i*c.width))
	default:
		copyEntry(c, v.whole, i, entry)
	}
	return nil
}

// readFull reads all of p; the end of the file before that is io.ErrUnexpectedEOF.
func readFull(f vfs.File, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
