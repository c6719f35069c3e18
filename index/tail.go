package index

import (
	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
)

// tailEntries is how many entries wait in memory before they go into the mapping together. After the kernel wrote a mapped page, the next store to it is a
// page fault that may also wait for the writing; where flushes are frequent that would be every entry.
const tailEntries = 64

// tail holds the entries that are not in the mapping yet, or that were the last to get there. An entry's bytes never change once the count covers it; a full
// tail is moved and replaced, never emptied, so that readers need no lock.
type tail struct {
	first   int    // number of the first entry
	entries []byte // room for tailEntries
}

// nextTail moves what waits and begins with entry n.
func (t *table) nextTail(n int) (*tail, error) {
	if t.Sealed() {
		invariant.Must(false, "append to the sealed index %s", t.name)
	}
	if err := t.moveTail(); err != nil {
		return nil, err
	}
	w := &tail{first: n, entries: make([]byte, tailEntries*t.cols.width)}
	t.tail.Store(w)
	return w, nil
}

// Flush puts all entries where they survive the end of the process, if not of the machine. From any goroutine.
func (t *table) Flush() error { return t.moveTail() }

// moveTail copies all entries that wait into the mapping. From any goroutine.
func (t *table) moveTail() error {
	t.moving.Lock()
	defer t.moving.Unlock()
	// The count first: the tail is then the one that holds the last of them, or a later one.
	n := int(t.count.Load())
	w := t.tail.Load()
	if w == nil || n <= t.moved {
		return nil
	}
	if t.view.Load() == nil {
		if err := t.mapFile(); err != nil {
			return err
		}
	}
	if err := t.put(t.view.Load().region, t.moved, w.entries[(t.moved-w.first)*t.cols.width:(n-w.first)*t.cols.width]); err != nil {
		return err
	}
	t.moved = n
	return nil
}

func (t *table) put(region vfs.Region, i int, entries []byte) (err error) {
	defer vfs.GuardExit(vfs.GuardEnter(), t.name, &err)
	copy(region.Bytes()[i*t.cols.width:], entries)
	return nil
}

// reading is what one reader looks at: entries [0, mapped) are in v, [mapped, n) in w.
type reading struct {
	v         *view // held until release; nil when mapped is 0
	w         *tail
	mapped, n int
}

// read takes a look at the index as it is. The view comes first: a truncation after that waits for the release before it changes anything that
// is read here; one before it has shrunk the count.
func (t *table) read() reading {
	for {
		v := t.acquire()
		n := int(t.count.Load())
		w := t.tail.Load()
		switch {
		case v != nil && w == nil:
			return reading{v: v, mapped: n, n: n}
		case v != nil:
			return reading{v: v, w: w, mapped: min(n, w.first), n: n}
		case t.view.Load() != nil:
			continue // mapped just now; what was read may be older or newer than that
		case w == nil || w.first > 0:
			return reading{} // empty, or closed
		}
		return reading{w: w, n: n}
	}
}

func (r *reading) release() {
	if r.v != nil {
		r.v.release()
	}
}

// inTail tells whether the greatest entry whose key is <= target is in the tail.
func (r *reading) inTail(c *columns, target int64) bool {
	return r.n > r.mapped && c.key(r.w.entries[(r.mapped-r.w.first)*c.width:]) <= target
}
