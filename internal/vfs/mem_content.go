package vfs

import (
	"fmt"
	"math/bits"
	"slices"
	"syscall"

	"github.com/leatmq/leat/internal/invariant"
)

// memPageSize is the unit in which a crash keeps or loses writes, and in which space is counted.
const memPageSize = 4096

type memPage [memPageSize]byte

var zeroPage memPage

// pageTable is the content of a file. A missing page is zeros.
type pageTable struct {
	size  int64
	pages []*memPage
}

func (t *pageTable) page(i int64) *memPage {
	if i < int64(len(t.pages)) {
		return t.pages[i]
	}
	return nil
}

func (t *pageTable) set(i int64, p *memPage) {
	for int64(len(t.pages)) <= i {
		t.pages = append(t.pages, nil)
	}
	t.pages[i] = p
}

// readAt copies what is at off into p and returns how much there was below the size.
func (t *pageTable) readAt(p []byte, off int64) int {
	n := int(max(0, min(int64(len(p)), t.size-off)))
	for done := 0; done < n; {
		at := off + int64(done)
		page := t.page(at / memPageSize)
		if page == nil {
			page = &zeroPage
		}
		done += rawCopy(p[done:n], page[at%memPageSize:])
	}
	return n
}

// rawCopy and rawEqual look at memory that others may be writing through a mapping at the same time. A system call that reads a mapped
// file does that too, and the race detector does not see it. Inlined they would be instrumented as part of their callers.
//
//go:norace
//go:noinline
func rawCopy(dst, src []byte) int {
	if !invariant.Enabled {
		return copy(dst, src)
	}
	n := min(len(dst), len(src))
	for i := range n { // copy is seen by the race detector
		dst[i] = src[i]
	}
	return n
}

//go:norace
//go:noinline
func rawEqual(a, b *memPage) bool {
	for i := 0; i < memPageSize; i += 8 { // comparing the arrays as such is seen by the race detector
		if *(*[8]byte)(a[i:]) != *(*[8]byte)(b[i:]) {
			return false
		}
	}
	return true
}

const notCut = -1

// memContent is what a file holds: cur is what readers see, disk what a crash leaves for sure. Pages that both have in common are never
// written to: the first write after a sync makes a copy. So a sync costs a pointer per page, and the file systems that Crash makes share
// pages with their origin.
//
// The exception is the slab: the pages of a mapped prefix lie in one piece of memory and are written in place, also by those who hold the
// mapping. Whether one of them is dirty is found out by comparing.
type memContent struct {
	cur, disk pageTable
	dirty     []int64 // pages of cur that are not those of disk, except in the slab
	cutTo     int64   // the smallest size since the last sync, if smaller than on disk; else notCut
	allocated bitmap  // pages that occupy space
	slab      []byte  // len is a multiple of the page size
	regions   int
}

func (c *memContent) slabPages() int64 { return int64(len(c.slab)) / memPageSize }

// writable returns page i of cur for writing.
func (c *memContent) writable(i int64) *memPage {
	p, onDisk := c.cur.page(i), c.disk.page(i)
	if i < c.slabPages() || p != nil && p != onDisk {
		return p
	}
	c.dirty = appendIfClean(c.dirty, i, p, onDisk)
	fresh := new(memPage)
	if p != nil {
		*fresh = *p
	}
	c.cur.set(i, fresh)
	return fresh
}

// appendIfClean adds page i, about to change, to the dirty ones unless it is there already.
func appendIfClean(dirty []int64, i int64, p, onDisk *memPage) []int64 {
	if p == onDisk {
		return append(dirty, i)
	}
	return dirty
}

// write stores p at off. Space for it is allocated already.
func (c *memContent) write(p []byte, off int64) {
	c.grow(off)
	for done := 0; done < len(p); {
		at := off + int64(done)
		done += copy(c.writable(at / memPageSize)[at%memPageSize:], p[done:])
	}
	c.cur.size = max(c.cur.size, off+int64(len(p)))
}

