package group

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group/assign"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// refusal is an error of ConsumerGroupHeartbeat, with what the client is told.
type refusal struct {
	code protocol.Code
	text string
}

func refuse(code protocol.Code, format string, args ...any) *refusal {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

func (r *refusal) response() *kmsg.ConsumerGroupHeartbeatResponse {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.ErrorCode, resp.ErrorMessage = int16(r.code), &r.text
	return resp
}

// ConsumerHeartbeat is ConsumerGroupHeartbeat: join (epoch 0), live, change what one wants, say what one has, leave (-1; a static
// member that comes back: -2). The answer says what the member shall have, when that is something else than it was.
func (s *Shard) ConsumerHeartbeat(nowMs int64, req *kmsg.ConsumerGroupHeartbeatRequest, client Client, to machine.Ticket, out *machine.Out) {
	if no := s.checkHeartbeat(req); no != nil {
		out.Answer(to, no.response())
		return
	}
	g, no := s.consumerGroup(nowMs, req)
	if no != nil {
		out.Answer(to, no.response())
		return
	}
	if req.MemberEpoch < 0 {
		no = g.leave(nowMs, req, to, out)
	} else {
		no = g.heartbeat(nowMs, req, client, to, out)
	}
	if no != nil {
		out.Answer(to, no.response())
		g.unopened(nowMs, out)
	}
	s.dropIfBare(g.group)
}

// checkHeartbeat looks for what no group accepts.
func (s *Shard) checkHeartbeat(req *kmsg.ConsumerGroupHeartbeatRequest) *refusal {
	invalid := func(text string) *refusal { return &refusal{protocol.InvalidRequest, text} }
	switch {
	case blank(req.Group):
		return invalid("the group id is empty")
	case req.InstanceID != nil && blank(*req.InstanceID):
		return invalid("the instance id is empty")
	case req.RackID != nil && blank(*req.RackID):
		return invalid("the rack id is empty")
	case blank(req.MemberID) && (req.Version >= 1 || req.MemberEpoch != joinEpoch):
		return invalid("the member id is empty")
	case req.MemberEpoch < leaveStaticEpoch:
		return invalid("the member epoch is none")
	case req.MemberEpoch == leaveStaticEpoch && req.InstanceID == nil:
		return invalid("only a member with an instance id can leave to come back")
	}
	if req.MemberEpoch == joinEpoch {
		switch {
		case req.RebalanceTimeoutMillis == -1:
			return invalid("a member that joins must say its rebalance timeout")
		case req.Topics == nil || len(req.Topics) > 0:
			return invalid("a member that joins must say that it has no partitions")
		case req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
			return invalid("a member that joins must say what it subscribes to")
		}
	}
	if a := req.ServerAssignor; a != nil && !slices.Contains(s.o.ConsumerConfig(req.Group).Assignors, *a) {
		return refuse(protocol.UnsupportedAssignor, "the assignor %q is not one of %s", clip(*a), strings.Join(s.o.ConsumerConfig(req.Group).Assignors, ", "))
	}
	return nil
}

// blank says whether nothing of an id can be seen. Classic groups are not asked: an old client may have such a name.
func blank(id string) bool { return strings.TrimFunc(id, func(c rune) bool { return c <= ' ' }) == "" }

// consumerGroup finds the group of a heartbeat, or makes it of nothing or of a classic group.
func (s *Shard) consumerGroup(nowMs int64, req *kmsg.ConsumerGroupHeartbeatRequest) (*consumerGroup, *refusal) {
	g := s.groups[req.Group]
	if g != nil {
		if cg, ok := g.membership.(*consumerGroup); ok {
			return cg, nil
		}
	}
	if req.MemberEpoch != joinEpoch {
		return nil, refuse(protocol.GroupIDNotFound, "there is no consumer group %s", clip(req.Group))
	}
	if g == nil {
		g = s.group(req.Group)
	}
	return s.upgrade(nowMs, g)
}

// heartbeat is that of a member that joins or is there.
func (g *consumerGroup) heartbeat(nowMs int64, req *kmsg.ConsumerGroupHeartbeatRequest, client Client, to machine.Ticket, out *machine.Out) *refusal {
	if most := g.config().MaxSize; len(g.members) >= most && g.members[req.MemberID] == nil {
		if req.InstanceID == nil || g.static[*req.InstanceID] == "" || req.MemberEpoch != joinEpoch {
			return refuse(protocol.GroupMaxSizeReached, "the group has its most members, %d", most)
		}
	}
	if req.SubscribedTopicRegex != nil && *req.SubscribedTopicRegex != "" && g.regexes[*req.SubscribedTopicRegex] == nil {
		if _, err := compileRegex(*req.SubscribedTopicRegex); err != nil {
			return refuse(protocol.InvalidRegularExpression, "the regular expression is not accepted: %v", err)
		}
	}
	id := strings.Clone(req.MemberID)
	if id == "" {
		id = g.shard.o.NewID()
	}
	replaces, no := g.identify(id, req)
	if no != nil {
		return no
	}
	opens := g.opening != nil
	c := g.begin(nowMs, id, out)
	isNew := g.members[id] == nil && replaces == nil
	if replaces != nil {
		g.replace(nowMs, c, replaces, id)
	}
	m := g.member(id)
	before := m.cur
	changed, must := g.resubscribe(nowMs, c, m, req, client)
	if isNew {
		g.history.add(Event{nowMs, Joined, id, m.client(), ""})
	}
	g.refreshRegexes(nowMs, c)
	must = must || opens && g.incomplete()
	g.advance(nowMs, c, must, "the subscription of "+clip(id)+" is another or new")
	g.retarget(nowMs, c)
	g.reconcile(nowMs, c, m, req.Topics, changed)
	g.heard(nowMs, m)
	g.finish(nowMs, c, to, out, g.heartbeatAnswer(nowMs, req, m, before))
	return nil
}

// heartbeatAnswer makes the answer of what is so now, to be given when it is committed.
func (g *consumerGroup) heartbeatAnswer(nowMs int64, req *kmsg.ConsumerGroupHeartbeatRequest, m *consumerMember, before *current) func(error) any {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = &m.id, m.cur.epoch, g.intervalMs(nowMs, m)
	all := req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
	if req.MemberEpoch == joinEpoch || all || !before.assigned.Equal(m.cur.assigned.Assignment) {
		a := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
		a.Topics = []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}
		for _, p := range m.cur.assigned.Assignment {
			a.Topics = append(a.Topics, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: p.Topic, Partitions: p.Partitions})
		}
		resp.Assignment = &a
	}
	return func(err error) any {
		if err != nil {
			return (&refusal{writeCode(err), "the change of the group could not be written"}).response()
		}
		return resp
	}
}

