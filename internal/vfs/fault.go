package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// Fault wraps a file system and makes chosen operations fail, come up short or wait. It also counts and records operations.
//
// A test that wants to see every failure once counts the operations of a run without injections and then makes the first, second, ... one fail:
//
//	for n := 1; ; n++ {
//		f := vfs.NewFault(vfs.NewMem(1))
//		i := f.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpSync), Nth: n, Err: syscall.EIO})
//		run(f)
//		if i.Hits() == 0 {
//			break // there are less than n
//		}
//	}
type Fault struct {
	fsys FS

	mu struct {
		sync.Mutex
		injections []*Injected
		counts     [opCount]int64
		log        []Op
		logging    bool
		cached     func(name string, off, n int64) bool
	}
}

// Injection says which operations are changed, and how.
type Injection struct {
	// Match chooses operations; nil means all. It is called with a lock held and must not use the Fault.
	Match func(Op) bool
	// Nth is the matching operation that is hit, from 1 on. 0 means every one.
	Nth int
	// Sticky means that every matching operation after the Nth is hit, too.
	Sticky bool
	// Err is what the operation returns; nil means that it is done as usual (after Before).
	Err error
	// Short is how many bytes of a write or read are done for real before Err; 0 means none.
	Short int64
	// Before, when set, runs before a hit operation, without a lock: it may block, or crash a Mem.
	Before func(Op)
}

// Injected is an Injection at work.
type Injected struct {
	f       *Fault
	in      Injection
	matched int // guarded by f.mu
	hits    int // guarded by f.mu
}

// Hits tells how many operations were hit.
func (i *Injected) Hits() int {
	i.f.mu.Lock()
	defer i.f.mu.Unlock()
	return i.hits
}

// Remove ends the injection.
func (i *Injected) Remove() {
	i.f.mu.Lock()
	defer i.f.mu.Unlock()
	kept := make([]*Injected, 0, len(i.f.mu.injections))
	for _, other := range i.f.mu.injections {
		if other != i {
			kept = append(kept, other)
		}
	}
	i.f.mu.injections = kept
}

// NewFault wraps fsys.
func NewFault(fsys FS) *Fault { return &Fault{fsys: fsys} }

// OfKind matches the operations of some kinds.
func OfKind(kinds ...OpKind) func(Op) bool {
	var set [opCount]bool
	for _, k := range kinds {
		set[k] = true
	}
	return func(op Op) bool { return set[op.Kind] }
}

// Mutating matches every operation that changes what a crash may lose.
func Mutating(op Op) bool { return op.Kind.mutates() }

// Inject adds an injection. When several hit one operation, the first one added counts.
func (f *Fault) Inject(in Injection) *Injected {
	i := &Injected{f: f, in: in}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.injections = append(f.mu.injections, i)
	return i
}

// Clear removes all injections.
func (f *Fault) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.injections = nil
}

// Count returns how many operations of the kinds (none: of all) were tried.
func (f *Fault) Count(kinds ...OpKind) (n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(kinds) == 0 {
		for _, c := range f.mu.counts {
			n += c
		}
	}
	for _, k := range kinds {
		n += f.mu.counts[k]
	}
	return n
}

// Record starts (or restarts, with an empty log) the recording of operations.
func (f *Fault) Record() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.log, f.mu.logging = nil, true
}

// Recorded returns the operations tried since Record, hit or not.
func (f *Fault) Recorded() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Op(nil), f.mu.log...)
}

// SetCached answers File.Cached; nil asks the wrapped file.
func (f *Fault) SetCached(cached func(name string, off, n int64) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.cached = cached
}

// enter counts op and returns the injection that hits it, nil for none. Before has run.
func (f *Fault) enter(op Op) *Injection {
	hit := f.hit(op)
	if hit != nil && hit.Before != nil {
		hit.Before(op)
	}
	return hit
}

