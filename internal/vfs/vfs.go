// Package vfs is the only door to files.
//
// Three implementations of FS behave alike where they can: OS (the real file system), Mem (in memory, crashable: a power cut at any
// moment, with what the storage stack may legally lose) and Fault (wraps another FS and makes the n-th matching operation fail, come up
// short or wait). One conformance suite runs against all of them.
//
// # What a caller may rely on
//
//   - Bytes written are durable after File.Sync (or SyncFS of their directory's file system) returned nil; so is a change of the file's size.
//   - A directory entry (create, rename, remove) is durable after SyncDir of its parent returned nil. Rename replaces atomically: after a
//     crash the new name holds the old file or the new one, never a mixture and never nothing.
//   - Allocated and never written space reads as zeros, before and after a crash.
//   - Without a Sync any subset of the written 4 KiB pages may survive a crash, in any combination, possibly torn at 512 bytes.
//   - A failed Sync is final: the data it covered may be gone, and a later successful Sync says nothing about it.
//   - WriteAt and WritevAt write everything or return an error; ENOSPC may leave a written prefix.
//   - A File and its Regions are closed by their owner when nobody uses them any more; a File used after Close returns fs.ErrClosed.
//
// # Mapped memory
//
// A Region is shared memory over a file. Reading or writing a page of it that has no file behind it (the file was truncated, or the disk
// failed) is a fault that kills the process unless the access runs under Guard. Every access outside this package does.
package vfs

import (
	"io"
	"io/fs"
	"time"
)

// FS is a file system. Names are operating system paths. All methods may be called from any goroutine.
type FS interface {
	// OpenFile opens name with os.O_* flags. O_APPEND is not supported: all writes are at explicit offsets.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Rename atomically moves oldName to newName, replacing a file of that name. Durable after SyncDir of the parents.
	Rename(oldName, newName string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes name and what is below it; a missing name is no error.
	RemoveAll(name string) error
	// MkdirAll creates the directory name and its missing parents.
	MkdirAll(name string, perm fs.FileMode) error
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]DirEntry, error)
	// Stat describes name; a missing name is an error that is fs.ErrNotExist.
	Stat(name string) (Info, error)
	// SetModTime sets the modification time of name.
	SetModTime(name string, t time.Time) error
	// SyncDir makes the entries of directory name durable.
	SyncDir(name string) error
	// SyncFS makes everything on the file system that holds name durable; errors.ErrUnsupported where there is no such call.
	SyncFS(name string) error
	// OwnFS tells whether name's file system is not the one of "/", so that SyncFS does not write back the rest of the machine.
	OwnFS(name string) bool
	// Lock takes the exclusive lock file name, creating it, and writes the holder ("pid N on HOST") into it. The lock is released by Close
	// and by the end of the process. A held lock is a *LockedError.
	Lock(name string) (io.Closer, error)
	// Usage tells the size of and the space left on the file system that holds name.
	Usage(name string) (Usage, error)
}

// File is an open file. All methods may be called from any goroutine; Close waits for none of them, but the descriptor stays open until the
// calls that run have returned.
type File interface {
	// Name returns the name the file was opened with.
	Name() string
	// ReadAt follows io.ReaderAt.
	ReadAt(p []byte, off int64) (int, error)
	// WriteAt writes all of p at off; n < len(p) implies an error.
	WriteAt(p []byte, off int64) (int, error)
	// WritevAt writes bufs one after the other starting at off, in as few system calls as possible. The same rule as for WriteAt. It does
	// not allocate and does not change bufs.
	WritevAt(bufs [][]byte, off int64) (int64, error)
	// Truncate sets the size; a larger size adds a hole.
	Truncate(size int64) error
	// Allocate makes sure that [off, off+n) has space on disk, and grows the file to off+n if it is shorter. Existing bytes stay, new ones
	// are zero. On error part of the range may have been allocated.
	Allocate(off, n int64) error
	// Sync makes the bytes and the size durable (fdatasync).
	Sync() error
	// StartWriteback asks the kernel to start writing [off, off+n) to disk. A hint: it makes nothing durable.
	StartWriteback(off, n int64) error
	// Size returns the current size.
	Size() (int64, error)
	// Map maps [0, n) of the file shared and writable. n may exceed the size; touching a page behind the last one of the file is a
	// fault until the file is allocated that far. The file must be open for reading and writing.
	Map(n int64) (Region, error)
	// Fd returns the descriptor for sendfile; false when there is none. It is valid until Close.
	Fd() (uintptr, bool)
	// Cached tells whether [off, off+n) is in the page cache, so that reading it does not wait for the disk. True when unknown.
	Cached(off, n int64) bool
	// Prefetch asks the kernel to read [off, off+n) into the page cache.
	Prefetch(off, n int64)
	// NoReadAhead tells the kernel that reads of this open file are not followed by others: it then reads only what it is asked for.
	NoReadAhead()
	// Close closes the file. Regions stay valid.
	Close() error
}

// FilesystemSyncer is a File, perhaps a directory, that can sync the whole file system it is on. It reports write errors that came after it was
// opened, also those that somebody else was told of.
type FilesystemSyncer interface{ SyncFilesystem() error }

// DirtyMeter is an FS that knows how many bytes of the machine's page cache wait for being written.
type DirtyMeter interface {
	DirtyBytes() (n int64, known bool)
}

// Region is mapped memory.
type Region interface {
	// Bytes returns the memory; valid until Close. Access it under Guard.
	Bytes() []byte
	// Sync makes what was written through the region durable.
	Sync() error
	// Close unmaps. The owner makes sure that nobody accesses Bytes any more.
	Close() error
}

// DirEntry is an entry of a directory. Size is 0 for a directory.
type DirEntry struct {
	Name  string
	IsDir bool
	Size  int64
}

// Info describes a file or directory. Size is 0 for a directory.
type Info struct {
	Size    int64
	IsDir   bool
	ModTime time.Time
}

// Usage tells the bytes of a file system: all of it, and those an unprivileged process may still use.
type Usage struct {
	Total, Free int64
}

// LockedError says that a lock file is held by another process (or another user of it in this one).
type LockedError struct {
	Path   string
	Holder string // what the holder wrote into the file, may be empty
}

func (e *LockedError) Error() string {
	holder := e.Holder
	if holder == "" {
		holder = "unknown holder"
	}
	return "lock file " + e.Path + " is held by " + holder
}

// FaultError says that an access to the mapped file Name faulted: the file is shorter than the mapping, or the disk could not deliver the page.
type FaultError struct {
	Name string
}

func (e *FaultError) Error() string {
	return "fault in the mapped file " + e.Name + ": it was truncated or its disk failed"
}
