package client

import "fmt"

// NoOffsetError: a partition has no offset to begin at, and OffsetReset is ResetNone. Seek gives it one.
type NoOffsetError struct{ Partition TopicPartition }

func (e *NoOffsetError) Error() string {
	return fmt.Sprintf("%s-%d has no committed offset to begin at, and OffsetReset is none: Seek to one", e.Partition.Topic, e.Partition.Partition)
}

// OutOfRangeError: the offset of a partition is not in the log, and OffsetReset is ResetNone. Seek gives it another one.
type OutOfRangeError struct {
	Partition TopicPartition
	Offset    int64
}

func (e *OutOfRangeError) Error() string {
	return fmt.Sprintf("offset %d of %s-%d is not in the log (its records were deleted, or it is beyond the end), and OffsetReset is none: Seek to another one",
		e.Offset, e.Partition.Topic, e.Partition.Partition)
}

// TruncatedError: the log has lost records that were read already, for a leader without them was elected, and OffsetReset is ResetNone.
type TruncatedError struct {
	Partition TopicPartition
	Offset    int64 // up to which records were read
	Common    int64 // from which on the log has others; -1: not known
}

func (e *TruncatedError) Error() string {
	if e.Common < 0 {
		return fmt.Sprintf("%s-%d is another log than the one that was read up to offset %d, and OffsetReset is none: Seek to another offset", e.Partition.Topic, e.Partition.Partition, e.Offset)
	}
	return fmt.Sprintf("%s-%d lost records that were read: from offset %d on it has others than those read up to %d, and OffsetReset is none: Seek to %d to go on there",
		e.Partition.Topic, e.Partition.Partition, e.Common, e.Offset, e.Common)
}

// CorruptError: what is stored at an offset cannot be read. Seek past it, or try again there.
type CorruptError struct {
	Partition TopicPartition
	Offset    int64
	Err       error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("offset %d of %s-%d cannot be read: %v: Seek past it to go on, or to it to try again", e.Offset, e.Partition.Topic, e.Partition.Partition, e.Err)
}
func (e *CorruptError) Unwrap() error { return e.Err }

// NotAssignedError: the consumer does not have the partition.
type NotAssignedError struct{ Partition TopicPartition }

func (e *NotAssignedError) Error() string {
	return fmt.Sprintf("%s-%d is not assigned to this consumer", e.Partition.Topic, e.Partition.Partition)
}
