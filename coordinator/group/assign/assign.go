// Package assign is the broker's assignors of KIP-848: who of a consumer group gets which partitions. It has no state: the same
// question has the same answer, whoever asks it and whenever.
//
//	uniform  everybody has about as much; what somebody has, it keeps where that does not stand against it. The default.
//	range    everybody has one run of consecutive partitions of each topic, at the same place of each
//
// # What both keep
//
// Every partition of a topic that somebody subscribes to has exactly one owner, and the owner subscribes to it. Partitions that
// do not exist are nobody's.
//
// # Uniform
//
// When all members subscribe to the same topics, no two differ by more than one partition, and no partition moves that need not:
// as many stay as can in any such assignment. When they subscribe to different topics, then at the end no partition can be moved
// to another subscriber of its topic so that the two come closer together; what can stay where it is, and free partitions of the
// topics with the fewest subscribers are given out first.
//
// # Range
//
// The subscribers of a topic are put in order, static members first, by group.instance.id, then the others by member id; each
// takes the next run of partitions, the first ones one more where it does not come out even. So two topics with the same
// subscribers and the same number of partitions are co-partitioned, and static members keep their place when they restart,
// whatever their member ids are. Beyond that nothing is sticky.
//
// # Input
//
// The order of the members in the input plays no role, nor that of the partitions of their current assignments. What makes no
// sense in a current assignment is ignored: partitions that do not exist, or that somebody else has too (the member whose id
// comes first keeps it), or of topics that the member does not subscribe to.
package assign

import (
	"bytes"
	"slices"
	"strings"
)

// TopicID is the id of a topic.
type TopicID = [16]byte

// Partitions are partitions of one topic.
type Partitions struct {
	Topic      TopicID
	Partitions []int32
}

// Assignment is the partitions of one member: by topic id, each topic once; the partitions ascending. Whoever holds one must not
// change it: assignors give back what they were given when nothing is different.
type Assignment []Partitions

// Count is the number of partitions.
func (a Assignment) Count() (n int) {
	for i := range a {
		n += len(a[i].Partitions)
	}
	return n
}

// Equal says whether two assignments are the same.
func (a Assignment) Equal(b Assignment) bool {
	return slices.EqualFunc(a, b, func(x, y Partitions) bool { return x.Topic == y.Topic && slices.Equal(x.Partitions, y.Partitions) })
}

// Of returns the partitions of a topic.
func (a Assignment) Of(topic TopicID) []int32 {
	i, ok := slices.BinarySearchFunc(a, topic, func(p Partitions, id TopicID) int { return compareIDs(p.Topic, id) })
	if !ok {
		return nil
	}
	return a[i].Partitions
}

// Has says whether a partition is in it.
func (a Assignment) Has(topic TopicID, partition int32) bool {
	_, ok := slices.BinarySearch(a.Of(topic), partition)
	return ok
}

// Topic is a topic that members subscribe to.
type Topic struct {
	ID         TopicID
	Partitions int32
}

// Member is what an assignor knows of a member.
type Member struct {
	ID       string
	Instance *string    // group.instance.id, nil for a dynamic member
	Topics   []Topic    // what it subscribes to and exists: by id, each once. Members with the same slice are told apart the fastest
	Current  Assignment // what it keeps as far as its share goes, from the beginning on; in any order, and a topic may come more than once
}

// Assignor gives partitions to members: result[i] is what members[i] gets. The members are in order of their ids, each once.
type Assignor func(members []Member) []Assignment

// Names of the assignors, as clients say them (group.remote.assignor).
const (
	UniformName = "uniform"
	RangeName   = "range"
)

// ByName returns an assignor; nil when there is none of the name.
func ByName(name string) Assignor {
	switch name {
	case UniformName:
		return Uniform
	case RangeName:
		return Range
	}
	return nil
}

func compareIDs(a, b TopicID) int { return bytes.Compare(a[:], b[:]) }

