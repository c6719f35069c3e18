package group

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/leatmq/leat/coordinator/group/assign"
	"github.com/leatmq/leat/coordinator/machine"
)

// The records of consumer groups, Kafka's. Strings and arrays of values have compact lengths, and tagged fields follow each
// structure; those of keys do not.
//
//	key 3   group                    group string
//	key 5   member                   group string, member string
//	key 6   target assignment        group string
//	key 7   target of a member       group string, member string
//	key 8   current of a member      group string, member string
//	key 16  regular expression       group string, expression string
//
//	group, value               version int16, epoch int32; tag 0 hash int64
//	member, value              version int16, instance string?, rack string?, clientId string, clientHost string, topics [string],
//	                           expression string?, rebalanceTimeoutMs int32, assignor string?; tag 0, of a member that uses the
//	                           classic protocol: present int8 1, sessionTimeoutMs int32, protocols [name string, metadata bytes]
//	target assignment, value   version int16, epoch int32; tag 0 timeMs int64
//	target of a member, value  version int16, [topic uuid, partitions [int32]]
//	current of a member, value version int16, epoch int32, previous int32, state int8, assigned, revoking, each
//	                           [topic uuid, partitions [int32]; tag 0 epochs [int32]?]
//	regular expression, value  version int16, topics [string], version int64, timeMs int64
//
// A tagged number that is 0 is left out. The hash is the broker's own affair: another one only makes the next epoch.
// Key 4, topics of a group, is of older versions: it is left alone. A value of a version that is not known is refused.
const (
	consumerGroupKey       = 3
	consumerTopicsKey      = 4
	consumerMemberKey      = 5
	consumerTargetEpochKey = 6
	consumerTargetKey      = 7
	consumerCurrentKey     = 8
	consumerRegexKey       = 16
)

var recordKeys = [...]uint16{classicChange: groupKeyVersion, groupChange: consumerGroupKey, subscriptionChange: consumerMemberKey, targetEpochChange: consumerTargetEpochKey,
	targetChange: consumerTargetKey, currentChange: consumerCurrentKey, regexChange: consumerRegexKey}

// key is the key of the record of a change.
func (k changeKey) key(group string) []byte {
	b := appendString16(binary.BigEndian.AppendUint16(make([]byte, 0, 6+len(group)+len(k.name)), recordKeys[k.kind]), group)
	if k.kind.ofMember() {
		b = appendString16(b, k.name)
	}
	return b
}

// record is the record of a change.
func (c *change) record(group string) machine.Record {
	r := machine.Record{Key: c.key(group)}
	if c.gone() {
		return r
	}
	b := make([]byte, 2, 64) // version 0
	switch c.kind {
	case groupChange:
		b = appendGroupEpoch(b, c.group)
	case subscriptionChange:
		b = appendSubscription(b, c.sub)
	case targetEpochChange:
		b = appendTargetEpoch(b, c.epoch)
	case targetChange:
		b = append(appendAssignment(b, c.target, nil), 0)
	case currentChange:
		b = appendCurrent(b, c.cur)
	case regexChange:
		b = appendStrings(b, c.regex.topics)
		b = appendInt64(appendInt64(b, c.regex.version), c.regex.atMs)
		b = append(b, 0)
	}
	r.Value = b
	return r
}

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendCompact(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))+1), s...)
}

func appendNullable(b []byte, s *string) []byte {
	if s == nil {
		return append(b, 0)
	}
	return appendCompact(b, *s)
}

func appendStrings(b []byte, all []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(all))+1)
	for _, s := range all {
		b = appendCompact(b, s)
	}
	return b
}

func appendGroupEpoch(b []byte, e *groupEpoch) []byte {
	return appendTag0(appendInt32(b, e.epoch), e.hash)
}

func appendTargetEpoch(b []byte, e *targetEpoch) []byte {
	return appendTag0(appendInt32(b, e.epoch), e.atMs)
}

// appendTag0 ends a value with one tagged number, which is left out when it is 0.
func appendTag0(b []byte, v int64) []byte {
	if v == 0 {
		return append(b, 0)
	}
	return appendInt64(append(b, 1, 0, 8), v)
}

