package differential

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// This file asks everything of groups in every state: a script for each API and each scene, which is a group that was
// brought into a state. The rows of asks are the ways to ask, right and wrong.

// scene is a group in a state, with what a question needs to be right or wrong.
type scene struct {
	g        string
	member   string // a member of it; "m" where there is none
	gen      int32  // its generation or epoch
	instance string // its instance; "i" where there is none
	t, u     topic  // the member subscribes to t (and not to u)
	p        *peer  // whose connection the member has
}

// stage makes scenes. Topics are made once for a script.
type stage struct {
	name  string
	what  string
	topic bool // the scene has topics even if the question has no need of them
	build func(s *S, sc *scene)
}

func (sc *scene) classic(s *S, change ...func(*kmsg.JoinGroupRequest)) {
	sc.p = s.peer()
	change = append([]func(*kmsg.JoinGroupRequest){func(r *kmsg.JoinGroupRequest) { r.Protocols = offersTopics("range", sc.t.name) }}, change...)
	s.hushed(func() { sc.member, sc.gen = sc.p.stable(sc.g, change...) })
}

var stages = []stage{
	{"none", "a group that was never heard of", false, func(s *S, sc *scene) {}},
	{"simple", "a group that has offsets and never had a member", true, func(s *S, sc *scene) {
		s.quiet(9, commitOf(sc.g, oc{sc.t, 0, 3}))
	}},
	{"pending", "a group whose first member has got an id and has not come back", false, func(s *S, sc *scene) {
		sc.member = s.quiet(9, joinOf(sc.g, "")).(*kmsg.JoinGroupResponse).MemberID
	}},
	{"completing", "a group whose one member has joined and not synced", false, func(s *S, sc *scene) {
		sc.p = s.peer()
		s.hushed(func() { sc.member, sc.gen = sc.p.joinAs("join", 7, sc.g) })
	}},
	{"stable", "a group with one member", false, func(s *S, sc *scene) { sc.classic(s) }},
	{"static", "a group with one static member", false, func(s *S, sc *scene) {
		sc.instance = "i1"
		sc.classic(s, static("i1"))
	}},
	{"preparing", "a group that waits for its one member, because another has come", false, func(s *S, sc *scene) {
		sc.classic(s)
		s.peer().send("b", 3, joinOf(sc.g, ""))
		s.awaitState(sc.g, "PreparingRebalance")
	}},
	{"empty", "a group whose one member has left", false, func(s *S, sc *scene) {
		sc.classic(s)
		s.quiet(5, leaveOf(sc.g, sc.member))
		sc.gen++
	}},
	{"deleted", "a group that was deleted", false, func(s *S, sc *scene) {
		sc.classic(s)
		s.quiet(5, leaveOf(sc.g, sc.member))
		s.quiet(2, deleteGroupsOf(sc.g))
	}},
	{"consumer", "a consumer group with one member", true, func(s *S, sc *scene) { sc.consumer(s) }},
	{"consumer-static", "a consumer group with one static member", true, func(s *S, sc *scene) {
		sc.instance = "i1"
		sc.consumer(s, instance("i1"))
	}},
	{"consumer-away", "a consumer group whose static member has left to come back", true, func(s *S, sc *scene) {
		sc.instance = "i1"
		sc.consumer(s, instance("i1"))
		s.quiet(1, beatOf(sc.g, sc.member, -2, instance("i1")))
	}},
	{"consumer-empty", "a consumer group whose one member has left", true, func(s *S, sc *scene) {
		sc.consumer(s)
		s.quiet(1, beatOf(sc.g, sc.member, -1))
	}},
}

func (sc *scene) consumer(s *S, change ...beatChange) {
	sc.member = "a"
	resp := s.quiet(1, beatOf(sc.g, "a", 0, append(change, subscribed(sc.t))...)).(*kmsg.ConsumerGroupHeartbeatResponse)
	sc.gen = resp.MemberEpoch
}

// hushed runs what belongs to the preparation: its steps are not kept.
func (s *S) hushed(fn func()) {
	n := len(s.steps)
	defer func() { s.steps = s.steps[:n] }()
	fn()
}

// ask is a row: one way to ask something of a scene, at the versions from min on.
type ask struct {
	what  string
	min   int16
	fresh bool // every version asks a scene of its own: the answer changes the group
	build func(sc scene) kmsg.Request
}

// api is what can be asked at which versions.
type api struct {
	name     string
	min, max int16
	topics   bool // the questions name topics
	asks     []ask
	not      string // scenes that it is not asked in
}

// stateScripts is one script for every API and stage.
func stateScripts() (all []Script) {
	for _, a := range groupAPIs {
		for _, st := range stages {
			if !slices.Contains(strings.Fields(a.not), st.name) {
				all = append(all, asks(a.name+"/in-"+st.name, "everything, of "+st.what, func(s *S) { a.askAll(s, st) }))
			}
		}
	}
	return all
}

func (a api) askAll(s *S, st stage) {
	first := s.group("g")
	t, u := topic{name: "t"}, topic{name: "u"}
	if a.topics || st.topic {
		t, u = s.createFor(first, "t", 2), s.create("u", 1)
	}
	made := 0
	make := func() scene {
		sc := scene{g: first, member: "m", instance: "i", t: t, u: u}
		if made > 0 {
			sc.g = s.name(fmt.Sprintf("g%d", made))
		}
		made++
		st.build(s, &sc)
		s.n.member(sc.member)
		return sc
	}
	kept := make()
	for _, q := range a.asks {
		for v := max(q.min, a.min); v <= a.max; v++ {
			sc := kept
			if q.fresh {
				sc = make()
			}
			s.do(q.what, v, q.build(sc))
			if q.fresh && v == a.max {
				s.do("after "+q.what, 6, describeOf(sc.g))
				s.do("after "+q.what, 1, consumerDescribeOf(sc.g))
			}
			sc.hangUp(q.fresh)
		}
	}
	s.do("in the end", 6, describeOf(kept.g))
	s.do("in the end", 1, consumerDescribeOf(kept.g))
	if a.topics {
		s.do("in the end", 9, offsetsOf(kept.g))
	}
}

// hangUp ends the connection of a scene's member: the group does not care.
func (sc scene) hangUp(really bool) {
	if really && sc.p != nil {
		sc.p.c.close()
	}
}
