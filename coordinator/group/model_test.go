package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// The model: clients that join, sync, beat, commit, leave, vanish, fall asleep and lie, over a few groups; a log that is slow,
// refuses, and is replayed after crashes; a clock that jumps. After every step:
//
//	at most one owner of a partition in a generation; generations that are given out only grow
//	an answered commit is what is fetched, until a later one or a deletion
//	what the log says is what the shard knows
//	the counts of every group are right; every ticket is answered once
func TestModel(t *testing.T) {
	steps, seeds := 15_000, 4
	if testing.Short() {
		steps, seeds = 5_000, 2
	}
	for seed := range seeds {
		for _, refuses := range []bool{false, true} {
			t.Run(fmt.Sprintf("seed=%d,refuses=%v", seed, refuses), func(t *testing.T) {
				m := newModel(t, uint64(seed), refuses)
				for m.step = 0; m.step < steps && !t.Failed(); m.step++ {
					m.act()
					m.check()
				}
				m.end()
				m.wantBusy()
			})
		}
	}
}

const (
	modelGroups     = 3
	modelClients    = 10
	modelPartitions = 6
)

type model struct {
	*sim
	r       *rand.Rand
	refuses bool // the log refuses appends now and then
	step    int

	clients []*modelClient
	open    map[*simTicket]func(body any) // what to do with the answer
	offsets map[string][]offsetEvent      // by group/partition, in the order of the requests
	owners  map[string]string             // group/generation/partition -> member
	newest  map[string]int32              // newest generation given out, by group
	seen    map[string]int                // what happened, to know that the model does something
}

// offsetEvent is a commit (or, with none, a deletion) that was asked for.
type offsetEvent struct {
	value  int64
	none   bool
	status eventStatus
}

type eventStatus uint8

const (
	asked   eventStatus = iota
	done                // answered
	maybe               // answered with an error: it may be in the log
	refused             // the log refused it: it is not there
)

type modelClient struct {
	id       int
	group    string
	instance *string
	member   string
	gen      int32
	leads    bool
	all      []string // the leader's roll call
	joined   bool     // has a generation
	busy     bool     // waits for JoinGroup or SyncGroup
	synced   bool
}

func newModel(t *testing.T, seed uint64, refuses bool) *model {
	m := &model{sim: newSim(t), r: rand.New(rand.NewPCG(seed, 7)), refuses: refuses, open: map[*simTicket]func(any){}, offsets: map[string][]offsetEvent{},
		owners: map[string]string{}, newest: map[string]int32{}, seen: map[string]int{}}
	m.cfg.InitialRebalanceDelayMs = 500
	m.cfg.OffsetsRetentionMs = 1 << 50 // expiry has its scripts: here it would hide what is lost
	for i := range modelClients {
		c := &modelClient{id: i, group: fmt.Sprintf("g%d", i%modelGroups)}
		if i%3 == 0 {
			instance := fmt.Sprintf("i%d", i%5)
			c.instance = &instance
		}
		m.clients = append(m.clients, c)
	}
	m.names["t"] = [16]byte{15: 1}
	return m
}

// ask sends a request whose answer is handled by then.
func (m *model) ask(name string, then func(body any)) machine.Ticket {
	t := m.ticket(name)
	m.open[t] = then
	return t
}

func (m *model) act() {
	m.hold = m.r.IntN(4) != 0 // most of the time the log is slow
	switch n := m.r.IntN(100); {
	case n < 80:
		m.client(m.clients[m.r.IntN(len(m.clients))])
	case n < 90:
		m.advance(int64(m.r.IntN(4000)))
	case n < 92:
		m.advance(int64(m.r.IntN(40_000)))
	case n < 97:
		m.settle(nil)
	case n < 98 && m.refuses:
		m.refuse()
	case n < 99:
		m.admin()
	default:
		if m.r.IntN(10) == 0 {
			m.crashAndReload()
		}
	}
	m.deliver()
	m.hear()
}

// hear gives the answers to those who asked.
func (m *model) hear() {
	for len(m.answers) > 0 {
		a := m.answers[0]
		m.answers = m.answers[1:]
		then := m.open[a.to]
		delete(m.open, a.to)
		then(a.body)
	}
}