// grow makes the size at least size; what is new is zero. Whoever wrote there through a mapping has found a fault on a real file system.
func (c *memContent) grow(size int64) {
	if size <= c.cur.size {
		return
	}
	from, to := min(c.cur.size, int64(len(c.slab))), min(size, int64(len(c.slab)))
	for i, b := range c.slab[from:to] {
		if b != 0 {
			panic(fmt.Sprintf("BUG: byte %d was written through a mapping, behind the end of the file at %d", from+int64(i), c.cur.size))
		}
	}
	c.cur.size = size
}

// cut makes the size size, which is not larger than it was.
func (c *memContent) cut(size int64) {
	if size < c.disk.size && (c.cutTo == notCut || size < c.cutTo) {
		c.cutTo = size
	}
	if size < int64(len(c.slab)) {
		clear(c.slab[size:])
	}
	keep := (size + memPageSize - 1) / memPageSize
	if rest := size % memPageSize; rest != 0 && c.cur.page(keep-1) != nil {
		clear(c.writable(keep - 1)[rest:])
	}
	for i := max(keep, c.slabPages()); i < int64(len(c.cur.pages)); i++ {
		if p := c.cur.pages[i]; p != nil {
			c.dirty = appendIfClean(c.dirty, i, p, c.disk.page(i))
			c.cur.pages[i] = nil
		}
	}
	c.cur.size = size
}

// sync makes disk what cur is.
func (c *memContent) sync() {
	for _, i := range c.dirty {
		if i >= c.slabPages() {
			c.disk.set(i, c.cur.page(i))
		}
	}
	c.dirty = c.dirty[:0]
	for _, i := range c.dirtySlabPages(nil) {
		c.disk.set(i, clonePage(c.cur.page(i)))
	}
	c.disk.size, c.cutTo = c.cur.size, notCut
}

// dirtySlabPages appends the pages of the slab that differ from those on disk.
func (c *memContent) dirtySlabPages(list []int64) []int64 {
	reach := max(c.cur.size, c.disk.size)
	for i := int64(0); i < c.slabPages() && i*memPageSize < reach; i++ {
		onDisk := c.disk.page(i)
		if onDisk == nil {
			onDisk = &zeroPage
		}
		if !rawEqual(c.cur.page(i), onDisk) {
			list = append(list, i)
		}
	}
	return list
}

// dirtyPages returns the pages that differ from those on disk, in order.
func (c *memContent) dirtyPages() []int64 {
	var list []int64
	for _, i := range c.dirty {
		if i >= c.slabPages() {
			list = append(list, i)
		}
	}
	list = c.dirtySlabPages(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// mapSlab returns the first n bytes as one piece of memory.
func (c *memContent) mapSlab(n int64) ([]byte, error) {
	if n <= 0 {
		return nil, syscall.EINVAL
	}
	if n > int64(len(c.slab)) {
		if c.regions > 0 {
			return nil, fmt.Errorf("mapped with %d bytes already, cannot be mapped with %d as well", len(c.slab), n)
		}
		c.moveToSlab((n + memPageSize - 1) / memPageSize)
	}
	return c.slab[:n:n], nil
}

func (c *memContent) moveToSlab(pages int64) {
	slab := make([]byte, pages*memPageSize)
	for i := range pages {
		p := (*memPage)(slab[i*memPageSize:])
		if old := c.cur.page(i); old != nil {
			*p = *old
		}
		c.cur.set(i, p)
	}
	c.slab = slab
}

// bitmap is a set of page numbers.
type bitmap []uint64

func (b bitmap) has(i int64) bool { return i/64 < int64(len(b)) && b[i/64]&(1<<(i%64)) != 0 }

func (b *bitmap) add(i int64) {
	for int64(len(*b)) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

// clearFrom removes the members from i on and returns how many there were.
func (b bitmap) clearFrom(i int64) (removed int64) {
	for w := i / 64; w < int64(len(b)); w++ {
		mask := ^uint64(0)
		if w == i/64 {
			mask <<= i % 64
		}
		removed += int64(bits.OnesCount64(b[w] & mask))
		b[w] &^= mask
	}
	return removed
}

func (b bitmap) count() (n int64) {
	for _, w := range b {
		n += int64(bits.OnesCount64(w))
	}
	return n
}
