package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group/assign"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// The model of consumer groups: clients that join, beat, commit, leave, leave to come back, change their minds, fall asleep, and
// lose answers; topics that come, grow and go; a log that is slow, refuses, refuses what it has nevertheless, and is replayed
// after crashes; a clock that jumps. After every step:
//
//	no partition is used by two clients that the group counts as members, nor is it of two members, nor in two targets
//	the epochs that a client is given only grow
//	in a stable group every partition of a topic that is subscribed to has an owner, who subscribes to it
//	what the log says is what the shard knows
//	what is counted is right; every ticket is answered once
//
// And at the end, when nothing fails any more, every group becomes stable.
func TestConsumerModel(t *testing.T) {
	steps, seeds := 13_000, 4
	if testing.Short() {
		steps, seeds = 5_000, 2
	}
	for seed := range seeds {
		for _, faults := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d,faults=%v", seed, faults), func(t *testing.T) {
				m := newConsumerModel(t, uint64(seed), faults)
				for m.step = 0; m.step < steps && !t.Failed(); m.step++ {
					m.act()
					m.check()
				}
				m.end()
				for _, what := range []string{"assigned", "took away", "fenced", "came back", "lost", "committed", "stale", "stable", "grew", "regex", "quick"} {
					if m.seen[what] == 0 {
						t.Errorf("it never happened: %s", what)
					}
				}
			})
		}
	}
}

type consumerModel struct {
	*sim
	r       *rand.Rand
	faults  bool
	step    int
	clients []*consumerClient
	open    map[*simTicket]func(body any)
	highest map[string]int32 // member epoch given to a client last, by group/member
	seen    map[string]int

	nextCommit int64                     // offsets to commit only grow
	mixed      bool                      // some clients speak the classic protocol: see mixed_model_test.go
	kinds      map[string]string         // type of each group after the last step
	commits    map[commitKey]commitState // that were answered last
}

// consumerClient does what a consumer does.
type consumerClient struct {
	n        int
	group    string
	id       string
	instance *string
	epoch    int32
	has      map[ownedPartition]bool
	sent     string // what it said it has in the last heartbeat that was answered
	busy     bool   // a heartbeat is on its way
	round    int    // answers of earlier rounds got lost
	in       bool   // it wants to be a member
	asleep   bool
	topics   []string
	regex    string
	resend   bool // everything must be said in the next heartbeat
	changed  bool // the subscription must be
	classic  classicClient
}

func newConsumerModel(t *testing.T, seed uint64, faults bool) *consumerModel {
	m := &consumerModel{sim: newSim(t), r: rand.New(rand.NewPCG(seed, 7)), faults: faults, open: map[*simTicket]func(any){}, highest: map[string]int32{}, seen: map[string]int{}}
	m.ccfg.AssignmentIntervalMs = int32(seed%2) * 1000
	for i := range 3 {
		m.newTopic(fmt.Sprintf("t%d", i))
	}
	for i := range 9 {
		c := &consumerClient{n: i, group: fmt.Sprintf("g%d", i%2), has: map[ownedPartition]bool{}}
		if i%3 == 0 {
			instance := fmt.Sprintf("i%d", i)
			c.instance = &instance
		}
		m.clients = append(m.clients, c)
	}
	return m
}

func (m *consumerModel) newTopic(name string) {
	m.ids++
	m.names[name] = [16]byte{14: byte(m.ids >> 8), 15: byte(m.ids)}
	m.sizes[name] = int32(1 + m.r.IntN(6))
}

func (m *consumerModel) act() {
	c := m.clients[m.r.IntN(len(m.clients))]
	switch n := m.r.IntN(100); {
	case n < 60:
		m.beat(c)
	case n < 64:
		m.advance(int64(m.r.IntN(4000)))
	case n < 65:
		m.advance(int64(m.r.IntN(50_000)))
	case n < 68:
		m.stop(c)
	case n < 70:
		c.asleep = !c.asleep
	case n < 73:
		m.choose(c)
	case n < 76:
		m.changeTopics()
	case n < 80:
		m.commit(c)
	case n < 82:
		m.lose(c)
	case n < 86:
		m.hold = m.r.IntN(2) == 0
		if !m.hold {
			m.settle(nil)
		}
	case n < 88 && m.faults:
		m.refuse()
	case n < 89 && m.step%7 == 0:
		m.restart()
	case n < 90 && m.step%11 == 0:
		m.s.Delete(m.now, c.group, m.ask(func(body any) {
			if code := body.(protocol.Code); code != protocol.NonEmptyGroup {
				m.deleted(c.group)
			}
		}), &m.out)
	default:
		m.beat(c)
	}
	m.deliver()
	m.listen()
}