func appendSubscription(b []byte, s *memberSubscription) []byte {
	b = appendNullable(appendNullable(b, s.instance), s.rack)
	b = appendCompact(appendCompact(b, s.clientID), s.clientHost)
	b = appendStrings(b, s.topics)
	b = appendCompact(b, s.regex)
	b = appendNullable(appendInt32(b, s.rebalanceTimeoutMs), s.assignor)
	c := appendClassicProtocol(nil, s.classic)
	b = binary.AppendUvarint(append(b, 1, 0), uint64(len(c)))
	return append(b, c...)
}

func appendClassicProtocol(b []byte, c *classicProtocol) []byte {
	if c == nil {
		return append(b, 0) // Kafka writes the tag all the same
	}
	b = appendInt32(append(b, 1), c.sessionTimeoutMs)
	b = binary.AppendUvarint(b, uint64(len(c.protocols))+1)
	for i := range c.protocols {
		b = appendCompact(b, c.protocols[i].name)
		b = binary.AppendUvarint(b, uint64(len(c.protocols[i].metadata))+1)
		b = append(append(b, c.protocols[i].metadata...), 0)
	}
	return append(b, 0)
}

// appendAssignment appends partitions by topic; each topic has its epochs as a tag when there are any.
func appendAssignment(b []byte, a assign.Assignment, epochs [][]int32) []byte {
	b = binary.AppendUvarint(b, uint64(len(a))+1)
	for i := range a {
		b = append(b, a[i].Topic[:]...)
		b = appendInt32s(b, a[i].Partitions)
		if epochs == nil {
			b = append(b, 0)
			continue
		}
		size := 4*len(epochs[i]) + len(binary.AppendUvarint(nil, uint64(len(epochs[i]))+1))
		b = binary.AppendUvarint(append(b, 1, 0), uint64(size))
		b = appendInt32s(b, epochs[i])
	}
	return b
}

func appendInt32s(b []byte, all []int32) []byte {
	b = binary.AppendUvarint(b, uint64(len(all))+1)
	for _, v := range all {
		b = appendInt32(b, v)
	}
	return b
}

func appendCurrent(b []byte, c *current) []byte {
	b = append(appendInt32(appendInt32(b, c.epoch), c.previous), byte(c.state))
	b = appendAssignment(b, c.assigned.Assignment, c.assigned.epochs)
	b = appendAssignment(b, c.revoking.Assignment, c.revoking.epochs)
	return append(b, 0)
}

// valueReader reads a value. After the first error everything read is zero.
type valueReader struct {
	b   []byte
	bad bool
}

