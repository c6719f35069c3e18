package group

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// Heartbeat is Heartbeat: a member lives, and hears whether it must join again.
func (s *Shard) Heartbeat(nowMs int64, req *kmsg.HeartbeatRequest, to machine.Ticket, out *machine.Out) {
	if g := s.groups[req.Group]; g != nil {
		if cg, ok := g.membership.(*consumerGroup); ok {
			cg.heartbeatClassic(nowMs, req, to, out)
			return
		}
	}
	r := kmsg.NewPtrHeartbeatResponse()
	r.ErrorCode = int16(s.heartbeat(nowMs, req))
	out.Answer(to, r)
}

func (s *Shard) heartbeat(nowMs int64, req *kmsg.HeartbeatRequest) protocol.Code {
	g := s.groups[req.Group]
	if g == nil {
		return protocol.UnknownMemberID
	}
	c, ok := g.membership.(*classic)
	if !ok {
		return protocol.UnknownMemberID
	}
	if code := c.check(req.MemberID, req.InstanceID); code != protocol.None {
		return code
	}
	if !c.isOf(c.members.get(req.MemberID), req.Generation) {
		return protocol.IllegalGeneration
	}
	c.heard(nowMs, c.members.get(req.MemberID))
	if c.state == PreparingRebalance {
		return protocol.RebalanceInProgress
	}
	return protocol.None
}

// Leave is LeaveGroup: members go, or are taken out by an admin (by group.instance.id alone).
func (s *Shard) Leave(nowMs int64, req *kmsg.LeaveGroupRequest, to machine.Ticket, out *machine.Out) {
	members := req.Members
	if req.Version < 3 {
		members = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	r := kmsg.NewPtrLeaveGroupResponse()
	g := s.groups[req.Group]
	if g != nil && isConsumer(g) {
		g.membership.(*consumerGroup).classicLeaves(nowMs, req, members, to, out)
		return
	}
	var c *classic
	if g != nil {
		c, _ = g.membership.(*classic)
	}
	var left []string
	for i := range members {
		m := &members[i]
		a := kmsg.NewLeaveGroupResponseMember()
		a.MemberID, a.InstanceID = m.MemberID, m.InstanceID
		code := protocol.UnknownMemberID
		if c != nil {
			code = c.leave(nowMs, m, out)
		}
		if a.ErrorCode = int16(code); code == protocol.None {
			left = append(left, m.MemberID)
		}
		r.Members = append(r.Members, a)
	}
	if req.Version < 3 {
		r.ErrorCode = r.Members[0].ErrorCode
	}
	if len(left) > 0 {
		c.left(nowMs, "left: "+clip(strings.Join(left, ", ")), out)
	}
	out.Answer(to, r)
	if g != nil {
		s.dropIfBare(g)
	}
}

// leave takes one member out.
func (g *classic) leave(nowMs int64, q *kmsg.LeaveGroupRequestMember, out *machine.Out) protocol.Code {
	m := g.members.get(q.MemberID)
	switch {
	case q.MemberID == noMember:
		if q.InstanceID == nil || g.static[*q.InstanceID] == nil {
			return protocol.UnknownMemberID
		}
		m = g.static[*q.InstanceID]
	case g.pending[q.MemberID] != nil:
		g.forget(q.MemberID)
		return protocol.None
	default:
		if code := g.check(q.MemberID, q.InstanceID); code != protocol.None {
			return code
		}
	}
	reason := ""
	if q.Reason != nil {
		reason = *q.Reason
	}
	g.history.add(Event{nowMs, Left, m.id, m.client(), reason})
	g.remove(m, protocol.UnknownMemberID, out)
	return protocol.None
}

// left follows the leaving of members.
func (g *classic) left(nowMs int64, why string, out *machine.Out) {
	if g.state == PreparingRebalance {
		g.completeIfAllJoined(nowMs, out)
		return
	}
	g.removed(nowMs, why, out)
}
