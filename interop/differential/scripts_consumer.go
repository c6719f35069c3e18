package differential

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// beatOf builds a ConsumerGroupHeartbeat. With epoch 0 it is a complete one of a member that subscribes to topics.
func beatOf(group, member string, epoch int32, change ...func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = group, member, epoch, -1
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.Topics = 60_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	for _, fn := range change {
		fn(req)
	}
	return req
}

type beatChange = func(*kmsg.ConsumerGroupHeartbeatRequest)

func subscribed(topics ...topic) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.SubscribedTopicNames = []string{}
		for _, t := range topics {
			r.SubscribedTopicNames = append(r.SubscribedTopicNames, t.name)
		}
	}
}

func matching(expression string) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &expression }
}

func instance(id string) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &id }
}

func assignor(name string) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.ServerAssignor = &name }
}

func rebalanceIn(ms int32) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = ms }
}

// has says that the member has partitions of a topic; without any that it has none.
func has(t topic, partitions ...int32) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) {
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if len(partitions) > 0 {
			r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.id, Partitions: partitions})
		}
	}
}

func consumerDescribeOf(groups ...string) *kmsg.ConsumerGroupDescribeRequest {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = groups
	return req
}

// beat sends one heartbeat.
func (s *S) beat(label, group, member string, epoch int32, change ...beatChange) {
	s.do(label, 1, beatOf(group, member, epoch, change...))
}

// createFor makes a topic and waits until the coordinator of a group knows it, which may be later than the topic has leaders.
func (s *S) createFor(group, short string, partitions int32) topic {
	t := s.create(short, partitions)
	s.awaitKnown(group, t, int(partitions))
	return t
}

// awaitKnown waits until the coordinator of a group knows a topic with so many partitions.
func (s *S) awaitKnown(group string, t topic, partitions int) {
	probe := twin(group)
	s.until("the coordinator knows "+t.name, func() bool {
		resp := s.quiet(1, beatOf(probe, "p", 0, subscribed(t))).(*kmsg.ConsumerGroupHeartbeatResponse)
		s.quiet(1, beatOf(probe, "p", -1))
		return resp.Assignment != nil && len(resp.Assignment.Topics) == 1 && len(resp.Assignment.Topics[0].Partitions) == partitions
	})
	s.quiet(2, deleteGroupsOf(probe))
}

// groupOn is a group whose coordinator is there and knows a topic.
func (s *S) groupOn(short, name string, partitions int32) (string, topic) {
	g := s.group(short)
	return g, s.createFor(g, name, partitions)
}

// twin names another group that lives on the same partition of __consumer_offsets, so with the same coordinator.
func twin(group string) string {
	home := func(name string) int32 {
		var h int32
		for _, c := range []byte(name) {
			h = 31*h + int32(c)
		}
		return (h & math.MaxInt32) % 50
	}
	for i := 0; ; i++ {
		if name := fmt.Sprintf("%s~%d", group, i); home(name) == home(group) {
			return name
		}
	}
}

// halved makes a group of two members that have half of a topic of four partitions each, at epoch 3.
func (s *S) halved(g string, t topic) {
	s.beat("a joins", g, "a", 0, subscribed(t))
	s.beat("b joins", g, "b", 0, subscribed(t))
	s.beat("a must give", g, "a", 2)
	s.beat("a gives", g, "a", 2, has(t, 0, 1))
	s.beat("b gets", g, "b", 3)
}

