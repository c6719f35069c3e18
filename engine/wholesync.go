package engine

import (
	"os"

	"github.com/leatmq/leat/internal/vfs"
)

const (
	// foreignDirtyMax is how much memory may wait for being written, to any file of the machine, for a sync of a whole file system that others use
	// too: it is the most that such a sync writes for them.
	foreignDirtyMax = 32 << 20
	// dirtyLookMs is how long one look at that memory counts.
	dirtyLookMs = 100
)

// wholeSync syncs the file system a log directory is on: one call for any number of files. It belongs to the directory's flusher.
type wholeSync struct {
	d *logDir
	// dir is the directory, held open where the system can sync through it: a write error that came after the opening is reported there even if
	// somebody else was told of it before. nil: vfs.FS.SyncFS is used.
	dir     vfs.File
	dirtyAt int64 // broker time of the last look, 0 = never
	little  bool  // what it saw
}

func (w *wholeSync) open(d *logDir) {
	w.d = d
	f, err := d.e.o.FS.OpenFile(d.path, os.O_RDONLY, 0)
	if err != nil {
		return // not a system where a directory can be opened
	}
	if _, ok := f.(vfs.FilesystemSyncer); !ok {
		f.Close()
		return
	}
	w.dir = f
}

func (w *wholeSync) close() {
	if w.dir != nil {
		w.dir.Close()
	}
}

// sync returns errors.ErrUnsupported, perhaps wrapped, where there is no such call.
func (w *wholeSync) sync() error {
	if w.dir != nil {
		return w.dir.(vfs.FilesystemSyncer).SyncFilesystem()
	}
	return w.d.e.o.FS.SyncFS(w.d.path)
}

// harmless tells that little is dirty on the whole machine, so that a sync of a shared file system does not wait for the bytes of others.
func (w *wholeSync) harmless() bool {
	meter, ok := w.d.e.o.FS.(vfs.DirtyMeter)
	if !ok {
		return false
	}
	if now := w.d.e.o.Now(); w.dirtyAt == 0 || now-w.dirtyAt >= dirtyLookMs || now < w.dirtyAt {
		n, known := meter.DirtyBytes()
		w.little, w.dirtyAt = known && n <= foreignDirtyMax, now
	}
	return w.little
}
