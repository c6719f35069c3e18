package differential

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupErrorScripts are requests that are wrong in themselves, or partly wrong.
var groupErrorScripts = []Script{
	asks("FindCoordinator/many-keys", "several keys, good and bad ones, the same twice", func(s *S) {
		g := s.group("g")
		s.each("good and empty", 4, 6, func(int16) kmsg.Request { return findOf(0, g, "", s.name("h"), g) })
		s.each("the key of old versions as well", 0, 6, func(int16) kmsg.Request {
			r := findOf(0, g)
			r.CoordinatorKey = s.name("other")
			return r
		})
		s.each("a long one", 0, 6, func(int16) kmsg.Request { return findOf(0, strings.Repeat("x", 32_767)) })
		s.each("odd ones", 4, 6, func(int16) kmsg.Request { return findOf(0, "a b", "ä", ".", "..", "a/b", "\x00") })
	}),
	asks("Groups/null-group", "the group id is null where it must not be", func(s *S) {
		s.group("g")
		for _, a := range groupFirst {
			for v := a.min; v <= a.max; v++ {
				req := a.build()
				req.SetVersion(v)
				c := s.connected()
				frame := c.request(req, header{key: req.Key(), version: v, flexible: req.IsFlexible(), clientID: ptr("diff")})
				s.raw(fmt.Sprintf("%s v%d", a.name, v), nulled(frame, req.IsFlexible()), req)
			}
		}
	}),
	asks("Groups/empty-group", "the group id is empty", func(s *S) {
		s.group("g")
		for _, a := range groupFirst {
			s.each(a.name, a.min, a.max, func(int16) kmsg.Request { return a.build() })
		}
	}),
	asks("Groups/odd-names", "group ids may be anything", func(s *S) {
		t := s.create("t", 1)
		for i, tail := range []string{" b", "ä", "/../x", "\x00\n", strings.Repeat("x", 300), strings.Repeat("y", 20_000)} {
			g := s.group(fmt.Sprintf("g%d", i) + tail)
			s.label = fmt.Sprintf("name %d ", i)
			p := s.peer()
			member, gen := p.stable(g)
			s.do("commit", 8, by(commitOf(g, oc{t, 0, 1}), member, gen))
			s.do("fetch", 8, offsetsOf(g, oc{t, 0, 0}))
			s.do("describe", 5, describeOf(g))
			s.do("leave", 5, leaveOf(g, member))
			s.do("delete", 2, deleteGroupsOf(g))
		}
	}),
	asks("JoinGroup/protocols", "protocols that are odd, twice there, or large", func(s *S) {
		for i, change := range []func(*kmsg.JoinGroupRequest){
			offering(""), offering("", "x"), telling("range", ""), telling("range", strings.Repeat("x", 100_000)),
			offering(strings.Fields("a b c d e f g h i j k l m n o p q r s t u v w x y z")...), offering("ä"),
		} {
			g := s.group(fmt.Sprintf("g%d", i))
			s.label = fmt.Sprintf("case %d ", i)
			for _, v := range []int16{0, 5, 9} {
				p := s.peer()
				member, _ := p.joinAs("join", v, g, change)
				s.do("describe", 6, describeOf(g))
				s.do("leave", 5, leaveOf(g, member))
			}
		}
	}),
	asks("JoinGroup/protocol-twice", "a protocol is offered twice", func(s *S) {
		s.doWithin(shortLimit, "join", 3, joinOf(s.group("g"), "", offering("range", "range")))
	}),
	asks("JoinGroup/timeouts", "session and rebalance timeouts at their limits", func(s *S) {
		for i, ms := range [][2]int32{{1000, 1000}, {1_800_000, 1000}, {60_000, 0}, {60_000, -1}, {60_000, 2147483647}} {
			for _, v := range []int16{0, 1, 5, 9} {
				g := s.group(fmt.Sprintf("g%d-%d", i, v))
				s.label = fmt.Sprintf("session %d, rebalance %d ", ms[0], ms[1])
				s.peer().joinAs("join", v, g, timeouts(ms[0], ms[1]))
			}
		}
		for _, ms := range []int32{-1, 0, 999, 1_800_001, 2147483647, -2147483648} {
			s.each(fmt.Sprintf("session %d", ms), 0, 9, func(int16) kmsg.Request { return joinOf(s.name("refused"), "", timeouts(ms, 1000)) })
		}
	}),
	asks("JoinGroup/instances", "instance ids may be anything", func(s *S) {
		for i, id := range []string{"", ".", "..", "a b", "ä", strings.Repeat("i", 249), strings.Repeat("i", 250)} {
			for _, v := range []int16{5, 9} {
				g := s.group(fmt.Sprintf("g%d-%d", i, v))
				s.label = fmt.Sprintf("instance %d ", i)
				p := s.peer()
				member, gen := p.joinAs("join", v, g, static(id))
				s.do("heartbeat", 4, beatAs(id, heartbeatOf(g, member, gen)))
				s.do("describe", 6, describeOf(g))
			}
		}
	}),
	asks("JoinGroup/reasons", "a reason of any length", func(s *S) {
		for i, reason := range []string{"", "why not", strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 30_000)} {
			g := s.group(fmt.Sprintf("g%d", i))
			p := s.peer()
			member, _ := p.joinAs(fmt.Sprintf("reason %d", i), 9, g, func(r *kmsg.JoinGroupRequest) { r.Reason = &reason })
			r := leaveOf(g, member)
			r.Members[0].Reason = &reason
			s.do(fmt.Sprintf("leaves, reason %d", i), 5, r)
		}
	}),
	asks("SyncGroup/large", "an assignment that is large, and one for many strangers", func(s *S) {
		g := s.group("g")
		a := s.member(g)
		a.join("a")
		r := syncOf(g, a.id, a.gen, a.id)
		r.GroupAssignment[0].MemberAssignment = []byte(strings.Repeat("x", 500_000))
		a.do("half a megabyte", 5, r)
		s.gathered(g)
		a.join("a")
		r = syncOf(g, a.id, a.gen)
		for i := range 1000 {
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: fmt.Sprint("stranger", i), MemberAssignment: []byte("x")})
		}
		a.do("a thousand strangers", 5, r)
		s.gathered(g)
	}),
	asks("SyncGroup/too-large", "an assignment that is larger than a record may be", func(s *S) {
		g := s.group("g")
		a := s.member(g)
		a.join("a")
		r := syncOf(g, a.id, a.gen, a.id)
		r.GroupAssignment[0].MemberAssignment = []byte(strings.Repeat("x", 1_200_000))
		a.do("over a megabyte", 5, r)
		s.gathered(g)
		a.beat("a beats")
	}),
	asks("LeaveGroup/mixed", "members, instances and strangers in one request", func(s *S) {
		g := s.group("g")
		a, b := s.staticTwo(g)
		c := s.member(g)
		c.joins("c")
		s.awaitMembers(g, 3)
		pending := s.quiet(9, joinOf(g, "")).(*kmsg.JoinGroupResponse).MemberID
		s.n.member(pending)
		r := leaveOf(g, "", a.id, "nobody", c.id, c.id, pending, b.id)
		r.Members[0].InstanceID, r.Members[1].InstanceID, r.Members[2].InstanceID = ptr("i1"), ptr("i1"), ptr("i2")
		r.Members[3].InstanceID = ptr("i2")
		for _, v := range []int16{3, 4, 5} {
			s.do("leave", v, r)
			s.gathered(g)
		}
	}),
	asks("OffsetCommit/duplicates", "topics and partitions that are named twice", func(s *S) {
		g, t, u := s.group("g"), s.create("t", 2), s.create("u", 1)
		s.each("a partition twice", 2, 10, func(int16) kmsg.Request {
			r := commitOf(g, oc{t, 0, 1})
			p := r.Topics[0].Partitions[0]
			p.Offset = 2
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, p)
			return r
		})
		s.do("fetch", 9, offsetsOf(g))
		s.each("a topic twice", 2, 10, func(int16) kmsg.Request { return commitOf(g, oc{t, 0, 3}, oc{u, 0, 4}, oc{t, 0, 5}, oc{t, 1, 6}) })
		s.do("fetch", 9, offsetsOf(g))
		s.each("an unknown topic twice", 2, 10, func(int16) kmsg.Request {
			return commitOf(g, oc{s.unknownTopic(), 0, 3}, oc{t, 0, 7}, oc{s.unknownTopic(), 1, 3})
		})
		s.do("fetch", 9, offsetsOf(g))
	}),
	asks("OffsetCommit/topics", "topics that are empty, unknown, internal, without partitions", func(s *S) {
		g, t := s.group("g"), s.create("t", 1)
		s.each("no name and no id", 2, 10, func(int16) kmsg.Request { return commitOf(g, oc{topic{}, 0, 1}) })
		s.each("internal", 2, 9, func(int16) kmsg.Request { return commitOf(g, oc{topic{name: "__consumer_offsets"}, 0, 1}) })
		s.each("no partitions", 2, 10, func(int16) kmsg.Request {
			r := commitOf(g, oc{t, 0, 1})
			r.Topics[0].Partitions = nil
			return r
		})
		s.each("no partitions of an unknown one", 2, 10, func(int16) kmsg.Request {
			r := commitOf(g, oc{s.unknownTopic(), 0, 1})
			r.Topics[0].Partitions = nil
			return r
		})
		s.do("name but no id", 10, commitOf(g, oc{topic{name: t.name}, 0, 1}))
		s.do("id but no name", 9, commitOf(g, oc{topic{id: t.id}, 0, 1}))
		s.do("fetch", 9, offsetsOf(g))
	}),
	asks("OffsetCommit/retention", "old versions tell how long an offset is kept", func(s *S) {
		g, t := s.group("g"), s.create("t", 1)
		for _, ms := range []int64{-1, -2, 0, 1, 1 << 62} {
			s.each(fmt.Sprintf("%d ms", ms), 2, 4, func(int16) kmsg.Request {
				r := commitOf(g, oc{t, 0, 5})
				r.RetentionTimeMillis = ms
				return r
			})
		}
		s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}))
	}),
	asks("OffsetCommit/partly-too-large", "metadata of one of several partitions is too large", func(s *S) {
		g, t, u := s.group("g"), s.create("t", 2), s.create("u", 1)
		for _, n := range []int{4096, 4097, 32_000} {
			s.each(fmt.Sprintf("%d bytes", n), 2, 10, func(int16) kmsg.Request {
				return noted(commitOf(g, oc{t, 0, int64(n)}, oc{t, 1, int64(n)}, oc{u, 0, int64(n)}, oc{s.unknownTopic(), 0, 1}), strings.Repeat("x", n))
			})
			s.do("fetch", 9, offsetsOf(g))
		}
		s.each("characters, not bytes", 2, 10, func(int16) kmsg.Request { return noted(commitOf(g, oc{t, 0, 7}), strings.Repeat("ä", 4096)) })
		s.do("fetch", 9, offsetsOf(g))
	}),
	asks("OffsetFetch/many-groups", "several groups in one request, each with its own answer", func(s *S) {
		g, h, t := s.group("g"), s.group("h"), s.create("t", 2)
		s.do("commit", 9, commitOf(g, oc{t, 0, 1}))
		s.do("commit", 9, commitOf(h, oc{t, 1, 2}))
		of := func(all ...*kmsg.OffsetFetchRequest) *kmsg.OffsetFetchRequest {
			for _, r := range all[1:] {
				all[0].Groups = append(all[0].Groups, r.Groups...)
			}
			return all[0]
		}
		s.each("both", 8, 10, func(int16) kmsg.Request { return of(offsetsOf(g, oc{t, 0, 0}), offsetsOf(h, oc{t, 1, 0})) })
		s.each("one of all, one of none", 8, 10, func(int16) kmsg.Request {
			return of(offsetsOf(g), offsetsOf(h, oc{t, 0, 0}), offsetsOf(s.name("none")))
		})
		s.each("an empty id among them", 8, 10, func(int16) kmsg.Request { return of(offsetsOf(g), offsetsOf("", oc{t, 0, 0}), offsetsOf(h)) })
		s.each("one as a stranger", 9, 10, func(int16) kmsg.Request { return of(offsetsOf(g), offsetsAs("x", 4, offsetsOf(h))) })
		s.each("stable only", 8, 10, func(int16) kmsg.Request { return onlyStable(of(offsetsOf(g), offsetsOf(h))) })
	}),
	asks("OffsetFetch/duplicates", "topics and partitions that are named twice", func(s *S) {
		g, t, u := s.group("g"), s.create("t", 2), s.create("u", 1)
		s.do("commit", 9, commitOf(g, oc{t, 0, 1}, oc{u, 0, 2}))
		s.each("a topic twice", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{t, 0, 0}, oc{u, 0, 0}, oc{t, 1, 0}) })
		s.each("unknown ones", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{s.unknownTopic(), 0, 0}, oc{t, 0, 0}) })
		s.each("no name and no id", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{topic{}, 0, 0}) })
		s.do("name but no id", 10, offsetsOf(g, oc{topic{name: t.name}, 0, 0}))
		s.do("id but no name", 9, offsetsOf(g, oc{topic{id: t.id}, 0, 0}))
	}),
	asks("OffsetFetch/overwritten", "an offset goes back and forth, epochs and metadata come and go", func(s *S) {
		g, t := s.group("g"), s.create("t", 1)
		for i, offset := range []int64{7, 3, 0, 1 << 40, 3} {
			r := noted(commitOf(g, oc{t, 0, offset}), fmt.Sprint("note ", i))
			r.Topics[0].Partitions[0].LeaderEpoch = int32(i) - 1
			s.do("commit", int16(i)+6, r)
			s.each("fetch", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{t, 0, 0}) })
		}
		s.do("delete", 0, offsetDeleteOf(g, oc{t, 0, 0}))
		s.each("fetch", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{t, 0, 0}) })
		s.each("fetch all", 2, 10, func(int16) kmsg.Request { return offsetsOf(g) })
	}),
	asks("OffsetFetch/recreated-topic", "offsets of a topic do not come back with its name", func(s *S) {
		g, t := s.group("g"), s.create("t", 1)
		s.do("commit", 10, commitOf(g, oc{t, 0, 5}))
		s.drop(t)
		again := s.create("t", 1)
		s.until("the offset is gone", func() bool {
			resp := s.quiet(9, offsetsOf(g, oc{again, 0, 0})).(*kmsg.OffsetFetchResponse)
			return resp.Groups[0].Topics[0].Partitions[0].Offset == -1
		})
		s.do("the old id", 10, offsetsOf(g, oc{t, 0, 0}))
		s.do("the new id", 10, offsetsOf(g, oc{again, 0, 0}))
		s.do("commit with the old id", 10, commitOf(g, oc{t, 0, 6}))
		s.do("commit with the new id", 10, commitOf(g, oc{again, 0, 7}))
		s.each("all", 2, 10, func(int16) kmsg.Request { return offsetsOf(g) })
	}),
	asks("DescribeGroups/many", "groups in every state in one request", func(s *S) {
		var all []string
		for _, name := range strings.Fields("stable completing empty") {
			for _, st := range stages {
				if st.name == name {
					sc := scene{g: s.group(name), member: "m", t: topic{name: "t"}}
					st.build(s, &sc)
					s.n.member(sc.member)
					all = append(all, sc.g)
				}
			}
		}
		all = append(all, s.name("none"), "")
		s.each("all", 0, 6, func(int16) kmsg.Request { return describeOf(all...) })
		s.each("as consumer groups", 0, 1, func(int16) kmsg.Request { return consumerDescribeOf(all...) })
	}),
	asks("DeleteGroups/many", "groups that can be deleted and that cannot in one request", func(s *S) {
		t := s.create("t", 1)
		for v := int16(0); v <= 3; v++ {
			stable, simple := s.group(fmt.Sprintf("stable%d", v)), s.group(fmt.Sprintf("simple%d", v))
			p := s.peer()
			s.hushed(func() { p.stable(stable) })
			s.quiet(8, commitOf(simple, oc{t, 0, 1}))
			s.do("all", v, deleteGroupsOf(stable, simple, s.name("none"), "", simple))
			s.do("described", 6, describeOf(stable, simple))
		}
	}),
	asks("DeleteGroups/and-back", "a deleted group comes back empty", func(s *S) {
		g, t := s.group("g"), s.create("t", 1)
		a := s.member(g)
		a.join("a")
		a.sync("a syncs", a)
		a.commit("a commits", oc{t, 0, 5})
		a.leave("a leaves")
		s.do("delete", 2, deleteGroupsOf(g))
		s.do("offsets", 9, offsetsOf(g))
		a.commit("a commits", oc{t, 0, 6})
		a.beat("a beats")
		s.do("simple", 9, commitOf(g, oc{t, 0, 7}))
		s.gathered(g)
		a.id = ""
		a.join("a comes back")
		a.sync("a syncs", a)
		s.do("offsets", 9, offsetsOf(g))
	}),
	asks("ListGroups/types-and-states", "groups of both protocols in several states", func(s *S) {
		g, t := s.groupOn("consumer", "t", 2)
		s.beat("joins", g, "a", 0, subscribed(t))
		s.beat("joins, must wait", g, "b", 0, subscribed(t))
		empty := s.name("consumer-empty")
		s.beat("joins", empty, "a", 0, subscribed(t))
		s.beat("leaves", empty, "a", -1)
		s.peer().stable(s.group("classic"))
		s.peer().stable(s.group("connect"), ofType("connect"))
		s.do("commit", 8, commitOf(s.group("simple"), oc{t, 0, 1}))
		s.each("all", 0, 5, func(int16) kmsg.Request { return listGroupsOf(nil, nil) })
		for _, types := range [][]string{nil, {"classic"}, {"consumer"}, {"CONSUMER", "Classic"}, {"share"}, {"streams"}, {"unknown"}} {
			for _, states := range [][]string{nil, {"Stable"}, {"Empty"}, {"Reconciling"}, {"Assigning"}, {"Dead"}, {"stable", "EMPTY"}, {"Unknown"}, {"PreparingRebalance"}} {
				s.do(fmt.Sprintf("types %v, states %v", types, states), 5, listGroupsOf(states, types))
			}
		}
	}),
	asks("OffsetDelete/mixed", "partitions that are free, subscribed to, unknown, twice there", func(s *S) {
		g, t, u := s.group("g"), s.create("t", 2), s.create("u", 2)
		a := s.member(g, func(r *kmsg.JoinGroupRequest) { r.Protocols = offersTopics("range", t.name) })
		a.join("a")
		a.sync("a syncs", a)
		r := by(commitOf(g, oc{t, 0, 1}, oc{t, 1, 2}, oc{u, 0, 3}, oc{u, 1, 4}), a.id, a.gen)
		s.do("commit", 9, r)
		s.do("delete", 0, offsetDeleteOf(g, oc{t, 0, 0}, oc{u, 0, 0}, oc{u, 0, 0}, oc{u, 7, 0}, oc{s.unknownTopic(), 0, 0}, oc{topic{name: "a b"}, 0, 0}, oc{topic{}, 0, 0}))
		s.do("fetch", 9, offsetsOf(g))
		s.do("no partitions", 0, func() kmsg.Request {
			r := offsetDeleteOf(g, oc{t, 0, 0}, oc{u, 0, 0})
			r.Topics[0].Partitions, r.Topics[1].Partitions = nil, nil
			return r
		}())
		a.leave("a leaves")
		s.do("delete when empty", 0, offsetDeleteOf(g, oc{t, 0, 0}, oc{u, 1, 0}))
		s.do("fetch", 9, offsetsOf(g))
		s.do("delete the rest", 0, offsetDeleteOf(g, oc{t, 1, 0}))
		s.gathered(g)
	}),
	asks("OffsetDelete/consumer-group", "offsets of topics that a consumer group subscribes to, by name and by expression", func(s *S) {
		g, t := s.groupOn("g", "t", 1)
		u := s.createFor(g, "u", 1)
		a := s.consumer(g, "a", subscribed(t))
		a.beat("joins")
		s.do("commit", 9, by(commitOf(g, oc{t, 0, 1}, oc{u, 0, 2}), "a", a.epoch))
		s.do("delete", 0, offsetDeleteOf(g, oc{t, 0, 0}, oc{u, 0, 0}))
		s.do("fetch", 9, offsetsOf(g))
		a.leave(-1)
		s.do("delete when empty", 0, offsetDeleteOf(g, oc{t, 0, 0}))
		s.do("fetch", 9, offsetsOf(g))
		s.consumers(g)
	}),
	asks("ConsumerGroupHeartbeat/not-in-v0", "what version 0 does not have is not heard", func(s *S) {
		g, t := s.groupOn("g", "t", 2)
		s.do("an expression", 0, beatOf(g, "a", 0, matching(".*")))
		s.do("an expression and names", 0, beatOf(g, "a", 0, matching(".*"), subscribed(t)))
		s.consumers(g)
	}),
	asks("ConsumerGroupHeartbeat/wrong-later", "what may not be said when a member joins or after it has", func(s *S) {
		g, t := s.groupOn("g", "t", 2)
		a := s.consumer(g, "a", subscribed(t))
		a.beat("joins")
		for _, v := range []int16{0, 1} {
			s.do("empty instance", v, beatOf(g, "a", a.epoch, instance("")))
			s.do("empty rack", v, beatOf(g, "a", a.epoch, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = ptr("") }))
			s.do("unknown assignor", v, beatOf(g, "a", a.epoch, assignor("x")))
			s.do("empty assignor", v, beatOf(g, "a", a.epoch, assignor("")))
			s.do("its id in other letters", v, beatOf(g, "A", a.epoch))
			s.do("blank", v, beatOf(g, " ", 0, subscribed(t)))
			s.do("a blank group", v, beatOf(" ", "a", 0, subscribed(t)))
		}
		s.do("bad expression", 1, beatOf(g, "a", a.epoch, matching("(")))
		s.do("leaves with a bad expression", 1, beatOf(g, "a", -1, matching("(")))
		s.consumers(g)
	}),
}

