package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
)

// Heartbeats that change nothing are nearly all that groups hear. They can be answered on the spot (coordinator.Input.Quick): each of these says and does
// exactly what the whole request would, or returns false and has done nothing.

// QuickHeartbeat is Heartbeat of a classic group.
func (s *Shard) QuickHeartbeat(nowMs int64, req *kmsg.HeartbeatRequest, to machine.Ticket, out *machine.Out) bool {
	g := s.groups[req.Group]
	if g == nil {
		return false
	}
	if _, ok := g.membership.(*classic); !ok {
		return false
	}
	s.Heartbeat(nowMs, req, to, out)
	return true
}

// QuickConsumerHeartbeat is ConsumerHeartbeat of a member that has reached its target and has nothing to say, in a group at rest.
func (s *Shard) QuickConsumerHeartbeat(nowMs int64, req *kmsg.ConsumerGroupHeartbeatRequest, client Client, to machine.Ticket, out *machine.Out) bool {
	if req.MemberEpoch <= 0 || req.RebalanceTimeoutMillis != -1 || req.RackID != nil || req.ServerAssignor != nil ||
		req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil || req.Topics != nil {
		return false
	}
	of := s.groups[req.Group]
	if of == nil {
		return false
	}
	g, ok := of.membership.(*consumerGroup)
	if !ok || !g.rests() {
		return false
	}
	m := g.members[req.MemberID]
	if m == nil || !g.reconciled(m) || req.MemberEpoch != m.cur.epoch || !m.isAs(req.InstanceID, client) {
		return false
	}
	g.heard(nowMs, m)
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = &m.id, m.cur.epoch, g.config().HeartbeatIntervalMs
	out.Answer(to, resp)
	return true
}

// rests says that nothing is to be done for the group before a member asks for something else than it has.
func (g *consumerGroup) rests() bool {
	return len(g.underWay)+len(g.doubt)+len(g.regexUsers) == 0 && g.epoch() <= g.targetEpoch() && g.seenTopics == g.shard.o.Topics().Version()
}

// isAs says whether a request comes from the member as it is known.
func (m *consumerMember) isAs(instance *string, client Client) bool {
	sub := m.sub
	if instance != nil && (sub.instance == nil || *sub.instance != *instance) {
		return false
	}
	return sub.classic == nil && sub.clientID == client.ID && sub.clientHost == client.Host
}
