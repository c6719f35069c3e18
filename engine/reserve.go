package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/internal/vfs"
)

// space is how a log directory stands with its file system. The package comment ("A full disk") tells what each state means.
type space int32

const (
	spaceRoom   space = iota // nothing has found the disk full
	spaceFull                // something has; the reserve is whole
	spaceTapped              // and a part of the reserve was given back to the file system
)

// The reserve of a directory whose size is not configured.
const (
	reserveShare     = 1024 // of the file system, one part in so many
	reserveBytesMin  = 4 << 20
	reserveBytesMax  = 16 << 20
	reserveShareMost = 16 // at most one part in so many, whatever the limits above say
	reserveSteps     = 4  // it is released in so many parts
	// fullHeadroomMin is what must be free for a full directory to count as having room, when there is no reserve to compare with.
	fullHeadroomMin = 1 << 20
	// fullRetentionMs is how often retention is checked while a directory is full.
	fullRetentionMs = 5_000
)

// errReserved is why an append is refused without being tried.
var errReserved = fmt.Errorf("what is free is kept for deletions and checkpoints: %w", vfs.ErrDiskFull)

// reserve is a file that only occupies space, so that there is some to be had when the disk is full. It is not synced: a crash that loses it
// loses nothing, the next start makes it again.
type reserve struct {
	d     *logDir
	state atomic.Int32 // a space; changed under mu
	mu    struct {
		sync.Mutex
		bytes   int64 // what the file should have; 0 = no reserve is kept
		missing bool  // the file is not what it should be, and that is not known to be for want of space
	}
}

func (r *reserve) space() space { return space(r.state.Load()) }

func (r *reserve) path() string { return filepath.Join(r.d.path, reserveFileName) }

// reserveBytes is how large the reserve is on a file system of total bytes (0 = not known), configured as configured (-1 = automatic).
func reserveBytes(configured, total int64) int64 {
	switch {
	case configured >= 0:
		return configured
	case total <= 0:
		return reserveBytesMin
	}
	return min(max(total/reserveShare, reserveBytesMin), reserveBytesMax, total/reserveShareMost)
}