// refuse fails everything that is on its way: none of it is in the log.
func (m *model) refuse() {
	m.hear()
	m.failing(refused)
	m.settle(errDisk)
	m.seen["refused"]++
}

// failing notes what becomes of the offset changes that are on their way.
func (m *model) failing(status eventStatus) {
	for _, events := range m.offsets {
		for i := range events {
			if events[i].status == asked {
				events[i].status = status
			}
		}
	}
}

// crashAndReload loses what is in memory. Of the writes on their way some are in the log all the same, though nobody hears so.
func (m *model) crashAndReload() {
	m.hear()
	m.failing(maybe)
	for n := m.r.IntN(len(m.queue) + 1); n > 0; n-- {
		w := m.queue[0]
		m.queue = m.queue[1:]
		m.log = append(m.log, w.Records...)
		m.abandoned(w)
	}
	m.reload()
	m.seen["crash"]++
}

// abandoned tells the continuation of a write that is in the log that nobody knows.
func (m *model) abandoned(w machine.Write) {
	if w.Then != nil {
		w.Then(m.now, machine.ErrUnloaded, &m.out)
	}
	out := m.out
	m.out = machine.Out{}
	for _, a := range out.Answers {
		a.To.Answer(a.Body)
	}
}

func (m *model) client(c *modelClient) {
	switch n := m.r.IntN(20); {
	case c.busy && n < 18:
		return // it waits
	case c.busy: // it gave up: its connection is gone
		c.busy = false
	case n < 6 && !c.joined:
		m.join(c)
	case n < 10 && c.joined && !c.synced:
		m.sync(c)
	case n < 14 && c.joined:
		m.beat(c)
	case n < 18:
		m.commit(c)
	case n < 19:
		m.leave(c)
	default: // it is restarted, and knows nothing any more
		*c = modelClient{id: c.id, group: c.group, instance: c.instance}
	}
}

func (m *model) join(c *modelClient) {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.InstanceID, r.ProtocolType = int16(3+m.r.IntN(7)), c.group, c.member, c.instance, "consumer"
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = int32(6000+m.r.IntN(20_000)), int32(5000+m.r.IntN(20_000))
	for _, name := range []string{"range", "sticky"} {
		if m.r.IntN(5) > 0 || name == "range" {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = name, subscriptionOf("t", fmt.Sprint("u", m.r.IntN(2)))
			r.Protocols = append(r.Protocols, p)
		}
	}
	c.busy, c.joined, c.synced = true, false, false
	me := *c
	m.s.Join(m.now, r, Client{ID: fmt.Sprint("c", c.id), Host: "/h"}, m.ask("join", func(body any) {
		a := body.(*kmsg.JoinGroupResponse)
		m.seen["join "+code(a.ErrorCode)]++
		if a.ErrorCode == 0 {
			m.grew(me.group, a.Generation)
		}
		if me.member != c.member || !c.busy {
			return // it did not wait for this
		}
		c.busy = false
		switch protocol.Code(a.ErrorCode) {
		case protocol.None:
			c.member, c.gen, c.joined, c.leads, c.all = a.MemberID, a.Generation, true, a.LeaderID == a.MemberID && !a.SkipAssignment, nil
			for _, e := range a.Members {
				c.all = append(c.all, e.MemberID)
			}
		case protocol.MemberIDRequired:
			c.member = a.MemberID
		case protocol.UnknownMemberID, protocol.FencedInstanceID:
			c.member = ""
		}
	}), &m.out)
}

func (m *model) grew(group string, generation int32) {
	if generation < m.newest[group] {
		m.t.Errorf("step %d: %s gives out generation %d after %d was assigned", m.step, group, generation, m.newest[group])
	}
}

