package vfs

import (
	"errors"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func (o *osFile) Sync() error { return o.f.Sync() }

// SyncDir does nothing: Windows has no call for it, NTFS journals its directories.
func (osFS) SyncDir(name string) error {
	_, err := os.Stat(name)
	return err
}

func (osFS) Usage(name string) (Usage, error) {
	p, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return Usage{}, &fs.PathError{Op: "GetDiskFreeSpaceEx", Path: name, Err: err}
	}
	var free, total uint64
	if err := windows.GetDiskFreeSpaceEx(p, &free, &total, nil); err != nil {
		return Usage{}, &fs.PathError{Op: "GetDiskFreeSpaceEx", Path: name, Err: err}
	}
	return Usage{Total: int64(total), Free: int64(free)}, nil
}

// The lock covers one byte far behind the text, so that others can still read who holds it.
func lockRange() *windows.Overlapped { return &windows.Overlapped{Offset: 0, OffsetHigh: 1 << 20} }

func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, lockRange())
}

func unlockFile(f *os.File) { _ = windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockRange()) }

func isHeld(err error) bool { return errors.Is(err, windows.ERROR_LOCK_VIOLATION) }

// Map grows the file to n: Windows maps nothing behind the end. A mapped file cannot be truncated there.
func (o *osFile) Map(n int64) (Region, error) {
	if err := o.enter("CreateFileMapping"); err != nil {
		return nil, err
	}
	defer o.exit()
	m, err := windows.CreateFileMapping(windows.Handle(o.fd), nil, windows.PAGE_READWRITE, uint32(n>>32), uint32(n), nil)
	if err != nil {
		return nil, o.pathErr("CreateFileMapping", err)
	}
	defer windows.CloseHandle(m)
	addr, err := windows.MapViewOfFile(m, windows.FILE_MAP_READ|windows.FILE_MAP_WRITE, 0, 0, uintptr(n))
	if err != nil {
		return nil, o.pathErr("MapViewOfFile", err)
	}
	// The address comes from the system, not from Go: converting it through a pointer to it says so.
	mem := unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), int(n))
	return &osRegion{name: o.f.Name(), addr: addr, mem: mem}, nil
}

type osRegion struct {
	name string
	addr uintptr
	mem  []byte
}

func (r *osRegion) Bytes() []byte { return r.mem }

func (r *osRegion) Sync() error {
	if err := windows.FlushViewOfFile(r.addr, uintptr(len(r.mem))); err != nil {
		return &fs.PathError{Op: "FlushViewOfFile", Path: r.name, Err: err}
	}
	return nil
}

func (r *osRegion) Close() error {
	if r.mem == nil {
		return &fs.PathError{Op: "UnmapViewOfFile", Path: r.name, Err: fs.ErrClosed}
	}
	r.mem = nil
	if err := windows.UnmapViewOfFile(r.addr); err != nil {
		return &fs.PathError{Op: "UnmapViewOfFile", Path: r.name, Err: err}
	}
	return nil
}
