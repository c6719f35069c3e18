package engine

import "github.com/leatmq/leat/segment"

// Range is a piece of a segment file, made of whole batches except perhaps the last. It holds the segment open until Release. A Range with N 0
// holds nothing; Release is then a no-op.
type Range struct {
	Seg *segment.Segment
	Pos int64 // in the segment's file
	N   int   // bytes
}

// Fd returns the descriptor for sendfile; false when there is none.
func (r Range) Fd() (uintptr, bool) { panic("stub") }

// Cached tells whether the bytes are in the page cache.
func (r Range) Cached() bool { panic("stub") }

// Prefetch asks the kernel to read the bytes.
func (r Range) Prefetch() { panic("stub") }

// ReadAt reads bytes of the range; off counts from its start.
func (r Range) ReadAt(p []byte, off int64) (int, error) { panic("stub") }

// Release gives the segment back. Exactly once.
func (r Range) Release() { panic("stub") }

// Read returns the bytes from the batch that contains offset up to the batch that contains upTo (exclusive), at most maxBytes: a batch that
// does not fit is cut, but with minOne the first one is returned whole. Nothing (N 0) when offset is at or above upTo. It never crosses a segment,
// so N may be small though more follows. ErrOffsetOutOfRange below the log start and above the log end.
func (l *Log) Read(offset int64, maxBytes int, upTo int64, minOne bool) (Range, error) {
	panic("stub")
}

// Hot tells whether Read(offset) will find its index in memory, so that it may be done on an event loop.
func (l *Log) Hot(offset int64) bool { panic("stub") }

// OffsetForTimestamp returns the first record with a timestamp of at least ts below upTo, its own timestamp and its leader epoch.
func (l *Log) OffsetForTimestamp(ts, upTo int64) (offset, foundTs int64, epoch int32, found bool, err error) {
	panic("stub")
}

// MaxTimestampOffset returns the first record with the largest timestamp below upTo.
func (l *Log) MaxTimestampOffset(upTo int64) (offset, foundTs int64, epoch int32, found bool, err error) {
	panic("stub")
}