var consumerScripts = []Script{
	{"ConsumerGroupHeartbeat/invalid", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		join := func(group, member string, epoch int32, change ...beatChange) func(int16) kmsg.Request {
			return func(int16) kmsg.Request { return beatOf(group, member, epoch, change...) }
		}
		s.each("no group", 0, 1, join("", "a", 0, subscribed(t)))
		s.do("no member id", 1, beatOf(g, "", 0, subscribed(t)))
		s.each("no member id, epoch 1", 0, 1, join(g, "", 1))
		s.each("no member id, leave", 0, 1, join(g, "", -1))
		s.each("epoch -3", 0, 1, join(g, "a", -3))
		s.each("leave to come back without instance", 0, 1, join(g, "a", -2))
		s.each("no rebalance timeout", 0, 1, join(g, "a", 0, subscribed(t), rebalanceIn(-1)))
		s.each("no subscription", 0, 1, join(g, "a", 0))
		s.each("has partitions", 0, 1, join(g, "a", 0, subscribed(t), has(t, 0)))
		s.each("does not say what it has", 0, 1, join(g, "a", 0, subscribed(t), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil }))
		s.each("empty instance", 0, 1, join(g, "a", 0, subscribed(t), instance("")))
		s.each("empty rack", 0, 1, join(g, "a", 0, subscribed(t), func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = ptr("") }))
		s.each("unknown assignor", 0, 1, join(g, "a", 0, subscribed(t), assignor("none")))
		s.each("empty assignor", 0, 1, join(g, "a", 0, subscribed(t), assignor("")))
		for _, bad := range []string{"(", "a**", "[", `\`, "a{2,1}", "(?<x", `(a)\1`, "(?=a)"} {
			s.do("expression "+bad, 1, beatOf(g, "a", 0, matching(bad)))
		}
	}},
	{"ConsumerGroupHeartbeat/unknown-group", func(s *S) {
		g := s.group("g")
		for _, epoch := range []int32{-1, -2, 1, 7} {
			s.each(fmt.Sprintf("epoch %d", epoch), 0, 1, func(int16) kmsg.Request { return beatOf(g, "a", epoch, instance("i")) })
		}
		s.do("describe", 0, consumerDescribeOf(g))
	}},
	{"ConsumerGroupHeartbeat/life", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.halved(g, t)
		s.each("describe", 0, 1, func(int16) kmsg.Request { return consumerDescribeOf(g) })
		s.beat("nothing new", g, "a", 3)
		s.beat("full", g, "a", 3, subscribed(t), rebalanceIn(60_000), has(t, 0, 1))
		s.beat("the epoch before", g, "a", 2, has(t, 0, 1))
		s.beat("the epoch before, and less", g, "a", 2, has(t, 1))
		s.beat("the epoch before, and nothing", g, "a", 2, has(t))
		s.beat("the epoch before, and more", g, "a", 2, has(t, 0, 1, 2))
		s.beat("the epoch before, unsaid", g, "a", 2)
		s.beat("an epoch too far", g, "a", 4)
		s.beat("joins again", g, "a", 0, subscribed(t))
		s.beat("a stranger", g, "c", 3)
		s.beat("a stranger leaves", g, "c", -1)
		s.beat("b leaves", g, "b", -1)
		s.beat("a gets all", g, "a", 3)
		s.beat("b is gone", g, "b", 3)
		s.beat("a leaves", g, "a", -1)
		s.do("describe empty", 1, consumerDescribeOf(g))
	}},
	{"ConsumerGroupHeartbeat/more-partitions-wanted", func(s *S) {
		g, t := s.groupOn("g", "t", 2)
		u := s.createFor(g, "u", 2)
		s.beat("t", g, "a", 0, subscribed(t))
		s.beat("t and u", g, "a", 2, subscribed(t, u))
		s.beat("u", g, "a", 3, subscribed(u))
		s.beat("u, t is still there", g, "a", 3, has(t, 0, 1))
		s.beat("u alone", g, "a", 3, has(u, 0, 1))
		s.do("describe", 1, consumerDescribeOf(g))
		s.beat("nothing", g, "a", 4, subscribed())
		s.beat("nothing is left", g, "a", 4, has(u))
		s.beat("what is not there", g, "a", 5, subscribed(topic{name: s.name("none")}))
	}},
	{"ConsumerGroupHeartbeat/static", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.beat("a joins", g, "a", 0, subscribed(t), instance("i"))
		s.beat("taken", g, "b", 0, subscribed(t), instance("i"))
		s.beat("another's", g, "b", 2, instance("i"))
		s.beat("another leaves", g, "b", -1, instance("i"))
		s.beat("another leaves to come back", g, "b", -2, instance("i"))
		s.beat("unknown instance", g, "a", 2, instance("j"))
		s.beat("unknown instance leaves", g, "a", -2, instance("j"))
		s.beat("a leaves to come back", g, "a", -2, instance("i"))
		s.do("describe", 1, consumerDescribeOf(g))
		s.beat("a is away", g, "a", 2, instance("i"))
		s.beat("b comes back as it", g, "b", 0, subscribed(t), instance("i"))
		s.beat("a is another", g, "a", 2, instance("i"))
		s.beat("a is unknown", g, "a", 2)
		s.beat("b lives", g, "b", 2, instance("i"))
		s.do("describe", 1, consumerDescribeOf(g))
		s.beat("b leaves", g, "b", -1, instance("i"))
		s.do("describe", 1, consumerDescribeOf(g))
	}},
	{"ConsumerGroupHeartbeat/static-own-id", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.beat("a joins", g, "a", 0, subscribed(t), instance("i"))
		s.beat("a joins again", g, "a", 0, subscribed(t), instance("i"))
	}},
	{"ConsumerGroupHeartbeat/range", func(s *S) {
		g, t := s.groupOn("g", "t", 3)
		u := s.createFor(g, "u", 3)
		s.beat("a joins", g, "a", 0, subscribed(t, u), assignor("range"))
		s.beat("b joins", g, "b", 0, subscribed(t, u), assignor("range"))
		s.do("describe", 1, consumerDescribeOf(g))
		s.beat("c joins", g, "c", 0, subscribed(t, u), instance("i"), assignor("range"))
		s.do("describe", 1, consumerDescribeOf(g))
	}},
	{"ConsumerGroupHeartbeat/other-protocols", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.beat("a joins", g, "a", 0, subscribed(t))
		s.each("heartbeat", 0, 4, func(int16) kmsg.Request { return heartbeatOf(g, "a", 2) })
		s.do("sync", 4, syncOf(g, "a", 2))
		s.each("describe", 5, 6, func(int16) kmsg.Request { return describeOf(g) })
		s.do("delete", 2, deleteGroupsOf(g))
		s.do("leave as a stranger", 4, leaveOf(g, "x"))
		s.do("leave", 4, leaveOf(g, "a"))
		s.do("describe", 1, consumerDescribeOf(g))
		s.do("delete", 2, deleteGroupsOf(g))
		s.do("describe", 1, consumerDescribeOf(g))
	}},
	{"ConsumerGroupHeartbeat/empty-classic-group", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.do("commit", 8, commitOf(g, oc{t, 0, 5}))
		s.beat("joins", g, "a", 0, subscribed(t))
		s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}))
		s.beat("leaves", g, "a", -1)
		s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}))
	}},
	{"ConsumerGroupDescribe/errors", func(s *S) {
		g := s.group("g")
		s.each("unknown", 0, 1, func(int16) kmsg.Request { return consumerDescribeOf(g, s.name("other")) })
		s.each("empty name", 0, 1, func(int16) kmsg.Request { return consumerDescribeOf("") })
		s.each("none", 0, 1, func(int16) kmsg.Request { return consumerDescribeOf() })
	}},
	{"OffsetCommit/consumer-group", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.halved(g, t)
		for _, v := range []int16{2, 5, 8} {
			s.do("old", v, by(commitOf(g, oc{t, 0, 1}), "a", 3))
		}
		s.each("right", 9, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), "a", 3) })
		s.each("before, kept", 9, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), "a", 2) })
		s.each("before, given", 9, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 3, 1}), "a", 2) })
		s.each("before it came", 9, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 3, 1}), "b", 2) })
		s.each("not its own", 9, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 3, 1}), "a", 3) })
		s.each("too far", 9, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), "a", 4) })
		s.each("stranger", 9, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), "x", 3) })
		s.each("admin", 9, 10, func(int16) kmsg.Request { return commitOf(g, oc{t, 0, 1}) })
		s.do("delete offsets", 0, offsetDeleteOf(g, oc{t, 0, 0}))
	}},
	{"OffsetFetch/consumer-group", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.halved(g, t)
		s.do("commit", 9, by(commitOf(g, oc{t, 0, 1}), "a", 3))
		as := func(member *string, epoch int32) func(int16) kmsg.Request {
			return func(int16) kmsg.Request {
				req := offsetsOf(g, oc{t, 0, 0})
				req.Groups[0].MemberID, req.Groups[0].MemberEpoch = member, epoch
				return req
			}
		}
		s.each("nobody", 9, 10, as(nil, -1))
		s.each("nobody at an epoch", 9, 10, as(nil, 0))
		s.each("member", 9, 10, as(ptr("a"), 3))
		s.each("member before", 9, 10, as(ptr("a"), 2))
		s.each("member too far", 9, 10, as(ptr("a"), 4))
		s.each("stranger", 9, 10, as(ptr("x"), 3))
		s.each("empty member", 9, 10, as(ptr(""), -1))
		s.each("old", 1, 8, func(int16) kmsg.Request { return offsetsOf(g, oc{t, 0, 0}) })
	}},
}
