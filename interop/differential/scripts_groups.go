package differential

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var groupScripts = []Script{
	{"JoinGroup/bad", func(s *S) {
		g := s.group("g")
		s.each("empty group", 0, 9, func(int16) kmsg.Request { return joinOf("", "") })
		s.each("empty group and member", 0, 9, func(int16) kmsg.Request { return joinOf("", "m") })
		for _, ms := range []int32{-1, 0, 999, 1_800_001} {
			s.each(fmt.Sprintf("session %d", ms), 0, 9, func(int16) kmsg.Request {
				return joinOf(g, "", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = ms })
			})
		}
		s.each("unknown member", 0, 9, func(int16) kmsg.Request { return joinOf(g, "nobody") })
		s.each("unknown static member", 5, 9, func(int16) kmsg.Request { return joinOf(g, "nobody", static("i")) })
		s.each("no protocols", 0, 9, func(int16) kmsg.Request {
			return joinOf(g, "", func(r *kmsg.JoinGroupRequest) { r.Protocols = nil })
		})
		s.each("no protocol type", 0, 9, func(int16) kmsg.Request {
			return joinOf(g, "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "" })
		})
		s.each("nothing came of it", 0, 6, func(int16) kmsg.Request { return describeOf(g) })
	}},
	{"JoinGroup/alone", func(s *S) {
		for v := int16(0); v <= 9; v++ {
			g := s.group(fmt.Sprintf("g%d", v))
			p := s.peer()
			member, generation := p.joinAs("join", v, g)
			s.do("describe", 6, describeOf(g))
			sync := min(v, 5)
			p.do("sync", sync, syncOf(g, member, generation, member))
			s.do("describe", min(v, 6), describeOf(g))
			p.do("heartbeat", min(v, 4), heartbeatOf(g, member, generation))
			p.do("leave", min(v, 5), leaveOf(g, member))
			s.do("describe", 6, describeOf(g))
			s.do("delete", min(v, 3), deleteGroupsOf(g))
		}
	}},
	{"JoinGroup/member-id-required", func(s *S) {
		g := s.group("g")
		for v := int16(4); v <= 9; v++ {
			s.do("first", v, joinOf(g, ""))
			s.awaitState(g, "Empty")
			s.do("empty describe", 6, describeOf(g))
		}
		p := s.peer()
		resp := p.do("join", 9, joinOf(g, "")).(*kmsg.JoinGroupResponse)
		s.do("heartbeat of a pending member", 4, heartbeatOf(g, resp.MemberID, -1))
		s.do("sync of a pending member", 5, syncOf(g, resp.MemberID, 0))
		s.do("commit of a pending member", 8, by(commitOf(g, oc{s.create("t", 1), 0, 1}), resp.MemberID, 0))
		s.do("leave of a pending member", 5, leaveOf(g, resp.MemberID))
		s.do("leave again", 5, leaveOf(g, resp.MemberID))
		s.do("join with the id that left", 9, joinOf(g, resp.MemberID))
	}},
	{"JoinGroup/inconsistent", func(s *S) {
		g := s.group("g")
		p := s.peer()
		p.stable(g)
		s.each("other type", 0, 9, func(int16) kmsg.Request {
			return joinOf(g, "", func(r *kmsg.JoinGroupRequest) { r.ProtocolType = "connect" })
		})
		s.each("other protocol", 0, 9, func(int16) kmsg.Request {
			return joinOf(g, "", func(r *kmsg.JoinGroupRequest) { r.Protocols = offers("sticky") })
		})
		s.each("unknown member", 0, 9, func(int16) kmsg.Request { return joinOf(g, "nobody") })
		s.each("unknown instance", 5, 9, func(int16) kmsg.Request { return joinOf(g, "nobody", static("i")) })
		s.do("describe", 6, describeOf(g))
	}},
	{"JoinGroup/two-members", func(s *S) {
		g := s.group("g")
		a, b := s.peer(), s.peer()
		first, gen := a.stable(g)
		id := b.do("b", 9, joinOf(g, "")).(*kmsg.JoinGroupResponse).MemberID
		b.send("b joins", 9, joinOf(g, id))
		s.awaitState(g, "PreparingRebalance")
		s.do("describe", 6, describeOf(g))
		s.each("heartbeat while joining", 0, 4, func(int16) kmsg.Request { return heartbeatOf(g, first, gen) })
		s.do("sync while joining", 5, syncOf(g, first, gen, first))
		s.do("heartbeat of b", 4, heartbeatOf(g, id, gen))
		a.do("a joins again", 9, joinOf(g, first))
		b.recv()
		s.do("describe", 6, describeOf(g))
		s.do("heartbeat while syncing", 4, heartbeatOf(g, first, gen+1))
		s.do("heartbeat of the old generation", 4, heartbeatOf(g, first, gen))
		b.send("b syncs", 5, syncOf(g, id, gen+1))
		a.do("a syncs", 5, syncOf(g, first, gen+1, id, first))
		b.recv()
		s.do("describe", 6, describeOf(g))
		s.do("b syncs again", 5, syncOf(g, id, gen+1))
		b.do("b joins again without a change", 9, joinOf(g, id))
		s.do("leader leaves", 5, leaveOf(g, first))
		s.do("heartbeat of b", 4, heartbeatOf(g, id, gen+1))
		b.do("b joins", 9, joinOf(g, id))
		b.do("b syncs", 5, syncOf(g, id, gen+2, id))
		s.do("describe", 6, describeOf(g))
	}},
	{"JoinGroup/changes", func(s *S) {
		g := s.group("g")
		a, b := s.peer(), s.peer()
		first, gen := a.stable(g)
		a.do("leader joins again", 9, joinOf(g, first))
		a.do("again while syncing", 9, joinOf(g, first))
		a.do("changed while syncing", 9, joinOf(g, first, func(r *kmsg.JoinGroupRequest) { r.Protocols = offers("range", "sticky") }))
		s.do("describe", 6, describeOf(g))
		a.do("sync of an old generation", 5, syncOf(g, first, gen+1, first))
		a.do("sync", 5, syncOf(g, first, gen+2, first))
		b.send("b", 3, joinOf(g, "", func(r *kmsg.JoinGroupRequest) { r.Protocols = offers("sticky") }))
		s.awaitMembers(g, 2)
		a.do("a", 9, joinOf(g, first, func(r *kmsg.JoinGroupRequest) { r.Protocols = offers("range", "sticky") }))
		b.recv()
	}},
	{"JoinGroup/votes", func(s *S) {
		g := s.group("g")
		a, b, c := s.peer(), s.peer(), s.peer()
		first, _ := a.stable(g, func(r *kmsg.JoinGroupRequest) { r.Protocols = offers("x", "y", "z") })
		bs := func(r *kmsg.JoinGroupRequest) { r.Protocols = offers("y", "z") }
		cs := func(r *kmsg.JoinGroupRequest) { r.Protocols = offers("z", "y", "q") }
		second := b.do("b", 9, joinOf(g, "", bs)).(*kmsg.JoinGroupResponse).MemberID
		third := c.do("c", 9, joinOf(g, "", cs)).(*kmsg.JoinGroupResponse).MemberID
		b.send("b joins", 9, joinOf(g, second, bs))
		s.awaitMembers(g, 2)
		c.send("c joins", 9, joinOf(g, third, cs))
		s.awaitMembers(g, 3)
		a.do("a joins", 9, joinOf(g, first, func(r *kmsg.JoinGroupRequest) { r.Protocols = offers("x", "y", "z") }))
		b.recv()
		c.recv()
	}},
	{"JoinGroup/session-expiry", func(s *S) {
		g := s.group("g")
		a, b := s.peer(), s.peer()
		first, gen := a.stable(g, func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 2000 })
		b.send("b", 3, joinOf(g, ""))
		s.awaitMembers(g, 2)
		resp := b.recv() // when a has expired
		s.do("heartbeat of the expired", 4, heartbeatOf(g, first, gen))
		a.do("the expired joins again", 9, joinOf(g, first))
		if j, ok := resp.(*kmsg.JoinGroupResponse); ok {
			b.do("b syncs", 5, syncOf(g, j.MemberID, j.Generation, j.MemberID))
		}
		s.do("describe", 6, describeOf(g))
	}},
	{"JoinGroup/rebalance-timeout", func(s *S) {
		g := s.group("g")
		a, b := s.peer(), s.peer()
		short := func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 60_000, 1000 }
		first, gen := a.stable(g, short)
		b.send("b", 3, joinOf(g, "", short))
		resp := b.recv() // a has not come
		s.do("heartbeat of the late", 4, heartbeatOf(g, first, gen))
		if j, ok := resp.(*kmsg.JoinGroupResponse); ok {
			s.awaitState(g, "Empty") // b does not sync
			b.do("b syncs late", 5, syncOf(g, j.MemberID, j.Generation, j.MemberID))
			s.do("describe", 6, describeOf(g))
		}
	}},
	{"JoinGroup/static", func(s *S) {
		g := s.group("g")
		a, b := s.peer(), s.peer()
		first, gen := a.stable(g, static("i1"))
		s.do("describe", 6, describeOf(g))
		for v := int16(5); v <= 9; v++ {
			resp, ok := b.do("comes back", v, joinOf(g, "", static("i1"))).(*kmsg.JoinGroupResponse)
			if !ok {
				return
			}
			s.do("old one beats", 4, heartbeatOf(g, first, gen))
			hb := heartbeatOf(g, first, gen)
			hb.InstanceID = ptr("i1")
			s.do("old one beats with instance", 4, hb)
			sy := syncOf(g, resp.MemberID, gen)
			sy.InstanceID = ptr("i1")
			b.do("syncs", 5, sy)
			first = resp.MemberID
		}
		s.do("old id joins", 9, joinOf(g, "nobody", static("i1")))
		s.do("wrong instance joins", 9, joinOf(g, first, static("i2")))
		hb := heartbeatOf(g, first, gen)
		hb.InstanceID = ptr("i2")
		s.do("wrong instance beats", 4, hb)
		cm := by(commitOf(g, oc{s.create("t", 1), 0, 1}), "nobody", gen)
		cm.InstanceID = ptr("i1")
		s.do("fenced commit", 8, cm)
		b.do("static with other protocols", 9, joinOf(g, "", static("i1"), func(r *kmsg.JoinGroupRequest) { r.Protocols = offers("other") }))
		s.do("describe", 6, describeOf(g))
		lv := leaveOf(g, "")
		lv.Members[0].InstanceID = ptr("i1")
		s.do("leave by instance", 5, lv)
		s.do("leave by instance again", 5, lv)
		s.do("describe", 6, describeOf(g))
	}},
	{"JoinGroup/static-two", func(s *S) {
		g := s.group("g")
		a, b := s.peer(), s.peer()
		first, gen := a.stable(g, static("i1"))
		b.send("b", 9, joinOf(g, "", static("i2")))
		s.awaitMembers(g, 2)
		a.do("a", 9, joinOf(g, first, static("i1")))
		second := ""
		if j, ok := b.recv().(*kmsg.JoinGroupResponse); ok {
			second = j.MemberID
		}
		c := s.peer()
		c.send("i2 comes back while syncing", 9, joinOf(g, "", static("i2")))
		s.awaitState(g, "PreparingRebalance")
		a.do("a syncs", 5, syncOf(g, first, gen+1, first, second))
		a.do("a joins", 9, joinOf(g, first, static("i1")))
		c.recv()
		lv := leaveOf(g, "", "", first)
		lv.Members[0].InstanceID, lv.Members[1].InstanceID, lv.Members[2].InstanceID = ptr("i2"), ptr("i9"), ptr("i2")
		s.do("leave several", 4, lv)
		s.do("describe", 6, describeOf(g))
	}},
	{"JoinGroup/connect", func(s *S) {
		g := s.group("g")
		a := s.peer()
		connect := func(r *kmsg.JoinGroupRequest) { r.ProtocolType, r.Protocols[0].Metadata = "connect", []byte("opaque") }
		member, gen := a.stable(g, connect)
		t := s.create("t", 1)
		a.do("commit", 8, by(commitOf(g, oc{t, 0, 5}), member, gen))
		s.do("offset delete", 0, offsetDeleteOf(g, oc{t, 0, 0}))
		s.do("describe", 6, describeOf(g))
		a.do("leave", 5, leaveOf(g, member))
		s.do("offset delete", 0, offsetDeleteOf(g, oc{t, 0, 0}))
		s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}))
	}},
	{"JoinGroup/malformed-subscription", func(s *S) {
		g := s.group("g")
		a := s.peer()
		member, gen := a.stable(g, func(r *kmsg.JoinGroupRequest) { r.Protocols[0].Metadata = []byte{0, 1, 0x7f, 0xff, 0xff, 0xff, 0} })
		t := s.create("t", 1)
		a.do("commit", 8, by(commitOf(g, oc{t, 0, 5}), member, gen))
		s.do("offset delete", 0, offsetDeleteOf(g, oc{t, 0, 0}))
		s.do("describe", 6, describeOf(g))
	}},
	{"SyncGroup/bad", func(s *S) {
		g := s.group("g")
		s.each("empty group", 0, 5, func(int16) kmsg.Request { return syncOf("", "m", 1) })
		s.each("no group", 0, 5, func(int16) kmsg.Request { return syncOf(g, "m", 1) })
		p := s.peer()
		member, gen := p.stable(g)
		s.each("no member", 0, 5, func(int16) kmsg.Request { return syncOf(g, "nobody", gen) })
		for i := range 3 {
			s.do(fmt.Sprintf("without names %d", i), 5, func() kmsg.Request {
				r := syncOf(g, member, gen)
				if i != 1 {
					r.ProtocolType = nil
				}
				if i != 0 {
					r.Protocol = nil
				}
				return r
			}())
		}
		s.each("empty member", 0, 5, func(int16) kmsg.Request { return syncOf(g, "", gen) })
		for _, d := range []int32{-1, 1, 100} {
			s.each(fmt.Sprintf("generation %+d", d), 0, 5, func(int16) kmsg.Request { return syncOf(g, member, gen+d) })
		}
		s.each("stable", 0, 5, func(int16) kmsg.Request { return syncOf(g, member, gen, "other") })
		for _, names := range [][2]string{{"consumer", "range"}, {"consumer", "sticky"}, {"connect", "range"}, {"", ""}} {
			s.each(fmt.Sprintf("names %q %q", names[0], names[1]), 5, 5, func(int16) kmsg.Request {
				r := syncOf(g, member, gen)
				r.ProtocolType, r.Protocol = ptr(names[0]), ptr(names[1])
				return r
			})
		}
		s.each("instance", 3, 5, func(int16) kmsg.Request {
			r := syncOf(g, member, gen)
			r.InstanceID = ptr("i")
			return r
		})
		p.do("leave", 5, leaveOf(g, member))
		s.each("empty", 0, 5, func(int16) kmsg.Request { return syncOf(g, member, gen+1) })
	}},
	{"SyncGroup/assignments", func(s *S) {
		g := s.group("g")
		a := s.peer()
		first, gen := a.joinAs("join", 9, g)
		a.do("sync without assignments", 5, syncOf(g, first, gen))
		s.do("describe", 6, describeOf(g))
		a.do("join", 9, joinOf(g, first))
		a.do("sync with a stranger", 5, syncOf(g, first, gen+1, "stranger", first))
		s.do("describe", 6, describeOf(g))
		a.do("join", 9, joinOf(g, first))
		a.do("sync twice the same", 5, syncOf(g, first, gen+2, first, first))
	}},
	{"Heartbeat/bad", func(s *S) {
		g := s.group("g")
		s.each("empty group", 0, 4, func(int16) kmsg.Request { return heartbeatOf("", "m", 1) })
		s.each("no group", 0, 4, func(int16) kmsg.Request { return heartbeatOf(g, "m", 1) })
		p := s.peer()
		member, gen := p.stable(g)
		s.each("good", 0, 4, func(int16) kmsg.Request { return heartbeatOf(g, member, gen) })
		s.each("no member", 0, 4, func(int16) kmsg.Request { return heartbeatOf(g, "nobody", gen) })
		s.each("empty member", 0, 4, func(int16) kmsg.Request { return heartbeatOf(g, "", gen) })
		for _, d := range []int32{-1, 1, 100} {
			s.each(fmt.Sprintf("generation %+d", d), 0, 4, func(int16) kmsg.Request { return heartbeatOf(g, member, gen+d) })
		}
		s.each("instance", 3, 4, func(int16) kmsg.Request {
			r := heartbeatOf(g, member, gen)
			r.InstanceID = ptr("i")
			return r
		})
		p.do("leave", 5, leaveOf(g, member))
		s.each("empty", 0, 4, func(int16) kmsg.Request { return heartbeatOf(g, member, gen+1) })
	}},
	{"LeaveGroup/bad", func(s *S) {
		g := s.group("g")
		s.each("empty group", 0, 5, func(int16) kmsg.Request { return leaveOf("", "m") })
		s.each("no group", 0, 5, func(int16) kmsg.Request { return leaveOf(g, "m") })
		s.each("no group, two", 3, 5, func(int16) kmsg.Request { return leaveOf(g, "m", "n") })
		p := s.peer()
		member, _ := p.stable(g)
		s.each("no member", 0, 5, func(int16) kmsg.Request { return leaveOf(g, "nobody") })
		s.each("empty member", 0, 5, func(int16) kmsg.Request { return leaveOf(g, "") })
		s.each("nobody", 3, 5, func(int16) kmsg.Request { return leaveOf(g) })
		s.each("instance of nobody", 3, 5, func(int16) kmsg.Request {
			r := leaveOf(g, member)
			r.Members[0].InstanceID = ptr("i")
			return r
		})
		s.do("still there", 6, describeOf(g))
		s.do("twice in one", 5, leaveOf(g, member, member))
		s.each("gone", 0, 5, func(int16) kmsg.Request { return leaveOf(g, member) })
	}},
	{"OffsetCommit/simple", func(s *S) {
		g, t := s.group("g"), s.create("t", 2)
		s.each("commit", 2, 10, func(v int16) kmsg.Request { return commitOf(g, oc{t, 0, int64(v)}) })
		s.each("fetch", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{t, 0, 0}, oc{t, 1, 0}) })
		s.each("unknown partition", 2, 10, func(int16) kmsg.Request { return commitOf(g, oc{t, 2, 1}, oc{t, -1, 1}, oc{t, 1, 1}) })
		s.each("unknown topic", 2, 10, func(int16) kmsg.Request { return commitOf(g, oc{s.unknownTopic(), 0, 1}) })
		s.each("known and unknown", 2, 10, func(int16) kmsg.Request { return commitOf(g, oc{s.unknownTopic(), 0, 1}, oc{t, 0, 3}) })
		s.each("bad name", 2, 9, func(int16) kmsg.Request { return commitOf(g, oc{topic{name: "a b"}, 0, 1}) })
		s.each("no topics", 2, 10, func(int16) kmsg.Request { return commitOf(g) })
		for _, offset := range []int64{-1, -9, 1<<63 - 1} {
			s.each(fmt.Sprintf("offset %d", offset), 2, 10, func(int16) kmsg.Request { return commitOf(g, oc{t, 0, offset}) })
			s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}))
		}
		s.each("twice", 2, 10, func(int16) kmsg.Request { return commitOf(g, oc{t, 0, 1}, oc{t, 0, 2}) })
		s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}))
		s.do("describe", 6, describeOf(g))
	}},
	{"OffsetCommit/metadata", func(s *S) {
		g, t := s.group("g"), s.create("t", 2)
		for _, n := range []int{0, 1, 4096, 4097} {
			s.each(fmt.Sprintf("%d bytes", n), 2, 10, func(int16) kmsg.Request {
				r := commitOf(g, oc{t, 0, int64(n)}, oc{t, 1, int64(n)})
				r.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("x", n))
				return r
			})
			s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}, oc{t, 1, 0}))
		}
		s.each("null", 2, 10, func(int16) kmsg.Request {
			r := commitOf(g, oc{t, 0, 3})
			r.Topics[0].Partitions[0].Metadata = nil
			return r
		})
		s.each("fetch", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{t, 0, 0}) })
		for _, epoch := range []int32{-2, -1, 0, 9} {
			s.each(fmt.Sprintf("epoch %d", epoch), 6, 10, func(int16) kmsg.Request {
				r := commitOf(g, oc{t, 0, 3})
				r.Topics[0].Partitions[0].LeaderEpoch = epoch
				return r
			})
			s.each("fetch", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{t, 0, 0}) })
		}
	}},
	{"OffsetCommit/members", func(s *S) {
		g, t := s.group("g"), s.create("t", 1)
		o := oc{t, 0, 1}
		s.each("no group with generation", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, o), "m", 1) })
		s.each("no group with generation 0", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, o), "", 0) })
		p := s.peer()
		member, gen := p.stable(g)
		s.each("member", 2, 10, func(v int16) kmsg.Request { return by(commitOf(g, oc{t, 0, int64(v)}), member, gen) })
		s.each("simple on a group with members", 2, 10, func(int16) kmsg.Request { return commitOf(g, o) })
		s.each("unknown member", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, o), "nobody", gen) })
		s.each("unknown member without generation", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, o), "nobody", -1) })
		s.each("member without generation", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, o), member, -1) })
		for _, d := range []int32{-1, 1} {
			s.each(fmt.Sprintf("generation %+d", d), 2, 10, func(int16) kmsg.Request { return by(commitOf(g, o), member, gen+d) })
		}
		s.each("instance", 7, 10, func(int16) kmsg.Request {
			r := by(commitOf(g, o), member, gen)
			r.InstanceID = ptr("i")
			return r
		})
		s.do("fetch", 9, offsetsOf(g, o))
		b := s.peer()
		b.send("b", 3, joinOf(g, ""))
		s.awaitState(g, "PreparingRebalance")
		s.each("while joining", 2, 10, func(v int16) kmsg.Request { return by(commitOf(g, oc{t, 0, int64(v)}), member, gen) })
		p.do("a joins", 9, joinOf(g, member))
		b.recv()
		s.each("while syncing", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, o), member, gen+1) })
		s.each("while syncing, old generation", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, o), member, gen) })
	}},
	{"OffsetCommit/empty-group-with-history", func(s *S) {
		g, t := s.group("g"), s.create("t", 1)
		p := s.peer()
		member, gen := p.stable(g)
		p.do("commit", 9, by(commitOf(g, oc{t, 0, 4}), member, gen))
		p.do("leave", 5, leaveOf(g, member))
		s.each("simple", 2, 10, func(v int16) kmsg.Request { return commitOf(g, oc{t, 0, int64(v)}) })
		s.each("old member", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), member, gen) })
		s.each("old member, new generation", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), member, gen+1) })
		s.each("member without generation", 2, 10, func(int16) kmsg.Request { return by(commitOf(g, oc{t, 0, 1}), "m", -1) })
		s.do("describe", 6, describeOf(g))
	}},
	{"OffsetCommit/empty-group-id", func(s *S) { // the one script about this group
		s.coordinator("")
		t := s.create("t", 1)
		s.each("commit", 2, 10, func(v int16) kmsg.Request { return commitOf("", oc{t, 0, int64(v)}) })
		s.each("fetch", 1, 10, func(int16) kmsg.Request { return offsetsOf("", oc{t, 0, 0}) })
		s.do("describe", 6, describeOf(""))
		s.do("offset delete", 0, offsetDeleteOf("", oc{t, 0, 0}))
		s.each("delete", 0, 3, func(int16) kmsg.Request { return deleteGroupsOf("") })
		s.each("describe", 0, 6, func(int16) kmsg.Request { return describeOf("") })
	}},
	{"OffsetFetch/odd", func(s *S) {
		g, t, u := s.group("g"), s.create("t", 2), s.create("u", 1)
		s.each("no group", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{t, 0, 0}) })
		s.each("no group, all", 2, 10, func(int16) kmsg.Request { return offsetsOf(g) })
		s.do("commit", 9, commitOf(g, oc{t, 0, 1}, oc{t, 1, 2}, oc{u, 0, 3}))
		s.each("all", 2, 10, func(int16) kmsg.Request { return offsetsOf(g) })
		s.each("unknown", 1, 10, func(int16) kmsg.Request {
			return offsetsOf(g, oc{s.unknownTopic(), 0, 0}, oc{t, 7, 0}, oc{t, -1, 0}, oc{u, 0, 0})
		})
		s.each("stable only", 7, 10, func(int16) kmsg.Request {
			r := offsetsOf(g, oc{t, 0, 0})
			r.RequireStable = true
			return r
		})
		s.each("empty list of topics", 1, 10, func(int16) kmsg.Request {
			r := offsetsOf(g)
			r.Topics, r.Groups[0].Topics = []kmsg.OffsetFetchRequestTopic{}, []kmsg.OffsetFetchRequestGroupTopic{}
			return r
		})
		s.each("several groups", 8, 10, func(int16) kmsg.Request {
			r := offsetsOf(g, oc{t, 0, 0})
			r.Groups = append(r.Groups, offsetsOf(s.name("none"), oc{t, 0, 0}).Groups...)
			return r
		})
		s.each("no groups", 8, 10, func(int16) kmsg.Request {
			r := offsetsOf(g)
			r.Groups = nil
			return r
		})
		s.each("member of nobody", 9, 10, func(int16) kmsg.Request {
			r := offsetsOf(g, oc{t, 0, 0})
			r.Groups[0].MemberID, r.Groups[0].MemberEpoch = ptr("m"), 3
			return r
		})
	}},
	{"OffsetFetch/deleted-topic", func(s *S) {
		g, t := s.group("g"), s.create("t", 1)
		s.do("commit", 9, commitOf(g, oc{t, 0, 5}))
		s.drop(t)
		s.until("the offset is gone", func() bool {
			resp := s.quiet(9, offsetsOf(g, oc{t, 0, 0})).(*kmsg.OffsetFetchResponse)
			return resp.Groups[0].Topics[0].Partitions[0].Offset == -1
		})
		s.each("deleted", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{t, 0, 0}) })
		s.each("deleted, all", 2, 10, func(int16) kmsg.Request { return offsetsOf(g) })
		again := s.create("t", 1)
		s.each("made again", 1, 10, func(int16) kmsg.Request { return offsetsOf(g, oc{again, 0, 0}) })
	}},
	{"DescribeGroups/odd", func(s *S) {
		g := s.group("g")
		s.each("unknown", 0, 6, func(int16) kmsg.Request { return describeOf(g) })
		s.each("nothing", 0, 6, func(int16) kmsg.Request { return describeOf() })
		p := s.peer()
		p.stable(g)
		s.each("one", 0, 6, func(int16) kmsg.Request { return describeOf(g) })
		s.each("operations", 3, 6, func(int16) kmsg.Request {
			r := describeOf(g, s.name("none"))
			r.IncludeAuthorizedOperations = true
			return r
		})
		s.each("twice", 0, 6, func(int16) kmsg.Request { return describeOf(g, g) })
	}},
	{"ListGroups/filters", func(s *S) {
		g, h := s.group("g"), s.group("h")
		p := s.peer()
		p.stable(g)
		s.do("commit", 9, commitOf(h, oc{s.create("t", 1), 0, 5}))
		s.each("all", 0, 5, func(int16) kmsg.Request { return kmsg.NewPtrListGroupsRequest() })
		for _, states := range [][]string{{"Stable"}, {"stable"}, {"STABLE"}, {"Empty"}, {"Stable", "Empty"}, {"Dead"}, {"nonsense"}, {""}, {"PreparingRebalance"}} {
			s.each(fmt.Sprintf("states %v", states), 4, 5, func(int16) kmsg.Request {
				r := kmsg.NewPtrListGroupsRequest()
				r.StatesFilter = states
				return r
			})
		}
		for _, types := range [][]string{{"classic"}, {"Classic"}, {"consumer"}, {"classic", "consumer"}, {"share"}, {"nonsense"}, {""}, {"nonsense", "classic"}} {
			s.do(fmt.Sprintf("types %v", types), 5, func() kmsg.Request {
				r := kmsg.NewPtrListGroupsRequest()
				r.TypesFilter = types
				return r
			}())
		}
	}},
	{"DeleteGroups/odd", func(s *S) {
		g := s.group("g")
		s.each("unknown", 0, 3, func(int16) kmsg.Request { return deleteGroupsOf(g) })
		s.each("nothing", 0, 3, func(int16) kmsg.Request { return deleteGroupsOf() })
		p := s.peer()
		member, _ := p.stable(g)
		s.each("with members", 0, 3, func(int16) kmsg.Request { return deleteGroupsOf(g, s.name("none")) })
		p.do("leave", 5, leaveOf(g, member))
		s.do("twice in one", 3, deleteGroupsOf(g, g))
		s.each("gone", 0, 3, func(int16) kmsg.Request { return deleteGroupsOf(g) })
		t := s.create("t", 1)
		for v := int16(0); v <= 3; v++ {
			s.do("commit", 9, commitOf(g, oc{t, 0, 5}))
			s.do("delete", v, deleteGroupsOf(g))
			s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}))
		}
	}},
	{"OffsetDelete/odd", func(s *S) {
		g, t := s.group("g"), s.create("t", 2)
		s.do("unknown group", 0, offsetDeleteOf(g, oc{t, 0, 0}))
		s.do("empty group", 0, offsetDeleteOf("", oc{t, 0, 0}))
		s.do("commit", 9, commitOf(g, oc{t, 0, 5}))
		s.do("nothing", 0, offsetDeleteOf(g))
		s.do("unknown topic", 0, offsetDeleteOf(g, oc{s.unknownTopic(), 0, 0}))
		s.do("unknown partition", 0, offsetDeleteOf(g, oc{t, 9, 0}, oc{t, -1, 0}))
		s.do("no offset", 0, offsetDeleteOf(g, oc{t, 1, 0}))
		s.do("known and unknown", 0, offsetDeleteOf(g, oc{t, 0, 0}, oc{s.unknownTopic(), 0, 0}))
		s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}))
		s.do("again", 0, offsetDeleteOf(g, oc{t, 0, 0}))
		s.do("describe", 6, describeOf(g))
	}},
	{"OffsetDelete/subscribed", func(s *S) {
		g, t, u := s.group("g"), s.create("t", 1), s.create("u", 1)
		p := s.peer()
		member, gen := p.stable(g, func(r *kmsg.JoinGroupRequest) { r.Protocols = offersTopics("range", t.name) })
		p.do("commit", 9, by(commitOf(g, oc{t, 0, 5}, oc{u, 0, 6}), member, gen))
		s.do("delete", 0, offsetDeleteOf(g, oc{t, 0, 0}, oc{u, 0, 0}))
		s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}, oc{u, 0, 0}))
		b := s.peer()
		b.send("b", 3, joinOf(g, ""))
		s.awaitState(g, "PreparingRebalance")
		s.do("delete while joining", 0, offsetDeleteOf(g, oc{t, 0, 0}, oc{u, 0, 0}))
		p.do("leave", 5, leaveOf(g, member))
		b.recv()
		s.do("delete while syncing", 0, offsetDeleteOf(g, oc{t, 0, 0}))
		s.do("fetch", 9, offsetsOf(g, oc{t, 0, 0}))
	}},
	{"Produce/internal-topic", func(s *S) {
		s.group("g")
		s.each("produce", 3, 12, func(int16) kmsg.Request {
			return produceOf(-1, on(topic{name: "__consumer_offsets"}, 0, newBatch(kv("a", "b")).bytes()))
		})
	}},
}
