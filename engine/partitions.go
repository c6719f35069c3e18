package engine

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

// Create makes the log of a partition. It is idempotent for the same topic id; a log of another id under this name is a left-over of a
// deleted topic and is moved away (B-A18). cfg is the topic's configuration and replaces the one an existing log has.
func (e *Engine) Create(tp TopicPartition, id [16]byte, cfg *config.Topic) (*Log, error) {
	name := partitionDirName(tp)
	if parsed, ok := parsePartitionDirName(name); !ok || parsed != tp || len(name) > dirNameBytesMax {
		return nil, fmt.Errorf("engine: %q is no partition name", tp.String())
	}
	lock := e.adminLock(tp)
	lock.Lock()
	defer lock.Unlock()
	if e.closed() {
		return nil, ErrClosed
	}
	if l := e.Log(tp); l != nil {
		keep, err := e.adopt(l, id, cfg)
		if keep || err != nil {
			return l, err
		}
	}
	d, err := e.placeNew(tp)
	if err != nil {
		return nil, err
	}
	return d.create(tp, id, cfg)
}

// adopt decides about a log that exists under the name: keep it, or move it away because it belongs to another topic.
func (e *Engine) adopt(l *Log, id [16]byte, cfg *config.Topic) (keep bool, err error) {
	switch {
	case l.id == id:
	case l.id == [16]byte{} || SameTopic(l.id, id): // created by a process that ended before it had written the id, or lost the file, or it is damaged
		if err := l.Err(); err != nil {
			return true, err
		}
		if err := l.dir.withReserve(func() error { return writeTopicID(e.o.FS, l.path, id) }); err != nil {
			return true, l.dir.failed("write topic id", err)
		}
		l.id = id
	default:
		e.log.Warn("moving away the log of an older topic of the same name", "partition", l.tp.String())
		return false, e.deleteLog(l)
	}
	l.SetConfig(cfg)
	return true, nil
}

// placeNew chooses the directory for a new log: the one with the fewest, of those that have room if any has. While a directory could not be loaded nobody knows what lies in it, and a
// partition must not begin anew, empty, beside its own data (B-A17).
func (e *Engine) placeNew(tp TopicPartition) (*logDir, error) {
	var best *logDir
	for _, d := range e.dirs {
		if !d.loaded {
			return nil, &StorageError{Path: d.path, Op: "create " + tp.String(), Err: fmt.Errorf("the directory was not loaded and may hold the partition: %w", d.err())}
		}
		if d.err() == nil && (best == nil || d.betterThan(best)) {
			best = d
		}
	}
	if best == nil {
		return nil, e.dirs[0].err()
	}
	return best, nil
}

// betterThan tells whether a new log should rather lie in d.
func (d *logDir) betterThan(other *logDir) bool {
	if room, otherRoom := d.reserve.space() == spaceRoom, other.reserve.space() == spaceRoom; room != otherRoom {
		return room
	}
	return d.count() < other.count()
}

// create makes the directory and first segment of a log, all durable before the log is known.
func (d *logDir) create(tp TopicPartition, id [16]byte, cfg *config.Topic) (*Log, error) {
	if err := d.disclaim(tp); err != nil {
		return nil, d.failed("create partition", err)
	}
	l := d.e.newLog(d, tp, cfg)
	l.id = id
	err := d.withReserve(func() error { // whoever asks has decided it already: see Room
		err := l.createFiles()
		if err != nil {
			_ = d.e.o.FS.RemoveAll(l.path) // best effort; the next start or Create takes what is left
		}
		return err
	})
	if err != nil {
		return nil, d.failed("create partition", err)
	}
	d.add(l)
	d.e.logs.Store(tp, l)
	return l, nil
}

func (l *Log) createFiles() error {
	fsys := l.e.o.FS
	if err := fsys.MkdirAll(l.path, 0o755); err != nil {
		return err
	}
	if err := l.createTopicID(); err != nil {
		return err
	}
	h, err := l.createSegment(l.cfg.Load(), 0, l.e.o.Now())
	if err != nil {
		return err
	}
	l.segs.Store(&segmentList{[]*handle{h}})
	err = fsys.SyncDir(l.path)
	if err == nil {
		err = l.dir.created.sync(func() error { return fsys.SyncDir(l.dir.path) })
	}
	if err == nil {
		_, err = h.Rest() // it may be long until somebody writes
	}
	if err != nil {
		h.Release()
	}
	return err
}

// createTopicID writes partition.metadata into a new directory: nobody can see the file before the directory's entries are synced, so it is not
// replaced as a whole.
func (l *Log) createTopicID() error {
	return vfs.WriteFileSynced(l.e.o.FS, filepath.Join(l.path, partitionMetadataFileName), formatTopicID(l.id))
}

// Delete removes a partition: its directory is renamed durably, the files go later in the background. A missing partition is no error.
func (e *Engine) Delete(tp TopicPartition) error {
	lock := e.adminLock(tp)
	lock.Lock()
	defer lock.Unlock()
	l := e.Log(tp)
	if l == nil {
		return nil
	}
	return e.deleteLog(l)
}

// deleteLog ends l and moves its directory away, to be removed after the delay. The partition's admin lock is held.
func (e *Engine) deleteLog(l *Log) error {
	id, err := e.newID()
	if err != nil {
		return err
	}
	to, err := e.moveAway(l, deletedDirName(l.tp, id))
	if err != nil {
		return err
	}
	e.trash.addDir(l.dir, to, e.o.Now()+l.cfg.Load().FileDeleteDelayMs)
	e.log.Info("partition deleted", "partition", l.tp.String(), "dir", to)
	return nil
}

// SetAside ends the log of a partition and renames its directory to one that the engine never looks at again, and returns the new path. Nothing is
// deleted. For logs that nobody can account for.
func (e *Engine) SetAside(tp TopicPartition) (path string, err error) {
	lock := e.adminLock(tp)
	lock.Lock()
	defer lock.Unlock()
	l := e.Log(tp)
	if l == nil {
		return "", fmt.Errorf("engine: there is no log of %v", tp)
	}
	id, err := e.newID()
	if err != nil {
		return "", err
	}
	return e.moveAway(l, strings.TrimSuffix(deletedDirName(tp, id), deletedDirSuffix)+strayDirSuffix)
}

// strayDirSuffix ends the name of a directory that was set aside; Kafka's word.
const strayDirSuffix = "-stray"

// moveAway ends l and durably renames its directory. On error the log is gone from the engine all the same; a later start finds the directory under
// its old name.
func (e *Engine) moveAway(l *Log, name string) (path string, err error) {
	l.maint.Lock()
	defer l.maint.Unlock()
	e.logs.CompareAndDelete(l.tp, l)
	l.dir.remove(l)
	l.fail(ErrDeleted)
	defer l.shut().release()
	d := l.dir
	if err := d.err(); err != nil {
		return "", err
	}
	path = filepath.Join(d.path, name)
	if err = d.withReserve(func() error { return e.o.FS.Rename(l.path, path) }); err == nil {
		err = e.o.FS.SyncDir(d.path)
	}
	return path, d.failed("move partition away", err)
}

// shut takes the segments away from the log, which has failed, and returns them. Readers that hold a Range keep it.
func (l *Log) shut() *segmentList {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
	l.tail.clear()
	return l.segs.Swap(nil)
}

// release gives the log's references back.
func (s *segmentList) release() {
	if s == nil {
		return
	}
	for _, h := range s.list {
		h.Release()
	}
}
