package segment

import (
	"errors"
	"fmt"
)

var (
	// ErrFull: the batches would end behind the largest position an index can hold.
	ErrFull = errors.New("segment: full")
	// ErrSealed: the segment is read only.
	ErrSealed = errors.New("segment: sealed")
	// ErrNotRecovered: there is something behind the last valid batch; Recover must run first.
	ErrNotRecovered = errors.New("segment: not recovered after an unclean stop")
	// ErrFailed: an earlier append failed and could not be undone.
	ErrFailed = errors.New("segment: failed by an earlier write error")
	// ErrClosed: no reference is left.
	ErrClosed = errors.New("segment: closed")
)

// CorruptError says that the data file does not hold a valid batch where there must be one.
type CorruptError struct {
	File string
	Pos  int64
	Msg  string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("%s is corrupt at position %d: %s", e.File, e.Pos, e.Msg)
}

// OffsetError says that batches were to be appended whose offsets do not follow the log's, or do not fit the segment.
type OffsetError struct {
	Offset     int64 // of the batch
	NextOffset int64 // of the segment
	Msg        string
}

func (e *OffsetError) Error() string {
	return fmt.Sprintf("offset %d cannot be appended at offset %d: %s", e.Offset, e.NextOffset, e.Msg)
}
