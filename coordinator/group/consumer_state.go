package group

import (
	"slices"
	"strings"

	"github.com/leatmq/leat/coordinator/group/assign"
	"github.com/leatmq/leat/coordinator/machine"
)

// memberState says how far a member of a consumer group is. The numbers are those of the records.
type memberState int8

const (
	memberStable     memberState = 0   // it has its target
	memberUnrevoked  memberState = 1   // it must give partitions up, and has not said that it did
	memberUnreleased memberState = 2   // it waits for partitions that others must give up
	memberUnknown    memberState = 127 // a state of another version
)

// memberSubscription is what a member of a consumer group wants, and who it is. It is not changed, but replaced.
type memberSubscription struct {
	instance           *string // group.instance.id
	rack               *string
	clientID           string
	clientHost         string
	topics             []string // sorted, each once
	regex              string   // "" for none
	rebalanceTimeoutMs int32
	assignor           *string
	classic            *classicProtocol // nil: the member uses the consumer protocol
}

func (s *memberSubscription) equal(o *memberSubscription) bool {
	return equalStrings(s.instance, o.instance) && equalStrings(s.rack, o.rack) && s.clientID == o.clientID && s.clientHost == o.clientHost &&
		slices.Equal(s.topics, o.topics) && s.regex == o.regex && s.rebalanceTimeoutMs == o.rebalanceTimeoutMs &&
		equalStrings(s.assignor, o.assignor) && s.classic.equal(o.classic)
}