// ask makes a ticket.
func (m *consumerModel) ask(then func(any)) *simTicket {
	to := m.ticket(fmt.Sprintf("step %d", m.step))
	m.open[to] = then
	return to
}

// listen hears the answers.
func (m *consumerModel) listen() {
	for len(m.answers) > 0 {
		a := m.answers[0]
		m.answers = m.answers[1:]
		then := m.open[a.to]
		delete(m.open, a.to)
		then(a.body)
	}
}

// quickly is the answer to a heartbeat that can be answered on the spot; nil when it cannot.
func (m *consumerModel) quickly(r *kmsg.ConsumerGroupHeartbeatRequest, client Client) any {
	var out machine.Out
	if !m.s.QuickConsumerHeartbeat(m.now, r, client, nobody{}, &out) {
		if len(out.Answers)+len(out.Writes) > 0 {
			m.t.Fatalf("step %d: a heartbeat that is not quick said something", m.step)
		}
		return nil
	}
	m.seen["quick"]++
	return out.Answers[0].Body
}

// nobody waits for an answer.
type nobody struct{}

func (nobody) Answer(any) {}

// beat is the next heartbeat of a client.
func (m *consumerModel) beat(c *consumerClient) {
	if c.busy || c.asleep {
		return
	}
	if !c.in {
		if m.r.IntN(3) > 0 {
			return
		}
		c.in = true
		m.start(c)
	}
	if c.classic.on {
		m.classicStep(c)
		return
	}
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.InstanceID = 1, c.group, c.id, c.epoch, c.instance
	has := m.owns(c)
	said := ""
	full := c.epoch == joinEpoch || c.resend || m.r.IntN(20) == 0
	if full {
		r.RebalanceTimeoutMillis = 30_000
	}
	if full || c.changed {
		r.SubscribedTopicNames, r.SubscribedTopicRegex = c.topics, &c.regex
	}
	if said = fmt.Sprint(has); full || said != c.sent {
		r.Topics = has
	} else {
		said = c.sent
	}
	c.busy = true
	round := c.round
	to := m.ask(func(body any) {
		if c.round == round {
			c.busy = false
			m.answered(c, r, said, body.(*kmsg.ConsumerGroupHeartbeatResponse))
		}
	})
	client := Client{ID: fmt.Sprint("c", c.n), Host: "/h"}
	quick := m.quickly(r, client)
	m.s.ConsumerHeartbeat(m.now, r, client, to, &m.out)
	if quick != nil && (len(m.out.Writes) > 0 || len(m.out.Answers) != 1 || !reflect.DeepEqual(m.out.Answers[0].Body, quick)) {
		m.t.Fatalf("step %d: the quick answer is %+v, the other %+v with %d writes", m.step, quick, m.out.Answers, len(m.out.Writes))
	}
}

func (m *consumerModel) start(c *consumerClient) {
	m.ids++
	c.id, c.epoch, c.resend, c.sent = fmt.Sprintf("m%d-%d", c.n, m.ids), joinEpoch, true, ""
	clear(c.has)
	if c.topics == nil {
		m.choose(c)
	}
	c.classic = classicClient{}
	if m.mixed && m.r.IntN(2) == 0 {
		m.startClassic(c)
	}
}

func (m *consumerModel) choose(c *consumerClient) {
	c.topics, c.regex = []string{}, ""
	for _, name := range []string{"t0", "t1", "t2", "t3", "u"} {
		if m.r.IntN(2) == 0 {
			c.topics = append(c.topics, name)
		}
	}
	if m.r.IntN(4) == 0 {
		c.regex = []string{"t.*", "t[01]", "u|t3"}[m.r.IntN(3)]
		m.seen["regex"]++
	}
	c.changed = true
}

