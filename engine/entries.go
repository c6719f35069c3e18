package engine

import "sync/atomic"

// dirEntries counts the changes of a partition directory that must be durable before what is in the new files is promised, and before another process may
// rely on the directory: before a mark speaks of it, before the log is closed as clean. A process that starts finds the directory in the page cache, and
// cannot tell which entries a power cut would take. After a load the directory is durable: the clean marker, the mark or the recovery says so.
type dirEntries struct {
	made   atomic.Int64
	synced atomic.Int64 // <= made: those below are durable
}

// add notes that a segment was created. Its first bytes come later.
func (d *dirEntries) add() { d.made.Add(1) }

// durable tells whether all entries are.
func (d *dirEntries) durable() bool { return d.synced.Load() >= d.made.Load() }

// syncedTo notes that a sync of the directory covered the first n changes: n was read from made before it began.
func (d *dirEntries) syncedTo(n int64) {
	for {
		old := d.synced.Load()
		if n <= old || d.synced.CompareAndSwap(old, n) {
			return
		}
	}
}

// syncDir makes the entries of the partition directory durable.
func (l *Log) syncDir() error {
	made := l.entries.made.Load()
	if err := l.e.o.FS.SyncDir(l.path); err != nil {
		return err
	}
	l.entries.syncedTo(made)
	return nil
}
