package metadata

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// history is what a start found.
type history struct {
	image     *Image
	snapshots []snapshotID // valid or not, newest first
	damaged   map[snapshotID]bool
	base      int64             // offset of the snapshot that was loaded; 0 without one
	bytes     int64             // of log replayed behind it
	removed   map[[16]byte]bool // ids of topics whose removal was replayed
}

// loadHistory makes the image of a snapshot and the log behind it.
//
//  1. The newest snapshot that reads back without a doubt is the base; damaged ones are said loudly and left where they are.
//  2. Without one the base is the empty image at offset 0.
//  3. The log must begin at or below the base and must reach at least as far as the newest snapshot ever taken, damaged or
//     not: snapshots are only taken of what is committed. Anything else means that a part of the history is lost, and the
//     start is refused (B-A11): nobody may conclude from a lost history that topics don't exist.
//  4. Every record from the base to the log's end is replayed. It must be readable, known and fit.
func loadHistory(fsys vfs.FS, dir string, log replicatedLog, logger *slog.Logger) (*history, error) {
	ids, err := listSnapshots(fsys, dir)
	if err != nil {
		return nil, err
	}
	h := &history{image: Empty(), snapshots: ids, damaged: map[snapshotID]bool{}}
	if err := h.loadBase(fsys, dir, logger); err != nil {
		return nil, err
	}
	if err := h.checkBounds(log, dir); err != nil {
		return nil, err
	}
	return h, h.replay(log)
}

func (h *history) loadBase(fsys vfs.FS, dir string, logger *slog.Logger) error {
	for _, id := range h.snapshots {
		image, err := readSnapshot(fsys, dir, id)
		if err == nil {
			h.image, h.base = image, id.offset
			return nil
		}
		var format *FormatError
		if !errors.As(err, &format) {
			return err
		}
		if format.Newer {
			format.Fix = "start the version of leat that wrote it, or a newer one"
			return format
		}
		logger.Error("a metadata snapshot is damaged: trying the one before it", "file", filepath.Join(dir, id.file()), "error", err)
		h.damaged[id] = true
	}
	return nil
}

func (h *history) checkBounds(log replicatedLog, dir string) error {
	start, end := log.bounds()
	fix := "restore this directory from a backup"
	if start > h.base {
		what := "there is no snapshot"
		if len(h.damaged) > 0 {
			what = fmt.Sprintf("%d snapshot(s) are damaged and there is no other", len(h.damaged))
		}
		if h.base > 0 {
			what = fmt.Sprintf("the newest good snapshot ends at %d", h.base)
		}
		return &FormatError{Where: dir, Msg: fmt.Sprintf("the metadata log begins at offset %d and %s: what was before is lost", start, what), Fix: fix}
	}
	if len(h.snapshots) > 0 && end < h.snapshots[0].offset {
		return &FormatError{Where: dir, Msg: fmt.Sprintf("the metadata log ends at offset %d, but there is a snapshot of offset %d: the log has lost its end",
			end, h.snapshots[0].offset), Fix: fix}
	}
	return nil
}

// replay brings the image to the log's end.
func (h *history) replay(log replicatedLog) error {
	_, end := log.bounds()
	e := newEditor(h.image)
	err := log.read(h.base, func(b record.Batch) error {
		h.bytes += int64(len(b))
		return e.replay(b)
	})
	if err != nil {
		return err
	}
	if e.next.offset != end {
		return &FormatError{Where: logPlace(e.next.offset), Msg: fmt.Sprintf("the log should go on to offset %d", end), Fix: "restore " + MetadataTopic + "-0 from a backup"}
	}
	h.image, _ = e.finish()
	h.removed = make(map[[16]byte]bool, len(e.removed))
	for _, id := range e.removed {
		h.removed[id] = true
	}
	return nil
}
