// Package assign decides who of a classic consumer group gets which partitions. In a classic group one of the members, the leader, is told what all
// the others subscribe to and assigns the partitions; so leaders of different clients must understand one another. The assignors here carry the names,
// and members send the bytes, that the Java client, librdkafka and franz-go know.
//
//	range               each member has one run of consecutive partitions of each topic, at the same place of each
//	roundrobin          all partitions are dealt out one by one
//	sticky              as even as can be; then whatever can stay where it is stays
//	cooperative-sticky  the same, and nothing stops meanwhile: what moves is first given up, and handed out in a second round
//
// Everything is pure: no clock, no random choice, no state. The same question has the same answer, whatever the order of the members in it.
//
// # What all of them keep
//
// Every partition of a topic that somebody subscribes to is given to exactly one member, and that member subscribes to its topic (cooperative-sticky
// withholds a partition that somebody else still works on, for one round). Topics that do not exist are nobody's. Static members come first, by
// group.instance.id, the others follow by member id: a static member that comes back with another member id keeps its place.
//
// The racks of members are passed on and not used: an assignor is not told where the replicas are.
//
// # Formats
//
// What members send in JoinGroup is a [Subscription], what they get from SyncGroup an [Assignment]; both begin with a version (int16, here 3). A newer
// version only adds fields behind those of the older ones, so all versions can be read. All integers are big endian; string is int16 length and bytes,
// bytes is int32 length (-1: null) and bytes, [T] is int32 count and as many T.
//
//	Subscription  version, topics [string], user data bytes; 1+: owned partitions [topic string, partitions [int32]]; 2+: generation int32; 3+: rack string (-1: null)
//	Assignment    version, partitions [topic string, partitions [int32]], user data bytes
//
// User data of sticky: [topic string, partitions [int32]], generation int32 (which very old clients leave out). Of cooperative-sticky: generation int32;
// what a member has is in the owned partitions of its subscription.
package assign

import (
	"cmp"
	"slices"
	"strings"
)

// TopicPartition is a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Compare orders partitions by topic, then by number.
func (p TopicPartition) Compare(q TopicPartition) int {
	return cmp.Or(strings.Compare(p.Topic, q.Topic), cmp.Compare(p.Partition, q.Partition))
}

// Member is a member of a group as its leader knows it.
type Member struct {
	ID         string
	InstanceID string           // group.instance.id; "" for a member that is not static
	Rack       string           // "" when not told
	Topics     []string         // what it subscribes to
	Owned      []TopicPartition // what it works on while the group rebalances (nothing in the eager protocol)
	Generation int32            // in which it was given Owned; -1 when not told
	UserData   []byte           // as Assignor.UserData made it
}

// Assignor assigns partitions. Its methods may be called from several goroutines at once, so one that keeps something must guard it.
type Assignor interface {
	// Name is that of the protocol. A group uses one that all its members name.
	Name() string
	// Cooperative says whether members keep their partitions while the group rebalances. Then Assign must not give to one member what another one
	// still owns; members that lost partitions join again, and get the rest in the round after.
	Cooperative() bool
	// UserData is what a member adds to its subscription for this assignor: owned is what it was last assigned (whether it still works on it or
	// not), generation the generation in which that was. Nil is fine for an assignor that needs nothing.
	UserData(owned []TopicPartition, generation int32) []byte
	// Assign gives the partitions of topics (how many each topic that exists has) to members. The answer has every member.
	Assign(members []Member, partitions map[string]int32) map[string][]TopicPartition
}

// Range, RoundRobin, Sticky and CooperativeSticky are the assignors that all clients have.
var (
	Range             Assignor = rangeAssignor{}
	RoundRobin        Assignor = roundRobinAssignor{}
	Sticky            Assignor = stickyAssignor{}
	CooperativeSticky Assignor = cooperativeAssignor{}
)

// ByName is the assignor that has a name, or nil.
func ByName(name string) Assignor {
	for _, a := range []Assignor{Range, RoundRobin, Sticky, CooperativeSticky} {
		if a.Name() == name {
			return a
		}
	}
	return nil
}

// ordered is the members in their order, each id once.
func ordered(members []Member) []*Member {
	all := make([]*Member, len(members))
	for i := range members {
		all[i] = &members[i]
	}
	slices.SortStableFunc(all, func(a, b *Member) int {
		switch {
		case a.InstanceID != "" && b.InstanceID != "":
			return cmp.Or(strings.Compare(a.InstanceID, b.InstanceID), strings.Compare(a.ID, b.ID))
		case a.InstanceID != "":
			return -1
		case b.InstanceID != "":
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	seen := make(map[string]bool, len(all))
	return slices.DeleteFunc(all, func(m *Member) bool {
		twice := seen[m.ID]
		seen[m.ID] = true
		return twice
	})
}

// subscribed is a topic that exists, with those who subscribe to it in their order (indexes of members).
type subscribed struct {
	name        string
	partitions  int32
	subscribers []int
}

// subscriptions turns members around: the topics that exist and have a subscriber, by name.
func subscriptions(members []*Member, partitions map[string]int32) []subscribed {
	at := make(map[string]int)
	var topics []subscribed
	for i, m := range members {
		for _, name := range m.Topics {
			n := partitions[name]
			if n <= 0 {
				continue
			}
			k, ok := at[name]
			if !ok {
				k = len(topics)
				at[name] = k
				topics = append(topics, subscribed{name: name, partitions: n})
			}
			t := &topics[k]
			if last := len(t.subscribers) - 1; last < 0 || t.subscribers[last] != i { // a topic may be named twice
				t.subscribers = append(t.subscribers, i)
			}
		}
	}
	slices.SortFunc(topics, func(a, b subscribed) int { return strings.Compare(a.name, b.name) })
	return topics
}

// nothing is an answer in which nobody has anything yet.
func nothing(members []*Member) map[string][]TopicPartition {
	answer := make(map[string][]TopicPartition, len(members))
	for _, m := range members {
		answer[m.ID] = nil
	}
	return answer
}
