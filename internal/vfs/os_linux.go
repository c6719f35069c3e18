package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (osFS) SyncDir(name string) error { return onDir(name, "fsync", unix.Fsync) }

func (osFS) SyncFS(name string) error { return onDir(name, "syncfs", unix.Syncfs) }

// onDir runs call on a descriptor of name, which may also be a file.
func onDir(name, op string, call func(fd int) error) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := retryEINTR(func() error { return call(int(d.Fd())) }); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (osFS) OwnFS(name string) bool {
	var root, own unix.Stat_t
	if unix.Stat("/", &root) != nil || unix.Stat(filepath.Clean(name), &own) != nil {
		return false
	}
	return root.Dev != own.Dev
}

func (osFS) Usage(name string) (Usage, error) {
	var s unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(name, &s) }); err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return Usage{Total: int64(s.Blocks) * int64(s.Frsize), Free: int64(s.Bavail) * int64(s.Frsize)}, nil
}

func (o *osFile) Sync() error {
	if err := o.enter("fdatasync"); err != nil {
		return err
	}
	defer o.exit()
	for {
		// EINTR means that the call did not report anything yet. Every other error is final.
		err := unix.Fdatasync(int(o.fd))
		if err != unix.EINTR {
			return o.pathErr("fdatasync", err)
		}
	}
}

func (o *osFile) Allocate(off, n int64) error {
	if err := o.enter("fallocate"); err != nil {
		return err
	}
	defer o.exit()
	for {
		err := unix.Fallocate(int(o.fd), 0, off, n)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EOPNOTSUPP || err == unix.ENOSYS:
			return allocateByWriting(o, off, n)
		}
		return o.pathErr("fallocate", err)
	}
}

func (o *osFile) StartWriteback(off, n int64) error {
	if err := o.enter("sync_file_range"); err != nil {
		return err
	}
	defer o.exit()
	err := unix.SyncFileRange(int(o.fd), off, n, unix.SYNC_FILE_RANGE_WRITE)
	if err == unix.ENOSYS {
		return nil
	}
	return o.pathErr("sync_file_range", err)
}

func (o *osFile) Prefetch(off, n int64) {
	if o.enter("fadvise") != nil {
		return
	}
	defer o.exit()
	_ = unix.Fadvise(int(o.fd), off, n, unix.FADV_WILLNEED) // a hint
}

func (o *osFile) NoReadAhead() {
	if o.enter("fadvise") != nil {
		return
	}
	defer o.exit()
	_ = unix.Fadvise(int(o.fd), 0, 0, unix.FADV_RANDOM) // a hint
}

// iovMax is the most buffers one pwritev takes (IOV_MAX).
const iovMax = 1024

type iovecs [iovMax]unix.Iovec

var iovecPool = sync.Pool{New: func() any { return new(iovecs) }}

func (o *osFile) WritevAt(bufs [][]byte, off int64) (int64, error) {
	if len(bufs) == 1 {
		n, err := o.WriteAt(bufs[0], off)
		return int64(n), err
	}
	if err := o.enter("pwritev"); err != nil {
		return 0, err
	}
	defer o.exit()
	iov := iovecPool.Get().(*iovecs)
	done, err := o.pwritevAll(iov, bufs, off)
	iovecPool.Put(iov)
	runtime.KeepAlive(bufs)
	return done, o.pathErr("pwritev", err)
}

// pwritevAll writes bufs in calls of up to iovMax buffers, continuing inside a buffer after a short write.
func (o *osFile) pwritevAll(iov *iovecs, bufs [][]byte, off int64) (done int64, err error) {
	skip := 0 // bytes of bufs[0] that are written already
	for {
		count, want := fillIovecs(iov, bufs, skip)
		if count == 0 {
			return done, nil
		}
		n, err := pwritev(o.fd, iov, count, off+done)
		clear(iov[:count])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 && want > 0 {
			return done, io.ErrShortWrite
		}
		done += int64(n)
		bufs, skip = advance(bufs, skip, n)
	}
}

