package record

import (
	"errors"
	"fmt"
)

// Kind says which of the protocol's answers a refused batch gets.
type Kind uint8

const (
	// CorruptMessage: the bytes are not what was sent (2).
	CorruptMessage Kind = iota + 1
	// InvalidRecord: the bytes are what was sent, and it is not acceptable (87).
	InvalidRecord
	// InvalidTimestamp: a record's timestamp is out of the topic's range (32).
	InvalidTimestamp
	// MessageTooLarge: the batch is larger than the topic allows (10).
	MessageTooLarge
	// UnsupportedCompression: the codec is not allowed at the request's version (76). This package never returns it itself.
	UnsupportedCompression
	// Unknown: what Kafka answers with its unknown server error (-1), such as data that does not decompress.
	Unknown
)

var kindNames = [...]string{"invalid kind", "corrupt message", "invalid record", "invalid timestamp", "message too large", "unsupported compression", "unknown"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Error is the reason a batch was refused.
type Error struct {
	Kind    Kind
	Msg     string
	Records []RecordError // the records at fault, at most recordErrorsMax of them; empty when the batch as a whole is
}

// RecordError names one record of a refused batch.
type RecordError struct {
	Index int32 // position in the batch, from 0
	Msg   string
}

func (e *Error) Error() string { return e.Kind.String() + ": " + e.Msg }

// errorf makes an Error without record errors.
func errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Msg: fmt.Sprintf(format, args...)}
}

var (
	// ErrShort: the buffer ends before the batch does.
	ErrShort = errors.New("record: incomplete batch")
	// ErrEnd: nothing but zeros where a batch would begin, as in the preallocated tail of a log.
	ErrEnd = errors.New("record: end of log")
	// ErrInflate: compressed data inflates to more than the limit.
	ErrInflate = errors.New("record: compressed data inflates beyond the limit")
)
