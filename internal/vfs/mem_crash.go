package vfs

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Crash returns the disk as a power cut at this moment leaves it, depending on mode. m itself goes on as if nothing had happened. Each call
// on the same Mem decides anew what survives, as the seed says.
//
// What may survive of what was not synced:
//
//   - A page that was written survives with its newest content or has that of the disk. Earlier contents in between do not come back: whoever
//     wants those crashes earlier (OnOp).
//   - The size is the one on disk, the current one, or the end of a page between them. What lies between and did not survive is zeros.
//   - A file that was cut survives uncut, with the bytes it had, or cut.
//   - Directory entry changes survive independently, but those of one file or directory in order, and a rename as a whole.
//
// A directory that is not reachable is gone with all that is in it.
func (m *Mem) Crash(mode CrashMode) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.crashes++
	return m.crashLocked(mode, rand.New(rand.NewPCG(m.seed, m.mu.crashes)))
}

// CrashAt is Crash with what survives decided by a seed of its own: the same disk, mode and seed always leave the same.
func (m *Mem) CrashAt(mode CrashMode, seed uint64) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.crashLocked(mode, rand.New(rand.NewPCG(seed, uint64(mode))))
}

func (m *Mem) crashLocked(mode CrashMode, rng *rand.Rand) *Mem {
	after := NewMem(rng.Uint64())
	after.mu.now, after.mu.capacity = m.mu.now, m.mu.capacity
	c := &crash{mode: mode, rng: rng, after: after, keep: keepOdds[rng.IntN(len(keepOdds))]}
	c.chooseEntries(m.mu.pending)
	c.copyDir(after.mu.root, m.mu.root)
	return after
}

// keepOdds are the chances for a change to survive, one of them for a whole crash: with even odds alone, a disk that lost or kept nearly
// everything would never be seen.
var keepOdds = []float64{0.05, 0.5, 0.5, 0.95}

type crash struct {
	mode    CrashMode
	rng     *rand.Rand
	keep    float64
	after   *Mem
	entries map[*memNode]map[string]*memNode // directories whose entries are not those on disk
}

func (c *crash) survives() bool { return c.rng.Float64() < c.keep }

// chooseEntries decides which of the pending changes survive.
func (c *crash) chooseEntries(pending []entryChange) {
	c.entries = map[*memNode]map[string]*memNode{}
	lost := map[*memNode]bool{}
	for _, change := range pending {
		switch c.mode {
		case LoseUnsynced:
			return
		case RandomPages, Torn512:
			if lost[change.node] = lost[change.node] || !c.survives(); lost[change.node] {
				continue
			}
		case KeepAll:
		default:
			panic(fmt.Sprintf("BUG: unknown crash mode %d", c.mode))
		}
		change.applyTo(c.entriesOf)
	}
}

// entriesOf returns the surviving entries of a directory, to be changed.
func (c *crash) entriesOf(dir *memNode) map[string]*memNode {
	e, ok := c.entries[dir]
	if !ok {
		e = maps.Clone(dir.durable)
		c.entries[dir] = e
	}
	return e
}

func (c *crash) copyDir(to, from *memNode) {
	to.modTime = from.modTime
	entries, ok := c.entries[from]
	if !ok {
		entries = from.durable
	}
	for _, name := range sortedNames(entries) {
		old := entries[name]
		n := c.after.newNodeLocked(old.isDir())
		n.links = 1
		to.entries[name], to.durable[name] = n, n
		if old.isDir() {
			c.copyDir(n, old)
		} else {
			c.copyFile(n, old)
		}
	}
}

func (c *crash) copyFile(to, from *memNode) {
	to.modTime = from.modTime
	image := c.image(&from.memContent)
	image.cutAt(image.size)
	to.disk = image
	to.cur = pageTable{size: image.size, pages: slices.Clone(image.pages)}
	to.allocated = survivingSpace(from.allocated, &image)
	c.after.mu.usedPages += to.allocated.count()
}

// survivingSpace returns the pages that occupy space: those that have content, and those that were allocated and lie within the size.
func survivingSpace(before bitmap, image *pageTable) bitmap {
	space := bitmap(slices.Clone(before))
	space.clearFrom((image.size + memPageSize - 1) / memPageSize)
	for i, p := range image.pages {
		if p != nil {
			space.add(int64(i))
		}
	}
	return space
}

// image returns what survives of a file's content. Its pages are not written to any more.
func (c *crash) image(f *memContent) pageTable {
	disk := pageTable{size: f.disk.size, pages: slices.Clone(f.disk.pages)}
	switch c.mode {
	case LoseUnsynced:
		return disk
	case KeepAll:
		for _, i := range f.dirtyPages() {
			disk.set(i, clonePage(f.cur.page(i)))
		}
		disk.size = f.cur.size
		return disk
	}
	return c.randomImage(f, disk)
}

func (c *crash) randomImage(f *memContent, image pageTable) pageTable {
	reach := f.cur.size // writes behind it do not survive
	switch {
	case f.cutTo == notCut:
		image.size = c.sizeBetween(image.size, f.cur.size)
	case c.survives():
		image.cutAt(f.cutTo)
		image.size = c.sizeBetween(f.cutTo, f.cur.size)
	default:
		reach = f.cutTo / memPageSize * memPageSize
	}
	for _, i := range f.dirtyPages() {
		if i*memPageSize < reach && c.survives() {
			image.set(i, c.survivingPage(f.cur.page(i), image.page(i)))
		}
	}
	return image
}

// sizeBetween returns one of the sizes that growing from lo to hi may leave.
func (c *crash) sizeBetween(lo, hi int64) int64 {
	if c.survives() {
		return hi
	}
	pages := (hi - lo) / memPageSize
	if pages == 0 || !c.survives() {
		return lo
	}
	return min(hi, (lo/memPageSize+1+c.rng.Int64N(pages))*memPageSize)
}

// sectorSize is the unit that a disk writes atomically at worst.
const sectorSize = 512

// survivingPage returns a copy of page, in mode Torn512 possibly torn: mixed with the one it replaces.
func (c *crash) survivingPage(page, old *memPage) *memPage {
	result := clonePage(page)
	if c.mode != Torn512 || c.survives() {
		return result
	}
	if old == nil {
		old = &zeroPage
	}
	for at := 0; at < memPageSize; at += sectorSize {
		if !c.survives() {
			copy(result[at:at+sectorSize], old[at:])
		}
	}
	return result
}

func clonePage(p *memPage) *memPage {
	clone := new(memPage)
	if p != nil {
		rawCopy(clone[:], p[:])
	}
	return clone
}

// cutAt drops what is behind size.
func (t *pageTable) cutAt(size int64) {
	keep := (size + memPageSize - 1) / memPageSize
	if keep < int64(len(t.pages)) {
		t.pages = t.pages[:keep]
	}
	if rest := size % memPageSize; rest != 0 && t.page(keep-1) != nil && !bytes.Equal(t.pages[keep-1][rest:], zeroPage[rest:]) {
		p := clonePage(t.pages[keep-1])
		clear(p[rest:])
		t.pages[keep-1] = p
	}
	t.size = min(t.size, size)
}
