package group

import (
	"fmt"
	"slices"

	"github.com/leatmq/leat/coordinator/group/assign"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// A classic group becomes a consumer group when somebody joins it with the consumer protocol. Its generation is the epoch of the group and of all its
// members, and what the leader assigned is what they have and their target: so for the members nothing changes until the epoch that the newcomer makes.
// All of it, the newcomer too, is one write, which begins with the tombstone of the classic group. While that may be refused, the classic group is kept
// (consumerGroup.before), away: it does nothing. When it is refused it goes on where it was.

// upgrade makes a consumer group of a classic one. Nobody hears of it before begin.
func (s *Shard) upgrade(nowMs int64, g *group) (*consumerGroup, *refusal) {
	old := g.membership.(*classic)
	cg := newConsumerGroup(s, g)
	cg.before.membership, cg.before.stored = old, g.stored
	cg.opening = &changes{g: cg}
	if g.stored || len(g.doubt) > 0 {
		cg.opening.do(change{changeKey: changeKey{classicChange, ""}})
	}
	if !old.isEmpty() {
		if no := cg.adopt(old); no != nil {
			g.history.addOnce(Event{AtMs: nowMs, What: NotConverted, Reason: no.text})
			return nil, no
		}
	}
	g.membership = cg
	return cg, nil
}

// begin starts the changes of an input. The first of a group that was a classic one brings over what that had.
func (g *consumerGroup) begin(nowMs int64, who string, out *machine.Out) *changes {
	c := g.opening
	if c == nil {
		return &changes{g: g}
	}
	g.opening = nil
	if old, ok := g.before.membership.(*classic); ok {
		old.suspend(out)
	}
	if len(g.members) > 0 {
		why := fmt.Sprintf("from classic to consumer, for %s joins with the consumer protocol; generation %d", clip(who), g.epoch())
		g.history.add(Event{AtMs: nowMs, What: Converted, Reason: why})
		out.Info("a classic group becomes a consumer group", "group", g.id, "members", len(g.members), "epoch", g.epoch())
	}
	g.rearm(nowMs)
	return c
}

// incomplete says whether a partition that somebody wants is nobody's, or one is of who does not want it: the classic group was changing, or its assignor
// did so.
func (g *consumerGroup) incomplete() bool {
	for _, m := range g.members {
		wanted := g.topicsOf(m.sub)
		for i := range m.cur.assigned.Assignment {
			id := m.cur.assigned.Assignment[i].Topic
			if !slices.ContainsFunc(wanted, func(t assign.Topic) bool { return t.ID == id }) {
				return true
			}
		}
	}
	for _, name := range g.subscribedTopics() {
		id, n, _ := g.shard.o.Topics().Topic(name)
		for p := range n {
			if g.owners[ownedPartition{id, p}] == "" {
				return true
			}
		}
	}
	return false
}

// unopened: the first heartbeat of the group was refused.
func (g *consumerGroup) unopened(nowMs int64, out *machine.Out) {
	if c := g.opening; c != nil {
		g.opening = nil
		c.back()
		g.unborn(nowMs, "", out)
	}
}

// adopt takes the members of a classic group over, if all that they say can be understood.
func (g *consumerGroup) adopt(old *classic) *refusal {
	cannot := func(format string, args ...any) *refusal {
		return refuse(protocol.GroupIDNotFound, "the classic group %s cannot become a consumer group: %s", clip(g.id), fmt.Sprintf(format, args...))
	}
	cfg := g.config()
	switch {
	case !cfg.Upgrade:
		return cannot("group.consumer.migration.policy does not allow it while it has members")
	case old.protocolType != consumerProtocol:
		return cannot("its members use the protocol type %q, not %q", clip(old.protocolType), consumerProtocol)
	case len(old.members.list) > cfg.MaxSize:
		return cannot("it has %d members, more than group.consumer.max.size %d", len(old.members.list), cfg.MaxSize)
	}
	all := make([]adopted, 0, len(old.members.list))
	taken := map[ownedPartition]string{}
	for _, m := range old.members.list {
		a, why := g.shard.understand(old, m)
		if why != "" {
			return cannot("%s of its member %s", why, clip(m.id))
		}
		for _, p := range a.has.all() {
			if other, ok := taken[p]; ok {
				name, _ := g.shard.o.Topics().TopicName(p.topic)
				return cannot("%s-%d is assigned to both %s and %s", name, p.partition, clip(other), clip(m.id))
			}
			taken[p] = m.id
		}
		all = append(all, a)
	}
	claim(all, taken)
	g.adoptAll(all, max(old.generation, firstEpoch))
	return nil
}

// adopted is a member of a classic group, understood.
type adopted struct {
	*member
	said    *subscription
	has     partitionSet
	claimed assign.Assignment // what it says it has
}

// partitionSet is partitions of one member.
type partitionSet map[ownedPartition]int32

func (s partitionSet) all() []ownedPartition {
	var all []ownedPartition
	o := ownedOf(s)
	for i := range o.Assignment {
		for _, p := range o.Assignment[i].Partitions {
			all = append(all, ownedPartition{o.Assignment[i].Topic, p})
		}
	}
	return all
}

func (s partitionSet) add(a assign.Assignment) {
	for i := range a {
		for _, p := range a[i].Partitions {
			s[ownedPartition{a[i].Topic, p}] = 0
		}
	}
}

// understand reads what a member subscribes to and what it was assigned; why says what cannot be read.
func (s *Shard) understand(old *classic, m *member) (a adopted, why string) {
	a = adopted{member: m, has: partitionSet{}}
	metadata := m.metadata(old.protocol)
	if metadata == nil && len(m.protocols) > 0 {
		metadata = m.protocols[0].metadata // it came after the protocol was chosen
	}
	said, ok := readSubscription(metadata)
	if !ok {
		return a, "the subscription cannot be read"
	}
	named, userData, ok := readAssignment(m.assignment)
	switch {
	case !ok:
		return a, "the assignment cannot be read"
	case userData:
		return a, "an assignor with data of its own made the assignment"
	}
	a.said, a.claimed = said, s.ids(said.owned)
	a.has.add(s.ids(named))
	return a, ""
}

// claim gives members what they said they have, and nobody was assigned: a cooperative member uses it until it joins again without it, whatever it was
// assigned meanwhile.
func claim(all []adopted, taken map[ownedPartition]string) {
	for _, a := range all {
		claimed := partitionSet{}
		claimed.add(a.claimed)
		for _, p := range claimed.all() {
			if _, ok := taken[p]; !ok {
				taken[p] = a.id
				a.has[p] = 0
			}
		}
	}
}

// adoptAll makes the members those of the consumer group, all of them where they were.
func (g *consumerGroup) adoptAll(all []adopted, epoch int32) {
	c := g.opening
	for _, a := range all {
		sub := &memberSubscription{instance: a.instance, rack: a.said.rack, clientID: a.clientID, clientHost: a.clientHost, topics: a.said.topics,
			rebalanceTimeoutMs: a.rebalanceTimeoutMs, classic: &classicProtocol{a.sessionTimeoutMs, a.protocols}}
		c.do(change{changeKey: changeKey{subscriptionChange, a.id}, sub: sub})
	}
	g.seenTopics = g.shard.o.Topics().Version()
	c.do(change{changeKey: changeKey{groupChange, ""}, group: &groupEpoch{epoch, g.hash()}})
	has := make([]owned, len(all))
	for i, a := range all {
		for _, p := range a.has.all() {
			has[i].add(p.topic, p.partition, a.epochOr(epoch))
		}
		target := has[i].Assignment
		if target == nil {
			target = emptyTarget
		}
		c.do(change{changeKey: changeKey{targetChange, a.id}, target: target})
	}
	c.do(change{changeKey: changeKey{targetEpochChange, ""}, epoch: &targetEpoch{epoch: epoch}})
	for i, a := range all {
		at := a.epochOr(epoch)
		c.do(change{changeKey: changeKey{currentChange, a.id}, cur: &current{epoch: at, previous: at, state: memberStable, assigned: has[i]}})
	}
}

// epochOr is the epoch that the member says it has: the generation of the group, or what it had in the consumer group that the group was before.
func (a *adopted) epochOr(generation int32) int32 {
	if a.epoch != 0 {
		return a.epoch
	}
	return generation
}

// suspend ends what goes on in a classic group that becomes a consumer group. Its members will hear that they must join again.
func (g *classic) suspend(out *machine.Out) {
	g.away = true
	for _, m := range g.members.list {
		g.answerJoin(m, joinError(m.id, protocol.RebalanceInProgress), out)
		g.answerSync(m, syncError(protocol.RebalanceInProgress), out)
		g.shard.timers.stop(&m.session)
	}
	g.shard.timers.stop(&g.joinTimer)
	g.stopSync()
	for id := range g.pending {
		g.forget(id)
	}
}

// resume goes on: it did not become a consumer group. A stable group is as stable as it was.
func (g *classic) resume(nowMs int64, why string, out *machine.Out) {
	if !g.away {
		return
	}
	g.away = false
	g.history.add(Event{AtMs: nowMs, What: NotConverted, Reason: why})
	for _, m := range g.members.list {
		g.heard(nowMs, m)
	}
	if g.state == PreparingRebalance || g.state == CompletingRebalance {
		g.rebalance(nowMs, why, out)
	}
}