func (m *model) sync(c *modelClient) {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 5, c.group, c.member, c.gen, c.instance
	if c.leads { // every partition to one of the members, by chance
		for p := range modelPartitions {
			id := c.all[m.r.IntN(len(c.all))]
			i := slices.IndexFunc(r.GroupAssignment, func(a kmsg.SyncGroupRequestGroupAssignment) bool { return a.MemberID == id })
			if i < 0 {
				r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id})
				i = len(r.GroupAssignment) - 1
			}
			r.GroupAssignment[i].MemberAssignment = fmt.Appendf(r.GroupAssignment[i].MemberAssignment, "%d,", p)
		}
	}
	c.busy = true
	me := *c
	m.s.Sync(m.now, r, m.ask("sync", func(body any) {
		a := body.(*kmsg.SyncGroupResponse)
		m.seen["sync "+code(a.ErrorCode)]++
		if a.ErrorCode == 0 {
			m.assigned(&me, string(a.MemberAssignment))
		}
		if me.member != c.member || me.gen != c.gen || !c.busy {
			return
		}
		c.busy = false
		c.heard(a.ErrorCode)
		c.synced = a.ErrorCode == 0
	}), &m.out)
}

// assigned: a member was given partitions. A static member that came back has those of its former id.
func (m *model) assigned(c *modelClient, partitions string) {
	m.grew(c.group, c.gen)
	m.newest[c.group] = c.gen
	who := c.member
	if c.instance != nil {
		who = *c.instance
	}
	for p := range strings.SplitSeq(partitions, ",") {
		key := fmt.Sprintf("%s/%d/%s", c.group, c.gen, p)
		if owner, ok := m.owners[key]; ok && owner != who && p != "" {
			m.t.Errorf("step %d: %s is of %s and of %s", m.step, key, owner, who)
		}
		m.owners[key] = who
	}
}

// heard is what a client makes of an error.
func (c *modelClient) heard(code int16) {
	switch protocol.Code(code) {
	case protocol.None, protocol.CoordinatorNotAvailable:
	case protocol.UnknownMemberID, protocol.FencedInstanceID:
		c.member, c.joined = "", false
	default:
		c.joined = false
	}
}

func (m *model) beat(c *modelClient) {
	r := kmsg.NewPtrHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 4, c.group, c.member, m.generation(c), c.instance
	m.s.Heartbeat(m.now, r, m.ask("heartbeat", func(body any) {
		a := body.(*kmsg.HeartbeatResponse)
		m.seen["heartbeat "+code(a.ErrorCode)]++
		c.heard(a.ErrorCode)
	}), &m.out)
}

// generation is what a client says that it is in: now and then that before, as if the request had crossed a rebalance.
func (m *model) generation(c *modelClient) int32 {
	if m.r.IntN(20) == 0 {
		return c.gen - 1
	}
	return c.gen
}

func (m *model) commit(c *modelClient) {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.Generation, r.MemberID, r.InstanceID = 9, c.group, -1, "", nil
	if c.joined {
		r.Generation, r.MemberID, r.InstanceID = m.generation(c), c.member, c.instance
	}
	value := int64(m.step)
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "t"
	keys := []string{}
	for n := 1 + m.r.IntN(2); n > 0; n-- {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(m.r.IntN(modelPartitions)), value
		t.Partitions = append(t.Partitions, p)
		key := fmt.Sprintf("%s/%d", c.group, p.Partition)
		keys = append(keys, key)
		m.offsets[key] = append(m.offsets[key], offsetEvent{value: value})
	}
	r.Topics = append(r.Topics, t)
	step := m.step
	m.s.Commit(m.now, r, m.ask("commit", func(body any) {
		a := body.(*kmsg.OffsetCommitResponse)
		c := a.Topics[0].Partitions[0].ErrorCode
		m.seen["commit "+code(c)]++
		m.ended(keys, int64(step), c == 0)
	}), &m.out)
}

// ended notes the answer to a change of offsets. One that failed without having been on its way was not accepted at all.
func (m *model) ended(keys []string, value int64, ok bool) {
	for _, key := range keys {
		events := m.offsets[key]
		for i := range events {
			e := &events[i]
			if e.value != value || e.status == maybe || e.status == refused {
				continue
			}
			if e.status = refused; ok {
				e.status = done
			}
		}
	}
}

