package group

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// State is the state of a classic group.
type State uint8

// The states. What leads where:
//
//	Empty                -> PreparingRebalance   a member joins
//	PreparingRebalance   -> CompletingRebalance  everybody has joined, or the time for it is over
//	                     -> Empty                the last member is gone
//	CompletingRebalance  -> Stable               the leader's assignment is committed
//	                     -> PreparingRebalance   a member joins, leaves, fails
//	Stable               -> PreparingRebalance   likewise
//	a consumer group     -> PreparingRebalance   nobody uses the consumer protocol any more: downgrade.go
//	any                  -> a consumer group     somebody joins with that protocol: upgrade.go
//	any                  -> Dead                 the group is deleted, or not ours any more
const (
	Empty State = iota
	PreparingRebalance
	CompletingRebalance
	Stable
	Dead
)

func (s State) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}[s]
}

// consumerProtocol is the protocol type whose metadata can be looked into.
const consumerProtocol = "consumer"

// classic is the membership of a group whose members assign the partitions among themselves: JoinGroup, SyncGroup.
type classic struct {
	*group
	shard *Shard

	state, previous State
	sinceMs         int64 // when the state began; -1 when an old record does not say
	generation      int32 // counts completed rebalances
	protocolType    string
	protocol        string // chosen for the generation; "" when there is none
	leader          string // member id, "" for none

	members   members
	static    map[string]*member // by group.instance.id
	pending   map[string]*timer  // ids that were given out with MEMBER_ID_REQUIRED and have not come back
	offers    map[string]int     // how many members offer a protocol
	waiting   int                // members whose JoinGroup waits
	unsynced  map[string]bool    // members of this generation that have not sent their SyncGroup
	newMember bool               // somebody came during the initial rebalance delay
	storing   int32              // the generation whose assignment was given to the log: there is one

	joinTimer timer // ends the joining
	syncTimer timer // ends the waiting for SyncGroups

	away bool // it was made a consumer group, which may still be refused: it does nothing

	topics   map[string]bool // that members subscribe to
	topicsOK bool            // topics is known
}

func newClassic(s *Shard, g *group) *classic {
	c := &classic{group: g, shard: s, state: Empty, previous: Empty, sinceMs: -1, static: map[string]*member{}, pending: map[string]*timer{},
		offers: map[string]int{}, unsynced: map[string]bool{}}
	return c
}

// membership.

func (g *classic) typeName() string  { return "classic" }
func (g *classic) stateName() string { return g.state.String() }
func (g *classic) kind() string      { return g.protocolType }
func (g *classic) isEmpty() bool     { return g.state == Empty }
func (g *classic) idle() bool        { return g.state == Empty && len(g.pending) == 0 }

// subscribes says whether offsets of a topic are in use. A consumer group of which nothing is known may use any.
func (g *classic) subscribes(topic string) bool {
	if g.topicsOK {
		return g.topics[topic]
	}
	return g.protocolType == consumerProtocol
}

// expiryBase is the time from which the retention of a committed offset counts; ok is false when it does not expire now.
func (g *classic) expiryBase(c *committed) (ms int64, ok bool) {
	switch {
	case g.protocolType == "": // a simple group: nobody ever joined
		return c.commitMs, true
	case g.state == Empty && g.sinceMs >= 0:
		return g.sinceMs, true
	case g.state == Empty, g.state == Stable && g.protocolType == consumerProtocol && g.topicsOK:
		return c.commitMs, true
	}
	return 0, false
}

func (g *classic) transition(nowMs int64, to State) {
	g.previous, g.state, g.sinceMs = g.state, to, nowMs
}

// check says whether a request may speak for a member.
func (g *classic) check(memberID string, instance *string) protocol.Code {
	if instance != nil {
		switch m := g.static[*instance]; {
		case m == nil:
			return protocol.UnknownMemberID
		case m.id != memberID:
			return protocol.FencedInstanceID
		}
	}
	if g.members.get(memberID) == nil {
		return protocol.UnknownMemberID
	}
	return protocol.None
}

// isOf says whether a member is of a generation: that of the group, or until its next one what it was given before the group became a classic one.
func (g *classic) isOf(m *member, generation int32) bool {
	return generation == g.generation || m.epoch != 0 && generation == m.epoch
}

