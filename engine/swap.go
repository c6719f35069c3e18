package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/segment"
)

// How compacted segments take the place of those they were made of. At any moment a restart finds the old ones or the new ones, whole:
//
//	.cleaned       being written. A restart removes them. They are whole and synced, and so is the directory, before the first gets another name
//	.swap          renamed from .cleaned, all of them. From the sync of the directory on the new segments are the truth: a restart removes the segments
//	               within the offsets of each and gives it its name. If a .cleaned file is left, that sync was not done: all are removed
//	.log.deleted   the old ones. The directory is synced: no old segment comes back beside a new one
//	.log           the new ones. The list of segments is swapped, the directory synced, and readers that hold an old segment read on in it until they
//	               are done
//
// One group of segments of a log is replaced at a time, and what an earlier attempt left is removed before the next.
//
// The segments of a log follow each other without gaps between them: the new ones begin and end where the old ones did. Within them offsets may be missing
// from then on, which the file .leat-compacted beside them says before the first is: without it, a batch that does not continue the one before is
// damage (segment.Options.Dense), whatever the topic's cleanup.policy is at the time (C9).
const compactedFileName = ".leat-compacted"

var compactedFileContent = []byte("0\n")

// swap is a replacement that was promised and not finished.
type swap struct {
	sources []source
	outs    []*segment.Cleaned
}

// prepareSwap finishes or removes what an earlier round left.
func (l *Log) prepareSwap() error {
	l.maint.Lock()
	defer l.maint.Unlock()
	if l.Err() != nil {
		return errMoved
	}
	if err := l.finishSwapLocked(); err != nil {
		return err
	}
	return l.removeUnpromised()
}

// createCleaned begins a segment that will replace others.
func (l *Log) createCleaned(base int64) (*segment.Cleaned, error) {
	l.maint.Lock()
	defer l.maint.Unlock()
	if l.Err() != nil {
		return nil, errMoved
	}
	return segment.CreateCleaned(l.path, base, l.cfg.Load().sparse)
}

// abortCleaned removes segments that are not promised.
func (l *Log) abortCleaned(outs []*segment.Cleaned) error {
	var errs []error
	for _, out := range outs {
		errs = append(errs, out.Abort())
	}
	return errors.Join(errs...)
}

// replaceSegments puts outs in the place of the segments g, to which the caller has references.
func (l *Log) replaceSegments(g []source, outs []*segment.Cleaned) error {
	appended := int64(0)
	for _, src := range g {
		appended = max(appended, src.AppendTimeMaxMs())
	}
	for _, out := range outs {
		if err := out.Sync(appended); err != nil {
			return errors.Join(err, l.abortCleaned(outs))
		}
	}
	l.maint.Lock()
	defer l.maint.Unlock()
	if l.Err() != nil || l.positionOf(l.segs.Load(), g) < 0 {
		return errors.Join(errMoved, l.abortCleaned(outs))
	}
	if err := l.promiseLocked(outs); err != nil {
		return err
	}
	l.compaction.swap = &swap{g, outs}
	return l.finishSwapLocked()
}

// positionOf returns where in the list the segments g are, -1 if they are not there as they were.
func (l *Log) positionOf(segs *segmentList, g []source) int {
	if segs == nil {
		return -1
	}
	i := segs.find(g[0].Base())
	if i+len(g) >= len(segs.list) { // the active one is never among them
		return -1
	}
	for k, src := range g {
		if segs.list[i+k] != src.handle {
			return -1
		}
	}
	return i
}

// promiseLocked makes outs what a restart finds. Nothing is promised when it returns an error, or the directory is offline.
func (l *Log) promiseLocked(outs []*segment.Cleaned) error {
	err := l.noteCompacted()
	for _, out := range outs {
		if err == nil {
			err = out.SyncIndexes()
		}
	}
	if err == nil {
		err = l.syncDir()
	}
	if err != nil {
		if path, ok := errors.AsType[*fs.PathError](err); ok && path.Path == l.path && strings.Contains(path.Op, "sync") {
			err = l.dir.syncFailed("sync directory", err) // there may be new segments of the log in it
		}
		return errors.Join(err, l.abortCleaned(outs))
	}
	for _, out := range outs {
		if err := out.Promise(); err != nil {
			// Some are .swap files now. The one that failed has a .cleaned file still, and it goes last.
			return errors.Join(l.dir.failed("rename compacted segments", err), l.removeUnpromised())
		}
	}
	return nil
}

// noteCompacted says on disk that offsets may be missing in the log's segments.
func (l *Log) noteCompacted() error {
	if l.gaps.Load() {
		return nil
	}
	if err := vfs.WriteFileAtomic(l.e.o.FS, filepath.Join(l.path, compactedFileName), compactedFileContent); err != nil {
		return err
	}
	l.gaps.Store(true)
	return nil
}

func (l *Log) syncPath() error {
	if err := l.syncDir(); err != nil {
		return l.dir.syncFailed("sync directory", err)
	}
	return nil
}

