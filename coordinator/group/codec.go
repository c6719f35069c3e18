package group

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
)

// The records of __consumer_offsets, in Kafka's formats, so that its tools read ours and a directory of Kafka's can be taken
// over. A key begins with its version, which says what kind of record it is.
//
//	key 0, 1   committed offset     group string, topic string, partition int32
//	key 2      classic group        group string
//	key 3-     other types of groups
//
//	committed offset, value    version int16, offset int64, leaderEpoch int32 (v3+), metadata string, commitTimestamp int64,
//	                           expireTimestamp int64 (v1 only); v4 has compact strings and tag 0: topicId uuid
//	classic group, value       version int16, protocolType string, generation int32, protocol string?, leader string?,
//	                           currentStateTimestamp int64 (v2+), members: memberId string, groupInstanceId string? (v3+),
//	                           clientId string, clientHost string, rebalanceTimeout int32 (v1+), sessionTimeout int32,
//	                           subscription bytes, assignment bytes; v4 has compact lengths
//
// Written are offset values v4 when the topic's id is known, v1 when the client asked for a retention time of its own
// (OffsetCommit 2-4), v3 otherwise, and group values v3: what Kafka 4.4 writes.
const (
	offsetKeyVersionMax   = 1
	groupKeyVersion       = 2
	offsetValueVersionMax = 4
	groupValueVersionMax  = 4
	groupValueVersion     = 3
)

var errShort = errors.New("it ends early")

// committed is a committed offset.
type committed struct {
	offset      int64
	leaderEpoch int32 // -1: not known
	metadata    string
	commitMs    int64
	expireMs    int64    // -1: the broker's retention decides
	topicID     [16]byte // zero: not known
}

func appendString16(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// offsetKey is the key of a committed offset.
func offsetKey(group, topic string, partition int32) []byte {
	return appendOffsetKey(make([]byte, 0, offsetKeyBytes(group, topic)), group, topic, partition)
}

func offsetKeyBytes(group, topic string) int { return 2 + 2 + len(group) + 2 + len(topic) + 4 }

func appendOffsetKey(b []byte, group, topic string, partition int32) []byte {
	b = binary.BigEndian.AppendUint16(b, offsetKeyVersionMax)
	b = appendString16(appendString16(b, group), topic)
	return binary.BigEndian.AppendUint32(b, uint32(partition))
}

// offsetValue is the value of a committed offset.
func offsetValue(c *committed) []byte { return appendOffsetValue(nil, c) }

func appendOffsetValue(b []byte, c *committed) []byte {
	v := kmsg.OffsetCommitValue{Version: 3, Offset: c.offset, LeaderEpoch: c.leaderEpoch, Metadata: c.metadata, CommitTimestamp: c.commitMs}
	switch {
	case c.expireMs >= 0:
		v.Version, v.ExpireTimestamp = 1, c.expireMs
	case c.topicID != [16]byte{}:
		v.Version, v.TopicID = 4, c.topicID
	}
	return v.AppendTo(b)
}

func groupKey(group string) []byte {
	b := binary.BigEndian.AppendUint16(nil, groupKeyVersion)
	return appendString16(b, group)
}

// keyVersion is what kind of record a key belongs to.
func keyVersion(key []byte) (int16, error) {
	if len(key) < 2 {
		return 0, errShort
	}
	return int16(binary.BigEndian.Uint16(key)), nil
}

// cut16 cuts a string with a length of 2 bytes off b.
func cut16(b []byte) (s, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, errShort
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	if n < 0 || n > len(b)-2 {
		return nil, nil, errShort
	}
	return b[2 : 2+n], b[2+n:], nil
}

// readOffsetKey reads a key of version 0 or 1. The slices alias it: a load of a million records must not make three million strings.
func readOffsetKey(key []byte) (group, topic []byte, partition int32, err error) {
	if group, key, err = cut16(key[2:]); err != nil {
		return nil, nil, 0, err
	}
	if topic, key, err = cut16(key); err != nil {
		return nil, nil, 0, err
	}
	if len(key) < 4 {
		return nil, nil, 0, errShort
	}
	return group, topic, int32(binary.BigEndian.Uint32(key)), nil
}

func readOffsetValue(b []byte) (committed, error) {
	if len(b) < 2 {
		return committed{}, errShort
	}
	version := int16(binary.BigEndian.Uint16(b))
	if version < 0 || version > offsetValueVersionMax {
		return committed{}, fmt.Errorf("a committed offset of version %d: this leat knows up to %d", version, offsetValueVersionMax)
	}
	if version == 4 && len(b) == emptyV4Bytes && b[14] == 1 && [3]byte(b[23:]) == idTag {
		c := committed{offset: int64(binary.BigEndian.Uint64(b[2:])), leaderEpoch: int32(binary.BigEndian.Uint32(b[10:])), expireMs: -1}
		c.commitMs, c.topicID = int64(binary.BigEndian.Uint64(b[15:])), [16]byte(b[26:])
		return c, nil
	}
	return readOtherOffsetValue(b, version)
}

// What nearly every record is, read without detours: version 4, empty metadata, and the topic id as the only tag.
const emptyV4Bytes = 2 + 8 + 4 + 1 + 8 + 3 + 16

var idTag = [3]byte{1, 0, 16} // one tag: number 0, 16 bytes

func readOtherOffsetValue(b []byte, version int16) (committed, error) {
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(b); err != nil {
		return committed{}, err
	}
	c := committed{offset: v.Offset, leaderEpoch: -1, metadata: v.Metadata, commitMs: v.CommitTimestamp, expireMs: -1, topicID: v.TopicID}
	if version >= 3 {
		c.leaderEpoch = v.LeaderEpoch
	}
	if version == 1 {
		c.expireMs = v.ExpireTimestamp
	}
	return c, nil
}

// readGroupKey reads a key of version 2.
func readGroupKey(key []byte) (string, error) {
	group, _, err := cut16(key[2:])
	return string(group), err
}

func readGroupValue(b []byte) (*kmsg.GroupMetadataValue, error) {
	if len(b) < 2 {
		return nil, errShort
	}
	if version := int16(binary.BigEndian.Uint16(b)); version < 0 || version > groupValueVersionMax {
		return nil, fmt.Errorf("a group of version %d: this leat knows up to %d", version, groupValueVersionMax)
	}
	v := new(kmsg.GroupMetadataValue)
	v.CurrentStateTimestamp = -1
	if err := v.ReadFrom(b); err != nil {
		return nil, err
	}
	return v, nil
}

// groupRecord is the state of a classic group that outlives the broker: generation, members and what each was assigned.
func (g *classic) groupRecord(assignment func(*member) []byte) machine.Record {
	v := kmsg.GroupMetadataValue{Version: groupValueVersion, ProtocolType: g.protocolType, Generation: g.generation, CurrentStateTimestamp: g.sinceMs}
	if g.protocol != "" {
		v.Protocol = &g.protocol
	}
	if g.leader != "" {
		v.Leader = &g.leader
	}
	v.Members = make([]kmsg.GroupMetadataValueMember, 0, len(g.members.list))
	for _, m := range g.members.list {
		v.Members = append(v.Members, kmsg.GroupMetadataValueMember{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeoutMillis: m.rebalanceTimeoutMs, SessionTimeoutMillis: m.sessionTimeoutMs,
			Subscription: m.metadata(g.protocol), Assignment: assignment(m),
		})
	}
	return machine.Record{Key: groupKey(g.id), Value: v.AppendTo(nil)}
}
