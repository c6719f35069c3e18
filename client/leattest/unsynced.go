package leattest

import (
	"io/fs"

	"github.com/leatmq/leat/internal/vfs"
)

// unsynced is the operating system's files without waiting for a disk: a test's data has to survive its broker, not the machine.
type unsynced struct{ vfs.FS }

func (u unsynced) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := u.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsynced) SyncDir(string) error { return nil }
func (unsynced) SyncFS(string) error  { return nil }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                       { return nil }
func (unsyncedFile) StartWriteback(off, n int64) error { return nil }

func (f unsyncedFile) Map(n int64) (vfs.Region, error) {
	r, err := f.File.Map(n)
	if err != nil {
		return nil, err
	}
	return unsyncedRegion{r}, nil
}

type unsyncedRegion struct{ vfs.Region }

func (unsyncedRegion) Sync() error { return nil }
