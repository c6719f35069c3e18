package vfs

import (
	"errors"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// OS is the file system of the operating system.
//
// Linux is what it is made for. Elsewhere: Allocate writes zeros, StartWriteback, Prefetch and NoReadAhead do nothing, Cached says yes, SyncFS is
// unsupported.
var OS FS = osFS{}

type osFS struct{}

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	if flag&os.O_APPEND != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
	}
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &osFile{f: f, fd: f.Fd()}, nil
}

func (osFS) Rename(oldName, newName string) error         { return os.Rename(oldName, newName) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }
func (osFS) RemoveAll(name string) error                  { return os.RemoveAll(name) }
func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }
func (osFS) SetModTime(name string, t time.Time) error    { return os.Chtimes(name, time.Time{}, t) }

func (osFS) ReadDir(name string) ([]DirEntry, error) {
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	entries := make([]DirEntry, 0, len(list))
	for _, d := range list {
		if d.IsDir() { // nothing more is to be said about it, and there may be many
			entries = append(entries, DirEntry{Name: d.Name(), IsDir: true})
			continue
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, DirEntry{Name: d.Name(), IsDir: d.IsDir(), Size: fileSize(info)})
	}
	return entries, nil
}

func (osFS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: fileSize(info), IsDir: info.IsDir(), ModTime: info.ModTime()}, nil
}

func fileSize(info fs.FileInfo) int64 {
	if info.IsDir() {
		return 0
	}
	return info.Size()
}

// osFile keeps its descriptor open until the last running call has returned: a descriptor closed under a system call could by then
// belong to another file.
type osFile struct {
	f     *os.File
	fd    uintptr
	users atomic.Int64 // calls that run on fd; closing is the sign bit
}

const osFileClosed = -1 << 62

func (o *osFile) enter(op string) error {
	if o.users.Add(1) > 0 {
		return nil
	}
	o.exit()
	return &fs.PathError{Op: op, Path: o.f.Name(), Err: fs.ErrClosed}
}

func (o *osFile) exit() {
	if o.users.Add(-1) == osFileClosed {
		o.f.Close() // nobody is left to tell; the data was synced before or was not promised
	}
}

func (o *osFile) Close() error {
	for {
		n := o.users.Load()
		if n < 0 {
			return &fs.PathError{Op: "close", Path: o.f.Name(), Err: fs.ErrClosed}
		}
		if !o.users.CompareAndSwap(n, n+osFileClosed) {
			continue
		}
		if n == 0 {
			return o.f.Close()
		}
		return nil
	}
}

func (o *osFile) Name() string { return o.f.Name() }

func (o *osFile) ReadAt(p []byte, off int64) (int, error)  { return o.f.ReadAt(p, off) }
func (o *osFile) WriteAt(p []byte, off int64) (int, error) { return o.f.WriteAt(p, off) }
func (o *osFile) Truncate(size int64) error                { return o.f.Truncate(size) }

func (o *osFile) Fd() (uintptr, bool) { return o.fd, o.users.Load() >= 0 }

func (o *osFile) Size() (int64, error) {
	info, err := o.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// pathErr wraps the error of a system call like package os does.
func (o *osFile) pathErr(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: o.f.Name(), Err: err}
}

// allocateByWriting is Allocate where the system cannot: it writes zeros behind the end of the file. Holes before the end stay holes.
func allocateByWriting(f File, off, n int64) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	zeros := make([]byte, min(n, 1<<20))
	end := off + n
	if off > size {
		if err := f.Truncate(off); err != nil {
			return err
		}
	}
	for at := max(off, size); at < end; {
		k, err := f.WriteAt(zeros[:min(end-at, int64(len(zeros)))], at)
		if err != nil {
			return err
		}
		at += int64(k)
	}
	return nil
}

// writevByWriteAt is WritevAt where there is no pwritev.
func writevByWriteAt(f File, bufs [][]byte, off int64) (int64, error) {
	var done int64
	for _, b := range bufs {
		n, err := f.WriteAt(b, off+done)
		done += int64(n)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
