package group

import (
	"fmt"
	"strings"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// rebalanceOrComplete follows a change of the membership: it begins a rebalance, or ends the joining that goes on if that was
// the last who was waited for.
func (g *classic) rebalanceOrComplete(nowMs int64, why string, out *machine.Out) {
	if g.state == PreparingRebalance {
		g.completeIfAllJoined(nowMs, out)
		return
	}
	g.rebalance(nowMs, why, out)
}

// completeIfAllJoined ends the joining when everybody has come. The first one, from Empty, lasts its delay: others may be starting.
func (g *classic) completeIfAllJoined(nowMs int64, out *machine.Out) {
	if g.state == PreparingRebalance && g.previous != Empty && g.allJoined() {
		g.completeJoin(nowMs, out)
	}
}

// rebalance makes every member join again. They hear of it with their next heartbeat.
func (g *classic) rebalance(nowMs int64, why string, out *machine.Out) {
	if g.state == CompletingRebalance {
		for _, m := range g.members.list {
			m.assignment = nil
			if g.answerSync(m, syncError(protocol.RebalanceInProgress), out) {
				g.heard(nowMs, m)
			}
		}
	}
	g.stopSync()
	first := g.state == Empty
	g.transition(nowMs, PreparingRebalance)
	g.history.add(Event{AtMs: nowMs, What: Rebalance, Reason: why})
	out.Info("a group rebalances", "group", g.id, "generation", g.generation, "members", len(g.members.list), "reason", why)
	switch {
	case first:
		delay := g.initialDelayMs()
		g.delayFirst(nowMs, delay, max(g.rebalanceTimeoutMs()-delay, 0))
	case g.allJoined():
		g.completeJoin(nowMs, out)
	default:
		g.joinTimer.fire = g.completeJoin
		g.shard.timers.set(&g.joinTimer, nowMs+g.rebalanceTimeoutMs())
	}
}

// delayFirst gives the members of a new group time to come, so that it does not rebalance for each of them: the initial delay,
// and again as long as somebody came in it, up to the rebalance timeout.
func (g *classic) delayFirst(nowMs, delayMs, remainingMs int64) {
	g.newMember = false
	g.joinTimer.fire = func(nowMs int64, out *machine.Out) {
		if g.newMember && remainingMs > 0 {
			g.delayFirst(nowMs, min(g.initialDelayMs(), remainingMs), max(remainingMs-delayMs, 0))
			return
		}
		g.completeJoin(nowMs, out)
	}
	g.shard.timers.set(&g.joinTimer, nowMs+delayMs)
}

func (g *classic) initialDelayMs() int64 { return int64(g.shard.config().InitialRebalanceDelayMs) }

// completeJoin ends the joining: a new generation begins with those who came. Dynamic members who did not come are out; static
// ones stay until their session is over.
func (g *classic) completeJoin(nowMs int64, out *machine.Out) {
	g.shard.timers.stop(&g.joinTimer)
	for _, m := range g.absent() {
		g.history.add(Event{nowMs, Late, m.id, m.client(), "it did not join again in time"})
		g.remove(m, protocol.UnknownMemberID, out)
	}
	if len(g.members.list) > 0 && !g.electLeader() {
		// Only static members are left, and none has come: wait until they do or their sessions are over.
		g.joinTimer.fire = g.completeJoin
		g.shard.timers.set(&g.joinTimer, nowMs+g.rebalanceTimeoutMs())
		return
	}
	g.generation++
	g.newMember = false
	if len(g.members.list) == 0 {
		g.empty(nowMs, out)
		return
	}
	g.protocol = g.chooseProtocol()
	g.readTopics()
	g.transition(nowMs, CompletingRebalance)
	g.history.add(Event{AtMs: nowMs, What: Completed, Reason: fmt.Sprintf("generation %d, %d members, protocol %s, leader %s", g.generation, len(g.members.list), g.protocol, g.leader)})
	for _, m := range g.members.list {
		g.answerJoin(m, g.joined(m), out)
		m.isNew, m.epoch = false, 0
		g.heard(nowMs, m)
		g.unsynced[m.id] = true
	}
	generation := g.generation
	g.syncTimer.fire = func(nowMs int64, out *machine.Out) { g.syncOver(nowMs, generation, out) }
	g.shard.timers.set(&g.syncTimer, nowMs+g.rebalanceTimeoutMs())
}

// absent are the dynamic members whose JoinGroup is missing.
func (g *classic) absent() (all []*member) {
	for _, m := range g.members.list {
		if m.join == nil && !m.static() {
			all = append(all, m)
		}
	}
	return all
}

// electLeader keeps the leader if it has joined, and takes the first who has otherwise; false when nobody has.
func (g *classic) electLeader() bool {
	if m := g.members.get(g.leader); m != nil && m.join != nil {
		return true
	}
	for _, m := range g.members.list {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// empty: the last member is gone. The record says since when: that is what the retention of its offsets counts from.
func (g *classic) empty(nowMs int64, out *machine.Out) {
	g.protocol, g.leader = "", ""
	g.readTopics()
	g.transition(nowMs, Empty)
	g.history.add(Event{AtMs: nowMs, What: Emptied, Reason: fmt.Sprintf("generation %d", g.generation)})
	out.Info("a group is empty", "group", g.id, "generation", g.generation)
	before := g.stored
	g.stored = true
	g.store(func(*member) []byte { return nil }, out, func(_ int64, err error, out *machine.Out) {
		if err != nil {
			g.stored = before
			// The record before it counts again after a restart: members that are gone, and expire.
			out.Warn("it could not be stored that a group is empty", "group", g.id, "error", err)
			g.shard.dropIfBare(g.group)
		}
	})
}

// stopSync ends the waiting for SyncGroups.
func (g *classic) stopSync() {
	clear(g.unsynced)
	g.shard.timers.stop(&g.syncTimer)
}

// synced: a member has sent its SyncGroup.
func (g *classic) synced(id string) {
	delete(g.unsynced, id)
	if len(g.unsynced) == 0 {
		g.shard.timers.stop(&g.syncTimer)
	}
}

// syncOver: members have joined and then did not ask for their assignment.
func (g *classic) syncOver(nowMs int64, generation int32, out *machine.Out) {
	if generation != g.generation || g.state != CompletingRebalance && g.state != Stable || len(g.unsynced) == 0 {
		return
	}
	var late []string
	for _, m := range append([]*member(nil), g.members.list...) {
		if g.unsynced[m.id] {
			late = append(late, m.id)
			g.history.add(Event{nowMs, Late, m.id, m.client(), "it did not ask for its assignment in time"})
			g.remove(m, protocol.UnknownMemberID, out)
		}
	}
	g.rebalance(nowMs, "no SyncGroup in time from "+strings.Join(late, ", "), out)
}

// sessionOver: a member was not heard of. One that waits for us is alive.
func (g *classic) sessionOver(nowMs int64, m *member, out *machine.Out) {
	if g.members.get(m.id) != m || m.alive() {
		return
	}
	g.history.add(Event{nowMs, Expired, m.id, m.client(), fmt.Sprintf("no heartbeat for %d ms", m.sessionTimeoutMs)})
	out.Info("a member of a group expired", "group", g.id, "member", m.id, "client", m.client())
	g.remove(m, protocol.UnknownMemberID, out)
	g.removed(nowMs, "member "+m.id+" expired: no heartbeat", out)
}

// removed follows the removal of members.
func (g *classic) removed(nowMs int64, why string, out *machine.Out) {
	switch g.state {
	case Stable, CompletingRebalance:
		g.rebalance(nowMs, why, out)
	case PreparingRebalance:
		if g.allJoined() {
			g.completeJoin(nowMs, out)
		}
	}
}

// replaceStatic gives the place of a static member to the process that comes with its group.instance.id and no member id: it
// was restarted. Whoever still has the old id is fenced.
func (g *classic) replaceStatic(nowMs int64, j *joiner, m *member, id string, out *machine.Out) {
	g.answerJoin(m, joinError(m.id, protocol.FencedInstanceID), out)
	g.answerSync(m, syncError(protocol.FencedInstanceID), out)
	before := place{id: m.id, leader: g.leader, protocols: m.protocols, rebalanceMs: m.rebalanceTimeoutMs, sessionMs: m.sessionTimeoutMs, clientID: m.clientID, clientHost: m.clientHost}
	g.rename(m, id)
	m.clientID, m.clientHost = j.client.ID, j.client.Host
	g.heard(nowMs, m)
	g.update(m, j)
	g.park(m, j.to, out)
	g.history.add(Event{nowMs, Replaced, id, m.client(), "instead of " + before.id + j.why()})
	switch {
	case g.state == Stable && g.chooseProtocol() == g.protocol:
		g.storeReplaced(m, j, before, out)
	case g.state == Stable, g.state == CompletingRebalance:
		// In CompletingRebalance the leader may be assigning to the old id already.
		g.rebalance(nowMs, "static member "+*m.instance+" came back as "+id+j.why(), out)
	default:
		g.completeIfAllJoined(nowMs, out)
	}
}

// place is what a static member was before it was replaced.
type place struct {
	id, leader             string
	protocols              []offered
	rebalanceMs, sessionMs int32
	clientID, clientHost   string
}

// rename gives a member another id, everywhere.
func (g *classic) rename(m *member, id string) {
	old := m.id
	g.members.rename(m, id)
	if g.leader == old {
		g.leader = id
	}
	if g.unsynced[old] {
		delete(g.unsynced, old)
		g.unsynced[id] = true
	}
}

// storeReplaced makes a replacement durable that needs no rebalance: generation and assignments stay.
func (g *classic) storeReplaced(m *member, j *joiner, before place, out *machine.Out) {
	id := m.id
	g.store(func(m *member) []byte { return m.assignment }, out, func(nowMs int64, err error, out *machine.Out) {
		if m.id != id || g.members.get(id) != m {
			return // replaced again, or gone: it has been answered
		}
		if err != nil {
			g.answerJoin(m, joinError(noMember, writeCode(err)), out)
			g.count(m.protocols, -1)
			m.protocols, m.rebalanceTimeoutMs, m.sessionTimeoutMs = before.protocols, before.rebalanceMs, before.sessionMs
			m.clientID, m.clientHost = before.clientID, before.clientHost
			g.count(m.protocols, 1)
			g.rename(m, before.id)
			g.heard(nowMs, m)
			return
		}
		r := g.joined(m)
		if j.req.Version >= 9 {
			r.SkipAssignment = m.id == g.leader
		} else {
			// Not told that it is the leader, it does not assign anew: the others would not hear of it.
			r.LeaderID, r.Members = before.leader, nil
		}
		g.answerJoin(m, r, out)
	})
}
