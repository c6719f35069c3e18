package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a file system in memory that can lose its power.
//
// Every file has two contents: the current one, which reads and mappings see, and the one on disk, which Sync copies it to. Every directory
// has its current entries and those on disk, between them the list of changes that no SyncDir has covered. Crash builds a new Mem from
// what is on disk plus, depending on the mode, some of the rest. What a Mem does is a function of its seed and the calls made; only
// modification times come from the wall clock until SetNow gives it another one.
//
// Absolute and relative names are the same: the root directory is both "/" and ".". It exists and needs no sync.
type Mem struct {
	// OnOp, when set before the Mem is used, is called after each operation that changes what a crash may lose, on the goroutine that
	// did it, with no lock held: it may call Crash. Failed operations are not reported, short writes are.
	OnOp func(Op)

	seed uint64

	mu struct {
		sync.Mutex
		root      *memNode
		lastID    int64
		pending   []entryChange // in the order they were made
		now       func() time.Time
		capacity  int64 // bytes; 0 = unlimited
		usedPages int64 // allocated to files that have a name or are open
		crashes   uint64
	}
}

// memNode is a file or a directory (entries != nil). The Mem's mu guards it.
type memNode struct {
	id      int64 // creation order: what iterates over nodes does so by name or by id
	modTime time.Time
	links   int // 0 or 1
	opens   int // files and regions
	locked  bool

	entries map[string]*memNode
	durable map[string]*memNode // the entries on disk

	memContent
}

func (n *memNode) isDir() bool { return n.entries != nil }

// entryChange is a change of directory entries: node gets the name to, or loses the name from, or both at once. Changes of the same node
// become durable in order.
type entryChange struct {
	node     *memNode
	from, to entryRef
}

// entryRef is a name in a directory; dir == nil means none.
type entryRef struct {
	dir  *memNode
	name string
}

func (c entryChange) touches(dir *memNode) bool { return c.from.dir == dir || c.to.dir == dir }

// NewMem returns an empty file system. seed decides what crashes leave.
func NewMem(seed uint64) *Mem {
	m := &Mem{seed: seed}
	m.mu.now = time.Now
	m.mu.root = m.newNodeLocked(true)
	m.mu.root.links = 1
	return m
}

// SetNow gives the clock for modification times.
func (m *Mem) SetNow(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.now = now
}

// SetCapacity limits the bytes (rounded down to pages) that files may occupy; 0 removes the limit. What is there already stays.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.capacity = bytes
}

func (m *Mem) newNodeLocked(dir bool) *memNode {
	m.mu.lastID++
	n := &memNode{id: m.mu.lastID, modTime: m.mu.now()}
	n.cutTo = notCut
	if dir {
		n.entries, n.durable = map[string]*memNode{}, map[string]*memNode{}
	}
	return n
}

// done reports a mutating operation. It runs after mu is released.
func (m *Mem) done(op Op) {
	if m.OnOp != nil {
		m.OnOp(op)
	}
}

// splitPath returns the elements of name; none for the root.
func splitPath(name string) []string {
	clean := filepath.ToSlash(filepath.Clean(name))
	clean = strings.Trim(clean, "/")
	if clean == "" || clean == "." {
		return nil
	}
	return strings.Split(clean, "/")
}

// findLocked returns the node called name.
func (m *Mem) findLocked(name string) (*memNode, error) {
	n := m.mu.root
	for _, elem := range splitPath(name) {
		if !n.isDir() {
			return nil, syscall.ENOTDIR
		}
		next := n.entries[elem]
		if next == nil {
			return nil, fs.ErrNotExist
		}
		n = next
	}
	return n, nil
}

// findDirLocked is findLocked for a directory.
func (m *Mem) findDirLocked(name string) (*memNode, error) {
	n, err := m.findLocked(name)
	if err == nil && !n.isDir() {
		err = syscall.ENOTDIR
	}
	return n, err
}

// findRefLocked returns the place name has in its parent directory, which must exist, and what is there (nil: nothing).
func (m *Mem) findRefLocked(name string) (entryRef, *memNode, error) {
	elems := splitPath(name)
	if len(elems) == 0 {
		return entryRef{}, nil, syscall.EINVAL // the root has no parent
	}
	dir, err := m.findDirLocked(strings.Join(elems[:len(elems)-1], "/"))
	if err != nil {
		return entryRef{}, nil, err
	}
	ref := entryRef{dir: dir, name: elems[len(elems)-1]}
	return ref, dir.entries[ref.name], nil
}

// linkLocked makes the change current and remembers that it is not durable.
func (m *Mem) linkLocked(c entryChange) {
	if c.from.dir != nil {
		delete(c.from.dir.entries, c.from.name)
		c.from.dir.modTime = m.mu.now()
	}
	if c.to.dir != nil {
		if victim := c.to.dir.entries[c.to.name]; victim != nil {
			m.unlinkedLocked(victim)
		}
		c.to.dir.entries[c.to.name] = c.node
		c.to.dir.modTime = m.mu.now()
		c.node.links = 1
	} else {
		m.unlinkedLocked(c.node)
	}
	m.mu.pending = append(m.mu.pending, c)
}

