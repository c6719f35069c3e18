package engine

import (
	"sync"

	"github.com/leatmq/leat/segment"
)

// trash holds what is no longer part of any log and waits for file.delete.delay.ms: segments that retention took, directories of deleted
// partitions. It is memory only: a restart finds the directories by their names and removes .deleted files at once.
type trash struct {
	mu struct {
		sync.Mutex
		segments []trashSegment
		dirs     []trashDir
	}
}

type trashSegment struct {
	dueMs int64
	dir   *logDir
	seg   *segment.Segment // the owner's reference; its Delete has run
}

type trashDir struct {
	dueMs int64
	dir   *logDir
	path  string
}

func (t *trash) addSegment(d *logDir, s *segment.Segment, dueMs int64) {
	t.mu.Lock()
	t.mu.segments = append(t.mu.segments, trashSegment{dueMs, d, s})
	t.mu.Unlock()
}

func (t *trash) addDir(d *logDir, path string, dueMs int64) {
	t.mu.Lock()
	t.mu.dirs = append(t.mu.dirs, trashDir{dueMs, d, path})
	t.mu.Unlock()
}

// takeDue removes and returns what is due at now. In a full directory that is everything.
func (t *trash) takeDue(now int64) (segments []trashSegment, dirs []trashDir) {
	t.mu.Lock()
	defer t.mu.Unlock()
	keptSegments, keptDirs := t.mu.segments[:0], t.mu.dirs[:0]
	for _, s := range t.mu.segments {
		if s.dueMs <= now || s.dir.reserve.space() != spaceRoom {
			segments = append(segments, s)
		} else {
			keptSegments = append(keptSegments, s)
		}
	}
	for _, d := range t.mu.dirs {
		if d.dueMs <= now || d.dir.reserve.space() != spaceRoom {
			dirs = append(dirs, d)
		} else {
			keptDirs = append(keptDirs, d)
		}
	}
	clear(t.mu.segments[len(keptSegments):])
	clear(t.mu.dirs[len(keptDirs):])
	t.mu.segments, t.mu.dirs = keptSegments, keptDirs
	return segments, dirs
}

// emptyTrash removes what is due. A directory that cannot be removed now is tried again.
func (e *Engine) emptyTrash(now int64) {
	segments, dirs := e.trash.takeDue(now)
	for _, s := range segments {
		s.seg.Release() // the last release hands it to the background, which unlinks
	}
	for _, t := range dirs {
		if t.dir.err() != nil {
			continue
		}
		if err := e.o.FS.RemoveAll(t.path); err != nil {
			e.log.Warn("removing a deleted partition failed and is tried again", "dir", t.path, "err", err)
			e.trash.addDir(t.dir, t.path, now+trashRetryMs)
		}
	}
}

// trashRetryMs is how long a directory that could not be removed waits.
const trashRetryMs = 60_000