// finishSwapLocked finishes a replacement that was promised. An error leaves it for the next time: readers have the old segments meanwhile. maint is held.
func (l *Log) finishSwapLocked() error {
	sw := l.compaction.swap
	if sw == nil {
		return nil
	}
	if err := l.Err(); err != nil {
		return err // the next start finishes it
	}
	if err := l.dir.withReserve(func() error { return l.swapFiles(sw) }); err != nil {
		return l.dir.failed("replace segments by compacted ones", err)
	}
	if err := l.swapList(sw); err == errMoved {
		return err // closed
	} else if err != nil {
		return l.dir.failed("open compacted segments", err)
	}
	l.compaction.swap = nil
	segs := l.segs.Load()
	for _, src := range sw.sources {
		if segs.list[segs.find(src.Base())].Base() != src.Base() && src.Base() != l.promise.snapshotOffset {
			l.removeSnapshot(src.Base()) // no segment begins there any more
		}
		src.Release() // the owner's; the files go with the last reader
	}
	return l.syncPath()
}

func (l *Log) swapFiles(sw *swap) error {
	if err := l.syncPath(); err != nil { // the promise
		return err
	}
	for i := len(sw.sources) - 1; i >= 0; i-- {
		if err := sw.sources[i].Delete(); err != nil {
			return err
		}
	}
	if err := l.syncPath(); err != nil {
		return err
	}
	for i := len(sw.outs) - 1; i >= 0; i-- {
		if err := sw.outs[i].Install(); err != nil {
			return err
		}
	}
	return nil
}

// swapList opens the new segments and shows them to readers.
func (l *Log) swapList(sw *swap) error {
	var list []*handle
	for _, out := range sw.outs {
		s, err := segment.Open(l.path, out.Base(), l.cfg.Load().sparse, true)
		if err != nil {
			(&segmentList{list}).release()
			return err
		}
		h := &handle{Segment: s, createdMs: l.e.o.Now()}
		h.sealed.Store(true)
		list = append(list, h)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	segs := l.segs.Load()
	i := l.positionOf(segs, sw.sources)
	if i < 0 {
		(&segmentList{list}).release()
		return errMoved
	}
	l.segs.Store(&segmentList{slices.Concat(segs.list[:i], list, segs.list[i+len(sw.sources):])})
	return nil
}

// removeUnpromised removes what compactions that did not end well have left: .swap files first, durably, because they count once there is no .cleaned file.
// maint is held, and there is no promised replacement.
func (l *Log) removeUnpromised() error {
	entries, err := l.e.o.FS.ReadDir(l.path)
	if err != nil {
		return err
	}
	return removeStages(l.e.o.FS, l.path, entries)
}

func removeStages(fsys vfs.FS, dir string, entries []vfs.DirEntry) error {
	for _, stage := range []string{segment.SwapSuffix, segment.CleanedSuffix} {
		removed := false
		for _, e := range entries {
			if !strings.HasSuffix(e.Name, stage) {
				continue
			}
			removed = true
			if err := fsys.Remove(filepath.Join(dir, e.Name)); err != nil {
				return err
			}
		}
		if !removed {
			continue
		}
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// settleSwap finishes or undoes a replacement that an earlier run began, and tells whether it changed anything. A *DamageError when a promised segment cannot
// be read: nothing is changed then.
func settleSwap(fsys vfs.FS, dir string, entries []vfs.DirEntry) (changed bool, err error) {
	cleaned := false
	first := int64(math.MaxInt64) // base offset of the new segments, promised or not: that of the old ones
	var swaps []int64             // base offsets
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name] = true
		changed = changed || strings.HasSuffix(e.Name, segment.SwapSuffix)
		cleaned = cleaned || strings.HasSuffix(e.Name, segment.CleanedSuffix)
		if base, ok := parseBaseOffset(e.Name, logSuffix+segment.SwapSuffix); ok {
			swaps = append(swaps, base)
			first = min(first, base)
		}
		if base, ok := parseBaseOffset(e.Name, logSuffix+segment.CleanedSuffix); ok {
			first = min(first, base)
		}
	}
	slices.Sort(swaps)
	switch {
	case !changed && !cleaned:
		return false, nil
	case cleaned && (len(swaps) == 0 || names[logFileName(first)]): // and the old segments are there
		return true, removeStages(fsys, dir, entries)
	}
	for _, base := range swaps {
		if err := removeReplaced(fsys, dir, entries, names, base); err != nil {
			return true, err
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		return true, err
	}
	for i := len(entries) - 1; i >= 0; i-- {
		if name, ok := strings.CutSuffix(entries[i].Name, segment.SwapSuffix); ok {
			if err := fsys.Rename(filepath.Join(dir, entries[i].Name), filepath.Join(dir, name)); err != nil {
				return true, err
			}
		}
	}
	return true, fsys.SyncDir(dir)
}

// removeReplaced removes the segments within the offsets of the .swap file at base.
func removeReplaced(fsys vfs.FS, dir string, entries []vfs.DirEntry, names map[string]bool, base int64) error {
	name := filepath.Join(dir, logFileName(base)+segment.SwapSuffix)
	end, err := segment.NextOffsetOf(fsys, name, base)
	var corrupt *segment.CorruptError
	if errors.As(err, &corrupt) {
		return &DamageError{Path: dir, Offset: base, Msg: fmt.Sprintf("a compacted segment cannot be put in place: %v", err)}
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix} {
			old, ok := parseBaseOffset(e.Name, suffix)
			if !ok || old < base || old >= end || !names[logFileName(old)] && names[logFileName(old)+segment.SwapSuffix] {
				continue // or it has its name already, and only its data file has not
			}
			if err := fsys.Remove(filepath.Join(dir, e.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}