// checkCommit says whether a request may commit offsets.
func (g *classic) checkCommit(req *kmsg.OffsetCommitRequest) protocol.Code {
	switch {
	case g.state == Dead:
		return protocol.CoordinatorNotAvailable
	case req.Generation < 0 && g.state == Empty:
		return protocol.None // an admin client, or a consumer that assigns its partitions itself
	case req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil:
		return protocol.UnknownMemberID // only members may commit
	}
	if code := g.check(req.MemberID, req.InstanceID); code != protocol.None {
		return code
	}
	switch {
	case !g.isOf(g.members.get(req.MemberID), req.Generation):
		return protocol.IllegalGeneration
	case g.state == CompletingRebalance:
		return protocol.RebalanceInProgress
	}
	return protocol.None
}

// checkCommitOf: a generation commits all or nothing.
func (g *classic) checkCommitOf(*kmsg.OffsetCommitRequest, [16]byte, int32) protocol.Code {
	return protocol.None
}

// checkFetch: whoever knows the id of a classic group may read.
func (g *classic) checkFetch(*kmsg.OffsetFetchRequestGroup) protocol.Code { return protocol.None }

func (g *classic) tombstones() []machine.Record {
	return append(g.takenAway(), machine.Record{Key: groupKey(g.id)})
}

// store writes the record of the group. What may be in the log of a consumer group that it was, or did not become, goes with it.
func (g *classic) store(assignment func(*member) []byte, out *machine.Out, then machine.Then) {
	doubt, records := g.doubtful(), append(g.takenAway(), g.groupRecord(assignment))
	clear(g.doubt)
	out.Write(records, func(nowMs int64, err error, out *machine.Out) {
		if err != nil && len(doubt) > 0 {
			g.inDoubt(doubt)
		}
		then(nowMs, err, out)
	})
}

// committing notes that a member lives: it commits.
func (g *classic) committing(nowMs int64, memberID string) {
	if m := g.members.get(memberID); m != nil && (g.state == Stable || g.state == PreparingRebalance) {
		g.heard(nowMs, m)
	}
}

// heard starts the session of a member anew.
func (g *classic) heard(nowMs int64, m *member) { g.session(nowMs, m, int64(m.sessionTimeoutMs)) }

func (g *classic) session(nowMs int64, m *member, timeoutMs int64) {
	if g.away {
		return
	}
	if m.session.fire == nil {
		m.session.fire = func(nowMs int64, out *machine.Out) { g.sessionOver(nowMs, m, out) }
	}
	g.shard.timers.set(&m.session, nowMs+timeoutMs)
}

// supports says whether a member that offers protocols can be in the group.
func (g *classic) supports(protocolType string, protocols []offered) bool {
	if g.state == Empty {
		return protocolType != "" && len(protocols) > 0
	}
	if protocolType != g.protocolType {
		return false
	}
	for i := range protocols {
		if g.offers[protocols[i].name] == len(g.members.list) {
			return true
		}
	}
	return false
}