func (m *consumerModel) owns(c *consumerClient) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	all := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	o := map[ownedPartition]int32{}
	for p := range c.has {
		o[p] = 0
	}
	for _, p := range ownedOf(o).Assignment {
		all = append(all, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: p.Topic, Partitions: p.Partitions})
	}
	return all
}

// answered is what a client does with an answer.
func (m *consumerModel) answered(c *consumerClient, req *kmsg.ConsumerGroupHeartbeatRequest, said string, r *kmsg.ConsumerGroupHeartbeatResponse) {
	if req.MemberEpoch < 0 {
		return // it has left
	}
	switch code := protocol.Code(r.ErrorCode); code {
	case protocol.None:
	case protocol.UnknownMemberID, protocol.FencedMemberEpoch, protocol.GroupIDNotFound:
		m.seen["fenced"]++
		delete(m.highest, c.group+"/"+c.id) // it begins anew, and so may the group have
		clear(c.has)
		c.epoch, c.resend = joinEpoch, true
		return
	case protocol.FencedInstanceID, protocol.UnreleasedInstanceID:
		clear(c.has)
		c.in = false
		return
	case protocol.CoordinatorNotAvailable, protocol.NotCoordinator:
		c.resend = true
		return
	default:
		m.t.Fatalf("step %d: client %d: %s %s", m.step, c.n, code.Name(), orNull(r.ErrorMessage))
	}
	key := c.group + "/" + c.id
	if r.MemberEpoch < m.highest[key] {
		m.t.Errorf("step %d: %s was at epoch %d, and gets %d", m.step, key, m.highest[key], r.MemberEpoch)
	}
	m.highest[key] = r.MemberEpoch
	c.epoch, c.resend, c.sent = r.MemberEpoch, false, said
	if slices.Equal(c.topics, req.SubscribedTopicNames) && req.SubscribedTopicRegex != nil && *req.SubscribedTopicRegex == c.regex {
		c.changed = false
	}
	if r.Assignment != nil {
		before := len(c.has)
		clear(c.has)
		for _, p := range assignedBy(r) {
			for _, n := range p.Partitions {
				c.has[ownedPartition{p.Topic, n}] = true
			}
		}
		if len(c.has) < before {
			m.seen["took away"]++
		}
		m.seen["assigned"] += len(c.has)
	}
}

// stop: a client leaves, leaves to come back, or is killed.
func (m *consumerModel) stop(c *consumerClient) {
	if !c.in || c.busy {
		return
	}
	if c.classic.on {
		m.classicStop(c)
		return
	}
	c.in = false
	clear(c.has)
	c.round++
	how := m.r.IntN(3)
	if how == 0 && c.instance == nil {
		return // killed
	}
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.InstanceID, r.RebalanceTimeoutMillis = 1, c.group, c.id, leaveEpoch, c.instance, -1
	if how < 2 && c.instance != nil {
		r.MemberEpoch = leaveStaticEpoch
		m.seen["came back"]++
	}
	m.s.ConsumerHeartbeat(m.now, r, Client{ID: "c", Host: "/h"}, m.ask(func(any) {}), &m.out)
}

// lose: the answer to a heartbeat that is on its way does not come.
func (m *consumerModel) lose(c *consumerClient) {
	if c.classic.on && c.classic.stage == toSync {
		return // what it got it would not know
	}
	if c.busy {
		c.round++
		c.busy, c.resend = false, true
		m.seen["lost"]++
		return
	}
	// The heartbeat arrives, and the answer is lost.
	if c.in && !c.asleep {
		m.beat(c)
		if c.busy {
			c.round++
			c.busy, c.resend = false, true
			m.seen["lost"]++
		}
	}
}

func (m *consumerModel) changeTopics() {
	name := []string{"t0", "t1", "t2", "t3", "u"}[m.r.IntN(5)]
	switch _, ok := m.names[name]; {
	case !ok:
		m.newTopic(name)
	case m.r.IntN(3) == 0 && len(m.names) > 1:
		delete(m.names, name)
		m.s.TopicsDeleted([]string{name}, &m.out)
	default:
		m.sizes[name]++
		m.seen["grew"]++
		if m.sizes[name] > 12 {
			m.sizes[name] = 2 // it was made anew
			m.newTopic(name)
		}
	}
}