// waitingBeatMs is how soon a member shall beat again that waits for what others give up: until then what was given up has no owner.
const waitingBeatMs = 250

// intervalMs is after how long a member shall beat again. Kafka says the same to everybody; here a member that is not at the end of its way
// comes sooner: when the next target is due, or when others may have given up what it is to get.
func (g *consumerGroup) intervalMs(nowMs int64, m *consumerMember) int32 {
	interval := g.config().HeartbeatIntervalMs
	switch {
	case g.epoch() > g.targetEpoch() && g.target != nil:
		return min(interval, max(int32(min(g.target.atMs+int64(g.config().AssignmentIntervalMs)-nowMs, int64(interval))), 1))
	case m.cur.state == memberUnreleased:
		return min(interval, waitingBeatMs)
	}
	return interval
}

// identify finds out whether the request may speak for the member, and whether it takes the place of a static one.
func (g *consumerGroup) identify(id string, req *kmsg.ConsumerGroupHeartbeatRequest) (replaces *consumerMember, no *refusal) {
	if req.InstanceID == nil {
		m := g.members[id]
		switch {
		case m != nil:
			return nil, m.checkEpoch(req)
		case req.MemberEpoch != joinEpoch:
			return nil, refuse(protocol.UnknownMemberID, "the member %s is not in the group", clip(id))
		}
		return nil, nil
	}
	instance := *req.InstanceID
	m := g.members[g.static[instance]]
	switch {
	case m == nil && req.MemberEpoch == joinEpoch:
		return nil, nil
	case m == nil:
		return nil, refuse(protocol.UnknownMemberID, "the instance id %s is not in the group", clip(instance))
	case m.id == id:
		return nil, m.checkEpoch(req)
	case req.MemberEpoch != joinEpoch:
		return nil, refuse(protocol.FencedInstanceID, "the instance id %s is that of another member now", clip(instance))
	case m.cur.epoch != leaveStaticEpoch && !m.usesClassic(): // one that speaks the classic protocol does not say that it comes back
		return nil, refuse(protocol.UnreleasedInstanceID, "the instance id %s is still in use by the member %s", clip(instance), clip(m.id))
	case g.members[id] != nil:
		return nil, refuse(protocol.InvalidRequest, "the member %s has another instance id or none", clip(id))
	}
	return m, nil
}