func (f *Fault) hit(op Op) (first *Injection) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.counts[op.Kind]++
	if f.mu.logging {
		f.mu.log = append(f.mu.log, op)
	}
	for _, i := range f.mu.injections {
		if i.in.Match != nil && !i.in.Match(op) {
			continue
		}
		i.matched++
		if i.in.Nth != 0 && i.matched != i.in.Nth && !(i.in.Sticky && i.matched > i.in.Nth) {
			continue
		}
		if first == nil {
			i.hits++
			first = &i.in
		}
	}
	return first
}

// do runs call unless an injection fails op.
func (f *Fault) do(op Op, call func() error) error {
	if hit := f.enter(op); hit != nil && hit.Err != nil {
		return injectedErr(op, hit.Err)
	}
	return call()
}

func injectedErr(op Op, err error) error {
	return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: err}
}

// OpenFile implements FS. It is an OpCreate when flag can create or truncate, whether or not the file exists.
func (f *Fault) OpenFile(name string, flag int, perm fs.FileMode) (file File, err error) {
	op := Op{Kind: OpOpen, Name: name}
	if flag&(os.O_CREATE|os.O_TRUNC) != 0 {
		op.Kind = OpCreate
	}
	err = f.do(op, func() error {
		inner, err := f.fsys.OpenFile(name, flag, perm)
		if err == nil {
			file = &faultFile{f: f, File: inner, name: name}
		}
		return err
	})
	return file, err
}

// Rename implements FS.
func (f *Fault) Rename(oldName, newName string) error {
	op := Op{Kind: OpRename, Name: oldName, NewName: newName}
	return f.do(op, func() error { return f.fsys.Rename(oldName, newName) })
}

// Remove implements FS.
func (f *Fault) Remove(name string) error {
	return f.do(Op{Kind: OpRemove, Name: name}, func() error { return f.fsys.Remove(name) })
}

// RemoveAll implements FS.
func (f *Fault) RemoveAll(name string) error {
	return f.do(Op{Kind: OpRemoveAll, Name: name}, func() error { return f.fsys.RemoveAll(name) })
}

// MkdirAll implements FS.
func (f *Fault) MkdirAll(name string, perm fs.FileMode) error {
	return f.do(Op{Kind: OpMkdirAll, Name: name}, func() error { return f.fsys.MkdirAll(name, perm) })
}

// ReadDir implements FS.
func (f *Fault) ReadDir(name string) (list []DirEntry, err error) {
	err = f.do(Op{Kind: OpReadDir, Name: name}, func() (err error) {
		list, err = f.fsys.ReadDir(name)
		return err
	})
	return list, err
}

// Stat implements FS.
func (f *Fault) Stat(name string) (info Info, err error) {
	err = f.do(Op{Kind: OpStat, Name: name}, func() (err error) {
		info, err = f.fsys.Stat(name)
		return err
	})
	return info, err
}

// SetModTime implements FS.
func (f *Fault) SetModTime(name string, t time.Time) error {
	return f.do(Op{Kind: OpSetModTime, Name: name}, func() error { return f.fsys.SetModTime(name, t) })
}

// SyncDir implements FS.
func (f *Fault) SyncDir(name string) error {
	return f.do(Op{Kind: OpSyncDir, Name: name}, func() error { return f.fsys.SyncDir(name) })
}

// SyncFS implements FS.
func (f *Fault) SyncFS(name string) error {
	return f.do(Op{Kind: OpSyncFS, Name: name}, func() error { return f.fsys.SyncFS(name) })
}

// OwnFS implements FS.
func (f *Fault) OwnFS(name string) bool { return f.fsys.OwnFS(name) }

// Lock implements FS.
func (f *Fault) Lock(name string) (lock io.Closer, err error) {
	err = f.do(Op{Kind: OpLock, Name: name}, func() (err error) {
		lock, err = f.fsys.Lock(name)
		return err
	})
	return lock, err
}

// Usage implements FS.
func (f *Fault) Usage(name string) (u Usage, err error) {
	err = f.do(Op{Kind: OpUsage, Name: name}, func() (err error) {
		u, err = f.fsys.Usage(name)
		return err
	})
	return u, err
}

