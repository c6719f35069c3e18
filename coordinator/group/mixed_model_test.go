package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// The model of groups that change between the protocols: clients of the consumer protocol as in TestConsumerModel, and clients of the classic one, eager and
// cooperative, in the same groups; a client that starts anew may come back with the other protocol. What is looked for is the same, and further:
//
//	no partition is used by two clients of a classic group of the same generation
//	an answered commit is what is committed, or a later one is
//	a classic group that the log says is one has the members of the log when it is stable
//
// And each of the changes happens, in both directions, refused by the log too.
func TestMixedModel(t *testing.T) {
	steps, seeds := 13_000, 4
	if testing.Short() {
		steps, seeds = 5_000, 2
	}
	for seed := range seeds {
		for _, faults := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d,faults=%v", seed, faults), func(t *testing.T) {
				m := newConsumerModel(t, uint64(seed), faults)
				m.mixed, m.commits = true, map[commitKey]commitState{}
				m.cfg.InitialRebalanceDelayMs, m.cfg.OffsetsRetentionMs = 500, 1<<50
				for m.step = 0; m.step < steps && !t.Failed(); m.step++ {
					m.act()
					m.check()
					m.checkMixed()
				}
				m.end()
				for _, what := range []string{"joined", "led", "synced", "told to join", "committed", "upgrade", "downgrade", "both"} {
					if m.seen[what] == 0 {
						t.Errorf("it never happened: %s", what)
					}
				}
				t.Log(m.seen)
			})
		}
	}
}

// What a client of the classic protocol does next.
type classicStage uint8

const (
	toJoin classicStage = iota
	toSync
	toBeat
)

// classicClient is the part of a consumerClient that speaks the classic protocol.
type classicClient struct {
	on    bool // it does
	eager bool
	stage classicStage
	all   []kmsg.JoinGroupResponseMember // it leads these
	lost  bool                           // it joined as somebody who is no member any more, and does not know that yet
}

// startClassic makes a client one that has just been started.
func (m *consumerModel) startClassic(c *consumerClient) {
	c.id, c.epoch = "", -1
	c.classic = classicClient{on: true, eager: m.r.IntN(2) == 0}
}

// lost: the client is no member any more.
func (c *consumerClient) lostAll() {
	clear(c.has)
	c.classic.stage, c.epoch, c.classic.lost = toJoin, -1, false
}

func (m *consumerModel) classicStep(c *consumerClient) {
	switch c.classic.stage {
	case toJoin:
		m.classicJoin(c)
	case toSync:
		m.classicSync(c)
	default:
		m.classicBeat(c)
	}
}

// askAs makes a ticket of a client, which is busy until it is answered.
func (m *consumerModel) askAs(c *consumerClient, then func(body any)) *simTicket {
	c.busy = true
	round := c.round
	return m.ask(func(body any) {
		if c.round == round {
			c.busy = false
			then(body)
		}
	})
}

func (m *consumerModel) classicJoin(c *consumerClient) {
	if c.classic.eager {
		clear(c.has)
	}
	s := kmsg.NewConsumerMemberMetadata()
	s.Version, s.Topics = 1, c.topics
	for _, p := range m.owns(c) {
		if name, ok := (simTopics{m.sim}).TopicName(p.TopicID); ok {
			s.OwnedPartitions = append(s.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: name, Partitions: p.Partitions})
		}
	}
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.ProtocolType = int16(3+m.r.IntN(7)), c.group, c.id, c.instance, consumerProtocol
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 30_000, 20_000
	r.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: s.AppendTo(nil)}}
	c.changed, c.classic.lost = false, m.stranger(c)
	m.s.Join(m.now, r, Client{ID: fmt.Sprint("c", c.n), Host: "/h"}, m.askAs(c, func(body any) {
		a := body.(*kmsg.JoinGroupResponse)
		switch code := protocol.Code(a.ErrorCode); code {
		case protocol.None:
			m.seen["joined"]++
			c.id, c.epoch, c.classic.stage, c.classic.all = a.MemberID, a.Generation, toSync, nil
			if a.LeaderID == a.MemberID && !a.SkipAssignment {
				c.classic.all = a.Members
			}
		case protocol.MemberIDRequired:
			c.id = a.MemberID
		case protocol.UnknownMemberID:
			c.id = ""
			c.lostAll()
		case protocol.FencedInstanceID:
			c.lostAll()
			c.in = false
		case protocol.RebalanceInProgress, protocol.CoordinatorNotAvailable, protocol.NotCoordinator:
		default:
			m.t.Fatalf("step %d: client %d joins: %s", m.step, c.n, code.Name())
		}
	}), &m.out)
}

