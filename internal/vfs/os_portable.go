//go:build !linux

package vfs

// What only Linux has. The fallbacks keep the promises of File and FS, except for speed.

import "errors"

func (osFS) SyncFS(string) error { return errors.ErrUnsupported }

func (osFS) OwnFS(string) bool { return false }

func (o *osFile) Allocate(off, n int64) error { return allocateByWriting(o, off, n) }

func (o *osFile) WritevAt(bufs [][]byte, off int64) (int64, error) {
	return writevByWriteAt(o, bufs, off)
}

func (o *osFile) StartWriteback(off, n int64) error { return nil }

func (o *osFile) Cached(off, n int64) bool { return true }

func (o *osFile) Prefetch(off, n int64) {}

func (o *osFile) NoReadAhead() {}