func (m *Mem) unlinkedLocked(n *memNode) {
	n.links = 0
	m.freeIfUnusedLocked(n)
}

// freeIfUnusedLocked returns the space of a file that has neither a name nor a user.
func (m *Mem) freeIfUnusedLocked(n *memNode) {
	if n.links == 0 && n.opens == 0 {
		m.mu.usedPages -= n.allocated.clearFrom(0)
	}
}

// OpenFile implements FS.
func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, changed, err := m.openFile(name, flag)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if changed {
		m.done(Op{Kind: OpCreate, Name: name})
	}
	return f, nil
}

func (m *Mem) openFile(name string, flag int) (f *memFile, changed bool, err error) {
	if flag&os.O_APPEND != 0 {
		return nil, false, errors.ErrUnsupported
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	ref, n, err := m.findRefLocked(name)
	if err != nil {
		return nil, false, err
	}
	switch {
	case n == nil && flag&os.O_CREATE == 0:
		return nil, false, fs.ErrNotExist
	case n == nil:
		n = m.newNodeLocked(false)
		m.linkLocked(entryChange{node: n, to: ref})
		changed = true
	case flag&(os.O_CREATE|os.O_EXCL) == os.O_CREATE|os.O_EXCL:
		return nil, false, fs.ErrExist
	case n.isDir():
		return nil, false, syscall.EISDIR
	case flag&os.O_TRUNC != 0:
		m.truncateLocked(n, 0)
		changed = true
	}
	n.opens++
	return &memFile{m: m, n: n, name: name, access: flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)}, changed, nil
}

// Rename implements FS.
func (m *Mem) Rename(oldName, newName string) error {
	if err := m.rename(oldName, newName); err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	m.done(Op{Kind: OpRename, Name: oldName, NewName: newName})
	return nil
}

func (m *Mem) rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, n, err := m.findRefLocked(oldName)
	if err != nil {
		return err
	}
	if n == nil {
		return fs.ErrNotExist
	}
	to, victim, err := m.findRefLocked(newName)
	switch {
	case err != nil:
		return err
	case victim == n:
		return nil
	case n.isDir() && m.isBelowLocked(to.dir, n):
		return syscall.EINVAL
	case victim == nil:
	case victim.isDir() != n.isDir():
		return fs.ErrExist
	case victim.isDir() && len(victim.entries) > 0:
		return syscall.ENOTEMPTY
	}
	m.linkLocked(entryChange{node: n, from: from, to: to})
	return nil
}

// isBelowLocked tells whether n is dir or a directory below it.
func (m *Mem) isBelowLocked(n, dir *memNode) bool {
	if n == dir {
		return true
	}
	for _, child := range dir.entries {
		if child.isDir() && m.isBelowLocked(n, child) {
			return true
		}
	}
	return false
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	if err := m.remove(name); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	m.done(Op{Kind: OpRemove, Name: name})
	return nil
}

func (m *Mem) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref, n, err := m.findRefLocked(name)
	switch {
	case err != nil:
		return err
	case n == nil:
		return fs.ErrNotExist
	case len(n.entries) > 0:
		return syscall.ENOTEMPTY
	}
	m.linkLocked(entryChange{node: n, from: ref})
	return nil
}

// RemoveAll implements FS. A crash may leave any part of the tree.
func (m *Mem) RemoveAll(name string) error {
	if err := m.removeAll(name); err != nil {
		return &fs.PathError{Op: "removeall", Path: name, Err: err}
	}
	m.done(Op{Kind: OpRemoveAll, Name: name})
	return nil
}

func (m *Mem) removeAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ref, n, err := m.findRefLocked(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && n == nil {
		return nil
	}
	if err != nil {
		return err
	}
	m.removeTreeLocked(ref, n)
	return nil
}

func (m *Mem) removeTreeLocked(ref entryRef, n *memNode) {
	for _, name := range sortedNames(n.entries) {
		m.removeTreeLocked(entryRef{dir: n, name: name}, n.entries[name])
	}
	m.linkLocked(entryChange{node: n, from: ref})
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(name string, perm fs.FileMode) error {
	created, err := m.mkdirAll(name)
	if err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	if created {
		m.done(Op{Kind: OpMkdirAll, Name: name})
	}
	return nil
}

func (m *Mem) mkdirAll(name string) (created bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir := m.mu.root
	for _, elem := range splitPath(name) {
		next := dir.entries[elem]
		if next == nil {
			next = m.newNodeLocked(true)
			m.linkLocked(entryChange{node: next, to: entryRef{dir: dir, name: elem}})
			created = true
		}
		if !next.isDir() {
			return created, syscall.ENOTDIR
		}
		dir = next
	}
	return created, nil
}

// ReadDir implements FS.
func (m *Mem) ReadDir(name string) ([]DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.findDirLocked(name)
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: err}
	}
	list := make([]DirEntry, 0, len(dir.entries))
	for _, elem := range sortedNames(dir.entries) {
		n := dir.entries[elem]
		list = append(list, DirEntry{Name: elem, IsDir: n.isDir(), Size: n.cur.size})
	}
	return list, nil
}

