package group

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// Members of a consumer group that use the classic protocol. Their member epoch is their generation. JoinGroup is what the heartbeat is to the others: it
// says what the member subscribes to and has, and makes a step towards its target. It is answered at once, without a leader; SyncGroup fetches what the
// step led to. A member hears of a new target, of partitions that it has to give up, and of such as have become free for it, as REBALANCE_IN_PROGRESS in
// its heartbeat; then it has its rebalance timeout to join again, and after each JoinGroup as long for its SyncGroup.

// joinClassic is JoinGroup to a consumer group.
func (g *consumerGroup) joinClassic(nowMs int64, j *joiner, out *machine.Out) {
	refused := func(code protocol.Code) { out.Answer(j.to, joinError(noMember, code)) }
	said, code := g.joinable(j)
	if code != protocol.None {
		refused(code)
		return
	}
	id, instance := strings.Clone(j.req.MemberID), j.req.InstanceID
	if id == noMember {
		id = g.shard.o.NewID()
		if instance == nil && j.req.Version >= 4 {
			out.Answer(j.to, joinError(id, protocol.MemberIDRequired)) // any id is good when it comes again
			return
		}
	}
	c := &changes{g: g}
	isNew, code := g.placeClassic(nowMs, c, j, id)
	if code != protocol.None {
		refused(code)
		return
	}
	m := g.member(id)
	changed := g.setWish(nowMs, c, m, j.subscription(m.sub, said))
	if isNew {
		g.history.add(Event{nowMs, Joined, id, m.client(), j.reason()})
	}
	if g.downgradable(nowMs) {
		g.downgrade(nowMs, c, "member "+clip(id)+" joined"+j.why(), out)
		g.finish(nowMs, c, nil, out, nil)
		c.next.park(c.next.members.get(id), j.to, out)
		c.next.completeIfAllJoined(nowMs, out)
		return
	}
	g.refreshRegexes(nowMs, c)
	g.advance(nowMs, c, changed, "the subscription of "+clip(id)+" is another or new")
	g.retarget(nowMs, c)
	g.reconcile(nowMs, c, m, g.shard.has(said), changed)
	g.heard(nowMs, m)
	g.await(nowMs, m, "SyncGroup")
	g.finish(nowMs, c, j.to, out, joinedConsumer(m))
}

// joinable looks for what is wrong with a JoinGroup.
func (g *consumerGroup) joinable(j *joiner) (*subscription, protocol.Code) {
	id, instance := j.req.MemberID, j.req.InstanceID
	m := g.members[id]
	if len(g.members) >= g.config().MaxSize && m == nil && (instance == nil || g.static[*instance] == "") {
		return nil, protocol.GroupMaxSizeReached
	}
	if j.req.ProtocolType != consumerProtocol || len(j.protocols) == 0 {
		return nil, protocol.InconsistentGroupProtocol
	}
	if id == noMember && instance != nil {
		m = g.members[g.static[*instance]]
	}
	common := false // a protocol that all others offer who use the classic protocol
	for i := range j.protocols {
		others, have := g.classics, g.offers[j.protocols[i].name]
		if m != nil && m.usesClassic() {
			others--
			if m.sub.classic.offers(j.protocols[i].name) {
				have--
			}
		}
		common = common || have == others
	}
	said, ok := readSubscription(j.protocols[0].metadata)
	if !common || !ok {
		return nil, protocol.InconsistentGroupProtocol
	}
	return said, protocol.None
}

// placeClassic finds the place of a member, and gives it that of a static one that it comes back as.
func (g *consumerGroup) placeClassic(nowMs int64, c *changes, j *joiner, id string) (isNew bool, code protocol.Code) {
	if j.req.InstanceID == nil {
		return g.members[id] == nil, protocol.None
	}
	old := g.members[g.static[*j.req.InstanceID]]
	switch {
	case j.req.MemberID == noMember && old == nil:
		return true, protocol.None
	case j.req.MemberID == noMember:
		g.replace(nowMs, c, old, id)
		return false, protocol.None
	case old == nil:
		return false, protocol.UnknownMemberID
	case old.id != id:
		return false, protocol.FencedInstanceID
	}
	return false, protocol.None
}

// subscription is what a member wants by its JoinGroup.
func (j *joiner) subscription(old *memberSubscription, said *subscription) *memberSubscription {
	sub := &memberSubscription{instance: old.instance, rack: old.rack, clientID: strings.Clone(j.client.ID), clientHost: strings.Clone(j.client.Host), topics: said.topics,
		rebalanceTimeoutMs: j.req.RebalanceTimeoutMillis, assignor: old.assignor, classic: &classicProtocol{j.req.SessionTimeoutMillis, j.protocols}}
	cloneTo(&sub.instance, j.req.InstanceID)
	cloneTo(&sub.rack, said.rack)
	return sub
}

// has is what a member says it has; not null.
func (s *Shard) has(said *subscription) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	all := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, p := range s.ids(said.owned) {
		all = append(all, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: p.Topic, Partitions: p.Partitions})
	}
	return all
}

