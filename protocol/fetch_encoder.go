package protocol

// FetchResponse is everything of a Fetch answer but the record bytes.
type FetchResponse struct {
	Version       int16
	CorrelationID int32
	ThrottleMs    int32
	ErrorCode     Code
	SessionID     int32
	Topics        []FetchTopic
	Nodes         []Node // where the leaders named in CurrentLeader are; v16+
}

// FetchTopic is one topic of a Fetch answer: Name up to v12, ID from v13.
type FetchTopic struct {
	Name       string
	ID         [16]byte
	Partitions []FetchPartition
}

// FetchPartition is one partition of a Fetch answer.
type FetchPartition struct {
	Index            int32
	ErrorCode        Code
	HighWatermark    int64
	LastStable       int64
	LogStart         int64
	Aborted          []AbortedTxn
	AbortedNull      bool // read_uncommitted: null instead of an empty list
	PreferredReplica int32
	RecordsLen       int        // bytes of records that follow the header; -1 = null
	DivergingEpoch   EpochEnd   // v12+; {-1, -1} = absent
	CurrentLeader    LeaderHint // v12+; {-1, -1} = absent
}

// AbortedTxn is an aborted transaction that overlaps the fetched range.
type AbortedTxn struct{ ProducerID, FirstOffset int64 }

// EpochEnd is where an epoch ends in the leader's log; {-1, -1} = none.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// LeaderHint names a partition's leader; {-1, -1} = none.
type LeaderHint struct{ LeaderID, LeaderEpoch int32 }

// Node is a broker's address.
type Node struct {
	ID      int32
	Host    string
	Port    int32
	Rack    string
	HasRack bool
}

// FetchEncoder encodes Fetch answers around record bytes that it never sees. The zero value is ready; reused, it does not allocate.
type FetchEncoder struct {
	buf   []byte
	cuts  []int
	parts [][]byte
}

// Encode returns the frame's header bytes in parts and the size of the whole frame, its 4 length bytes included. Before each partition with
// RecordsLen > 0, in order, stands one part; the last part ends the frame. So the frame is: parts[0], records, parts[1], records, ..., parts[n].
// The parts are valid until the next Encode.
func (e *FetchEncoder) Encode(r *FetchResponse) (parts [][]byte, total int) { panic("stub") }