func (r *valueReader) take(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *valueReader) int8() int8 {
	if b := r.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (r *valueReader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *valueReader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *valueReader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *valueReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 || v > 1<<32 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count reads the length of an array whose elements have at least so many bytes; 0 for null.
func (r *valueReader) count(least int) int {
	n := r.uvarint()
	if n == 0 {
		return 0
	}
	if n--; n > uint64(len(r.b)/least) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *valueReader) nullable() *string {
	n := r.uvarint()
	if n == 0 {
		return nil
	}
	s := string(r.take(n - 1))
	return &s
}

func (r *valueReader) string() string {
	s := r.nullable()
	if s == nil {
		r.bad = true
		return ""
	}
	return *s
}

func (r *valueReader) strings() (all []string) {
	for range r.count(1) {
		all = append(all, r.string())
	}
	return all
}

// tags calls visit for the tagged fields of a structure.
func (r *valueReader) tags(visit func(tag uint64, r *valueReader)) {
	for range r.uvarint() {
		tag, size := r.uvarint(), r.uvarint()
		b := r.take(size)
		if r.bad {
			return
		}
		if visit != nil {
			field := &valueReader{b: b}
			visit(tag, field)
			r.bad = field.bad
		}
	}
}

func (r *valueReader) int32s() (all []int32) {
	for range r.count(4) {
		all = append(all, r.int32())
	}
	return all
}

// owned reads partitions of a member, in whatever order they come.
func (r *valueReader) owned() owned {
	type one struct{ partition, epoch int32 }
	topics := map[assign.TopicID][]one{}
	for range r.count(18) {
		id := assign.TopicID(r.id())
		partitions := r.int32s()
		var epochs []int32
		r.tags(func(tag uint64, f *valueReader) {
			if tag == 0 {
				epochs = f.int32s()
			}
		})
		if epochs != nil && len(epochs) != len(partitions) {
			r.bad = true
		}
		if r.bad {
			return owned{}
		}
		for i, p := range partitions {
			o := one{p, 0}
			if epochs != nil {
				o.epoch = epochs[i]
			}
			topics[id] = append(topics[id], o)
		}
	}
	var o owned
	for _, id := range sortedIDs(topics) {
		for _, p := range sortedBy(topics[id], func(o one) int32 { return o.partition }) {
			o.add(id, p.partition, p.epoch)
		}
	}
	return o
}

func (r *valueReader) id() (id [16]byte) {
	copy(id[:], r.take(16))
	return id
}

// readChange reads a record of a consumer group; ok is false for one that says nothing to us.
func readChange(version int16, rec machine.Record) (group string, c change, ok bool, err error) {
	var kind changeKind
	switch version {
	case consumerGroupKey:
		kind = groupChange
	case consumerMemberKey:
		kind = subscriptionChange
	case consumerTargetEpochKey:
		kind = targetEpochChange
	case consumerTargetKey:
		kind = targetChange
	case consumerCurrentKey:
		kind = currentChange
	case consumerRegexKey:
		kind = regexChange
	default:
		return "", c, false, nil
	}
	id, rest, err := cut16(rec.Key[2:])
	if err != nil {
		return "", c, false, fmt.Errorf("the key of a consumer group cannot be read: %w", err)
	}
	c.kind = kind
	if kind.ofMember() {
		name, _, err := cut16(rest)
		if err != nil {
			return "", c, false, fmt.Errorf("a key of consumer group %q cannot be read: %w", id, err)
		}
		c.name = string(name)
	}
	if rec.Value == nil {
		return string(id), c, true, nil
	}
	if err := c.readValue(rec.Value); err != nil {
		return "", c, false, fmt.Errorf("a record of consumer group %q (key type %d) cannot be read: %w", id, version, err)
	}
	return string(id), c, true, nil
}

func (c *change) readValue(b []byte) error {
	r := &valueReader{b: b}
	if version := r.int16(); version != 0 {
		return fmt.Errorf("it has version %d: this leat knows 0", version)
	}
	switch c.kind {
	case groupChange:
		c.group = r.groupEpoch()
	case subscriptionChange:
		c.sub = r.subscription()
	case targetEpochChange:
		c.epoch = &targetEpoch{epoch: r.int32()}
		r.tags(func(tag uint64, f *valueReader) {
			if tag == 0 {
				c.epoch.atMs = f.int64()
			}
		})
	case targetChange:
		c.target = r.owned().Assignment
		if c.target == nil {
			c.target = emptyTarget
		}
		r.tags(nil)
	case currentChange:
		c.cur = &current{epoch: r.int32(), previous: r.int32(), state: memberState(r.int8())}
		c.cur.assigned, c.cur.revoking = r.owned(), r.owned()
		r.tags(nil)
	case regexChange:
		c.regex = &resolved{topics: sortedNames(r.strings()), version: r.int64(), atMs: r.int64()}
		r.tags(nil)
	}
	if r.bad {
		return errShort
	}
	return nil
}

func (r *valueReader) groupEpoch() *groupEpoch {
	e := &groupEpoch{epoch: r.int32()}
	r.tags(func(tag uint64, f *valueReader) {
		if tag == 0 {
			e.hash = f.int64()
		}
	})
	return e
}

func (r *valueReader) subscription() *memberSubscription {
	s := &memberSubscription{instance: r.nullable(), rack: r.nullable(), clientID: r.string(), clientHost: r.string()}
	s.topics = sortedNames(r.strings())
	if regex := r.nullable(); regex != nil {
		s.regex = *regex
	}
	s.rebalanceTimeoutMs, s.assignor = r.int32(), r.nullable()
	r.tags(func(tag uint64, f *valueReader) {
		if tag == 0 {
			s.classic = f.classicProtocol()
		}
	})
	return s
}

// classicProtocol reads what is kept of a member that uses the classic protocol; nil for one that does not.
func (r *valueReader) classicProtocol() *classicProtocol {
	if r.int8() != 1 {
		return nil
	}
	c := &classicProtocol{sessionTimeoutMs: r.int32()}
	for range r.count(3) {
		c.protocols = append(c.protocols, offered{r.string(), bytes.Clone(r.compactBytes())})
		r.tags(nil)
	}
	r.tags(nil)
	return c
}

// compactBytes reads bytes. They alias what is read.
func (r *valueReader) compactBytes() []byte {
	n := r.uvarint()
	if n == 0 {
		r.bad = true
		return nil
	}
	return r.take(n - 1)
}
