package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerMember is a member of a consumer group: it keeps its epoch and what it was given.
type consumerMember struct {
	s     *S
	g, id string
	epoch int32
	given []kmsg.ConsumerGroupHeartbeatRequestTopic
	join  []beatChange
}

func (s *S) consumer(g, id string, join ...beatChange) *consumerMember {
	return &consumerMember{s: s, g: g, id: id, join: join}
}

// beat sends a heartbeat; a joining one with epoch 0, a later one with what the member was given last.
func (m *consumerMember) beat(label string, change ...beatChange) {
	req := beatOf(m.g, m.id, m.epoch, append(m.changes(), change...)...)
	if m.epoch == 0 {
		m.given = nil
	}
	if resp, ok := m.s.do(m.id+" "+label, 1, req).(*kmsg.ConsumerGroupHeartbeatResponse); ok && resp.ErrorCode == 0 {
		m.epoch = resp.MemberEpoch
		if resp.Assignment != nil {
			m.given = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			for _, t := range resp.Assignment.Topics {
				m.given = append(m.given, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t.TopicID, Partitions: t.Partitions})
			}
		}
	}
}

func (m *consumerMember) changes() []beatChange {
	if m.epoch == 0 {
		return append([]beatChange{}, m.join...)
	}
	return []beatChange{func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = m.given }}
}

func (m *consumerMember) leave(epoch int32, change ...beatChange) {
	m.s.do(fmt.Sprintf("%s leaves with %d", m.id, epoch), 1, beatOf(m.g, m.id, epoch, change...))
	m.epoch = 0
}

// consumers records a group.
func (s *S) consumers(g string) { s.do("describe", 1, consumerDescribeOf(g)) }

// settled beats for the members in turn, so often that everybody has what is its own.
func settled(members ...*consumerMember) {
	for round := range 4 {
		for _, m := range members {
			m.beat(fmt.Sprintf("settles %d", round))
		}
	}
}

// consumersIn is how many members a consumer group has.
func (s *S) consumersIn(g string) int {
	return len(s.quiet(1, consumerDescribeOf(g)).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].Members)
}

// awaitConsumers waits until a consumer group has so many members.
func (s *S) awaitConsumers(g string, n int) {
	s.until(fmt.Sprintf("the group has %d members", n), func() bool {
		return s.consumersIn(g) == n
	})
}

// shares records how many partitions each member has, and that what it has is what it was to get.
func (s *S) shares(g string) {
	var all []string
	for _, m := range s.quiet(1, consumerDescribeOf(g)).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].Members {
		n, target := 0, 0
		for _, t := range m.Assignment.TopicPartitions {
			n += len(t.Partitions)
		}
		for _, t := range m.TargetAssignment.TopicPartitions {
			target += len(t.Partitions)
		}
		all = append(all, fmt.Sprintf("%s has %d of %d", m.MemberID, n, target))
	}
	slices.Sort(all)
	s.note("shares", strings.Join(all, ", "))
}

// finds beats until the target of a member has topics of a number, without recording it.
func (m *consumerMember) finds(topics int, change ...beatChange) {
	m.s.hushed(func() {
		m.s.until(fmt.Sprintf("%s finds %d topics", m.id, topics), func() bool {
			m.beat("looks", change...)
			for _, d := range m.s.quiet(1, consumerDescribeOf(m.g)).(*kmsg.ConsumerGroupDescribeResponse).Groups[0].Members {
				if d.MemberID == m.id {
					return len(d.TargetAssignment.TopicPartitions) == topics && len(d.Assignment.TopicPartitions) == topics
				}
			}
			return false
		})
	})
}

func names(all ...string) beatChange {
	return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = append([]string{}, all...) }
}