// commit is an offset commit of what a client has, with its epoch or the one before.
func (m *consumerModel) commit(c *consumerClient) {
	if !c.in || c.busy && !c.classic.on || c.epoch <= 0 {
		return
	}
	mine := partitionSet{}
	for p := range c.has {
		mine[p] = 0
	}
	for _, p := range mine.all() {
		name, ok := simTopics{m.sim}.TopicName(p.topic)
		if !ok {
			continue
		}
		r := kmsg.NewPtrOffsetCommitRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 9, c.group, c.id, c.epoch-int32(m.r.IntN(2))
		value, answered := m.committing(c.group, name, p.partition)
		r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: name, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: p.partition, Offset: value, LeaderEpoch: -1}}}}
		m.s.Commit(m.now, r, m.ask(func(body any) {
			code := protocol.Code(body.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
			answered(code)
			switch code {
			case protocol.None:
				m.seen["committed"]++
			case protocol.StaleMemberEpoch:
				m.seen["stale"]++
			}
		}), &m.out)
		return
	}
}

// refuse: the log refuses what is under way. It may have a part of it all the same.
func (m *consumerModel) refuse() {
	if len(m.queue) > 0 && m.r.IntN(2) == 0 {
		for _, w := range m.queue[:m.r.IntN(len(m.queue)+1)] {
			m.log = append(m.log, w.Records...)
		}
	}
	m.settle(errDisk)
	m.hold = false
}

// restart: the log was compacted, and is replayed.
func (m *consumerModel) restart() {
	m.crash()
	newest := map[string]int{}
	for i, r := range m.log {
		newest[string(r.Key)] = i
	}
	var log []machine.Record
	for i, r := range m.log {
		if newest[string(r.Key)] == i {
			log = append(log, r)
		}
	}
	m.log = log
	m.reload()
	m.listen()
}

func (m *consumerModel) consumers() map[string]*consumerGroup {
	all := map[string]*consumerGroup{}
	for id, g := range m.s.groups {
		if cg, ok := g.membership.(*consumerGroup); ok {
			all[id] = cg
		}
	}
	return all
}

func (m *consumerModel) check() {
	groups := m.consumers()
	m.checkUse(groups)
	for id, g := range groups {
		m.checkGroup(id, g)
	}
	for key := range m.highest {
		if id, _, _ := strings.Cut(key, "/"); groups[id] == nil {
			delete(m.highest, key) // a group that was deleted begins anew
		}
	}
	if m.step%150 == 0 && len(m.queue) == 0 && !slices.ContainsFunc(slices.Collect(maps.Values(groups)), func(g *consumerGroup) bool { return len(g.doubt) > 0 }) {
		if live, again := m.known(m.s), m.known(m.replayed()); live != again && !m.faults {
			m.t.Fatalf("step %d: the shard knows\n%s\nthe log says\n%s", m.step, live, again)
		}
	}
}

// known is what a shard knows about its consumer groups.
func (m *consumerModel) known(s *Shard) string {
	var lines []string
	for _, id := range s.sorted() {
		if cg, ok := s.groups[id].membership.(*consumerGroup); ok {
			lines = append(lines, id+" "+dumpConsumer(cg))
		}
	}
	return strings.Join(lines, "\n")
}

// checkUse: of all clients that are members as they believe to be, no two use the same partition.
func (m *consumerModel) checkUse(groups map[string]*consumerGroup) {
	type use struct {
		group string
		p     ownedPartition
	}
	users := map[use]*consumerClient{}
	for _, c := range m.clients {
		g := groups[c.group]
		if !c.in || g == nil || g.members[c.id] == nil || c.epoch == joinEpoch {
			continue
		}
		if cur := g.members[c.id].cur; c.classic.on && (c.classic.lost || c.epoch != cur.epoch && c.epoch != cur.previous) {
			continue // it will hear that it is of no generation
		}
		for p := range c.has {
			key := use{c.group, p}
			if other := users[key]; other != nil {
				m.t.Fatalf("step %d: clients %d and %d both use %v\n%+v\n%+v\n%s\n%v", m.step, other.n, c.n, p, other, c, dumpConsumer(g), g.history.events())
			}
			users[key] = c
		}
	}
}