// checkEpoch says whether the epoch of a request is the member's. The one before is, too, when the member has nothing that it
// should not have: the answer with the new one was lost.
func (m *consumerMember) checkEpoch(req *kmsg.ConsumerGroupHeartbeatRequest) *refusal {
	epoch := req.MemberEpoch
	if epoch == joinEpoch || epoch == m.cur.epoch || epoch == m.cur.previous && epoch < m.cur.epoch && m.cur.covers(req.Topics) {
		return nil
	}
	return refuse(protocol.FencedMemberEpoch, "the member epoch is %d, not %d: give up all partitions and join again", m.cur.epoch, epoch)
}

// covers says whether all that a member says it has is assigned to it.
func (c *current) covers(topics []kmsg.ConsumerGroupHeartbeatRequestTopic) bool {
	if topics == nil {
		return false
	}
	for i := range topics {
		of := c.assigned.Of(topics[i].TopicID)
		for _, p := range topics[i].Partitions {
			if _, ok := slices.BinarySearch(of, p); !ok {
				return false
			}
		}
	}
	return true
}

// replace gives the place of a static member that left to come back to a member with another id, with all that it had.
func (g *consumerGroup) replace(nowMs int64, c *changes, old *consumerMember, id string) {
	sub, cur, target := old.sub, *old.cur, g.targets[old.id]
	g.history.add(Event{nowMs, Replaced, id, old.client(), "instance " + clip(*sub.instance)})
	g.removeMember(c, old.id)
	c.do(change{changeKey: changeKey{subscriptionChange, id}, sub: sub})
	if target != nil {
		c.do(change{changeKey: changeKey{targetChange, id}, target: target})
	}
	cur.previous, cur.epoch = joinEpoch, joinEpoch
	c.do(change{changeKey: changeKey{currentChange, id}, cur: &cur})
}

// resubscribe takes over what a heartbeat says about the member. changed: the member subscribes to something else; must: that
// makes a new epoch of the group.
func (g *consumerGroup) resubscribe(nowMs int64, c *changes, m *consumerMember, req *kmsg.ConsumerGroupHeartbeatRequest, client Client) (changed, must bool) {
	sub := *m.sub
	sub.clientID, sub.clientHost, sub.classic = strings.Clone(client.ID), strings.Clone(client.Host), nil
	cloneTo(&sub.instance, req.InstanceID)
	cloneTo(&sub.rack, req.RackID)
	cloneTo(&sub.assignor, req.ServerAssignor)
	if req.RebalanceTimeoutMillis != -1 {
		sub.rebalanceTimeoutMs = req.RebalanceTimeoutMillis
	}
	if req.SubscribedTopicNames != nil {
		sub.topics = sortedNames(req.SubscribedTopicNames)
	}
	if req.SubscribedTopicRegex != nil {
		sub.regex = strings.Clone(*req.SubscribedTopicRegex)
	}
	if equalStrings(sub.assignor, m.sub.assignor) {
		changed = g.setWish(nowMs, c, m, &sub)
		return changed, changed
	}
	elected := g.assignorName()
	changed = g.setWish(nowMs, c, m, &sub)
	return changed, changed || g.assignorName() != elected
}