// stranger says whether a client with partitions was taken out of its consumer group. It is taken in under its id, as Kafka does it (there is no other way
// to tell it from one that was just given its id), and hears from its SyncGroup what it has; until then it uses what it had. So does a static member of a
// classic group that missed a generation.
func (m *consumerModel) stranger(c *consumerClient) bool {
	g := m.s.groups[c.group]
	if g == nil || len(c.has) == 0 {
		return false
	}
	switch s := g.membership.(type) {
	case *consumerGroup:
		return c.classic.lost || s.members[c.id] == nil
	case *classic:
		e := s.members.get(c.id)
		return c.classic.lost || e == nil || !s.isOf(e, c.epoch)
	}
	return false
}

// lead assigns as a cooperative assignor does: what somebody has stays, or becomes nobody's for now; what nobody has goes to who has least.
func (m *consumerModel) lead(c *consumerClient) (all []kmsg.SyncGroupRequestGroupAssignment) {
	claims, loads, given := map[ownedPartition][]string{}, map[string]int{}, map[string]partitionSet{}
	wants := map[string][]string{}
	for _, member := range c.classic.all {
		said, ok := readSubscription(member.ProtocolMetadata)
		if !ok {
			m.t.Fatalf("step %d: the leader cannot read %q", m.step, member.ProtocolMetadata)
		}
		wants[member.MemberID], given[member.MemberID] = said.topics, partitionSet{}
		for _, t := range said.owned {
			for _, p := range t.partitions {
				id := m.names[t.topic]
				claims[ownedPartition{id, p}] = append(claims[ownedPartition{id, p}], member.MemberID)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		id := m.names[name]
		_, n, _ := simTopics{m.sim}.Topic(name)
		for p := range n {
			key, best := ownedPartition{id, p}, ""
			switch who := claims[key]; {
			case len(who) > 1:
				continue
			case len(who) == 1 && slices.Contains(wants[who[0]], name) && m.r.IntN(4) > 0:
				best = who[0]
			case len(who) == 1:
				continue // it has to give it up first
			default:
				for _, member := range c.classic.all {
					if slices.Contains(wants[member.MemberID], name) && (best == "" || loads[member.MemberID] < loads[best]) {
						best = member.MemberID
					}
				}
			}
			if best != "" {
				loads[best]++
				given[best][key] = 0
			}
		}
	}
	for _, member := range c.classic.all {
		b := assignmentBytes(1, ownedOf(given[member.MemberID]).Assignment, simTopics{m.sim})
		all = append(all, kmsg.SyncGroupRequestGroupAssignment{MemberID: member.MemberID, MemberAssignment: b})
	}
	m.seen["led"]++
	return all
}

func (m *consumerModel) classicSync(c *consumerClient) {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 5, c.group, c.id, c.epoch, c.instance
	protocolType, name := consumerProtocol, "range"
	r.ProtocolType, r.Protocol = &protocolType, &name
	if c.classic.all != nil {
		r.GroupAssignment = m.lead(c)
	}
	names := maps.Clone(m.names) // the assignment is by name: a topic may be made anew before the answer comes
	m.s.Sync(m.now, r, m.askAs(c, func(body any) {
		a := body.(*kmsg.SyncGroupResponse)
		if a.ErrorCode != 0 {
			m.classicError(c, protocol.Code(a.ErrorCode))
			return
		}
		m.seen["synced"]++
		c.classic.lost = false
		named, _, ok := readAssignment(a.MemberAssignment)
		if !ok {
			m.t.Fatalf("step %d: the assignment of client %d is %q", m.step, c.n, a.MemberAssignment)
		}
		before := len(c.has)
		for p := range c.has {
			c.has[p] = false
		}
		kept := 0
		for _, t := range named {
			if _, ok := names[t.topic]; !ok {
				continue // it was deleted
			}
			for _, p := range t.partitions {
				key := ownedPartition{names[t.topic], p}
				if _, had := c.has[key]; had {
					kept++
				}
				c.has[key] = true
			}
		}
		for p, has := range c.has {
			if !has {
				delete(c.has, p)
			}
		}
		c.classic.stage = toBeat
		if kept < before {
			c.classic.stage = toJoin // it gave some up, and says so
			m.seen["took away"]++
		}
		m.seen["assigned"] += len(c.has)
	}), &m.out)
}

// classicError is what a client makes of an error.
func (m *consumerModel) classicError(c *consumerClient, code protocol.Code) {
	switch code {
	case protocol.RebalanceInProgress:
		m.seen["told to join"]++
		c.classic.stage = toJoin
	case protocol.IllegalGeneration:
		m.seen["fenced"]++
		c.lostAll()
	case protocol.UnknownMemberID:
		m.seen["fenced"]++
		c.id = ""
		c.lostAll()
	case protocol.FencedInstanceID:
		c.lostAll()
		c.in = false
	case protocol.CoordinatorNotAvailable, protocol.NotCoordinator:
		if c.classic.stage == toSync {
			c.classic.stage = toJoin
		}
	default:
		m.t.Fatalf("step %d: client %d: %s", m.step, c.n, code.Name())
	}
}

func (m *consumerModel) classicBeat(c *consumerClient) {
	if c.changed { // it wants something else: it joins again
		c.classic.stage = toJoin
		m.classicJoin(c)
		return
	}
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 4, c.group, c.id, c.epoch, c.instance
	m.s.Heartbeat(m.now, r, m.askAs(c, func(body any) {
		if code := protocol.Code(body.(*kmsg.HeartbeatResponse).ErrorCode); code != protocol.None {
			m.classicError(c, code)
		}
	}), &m.out)
}

// classicStop: a client of the classic protocol leaves, or is killed.
func (m *consumerModel) classicStop(c *consumerClient) {
	id := c.id
	c.in, c.busy = false, false
	c.round++
	c.lostAll()
	if id == "" || m.r.IntN(2) == 0 {
		return
	}
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, c.group
	l := kmsg.NewLeaveGroupRequestMember()
	l.MemberID, l.InstanceID = id, c.instance
	r.Members = []kmsg.LeaveGroupRequestMember{l}
	m.s.Leave(m.now, r, m.ask(func(any) {}), &m.out)
}

// commitKey is a partition for which a group commits, commitState what was last answered.
type (
	commitKey struct {
		group, topic string
		partition    int32
	}
	commitState struct {
		value int64
		id    [16]byte
	}
)

// committing notes a commit: what is sent, and what was answered.
func (m *consumerModel) committing(group, topic string, partition int32) (value int64, answered func(protocol.Code)) {
	id := m.names[topic]
	m.nextCommit++
	value = m.nextCommit
	return value, func(code protocol.Code) {
		key := commitKey{group, topic, partition}
		if code == protocol.None && m.names[topic] == id && m.mixed && (m.commits[key].id != id || m.commits[key].value < value) {
			m.commits[key] = commitState{value, id}
		}
	}
}

// deleted notes that a group was deleted.
func (m *consumerModel) deleted(group string) {
	for key := range m.commits {
		if key.group == group {
			delete(m.commits, key)
		}
	}
}

// checkMixed looks at what only groups of both kinds have.
func (m *consumerModel) checkMixed() {
	for id, g := range m.s.groups {
		switch s := g.membership.(type) {
		case *consumerGroup:
			if s.classics > 0 && s.classics < len(s.members) {
				m.seen["both"]++
			}
			m.note(id, "consumer", len(s.members))
		case *classic:
			if s.away {
				m.t.Fatalf("step %d: %s is away", m.step, id)
			}
			m.note(id, "classic", len(s.members.list))
			m.checkClassicUse(id, s)
		}
	}
	for key, a := range m.commits {
		g := m.s.groups[key.group]
		if m.names[key.topic] != a.id || g == nil {
			delete(m.commits, key) // the topic is deleted, or made anew
			continue
		}
		got := int64(-1)
		if t := g.offsets[key.topic]; t != nil {
			if c, ok := t.committed.get(key.partition); ok {
				got = c.offset
			}
		}
		if got < a.value {
			m.t.Fatalf("step %d: %v: %d was answered, and %d is committed", m.step, key, a.value, got)
		}
	}
}

// note tells a group that has changed with members in it.
func (m *consumerModel) note(id, kind string, members int) {
	if before := m.kinds[id]; before != "" && before != kind && members > 0 {
		if kind == "consumer" {
			m.seen["upgrade"]++
		} else {
			m.seen["downgrade"]++
		}
	}
	if m.kinds == nil {
		m.kinds = map[string]string{}
	}
	m.kinds[id] = kind
}

// checkClassicUse: of the clients that are members of a generation, no two use the same partition. Static members are not looked at: one that misses a
// generation stays a member, and what it uses is another's; so it is with the classic protocol.
func (m *consumerModel) checkClassicUse(id string, g *classic) {
	users := map[ownedPartition]*consumerClient{}
	for _, c := range m.clients {
		if c.group != id || c.instance != nil || !c.in || !c.classic.on || g.members.get(c.id) == nil || c.epoch != g.generation || c.classic.lost {
			continue
		}
		for p := range c.has {
			if other := users[p]; other != nil {
				m.t.Fatalf("step %d: clients %d and %d of generation %d both use %v", m.step, other.n, c.n, g.generation, p)
			}
			users[p] = c
		}
	}
}