func (m *model) leave(c *modelClient) {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group = 5, c.group
	e := kmsg.NewLeaveGroupRequestMember()
	e.MemberID, e.InstanceID = c.member, c.instance
	r.Members = append(r.Members, e)
	m.s.Leave(m.now, r, m.ask("leave", func(body any) {
		m.seen["leave "+code(body.(*kmsg.LeaveGroupResponse).Members[0].ErrorCode)]++
	}), &m.out)
	*c = modelClient{id: c.id, group: c.group, instance: c.instance}
}

// admin deletes offsets or whole groups.
func (m *model) admin() {
	group := fmt.Sprintf("g%d", m.r.IntN(modelGroups))
	value := int64(m.step)
	var keys []string
	for p := range modelPartitions {
		key := fmt.Sprintf("%s/%d", group, p)
		keys = append(keys, key)
		m.offsets[key] = append(m.offsets[key], offsetEvent{value: value, none: true})
	}
	m.s.Delete(m.now, group, m.ask("delete", func(body any) {
		c := body.(protocol.Code)
		m.seen["delete "+code(int16(c))]++
		m.ended(keys, value, c == protocol.None || c == protocol.GroupIDNotFound)
		if c == protocol.None || c == protocol.NotCoordinator { // in the log, or perhaps
			delete(m.newest, group) // a new group of the name begins anew
			for key := range m.owners {
				if strings.HasPrefix(key, group+"/") {
					delete(m.owners, key)
				}
			}
		}
	}), &m.out)
}

func (m *model) check() {
	m.checkOffsets()
	for id, g := range m.s.groups {
		if c, ok := g.membership.(*classic); ok {
			m.checkGroup(id, c)
		}
	}
	m.checkTimers()
	if len(m.queue) == 0 && m.step%5 == 0 {
		m.checkReplay()
		m.compact()
	}
}

// compact does to the log what the cleaner may do at any time: of each key the latest record stays, a tombstone perhaps (B-F3).
func (m *model) compact() {
	latest := map[string]int{}
	for i := range m.log {
		latest[string(m.log[i].Key)] = i
	}
	var kept []machine.Record
	for i, r := range m.log {
		if latest[string(r.Key)] == i && (r.Value != nil || m.r.IntN(2) == 0) {
			kept = append(kept, r)
		}
	}
	m.log = kept
}

// checkOffsets: what is there is the last change that was answered, or one after it.
func (m *model) checkOffsets() {
	for key, events := range m.offsets {
		first := 0
		for i := range events {
			if events[i].status == done {
				first = i
			}
		}
		events = slices.DeleteFunc(events[first:], func(e offsetEvent) bool { return e.status == refused })
		m.offsets[key] = events
		group, p := key[:2], int32(key[3]-'0')
		got, there := int64(0), false
		if g := m.s.groups[group]; g != nil && g.offsets["t"] != nil {
			var c committed
			c, there = g.offsets["t"].committed.get(p)
			got = c.offset
		}
		ok := !there && (len(events) == 0 || events[0].status != done)
		for _, e := range events {
			ok = ok || e.none == !there && (e.none || e.value == got)
		}
		if !ok {
			m.t.Fatalf("step %d: %s is %d (%v), events %+v", m.step, key, got, there, events)
		}
	}
}