// setWish notes what a member wants, and says whether it is something else than before.
func (g *consumerGroup) setWish(nowMs int64, c *changes, m *consumerMember, sub *memberSubscription) (changed bool) {
	old := m.sub
	if old == noSub || !sub.equal(old) {
		c.do(change{changeKey: changeKey{subscriptionChange, m.id}, sub: sub})
	}
	changed = !slices.Equal(sub.topics, old.topics) || sub.regex != old.regex
	if sub.regex != old.regex {
		if sub.regex != "" && g.regexes[sub.regex] == nil {
			g.resolve(nowMs, c, sub.regex)
		}
		g.dropRegex(c, old.regex)
	}
	return changed
}

func cloneTo(to **string, s *string) {
	if s != nil {
		v := strings.Clone(*s)
		*to = &v
	}
}

// reconcile brings a member one step towards its target.
func (g *consumerGroup) reconcile(nowMs int64, c *changes, m *consumerMember, has []kmsg.ConsumerGroupHeartbeatRequestTopic, changed bool) {
	r := reconciling{member: m.id, cur: m.cur, epoch: g.targetEpoch(), target: g.targets[m.id], changed: changed, has: has, said: has != nil}
	var wanted map[assign.TopicID]bool
	r.wants = func(id assign.TopicID) bool {
		if wanted == nil {
			wanted = map[assign.TopicID]bool{}
			for _, topic := range g.topicsOf(m.sub) {
				wanted[topic.ID] = true
			}
		}
		return wanted[id]
	}
	r.owner = func(p ownedPartition) string { return g.owners[p] }
	if next := r.next(); next != m.cur {
		if m.cur.state == memberUnrevoked && (next.state != memberUnrevoked || next.epoch != m.cur.epoch) {
			g.shard.timers.stop(&m.revoke)
		}
		c.do(change{changeKey: changeKey{currentChange, m.id}, cur: next})
	}
	g.watch(nowMs, m)
}

// watch starts and stops what a member is given time for. One that uses the classic protocol has to join again for everything: see mixed.go.
func (g *consumerGroup) watch(nowMs int64, m *consumerMember) {
	switch {
	case m.usesClassic():
		g.shard.timers.stop(&m.revoke)
		return
	case m.cur.state == memberUnrevoked && !m.revoke.isSet():
		g.awaitRevocation(nowMs, m)
	}
	g.shard.timers.stop(&m.rejoin)
}

// heard starts the session of a member anew.
func (g *consumerGroup) heard(nowMs int64, m *consumerMember) {
	if m.session.fire == nil {
		m.session.fire = func(nowMs int64, out *machine.Out) {
			g.expel(nowMs, m, Expired, "it was not heard of for its session timeout", out)
		}
	}
	timeout := g.config().SessionTimeoutMs
	if m.usesClassic() {
		timeout = m.sub.classic.sessionTimeoutMs
	}
	g.shard.timers.set(&m.session, nowMs+int64(timeout))
}

// awaitRevocation gives a member the time to give up what it must.
func (g *consumerGroup) awaitRevocation(nowMs int64, m *consumerMember) {
	if m.revoke.fire == nil {
		m.revoke.fire = func(nowMs int64, out *machine.Out) {
			if m.cur.state == memberUnrevoked && m.cur.epoch != leaveStaticEpoch {
				g.expel(nowMs, m, Late, "it did not give up its partitions within its rebalance timeout", out)
			}
		}
	}
	g.shard.timers.set(&m.revoke, nowMs+int64(max(m.sub.rebalanceTimeoutMs, 0)))
}
