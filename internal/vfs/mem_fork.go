package vfs

import "slices"

// Fork returns a copy of m that crashes as m would: its current contents, those on disk and what is between them. Nobody has a file of it
// open, and files without a name are not in it. Whoever wants many crashes of one moment forks once and crashes the fork, then or later: pages
// that are on disk are shared.
func (m *Mem) Fork() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := &Mem{seed: m.seed}
	f.mu.now, f.mu.capacity, f.mu.usedPages = m.mu.now, m.mu.capacity, m.mu.usedPages
	f.mu.lastID, f.mu.crashes = m.mu.lastID, m.mu.crashes
	k := fork{}
	f.mu.root = k.node(m.mu.root)
	for _, c := range m.mu.pending {
		f.mu.pending = append(f.mu.pending, entryChange{node: k.node(c.node), from: k.ref(c.from), to: k.ref(c.to)})
	}
	return f
}

// fork holds the copies made so far.
type fork map[*memNode]*memNode

func (k fork) ref(r entryRef) entryRef {
	if r.dir != nil {
		r.dir = k.node(r.dir)
	}
	return r
}

func (k fork) node(n *memNode) *memNode {
	if c := k[n]; c != nil {
		return c
	}
	c := &memNode{id: n.id, modTime: n.modTime, links: n.links}
	k[n] = c
	if !n.isDir() {
		c.memContent = n.memContent.fork()
		return c
	}
	c.cutTo = notCut
	c.entries, c.durable = k.dir(n.entries), k.dir(n.durable)
	return c
}

func (k fork) dir(entries map[string]*memNode) map[string]*memNode {
	c := make(map[string]*memNode, len(entries))
	for name, n := range entries {
		c[name] = k.node(n)
	}
	return c
}

// fork copies the pages that are not on disk; the others are not written to by anyone.
func (c *memContent) fork() memContent {
	f := memContent{disk: pageTable{size: c.disk.size, pages: slices.Clone(c.disk.pages)}, cutTo: c.cutTo, allocated: slices.Clone(c.allocated)}
	f.cur = pageTable{size: c.cur.size, pages: slices.Clone(c.cur.pages)}
	f.dirty = c.dirtyPages()
	for i := range min(c.slabPages(), int64(len(f.cur.pages))) {
		f.cur.pages[i] = c.disk.page(i)
	}
	for _, i := range f.dirty {
		if p := c.cur.page(i); p != nil {
			f.cur.set(i, clonePage(p))
		}
	}
	return f
}
