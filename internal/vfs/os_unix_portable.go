//go:build unix && !linux

package vfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Sync is os.File.Sync: F_FULLFSYNC on darwin, where fsync does not reach the medium.
func (o *osFile) Sync() error { return o.f.Sync() }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (osFS) Usage(name string) (Usage, error) {
	var s unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(name, &s) }); err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return Usage{Total: int64(s.Blocks) * int64(s.Bsize), Free: int64(s.Bavail) * int64(s.Bsize)}, nil
}

func lockFile(f *os.File) error {
	return retryEINTR(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
}