func sortedNames(entries map[string]*memNode) []string { return slices.Sorted(maps.Keys(entries)) }

// Stat implements FS.
func (m *Mem) Stat(name string) (Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findLocked(name)
	if err != nil {
		return Info{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return Info{Size: n.cur.size, IsDir: n.isDir(), ModTime: n.modTime}, nil
}

// SetModTime implements FS. A crash does not lose it.
func (m *Mem) SetModTime(name string, t time.Time) error {
	if err := m.setModTime(name, t); err != nil {
		return &fs.PathError{Op: "chtimes", Path: name, Err: err}
	}
	m.done(Op{Kind: OpSetModTime, Name: name})
	return nil
}

func (m *Mem) setModTime(name string, t time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findLocked(name)
	if err != nil {
		return err
	}
	n.modTime = t
	return nil
}

// SyncDir implements FS.
func (m *Mem) SyncDir(name string) error {
	if err := m.syncDir(name); err != nil {
		return &fs.PathError{Op: "fsync", Path: name, Err: err}
	}
	m.done(Op{Kind: OpSyncDir, Name: name})
	return nil
}

func (m *Mem) syncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.findDirLocked(name)
	if err != nil {
		return err
	}
	m.syncEntriesLocked(func(c entryChange) bool { return c.touches(dir) })
	return nil
}

// syncEntriesLocked makes the chosen changes durable, and the earlier ones of the same nodes with them.
func (m *Mem) syncEntriesLocked(chosen func(entryChange) bool) {
	pending := m.mu.pending
	take := make([]bool, len(pending))
	needed := map[*memNode]bool{}
	for i := len(pending) - 1; i >= 0; i-- {
		take[i] = needed[pending[i].node] || chosen(pending[i])
		needed[pending[i].node] = take[i]
	}
	rest := pending[:0]
	for i, c := range pending {
		if take[i] {
			c.applyTo(func(dir *memNode) map[string]*memNode { return dir.durable })
		} else {
			rest = append(rest, c)
		}
	}
	clear(pending[len(rest):])
	m.mu.pending = rest
}

// applyTo makes the change in the entries that entriesOf returns for a directory.
func (c entryChange) applyTo(entriesOf func(dir *memNode) map[string]*memNode) {
	if c.from.dir != nil {
		if e := entriesOf(c.from.dir); e[c.from.name] == c.node {
			delete(e, c.from.name)
		}
	}
	if c.to.dir != nil {
		entriesOf(c.to.dir)[c.to.name] = c.node
	}
}

// SyncFS implements FS: it makes everything durable, whatever the name.
func (m *Mem) SyncFS(name string) error {
	m.mu.Lock()
	m.syncEntriesLocked(func(entryChange) bool { return true })
	m.mu.root.syncTree()
	m.mu.Unlock()
	m.done(Op{Kind: OpSyncFS, Name: name})
	return nil
}

func (n *memNode) syncTree() {
	n.sync()
	for _, child := range n.entries {
		child.syncTree()
	}
}

// OwnFS implements FS: there is nothing else on a Mem.
func (m *Mem) OwnFS(name string) bool { return true }

// memTotal is the size Usage shows for a Mem without a capacity.
const memTotal = 1 << 40

// Usage implements FS.
func (m *Mem) Usage(name string) (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.findLocked(name); err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	total := int64(memTotal)
	if m.mu.capacity > 0 {
		total = m.mu.capacity
	}
	return Usage{Total: total, Free: max(0, total-m.mu.usedPages*memPageSize)}, nil
}

// Lock implements FS.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	n := f.(*memFile).n
	m.mu.Lock()
	held := n.locked
	n.locked = true
	m.mu.Unlock()
	if held {
		holder := make([]byte, holderTextLimit)
		k, _ := f.ReadAt(holder, 0)
		f.Close()
		return nil, &LockedError{Path: name, Holder: strings.TrimSpace(string(holder[:k]))}
	}
	l := &memLock{m: m, f: f, n: n}
	if _, err := f.WriteAt([]byte(holderText()+"\n"), 0); err != nil {
		l.Close()
		return nil, err
	}
	m.done(Op{Kind: OpLock, Name: name})
	return l, nil
}

type memLock struct {
	m *Mem
	f File
	n *memNode
}

func (l *memLock) Close() error {
	if err := l.f.Close(); err != nil {
		return err
	}
	l.m.mu.Lock()
	l.n.locked = false
	l.m.mu.Unlock()
	return nil
}
