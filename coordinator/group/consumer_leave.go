package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// leave is the heartbeat of a member that goes: for good, or, a static one, to come back within its session timeout; then its
// partitions stay its own.
func (g *consumerGroup) leave(nowMs int64, req *kmsg.ConsumerGroupHeartbeatRequest, to machine.Ticket, out *machine.Out) *refusal {
	m := g.members[req.MemberID]
	if req.InstanceID != nil {
		m = g.members[g.static[*req.InstanceID]]
		if m != nil && m.id != req.MemberID {
			return refuse(protocol.FencedInstanceID, "the instance id %s is that of another member now", clip(*req.InstanceID))
		}
	}
	if m == nil {
		return refuse(protocol.UnknownMemberID, "the member is not in the group")
	}
	c := &changes{g: g}
	if req.MemberEpoch == leaveStaticEpoch {
		cur := *m.cur
		cur.epoch, cur.revoking = leaveStaticEpoch, owned{}
		g.history.add(Event{nowMs, Left, m.id, m.client(), "to come back"})
		g.shard.timers.stop(&m.revoke)
		c.do(change{changeKey: changeKey{currentChange, m.id}, cur: &cur})
	} else {
		g.history.add(Event{nowMs, Left, m.id, m.client(), ""})
		g.drop(c, m)
		g.shrunk(nowMs, c, "left: "+clip(m.id), out)
	}
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch = &m.id, req.MemberEpoch
	g.finish(nowMs, c, to, out, func(err error) any {
		if err != nil {
			return (&refusal{writeCode(err), "the change of the group could not be written"}).response()
		}
		return resp
	})
	return nil
}

// drop takes a member out. What it had is free at once: it is gone, or it will be fenced when it comes again.
func (g *consumerGroup) drop(c *changes, m *consumerMember) {
	regex := m.sub.regex
	g.removeMember(c, m.id)
	g.dropRegex(c, regex)
}

// removeMember takes away all that is recorded of a member.
func (g *consumerGroup) removeMember(c *changes, id string) {
	c.do(change{changeKey: changeKey{currentChange, id}})
	c.do(change{changeKey: changeKey{targetChange, id}})
	c.do(change{changeKey: changeKey{subscriptionChange, id}})
}

// shrunk makes the epoch of a group that has fewer members, or a classic group of it when only such members are left. One without any has its target: nothing; the next member need not wait.
func (g *consumerGroup) shrunk(nowMs int64, c *changes, why string, out *machine.Out) {
	if g.downgradable(nowMs) {
		g.downgrade(nowMs, c, why, out)
		return
	}
	g.advance(nowMs, c, true, why)
	if len(g.members) == 0 {
		c.do(change{changeKey: changeKey{targetEpochChange, ""}, epoch: &targetEpoch{epoch: g.epoch()}})
		g.history.add(Event{AtMs: nowMs, What: Emptied})
	}
}

// expel takes a member out that did not do what it must.
func (g *consumerGroup) expel(nowMs int64, m *consumerMember, what What, why string, out *machine.Out) {
	if g.members[m.id] != m {
		return
	}
	out.Info("a member of a consumer group is fenced", "group", g.id, "member", m.id, "why", why)
	g.history.add(Event{nowMs, what, m.id, m.client(), why})
	c := &changes{g: g}
	g.drop(c, m)
	g.shrunk(nowMs, c, what.String()+": "+clip(m.id), out)
	g.finish(nowMs, c, nil, out, nil)
}

// classicLeaves is LeaveGroup of members of a consumer group.
func (g *consumerGroup) classicLeaves(nowMs int64, req *kmsg.LeaveGroupRequest, members []kmsg.LeaveGroupRequestMember, to machine.Ticket, out *machine.Out) {
	r := kmsg.NewPtrLeaveGroupResponse()
	c := &changes{g: g}
	for i := range members {
		a := kmsg.NewLeaveGroupResponseMember()
		a.MemberID, a.InstanceID = members[i].MemberID, members[i].InstanceID
		a.ErrorCode = int16(g.classicLeave(nowMs, &members[i], c))
		r.Members = append(r.Members, a)
	}
	if req.Version < 3 {
		r.ErrorCode = r.Members[0].ErrorCode
	}
	if len(c.undo) > 0 {
		g.shrunk(nowMs, c, "members left", out)
	}
	g.finish(nowMs, c, to, out, func(err error) any {
		if err != nil {
			r = kmsg.NewPtrLeaveGroupResponse()
			r.ErrorCode = int16(writeCode(err))
		}
		return r
	})
}

// classicLeave is LeaveGroup of a member of a consumer group: an admin takes it out.
func (g *consumerGroup) classicLeave(nowMs int64, q *kmsg.LeaveGroupRequestMember, c *changes) protocol.Code {
	m := g.members[q.MemberID]
	if q.InstanceID != nil {
		m = g.members[g.static[*q.InstanceID]]
		if m != nil && q.MemberID != noMember && m.id != q.MemberID {
			return protocol.FencedInstanceID
		}
	}
	if m == nil {
		return protocol.UnknownMemberID
	}
	reason := ""
	if q.Reason != nil {
		reason = *q.Reason
	}
	g.history.add(Event{nowMs, Left, m.id, m.client(), reason})
	g.drop(c, m)
	return protocol.None
}
