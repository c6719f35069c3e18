package engine

import (
	"errors"
	"fmt"
	"syscall"
)

// What can go wrong with a request. Each is matched with errors.Is; a caller maps it to one protocol code. Errors about the bytes of a batch
// are *record.Error and pass through unchanged.
var (
	// ErrOffsetOutOfRange: the offset is below the log start or above the log end (or, for DeleteRecords, the high watermark).
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrStorage: the log, or the disk it lies on, failed and serves no more. Wraps the cause.
	ErrStorage = errors.New("log storage failed")
	// ErrDamaged: the records asked for are damaged on disk; others of the log can be read. Comes with ErrStorage, wraps what is wrong and where.
	ErrDamaged = errors.New("records damaged on disk")
	// ErrDiskFull: there is no space for the append. The log is untouched and the next append is tried again. Wraps ENOSPC.
	ErrDiskFull = errors.New("disk full")
	// ErrClosed: the engine or the log was closed.
	ErrClosed = errors.New("log closed")
	// ErrDeleted: the partition was deleted. It is an ErrClosed too.
	ErrDeleted = fmt.Errorf("partition deleted: %w", ErrClosed)
	// ErrRecordListTooLarge: the batch is larger than a segment may be.
	ErrRecordListTooLarge = errors.New("batch larger than segment.bytes")
	// ErrOutOfOrderSequence: the batch's sequence does not follow its producer's last one.
	ErrOutOfOrderSequence = errors.New("out of order sequence number")
	// ErrInvalidProducerEpoch: the batch's producer epoch is older than the one known.
	ErrInvalidProducerEpoch = errors.New("invalid producer epoch")
	// ErrInvalidTxnState: the batch does not fit the transaction its producer has (or has not) open.
	ErrInvalidTxnState = errors.New("invalid transaction state")
	// ErrInvalidOffsets: a replicated batch does not continue the log (B-H2).
	ErrInvalidOffsets = errors.New("batch does not continue the log")
	// ErrBelowHighWatermark: a truncation would remove what readers may have seen (B-D2).
	ErrBelowHighWatermark = errors.New("truncation below the high watermark")
	// ErrPolicyViolation: the topic's cleanup.policy does not allow deleting records.
	ErrPolicyViolation = errors.New("cleanup.policy does not contain delete")
)

// StorageError is the failure of a log directory or of one log in it. errors.Is(err, ErrStorage) holds, and the cause is reachable.
type StorageError struct {
	Path string // the log directory, or the directory of the one log that is damaged
	Op   string // what was tried
	Err  error
}

func (e *StorageError) Error() string {
	return fmt.Sprintf("%s: %s: %v", e.Path, e.Op, e.Err)
}

// Unwrap makes both the class and the cause visible to errors.Is.
func (e *StorageError) Unwrap() []error { return []error{ErrStorage, e.Err} }

// diskFullError is what an append gets when the disk has no space left.
type diskFullError struct {
	dir string
	err error
}

func (e *diskFullError) Error() string {
	return fmt.Sprintf("log directory %s has no space left: %v", e.dir, e.err)
}

func (e *diskFullError) Unwrap() []error { return []error{ErrDiskFull, e.err} }

// isDiskFull tells whether err says that there is no space (or quota) left, as opposed to a disk that fails.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota)
}

// DuplicateLogError says that the same partition was found in two log directories. Which one is right is not for the engine to decide.
type DuplicateLogError struct {
	TP   TopicPartition
	A, B string // paths
}

func (e *DuplicateLogError) Error() string {
	return fmt.Sprintf("partition %v exists twice, in %s and in %s: move one of them out of the log directories", e.TP, e.A, e.B)
}

// DamageError says that bytes which had been made durable are gone or broken. The engine does not cut them away: what can be read stays
// readable, appends are refused.
type DamageError struct {
	Path   string // of the partition directory
	Offset int64  // where the damage was found
	Msg    string
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s", e.Path, e.Offset, e.Msg)
}

// isDescriptors tells whether err says that the process or machine has no more descriptors: what was tried has not begun.
func isDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// isExhausted tells whether err says that the process or machine has run out of something that comes back: descriptors, memory. It is
// not the disk's fault, so it does not take the log directory offline.
func isExhausted(err error) bool {
	return isDescriptors(err) || errors.Is(err, syscall.ENOMEM)
}
