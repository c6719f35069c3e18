package group

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// newMemberTimeoutMs bounds the wait of a new member's JoinGroup: it does not know its id yet and cannot send heartbeats, so a
// client that went away would be waited for forever otherwise. One that is still there tries again.
const newMemberTimeoutMs = 5 * 60 * 1000

// noMember is the member id of one who has none yet.
const noMember = ""

// Client is who sent a request.
type Client struct {
	ID   string // client.id
	Host string // in Kafka's form: "/" and the address
}

// joiner is one JoinGroup.
type joiner struct {
	req       *kmsg.JoinGroupRequest
	client    Client
	protocols []offered
	to        machine.Ticket
}

func joinError(memberID string, code protocol.Code) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.MemberID, r.ErrorCode = memberID, int16(code)
	return r
}

// Join is JoinGroup: become a member, or say again that one is. The answer comes when everybody has joined.
func (s *Shard) Join(nowMs int64, req *kmsg.JoinGroupRequest, client Client, to machine.Ticket, out *machine.Out) {
	cfg := s.config()
	if req.Version == 0 {
		req.RebalanceTimeoutMillis = req.SessionTimeoutMillis
	}
	if req.SessionTimeoutMillis < cfg.MinSessionTimeoutMs || req.SessionTimeoutMillis > cfg.MaxSessionTimeoutMs {
		out.Answer(to, joinError(req.MemberID, protocol.InvalidSessionTimeout))
		return
	}
	j := &joiner{req: req, client: client, to: to}
	for i := range req.Protocols { // bytes of the request: they are kept, the request is not
		j.protocols = append(j.protocols, offered{req.Protocols[i].Name, bytes.Clone(req.Protocols[i].Metadata)})
	}
	if s.endConsumerGroup(nowMs, req, client, to, out) {
		return
	}
	if g := s.groups[req.Group]; g != nil && isConsumer(g) {
		s.joinConsumer(nowMs, g.membership.(*consumerGroup), j, out)
		return
	}
	c, code := s.joinable(req)
	if code != protocol.None {
		out.Answer(to, joinError(req.MemberID, code))
		return
	}
	c.accept(nowMs, j, out)
	s.dropIfBare(c.group)
}

// endConsumerGroup makes a consumer group without members a classic one, before somebody joins it as such.
func (s *Shard) endConsumerGroup(nowMs int64, req *kmsg.JoinGroupRequest, client Client, to machine.Ticket, out *machine.Out) bool {
	g := s.groups[req.Group]
	if g == nil || !isConsumer(g) || !g.membership.idle() || req.MemberID != noMember {
		return false
	}
	s.deleteGroup(g, nil, g.membership.tombstones(), out, func(err error, out *machine.Out) {
		if err != nil {
			out.Answer(to, joinError(req.MemberID, writeCode(err)))
			return
		}
		s.Join(nowMs, req, client, to, out)
	})
	return true
}

// joinConsumer is a JoinGroup to a consumer group. Nobody is a member of one without members.
func (s *Shard) joinConsumer(nowMs int64, g *consumerGroup, j *joiner, out *machine.Out) {
	if g.isEmpty() && j.req.MemberID != noMember {
		out.Answer(j.to, joinError(j.req.MemberID, protocol.UnknownMemberID))
		return
	}
	g.joinClassic(nowMs, j, out)
	s.dropIfBare(g.group)
}

// joinable finds the classic group of a JoinGroup, or makes it.
func (s *Shard) joinable(req *kmsg.JoinGroupRequest) (*classic, protocol.Code) {
	g := s.groups[req.Group]
	if g == nil {
		if req.MemberID != noMember {
			return nil, protocol.UnknownMemberID
		}
		g = s.group(req.Group)
	}
	return g.membership.(*classic), protocol.None
}

// accept decides whether there is room, and what kind of joining it is.
func (g *classic) accept(nowMs int64, j *joiner, out *machine.Out) {
	id := j.req.MemberID
	if !g.hasRoom(id) {
		g.forget(id)
		if m := g.members.get(id); m != nil {
			g.remove(m, protocol.GroupMaxSizeReached, out)
		}
		out.Answer(j.to, joinError(noMember, protocol.GroupMaxSizeReached))
		g.completeIfAllJoined(nowMs, out) // those who got in need not wait for it
		return
	}
	switch {
	case !g.supports(j.req.ProtocolType, j.protocols):
		out.Answer(j.to, joinError(id, protocol.InconsistentGroupProtocol))
	case id == noMember:
		g.joinNew(nowMs, j, out)
	default:
		g.joinAgain(nowMs, j, out)
	}
}

// hasRoom holds the group below group.max.size. While members join it is those who wait that count: the group may already be
// too large, and then the last to come are left out.
func (g *classic) hasRoom(id string) bool {
	most := g.shard.config().MaxSize
	m := g.members.get(id)
	switch g.state {
	case PreparingRebalance:
		return m != nil && m.join != nil || g.waiting < most
	case CompletingRebalance, Stable:
		return m != nil || len(g.members.list) < most
	}
	return true
}

