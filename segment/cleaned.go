package segment

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// cleanedBufferBytes is written at once.
const cleanedBufferBytes = 1 << 20

// Cleaned writes a segment that is to take the place of others, under names that end in CleanedSuffix. Nobody reads it before it is in place.
//
//	Append...      batches, offsets growing; as much as Fits
//	Sync           the data is durable
//	SyncIndexes    the indexes too, under their .cleaned names. The caller syncs the directory
//	Promise        the names end in SwapSuffix. When that is durable (the caller syncs the directory), the segment exists: a restart puts it in place
//	Install        the names are those of a segment. The caller syncs the directory, and opens it
//
// Abort, before Promise is durable, leaves nothing behind.
type Cleaned struct {
	o    *Options
	dir  string
	base int64
	f    vfs.File

	buf     []byte // not written yet
	written int64
	next    int64 // offset
	ix      indexer
	offsets *index.OffsetImage
	times   *index.TimeImage
	entries int // of the offset index; the time index has no more
	txns    []index.AbortedTxn
	hasTxns bool // there is a transaction index, if only an empty one
}

// CreateCleaned begins a segment that will have base offset base in dir. A file of that name that an interrupted compaction left is written over.
func CreateCleaned(dir string, base int64, o *Options) (*Cleaned, error) {
	c := &Cleaned{o: o, dir: dir, base: base, next: base, offsets: index.NewOffsetImage(base), times: index.NewTimeImage(base)}
	c.ix.reset(base)
	f, err := o.FS.OpenFile(c.path(LogSuffix, CleanedSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	c.f = f
	return c, nil
}

func (c *Cleaned) path(suffix, stage string) string {
	return filepath.Join(c.dir, FileName(c.base, suffix)+stage)
}

// Base returns the base offset.
func (c *Cleaned) Base() int64 { return c.base }

// NextOffset returns the offset after the last batch, the base offset when there is none.
func (c *Cleaned) NextOffset() int64 { return c.next }

// Size returns how many bytes of batches there are.
func (c *Cleaned) Size() int64 { return c.written + int64(len(c.buf)) }

// Fits tells whether b may go into this segment: as for any, its size and its indexes have limits, and offsets are relative to the base (R13).
func (c *Cleaned) Fits(b record.Batch) bool {
	size := c.Size()
	switch {
	case b.LastOffset()-c.base > math.MaxInt32 || size+int64(len(b)) > math.MaxInt32:
		return false
	case size == 0:
		return true
	}
	entriesMax := c.o.indexMaxBytes()/index.TimeEntrySize - 2 // one is kept for the largest timestamp
	return size+int64(len(b)) <= int64(c.o.MaxBytes) && c.entries < entriesMax
}

// Append adds a copy of b, which Fits and whose offsets are behind those of all before.
func (c *Cleaned) Append(b record.Batch) error {
	if b.BaseOffset() < c.next {
		return &OffsetError{Offset: b.BaseOffset(), NextOffset: c.next, Msg: "offsets go back"}
	}
	e := EntryOf(b)
	if c.ix.add(&e, c.o.IndexIntervalBytes) {
		c.offsets.Add(e.LastOffset, int32(c.Size()))
		c.times.MaybeAdd(c.ix.maxTimestamp, c.ix.maxOffset)
		c.entries++
	}
	c.next = b.NextOffset()
	if len(c.buf)+len(b) > cleanedBufferBytes {
		if err := c.flush(); err != nil {
			return err
		}
	}
	if c.buf == nil {
		c.buf = make([]byte, 0, cleanedBufferBytes)
	}
	c.buf = append(c.buf, b...)
	return nil
}

func (c *Cleaned) flush() error {
	if len(c.buf) == 0 {
		return nil
	}
	if _, err := c.f.WriteAt(c.buf, c.written); err != nil {
		return err
	}
	if err := c.f.StartWriteback(c.written, int64(len(c.buf))); err != nil {
		return err
	}
	c.written += int64(len(c.buf))
	c.buf = c.buf[:0]
	return nil
}

// AppendAborted adds an aborted transaction whose marker is in the segment.
func (c *Cleaned) AppendAborted(t index.AbortedTxn) { c.txns, c.hasTxns = append(c.txns, t), true }

// ReplaceTxns tells that the segment takes the place of one with the same base and a transaction index. It gets one, even an empty one, so that the old
// one cannot be left in its place.
func (c *Cleaned) ReplaceTxns() { c.hasTxns = true }

// Sync makes the data durable and stamps the file with the broker's time of the last append to what it was made of, by which retention goes.
func (c *Cleaned) Sync(appendTimeMs int64) error {
	if err := c.flush(); err != nil {
		return err
	}
	c.buf = nil
	if appendTimeMs > 0 {
		if err := c.o.FS.SetModTime(c.path(LogSuffix, CleanedSuffix), time.UnixMilli(appendTimeMs)); err != nil {
			return err
		}
	}
	err := c.f.Sync()
	if closed := c.f.Close(); err == nil {
		err = closed
	}
	c.f = nil
	return err
}

// SyncIndexes makes the index files.
func (c *Cleaned) SyncIndexes() error {
	c.times.MaybeAdd(c.ix.maxTimestamp, c.ix.maxOffset)
	if err := c.offsets.StoreNew(c.o.FS, c.path(IndexSuffix, CleanedSuffix)); err != nil {
		return err
	}
	if err := c.times.StoreNew(c.o.FS, c.path(TimeIndexSuffix, CleanedSuffix)); err != nil {
		return err
	}
	if !c.hasTxns {
		return nil
	}
	if err := vfs.WriteFileSynced(c.o.FS, c.path(TxnIndexSuffix, CleanedSuffix), nil); err != nil {
		return err
	}
	x, err := index.OpenTxn(c.o.FS, c.path(TxnIndexSuffix, CleanedSuffix))
	if err != nil {
		return err
	}
	for _, t := range c.txns {
		if err := x.Append(t); err != nil {
			return errors.Join(err, x.Close())
		}
	}
	return errors.Join(x.Sync(), x.Close())
}

// Promise renames the files from .cleaned to .swap, the data file last.
func (c *Cleaned) Promise() error { return c.rename(CleanedSuffix, SwapSuffix) }

// Install renames the files from .swap to what they are for good. Once more does nothing.
func (c *Cleaned) Install() error { return c.rename(SwapSuffix, "") }

func (c *Cleaned) rename(from, to string) error {
	for i := len(suffixes) - 1; i >= 0; i-- {
		err := c.o.FS.Rename(c.path(suffixes[i], from), c.path(suffixes[i], to))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Abort removes what there is of the segment.
func (c *Cleaned) Abort() error {
	var errs []error
	if c.f != nil {
		errs = append(errs, c.f.Close())
		c.f, c.buf = nil, nil
	}
	for _, suffix := range suffixes {
		for _, stage := range []string{CleanedSuffix, SwapSuffix} {
			if err := c.o.FS.Remove(c.path(suffix, stage)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// NextOffsetOf walks the headers of a data file, whatever its name ends in, and returns the offset after the last batch. What is no batch there is a *CorruptError.
func NextOffsetOf(fsys vfs.FS, name string, base int64) (int64, error) {
	next, end, known, err := lastHeader(fsys, name, base)
	if err == nil && !known {
		err = &CorruptError{File: name, Pos: end, Msg: "there is something that is no batch"}
	}
	return next, err
}