// groupFirst are the requests whose first field is the id of a group.
var groupFirst = []struct {
	name     string
	min, max int16
	build    func() kmsg.Request
}{
	{"JoinGroup", 0, 9, func() kmsg.Request { return joinOf("", "m") }},
	{"SyncGroup", 0, 5, func() kmsg.Request { return syncOf("", "m", 1) }},
	{"Heartbeat", 0, 4, func() kmsg.Request { return heartbeatOf("", "m", 1) }},
	{"LeaveGroup", 0, 5, func() kmsg.Request { return leaveOf("", "m") }},
	{"OffsetCommit", 2, 10, func() kmsg.Request { return by(commitOf("", oc{topic{name: "t"}, 0, 1}), "m", 1) }},
	{"OffsetFetch", 1, 7, func() kmsg.Request { return offsetsOf("", oc{topic{name: "t"}, 0, 1}) }},
	{"OffsetDelete", 0, 0, func() kmsg.Request { return offsetDeleteOf("", oc{topic{name: "t"}, 0, 1}) }},
	{"ConsumerGroupHeartbeat", 0, 1, func() kmsg.Request { return beatOf("", "a", 1) }},
}

// nulled turns the empty string at the beginning of a request's body into null.
func nulled(frame []byte, flexible bool) []byte {
	at := 4 + 2 + 2 + 4 + 2 + len("diff")
	if flexible {
		frame[at+1] = 0 // behind the tags: the compact empty string is 1
		return frame
	}
	binary.BigEndian.PutUint16(frame[at:], 0xffff)
	return frame
}