// chooseProtocol lets every member vote for the one it likes best among those that all offer. The first of equals is the one
// that the member who came first likes better.
func (g *classic) chooseProtocol() string {
	candidate := func(name string) bool { return g.offers[name] == len(g.members.list) }
	votes, best := map[string]int{}, ""
	for _, m := range g.members.list {
		votes[m.vote(candidate)]++
	}
	for i := range g.members.list[0].protocols {
		if name := g.members.list[0].protocols[i].name; votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

func (g *classic) count(protocols []offered, n int) {
	for i := range protocols {
		if g.offers[protocols[i].name] += n; g.offers[protocols[i].name] == 0 {
			delete(g.offers, protocols[i].name)
		}
	}
}

// add takes a new member in.
func (g *classic) add(m *member, protocolType string) {
	if len(g.members.list) == 0 {
		g.protocolType = protocolType
	}
	if m.static() {
		g.static[*m.instance] = m
	}
	if g.leader == "" {
		g.leader = m.id
	}
	g.members.add(m)
	g.count(m.protocols, 1)
	g.forget(m.id)
}

// forget drops a pending member id.
func (g *classic) forget(id string) {
	if t := g.pending[id]; t != nil {
		g.shard.timers.stop(t)
		delete(g.pending, id)
	}
}

// remove takes a member out. What it waits for is answered with code.
func (g *classic) remove(m *member, code protocol.Code, out *machine.Out) {
	g.answerJoin(m, joinError("", code), out)
	g.answerSync(m, syncError(code), out)
	g.shard.timers.stop(&m.session)
	g.members.remove(m)
	g.count(m.protocols, -1)
	if m.static() {
		delete(g.static, *m.instance)
	}
	delete(g.unsynced, m.id)
	if g.leader == m.id {
		g.leader = ""
		if len(g.members.list) > 0 {
			g.leader = g.members.list[0].id
		}
	}
}

// park keeps the JoinGroup of a member. One that waited before is of a connection that gave up.
func (g *classic) park(m *member, to machine.Ticket, out *machine.Out) {
	g.answerJoin(m, joinError(m.id, protocol.RebalanceInProgress), out)
	if to != nil {
		m.join = to
		g.waiting++
	}
}

func (g *classic) answerJoin(m *member, resp *kmsg.JoinGroupResponse, out *machine.Out) {
	if m.join == nil {
		return
	}
	out.Answer(m.join, resp)
	m.join = nil
	g.waiting--
}

// answerSync answers a waiting SyncGroup, and says whether there was one.
func (g *classic) answerSync(m *member, resp *kmsg.SyncGroupResponse, out *machine.Out) bool {
	if m.sync == nil {
		return false
	}
	out.Answer(m.sync, resp)
	m.sync = nil
	return true
}

// allJoined says whether everybody who may come has come.
func (g *classic) allJoined() bool {
	return len(g.members.list) == g.waiting && len(g.pending) == 0
}

// rebalanceTimeoutMs is the longest that a member wants.
func (g *classic) rebalanceTimeoutMs() int64 {
	longest := int64(0)
	for _, m := range g.members.list {
		longest = max(longest, int64(m.rebalanceTimeoutMs))
	}
	return longest
}

// readTopics finds what the members subscribe to. Metadata that is not a subscription harms nobody.
func (g *classic) readTopics() {
	g.topics, g.topicsOK = nil, false
	if g.protocolType != consumerProtocol {
		return
	}
	topics := map[string]bool{}
	for _, m := range g.members.list {
		if g.protocol == "" || !subscribedTopics(m.metadata(g.protocol), func(t string) { topics[t] = true }) {
			return
		}
	}
	g.topics, g.topicsOK = topics, true
}

// replayGroup takes over what a record says about a classic group.
func (s *Shard) replayGroup(id string, v *kmsg.GroupMetadataValue) {
	g := s.group(id)
	g.stored = true
	c := newClassic(s, g)
	g.membership = c
	c.protocolType, c.generation, c.sinceMs = v.ProtocolType, v.Generation, v.CurrentStateTimestamp
	for i := range v.Members {
		m := &v.Members[i]
		rebalance := m.RebalanceTimeoutMillis
		if rebalance == -1 {
			rebalance = m.SessionTimeoutMillis
		}
		protocolName := ""
		if v.Protocol != nil {
			protocolName = *v.Protocol
		}
		c.add(&member{id: m.MemberID, instance: m.InstanceID, clientID: m.ClientID, clientHost: m.ClientHost, rebalanceTimeoutMs: rebalance,
			sessionTimeoutMs: m.SessionTimeoutMillis, protocols: []offered{{protocolName, bytes.Clone(m.Subscription)}}, assignment: bytes.Clone(m.Assignment)}, v.ProtocolType)
	}
	if v.Protocol != nil {
		c.protocol = *v.Protocol
	}
	c.leader = ""
	if v.Leader != nil && c.members.get(*v.Leader) != nil {
		c.leader = *v.Leader
	}
	if len(v.Members) > 0 {
		c.state, c.previous = Stable, Stable
	}
	c.readTopics()
}

// loaded starts the sessions of the members anew: they had no chance to be heard meanwhile.
func (g *classic) loaded(nowMs int64, out *machine.Out) {
	for _, m := range g.members.list {
		g.heard(nowMs, m)
	}
	if len(g.members.list) > 0 && g.leader == "" {
		g.leader = g.members.list[0].id
		g.rebalance(nowMs, "the group became a classic one, and its members have not joined again since", out)
		return
	}
	if n, most := len(g.members.list), g.shard.config().MaxSize; n > most {
		g.rebalance(nowMs, fmt.Sprintf("the group has %d members, more than group.max.size %d", n, most), out)
	}
}

// unload answers everybody who waits: another broker runs the group now, or nobody.
func (g *classic) unload(out *machine.Out) {
	g.state = Dead
	for _, m := range g.members.list {
		g.answerJoin(m, joinError(m.id, protocol.NotCoordinator), out)
		g.answerSync(m, syncError(protocol.NotCoordinator), out)
	}
}
