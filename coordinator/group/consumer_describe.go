package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group/assign"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// What ConsumerGroupDescribe says of a member: which protocol it uses.
const (
	classicMemberType  = 0
	consumerMemberType = 1
)

// ConsumerDescribe is ConsumerGroupDescribe of one group.
func (s *Shard) ConsumerDescribe(_ int64, id string, to machine.Ticket, out *machine.Out) {
	a := kmsg.NewConsumerGroupDescribeResponseGroup()
	a.Group = id
	var cg *consumerGroup
	if g := s.groups[id]; g != nil {
		cg, _ = g.membership.(*consumerGroup)
	}
	if cg == nil {
		text := "there is no consumer group " + clip(id)
		a.ErrorCode, a.ErrorMessage = int16(protocol.GroupIDNotFound), &text
		out.Answer(to, &a)
		return
	}
	cg.describeTo(&a)
	cg.answer(to, out, func(err error) any {
		if err != nil {
			failed := kmsg.NewConsumerGroupDescribeResponseGroup()
			failed.Group, failed.ErrorCode = id, int16(writeCode(err))
			return &failed
		}
		return &a
	})
}

func (g *consumerGroup) describeTo(a *kmsg.ConsumerGroupDescribeResponseGroup) {
	a.State, a.Epoch, a.AssignmentEpoch, a.AssignorName = g.stateName(), g.epoch(), g.targetEpoch(), g.assignorName()
	a.Members = []kmsg.ConsumerGroupDescribeResponseGroupMember{}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[id]
		d := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		d.MemberID, d.InstanceID, d.RackID, d.MemberEpoch = m.id, m.sub.instance, m.sub.rack, m.cur.epoch
		d.ClientID, d.ClientHost, d.SubscribedTopics = m.sub.clientID, m.sub.clientHost, m.sub.topics
		d.SubscribedTopicRegex = &m.sub.regex
		has := merge(m.cur.assigned, m.cur.revoking) // what it must give up it has
		d.Assignment, d.TargetAssignment = g.described(has.Assignment), g.described(g.targets[id])
		d.MemberType = consumerMemberType
		if m.usesClassic() {
			d.MemberType = classicMemberType
		}
		a.Members = append(a.Members, d)
	}
}

// described is an assignment with the names of the topics; those that are gone are left out.
func (g *consumerGroup) described(a assign.Assignment) (d kmsg.Assignment) {
	topics := g.shard.o.Topics()
	d.TopicPartitions = []kmsg.AssignmentTopicPartition{}
	for i := range a {
		if name, ok := topics.TopicName(a[i].Topic); ok {
			d.TopicPartitions = append(d.TopicPartitions, kmsg.AssignmentTopicPartition{TopicID: a[i].Topic, Topic: name, Partitions: a[i].Partitions})
		}
	}
	return d
}

func (g *consumerGroup) explain(story *Story) {
	story.SinceMs = g.sinceMs
	if g.settled == len(g.members) && g.epoch() == g.targetEpoch() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		until, ok := g.waitsFor(g.members[id])
		if !ok {
			continue
		}
		story.Waiting = append(story.Waiting, id)
		if story.UntilMs == 0 || until < story.UntilMs {
			story.UntilMs = until
		}
	}
}

// waitsFor says whether a member has to do something before the group is stable, and until when it is waited for: to give up partitions, to hear of
// its new target, or to fetch what has become free for it. One that waits for others itself does not count.
func (g *consumerGroup) waitsFor(m *consumerMember) (untilMs int64, ok bool) {
	if g.reconciled(m) && g.epoch() == g.targetEpoch() || !g.mustJoin(m) && g.epoch() == g.targetEpoch() {
		return 0, false
	}
	until := m.session.at
	for _, t := range []*timer{&m.revoke, &m.rejoin} {
		if t.isSet() {
			until = min(until, t.at)
		}
	}
	return until, true
}
