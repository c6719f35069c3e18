//go:build unix

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func retryEINTR(call func() error) error {
	for {
		err := call()
		if err != unix.EINTR {
			return err
		}
	}
}

func isHeld(err error) bool {
	return errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES)
}

func unlockFile(*os.File) {} // closing the descriptor does it

func (o *osFile) Map(n int64) (Region, error) {
	if err := o.enter("mmap"); err != nil {
		return nil, err
	}
	defer o.exit()
	m, err := unix.Mmap(int(o.fd), 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, o.pathErr("mmap", err)
	}
	return &osRegion{name: o.f.Name(), mem: m}, nil
}

type osRegion struct {
	name string
	mem  []byte
}

func (r *osRegion) Bytes() []byte { return r.mem }

func (r *osRegion) Sync() error {
	err := retryEINTR(func() error { return unix.Msync(r.mem, unix.MS_SYNC) })
	return regionErr("msync", r.name, err)
}

func (r *osRegion) Close() error {
	if r.mem == nil {
		return regionErr("munmap", r.name, os.ErrClosed)
	}
	err := unix.Munmap(r.mem)
	r.mem = nil
	return regionErr("munmap", r.name, err)
}

func regionErr(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: name, Err: err}
}
