package differential

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cm is a classic member of a history: it keeps its id and generation, and asks at the newest versions.
type cm struct {
	*peer
	g      string
	id     string
	gen    int32
	change []func(*kmsg.JoinGroupRequest)
	inst   *string
	proto  string // the chosen protocol
}

// member makes a member that has not joined.
func (s *S) member(g string, change ...func(*kmsg.JoinGroupRequest)) *cm {
	m := &cm{peer: s.peer(), g: g, change: change}
	m.inst = joinOf(g, "", change...).InstanceID
	return m
}

// joins sends JoinGroup; a dynamic member gets its id before.
func (m *cm) joins(label string, more ...func(*kmsg.JoinGroupRequest)) {
	change := append(slices.Clone(m.change), more...)
	if m.id == "" && m.inst == nil {
		if resp, ok := m.do(label+", id", 9, joinOf(m.g, "", change...)).(*kmsg.JoinGroupResponse); ok {
			m.id = resp.MemberID
		}
	}
	m.send(label, 9, joinOf(m.g, m.id, change...))
}

// joined records the answer to joins.
func (m *cm) joined() {
	resp, ok := m.recv().(*kmsg.JoinGroupResponse)
	if !ok || resp.ErrorCode != 0 {
		return
	}
	m.id, m.gen, m.proto = resp.MemberID, resp.Generation, ""
	if resp.Protocol != nil {
		m.proto = *resp.Protocol
	}
}

func (m *cm) join(label string, more ...func(*kmsg.JoinGroupRequest)) {
	m.joins(label, more...)
	m.joined()
}

// syncs sends SyncGroup; of members each is given its number.
func (m *cm) syncs(label string, members ...*cm) {
	r := syncOf(m.g, m.id, m.gen, ids(members)...)
	r.InstanceID, r.Protocol = m.inst, &m.proto
	m.send(label, 5, r)
}

func (m *cm) sync(label string, members ...*cm) {
	m.syncs(label, members...)
	m.recv()
}

func ids(members []*cm) (all []string) {
	for _, m := range members {
		all = append(all, m.id)
	}
	return all
}

func (m *cm) beat(label string) {
	r := heartbeatOf(m.g, m.id, m.gen)
	r.InstanceID = m.inst
	m.do(label, 4, r)
}

func (m *cm) commit(label string, o oc) {
	r := by(commitOf(m.g, o), m.id, m.gen)
	r.InstanceID = m.inst
	m.do(label, 9, r)
}

func (m *cm) leave(label string) { m.do(label, 5, leaveOf(m.g, m.id)) }

// gathered is the state of a group told to the transcript.
func (s *S) gathered(g string) { s.do("describe", 6, describeOf(g)) }

// timeouts sets the limits of a member in milliseconds.
func timeouts(session, rebalance int32) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = session, rebalance }
}

func offering(names ...string) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) { r.Protocols = offers(names...) }
}

// telling is one protocol with any bytes as metadata.
func telling(name, metadata string) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) {
		r.Protocols = offers(name)
		r.Protocols[0].Metadata = []byte(metadata)
	}
}

// timed calls fn every 100 ms while so many milliseconds pass.
func (s *S) timed(ms int, fn func()) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Duration(ms) * time.Millisecond); time.Now().Before(end); <-tick.C {
		fn()
	}
}

// three makes a stable group of three, and two one of two.
func (s *S) three(g string, change ...func(*kmsg.JoinGroupRequest)) (a, b, c *cm) {
	a, b = s.two(g, change...)
	c = s.member(g, change...)
	s.hushed(func() {
		c.joins("c")
		s.awaitMembers(g, 3)
		a.joins("a")
		b.join("b")
		a.joined()
		c.joined()
		a.sync("a", a, b, c)
		b.sync("b")
		c.sync("c")
	})
	return a, b, c
}

func (s *S) two(g string, change ...func(*kmsg.JoinGroupRequest)) (a, b *cm) {
	a, b = s.member(g, change...), s.member(g, change...)
	s.settle(g, a, b)
	return a, b
}

// settle makes a stable group of two members, a its leader.
func (s *S) settle(g string, a, b *cm) {
	s.hushed(func() {
		a.join("a")
		a.sync("a", a)
		b.joins("b")
		s.awaitMembers(g, 2)
		a.join("a")
		b.joined()
		a.sync("a", a, b)
		b.sync("b")
	})
}
