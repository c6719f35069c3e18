package protocol

import (
	"encoding/binary"
	"math"
)

// FetchResponse is everything of a Fetch answer but the record bytes. Versions 4 to 18.
type FetchResponse struct {
	Version       int16
	CorrelationID int32
	ThrottleMs    int32
	ErrorCode     Code  // v7+: of the session
	SessionID     int32 // v7+
	Topics        []FetchTopic
	Nodes         []Node // v16+: where the leaders of CurrentLeader are
}

// FetchTopic is one topic of a Fetch answer: Name up to v12, ID from v13.
type FetchTopic struct {
	Name       string
	ID         [16]byte
	Partitions []FetchPartition
}

// FetchPartition is one partition of a Fetch answer. In an answer with an error the three offsets are -1.
type FetchPartition struct {
	Index            int32
	ErrorCode        Code
	HighWatermark    int64
	LastStable       int64
	LogStart         int64 // v5+
	Aborted          []AbortedTxn
	AbortedNull      bool        // read_uncommitted: null instead of an empty list
	PreferredReplica int32       // v11+; -1 = this one
	RecordsLen       int         // bytes of records that follow the header; 0 = none, -1 = null
	DivergingEpoch   *EpochEnd   // v12+; nil = absent
	CurrentLeader    *LeaderHint // v12+; nil = absent
}

// AbortedTxn is an aborted transaction that overlaps the fetched range.
type AbortedTxn struct{ ProducerID, FirstOffset int64 }

// EpochEnd is where an epoch ends in the leader's log.
type EpochEnd struct {
	Epoch     int32
	EndOffset int64
}

// LeaderHint names a partition's leader.
type LeaderHint struct{ LeaderID, LeaderEpoch int32 }

// Node is a broker's address.
type Node struct {
	ID      int32
	Host    string
	Port    int32
	Rack    string
	HasRack bool // false: null
}

// FetchEncoder encodes Fetch answers around record bytes that it never sees: they go from the page cache to the socket. The zero value is ready;
// reused, it does not allocate. The bytes are those of kmsg.FetchResponse.AppendTo with the records taken out.
type FetchEncoder struct {
	buf   []byte
	cuts  []int // ends of the parts in buf
	parts [][]byte
	gaps  int // record bytes between the parts
}

// Encode returns the frame's header bytes in parts and the size of the whole frame, its 4 length bytes and the records included. Before each
// partition with RecordsLen > 0, in order, stands one part; the last part ends the frame: parts[0], records, parts[1], records, ..., parts[n]. The
// parts are valid until the next Encode.
func (e *FetchEncoder) Encode(r *FetchResponse) (parts [][]byte, total int) {
	if r.Version < 4 || r.Version > 18 {
		panic("BUG: no such version of a Fetch answer")
	}
	e.buf, e.cuts, e.parts, e.gaps = append(e.buf[:0], 0, 0, 0, 0), e.cuts[:0], e.parts[:0], 0
	e.header(r)
	for i := range r.Topics {
		e.topic(r.Version, &r.Topics[i])
	}
	e.trailer(r)
	total = len(e.buf) + e.gaps
	if total > math.MaxInt32 {
		panic("BUG: a Fetch answer of 2 GiB")
	}
	binary.BigEndian.PutUint32(e.buf, uint32(total-4))
	return e.split(), total
}

// split cuts the buffer once it does not move any more.
func (e *FetchEncoder) split() [][]byte {
	start := 0
	for _, end := range e.cuts {
		e.parts = append(e.parts, e.buf[start:end:end])
		start = end
	}
	e.parts = append(e.parts, e.buf[start:])
	return e.parts
}

func (e *FetchEncoder) header(r *FetchResponse) {
	e.buf = appendInt32(e.buf, r.CorrelationID)
	if flexibleFetch(r.Version) {
		e.buf = append(e.buf, 0)
	}
	e.buf = appendInt32(e.buf, r.ThrottleMs)
	if r.Version >= 7 {
		e.buf = appendInt16(e.buf, int16(r.ErrorCode))
		e.buf = appendInt32(e.buf, r.SessionID)
	}
	e.buf = appendLength(e.buf, len(r.Topics), flexibleFetch(r.Version))
}

func (e *FetchEncoder) topic(version int16, t *FetchTopic) {
	if version >= 13 {
		e.buf = append(e.buf, t.ID[:]...)
	} else {
		e.buf = appendString(e.buf, t.Name, flexibleFetch(version))
	}
	e.buf = appendLength(e.buf, len(t.Partitions), flexibleFetch(version))
	for i := range t.Partitions {
		e.partition(version, &t.Partitions[i])
	}
	if flexibleFetch(version) {
		e.buf = append(e.buf, 0)
	}
}

func (e *FetchEncoder) partition(version int16, p *FetchPartition) {
	e.buf = appendInt32(e.buf, p.Index)
	e.buf = appendInt16(e.buf, int16(p.ErrorCode))
	e.buf = appendInt64(e.buf, p.HighWatermark)
	e.buf = appendInt64(e.buf, p.LastStable)
	if version >= 5 {
		e.buf = appendInt64(e.buf, p.LogStart)
	}
	e.aborted(version, p)
	if version >= 11 {
		e.buf = appendInt32(e.buf, p.PreferredReplica)
	}
	e.buf = appendLength(e.buf, p.RecordsLen, flexibleFetch(version))
	if p.RecordsLen > 0 {
		e.cuts = append(e.cuts, len(e.buf))
		e.gaps += p.RecordsLen
	}
	if flexibleFetch(version) {
		e.partitionTags(p)
	}
}

func (e *FetchEncoder) aborted(version int16, p *FetchPartition) {
	if p.AbortedNull && len(p.Aborted) == 0 {
		e.buf = appendLength(e.buf, -1, flexibleFetch(version))
		return
	}
	e.buf = appendLength(e.buf, len(p.Aborted), flexibleFetch(version))
	for _, a := range p.Aborted {
		e.buf = appendInt64(e.buf, a.ProducerID)
		e.buf = appendInt64(e.buf, a.FirstOffset)
		if flexibleFetch(version) {
			e.buf = append(e.buf, 0)
		}
	}
}

// partitionTags writes tag 0, DivergingEpoch, and tag 1, CurrentLeader. A structure of -1 is the default of its tag, and so is left out.
func (e *FetchEncoder) partitionTags(p *FetchPartition) {
	diverging := p.DivergingEpoch != nil && *p.DivergingEpoch != EpochEnd{-1, -1}
	leader := p.CurrentLeader != nil && *p.CurrentLeader != LeaderHint{-1, -1}
	count := byte(0)
	if diverging {
		count++
	}
	if leader {
		count++
	}
	e.buf = append(e.buf, count)
	if diverging {
		e.buf = append(e.buf, 0, 4+8+1)
		e.buf = appendInt32(e.buf, p.DivergingEpoch.Epoch)
		e.buf = append(appendInt64(e.buf, p.DivergingEpoch.EndOffset), 0)
	}
	if leader {
		e.buf = append(e.buf, 1)
		e.buf = appendLeaderHint(e.buf, *p.CurrentLeader)
	}
}

func (e *FetchEncoder) trailer(r *FetchResponse) {
	switch {
	case !flexibleFetch(r.Version):
	case r.Version >= 16 && len(r.Nodes) > 0:
		e.buf = append(e.buf, 1, 0)
		e.buf = appendNodes(e.buf, r.Nodes)
	default:
		e.buf = append(e.buf, 0)
	}
}

func flexibleFetch(version int16) bool { return version >= 12 }
