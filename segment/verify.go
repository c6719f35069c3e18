package segment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// ProblemKind says what is wrong with a file.
type ProblemKind uint8

const (
	// UnusedSpace: zeros behind the end, allocated ahead. Normal while the segment is written.
	UnusedSpace ProblemKind = iota
	// BadBatch: a batch whose checksum, header or records are not right.
	BadBatch
	// BadTail: bytes behind the last batch that are neither zeros nor a batch.
	BadTail
	// BadOrder: offsets that go back, or do not fit the segment.
	BadOrder
	// BadEntry: an index entry that is impossible or out of order.
	BadEntry
	// WrongEntry: an index entry that does not agree with the data file.
	WrongEntry
)

var problemNames = [...]string{"unused space", "bad batch", "bad tail", "bad order", "bad index entry", "wrong index entry"}

func (k ProblemKind) String() string {
	if int(k) < len(problemNames) {
		return problemNames[k]
	}
	return fmt.Sprintf("ProblemKind(%d)", uint8(k))
}

// Problem is something found by Verify.
type Problem struct {
	File string
	Pos  int64 // in bytes
	Kind ProblemKind
	Msg  string
}

func (p Problem) String() string {
	return fmt.Sprintf("%s at %d: %s: %s", p.File, p.Pos, p.Kind, p.Msg)
}

// Harmless tells that the problem is none for a segment that is being written.
func (p Problem) Harmless() bool { return p.Kind == UnusedSpace }

// Verify checks one file of a segment by its name and calls fn for each problem. Data files: every batch, with deep every record.
// Indexes: every entry, by itself and against the data file beside it. An error is one of reading, of an unknown name, or of fn.
func Verify(fsys vfs.FS, name string, deep bool, fn func(Problem) error) error {
	base, suffix, ok := ParseFileName(name)
	suffix, isDeleted := strings.CutSuffix(suffix, DeletedSuffix)
	v := verifier{fsys: fsys, name: name, base: base, log: filepath.Join(filepath.Dir(name), FileName(base, LogSuffix)), fn: fn}
	if isDeleted {
		v.log += DeletedSuffix
	}
	switch {
	case ok && suffix == LogSuffix:
		return v.verifyLog(deep)
	case ok && suffix == IndexSuffix:
		return v.verifyOffsets()
	case ok && suffix == TimeIndexSuffix:
		return v.verifyTimes()
	case ok && suffix == TxnIndexSuffix:
		return v.verifyTxns()
	}
	return &NameError{Name: name, Want: strings.Join(suffixes[:], ", ")}
}

// VerifySegment checks all files of a segment that are there.
func VerifySegment(fsys vfs.FS, dir string, base int64, deep bool, fn func(Problem) error) error {
	for _, suffix := range suffixes {
		name := filepath.Join(dir, FileName(base, suffix))
		if _, err := fsys.Stat(name); err != nil && suffix != LogSuffix {
			continue
		}
		if err := Verify(fsys, name, deep, fn); err != nil {
			return err
		}
	}
	return nil
}

// VerifyOrder checks that each segment of a directory ends where the next one begins. Of each it reads the batch headers. A segment that a compaction
// worked on may rightly end early.
func VerifyOrder(fsys vfs.FS, dir string, fn func(Problem) error) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	end, pos, known := int64(0), int64(0), false
	before := ""
	for _, e := range entries { // sorted, and names sort as offsets do
		base, suffix, ok := ParseFileName(e.Name)
		if !ok || e.IsDir || suffix != LogSuffix {
			continue
		}
		if known && end != base {
			msg := fmt.Sprintf("the records from offset %d up to offset %d are missing", end, base)
			if end > base {
				msg = fmt.Sprintf("the last batch ends with offset %d, but the next segment begins with %d", end-1, base)
			}
			if err := fn(Problem{File: before, Pos: pos, Kind: BadOrder, Msg: msg}); err != nil {
				return err
			}
		}
		before = filepath.Join(dir, e.Name)
		if end, pos, known, err = lastHeader(fsys, before, base); err != nil {
			return err
		}
	}
	return nil
}

