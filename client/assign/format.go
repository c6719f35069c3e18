package assign

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// formatVersion is the newest version of Subscription and Assignment.
const formatVersion = 3

// Subscription is what a member says of itself when it joins.
type Subscription struct {
	Topics     []string
	UserData   []byte           // of the assignor; nil is null
	Owned      []TopicPartition // what it works on
	Generation int32            // in which it was given Owned; -1 when it has none
	Rack       string           // "" for none
}

// Append adds the subscription in its format, version 3, to b. Topics and partitions are put in order, so that equal subscriptions have equal bytes.
func (s *Subscription) Append(b []byte) []byte {
	topics := slices.Clone(s.Topics)
	slices.Sort(topics)
	b = binary.BigEndian.AppendUint16(b, formatVersion)
	b = binary.BigEndian.AppendUint32(b, uint32(len(topics)))
	for _, t := range topics {
		b = appendString(b, t)
	}
	b = appendBytes(b, s.UserData)
	b = appendPartitions(b, s.Owned)
	b = binary.BigEndian.AppendUint32(b, uint32(s.Generation))
	if s.Rack == "" {
		return append(b, 0xff, 0xff)
	}
	return appendString(b, s.Rack)
}

// ParseSubscription reads what a member sent, of any version; the bytes are not kept, except in UserData. What an older version does not have is
// empty, the generation -1.
func ParseSubscription(b []byte) (Subscription, error) {
	r := reader{rest: b}
	version := r.version()
	s := Subscription{Generation: -1}
	for range r.count(2) {
		s.Topics = append(s.Topics, r.string())
	}
	s.UserData = r.bytes()
	if version >= 1 {
		s.Owned = r.partitions()
	}
	if version >= 2 {
		s.Generation = r.int32()
	}
	if version >= 3 {
		s.Rack = r.nullableString()
	}
	if r.err != nil {
		return Subscription{}, fmt.Errorf("subscription of a group member: %w", r.err)
	}
	return s, nil
}

// Assignment is what a member is given.
type Assignment struct {
	Partitions []TopicPartition
	UserData   []byte // nil is null
}

// Append adds the assignment in its format, version 3, to b.
func (a *Assignment) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, formatVersion)
	b = appendPartitions(b, a.Partitions)
	return appendBytes(b, a.UserData)
}

// ParseAssignment reads what a leader sent, of any version; the bytes are not kept, except in UserData. No bytes at all, which is what a broker gives a
// member that the leader forgot, are an empty assignment.
func ParseAssignment(b []byte) (Assignment, error) {
	if len(b) == 0 {
		return Assignment{}, nil
	}
	r := reader{rest: b}
	r.version()
	a := Assignment{Partitions: r.partitions(), UserData: r.bytes()}
	if r.err != nil {
		return Assignment{}, fmt.Errorf("assignment of a group member: %w", r.err)
	}
	return a, nil
}

func appendString(b []byte, s string) []byte {
	s = s[:min(len(s), math.MaxInt16)] // no topic is longer
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendBytes(b, p []byte) []byte {
	if p == nil {
		return binary.BigEndian.AppendUint32(b, math.MaxUint32)
	}
	return append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...)
}

// appendPartitions adds partitions by topic, in order.
func appendPartitions(b []byte, partitions []TopicPartition) []byte {
	if !slices.IsSortedFunc(partitions, TopicPartition.Compare) {
		partitions = slices.Clone(partitions)
		slices.SortFunc(partitions, TopicPartition.Compare)
	}
	topics := len(b)
	b = binary.BigEndian.AppendUint32(b, 0)
	for len(partitions) > 0 {
		n := 1
		for n < len(partitions) && partitions[n].Topic == partitions[0].Topic {
			n++
		}
		b = appendString(b, partitions[0].Topic)
		b = binary.BigEndian.AppendUint32(b, uint32(n))
		for _, p := range partitions[:n] {
			b = binary.BigEndian.AppendUint32(b, uint32(p.Partition))
		}
		partitions = partitions[n:]
		binary.BigEndian.PutUint32(b[topics:], binary.BigEndian.Uint32(b[topics:])+1)
	}
	return b
}

var (
	errShort   = errors.New("it ends too early")
	errCount   = errors.New("it counts more than it has bytes for")
	errVersion = errors.New("its version is negative")
)

// reader takes values from bytes; the first error stays, and everything after it is zero.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.rest) {
		r.err = errShort
	}
	if r.err != nil {
		return nil
	}
	p := r.rest[:n:n]
	r.rest = r.rest[n:]
	return p
}

func (r *reader) int16() int16 {
	if p := r.take(2); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (r *reader) int32() int32 {
	if p := r.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

func (r *reader) version() int16 {
	v := r.int16()
	if r.err == nil && v < 0 {
		r.err = errVersion
	}
	return v
}

// count reads how many things follow, each of at least so many bytes. A count that cannot be true costs nothing.
func (r *reader) count(least int) int {
	n := int(r.int32())
	if r.err == nil && (n < 0 || n > len(r.rest)/least) {
		r.err = errCount
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *reader) string() string {
	n := r.int16()
	if r.err == nil && n < 0 {
		r.err = errShort
	}
	return string(r.take(int(max(n, 0))))
}

func (r *reader) nullableString() string {
	n := r.int16()
	return string(r.take(int(max(n, 0))))
}

func (r *reader) bytes() []byte {
	n := r.int32()
	if r.err != nil || n < 0 {
		return nil
	}
	return r.take(int(n))
}

func (r *reader) partitions() []TopicPartition {
	var all []TopicPartition
	for range r.count(6) {
		topic := r.string()
		for range r.count(4) {
			all = append(all, TopicPartition{topic, r.int32()})
		}
	}
	if r.err != nil {
		return nil
	}
	return all
}