// open settles the size. What an earlier run left of the file is there to be released while the logs are loaded.
func (r *reserve) open() {
	usage, err := r.d.e.o.FS.Usage(r.d.path)
	if err != nil {
		usage = vfs.Usage{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.bytes = reserveBytes(r.d.e.o.Defaults.LogDirReserveBytes, usage.Total)
	size, err := r.sizeLocked()
	r.mu.missing = err != nil || size != r.mu.bytes
}

// sizeLocked returns how much of the reserve is there.
func (r *reserve) sizeLocked() (int64, error) {
	info, err := r.d.e.o.FS.Stat(r.path())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return info.Size, err
}

// release gives a part of the reserve back to the file system and reports whether there was anything to give.
func (r *reserve) release() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	size, err := r.sizeLocked()
	if err != nil || size == 0 {
		return false
	}
	keep := max(0, size-max(r.mu.bytes/reserveSteps, 1))
	if err := r.resizeLocked(keep); err != nil {
		r.d.e.log.Error("the reserve of a full disk cannot be released", "file", r.path(), "err", err)
		return false
	}
	if r.space() != spaceTapped {
		r.state.Store(int32(spaceTapped))
		r.d.e.log.Error("log directory is full, its reserve is in use: no append that needs space until space returns; reading and deleting go on",
			"dir", r.d.path, "released", size-keep, "left", keep)
	}
	return true
}

// resizeLocked makes the file size bytes long, all of them allocated.
func (r *reserve) resizeLocked(size int64) error {
	f, err := r.d.e.o.FS.OpenFile(r.path(), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	old, err := f.Size()
	switch {
	case err != nil:
		return err
	case size < old:
		if err = f.Truncate(size); err == nil {
			_ = f.Sync() // some file systems have the space only then; there is nothing in the file to lose
		}
	case size > old:
		if err = f.Allocate(old, size-old); err != nil {
			_ = f.Truncate(old)
		}
	}
	return err
}

// noteFull notes that something found no space.
func (r *reserve) noteFull(cause error) {
	if r.state.CompareAndSwap(int32(spaceRoom), int32(spaceFull)) {
		r.d.e.log.Error("log directory is full: appends that need space fail until space returns; reading and deleting go on", "dir", r.d.path, "err", cause)
	}
}

// check makes the reserve whole and the directory one that has room, if there is room. Called when the directory is loaded and by every Tick.
func (r *reserve) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.space() == spaceRoom && !r.mu.missing {
		return nil
	}
	size, err := r.sizeLocked()
	if err != nil {
		return err
	}
	missing := max(0, r.mu.bytes-size)
	headroom := max(r.mu.bytes, fullHeadroomMin)
	usage, err := r.d.e.o.FS.Usage(r.d.path)
	if known := err == nil && usage.Total > 0; known {
		headroom = min(headroom, usage.Total/reserveShareMost)
		if usage.Free < missing+headroom {
			r.stillFullLocked(missing, usage.Free)
			return nil
		}
	}
	err = r.growLocked(headroom)
	switch {
	case isDiskFull(err): // a quota, or somebody was faster
		r.stillFullLocked(missing, usage.Free)
		return nil
	case err != nil:
		r.mu.missing = true
		return err
	}
	r.mu.missing = false
	if space(r.state.Swap(int32(spaceRoom))) != spaceRoom {
		r.d.e.log.Info("log directory has space again", "dir", r.d.path, "reserve", r.mu.bytes)
	}
	return nil
}

// growLocked makes the file as large as it should be. That there is room for more is tried, not believed: what a file system says is free may be
// out of reach of a quota.
func (r *reserve) growLocked(headroom int64) error {
	if r.space() != spaceRoom {
		if err := r.resizeLocked(r.mu.bytes + headroom); err != nil {
			return err
		}
	}
	if r.mu.bytes > 0 {
		return r.resizeLocked(r.mu.bytes)
	}
	err := r.d.e.o.FS.Remove(r.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stillFullLocked sets the state of a directory that has no room.
func (r *reserve) stillFullLocked(missing, free int64) {
	r.mu.missing = false
	state := spaceFull
	if missing > 0 {
		state = spaceTapped
	}
	if space(r.state.Swap(int32(state))) == spaceRoom {
		r.d.e.log.Error("log directory is full: appends that need space fail until space returns; reading and deleting go on",
			"dir", r.d.path, "free", free, "missing reserve", missing)
	}
}

// withReserve does work that must be possible when the disk is full: while it finds no space and there is a reserve, a part of that is released and
// it is done again.
func (d *logDir) withReserve(work func() error) error {
	err := work()
	for isDiskFull(err) && d.reserve.release() {
		err = work()
	}
	return err
}

// UseReserve lets appends to this log take the space that is kept for a full disk. For the log without which nothing can be deleted: the cluster's
// metadata.
func (l *Log) UseReserve() { l.usesReserve.Store(true) }

// admit refuses an append that needs space when what is free is not for it. n bytes are to be in the active segment, or in a new one.
func (l *Log) admit(active *handle, n int, roll bool) error {
	if l.dir.reserve.space() != spaceTapped || l.usesReserve.Load() || !roll && active.Size()+int64(n) <= active.Allocated() {
		return nil
	}
	return &diskFullError{l.dir.path, errReserved}
}

// Room tells whether there is a log directory with room for a new partition that takes about n bytes: nil, ErrDiskFull, or ErrStorage when none is
// online.
func (e *Engine) Room(n int64) error {
	var full error
	for _, d := range e.dirs {
		if d.err() != nil {
			continue
		}
		usage, err := e.o.FS.Usage(d.path)
		short := err == nil && usage.Total > 0 && usage.Free < n
		if d.reserve.space() == spaceRoom && !short {
			return nil
		}
		full = &diskFullError{d.path, vfs.ErrDiskFull}
	}
	if full == nil {
		return e.dirs[0].err()
	}
	return full
}
