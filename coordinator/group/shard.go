// Package group is the core of the group coordinator: the groups, their members and their committed offsets, of one partition
// of __consumer_offsets. It is a state machine (package machine): no clock, no goroutine, no socket, no log.
//
//	shard.go        the map of groups; what is common to all types of them. Owner of everything: whoever runs the machine
//	codec.go        the records of __consumer_offsets
//	offsets.go      committed offsets: commit, fetch, delete. Of no type of group. offset_table.go how they lie in memory
//	expiry.go       offsets that have been there too long, and those of topics that are gone
//	classic.go      classic groups (JoinGroup, SyncGroup): state, membership, choice of the protocol
//	join.go         JoinGroup; rebalance.go what follows from it; sync.go, leave.go the other requests
//	consumer_*.go   consumer groups (ConsumerGroupHeartbeat, KIP-848): _group the membership, _state what the records say, _codec the
//	                records, _heartbeat and _leave the requests, _target epochs and target assignments, _reconcile the way of a
//	                member to its target, _regex, _describe. Who gets what is package assign
//	upgrade.go      a classic group becomes a consumer group; downgrade.go the other way
//	mixed.go        members of a consumer group that use the classic protocol; subscription.go what they say to one another
//	admin.go        describe, list, delete; summary.go the same in numbers
//	history.go      what happened to a group lately
//
// # What is durable when
//
// What outlives the broker is in records, and it is a record before it is answered. Committed offsets are changed in memory when
// the record is committed, not before: a fetch never shows an offset that a crash could take back, and nothing is to be undone
// when an append fails. The record of a group is written when a generation has its assignment, when the group becomes empty,
// and when a static member is replaced. Between two of these, membership is in memory only: after a restart members find the
// last generation that was stored, or none, and join again. Of a consumer group every change is a record.
//
//	answer                                given when
//	OffsetCommit without error            all its records are committed
//	ConsumerGroupHeartbeat                what it changed, and what it saw, is committed
//	SyncGroup with an assignment          the record of the generation is committed
//	JoinGroup of a replaced static member the record with its new id is committed
//	JoinGroup, SyncGroup, Heartbeat to a  what they changed, and what they saw, is committed
//	  consumer group
//	DeleteGroups, OffsetDelete            the tombstones are committed
//
// # Invariants
//
// A member id is of one member; a group.instance.id of at most one. waiting is the number of members with a JoinGroup that waits.
// offers[p] is the number of members that offer p. The generation of a group only grows. An assignment is given out for the
// generation it was made for. A partition of a consumer group is of one member at a time, until that one has said that it gave it
// up, or was fenced; so too while a group goes from one type to the other. A ticket is answered once. Tests hold them over random
// histories, with a log behind them.
//
// # Types of groups
//
// A group is offsets and a membership. The type of the membership decides who may commit and when offsets expire; the other code
// of offsets does not look at it. A group without members becomes one of the other type when somebody joins it so. With members:
//
//	classic  -> consumer  a consumer joins with the consumer protocol, what the members subscribe to and were assigned can be read, and
//	                      the policy (group.consumer.migration.policy) lets it. Members, generation and assignments go over
//	consumer -> classic   nobody uses the consumer protocol any more, some use the classic one, and the policy lets it. The members join
//	                      again: PreparingRebalance
//
// A consumer group may have members of both protocols for as long as they like; see mixed.go. Each change is one write: tombstones of
// what the group was, records of what it is. What is in memory while a change is under way, and when the log refuses it, is said in
// upgrade.go and downgrade.go. What the log may have of a type that the group is not is group.doubt: the next write about the
// membership takes it away, so a replay never mixes two of them.
package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// Config is what of the broker's configuration groups obey.
type Config struct {
	InitialRebalanceDelayMs int32
	MinSessionTimeoutMs     int32
	MaxSessionTimeoutMs     int32
	MaxSize                 int   // members of a group
	OffsetMetadataMaxBytes  int   // of one offset's metadata string
	OffsetsRetentionMs      int64 //
	OffsetsCheckIntervalMs  int64 // how often expiry is looked for
}

// Topics tells which topics there are.
type Topics interface {
	TopicID(name string) (id [16]byte, ok bool)
	TopicName(id [16]byte) (name string, ok bool)
}

// ConsumerTopics tells consumer groups more about them.
type ConsumerTopics interface {
	Topics
	Topic(name string) (id [16]byte, partitions int32, ok bool)
	Each(visit func(name string)) // every topic, in whatever order
	Version() int64               // another one when a topic was created, deleted or changed
}

// Options make a Shard. All are mandatory.
type Options struct {
	Config         func() *Config                     // in force now
	ConsumerConfig func(group string) *ConsumerConfig // likewise
	Topics         func() ConsumerTopics              // as of now
	NewID          func() string                      // a new uuid, for member ids
}

// Shard is the groups of one partition of __consumer_offsets.
type Shard struct {
	o      Options
	groups map[string]*group
	timers timers
	expiry timer

	last struct { // the group and topic of the latest replayed offset: the next one's are mostly the same
		group *group
		topic *topicOffsets
	}
}

var _ machine.Machine = (*Shard)(nil)

// group is one group.
type group struct {
	id         string
	membership membership
	offsets    map[string]*topicOffsets // by topic
	writing    int                      // writes about its offsets that are under way
	stored     bool                     // the log has, will have, or may have, a record of the membership
	announced  bool                     // its offsets expire within a day, and that was said
	doubt      map[changeKey]bool       // keys of records of the membership that the log refused, or may not have; nil for none
	history    history
}

