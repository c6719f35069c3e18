// Package segment is one data file with its indexes: append, read, recover, seal.
package segment

import (
	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// Options are the same for all segments of a log; a Segment keeps the pointer, fields are not changed while it is open.
type Options struct {
	FS                 vfs.FS
	MaxBytes           int   // segment.bytes: Full tells when a batch no longer fits; at most MaxInt32
	IndexIntervalBytes int   // index.interval.bytes
	IndexMaxBytes      int   // segment.index.bytes, for each of the two indexes
	PreallocStep       int64 // bytes allocated by the first append; doubles up to 64 MiB. 0 means 64 KiB
	// Reap gets a segment whose last reference is gone and must call its Destroy, which closes and perhaps unlinks (slow).
	// nil: the goroutine of the last Release does it.
	Reap func(*Segment)
}

// Entry describes one batch of an Append.
type Entry struct {
	BaseOffset, LastOffset int64
	MaxTimestamp           int64
	Size                   int
	Control                bool // control batches do not move the time index
}

// Segment is one data file with its indexes.
type Segment struct{}

// Create makes a new empty segment in dir; it fails if the data file exists. The caller syncs dir.
func Create(dir string, base int64, o *Options) (*Segment, error) { panic("stub") }

// Open opens an existing segment. sealed: nothing is read until it is needed, NextOffset is -1 until then.
// Not sealed: the end is found by walking from the last index entry; a file with anything behind its last valid batch (unclean stop)
// needs Recover before the first Append (ErrNotRecovered).
func Open(dir string, base int64, o *Options, sealed bool) (*Segment, error) { panic("stub") }

// Reason tells why a recovery scan stopped.
type Reason uint8

// RecoverResult tells what Recover found.
type RecoverResult struct {
	Size       int64 // end of the last valid batch: the new end of the segment
	NextOffset int64
	Batches    int   // valid batches scanned
	CutBytes   int64 // bytes behind Size that were cut off and were not a zero tail
	Reason     Reason
	Detail     string // of the batch that ended the scan, empty when Reason is Clean or ZeroTail
}

// Recover scans from the batch boundary at or before from and makes what it accepts durable.
func (s *Segment) Recover(from int64, visit func(b record.Batch, pos int64) error) (RecoverResult, error) {
	panic("stub")
}

// Append writes the batches in bufs, described by entries, at the end.
func (s *Segment) Append(bufs [][]byte, entries []Entry, nowMs int64) (pos int64, err error) {
	panic("stub")
}

// AppendAborted adds an aborted transaction to the transaction index.
func (s *Segment) AppendAborted(t index.AbortedTxn) error { panic("stub") }

// AbortedTxns appends to dst the aborted transactions that overlap [from, upTo). complete: later segments need not be asked.
func (s *Segment) AbortedTxns(dst []index.AbortedTxn, from, upTo int64) (txns []index.AbortedTxn, complete bool, err error) {
	panic("stub")
}

// Base returns the base offset, the name of the files.
func (s *Segment) Base() int64 { panic("stub") }

// Size returns the published size in bytes.
func (s *Segment) Size() int64 { panic("stub") }

// NextOffset returns the offset after the last batch; -1 on a sealed segment before Load.
func (s *Segment) NextOffset() int64 { panic("stub") }

// Load reads what a lazily opened sealed segment has not read yet.
func (s *Segment) Load() error { panic("stub") }

// MaxTimestamp returns the largest timestamp and the last offset of the first batch holding it; (-1, Base) when there is none.
// May read the time index of a sealed segment the first time.
func (s *Segment) MaxTimestamp() (ts, lastOffset int64, err error) { panic("stub") }

// MaxTimestampOffset returns the first record with the largest timestamp among those below upTo.
func (s *Segment) MaxTimestampOffset(upTo int64) (offset, ts int64, found bool, err error) {
	panic("stub")
}

// AppendTimeMaxMs returns the broker time of the last append.
func (s *Segment) AppendTimeMaxMs() int64 { panic("stub") }

// FirstTimestamp returns the max timestamp of the first batch (Kafka's base of time-based rolling); false when empty.
func (s *Segment) FirstTimestamp() (ts int64, ok bool, err error) { panic("stub") }

// PositionOf finds the first batch with last offset >= offset that lies wholly below position limit. io.EOF when there is none: pos is then
// the end of the last batch below limit.
func (s *Segment) PositionOf(offset int64, limit int64) (pos int64, batchBase int64, size int, err error) {
	panic("stub")
}

// Hot tells whether PositionOf(offset) will not wait for the disk.
func (s *Segment) Hot(offset int64) bool { panic("stub") }

// ReadAt reads from the data file; reads behind Size return io.EOF.
func (s *Segment) ReadAt(p []byte, pos int64) (int, error) { panic("stub") }

// Batches calls fn for each batch in [from, to), which are batch boundaries. b is valid during the call. Checks CRCs.
func (s *Segment) Batches(from, to int64, fn func(b record.Batch, pos int64) error) error {
	panic("stub")
}

// OffsetForTimestamp finds the first record below upTo with a timestamp >= ts.
func (s *Segment) OffsetForTimestamp(ts, upTo int64) (offset, foundTs int64, found bool, err error) {
	panic("stub")
}

// OffsetForTimestampFrom is OffsetForTimestamp among records from offset from on (the log start offset).
func (s *Segment) OffsetForTimestampFrom(ts, from, upTo int64) (offset, foundTs int64, found bool, err error) {
	panic("stub")
}

// TruncateTo removes the batch containing offset and all behind it.
func (s *Segment) TruncateTo(offset int64) (size int64, err error) { panic("stub") }

// Seal adds the last time index entry and trims the files. Also done to the active segment at a clean stop.
func (s *Segment) Seal(nowMs int64) error { panic("stub") }

// Sync makes the data file durable. A failure is final: every later Sync returns it.
func (s *Segment) Sync() error { panic("stub") }

// SyncIndexes makes the index files durable; to be called before a recovery point above this segment's data is made durable.
func (s *Segment) SyncIndexes() error { panic("stub") }

// StartWriteback is a hint to write out the data file.
func (s *Segment) StartWriteback(pos, n int64) error { panic("stub") }

// Full tells whether a batch of n bytes does not fit any more.
func (s *Segment) Full(n int) bool { panic("stub") }

// IndexFull tells whether an index has no more room.
func (s *Segment) IndexFull() bool { panic("stub") }

// OffsetFits tells whether offset can be expressed relative to Base.
func (s *Segment) OffsetFits(lastOffset int64) bool { panic("stub") }

// Acquire takes a reference; false when the segment is gone.
func (s *Segment) Acquire() bool { panic("stub") }

// Release gives a reference back, the owner's too.
func (s *Segment) Release() { panic("stub") }

// Delete renames the files to .deleted at once. They are removed when the last reference (the owner keeps its own until
// file.delete.delay.ms is over) is released.
func (s *Segment) Delete() error { panic("stub") }

// Destroy is called by the owner of Options.Reap.
func (s *Segment) Destroy() error { panic("stub") }

// Fd returns the descriptor of the data file for sendfile.
func (s *Segment) Fd() (uintptr, bool) { panic("stub") }

// Cached tells whether the range is in the page cache.
func (s *Segment) Cached(pos, n int64) bool { panic("stub") }

// Prefetch asks for the range to be read ahead.
func (s *Segment) Prefetch(pos, n int64) { panic("stub") }