var consumerHistoryScripts = []Script{
	asks("ConsumerHistory/three", "three members come, share, and go one by one", func(s *S) {
		g, t := s.groupOn("g", "t", 6)
		a, b, c := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t)), s.consumer(g, "c", subscribed(t))
		a.beat("joins")
		s.consumers(g)
		b.beat("joins")
		s.consumers(g)
		a.beat("must give")
		s.consumers(g)
		b.beat("waits")
		a.beat("has given")
		b.beat("gets")
		s.consumers(g)
		c.beat("joins")
		s.consumers(g)
		b.beat("must give")
		c.beat("waits")
		a.beat("must give")
		b.beat("has given")
		c.beat("gets one")
		s.consumers(g)
		a.beat("has given")
		c.beat("gets the other")
		s.consumers(g)
		settled(a, b, c)
		b.leave(-1)
		s.consumers(g)
		settled(a, c)
		s.consumers(g)
		a.leave(-1)
		settled(c)
		c.leave(-1)
		s.consumers(g)
		b.beat("begins anew")
		s.consumers(g)
	}),
	asks("ConsumerHistory/together", "three members come before anybody has given anything", func(s *S) {
		g, t := s.groupOn("g", "t", 6)
		a, b, c := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t)), s.consumer(g, "c", subscribed(t))
		a.beat("joins")
		b.beat("joins")
		c.beat("joins")
		s.consumers(g)
		settled(c, b, a)
		s.consumers(g)
	}),
	asks("ConsumerHistory/leaves-while-giving", "a member leaves that was asked to give, and one that waits", func(s *S) {
		g, t := s.groupOn("g", "t", 6)
		a, b, c := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t)), s.consumer(g, "c", subscribed(t))
		a.beat("joins")
		b.beat("joins")
		a.beat("must give")
		a.leave(-1)
		b.beat("gets all")
		s.consumers(g)
		c.beat("joins")
		b.beat("must give")
		c.leave(-1)
		s.consumers(g)
		b.beat("has given")
		b.beat("gets it back")
		s.consumers(g)
	}),
	asks("ConsumerHistory/too-slow", "a member that does not give in its time is fenced", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a, b := s.consumer(g, "a", subscribed(t), rebalanceIn(1000)), s.consumer(g, "b", subscribed(t))
		a.beat("joins")
		b.beat("joins")
		a.beat("must give")
		s.awaitConsumers(g, 1)
		s.consumers(g)
		a.beat("has given, too late")
		a.leave(-1)
		settled(b)
		a.beat("joins again")
		settled(a, b)
		s.consumers(g)
	}),
	asks("ConsumerHistory/session-over", "a member is not heard of any more, and one that had left to come back", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.quiet(1, alterOf(groupResource, g, set(sessionKey, "2000"), set(heartbeatKey, "500")))
		s.hushed(func() { s.groupSees(g, sessionKey, "2000") })
		a, b := s.consumer(g, "a", subscribed(t), instance("i1")), s.consumer(g, "b", subscribed(t))
		a.beat("joins")
		b.beat("joins")
		s.hushed(func() { s.until("b is gone", func() bool { a.beat("beats"); return s.consumersIn(g) == 1 }) })
		s.hushed(func() { settled(a) })
		s.consumers(g)
		b.beat("beats, too late")
		b.leave(-1)
		b.beat("joins again")
		a.leave(-2, instance("i1"))
		s.hushed(func() { s.until("a is gone", func() bool { b.beat("beats"); return s.consumersIn(g) == 1 }) })
		s.hushed(func() { settled(b) })
		s.consumers(g)
		a.beat("comes back too late")
		s.awaitConsumers(g, 0)
		s.consumers(g)
	}),
	asks("ConsumerHistory/assignment-interval", "who comes within the interval waits for the next assignment", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.quiet(1, alterOf(groupResource, g, set(assignmentKey, "15000")))
		s.hushed(func() { s.groupSees(g, assignmentKey, "15000") })
		a, b := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t))
		a.beat("joins")
		s.consumers(g)
		b.beat("joins")
		s.consumers(g)
		a.beat("beats")
		b.beat("beats")
		a.leave(-1)
		b.beat("beats")
		s.consumers(g)
		b.leave(-1)
		a.beat("joins again")
		s.consumers(g)
	}),
	asks("ConsumerHistory/new-topic", "a topic that was subscribed to before it was there", func(s *S) {
		g := s.group("g")
		a := s.consumer(g, "a", names(s.name("t"), s.name("u")))
		a.beat("joins")
		a.beat("beats")
		s.consumers(g)
		s.createFor(g, "t", 2)
		a.beat("gets it")
		s.consumers(g)
		s.createFor(g, "u", 1)
		a.beat("gets the other")
		a.beat("has it")
		s.consumers(g)
	}),
	asks("ConsumerHistory/more-partitions", "a topic gets more partitions", func(s *S) {
		g, t := s.groupOn("g", "t", 2)
		a, b := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t))
		a.beat("joins")
		s.grow(g, t, 3)
		a.beat("gets one more")
		a.beat("has it")
		s.consumers(g)
		s.hushed(func() {
			b.beat("joins")
			settled(a, b)
			s.grow(g, t, 8)
			settled(a, b)
		})
		s.shares(g)
	}),
	asks("ConsumerHistory/deleted-topic", "a topic is deleted, and made again", func(s *S) {
		g, t := s.groupOn("g", "t", 2)
		u := s.createFor(g, "u", 2)
		a := s.consumer(g, "a", subscribed(t, u))
		a.beat("joins")
		a.beat("has both")
		s.drop(t)
		s.createFor(g, "later", 1) // the coordinator has heard of this, so of that
		a.beat("loses one")
		a.beat("has the other")
		s.consumers(g)
		s.createFor(g, "t", 3)
		a.beat("gets it again")
		a.beat("has both")
		s.consumers(g)
	}),
	asks("ConsumerHistory/different-subscriptions", "members subscribe to different topics, with both assignors", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		u, v := s.createFor(g, "u", 3), s.createFor(g, "v", 2)
		for _, how := range []string{"uniform", "range"} {
			s.label = how + " "
			group := s.name(how)
			a, b, c := s.consumer(group, "a", subscribed(t, u), assignor(how)), s.consumer(group, "b", subscribed(u, v), assignor(how)), s.consumer(group, "c", subscribed(t, v), assignor(how))
			told := s.hushed // which of equal shares a member has is for the assignor to choose
			if how == "range" {
				told = func(fn func()) { fn() }
			}
			told(func() {
				a.beat("joins")
				b.beat("joins")
				c.beat("joins")
				settled(a, b, c)
				s.consumers(group)
			})
			s.shares(group)
			told(func() {
				b.beat("wants more", subscribed(t, u, v))
				settled(a, b, c)
				s.consumers(group)
			})
			s.shares(group)
		}
	}),
	asks("ConsumerHistory/assignor-changes", "members ask for another assignor than before", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a, b := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t))
		a.beat("joins")
		b.beat("joins", assignor("range"))
		s.consumers(g)
		settled(a, b)
		a.beat("wants range", assignor("range"))
		s.consumers(g)
		a.beat("wants none such", assignor("nonesuch"))
		b.beat("wants uniform", assignor("uniform"))
		a.beat("wants uniform", assignor("uniform"))
		settled(a, b)
		s.consumers(g)
	}),
	asks("ConsumerHistory/unsubscribes", "a member wants nothing for a while", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a, b := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t))
		a.beat("joins")
		b.beat("joins")
		settled(a, b)
		a.beat("wants nothing", subscribed())
		settled(a, b)
		s.consumers(g)
		a.beat("wants it again", subscribed(t))
		settled(a, b)
		s.consumers(g)
	}),
	asks("ConsumerHistory/fenced", "a member with a wrong epoch begins anew", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a, b := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t))
		a.beat("joins")
		b.beat("joins")
		settled(a, b)
		a.epoch += 5
		a.beat("is ahead")
		a.epoch = 1
		a.beat("is far behind")
		s.consumers(g)
		a.epoch = 0
		a.beat("joins again")
		settled(a, b)
		s.consumers(g)
	}),
	asks("ConsumerHistory/joins-again-changed", "a member that is still there joins with another subscription", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		u := s.createFor(g, "u", 2)
		a, b := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t, u))
		a.beat("joins")
		b.beat("joins")
		settled(a, b)
		a.epoch = 0
		a.join = []beatChange{subscribed(u)}
		a.beat("joins again")
		s.consumers(g)
		settled(a, b)
		s.consumers(g)
	}),
	asks("ConsumerHistory/static-restart", "a static member leaves to come back: nobody else hears of it", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a, b := s.consumer(g, "a", subscribed(t), instance("i1")), s.consumer(g, "b", subscribed(t), instance("i2"))
		a.beat("joins")
		b.beat("joins")
		settled(a, b)
		a.leave(-2, instance("i1"))
		s.consumers(g)
		b.beat("beats")
		again := s.consumer(g, "c", subscribed(t), instance("i1"))
		again.beat("comes back as i1")
		s.consumers(g)
		settled(again, b)
		again.leave(-1)
		s.consumers(g)
		settled(b)
	}),
	asks("ConsumerHistory/static-restart-changed", "a static member comes back with another subscription", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		u := s.createFor(g, "u", 2)
		a, b := s.consumer(g, "a", subscribed(t), instance("i1")), s.consumer(g, "b", subscribed(t, u), instance("i2"))
		a.beat("joins")
		b.beat("joins")
		settled(a, b)
		a.leave(-2, instance("i1"))
		again := s.consumer(g, "c", subscribed(t, u), instance("i1"))
		again.beat("comes back as i1")
		s.consumers(g)
		settled(again, b)
		s.consumers(g)
	}),
	asks("ConsumerHistory/static-away-while-others-come", "a static member is away when another joins", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a, b := s.consumer(g, "a", subscribed(t), instance("i1")), s.consumer(g, "b", subscribed(t))
		a.beat("joins")
		a.leave(-2, instance("i1"))
		b.beat("joins")
		b.beat("waits")
		s.consumers(g)
		again := s.consumer(g, "c", subscribed(t), instance("i1"))
		again.beat("comes back as i1")
		settled(again, b)
		s.consumers(g)
	}),
	asks("ConsumerHistory/static-leaves-wrongly", "who leaves as an instance must be it", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a := s.consumer(g, "a", subscribed(t), instance("i1"))
		a.beat("joins")
		for _, epoch := range []int32{-1, -2} {
			s.each(fmt.Sprintf("another member, %d", epoch), 0, 1, func(int16) kmsg.Request { return beatOf(g, "x", epoch, instance("i1")) })
			s.each(fmt.Sprintf("another instance, %d", epoch), 0, 1, func(int16) kmsg.Request { return beatOf(g, "a", epoch, instance("x")) })
		}
		s.beat("without the instance", g, "a", -2)
		s.consumers(g)
		b := s.consumer(g, "b", subscribed(t))
		b.beat("joins")
		s.beat("a dynamic member, to come back", g, "b", -2)
		s.beat("a dynamic member as i1", g, "b", -1, instance("i1"))
		s.consumers(g)
		s.beat("the static one without its instance", g, "a", -1)
		s.consumers(g)
	}),
	asks("ConsumerHistory/commits", "offsets are committed in the epochs of a rebalance", func(s *S) {
		g, t := s.groupOn("g", "t", 2)
		a, b := s.consumer(g, "a", subscribed(t)), s.consumer(g, "b", subscribed(t))
		commit := func(label string, m *consumerMember, p int32, epoch int32) {
			s.do(m.id+" "+label, 9, by(commitOf(g, oc{t, p, int64(epoch)}), m.id, epoch))
		}
		a.beat("joins")
		for p := range int32(2) {
			commit("in its epoch", a, p, 2)
			commit("in the epoch to come", a, p, 3)
		}
		b.beat("joins")
		for p := range int32(2) {
			commit("when b has joined", a, p, 2)
			commit("before it has anything", b, p, 3)
		}
		a.beat("must give")
		for p := range int32(2) {
			commit("while it gives", a, p, 2)
			commit("while it gives, in the epoch to come", a, p, 3)
		}
		a.beat("has given")
		for p := range int32(2) {
			commit("late", a, p, 2)
			commit("in its epoch", a, p, 3)
		}
		b.beat("gets")
		for p := range int32(2) {
			commit("in its epoch", b, p, 3)
			commit("in the epoch before", b, p, 2)
		}
		b.leave(-1)
		commit("when it has left", b, 1, 3)
		a.leave(-1)
		commit("when it has left", a, 0, 3)
		s.do("simple, empty", 9, commitOf(g, oc{t, 0, 9}))
		s.do("fetch", 9, offsetsOf(g))
		s.do("offset delete", 0, offsetDeleteOf(g, oc{t, 0, 0}))
		s.do("delete", 2, deleteGroupsOf(g))
		s.consumers(g)
		s.do("fetch", 9, offsetsOf(g))
	}),
	asks("ConsumerHistory/max-size", "the fifth member of a group of at most four", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		for _, id := range strings.Fields("a b c d e") {
			s.consumer(g, id, subscribed(t)).beat("joins")
		}
		s.consumer(g, "f", subscribed(t), instance("i")).beat("joins as an instance")
		s.consumers(g)
		s.beat("a leaves", g, "a", -1)
		s.consumer(g, "e", subscribed(t)).beat("joins")
	}),
	asks("ConsumerHistory/server-made-ids", "a member without an id gets one in version 0", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		id := ""
		if resp, ok := s.do("joins", 0, beatOf(g, "", 0, subscribed(t))).(*kmsg.ConsumerGroupHeartbeatResponse); ok && resp.MemberID != nil {
			id = *resp.MemberID
		}
		s.do("beats", 0, beatOf(g, id, 2))
		s.do("joins again with it", 0, beatOf(g, id, 0, subscribed(t)))
		s.do("joins with another version", 1, beatOf(g, id, 0, subscribed(t)))
		s.consumers(g)
		s.do("leaves", 0, beatOf(g, id, -1))
		s.consumers(g)
	}),
	asks("ConsumerHistory/racks-and-limits", "what else a member tells of itself", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		rack := func(name string) beatChange {
			return func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &name }
		}
		a := s.consumer(g, "a", subscribed(t), rack("r1"))
		a.beat("joins")
		s.consumers(g)
		a.beat("is elsewhere", rack("r2"))
		s.consumers(g)
		a.beat("the rack is empty", rack(""))
		a.beat("takes longer", rebalanceIn(1_000_000))
		a.beat("takes no time", rebalanceIn(0))
		a.beat("takes less than none", rebalanceIn(-2))
		a.beat("becomes an instance", instance("i1"))
		s.consumers(g)
	}),
	asks("ConsumerHistory/subscriptions", "names that are odd, twice there, or too many", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		s.beat("twice", g, "a", 0, names(t.name, t.name))
		s.consumers(g)
		s.beat("odd", g, "b", 0, names("a b", "", "..", strings.Repeat("x", 250)))
		s.consumers(g)
		s.beat("internal", g, "c", 0, names("__consumer_offsets"))
		s.beat("c leaves", g, "c", -1)
		s.beat("nothing", g, "d", 0, names())
		s.beat("an empty expression", g, "d", 0, matching(""))
		s.beat("an empty expression and no names", g, "e", 0, matching(""))
		s.beat("e leaves", g, "e", -1)
		s.beat("names and an empty expression", g, "f", 0, subscribed(t), matching(""))
		s.beat("f leaves", g, "f", -1)
		s.beat("no expression and no names", g, "h", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) {})
		s.consumers(g)
	}),
	asks("ConsumerHistory/expression", "a member subscribes to what matches an expression, which Kafka looks at in the background", func(s *S) {
		g, t := s.groupOn("g", "exp-1", 2)
		a := s.consumer(g, "a", matching(strings.TrimSuffix(t.name, "1")+".*"))
		a.finds(1)
		s.consumers(g)
		s.createFor(g, "exp-2", 2)
		s.createFor(g, "other", 1)
		a.finds(2)
		s.consumers(g)
		b := s.consumer(g, "b", matching(strings.TrimSuffix(t.name, "1")+".*"))
		s.hushed(func() { // which partition is whose depends on the ids of the topics
			b.beat("joins with the same")
			settled(a, b)
		})
		s.shares(g)
		s.hushed(func() {
			a.beat("wants a name instead", matching(""), subscribed(t))
			settled(a, b)
		})
		s.shares(g)
		b.leave(-1)
		s.hushed(func() { settled(a) })
		s.consumers(g)
		a.beat("an expression that is none", matching("("))
	}),
	asks("ConsumerHistory/tells-what-it-has", "a member tells partitions that are not its own, unknown, twice", func(s *S) {
		g, t := s.groupOn("g", "t", 4)
		a := s.consumer(g, "a", subscribed(t))
		a.beat("joins")
		s.beat("unknown topic", g, "a", a.epoch, has(s.unknownTopic(), 0))
		s.beat("zero topic", g, "a", a.epoch, has(topic{}, 0))
		s.beat("unknown partition", g, "a", a.epoch, has(t, 0, 1, 2, 3, 17))
		s.beat("negative partition", g, "a", a.epoch, has(t, -1))
		s.beat("twice", g, "a", a.epoch, has(t, 0, 0, 1, 1))
		s.beat("all", g, "a", a.epoch, has(t, 0, 1, 2, 3))
		s.consumers(g)
	}),
}

// grow gives a topic more partitions and waits until the coordinator of a group knows.
func (s *S) grow(g string, t topic, partitions int32) {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = t.name, partitions
	req.Topics = append(req.Topics, rt)
	if resp := s.quiet(3, req).(*kmsg.CreatePartitionsResponse); resp.Topics[0].ErrorCode != 0 {
		s.abort("more partitions: %s", errorName(resp.Topics[0].ErrorCode))
	}
	s.awaitLeaders(t, partitions)
	s.awaitKnown(g, t, int(partitions))
}
