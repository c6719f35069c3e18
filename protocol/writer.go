package protocol

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The appenders write the primitive types of the protocol.

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

func appendUvarint(dst []byte, v uint32) []byte { return binary.AppendUvarint(dst, uint64(v)) }

// appendLength writes the length of bytes or of an array; -1 is null.
func appendLength(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return appendUvarint(dst, uint32(n+1))
	}
	return appendInt32(dst, int32(n))
}

func appendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		dst = appendUvarint(dst, uint32(len(s)+1))
	} else {
		if len(s) > math.MaxInt16 {
			panic("BUG: a string too long for the protocol")
		}
		dst = appendInt16(dst, int16(len(s)))
	}
	return append(dst, s...)
}

func appendNullableString(dst []byte, s string, has, flexible bool) []byte {
	switch {
	case has:
		return appendString(dst, s, flexible)
	case flexible:
		return append(dst, 0)
	}
	return appendInt16(dst, -1)
}

func uvarintLen(v uint32) int { return (bits.Len32(v|1) + 6) / 7 }

func compactLen(s string) int { return uvarintLen(uint32(len(s)+1)) + len(s) }

// appendLeaderHint writes the size and the body of a CurrentLeader tag.
func appendLeaderHint(dst []byte, l LeaderHint) []byte {
	dst = append(dst, 4+4+1)
	dst = appendInt32(dst, l.LeaderID)
	return append(appendInt32(dst, l.LeaderEpoch), 0)
}

// appendNodes writes the size and the body of a NodeEndpoints tag.
func appendNodes(dst []byte, nodes []Node) []byte {
	size := uvarintLen(uint32(len(nodes) + 1))
	for i := range nodes {
		n := &nodes[i]
		size += 4 + compactLen(n.Host) + 4 + 1 + 1
		if n.HasRack {
			size += compactLen(n.Rack) - 1
		}
	}
	dst = appendUvarint(dst, uint32(size))
	dst = appendLength(dst, len(nodes), true)
	for i := range nodes {
		n := &nodes[i]
		dst = appendInt32(dst, n.ID)
		dst = appendString(dst, n.Host, true)
		dst = appendInt32(dst, n.Port)
		dst = append(appendNullableString(dst, n.Rack, n.HasRack, true), 0)
	}
	return dst
}
