package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/leatmq/leat/coordinator/machine"
)

// A consumer group becomes a classic one when the last member that uses the consumer protocol is gone, or has become a classic member, and others are
// left: they join again, and one of them assigns the partitions from then on. The write has the tombstones of the consumer group and the record of the
// classic one, whose generation is the epoch of the group. That record names no leader: who loads it before the members have joined again lets them do so.
//
// Until then each member may use what it had: its assignment in the record is that, not its target, which another may still have. It may also say
// the epoch that it has as its generation, in heartbeats and commits.
//
// When the write is refused the group stays a classic one all the same, as if it were one between two records. What may be in the log of the consumer
// group is in doubt then (group.doubt), and taken away with the next record of the classic group.

// downgradable says whether the group is to become a classic one.
func (g *consumerGroup) downgradable(nowMs int64) bool {
	if g.classics == 0 || g.classics < len(g.members) {
		return false
	}
	why := ""
	switch most := g.shard.config().MaxSize; {
	case !g.config().Downgrade:
		why = "group.consumer.migration.policy does not allow it"
	case len(g.members) > most:
		why = fmt.Sprintf("it has %d members, more than group.max.size %d", len(g.members), most)
	case g.tooMany > 0 && len(g.members) >= g.tooMany:
		why = "its members do not fit into one record"
	default:
		return true
	}
	g.history.addOnce(Event{AtMs: nowMs, What: NotConverted, Reason: "all members use the classic protocol, and yet it does not become a classic group: " + why})
	return false
}

// downgrade makes a classic group of a consumer group, behind the changes that led to it. finish has to follow.
func (g *consumerGroup) downgrade(nowMs int64, c *changes, why string, out *machine.Out) {
	c.own, c.ownKeys, c.why = len(c.records), len(c.touched), why
	c.touched = append(c.touched, changeKey{classicChange, ""})
	c.touched = append(c.touched, g.doubtful()...)
	for _, kind := range []changeKind{currentChange, targetChange, subscriptionChange} {
		for id := range g.members {
			c.touched = append(c.touched, changeKey{kind, id})
		}
	}
	for expression := range g.regexes {
		c.touched = append(c.touched, changeKey{regexChange, expression})
	}
	c.touched = append(c.touched, changeKey{targetEpochChange, ""}, changeKey{groupChange, ""})

	next := g.classicGroup(nowMs)
	c.records = append(append(c.records, g.tombstones()...), next.groupRecord(func(m *member) []byte { return m.assignment }))
	c.next = next
	for _, m := range g.members {
		g.stopTimers(m)
	}
	g.membership = next
	g.history.add(Event{AtMs: nowMs, What: Converted, Reason: fmt.Sprintf("from consumer to classic, for nobody uses the consumer protocol any more; generation %d", next.generation)})
	out.Info("a consumer group becomes a classic group", "group", g.id, "members", len(g.members), "generation", next.generation)
	next.leader = next.members.list[0].id
	for _, m := range next.members.list {
		next.heard(nowMs, m)
	}
	next.rebalance(nowMs, why+"; the group is a classic one now", out)
}

// classicGroup is the group as a classic one, without a leader.
func (g *consumerGroup) classicGroup(nowMs int64) *classic {
	next := newClassic(g.shard, g.group)
	next.state, next.previous, next.sinceMs, next.generation = Stable, Stable, nowMs, g.epoch()
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[id]
		sub := m.sub
		has := merge(m.cur.assigned, m.cur.revoking)
		next.add(&member{id: m.id, instance: sub.instance, clientID: sub.clientID, clientHost: sub.clientHost, rebalanceTimeoutMs: sub.rebalanceTimeoutMs,
			sessionTimeoutMs: sub.classic.sessionTimeoutMs, protocols: sub.classic.protocols, epoch: m.cur.epoch,
			assignment: assignmentBytes(sub.classic.version(), has.Assignment, g.shard.o.Topics())}, consumerProtocol)
	}
	next.leader = ""
	next.protocol = next.chooseProtocol()
	next.readTopics()
	return next
}

// stay undoes the change to a classic group whose records do not fit into one batch, which shows at once. The rest of the changes is made.
func (g *consumerGroup) stay(nowMs int64, w *consumerWrite, c *changes, out *machine.Out) {
	c.next.suspend(out)
	g.membership, g.tooMany = g, len(g.members)
	c.next, c.records, c.touched = nil, c.records[:c.own], c.touched[:c.ownKeys]
	g.downgradable(nowMs) // tells why not
	g.rearm(nowMs)
	g.advance(nowMs, c, true, c.why)
	g.write(nowMs, w, c, append(g.healing(c), c.records...), out)
}
