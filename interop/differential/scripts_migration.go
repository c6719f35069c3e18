package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cooperative makes a JoinGroup one of a member that subscribes to a topic and says which of its partitions it has.
func cooperative(t topic, partitions ...int32) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) {
		m := kmsg.NewConsumerMemberMetadata()
		m.Version, m.Topics = 1, []string{t.name}
		if len(partitions) > 0 {
			m.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{{Topic: t.name, Partitions: partitions}}
		}
		r.Protocols = offers("range")
		r.Protocols[0].Metadata = m.AppendTo(nil)
	}
}

// give makes a SyncGroup one of a leader that gives each member the partitions of its place.
func give(req *kmsg.SyncGroupRequest, t topic, partitions ...[]int32) *kmsg.SyncGroupRequest {
	for i := range req.GroupAssignment {
		a := kmsg.NewConsumerMemberAssignment()
		a.Version = 1
		a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: t.name, Partitions: partitions[i]}}
		req.GroupAssignment[i].MemberAssignment = a.AppendTo(nil)
	}
	return req
}

// classicOwner is a stable classic group of one member that has the four partitions of t.
func (p *peer) classicOwner(g string, t topic, change ...func(*kmsg.JoinGroupRequest)) (member string, generation int32) {
	member, generation = p.joinAs("join", 7, g, append([]func(*kmsg.JoinGroupRequest){cooperative(t)}, change...)...)
	p.do("sync", 4, give(syncOf(g, member, generation, member), t, []int32{0, 1, 2, 3}))
	return member, generation
}

// mixed is a group of a classic member, with the partitions 0 and 1 of t, and the consumer b, with 2 and 3, at epoch 2.
func (p *peer) mixed(g string, t topic, change ...func(*kmsg.JoinGroupRequest)) (member string) {
	member, _ = p.classicOwner(g, t, change...)
	again := func(partitions ...int32) *kmsg.JoinGroupRequest {
		return joinOf(g, member, append([]func(*kmsg.JoinGroupRequest){cooperative(t, partitions...)}, change...)...)
	}
	p.s.beat("b joins", g, "b", 0, subscribed(t))
	p.do("joins again", 7, again(0, 1, 2, 3))
	p.do("syncs", 4, syncOf(g, member, 1))
	p.do("gave up", 7, again(0, 1))
	p.do("syncs", 4, syncOf(g, member, 2))
	p.s.beat("b gets", g, "b", 2)
	return member
}

