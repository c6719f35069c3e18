package group

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/leatmq/leat/coordinator/group/assign"
)

// What members of classic groups of the protocol type "consumer" say to one another, big endian. Strings have a length of 2 bytes, arrays and bytes one of 4.
//
//	ConsumerProtocolSubscription  version int16, topics [string], userData bytes?; v1 owned [topic string, partitions [int32]]; v2 generation int32; v3 rack string?
//	ConsumerProtocolAssignment    version int16, [topic string, partitions [int32]], userData bytes?
//
// A version that is not known begins as version 3 does.

// consumerProtocolMax is the highest version of both.
const consumerProtocolMax = 3

// subscription is a ConsumerProtocolSubscription.
type subscription struct {
	version int16
	topics  []string // sorted, each once
	owned   []namedPartitions
	rack    *string
}

// namedPartitions are partitions of a topic.
type namedPartitions struct {
	topic      string
	partitions []int32
}

// subscribedTopics reads the topics of a subscription, and nothing behind them. ok is false when it is something else: then
// nothing is known of what the member wants.
func subscribedTopics(b []byte, visit func(topic string)) (ok bool) {
	if len(b) < 6 {
		return false
	}
	if version := int16(binary.BigEndian.Uint16(b)); version < 0 {
		return false
	}
	n := int32(binary.BigEndian.Uint32(b[2:]))
	b = b[6:]
	for ; n > 0; n-- {
		topic, rest, err := cut16(b)
		if err != nil {
			return false
		}
		visit(string(topic))
		b = rest
	}
	return n == 0
}

// readSubscription reads all of a subscription. One that ends behind the topics or behind the user data, as some clients had it, says nothing of the rest.
func readSubscription(b []byte) (s *subscription, ok bool) {
	r := &valueReader{b: b}
	s = &subscription{version: r.int16()}
	var topics []string
	for range r.count32(2) {
		topics = append(topics, r.string16())
	}
	s.topics = sortedNames(topics)
	if len(r.b) > 0 {
		r.bytes32()
	}
	if s.version >= 1 && len(r.b) > 0 {
		s.owned = r.namedPartitions()
	}
	if s.version >= 3 && len(r.b) > 0 {
		r.int32() // generation
		s.rack = r.nullable16()
	}
	return s, !r.bad && s.version >= 0
}

// readAssignment reads an assignment; nothing at all is an empty one.
func readAssignment(b []byte) (all []namedPartitions, userData, ok bool) {
	if len(b) == 0 {
		return nil, false, true
	}
	r := &valueReader{b: b}
	version := r.int16()
	all = r.namedPartitions()
	if len(r.b) > 0 {
		userData = len(r.bytes32()) > 0
	}
	return all, userData, !r.bad && version >= 0
}

// assignmentBytes is an assignment for a member that speaks a version; topics that are gone are left out.
func assignmentBytes(version int16, a assign.Assignment, topics Topics) []byte {
	var named []namedPartitions
	for i := range a {
		if name, ok := topics.TopicName(a[i].Topic); ok {
			named = append(named, namedPartitions{name, a[i].Partitions})
		}
	}
	slices.SortFunc(named, func(a, b namedPartitions) int { return strings.Compare(a.topic, b.topic) })
	b := binary.BigEndian.AppendUint16(nil, uint16(min(version, consumerProtocolMax)))
	b = appendInt32(b, int32(len(named)))
	for _, t := range named {
		b = appendInt32(appendString16(b, t.topic), int32(len(t.partitions)))
		for _, p := range t.partitions {
			b = appendInt32(b, p)
		}
	}
	return appendInt32(b, -1) // no user data
}

// classicProtocol is what a consumer group keeps of a member that uses the classic protocol. It is not changed, but replaced.
type classicProtocol struct {
	sessionTimeoutMs int32
	protocols        []offered // at least one; what the first says counts
}

func (c *classicProtocol) equal(o *classicProtocol) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.sessionTimeoutMs == o.sessionTimeoutMs && slices.EqualFunc(c.protocols, o.protocols, func(a, b offered) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// name is that of the protocol that counts.
func (c *classicProtocol) name() string {
	if len(c.protocols) == 0 {
		return "" // a record that we did not write
	}
	return c.protocols[0].name
}

// version is what the member's assignment is written in.
func (c *classicProtocol) version() int16 {
	if len(c.protocols) == 0 || len(c.protocols[0].metadata) < 2 {
		return 0
	}
	return max(int16(binary.BigEndian.Uint16(c.protocols[0].metadata)), 0)
}

func (c *classicProtocol) offers(name string) bool {
	return slices.ContainsFunc(c.protocols, func(o offered) bool { return o.name == name })
}

// count32 reads the length of an array whose elements have at least so many bytes.
func (r *valueReader) count32(least int) int {
	n := r.int32()
	if n < 0 || int(n) > len(r.b)/least {
		r.bad = true
		return 0
	}
	return int(n)
}

// bytes32 reads bytes that may be null. They alias what is read.
func (r *valueReader) bytes32() []byte {
	n := r.int32()
	if n < 0 {
		r.bad = r.bad || n != -1
		return nil
	}
	return r.take(uint64(n))
}

func (r *valueReader) nullable16() *string {
	n := r.int16()
	if n < 0 {
		r.bad = r.bad || n != -1
		return nil
	}
	s := string(r.take(uint64(n)))
	return &s
}

func (r *valueReader) string16() string {
	s := r.nullable16()
	if s == nil {
		r.bad = true
		return ""
	}
	return *s
}

func (r *valueReader) namedPartitions() (all []namedPartitions) {
	for range r.count32(6) {
		t := namedPartitions{topic: r.string16()}
		for range r.count32(4) {
			t.partitions = append(t.partitions, r.int32())
		}
		all = append(all, t)
	}
	return all
}

// ids turns names into ids. Partitions that are not there, of topics that are gone perhaps, are left out.
func (s *Shard) ids(named []namedPartitions) assign.Assignment {
	topics, all := s.o.Topics(), map[ownedPartition]int32{}
	for _, t := range named {
		id, n, ok := topics.Topic(t.topic)
		if !ok {
			continue
		}
		for _, p := range t.partitions {
			if p >= 0 && p < n {
				all[ownedPartition{id, p}] = 0
			}
		}
	}
	return ownedOf(all).Assignment
}
