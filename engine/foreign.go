package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/leatmq/leat/internal/vfs"
)

// Whose a directory is gets settled before anything but .lock is written into it: a mistyped path must cost nothing. A directory with
// meta.properties is whose that file says. One without is new if there is no partition in it; other files don't matter, lost+found and hidden
// ones are everywhere. A partition without meta.properties is somebody else's, or ours and the file was lost: nobody may guess.

// survey is what a log directory had in it before it was touched.
type survey struct {
	meta       *metaProperties // nil: there was none
	partitions []string        // names of directories of partitions, when there was no meta.properties
	hadLock    bool            // the lock file was there
}

// look fills the survey of a directory that is locked.
func (s *survey) look(fsys vfs.FS, dir string) error {
	var err error
	if s.meta, err = readMetaProperties(fsys, dir); err != nil || s.meta != nil {
		return err
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir && isPartitionsDirName(entry.Name) {
			s.partitions = append(s.partitions, entry.Name)
		}
	}
	return nil
}

// isPartitionsDirName tells whether name is that of a partition's directory: in use, deleted or set aside.
func isPartitionsDirName(name string) bool {
	if head, ok := strings.CutSuffix(name, strayDirSuffix); ok && isDeletedDirName(head+deletedDirSuffix) {
		return true
	}
	_, ok := parsePartitionDirName(name)
	return ok || isDeletedDirName(name)
}

// checkIdentity checks that every directory in use belongs to this node of one cluster, or is new. known is a directory that says which
// cluster it is, nil when none does.
func (e *Engine) checkIdentity(known *logDir) error {
	for _, d := range e.dirs {
		switch s := &d.survey; {
		case d.err() != nil:
		case s.meta != nil:
			if err := s.meta.check(d.path, e.clusterID, e.o.NodeID); err != nil {
				return err
			}
		case len(s.partitions) > 0:
			return d.missingMeta(known)
		}
	}
	return nil
}

// missingMeta is the refusal of a directory with partitions and without meta.properties.
func (d *logDir) missingMeta(known *logDir) error {
	const shown = 3
	list := d.survey.partitions
	names := strings.Join(list[:min(shown, len(list))], ", ")
	if more := len(list) - shown; more > 0 {
		names = fmt.Sprintf("%s and %d more", names, more)
	}
	id := "cluster.id=... (the broker logs it whenever it begins to serve)"
	if d.e.clusterID != "" {
		id = "cluster.id=" + d.e.clusterID
	}
	lines := fmt.Sprintf("version=%s, %s, node.id=%d", metaPropertiesVersion, id, d.e.o.NodeID)
	if known != nil {
		lines += ", as in " + filepath.Join(known.path, metaPropertiesFileName)
	}
	return &MetaPropertiesError{Path: filepath.Join(d.path, metaPropertiesFileName), Kind: MetaMissing, Msg: fmt.Sprintf(
		"it is missing, but the directory has partitions (%s): restore it from a backup, or write it by hand with the lines %s; "+
			"if these are not this broker's partitions, choose another directory with --data-dir (log.dirs). Nothing was changed", names, lines)}
}

// openError adds to an error of opening the directory what can be done about it.
func (d *logDir) openError(err error) error {
	const choose = "choose another one with --data-dir (log.dirs)"
	var locked *vfs.LockedError
	switch {
	case errors.As(err, &locked):
		return fmt.Errorf("log directory %s is in use: %w: stop that process, or %s", d.path, err, choose)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("log directory %s is no directory: %w: move the file away, or %s", d.path, err, choose)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("log directory %s cannot be used: %w: let this user write there, or %s", d.path, err, choose)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("log directory %s cannot be used: %w: mount its file system for writing, or %s", d.path, err, choose)
	}
	return err
}

// withdraw gives the locks back and removes the lock files that were made: the directories are not used.
func (e *Engine) withdraw() error {
	var made []string
	for _, d := range e.dirs {
		if d.lock != nil && !d.survey.hadLock {
			made = append(made, filepath.Join(d.path, lockFileName))
		}
	}
	remove := func(path string) bool { return e.o.FS.Remove(path) != nil }
	var again []string // where an open file cannot be removed
	for _, path := range made {
		if remove(path) {
			again = append(again, path)
		}
	}
	err := e.unlock()
	for _, path := range again {
		remove(path)
	}
	return err
}