// joinedConsumer makes the answer of what is so now, to be given when it is committed. Nobody leads.
func joinedConsumer(m *consumerMember) func(error) any {
	r := kmsg.NewPtrJoinGroupResponse()
	protocolType, protocolName := consumerProtocol, m.sub.classic.name()
	r.Generation, r.MemberID, r.ProtocolType, r.Protocol = m.cur.epoch, m.id, &protocolType, &protocolName
	return func(err error) any {
		if err != nil {
			return joinError(m.id, writeCode(err))
		}
		return r
	}
}

// await gives a member its rebalance timeout for what it has to send next.
func (g *consumerGroup) await(nowMs int64, m *consumerMember, what string) {
	if m.rejoin.fire == nil {
		m.rejoin.fire = func(nowMs int64, out *machine.Out) {
			g.expel(nowMs, m, Late, "no "+m.awaited+" within its rebalance timeout", out)
		}
	}
	m.awaited = what
	g.shard.timers.set(&m.rejoin, nowMs+int64(max(m.sub.rebalanceTimeoutMs, 0)))
}

// awaitJoin starts the time to join again, unless it runs.
func (g *consumerGroup) awaitJoin(nowMs int64, m *consumerMember) {
	if !m.rejoin.isSet() || m.awaited != "JoinGroup" {
		g.await(nowMs, m, "JoinGroup")
	}
}

// speaker is the member that uses the classic protocol and sent a request with this generation.
func (g *consumerGroup) speaker(id string, instance *string, generation int32) (*consumerMember, protocol.Code) {
	m := g.members[id]
	if instance != nil {
		m = g.members[g.static[*instance]]
		if m != nil && m.id != id {
			return nil, protocol.FencedInstanceID
		}
	}
	switch {
	case m == nil || !m.usesClassic():
		return nil, protocol.UnknownMemberID
	case m.cur.epoch != generation:
		return nil, protocol.IllegalGeneration
	}
	return m, protocol.None
}

// mustJoin says whether a member has to join again: there is a new target, or it has to give partitions up, or what it waited for is free.
func (g *consumerGroup) mustJoin(m *consumerMember) bool {
	switch {
	case m.cur.epoch < g.targetEpoch() || m.cur.state == memberUnrevoked:
		return true
	case m.cur.state != memberUnreleased:
		return false
	}
	target := g.targets[m.id]
	for i := range target {
		for _, p := range target[i].Partitions {
			who := g.owners[ownedPartition{target[i].Topic, p}]
			if who != "" && who != m.id {
				return false
			}
		}
	}
	return true
}

// follow makes the epoch and the target of topics that have changed, and the target that was put off.
func (g *consumerGroup) follow(nowMs int64) *changes {
	c := &changes{g: g}
	g.refreshRegexes(nowMs, c)
	g.advance(nowMs, c, false, "")
	g.retarget(nowMs, c)
	return c
}

// heartbeatClassic is Heartbeat to a consumer group.
func (g *consumerGroup) heartbeatClassic(nowMs int64, req *kmsg.HeartbeatRequest, to machine.Ticket, out *machine.Out) {
	r := kmsg.NewPtrHeartbeatResponse()
	m, code := g.speaker(req.MemberID, req.InstanceID, req.Generation)
	if code != protocol.None {
		r.ErrorCode = int16(code)
		out.Answer(to, r)
		return
	}
	g.heard(nowMs, m)
	c := g.follow(nowMs)
	if g.mustJoin(m) {
		r.ErrorCode = int16(protocol.RebalanceInProgress)
		g.awaitJoin(nowMs, m)
	}
	g.finish(nowMs, c, to, out, func(err error) any {
		if err != nil {
			r.ErrorCode = int16(writeCode(err))
		}
		return r
	})
}

// syncClassic is SyncGroup to a consumer group.
func (g *consumerGroup) syncClassic(nowMs int64, req *kmsg.SyncGroupRequest, to machine.Ticket, out *machine.Out) {
	m, code := g.speaker(req.MemberID, req.InstanceID, req.Generation)
	if code == protocol.None && (req.ProtocolType != nil && *req.ProtocolType != consumerProtocol || req.Protocol != nil && *req.Protocol != m.sub.classic.name()) {
		code = protocol.InconsistentGroupProtocol
	}
	if code != protocol.None {
		out.Answer(to, syncError(code))
		return
	}
	if m.cur.epoch < g.targetEpoch() && m.cur.state != memberUnrevoked { // else it has joined, and gives up first
		g.awaitJoin(nowMs, m)
		out.Answer(to, syncError(protocol.RebalanceInProgress))
		return
	}
	if m.awaited == "SyncGroup" {
		g.shard.timers.stop(&m.rejoin)
	}
	g.heard(nowMs, m)
	r := kmsg.NewPtrSyncGroupResponse()
	r.ProtocolType, r.Protocol = req.ProtocolType, req.Protocol
	r.MemberAssignment = assignmentBytes(m.sub.classic.version(), m.cur.assigned.Assignment, g.shard.o.Topics())
	g.answer(to, out, func(err error) any {
		if err != nil {
			return syncError(writeCode(err))
		}
		return r
	})
}