// membership is what the types of groups differ in.
type membership interface {
	typeName() string  // as ListGroups says it
	stateName() string // likewise
	kind() string      // the protocol type; "" for a group that only has offsets
	isEmpty() bool     // no members
	idle() bool        // no members, and nobody about to become one
	subscribes(topic string) bool
	checkCommit(req *kmsg.OffsetCommitRequest) protocol.Code
	checkCommitOf(req *kmsg.OffsetCommitRequest, topic [16]byte, partition int32) protocol.Code
	checkFetch(req *kmsg.OffsetFetchRequestGroup) protocol.Code
	committing(nowMs int64, memberID string)
	expiryBase(c *committed) (ms int64, ok bool)
	describe(a *kmsg.DescribeGroupsResponseGroup) protocol.Code
	explain(story *Story)
	tombstones() []machine.Record // of the records that are in the log when there are no members
	loaded(nowMs int64, out *machine.Out)
	unload(out *machine.Out)
}

// New makes an empty shard.
func New(o Options) *Shard {
	return &Shard{o: o, groups: map[string]*group{}}
}

func (s *Shard) config() *Config { return s.o.Config() }

// group returns a group, made empty when there is none.
func (s *Shard) group(id string) *group {
	g := s.groups[id]
	if g == nil {
		g = &group{id: strings.Clone(id), offsets: map[string]*topicOffsets{}}
		g.membership = newClassic(s, g)
		s.groups[g.id] = g
	}
	return g
}

// dropIfBare forgets a group of which nothing is left that anybody could ask for.
func (s *Shard) dropIfBare(g *group) {
	if !g.stored && g.writing == 0 && len(g.offsets) == 0 && g.membership.idle() && s.groups[g.id] == g {
		delete(s.groups, g.id)
	}
}

// inDoubt notes keys of which it is not known any more what the log says.
func (g *group) inDoubt(keys []changeKey) {
	if g.doubt == nil {
		g.doubt = map[changeKey]bool{}
	}
	for _, k := range keys {
		g.doubt[k] = true
	}
}

// doubtful are the keys that are in doubt, in order.
func (g *group) doubtful() []changeKey {
	return slices.SortedFunc(maps.Keys(g.doubt), compareKeys)
}

// takenAway are the tombstones of all keys of a consumer group that are in doubt. That of the group itself comes last.
func (g *group) takenAway() (all []machine.Record) {
	for _, last := range []bool{false, true} {
		for _, k := range g.doubtful() {
			if k.kind != classicChange && (k.kind == groupChange) == last {
				all = append(all, machine.Record{Key: k.key(g.id)})
			}
		}
	}
	return all
}

// sorted is the ids of the groups in order: what is done to all is done in the same order everywhere.
func (s *Shard) sorted() []string { return slices.Sorted(maps.Keys(s.groups)) }

// Replay implements machine.Machine. Records of a kind that is not known are of other versions: they are left alone.
func (s *Shard) Replay(offset int64, r machine.Record) error {
	version, err := keyVersion(r.Key)
	if err != nil {
		return fmt.Errorf("a key cannot be read: %w", err)
	}
	switch version {
	case 0, offsetKeyVersionMax:
		err = s.replayOffset(r)
	case groupKeyVersion:
		err = s.replayClassic(r)
	default:
		err = s.replayChange(version, r)
	}
	return err
}

func (s *Shard) replayClassic(r machine.Record) error {
	id, err := readGroupKey(r.Key)
	if err != nil {
		return fmt.Errorf("the key of a group cannot be read: %w", err)
	}
	if r.Value == nil {
		if g := s.groups[id]; g != nil && !isConsumer(g) {
			s.removeGroup(id)
		}
		return nil
	}
	v, err := readGroupValue(r.Value)
	if err != nil {
		return fmt.Errorf("the record of group %q cannot be read: %w", id, err)
	}
	s.replayGroup(id, v)
	return nil
}

// removeGroup takes a group's membership away; offsets that are still there keep it as a simple group.
func (s *Shard) removeGroup(id string) {
	g := s.groups[id]
	if g == nil {
		return
	}
	g.stored = false
	g.membership = newClassic(s, g)
	s.dropIfBare(g)
}

// Loaded implements machine.Machine.
func (s *Shard) Loaded(nowMs int64, out *machine.Out) {
	s.last.group, s.last.topic = nil, nil
	for _, id := range s.sorted() {
		g := s.groups[id]
		if !g.membership.isEmpty() {
			g.history.add(Event{AtMs: nowMs, What: Loaded})
		}
		g.membership.loaded(nowMs, out)
		s.dropIfBare(g)
	}
	s.dropDeletedTopics(nowMs, out)
	s.expiry.fire = s.expire
	s.timers.set(&s.expiry, nowMs+s.config().OffsetsCheckIntervalMs)
}

// Next implements machine.Machine.
func (s *Shard) Next() int64 { return s.timers.next() }

// Tick implements machine.Machine.
func (s *Shard) Tick(nowMs int64, out *machine.Out) {
	for {
		t := s.timers.popDue(nowMs)
		if t == nil {
			return
		}
		t.fire(nowMs, out)
	}
}

// Unload implements machine.Machine.
func (s *Shard) Unload(out *machine.Out) {
	for _, id := range s.sorted() {
		s.groups[id].membership.unload(out)
	}
	s.timers = timers{}
}

// writeCode is what a client is told when records could not be written: all but a record that is too large is worth another try.
func writeCode(err error) protocol.Code {
	switch {
	case isTooLarge(err):
		return protocol.UnknownServerError
	case isMoved(err):
		return protocol.NotCoordinator
	}
	return protocol.CoordinatorNotAvailable
}
