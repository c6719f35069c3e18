package group

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

func syncError(code protocol.Code) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	r.ErrorCode = int16(code)
	return r
}

// Sync is SyncGroup: the leader brings the assignment of everybody, the others fetch theirs. The answers come when it is stored.
func (s *Shard) Sync(nowMs int64, req *kmsg.SyncGroupRequest, to machine.Ticket, out *machine.Out) {
	g := s.groups[req.Group]
	if g == nil {
		out.Answer(to, syncError(protocol.UnknownMemberID))
		return
	}
	if cg, ok := g.membership.(*consumerGroup); ok {
		cg.syncClassic(nowMs, req, to, out)
		return
	}
	c, ok := g.membership.(*classic)
	if !ok || c.state == Empty {
		out.Answer(to, syncError(protocol.UnknownMemberID))
		return
	}
	c.sync(nowMs, req, to, out)
}

func (g *classic) sync(nowMs int64, req *kmsg.SyncGroupRequest, to machine.Ticket, out *machine.Out) {
	if code := g.checkSync(req); code != protocol.None {
		out.Answer(to, syncError(code))
		return
	}
	m := g.members.get(req.MemberID)
	switch g.state {
	case PreparingRebalance:
		out.Answer(to, syncError(protocol.RebalanceInProgress))
	case CompletingRebalance:
		g.answerSync(m, syncError(protocol.RebalanceInProgress), out) // of a connection that gave up
		m.sync = to
		g.synced(m.id)
		if m.id == g.leader && g.storing != g.generation { // asked again, it waits with the others
			g.storeAssignment(req, out)
		}
	case Stable:
		g.synced(m.id)
		out.Answer(to, g.assigned(m))
	}
}

func (g *classic) checkSync(req *kmsg.SyncGroupRequest) protocol.Code {
	code := g.check(req.MemberID, req.InstanceID)
	switch {
	case code != protocol.None:
		return code
	case !g.isOf(g.members.get(req.MemberID), req.Generation):
		return protocol.IllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType, req.Protocol != nil && *req.Protocol != g.protocol:
		return protocol.InconsistentGroupProtocol
	}
	return protocol.None
}

// assigned is the answer for a member of a stable group.
func (g *classic) assigned(m *member) *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupResponse()
	protocolType, protocolName := g.protocolType, g.protocol
	r.ProtocolType, r.Protocol, r.MemberAssignment = &protocolType, &protocolName, m.assignment
	return r
}

// storeAssignment makes the leader's assignment durable; then the group is stable. Members it forgot get an empty one.
func (g *classic) storeAssignment(req *kmsg.SyncGroupRequest, out *machine.Out) {
	assignment := map[string][]byte{}
	for i := range req.GroupAssignment {
		a := &req.GroupAssignment[i]
		if g.members.get(a.MemberID) != nil { // the bytes of the request are not kept
			assignment[a.MemberID] = bytes.Clone(a.MemberAssignment)
		}
	}
	generation, before := g.generation, g.stored
	g.stored, g.storing = true, generation
	g.store(func(m *member) []byte { return assignment[m.id] }, out, func(nowMs int64, err error, out *machine.Out) {
		if err != nil {
			g.stored = before
		}
		if g.state != CompletingRebalance || g.generation != generation {
			return // the next rebalance has begun meanwhile
		}
		if err != nil {
			g.storing = 0
			code := writeCode(err)
			for _, m := range g.members.list {
				m.assignment = nil
				if g.answerSync(m, syncError(code), out) {
					g.heard(nowMs, m)
				}
			}
			g.rebalance(nowMs, "the assignment could not be stored: "+err.Error(), out)
			return
		}
		for _, m := range g.members.list {
			m.assignment = assignment[m.id]
			if g.answerSync(m, g.assigned(m), out) {
				g.heard(nowMs, m)
			}
		}
		g.transition(nowMs, Stable)
		g.history.add(Event{AtMs: nowMs, What: Assigned})
	})
}