func equalStrings(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// current is where a member stands. It is not changed, but replaced.
type current struct {
	epoch    int32 // what the member says in its heartbeats; leaveStatic while a static member is away
	previous int32 // the one before: the answer with epoch may have been lost
	state    memberState
	assigned owned // what it may use
	revoking owned // what it must give up
}

// Epochs that are no epochs.
const (
	joinEpoch        = 0
	leaveEpoch       = -1
	leaveStaticEpoch = -2
)

// owned is partitions of a member, each with the epoch at which it came to it.
type owned struct {
	assign.Assignment
	epochs [][]int32 // like Assignment
}

// epoch is when a partition came to the member; ok is false when it is not there.
func (o owned) epoch(topic assign.TopicID, partition int32) (epoch int32, ok bool) {
	for i := range o.Assignment {
		if o.Assignment[i].Topic == topic {
			n, ok := slices.BinarySearch(o.Assignment[i].Partitions, partition)
			if !ok {
				return 0, false
			}
			return o.epochs[i][n], true
		}
	}
	return 0, false
}

// add puts a partition behind those that are there: by topic id, ascending.
func (o *owned) add(topic assign.TopicID, partition, epoch int32) {
	n := len(o.Assignment) - 1
	if n < 0 || o.Assignment[n].Topic != topic {
		o.Assignment = append(o.Assignment, assign.Partitions{Topic: topic})
		o.epochs = append(o.epochs, nil)
		n++
	}
	o.Assignment[n].Partitions = append(o.Assignment[n].Partitions, partition)
	o.epochs[n] = append(o.epochs[n], epoch)
}

func (c *current) equal(o *current) bool {
	same := func(a, b owned) bool {
		return a.Equal(b.Assignment) && slices.EqualFunc(a.epochs, b.epochs, func(x, y []int32) bool { return slices.Equal(x, y) })
	}
	return c.epoch == o.epoch && c.previous == o.previous && c.state == o.state && same(c.assigned, o.assigned) && same(c.revoking, o.revoking)
}

// resolved is the topics that a regular expression matches.
type resolved struct {
	topics  []string // sorted
	version int64    // of the topics that there were
	atMs    int64
}

// consumerMember is a member of a consumer group.
type consumerMember struct {
	id  string
	sub *memberSubscription
	cur *current

	session timer  // ends when the member is not heard of
	revoke  timer  // ends when a member that uses the consumer protocol does not give up what it must
	rejoin  timer  // ends when one that uses the classic protocol does not send what it must
	awaited string // what that is: JoinGroup or SyncGroup
}

// usesClassic says whether the member speaks JoinGroup and SyncGroup.
func (m *consumerMember) usesClassic() bool { return m.sub.classic != nil }

func (m *consumerMember) client() string { return m.sub.clientID + " " + m.sub.clientHost }

// changeKind is what a change changes; one kind of record each.
type changeKind uint8

const (
	classicChange      changeKind = iota // the group is a classic one: while it is a consumer group, it is not
	groupChange                          // epoch of the group
	subscriptionChange                   // what a member wants
	targetEpochChange                    // epoch of the target assignment
	targetChange                         // target of a member
	currentChange                        // where a member stands
	regexChange                          // what a regular expression matches
)

// ofMember says whether there is one for each member, or expression; else there is one for the group.
func (k changeKind) ofMember() bool {
	return k != classicChange && k != groupChange && k != targetEpochChange
}

// changeKey is what a change is about: a member, an expression, or, with "", the group.
type changeKey struct {
	kind changeKind
	name string
}

// change is one change of the state of a consumer group, and one record. The pointer that belongs to the kind is set, or none
// when something ceases to be.
type change struct {
	changeKey
	group  *groupEpoch
	sub    *memberSubscription
	epoch  *targetEpoch
	target assign.Assignment
	cur    *current
	regex  *resolved
}

// gone says whether the change takes something away.
func (c *change) gone() bool {
	return c.group == nil && c.sub == nil && c.epoch == nil && c.target == nil && c.cur == nil && c.regex == nil
}

// groupEpoch is the epoch of a group and what it was made of.
type groupEpoch struct {
	epoch int32
	hash  int64 // of the topics that are subscribed to: another hash makes another epoch; 0: none of them exists
}

// targetEpoch is the epoch of the target assignment and when it was made.
type targetEpoch struct {
	epoch int32
	atMs  int64
}

type ownedPartition struct {
	topic     assign.TopicID
	partition int32
}

var emptyTarget = assign.Assignment{}

// noSub and noCur are what a member has before its records say otherwise.
var (
	noSub = &memberSubscription{rebalanceTimeoutMs: -1}
	noCur = &current{previous: leaveEpoch}
)

// apply makes a change, and returns the one that takes it back. It is the only thing that changes what is in the records: the
// live group and the replay of its log go the same way.
func (g *consumerGroup) apply(c *change) (undo change) {
	undo.changeKey = c.changeKey
	switch c.kind {
	case groupChange:
		undo.group = g.current
		g.current = c.group
	case targetEpochChange:
		undo.epoch = g.target
		g.target = c.epoch
		g.countReconciled()
	case subscriptionChange:
		undo.sub = g.setSubscription(c.name, c.sub)
	case targetChange:
		undo.target = g.targets[c.name]
		if c.target == nil {
			delete(g.targets, c.name)
		} else {
			g.targets[c.name] = c.target
		}
	case currentChange:
		undo.cur = g.setCurrent(c.name, c.cur)
	case regexChange:
		undo.regex = g.regexes[c.name]
		if c.regex == nil {
			delete(g.regexes, c.name)
		} else {
			g.regexes[c.name] = c.regex
		}
	}
	return undo
}

// member returns a member, made when there is none.
func (g *consumerGroup) member(id string) *consumerMember {
	m := g.members[id]
	if m == nil {
		m = &consumerMember{id: strings.Clone(id), sub: noSub, cur: noCur}
		g.members[m.id] = m
		g.settle(m, 1)
	}
	return m
}

func (g *consumerGroup) setSubscription(id string, sub *memberSubscription) (old *memberSubscription) {
	m := g.members[id]
	if m != nil && m.sub != noSub {
		old = m.sub
		g.count(old, -1)
		if old.instance != nil && g.static[*old.instance] == id {
			delete(g.static, *old.instance)
		}
	}
	if sub == nil {
		if m != nil {
			g.disown(m)
			g.settle(m, -1)
			g.stopTimers(m)
			delete(g.members, id)
		}
		return old
	}
	m = g.member(id)
	m.sub = sub
	g.count(sub, 1)
	if sub.instance != nil {
		g.static[*sub.instance] = m.id
	}
	return old
}

// count keeps how many members subscribe to what.
func (g *consumerGroup) count(sub *memberSubscription, n int) {
	for _, topic := range sub.topics {
		if g.topicUsers[topic] += n; g.topicUsers[topic] == 0 {
			delete(g.topicUsers, topic)
		}
	}
	if sub.regex != "" {
		if g.regexUsers[sub.regex] += n; g.regexUsers[sub.regex] == 0 {
			delete(g.regexUsers, sub.regex)
		}
	}
	if sub.classic == nil {
		return
	}
	g.classics += n
	for i := range sub.classic.protocols {
		name := sub.classic.protocols[i].name
		if g.offers[name] += n; g.offers[name] == 0 {
			delete(g.offers, name)
		}
	}
}

// stopTimers makes nobody wait for a member any more.
func (g *consumerGroup) stopTimers(m *consumerMember) {
	g.shard.timers.stop(&m.session)
	g.shard.timers.stop(&m.revoke)
	g.shard.timers.stop(&m.rejoin)
}

// settle counts a member that is there, or is not any more, if it has its target.
func (g *consumerGroup) settle(m *consumerMember, n int) {
	if g.reconciled(m) {
		g.settled += n
	}
}

// countReconciled counts anew those who have their target: it is another one.
func (g *consumerGroup) countReconciled() {
	g.settled = 0
	for _, m := range g.members {
		g.settle(m, 1)
	}
}

func (g *consumerGroup) setCurrent(id string, cur *current) (old *current) {
	m := g.members[id]
	if m != nil && m.cur != noCur {
		old = m.cur
	}
	if cur == nil {
		if m != nil {
			g.disown(m)
			g.settle(m, -1)
			m.cur = noCur
			g.settle(m, 1)
			if m.sub == noSub {
				g.settle(m, -1)
				delete(g.members, id)
			}
		}
		return old
	}
	m = g.member(id)
	g.disown(m)
	g.settle(m, -1)
	m.cur = cur
	g.settle(m, 1)
	g.own(m)
	return old
}

// own and disown keep whose partitions are. Nobody takes what is another's: reconcile sees to it. In the log of a group that
// was compacted halfway it may look so for a moment; the later record is right.
func (g *consumerGroup) own(m *consumerMember) {
	for _, o := range []owned{m.cur.assigned, m.cur.revoking} {
		for i := range o.Assignment {
			for _, p := range o.Assignment[i].Partitions {
				g.owners[ownedPartition{o.Assignment[i].Topic, p}] = m.id
			}
		}
	}
}

func (g *consumerGroup) disown(m *consumerMember) {
	for _, o := range []owned{m.cur.assigned, m.cur.revoking} {
		for i := range o.Assignment {
			for _, p := range o.Assignment[i].Partitions {
				if key := (ownedPartition{o.Assignment[i].Topic, p}); g.owners[key] == m.id {
					delete(g.owners, key)
				}
			}
		}
	}
}

// changes are the changes that one input makes: they are made in memory at once, and taken back when the log refuses them.
type changes struct {
	g       *consumerGroup
	touched []changeKey
	records []machine.Record
	undo    []change

	next         *classic // what the group becomes with these changes, if it is to be a classic one; see downgrade.go
	own, ownKeys int      // how many of records and touched are not of that
	why          string   // why the group has other members
}

func (c *changes) do(ch change) {
	c.touched = append(c.touched, ch.changeKey)
	c.undo = append(c.undo, c.g.apply(&ch))
	c.records = append(c.records, ch.record(c.g.id))
}

// back takes everything back, the latest first.
func (c *changes) back() {
	for i := len(c.undo) - 1; i >= 0; i-- {
		c.g.apply(&c.undo[i])
	}
	c.undo = nil
}

// state is the change that would make what is so now of a key: for a log of which it is not known what it says.
func (g *consumerGroup) state(key changeKey) change {
	c := change{changeKey: key}
	switch key.kind {
	case groupChange:
		c.group = g.current
	case targetEpochChange:
		c.epoch = g.target
	case subscriptionChange:
		if m := g.members[key.name]; m != nil && m.sub != noSub {
			c.sub = m.sub
		}
	case targetChange:
		c.target = g.targets[key.name]
	case currentChange:
		if m := g.members[key.name]; m != nil && m.cur != noCur {
			c.cur = m.cur
		}
	case regexChange:
		c.regex = g.regexes[key.name]
	}
	return c
}
