package metadata

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
)

// snapshotter takes snapshots in the background, one at a time, and then lets go of the log that two snapshots cover. The
// order makes a crash harmless at any point: the new snapshot is durable before the log is trimmed, and the log is trimmed
// only up to the older of the two kept snapshots, so that a newest one that turns out damaged costs nothing.
type snapshotter struct {
	o    *Options
	log  replicatedLog
	dir  string
	done sync.WaitGroup

	mu struct {
		sync.Mutex
		last    int64 // offset of the newest snapshot (tried)
		bytes   int64 // of log since
		sinceMs int64 // by tick's clock: the first tick after the last snapshot, or after the start; unknown before it
		timed   bool  // sinceMs is known
		running bool
		over    bool
		good    []snapshotID // newest first; damaged ones are not here
		damaged []snapshotID
	}
}

func newSnapshotter(o *Options, log replicatedLog, dir string, h *history) *snapshotter {
	s := &snapshotter{o: o, log: log, dir: dir}
	s.mu.last, s.mu.bytes = h.base, h.bytes
	for _, id := range h.snapshots {
		if h.damaged[id] {
			s.mu.damaged = append(s.mu.damaged, id)
		} else {
			s.mu.good = append(s.mu.good, id)
		}
	}
	return s
}

// committed counts what was added to the log, and starts a snapshot of the image when it is time.
func (s *snapshotter) committed(image *Image, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.bytes += int64(bytes)
	if image.offset-s.mu.last >= s.o.SnapshotRecords || s.mu.bytes >= s.o.SnapshotBytes {
		s.beginLocked(image)
	}
}

// tick starts a snapshot of the image when the last one is old and something is new.
func (s *snapshotter) tick(image *Image, nowMs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.o.SnapshotIntervalMs <= 0:
	case !s.mu.timed:
		s.mu.sinceMs, s.mu.timed = nowMs, true
	case nowMs-s.mu.sinceMs >= s.o.SnapshotIntervalMs:
		s.beginLocked(image)
	}
}

// beginLocked starts a snapshot, unless there is nothing new or one is being taken.
func (s *snapshotter) beginLocked(image *Image) {
	if s.mu.running || image.offset == s.mu.last || s.mu.over {
		return
	}
	s.mu.running, s.mu.last, s.mu.bytes, s.mu.timed = true, image.offset, 0, false
	s.done.Go(func() { s.take(image) })
}

// end begins no more snapshots and waits for the one that is being taken.
func (s *snapshotter) end() {
	s.mu.Lock()
	s.mu.over = true
	s.mu.Unlock()
	s.done.Wait()
}

// take takes a snapshot. A failure costs nothing but the space of the log: the next one is tried in time.
func (s *snapshotter) take(image *Image) {
	if err := s.write(image); err != nil {
		s.o.Logger.Error("no metadata snapshot was taken: the metadata log keeps growing until one is", "offset", image.offset, "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.running = false
}

func (s *snapshotter) write(image *Image) error {
	id := snapshotID{image.offset, image.epoch}
	if err := writeSnapshot(s.o.FS, s.dir, image, s.o.Now()); err != nil {
		return err
	}
	if _, err := readSnapshot(s.o.FS, s.dir, id); err != nil {
		return fmt.Errorf("reading it back: %w", err)
	}
	s.mu.Lock()
	s.mu.good = slices.Insert(s.mu.good, 0, id)
	good, damaged := slices.Clone(s.mu.good), s.mu.damaged
	s.mu.Unlock()
	if len(good) < snapshotsKept {
		return nil
	}
	if err := s.log.trim(good[snapshotsKept-1].offset); err != nil {
		return fmt.Errorf("trimming the log: %w", err)
	}
	return s.forget(append(slices.Clone(good[snapshotsKept:]), damaged...), good[:snapshotsKept])
}

// forget removes snapshots that are not needed any more, the damaged ones among them: two good ones are newer.
func (s *snapshotter) forget(old, kept []snapshotID) error {
	for _, id := range old {
		if slices.Contains(kept, id) {
			continue // it was damaged, and has been written again
		}
		if err := s.o.FS.Remove(filepath.Join(s.dir, id.file())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing an old one: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.good, s.mu.damaged = slices.Clone(kept), nil
	return nil
}