var migrationScripts = []Script{
	{"Migration/upgrade", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a := s.peer()
		id, gen := a.classicOwner(g, t)
		s.do("describe", 5, describeOf(g))
		s.beat("b joins", g, "b", 0, subscribed(t))
		s.do("describe", 6, describeOf(g))
		s.do("describe", 1, consumerDescribeOf(g))
		s.do("commit", 8, by(commitOf(g, oc{t, 3, 1}), id, gen))
		s.each("heartbeat", 0, 4, func(int16) kmsg.Request { return heartbeatOf(g, id, gen) })
		s.do("heartbeat of another generation", 4, heartbeatOf(g, id, gen+1))
		s.do("sync", 5, syncOf(g, id, gen))
		s.beat("b waits", g, "b", 2)
		a.do("joins again", 9, joinOf(g, id, cooperative(t, 0, 1, 2, 3)))
		s.do("describe", 1, consumerDescribeOf(g))
		s.do("heartbeat", 4, heartbeatOf(g, id, gen))
		s.do("sync of another generation", 5, syncOf(g, id, gen+1))
		a.do("sync", 5, syncOf(g, id, gen))
		s.beat("b waits", g, "b", 2)
		s.do("heartbeat before it gave up", 4, heartbeatOf(g, id, gen))
		a.do("gave up", 9, joinOf(g, id, cooperative(t, 0, 1)))
		s.beat("b gets", g, "b", 2)
		s.do("heartbeat", 4, heartbeatOf(g, id, gen+1))
		s.do("heartbeat of the old generation", 4, heartbeatOf(g, id, gen))
		a.do("sync", 5, syncOf(g, id, gen+1))
		a.do("sync again", 5, syncOf(g, id, gen+1))
		s.do("sync of another protocol", 5, func() *kmsg.SyncGroupRequest {
			r := syncOf(g, id, gen+1)
			r.Protocol = ptr("sticky")
			return r
		}())
		s.do("sync of another type", 5, func() *kmsg.SyncGroupRequest {
			r := syncOf(g, id, gen+1)
			r.ProtocolType = ptr("connect")
			return r
		}())
		s.do("describe", 1, consumerDescribeOf(g))
		s.each("commit", 7, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), id, gen+1) })
		s.each("commit of the old generation", 7, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), id, gen) })
		s.each("commit of what it gave up", 7, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 3, 1}), id, gen) })
		s.each("commit of a later generation", 7, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), id, gen+2) })
		s.do("admin commits", 8, commitOf(g, oc{t, 0, 1}))
		s.do("fetch", 8, offsetsOf(g, oc{t, 0, 0}))
		s.do("fetch by a member", 9, func() *kmsg.OffsetFetchRequest {
			r := offsetsOf(g, oc{t, 0, 0})
			r.Groups[0].MemberID, r.Groups[0].MemberEpoch = &id, gen+1
			return r
		}())
		s.do("fetch by a member of the old generation", 9, func() *kmsg.OffsetFetchRequest {
			r := offsetsOf(g, oc{t, 0, 0})
			r.Groups[0].MemberID, r.Groups[0].MemberEpoch = &id, gen
			return r
		}())
		s.do("classic heartbeat of b", 4, heartbeatOf(g, "b", 2))
		s.do("classic sync of b", 5, syncOf(g, "b", 2))
		s.beat("consumer heartbeat of a", g, id, 2)
	}},
	{"Migration/downgrade", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a := s.peer()
		id := a.mixed(g, t)
		s.beat("b leaves", g, "b", -1)
		s.do("describe", 6, describeOf(g))
		s.do("describe", 1, consumerDescribeOf(g))
		s.do("heartbeat", 4, heartbeatOf(g, id, 2))
		s.do("sync", 5, syncOf(g, id, 2))
		s.do("commit", 8, by(commitOf(g, oc{t, 0, 1}), id, 2))
		s.beat("b beats", g, "b", 2)
		a.do("joins", 9, joinOf(g, id, cooperative(t, 0, 1)))
		a.do("syncs", 5, give(syncOf(g, id, 3, id), t, []int32{0, 1, 2, 3}))
		s.do("describe", 6, describeOf(g))
		s.beat("b joins", g, "b", 0, subscribed(t))
		s.do("describe", 1, consumerDescribeOf(g))
	}},
	{"Migration/admin-takes-the-consumer-out", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a := s.peer()
		id := a.mixed(g, t)
		s.do("leave", 5, leaveOf(g, "b", "x"))
		s.do("describe", 6, describeOf(g))
		s.do("heartbeat", 4, heartbeatOf(g, id, 2))
	}},
	{"Migration/classic-member-leaves", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a := s.peer()
		id := a.mixed(g, t)
		s.do("leaves", 5, leaveOf(g, id))
		s.do("leaves again", 5, leaveOf(g, id))
		s.do("describe", 1, consumerDescribeOf(g))
		s.beat("b gets all", g, "b", 2, has(t, 2, 3))
		s.do("list", 5, kmsg.NewPtrListGroupsRequest())
	}},
	{"Migration/classic-joins", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.beat("b joins", g, "b", 0, subscribed(t))
		s.each("unknown type", 0, 9, func(int16) kmsg.Request {
			return joinOf(g, "", cooperative(t), func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
		})
		s.each("no protocols", 5, 9, func(int16) kmsg.Request {
			return joinOf(g, "", func(r *kmsg.JoinGroupRequest) { r.Protocols = nil })
		})
		s.do("malformed", 9, joinOf(g, "x", func(r *kmsg.JoinGroupRequest) {
			r.Protocols = offers("range")
			r.Protocols[0].Metadata = []byte{1}
		}))
		s.each("first", 4, 9, func(int16) kmsg.Request { return joinOf(g, "", cooperative(t)) })
		a := s.peer()
		id, gen := a.joinAs("a joins", 9, g, cooperative(t))
		s.do("describe", 1, consumerDescribeOf(g))
		a.do("a syncs", 5, syncOf(g, id, gen))
		s.do("heartbeat", 4, heartbeatOf(g, id, gen))
		s.beat("b must give", g, "b", 2, has(t, 0, 1, 2, 3))
		s.beat("b gave", g, "b", 2, has(t, 0, 1))
		s.do("heartbeat", 4, heartbeatOf(g, id, gen))
		a.do("a joins", 9, joinOf(g, id, cooperative(t)))
		a.do("a syncs", 5, syncOf(g, id, gen))
		s.do("heartbeat", 4, heartbeatOf(g, id, gen))
		s.do("other protocol", 9, joinOf(g, "y", cooperative(t), func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Name = "sticky" }))
		s.do("v3", 3, joinOf(g, "", cooperative(t)))
	}},
	{"Migration/refused", func(s *S) {
		t := s.create("t", 4)
		g := s.group("g")
		a := s.peer()
		a.stable(g)
		s.beat("assignment that is none", g, "b", 0, subscribed(t))
		g = s.group("h")
		id, gen := a.joinAs("join", 7, g, cooperative(t))
		sync := give(syncOf(g, id, gen, id), t, []int32{0})
		m := kmsg.NewConsumerMemberAssignment()
		m.Topics, m.UserData = []kmsg.ConsumerMemberAssignmentTopic{{Topic: t.name, Partitions: []int32{0}}}, []byte{1}
		sync.GroupAssignment[0].MemberAssignment = m.AppendTo(nil)
		a.do("sync", 4, sync)
		s.beat("user data in the assignment", g, "b", 0, subscribed(t))
		g = s.group("i")
		a.joinAs("join", 7, g, func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
		s.beat("other type", g, "b", 0, subscribed(t))
		g = s.group("j")
		id, gen = a.joinAs("join", 7, g, func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = []byte{1} })
		a.do("sync", 4, give(syncOf(g, id, gen, id), t, []int32{0}))
		s.beat("subscription that is none", g, "b", 0, subscribed(t))
		g, t = s.groupOn("k", "u", 4)
		id, gen = a.classicOwner(g, t)
		s.beat("not a join", g, "b", 1)
		s.beat("a heartbeat of the member", g, id, gen)
		s.do("heartbeat", 4, heartbeatOf(g, id, gen))
		s.beat("the member itself", g, id, 0, subscribed(t))
		s.do("describe", 1, consumerDescribeOf(g))
	}},
	{"Migration/while-it-rebalances", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a, c := s.peer(), s.peer()
		id, gen := a.classicOwner(g, t)
		other := c.do("c", 9, joinOf(g, "", cooperative(t))).(*kmsg.JoinGroupResponse).MemberID
		c.send("c joins", 9, joinOf(g, other, cooperative(t)))
		s.awaitState(g, "PreparingRebalance")
		s.beat("b joins", g, "b", 0, subscribed(t))
		c.recv()
		s.targets("targets", g) // which of the two new ones gets which differs from run to run
		s.do("heartbeat", 4, heartbeatOf(g, id, gen))
		s.do("heartbeat of c", 4, heartbeatOf(g, other, gen))
		g, t = s.groupOn("h", "u", 4)
		id, gen = a.joinAs("joins", 9, g, cooperative(t))
		s.awaitState(g, "CompletingRebalance")
		s.quiet(1, beatOf(g, "b", 0, subscribed(t))) // who of the two gets what differs from run to run
		a.do("syncs", 5, give(syncOf(g, id, gen, id), t, []int32{0, 1, 2, 3}))
		a.do("joins", 9, joinOf(g, id, cooperative(t)))
	}},
	{"Migration/static", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a := s.peer()
		id := a.mixed(g, t, static("i"))
		s.do("describe", 1, consumerDescribeOf(g))
		h := heartbeatOf(g, "x", 2)
		h.InstanceID = ptr("i")
		s.do("heartbeat of another", 4, h)
		h.InstanceID = ptr("j")
		s.do("heartbeat of an unknown instance", 4, h)
		s.do("join of another", 9, joinOf(g, "x", cooperative(t), static("i")))
		s.do("join of an unknown instance", 9, joinOf(g, "x", cooperative(t), static("j")))
		a.do("comes back", 9, joinOf(g, "", cooperative(t), static("i")))
		s.do("describe", 1, consumerDescribeOf(g))
		s.do("heartbeat of the old", 4, heartbeatOf(g, id, 2))
		s.beat("becomes a consumer", g, "c", 0, subscribed(t), instance("i"))
		s.do("describe", 1, consumerDescribeOf(g))
		s.do("comes back as a classic member", 9, joinOf(g, "", cooperative(t), static("i")))
		s.do("describe", 1, consumerDescribeOf(g))
	}},
	{"ConsumerGroupDescribe/gives-up", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.beat("a joins", g, "a", 0, subscribed(t))
		s.beat("b joins", g, "b", 0, subscribed(t))
		s.beat("a must give", g, "a", 2, has(t, 0, 1, 2, 3))
		s.do("describe", 1, consumerDescribeOf(g))
	}},
	{"Migration/expiry", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a := s.peer()
		a.mixed(g, t, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 6000 })
		s.beat("b", g, "b", 2)
		s.until("the classic member is gone", func() bool {
			r := s.quiet(1, consumerDescribeOf(g)).(*kmsg.ConsumerGroupDescribeResponse)
			return len(r.Groups[0].Members) == 1
		})
		s.each("describe", 0, 1, func(int16) kmsg.Request { return consumerDescribeOf(g) })
	}},
}

// targets records state and epochs of a group, and of each member its epoch, whether it speaks the classic protocol, and how many partitions it has and is to get.
func (s *S) targets(label, group string) {
	g := s.quiet(1, consumerDescribeOf(group)).(*kmsg.ConsumerGroupDescribeResponse).Groups[0]
	var all []string
	for _, m := range g.Members {
		has, gets := 0, 0
		for _, t := range m.Assignment.TopicPartitions {
			has += len(t.Partitions)
		}
		for _, t := range m.TargetAssignment.TopicPartitions {
			gets += len(t.Partitions)
		}
		all = append(all, fmt.Sprintf("epoch %d type %d has %d gets %d", m.MemberEpoch, m.MemberType, has, gets))
	}
	slices.Sort(all)
	s.note(label, fmt.Sprintf("%s %d %d: %s", g.State, g.Epoch, g.AssignmentEpoch, strings.Join(all, ", ")))
}