func (m *consumerModel) checkGroup(id string, g *consumerGroup) {
	owners, targets := map[ownedPartition]string{}, map[ownedPartition]string{}
	claim := func(all map[ownedPartition]string, p ownedPartition, member string) {
		if other, ok := all[p]; ok {
			m.t.Fatalf("step %d: group %s: %v is of %s and %s", m.step, id, p, other, member)
		}
		all[p] = member
	}
	topicUsers, regexUsers := map[string]int{}, map[string]int{}
	for name, member := range g.members {
		for _, o := range []owned{member.cur.assigned, member.cur.revoking} {
			for _, a := range o.Assignment {
				for _, p := range a.Partitions {
					claim(owners, ownedPartition{a.Topic, p}, name)
				}
			}
		}
		for _, a := range g.targets[name] {
			for _, p := range a.Partitions {
				claim(targets, ownedPartition{a.Topic, p}, name)
			}
		}
		for _, topic := range member.sub.topics {
			topicUsers[topic]++
		}
		if member.sub.regex != "" {
			regexUsers[member.sub.regex]++
		}
		if !member.session.isSet() {
			m.t.Fatalf("step %d: nobody waits for %s", m.step, name)
		}
		if member.cur.epoch > g.epoch() || g.targetEpoch() > g.epoch() {
			m.t.Fatalf("step %d: epochs: member %d, target %d, group %d", m.step, member.cur.epoch, g.targetEpoch(), g.epoch())
		}
	}
	if !maps.Equal(topicUsers, g.topicUsers) || !maps.Equal(regexUsers, g.regexUsers) || len(owners) != len(g.owners) {
		m.t.Fatalf("step %d: group %s counts %v %v %d, there are %v %v %d", m.step, id, g.topicUsers, g.regexUsers, len(g.owners), topicUsers, regexUsers, len(owners))
	}
	if g.stateName() == "Stable" && (g.current == nil && g.hash() == 0 || g.current != nil && g.current.hash == g.hash()) {
		m.checkStable(id, g, owners)
	}
}

func (m *consumerModel) checkStable(id string, g *consumerGroup, owners map[ownedPartition]string) {
	m.seen["stable"]++
	for _, name := range g.subscribedTopics() {
		topic, n, ok := simTopics{m.sim}.Topic(name)
		for p := int32(0); ok && p < n; p++ {
			member := g.members[owners[ownedPartition{topic, p}]]
			if member == nil {
				m.t.Fatalf("step %d: group %s is stable, and %s-%d has no owner", m.step, id, name, p)
			}
			if !slices.ContainsFunc(g.topicsOf(member.sub), func(t assign.Topic) bool { return t.ID == topic }) {
				m.t.Fatalf("step %d: %s has %s-%d, and does not subscribe to it", m.step, member.id, name, p)
			}
		}
	}
}

// end: nothing fails any more, and everybody who wants to be there is.
func (m *consumerModel) end() {
	m.hold = false
	m.settle(nil)
	m.listen()
	for _, c := range m.clients {
		c.asleep = false
		if c.busy && !c.classic.on {
			m.t.Fatalf("client %d was never answered", c.n)
		}
	}
	m.step = 1
	for range 40 {
		for _, c := range m.clients {
			if c.in || c.n < 4 {
				m.beat(c)
				m.deliver()
				m.listen()
			}
		}
		m.advance(5000)
		m.listen()
		m.check()
	}
	for id, g := range m.consumers() {
		if name := g.stateName(); name != "Stable" && name != "Empty" {
			m.t.Errorf("group %s ends as %s", id, name)
		}
	}
	if m.mixed {
		m.crash() // who waits for others to join is answered
		m.listen()
	}
	if len(m.open) > 0 {
		m.t.Errorf("%d requests were never answered", len(m.open))
	}
}