// fillIovecs describes the first non-empty buffers of bufs, without the first skip bytes, and returns how many buffers and bytes it took.
// One call writes at most 1 GiB: the kernel's own limit is just below 2 GiB.
func fillIovecs(iov *iovecs, bufs [][]byte, skip int) (count, bytes int) {
	for _, b := range bufs {
		b = b[skip:]
		skip = 0
		if len(b) == 0 {
			continue
		}
		if count == iovMax || bytes >= 1<<30 {
			break
		}
		iov[count].Base = &b[0]
		iov[count].SetLen(min(len(b), 1<<30))
		bytes += min(len(b), 1<<30)
		count++
	}
	return count, bytes
}

// advance moves (bufs, skip) n bytes forward.
func advance(bufs [][]byte, skip, n int) ([][]byte, int) {
	for len(bufs) > 0 && n >= len(bufs[0])-skip {
		n -= len(bufs[0]) - skip
		bufs, skip = bufs[1:], 0
	}
	return bufs, skip + n
}

func pwritev(fd uintptr, iov *iovecs, count int, off int64) (int, error) {
	// The kernel takes the offset in two halves; the upper one counts only where a register is too small for all of it.
	n, _, errno := unix.Syscall6(unix.SYS_PWRITEV, fd, uintptr(unsafe.Pointer(iov)), uintptr(count), uintptr(off), uintptr(uint64(off)>>32), 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// Cached asks cachestat(2) (Linux 6.5), else mincore(2).
func (o *osFile) Cached(off, n int64) bool {
	if n <= 0 || o.enter("cachestat") != nil {
		return true
	}
	defer o.exit()
	if !noCachestat.Load() {
		resident, err := cachestat(o.fd, off, n)
		if err == nil {
			return resident
		}
		noCachestat.Store(err == unix.ENOSYS || err == unix.EPERM)
	}
	resident, err := mincore(o.fd, off, n)
	return err != nil || resident
}

var noCachestat atomic.Bool // the kernel lacks (or a sandbox forbids) cachestat

var cachestatPool = sync.Pool{New: func() any { return new(cachestatArgs) }}

type cachestatArgs struct {
	r unix.CachestatRange
	s unix.Cachestat_t
}

func cachestat(fd uintptr, off, n int64) (bool, error) {
	a := cachestatPool.Get().(*cachestatArgs)
	defer cachestatPool.Put(a)
	a.r = unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
	if err := unix.Cachestat(uint(fd), &a.r, &a.s, 0); err != nil {
		return false, err
	}
	return a.s.Cache >= uint64(pagesIn(off, n, pageBytes)), nil
}

// pagesIn counts the pages of size page that [off, off+n) touches.
func pagesIn(off, n, page int64) int64 { return (off+n-1)/page - off/page + 1 }

var pageBytes = int64(os.Getpagesize())

// mincore looks at up to 1 MiB at a time, so that the answer vector stays small.
func mincore(fd uintptr, off, n int64) (bool, error) {
	const window = 1 << 20
	end := off + n
	for at := off / pageBytes * pageBytes; at < end; at += window {
		resident, err := mincoreWindow(fd, at, min(window, end-at))
		if err != nil || !resident {
			return false, err
		}
	}
	return true, nil
}

func mincoreWindow(fd uintptr, off, n int64) (bool, error) {
	m, err := unix.Mmap(int(fd), off, int(n), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return false, err
	}
	defer unix.Munmap(m)
	vec := make([]byte, pagesIn(off, n, pageBytes))
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&vec[0])))
	if errno != 0 {
		return false, errno
	}
	for _, v := range vec {
		if v&1 == 0 {
			return false, nil
		}
	}
	return true, nil
}

// lockFile takes both kinds of lock Linux knows: flock, which every other leat uses, and an open-file-description lock, which meets the
// POSIX lock that a Kafka broker holds on the same directory.
func lockFile(f *os.File) error {
	if err := retryEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
		return err
	}
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	err := retryEINTR(func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &whole) })
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.ENOTSUP) {
		return nil // flock alone has to do
	}
	return err
}
