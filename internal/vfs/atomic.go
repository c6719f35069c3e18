package vfs

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// TempSuffix ends the name of a file that WriteFileAtomic has not finished; a reader of a directory ignores (and may remove) such files.
const TempSuffix = ".tmp"

// WriteFileAtomic replaces the file name by data: after a crash at any moment name has its old content or data. When it returns nil, data is
// durable. It writes name+".tmp", syncs it, renames it and syncs the directory.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	tmp := name + TempSuffix
	if err := WriteFileSynced(fsys, tmp, data); err != nil {
		_ = fsys.Remove(tmp) // a half-written leftover would only waste space
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		_ = fsys.Remove(tmp)
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

// WriteFileSynced writes a file that nobody reads yet. Its content is durable when it returns nil, its entry is not: the caller syncs the directory. After a
// crash, or an error, any part of it may be there.
func WriteFileSynced(fsys FS, name string, data []byte) (err error) {
	f, err := fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Sync()
}

// TooLargeError says that a file is larger than what its reader is ready to hold in memory.
type TooLargeError struct {
	Name        string
	Size, Limit int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("file %s has %d bytes, more than the %d it may have", e.Name, e.Size, e.Limit)
}

// ReadFile reads the whole file name. A file of more than limit bytes is a *TooLargeError, a missing one an error that is fs.ErrNotExist.
func ReadFile(fsys FS, name string, limit int64) ([]byte, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, &TooLargeError{Name: name, Size: size, Limit: limit}
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && err != io.EOF {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data[:n], nil
}
