package client

import (
	"time"

	"github.com/leatmq/leat/record"
)

// Header is a record header. A nil Value is null.
type Header = record.Header

// Record is one record of a topic. A producer reads Topic, Timestamp, Key, Value and Headers, and Partition when it is told to (ExplicitPartition); what it learns is a Delivery.
// A consumer fills all of it.
type Record struct {
	Topic       string
	Partition   int32
	LeaderEpoch int32 // of the leader that appended it; -1 when that is not known
	Offset      int64
	Timestamp   time.Time // to the millisecond; zero for a producer: now
	Key, Value  []byte    // nil is null, empty is not
	Headers     []Header
}