func (m *model) checkGroup(id string, g *classic) {
	waiting, offers, instances := 0, map[string]int{}, 0
	for _, e := range g.members.list {
		if e.join != nil {
			waiting++
		}
		for _, p := range e.protocols {
			offers[p.name]++
		}
		if e.static() {
			instances++
			if g.static[*e.instance] != e {
				m.t.Errorf("step %d: %s: instance %s is not that of %s", m.step, id, *e.instance, e.id)
			}
		}
		if !e.session.isSet() && !e.alive() {
			m.t.Errorf("step %d: %s: nobody watches %s", m.step, id, e.id)
		}
		if g.members.get(e.id) != e {
			m.t.Errorf("step %d: %s: %s is not found", m.step, id, e.id)
		}
	}
	leads := g.members.get(g.leader) != nil
	switch {
	case waiting != g.waiting, fmt.Sprint(offers) != fmt.Sprint(g.offers), instances != len(g.static), len(g.members.byID) != len(g.members.list):
		m.t.Errorf("step %d: %s: the counts are wrong: %d %d, %v %v", m.step, id, waiting, g.waiting, offers, g.offers)
	case (g.state == Empty) != (len(g.members.list) == 0) && g.state != PreparingRebalance:
		m.t.Errorf("step %d: %s is %s with %d members", m.step, id, g.state, len(g.members.list))
	case leads != (len(g.members.list) > 0):
		m.t.Errorf("step %d: %s has leader %q", m.step, id, g.leader)
	case g.state == PreparingRebalance && !g.joinTimer.isSet():
		m.t.Errorf("step %d: %s waits for ever (G1)", m.step, id)
	case g.state == CompletingRebalance && !g.syncTimer.isSet() && len(g.unsynced) > 0:
		m.t.Errorf("step %d: %s waits for ever for its leader", m.step, id)
	}
}

func (m *model) checkTimers() {
	for i, t := range m.s.timers.heap {
		if t.index != i+1 || t.at < m.s.timers.heap[0].at {
			m.t.Fatalf("step %d: the heap of timers is broken", m.step)
		}
	}
}

// checkReplay: a shard made from the log knows what this one knows, but for members that have no assignment yet.
func (m *model) checkReplay() {
	n := m.replayed()
	for id, g := range m.s.groups {
		other := n.groups[id]
		if other == nil {
			if g.stored || len(g.partitions()) > 0 {
				m.t.Fatalf("step %d: the log does not know %s", m.step, id)
			}
			continue
		}
		if a, b := offsetsOf(g), offsetsOf(other); a != b {
			m.t.Fatalf("step %d: offsets of %s: %s, by the log %s", m.step, id, a, b)
		}
		c, d := g.membership.(*classic), other.membership.(*classic)
		if c.generation < d.generation && !m.refuses {
			m.t.Fatalf("step %d: %s is at generation %d, by the log at %d", m.step, id, c.generation, d.generation)
		}
		if a, b := membersOf(c), membersOf(d); c.state == Stable && (a != b || c.generation != d.generation) {
			m.t.Fatalf("step %d: members of %s: %s, by the log %s", m.step, id, a, b)
		}
	}
	for id, g := range n.groups {
		if m.s.groups[id] == nil && (g.stored || len(g.partitions()) > 0) {
			m.t.Fatalf("step %d: only the log knows %s", m.step, id)
		}
	}
}

func offsetsOf(g *group) (s string) {
	for _, tp := range g.partitions() {
		c, _ := g.offsets[tp.topic].committed.get(tp.partition)
		s += fmt.Sprintf(" %s-%d=%+v", tp.topic, tp.partition, c)
	}
	return s
}

func membersOf(g *classic) string {
	all := []string{}
	for _, e := range g.members.list {
		all = append(all, fmt.Sprintf("%s %s %q", e.id, orNull(e.instance), e.assignment))
	}
	slices.Sort(all)
	return fmt.Sprint(g.state, g.protocol, g.leader, all)
}

// end unloads the shard: nobody may be left without an answer.
func (m *model) end() {
	m.failing(maybe)
	m.crash()
	m.hear()
	for t := range m.open {
		m.t.Errorf("a %s was never answered", t.name)
	}
}

// wantBusy makes sure that the model did what it is for.
func (m *model) wantBusy() {
	want := []string{"join ok", "sync ok", "heartbeat ok", "heartbeat REBALANCE_IN_PROGRESS", "heartbeat ILLEGAL_GENERATION", "commit ok", "commit ILLEGAL_GENERATION",
		"commit UNKNOWN_MEMBER_ID", "join MEMBER_ID_REQUIRED", "leave ok", "delete ok", "delete NON_EMPTY_GROUP", "crash"}
	if m.refuses {
		want = append(want, "refused", "commit COORDINATOR_NOT_AVAILABLE")
	}
	for _, what := range want {
		if m.seen[what] == 0 {
			m.t.Errorf("%q never happened: %v", what, m.seen)
		}
	}
	m.t.Log(m.seen)
}