// joinNew is the first JoinGroup of somebody.
func (g *classic) joinNew(nowMs int64, j *joiner, out *machine.Out) {
	instance := j.req.InstanceID
	if instance != nil {
		id := *instance + "-" + g.shard.o.NewID()
		if old := g.static[*instance]; old != nil {
			g.replaceStatic(nowMs, j, old, id, out)
			return
		}
		g.joinAs(nowMs, j, id, out)
		return
	}
	id := j.client.ID + "-" + g.shard.o.NewID()
	if j.req.Version < 4 {
		g.joinAs(nowMs, j, id, out)
		return
	}
	// The client has to come again with the id: one that loses our answer does not become a member nobody knows of.
	t := &timer{fire: func(nowMs int64, out *machine.Out) { g.pendingOver(nowMs, id, out) }}
	g.pending[id] = t
	g.shard.timers.set(t, nowMs+int64(j.req.SessionTimeoutMillis))
	out.Answer(j.to, joinError(id, protocol.MemberIDRequired))
}

// pendingOver: somebody was given a member id and did not come back.
func (g *classic) pendingOver(nowMs int64, id string, out *machine.Out) {
	delete(g.pending, id)
	if g.state == PreparingRebalance && g.allJoined() {
		g.completeJoin(nowMs, out)
	}
	g.shard.dropIfBare(g.group)
}

// joinAs takes a new member in.
func (g *classic) joinAs(nowMs int64, j *joiner, id string, out *machine.Out) {
	m := &member{id: id, instance: j.req.InstanceID, clientID: j.client.ID, clientHost: j.client.Host, rebalanceTimeoutMs: j.req.RebalanceTimeoutMillis,
		sessionTimeoutMs: j.req.SessionTimeoutMillis, protocols: j.protocols, isNew: true}
	if g.state == PreparingRebalance && g.previous == Empty {
		g.newMember = true
	}
	g.add(m, j.req.ProtocolType)
	g.park(m, j.to, out)
	g.session(nowMs, m, newMemberTimeoutMs)
	g.history.add(Event{nowMs, Joined, m.id, m.client(), j.reason()})
	g.rebalanceOrComplete(nowMs, fmt.Sprintf("member %s joined%s", m.id, j.why()), out)
}

// reason is what the client said why it joins (v8+).
func (j *joiner) reason() string {
	if j.req.Reason == nil {
		return ""
	}
	return *j.req.Reason
}

func (j *joiner) why() string {
	if r := j.reason(); r != "" {
		return ": " + clip(r)
	}
	return ""
}

// joinAgain is the JoinGroup of somebody who has a member id.
func (g *classic) joinAgain(nowMs int64, j *joiner, out *machine.Out) {
	id := j.req.MemberID
	if g.pending[id] != nil {
		if j.req.InstanceID != nil { // pending ids are of dynamic members only
			out.Answer(j.to, joinError(id, protocol.UnknownMemberID))
			return
		}
		g.joinAs(nowMs, j, id, out)
		return
	}
	if code := g.check(id, j.req.InstanceID); code != protocol.None {
		out.Answer(j.to, joinError(id, code))
		return
	}
	m := g.members.get(id)
	same := m.offersSame(j.protocols)
	switch {
	case g.state == PreparingRebalance:
		g.updateAndRebalance(nowMs, m, j, "", out)
	case g.state == CompletingRebalance && same, g.state == Stable && same && g.leader != id:
		// It may have missed our answer; a follower may ask for its assignment again.
		out.Answer(j.to, g.joined(m))
	case g.state == CompletingRebalance || g.state == Stable:
		why := "member " + id + " changed what it offers or subscribes to"
		if same {
			why = "the leader " + id + " asked for a rebalance" // e.g. because topics changed
		}
		g.updateAndRebalance(nowMs, m, j, why+j.why(), out)
	default: // Empty, and yet it is a member: cannot be
		out.Answer(j.to, joinError(id, protocol.UnknownMemberID))
	}
}

// updateAndRebalance takes over what a member says now.
func (g *classic) updateAndRebalance(nowMs int64, m *member, j *joiner, why string, out *machine.Out) {
	g.update(m, j)
	g.park(m, j.to, out)
	g.rebalanceOrComplete(nowMs, why, out)
}

func (g *classic) update(m *member, j *joiner) {
	g.count(m.protocols, -1)
	m.protocols, m.rebalanceTimeoutMs, m.sessionTimeoutMs = j.protocols, j.req.RebalanceTimeoutMillis, j.req.SessionTimeoutMillis
	g.count(m.protocols, 1)
}

// joined is the answer for a member of the present generation.
func (g *classic) joined(m *member) *kmsg.JoinGroupResponse {
	r := kmsg.NewPtrJoinGroupResponse()
	r.Generation, r.LeaderID, r.MemberID = g.generation, g.leader, m.id
	protocolType, protocolName := g.protocolType, g.protocol
	r.ProtocolType, r.Protocol = &protocolType, &protocolName
	if protocolName == "" { // one without a name; where the answer cannot say null this is written as empty
		r.Protocol = nil
	}
	if m.id == g.leader {
		r.Members = g.rollCall()
	}
	return r
}

// rollCall is what the leader is told about the members.
func (g *classic) rollCall() []kmsg.JoinGroupResponseMember {
	all := make([]kmsg.JoinGroupResponseMember, 0, len(g.members.list))
	for _, m := range g.members.list {
		e := kmsg.NewJoinGroupResponseMember()
		e.MemberID, e.InstanceID, e.ProtocolMetadata = m.id, m.instance, m.metadata(g.protocol)
		all = append(all, e)
	}
	return all
}