// sameTopics says whether all members subscribe to the same topics.
func sameTopics(members []Member) bool {
	for i := 1; i < len(members); i++ {
		a, b := members[0].Topics, members[i].Topics
		if len(a) != len(b) || len(a) > 0 && &a[0] != &b[0] && !slices.Equal(a, b) {
			return false
		}
	}
	return true
}

// table numbers the partitions of all topics: the partitions of topics[i] are first[i] and following.
type table struct {
	topics []Topic
	first  []int32
	total  int32
}

func newTable(members []Member) *table {
	t := new(table)
	if len(members) == 0 {
		return t
	}
	if sameTopics(members) {
		t.topics = members[0].Topics
	} else {
		seen := map[TopicID]bool{}
		for i := range members {
			for _, topic := range members[i].Topics {
				if !seen[topic.ID] {
					seen[topic.ID] = true
					t.topics = append(t.topics, topic)
				}
			}
		}
		slices.SortFunc(t.topics, func(a, b Topic) int { return compareIDs(a.ID, b.ID) })
	}
	t.first = make([]int32, len(t.topics))
	for i := range t.topics {
		t.first[i] = t.total
		t.total += t.topics[i].Partitions
	}
	return t
}

// find is the place of a topic; -1 when nobody subscribes to it.
func (t *table) find(id TopicID) int {
	i, ok := slices.BinarySearchFunc(t.topics, id, func(topic Topic, id TopicID) int { return compareIDs(topic.ID, id) })
	if !ok {
		return -1
	}
	return i
}

// nobody owns a partition.
const nobody = -1

// assignments turns owners, by number of the partition, into assignments. Members whose partitions stay get what they have.
func (t *table) assignments(members []Member, owner []int32) []Assignment {
	all := make([]Assignment, len(members))
	counts := make([]int, len(members))
	for i := range t.topics {
		owners := owner[t.first[i]:][:t.topics[i].Partitions]
		for _, m := range owners {
			if m != nobody {
				counts[m]++
			}
		}
		for p, m := range owners {
			if m == nobody {
				continue
			}
			if n := counts[m]; n > 0 { // the first of this topic
				all[m] = append(all[m], Partitions{t.topics[i].ID, make([]int32, 0, n)})
				counts[m] = 0
			}
			last := &all[m][len(all[m])-1]
			last.Partitions = append(last.Partitions, int32(p))
		}
	}
	for i := range members {
		if all[i].Equal(members[i].Current) {
			all[i] = members[i].Current
		}
	}
	return all
}

// Range is the assignor "range".
func Range(members []Member) []Assignment {
	t := newTable(members)
	order := make([]int32, len(members))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return compareStatic(&members[a], &members[b]) })
	subscribers := t.subscribers(members, order)
	owner := make([]int32, t.total)
	for i, who := range subscribers {
		giveRanges(owner[t.first[i]:][:t.topics[i].Partitions], who)
	}
	return t.assignments(members, owner)
}

// subscribers are, for each topic, the members that subscribe to it, in the given order.
func (t *table) subscribers(members []Member, order []int32) [][]int32 {
	all := make([][]int32, len(t.topics))
	if sameTopics(members) {
		for i := range all {
			all[i] = order
		}
		return all
	}
	for _, m := range order {
		for _, topic := range members[m].Topics {
			i := t.find(topic.ID)
			all[i] = append(all[i], m)
		}
	}
	return all
}

func giveRanges(owner []int32, who []int32) {
	each, more := len(owner)/len(who), len(owner)%len(who)
	for i, m := range who {
		n := each
		if i < more {
			n++
		}
		for p := range owner[:n] {
			owner[p] = m
		}
		owner = owner[n:]
	}
}

// compareStatic puts static members first, by instance, then the others by id.
func compareStatic(a, b *Member) int {
	switch {
	case a.Instance != nil && b.Instance != nil:
		return strings.Compare(*a.Instance, *b.Instance)
	case a.Instance != nil:
		return -1
	case b.Instance != nil:
		return 1
	}
	return strings.Compare(a.ID, b.ID)
}