// faultFile is an open file of a Fault. What it does not override goes to the wrapped file: Name, Size, Fd, Prefetch, NoReadAhead.
type faultFile struct {
	File
	f    *Fault
	name string
}

func (x *faultFile) op(kind OpKind, off, n int64) Op {
	return Op{Kind: kind, Name: x.name, Off: off, N: n}
}

func (x *faultFile) ReadAt(p []byte, off int64) (int, error) {
	op := x.op(OpRead, off, int64(len(p)))
	if hit := x.f.enter(op); hit != nil && hit.Err != nil {
		n, _ := x.File.ReadAt(p[:min(hit.Short, int64(len(p)))], off)
		return n, injectedErr(op, hit.Err)
	}
	return x.File.ReadAt(p, off)
}

func (x *faultFile) WriteAt(p []byte, off int64) (int, error) {
	op := x.op(OpWrite, off, int64(len(p)))
	if hit := x.f.enter(op); hit != nil && hit.Err != nil {
		n, err := x.File.WriteAt(p[:min(hit.Short, int64(len(p)))], off)
		return n, firstErr(err, injectedErr(op, hit.Err))
	}
	return x.File.WriteAt(p, off)
}

func (x *faultFile) WritevAt(bufs [][]byte, off int64) (int64, error) {
	op := x.op(OpWrite, off, totalLen(bufs))
	if hit := x.f.enter(op); hit != nil && hit.Err != nil {
		n, err := x.File.WritevAt(firstBytes(bufs, hit.Short), off)
		return n, firstErr(err, injectedErr(op, hit.Err))
	}
	return x.File.WritevAt(bufs, off)
}

func firstErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func totalLen(bufs [][]byte) (n int64) {
	for _, b := range bufs {
		n += int64(len(b))
	}
	return n
}

// firstBytes returns the first n bytes of bufs.
func firstBytes(bufs [][]byte, n int64) (head [][]byte) {
	for _, b := range bufs {
		k := min(n, int64(len(b)))
		head = append(head, b[:k])
		n -= k
	}
	return head
}

func (x *faultFile) Truncate(size int64) error {
	return x.f.do(x.op(OpTruncate, 0, size), func() error { return x.File.Truncate(size) })
}

func (x *faultFile) Allocate(off, n int64) error {
	return x.f.do(x.op(OpAllocate, off, n), func() error { return x.File.Allocate(off, n) })
}

func (x *faultFile) Sync() error { return x.f.do(x.op(OpSync, 0, 0), x.File.Sync) }

func (x *faultFile) StartWriteback(off, n int64) error {
	return x.f.do(x.op(OpStartWriteback, off, n), func() error { return x.File.StartWriteback(off, n) })
}

func (x *faultFile) Map(n int64) (r Region, err error) {
	err = x.f.do(x.op(OpMap, 0, n), func() error {
		inner, err := x.File.Map(n)
		if err == nil {
			r = &faultRegion{Region: inner, x: x}
		}
		return err
	})
	return r, err
}

func (x *faultFile) Cached(off, n int64) bool {
	x.f.mu.Lock()
	cached := x.f.mu.cached
	x.f.mu.Unlock()
	if cached != nil {
		return cached(x.name, off, n)
	}
	return x.File.Cached(off, n)
}

// Close closes the wrapped file even when it is made to fail.
func (x *faultFile) Close() error {
	op := x.op(OpClose, 0, 0)
	hit := x.f.enter(op)
	err := x.File.Close()
	if hit != nil && hit.Err != nil {
		return injectedErr(op, hit.Err)
	}
	return err
}

type faultRegion struct {
	Region
	x *faultFile
}

func (r *faultRegion) Sync() error { return r.x.f.do(r.x.op(OpSyncRegion, 0, 0), r.Region.Sync) }

// ErrDiskFull and ErrDiskBroken are what a full and a failing disk answer, for injections.
var (
	ErrDiskFull   error = syscall.ENOSPC
	ErrDiskBroken error = syscall.EIO
)
