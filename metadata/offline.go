package metadata

import (
	"fmt"
	"path/filepath"

	"github.com/leatmq/leat/internal/vfs"
)

// IsSnapshotFile tells whether a file of this name is a snapshot of the metadata.
func IsSnapshotFile(name string) bool {
	_, ok := parseSnapshotName(filepath.Base(name))
	return ok
}

// VerifySnapshotFile reads a snapshot as a start would, offline, and says what is wrong with it.
func VerifySnapshotFile(fsys vfs.FS, path string) error {
	id, ok := parseSnapshotName(filepath.Base(path))
	if !ok {
		return fmt.Errorf("%s is not named like a snapshot of the metadata", path)
	}
	_, err := readSnapshot(fsys, filepath.Dir(path), id)
	return err
}
