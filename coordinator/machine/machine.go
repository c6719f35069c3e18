// Package machine is what a state machine over one partition of an internal topic says and hears: the seam between the pure
// cores (coordinator/group, coordinator/txn) and the runtime that gives them a log and a clock (package coordinator).
//
// # The contract
//
// A machine is called by one goroutine at a time: its owner. It has no lock, clock, goroutine or socket. Every call gets the
// time and an Out, and says there what shall happen. The runtime then, in this order: appends the records of the Writes,
// gives the Answers, logs the Notes.
//
//	loading   Replay for every record of the log, in order; then Loaded, once
//	loaded    inputs (methods of the machine that the runtime does not know), Tick when Next is due, and Write.Then
//	unloaded  Unload, once; after it nothing but Write.Then, with an error, for the writes that were under way
//
// # Writes
//
// The records of one Write come into the log together, in one batch, unless Split allows otherwise. Writes are appended in
// the order in which they were said. Then is called when all records of the Write are committed (the high watermark has
// passed them: they survive), with nil, in the order of the Writes; or when it is known that they are not, with the reason.
// A Write that fits into no batch fails alone and at once. When an append fails, everything said after it fails with it, the latest first, so that a machine that changed its state
// ahead of the commit can take it back step by step.
//
// A failed Write may be in the log all the same (its answer got lost, not its records). A machine that answers an error says
// "unknown" by it, as every broker does.
package machine

import (
	"errors"
	"math"
)

// Why a Write failed, where it makes a difference. Any other reason is one that may pass.
var (
	ErrTooLarge = errors.New("the records do not fit into one batch")
	ErrUnloaded = errors.New("this broker does not run the partition any more")
)

// Never is the deadline of a machine that waits for nothing.
const Never = math.MaxInt64

// Machine is a state machine over one partition.
type Machine interface {
	// Replay takes a record from the log; its bytes are valid during the call. An error means that the record cannot be understood: the partition is not served then.
	Replay(offset int64, r Record) error

	// Loaded is called when everything was replayed.
	Loaded(nowMs int64, out *Out)

	// Next is the time of the earliest deadline, ms since the Unix epoch; Never when there is none.
	Next() int64

	// Tick does what is due at nowMs.
	Tick(nowMs int64, out *Out)

	// Unload answers everything that waits: this broker does not run the partition any more.
	Unload(out *Out)
}

// Record is a record of the internal topic. A nil Value is a tombstone.
type Record struct{ Key, Value []byte }

// Then continues after a Write: err is nil when the records are committed.
type Then func(nowMs int64, err error, out *Out)

// Write is records to append, and what to do when they are safe.
type Write struct {
	Records []Record
	Split   bool // the records may come into several batches, and some may be committed when the Write fails
	Then    Then // may be nil
}

// Ticket stands for someone who waits for an answer. It is answered exactly once.
type Ticket interface{ Answer(body any) }

// Answer is an answer to give now.
type Answer struct {
	To   Ticket
	Body any
}

// Note is a line for the log of the broker, in the form of slog: attributes come in pairs.
type Note struct {
	Warn bool
	Text string
	Args []any
}

// Out collects what a call of a machine wants to happen. It belongs to the runtime and is valid during the call only.
type Out struct {
	Writes  []Write
	Answers []Answer
	Notes   []Note
}

// Write appends records; then may be nil. Without records it only waits for the writes before it.
func (o *Out) Write(records []Record, then Then) {
	o.Writes = append(o.Writes, Write{Records: records, Then: then})
}

// WriteSplit is Write for records that need not come into the log together.
func (o *Out) WriteSplit(records []Record, then Then) {
	o.Writes = append(o.Writes, Write{Records: records, Split: true, Then: then})
}

// Answer answers a ticket; a nil ticket is nobody.
func (o *Out) Answer(to Ticket, body any) {
	if to != nil {
		o.Answers = append(o.Answers, Answer{to, body})
	}
}

// Info and Warn log a line.
func (o *Out) Info(text string, args ...any) {
	o.Notes = append(o.Notes, Note{Text: text, Args: args})
}

// Warn logs a line that an operator should see.
func (o *Out) Warn(text string, args ...any) {
	o.Notes = append(o.Notes, Note{Warn: true, Text: text, Args: args})
}

// Reset empties o and keeps its room.
func (o *Out) Reset() {
	clear(o.Writes)
	clear(o.Answers)
	clear(o.Notes)
	o.Writes, o.Answers, o.Notes = o.Writes[:0], o.Answers[:0], o.Notes[:0]
}
