package vfs

import (
	"io"
	"io/fs"
	"os"
	"syscall"
)

// memFile is an open file of a Mem.
type memFile struct {
	m      *Mem
	n      *memNode
	name   string
	access int
	closed bool // guarded by m.mu
}

// useLocked checks that the file may be read or written.
func (f *memFile) useLocked(write bool) error {
	switch {
	case f.closed:
		return fs.ErrClosed
	case write && f.access == os.O_RDONLY, !write && f.access == os.O_WRONLY:
		return syscall.EBADF
	}
	return nil
}

func (f *memFile) pathErr(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.name, Err: err}
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := f.useLocked(false)
	if err == nil && off < 0 {
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, f.pathErr("read", err)
	}
	n := f.n.cur.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	n, err := f.writeLocked(p, off)
	f.m.mu.Unlock()
	if err == nil || n > 0 {
		f.m.done(Op{Kind: OpWrite, Name: f.name, Off: off, N: int64(n)})
	}
	return n, f.pathErr("write", err)
}

func (f *memFile) WritevAt(bufs [][]byte, off int64) (done int64, err error) {
	f.m.mu.Lock()
	for _, b := range bufs {
		var n int
		n, err = f.writeLocked(b, off+done)
		done += int64(n)
		if err != nil {
			break
		}
	}
	f.m.mu.Unlock()
	if err == nil || done > 0 {
		f.m.done(Op{Kind: OpWrite, Name: f.name, Off: off, N: done})
	}
	return done, f.pathErr("pwritev", err)
}

func (f *memFile) writeLocked(p []byte, off int64) (int, error) {
	if err := f.useLocked(true); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, syscall.EINVAL
	}
	if len(p) == 0 {
		return 0, nil
	}
	fits := int(f.m.allocateLocked(f.n, off, int64(len(p))))
	if fits > 0 {
		f.n.write(p[:fits], off)
		f.n.modTime = f.m.mu.now()
	}
	if fits < len(p) {
		return fits, syscall.ENOSPC
	}
	return fits, nil
}

// allocateLocked gives space to the pages of [off, off+n) and returns how many bytes from off have some.
func (m *Mem) allocateLocked(node *memNode, off, n int64) int64 {
	end := off + n
	for i := off / memPageSize; i*memPageSize < end; i++ {
		if node.allocated.has(i) {
			continue
		}
		if m.mu.capacity > 0 && (m.mu.usedPages+1)*memPageSize > m.mu.capacity {
			return max(0, i*memPageSize-off)
		}
		node.allocated.add(i)
		m.mu.usedPages++
	}
	return n
}

func (f *memFile) Truncate(size int64) error {
	f.m.mu.Lock()
	err := f.useLocked(true)
	if err == nil && size < 0 {
		err = syscall.EINVAL
	}
	if err == nil {
		f.m.truncateLocked(f.n, size)
	}
	f.m.mu.Unlock()
	if err != nil {
		return f.pathErr("truncate", err)
	}
	f.m.done(Op{Kind: OpTruncate, Name: f.name, N: size})
	return nil
}

func (m *Mem) truncateLocked(n *memNode, size int64) {
	if size < n.cur.size {
		n.cut(size)
		m.mu.usedPages -= n.allocated.clearFrom((size + memPageSize - 1) / memPageSize)
	} else {
		n.grow(size)
	}
	n.modTime = m.mu.now()
}

func (f *memFile) Allocate(off, n int64) error {
	f.m.mu.Lock()
	err := f.useLocked(true)
	if err == nil && (off < 0 || n <= 0) {
		err = syscall.EINVAL
	}
	if err == nil {
		if f.m.allocateLocked(f.n, off, n) < n {
			err = syscall.ENOSPC
		} else {
			f.n.grow(off + n)
			f.n.modTime = f.m.mu.now()
		}
	}
	f.m.mu.Unlock()
	if err != nil {
		return f.pathErr("fallocate", err)
	}
	f.m.done(Op{Kind: OpAllocate, Name: f.name, Off: off, N: n})
	return nil
}

func (f *memFile) Sync() error {
	f.m.mu.Lock()
	closed := f.closed
	if !closed {
		f.n.sync()
	}
	f.m.mu.Unlock()
	if closed {
		return f.pathErr("fdatasync", fs.ErrClosed)
	}
	f.m.done(Op{Kind: OpSync, Name: f.name})
	return nil
}

func (f *memFile) StartWriteback(off, n int64) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return f.pathErr("sync_file_range", fs.ErrClosed)
	}
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return 0, f.pathErr("stat", fs.ErrClosed)
	}
	return f.n.cur.size, nil
}

// Map moves the mapped pages into one piece of memory, so it costs n bytes. While a region is open the file cannot be mapped longer.
func (f *memFile) Map(n int64) (Region, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := f.useLocked(true)
	if err == nil {
		err = f.useLocked(false)
	}
	if err != nil {
		return nil, f.pathErr("mmap", err)
	}
	mem, err := f.n.mapSlab(n)
	if err != nil {
		return nil, f.pathErr("mmap", err)
	}
	f.n.regions++
	f.n.opens++
	return &memRegion{m: f.m, n: f.n, name: f.name, mem: mem}, nil
}

func (f *memFile) Fd() (uintptr, bool)      { return 0, false }
func (f *memFile) Cached(off, n int64) bool { return true }
func (f *memFile) Prefetch(off, n int64)    {}
func (f *memFile) NoReadAhead()             {}

func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return f.pathErr("close", fs.ErrClosed)
	}
	f.closed = true
	f.n.opens--
	f.m.freeIfUnusedLocked(f.n)
	return nil
}

// memRegion is a mapping of a memFile.
type memRegion struct {
	m    *Mem
	n    *memNode
	name string
	mem  []byte // nil when closed, guarded by m.mu
}

func (r *memRegion) Bytes() []byte { return r.mem }

func (r *memRegion) Sync() error {
	r.m.mu.Lock()
	closed := r.mem == nil
	if !closed {
		r.n.sync()
	}
	r.m.mu.Unlock()
	if closed {
		return &fs.PathError{Op: "msync", Path: r.name, Err: fs.ErrClosed}
	}
	r.m.done(Op{Kind: OpSyncRegion, Name: r.name})
	return nil
}

func (r *memRegion) Close() error {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	if r.mem == nil {
		return &fs.PathError{Op: "munmap", Path: r.name, Err: fs.ErrClosed}
	}
	r.mem = nil
	r.n.regions--
	r.n.opens--
	r.m.freeIfUnusedLocked(r.n)
	return nil
}