// lastHeader walks to the last batch of a data file and returns the offset behind it and the end of the file's batches; known is false when the walk
// meets damage, which Verify reports.
func lastHeader(fsys vfs.FS, name string, base int64) (next, end int64, known bool, err error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return 0, 0, false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, 0, false, err
	}
	h := newHeaders(f, size)
	defer h.close()
	for next = base; ; {
		b, n, err := h.at(end)
		switch {
		case err == io.EOF || errors.Is(err, record.ErrEnd) || errors.Is(err, record.ErrShort):
			return next, end, true, nil
		case err != nil && notABatch(err):
			return 0, 0, false, nil
		case err != nil:
			return 0, 0, false, err
		}
		next, end = b.NextOffset(), end+int64(n)
	}
}

type verifier struct {
	fsys vfs.FS
	name string
	log  string // the data file
	base int64
	fn   func(Problem) error
}

func (v *verifier) report(pos int64, kind ProblemKind, format string, args ...any) error {
	return v.fn(Problem{File: v.name, Pos: pos, Kind: kind, Msg: fmt.Sprintf(format, args...)})
}

func (v *verifier) verifyLog(deep bool) error {
	next := v.base
	end, err := DumpLog(v.fsys, v.name, func(d DumpedBatch) error {
		if d.Problem != nil {
			return v.report(d.Pos, BadBatch, "%v", d.Problem) // its offsets mean nothing
		}
		if d.Batch.BaseOffset() < next || d.Batch.LastOffset()-v.base > 1<<31-1 {
			if err := v.report(d.Pos, BadOrder, "offsets %d to %d after offset %d", d.Batch.BaseOffset(), d.Batch.LastOffset(), next-1); err != nil {
				return err
			}
		}
		next = d.Batch.NextOffset()
		if !deep {
			return nil
		}
		if msg := badRecords(d.Batch); msg != "" {
			return v.report(d.Pos, BadBatch, "%s", msg)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case end.Reason == ZeroTail:
		return v.report(end.Pos, UnusedSpace, "%d bytes", end.Size-end.Pos)
	case end.Reason == Torn:
		return v.report(end.Pos, BadTail, "%d bytes: %s", end.Size-end.Pos, end.Detail)
	}
	return nil
}

// badRecords walks the records of a batch whose header is good and tells what is wrong with them.
func badRecords(b record.Batch) string {
	last, maxTs, n := int32(-1), int64(record.NoTimestamp), int32(0)
	problem := ""
	err := b.Records(func(r *record.Record) error {
		if r.OffsetDelta <= last || r.OffsetDelta > b.LastOffsetDelta() {
			problem = fmt.Sprintf("record %d has offset delta %d after %d", n, r.OffsetDelta, last)
		}
		last, maxTs = r.OffsetDelta, max(maxTs, b.BaseTimestamp()+r.TimestampDelta)
		n++
		return nil
	})
	switch {
	case err != nil:
		return err.Error()
	case problem != "":
		return problem
	case n != b.Count():
		return fmt.Sprintf("%d records, the header says %d", n, b.Count())
	case n > 0 && b.TimestampType() == record.CreateTime && maxTs != b.MaxTimestamp():
		return fmt.Sprintf("largest timestamp is %d, the header says %d", maxTs, b.MaxTimestamp())
	}
	return ""
}

// withHeaders gives fn a reader of the data file's headers.
func (v *verifier) withHeaders(fn func(h *headers) error) error {
	f, err := v.fsys.OpenFile(v.log, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	h := newHeaders(f, size)
	defer h.close()
	return fn(&h)
}

// entryProblem reports what a scan says about an entry by itself; true when that is all there is to say.
func (v *verifier) entryProblem(pos int64, problem error) (bool, error) {
	switch {
	case problem == nil:
		return false, nil
	case errors.Is(problem, index.ErrUnused):
		return true, v.report(pos, UnusedSpace, "zeros from here on")
	}
	var corrupt *index.CorruptError
	if errors.As(problem, &corrupt) {
		return true, v.report(pos, BadEntry, "%s", corrupt.Msg)
	}
	return true, problem
}

// unaligned turns a scan's complaint about the length of the file into a problem.
func (v *verifier) unaligned(err error, width int64) error {
	var corrupt *index.CorruptError
	if errors.As(err, &corrupt) {
		return v.report(int64(corrupt.Entry)*width, BadEntry, "%s", corrupt.Msg)
	}
	return err
}

func (v *verifier) verifyOffsets() error {
	return v.withHeaders(func(h *headers) error {
		err := index.ScanOffsets(v.fsys, v.name, v.base, func(i int, e index.OffsetEntry, problem error) error {
			pos := int64(i) * index.OffsetEntrySize
			if done, err := v.entryProblem(pos, problem); done || err != nil {
				return err
			}
			b, _, err := h.at(int64(e.Position))
			switch {
			case err != nil && err != io.EOF && !notABatch(err):
				return err
			case err != nil:
				return v.report(pos, WrongEntry, "no batch at position %d: %v", e.Position, err)
			case b.LastOffset() != e.Offset:
				return v.report(pos, WrongEntry, "batch at position %d ends with offset %d, not %d", e.Position, b.LastOffset(), e.Offset)
			}
			return nil
		})
		return v.unaligned(err, index.OffsetEntrySize)
	})
}

// verifyTimes walks index and data side by side: both are in offset order.
func (v *verifier) verifyTimes() error {
	return v.withHeaders(func(h *headers) error {
		w := timeWalk{h: h, maxTs: record.NoTimestamp}
		err := index.ScanTimes(v.fsys, v.name, v.base, func(i int, e index.TimeEntry, problem error) error {
			pos := int64(i) * index.TimeEntrySize
			if done, err := v.entryProblem(pos, problem); done || err != nil {
				return err
			}
			msg, err := w.check(e)
			if err != nil || msg == "" {
				return err
			}
			return v.report(pos, WrongEntry, "%s", msg)
		})
		return v.unaligned(err, index.TimeEntrySize)
	})
}

// timeWalk is at the batch at pos; maxTs is the largest timestamp of user records before it.
type timeWalk struct {
	h     *headers
	pos   int64
	maxTs int64
}

// check tells what is wrong with an entry.
func (w *timeWalk) check(e index.TimeEntry) (string, error) {
	for {
		b, size, err := w.h.at(w.pos)
		switch {
		case err == io.EOF || err != nil && notABatch(err):
			return fmt.Sprintf("offset %d is behind the last batch", e.Offset), nil
		case err != nil:
			return "", err
		case b.LastOffset() > e.Offset:
			return fmt.Sprintf("no batch ends with offset %d, one ends with %d", e.Offset, b.LastOffset()), nil
		}
		last, ts, before := b.LastOffset(), b.MaxTimestamp(), w.maxTs
		w.pos += int64(size)
		if movesTime(b) {
			w.maxTs = max(w.maxTs, ts)
		}
		if last < e.Offset {
			continue
		}
		switch {
		case ts != e.Timestamp:
			return fmt.Sprintf("largest timestamp of the batch ending with offset %d is %d, not %d", e.Offset, ts, e.Timestamp), nil
		case before >= e.Timestamp:
			return fmt.Sprintf("a batch before offset %d has timestamp %d, not less than %d", e.Offset, before, e.Timestamp), nil
		}
		return "", nil
	}
}

func (v *verifier) verifyTxns() error {
	last := v.base - 1
	err := index.ScanTxns(v.fsys, v.name, func(i int, t index.AbortedTxn, problem error) error {
		pos := int64(i) * index.TxnEntrySize
		if done, err := v.entryProblem(pos, problem); done || err != nil {
			return err
		}
		if t.LastOffset <= last {
			return v.report(pos, BadEntry, "marker at offset %d after %d", t.LastOffset, last)
		}
		last = t.LastOffset
		return nil
	})
	return v.unaligned(err, index.TxnEntrySize)
}
