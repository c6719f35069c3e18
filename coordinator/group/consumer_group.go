package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group/assign"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// ConsumerConfig is what a consumer group obeys, of the broker's configuration and the group's own.
type ConsumerConfig struct {
	SessionTimeoutMs     int32
	HeartbeatIntervalMs  int32
	AssignmentIntervalMs int32    // the shortest time between two target assignments
	MaxSize              int      // members
	Upgrade, Downgrade   bool     // a classic group with members may become a consumer group, and the other way
	Assignors            []string // that members may ask for; the first is for those who ask for none
	RegexRefreshMs       int64    // how long the topics of a regular expression are valid although no topic has come or gone
}

// consumerGroup is the membership of a group whose partitions the broker assigns (KIP-848): ConsumerGroupHeartbeat.
//
// There are three epochs. That of the group counts changes of what is wanted: members, subscriptions, topics. That of the target
// says which of those the target assignment is made for; it follows at once, or when the last target is old enough. That of a
// member says which target it has reached (see reconciling). A member that is at another epoch than it says is fenced: it gives
// everything up and joins anew.
//
// Every change is a record. It is made in memory at once, answered when the record is committed, and taken back when the log
// refuses it; an input that changes nothing is answered behind those that are under way, because it saw what they changed. After
// a refusal it is not known what the log says about the keys that the refused records had: they are written again, as they are,
// in front of the next records.
//
// Members may use the classic protocol: mixed.go. The group may have been a classic one, and become one again: upgrade.go, downgrade.go.
//
// States, as they are told: Empty without members; Assigning when the target is behind the group; Stable when all members are at
// the target; Reconciling otherwise.
type consumerGroup struct {
	*group
	shard *Shard

	// What the records say. Only apply changes it.
	current *groupEpoch
	target  *targetEpoch
	targets map[string]assign.Assignment // by member id
	members map[string]*consumerMember
	regexes map[string]*resolved

	// What follows from that.
	static     map[string]string         // member id by group.instance.id
	topicUsers map[string]int            // members that name a topic
	regexUsers map[string]int            // members that subscribe with an expression
	owners     map[ownedPartition]string // member that has a partition now, or must still give it up
	classics   int                       // members that use the classic protocol
	offers     map[string]int            // how many of these offer a protocol
	settled    int                       // members that have their target

	seenTopics int64  // the version of the topics that current.hash was made of; -1: none
	seenNames  int64  // likewise, of what the expressions match
	regexAtMs  int64  // when the expressions were last looked at
	lastState  string // as of the latest change
	sinceMs    int64  // when it began; -1: not known

	before struct { // what the group was until it became a consumer group, while that may still be refused
		membership membership
		stored     bool
	}
	opening  *changes // what makes a consumer group of that, until the first heartbeat is accepted
	tooMany  int      // so many members did not fit into the record of a classic group; 0: not known
	underWay []*consumerWrite
}

// consumerWrite is records that are not committed yet, and who waits for them.
type consumerWrite struct{ waiting []consumerAnswer }

type consumerAnswer struct {
	to   machine.Ticket
	body func(err error) any
}

// firstEpoch is the epoch of a group before anybody has joined.
const firstEpoch = 1

func newConsumerGroup(s *Shard, g *group) *consumerGroup {
	return &consumerGroup{group: g, shard: s, targets: map[string]assign.Assignment{}, members: map[string]*consumerMember{}, regexes: map[string]*resolved{},
		static: map[string]string{}, topicUsers: map[string]int{}, regexUsers: map[string]int{}, owners: map[ownedPartition]string{},
		offers: map[string]int{}, seenTopics: -1, seenNames: -1, sinceMs: -1}
}

func (g *consumerGroup) config() *ConsumerConfig { return g.shard.o.ConsumerConfig(g.id) }

// epoch and targetEpoch are what the records say, or what is so without any.
func (g *consumerGroup) epoch() int32 {
	if g.current == nil {
		return firstEpoch
	}
	return g.current.epoch
}

func (g *consumerGroup) targetEpoch() int32 {
	if g.target == nil {
		return firstEpoch
	}
	return g.target.epoch
}

// membership.

func (g *consumerGroup) typeName() string { return "consumer" }
func (g *consumerGroup) kind() string     { return consumerProtocol }
func (g *consumerGroup) isEmpty() bool    { return len(g.members) == 0 }
func (g *consumerGroup) idle() bool       { return len(g.members) == 0 && len(g.underWay) == 0 }

func (g *consumerGroup) stateName() string {
	switch {
	case len(g.members) == 0:
		return "Empty"
	case g.epoch() > g.targetEpoch():
		return "Assigning"
	}
	if g.settled < len(g.members) {
		return "Reconciling"
	}
	return "Stable"
}

// noteState notes when the state began.
func (g *consumerGroup) noteState(nowMs int64) {
	if s := g.stateName(); s != g.lastState {
		g.lastState, g.sinceMs = s, nowMs
	}
}

func (g *consumerGroup) reconciled(m *consumerMember) bool {
	return m.cur.state == memberStable && m.cur.epoch == g.targetEpoch()
}

func (g *consumerGroup) subscribes(topic string) bool {
	if g.topicUsers[topic] > 0 {
		return true
	}
	for expression := range g.regexUsers {
		if r := g.regexes[expression]; r != nil {
			if _, ok := slices.BinarySearch(r.topics, topic); ok {
				return true
			}
		}
	}
	return false
}

// checkCommit says whether a request may commit offsets. Of one with an earlier epoch checkCommitOf says it for each partition.
func (g *consumerGroup) checkCommit(req *kmsg.OffsetCommitRequest) protocol.Code {
	if req.Generation < 0 && len(g.members) == 0 {
		return protocol.None // an admin client, or a consumer that assigns its partitions itself
	}
	m := g.members[req.MemberID]
	switch {
	case m == nil:
		return protocol.UnknownMemberID
	case req.Version < 9 && !m.usesClassic():
		return protocol.UnsupportedVersion
	case req.Generation == m.cur.epoch: // also that of a static member that is away
		return protocol.None
	case req.Generation > m.cur.epoch, req.Generation < 0:
		return m.stale()
	}
	return protocol.None
}

// checkCommitOf says whether a request that checkCommit let pass may commit the offset of a partition: with an epoch that is not
// the member's any more it may for what it has since (KIP-1251). So a commit that crosses a rebalance is not lost (G5).
func (g *consumerGroup) checkCommitOf(req *kmsg.OffsetCommitRequest, topic [16]byte, partition int32) protocol.Code {
	m := g.members[req.MemberID]
	if m == nil || req.Generation == m.cur.epoch {
		return protocol.None
	}
	since, ok := m.cur.assigned.epoch(topic, partition)
	if !ok {
		since, ok = m.cur.revoking.epoch(topic, partition)
	}
	if !ok || since > req.Generation {
		return m.stale()
	}
	return protocol.None
}

// stale is what a member hears whose epoch is another one.
func (m *consumerMember) stale() protocol.Code {
	if m.usesClassic() {
		return protocol.IllegalGeneration
	}
	return protocol.StaleMemberEpoch
}

// checkFetch says whether a request may read offsets. Without a member it is an admin client's, or an old one's.
func (g *consumerGroup) checkFetch(req *kmsg.OffsetFetchRequestGroup) protocol.Code {
	if req.MemberID == nil {
		if req.MemberEpoch < 0 {
			return protocol.None
		}
		return protocol.UnknownServerError
	}
	m := g.members[*req.MemberID]
	switch {
	case m == nil:
		return protocol.UnknownMemberID
	case req.MemberEpoch != m.cur.epoch:
		return m.stale()
	}
	return protocol.None
}

func (g *consumerGroup) committing(int64, string) {}

// expiryBase: offsets of a consumer group expire counted from their commit, while nobody subscribes to their topic.
func (g *consumerGroup) expiryBase(c *committed) (ms int64, ok bool) { return c.commitMs, true }

// describe: DescribeGroups knows classic groups only.
func (g *consumerGroup) describe(*kmsg.DescribeGroupsResponseGroup) protocol.Code {
	return protocol.GroupIDNotFound
}

// tombstones remove the group from the log. That of the group itself comes last: what is in front of it belongs to a group, whatever of it gets lost.
func (g *consumerGroup) tombstones() (all []machine.Record) {
	key := func(kind changeKind, name string) {
		all = append(all, machine.Record{Key: changeKey{kind, name}.key(g.id)})
	}
	if g.doubt[changeKey{classicChange, ""}] {
		key(classicChange, "")
	}
	for _, k := range g.doubtful() {
		if k.kind.ofMember() {
			key(k.kind, k.name)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		key(currentChange, id)
		key(targetChange, id)
		key(subscriptionChange, id)
	}
	for _, expression := range slices.Sorted(maps.Keys(g.regexes)) {
		key(regexChange, expression)
	}
	key(targetEpochChange, "")
	key(groupChange, "")
	return all
}

// loaded starts the sessions anew: nobody had a chance to be heard meanwhile.
func (g *consumerGroup) loaded(nowMs int64, out *machine.Out) {
	g.rearm(nowMs)
	g.lastState = g.stateName()
	if g.target != nil && g.target.atMs > 0 && g.epoch() == g.targetEpoch() {
		g.sinceMs = g.target.atMs // it is Stable or Reconciling since then, or Stable since not long after
	}
	if n, most := len(g.members), g.config().MaxSize; n > most {
		out.Warn("a consumer group has more members than group.consumer.max.size; they stay, nobody else gets in", "group", g.id, "members", n, "most", most)
	}
}

// rearm sets the timers of members that have none.
func (g *consumerGroup) rearm(nowMs int64) {
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[id]
		if !m.session.isSet() {
			g.heard(nowMs, m)
		}
		g.watch(nowMs, m)
	}
}

// unload answers nobody: the writes that are under way do.
func (g *consumerGroup) unload(*machine.Out) {}

// finish writes what was changed, and answers when it is committed; or, when nothing was changed, behind what is under way.
func (g *consumerGroup) finish(nowMs int64, c *changes, to machine.Ticket, out *machine.Out, body func(err error) any) {
	records := append(g.healing(c), c.records...)
	if len(records) == 0 {
		g.answer(to, out, body)
		return
	}
	w := &consumerWrite{}
	if to != nil {
		w.waiting = append(w.waiting, consumerAnswer{to, body})
	}
	g.write(nowMs, w, c, records, out)
}

func (g *consumerGroup) write(nowMs int64, w *consumerWrite, c *changes, records []machine.Record, out *machine.Out) {
	healed := g.doubtful()
	clear(g.doubt)
	g.noteState(nowMs)
	g.underWay = append(g.underWay, w)
	g.writing++
	g.stored = true
	out.Write(records, func(nowMs int64, err error, out *machine.Out) { g.written(nowMs, w, c, healed, err, out) })
}

// healing are the records of what is in doubt.
func (g *consumerGroup) healing(c *changes) (records []machine.Record) {
	if len(g.doubt) == 0 {
		return nil
	}
	for _, k := range g.doubtful() {
		if !slices.Contains(c.touched, k) {
			now := g.state(k)
			records = append(records, now.record(g.id))
		}
	}
	return records
}

// answer answers behind what is under way.
func (g *consumerGroup) answer(to machine.Ticket, out *machine.Out, body func(err error) any) {
	if to == nil {
		return
	}
	if n := len(g.underWay); n > 0 {
		g.underWay[n-1].waiting = append(g.underWay[n-1].waiting, consumerAnswer{to, body})
		return
	}
	out.Answer(to, body(nil))
}

// written is the end of a write.
func (g *consumerGroup) written(nowMs int64, w *consumerWrite, c *changes, healed []changeKey, err error, out *machine.Out) {
	g.writing--
	g.underWay = slices.DeleteFunc(g.underWay, func(o *consumerWrite) bool { return o == w })
	switch {
	case err == nil:
		g.before.membership = nil // it is in the log: there is no way back
	case c.next != nil && isTooLarge(err) && g.membership == membership(c.next):
		g.inDoubt(healed)
		g.stay(nowMs, w, c, out)
		return
	default:
		g.inDoubt(append(c.touched, healed...))
		g.refused(nowMs, c, err, out)
	}
	for _, a := range w.waiting {
		out.Answer(a.to, a.body(err))
	}
	g.shard.dropIfBare(g.group)
}

// refused takes changes back that are not in the log. The change to a classic group stays: its members are told nothing that they must find again.
func (g *consumerGroup) refused(nowMs int64, c *changes, err error, out *machine.Out) {
	if c.next != nil {
		return
	}
	c.back()
	g.seenTopics = -1
	switch {
	case g.membership != membership(g): // it has become a classic group meanwhile
	case g.current == nil && len(g.members) == 0 && len(g.underWay) == 0:
		g.unborn(nowMs, "the change to a consumer group could not be stored: "+err.Error(), out)
	case !isMoved(err):
		g.rearm(nowMs)
		g.noteState(nowMs)
	}
}

// unborn: the records that made the group were refused, or there was nothing to make.
func (g *consumerGroup) unborn(nowMs int64, why string, out *machine.Out) {
	if g.membership != membership(g) || g.before.membership == nil { // the log has it: it stays as it is
		return
	}
	// What was refused may be in the log: then the next write about the group, or the expiry of one that is not used, takes it away.
	g.membership, g.stored = g.before.membership, g.before.stored || len(g.doubt) > 0
	if old, ok := g.membership.(*classic); ok {
		old.resume(nowMs, why, out)
	}
}

// replayChange takes a record of a consumer group over.
func (s *Shard) replayChange(version int16, r machine.Record) error {
	id, c, ok, err := readChange(version, r)
	if err != nil || !ok {
		return err
	}
	g := s.groups[id]
	if c.gone() && (g == nil || !isConsumer(g)) {
		return nil
	}
	if g == nil {
		g = s.group(id)
	}
	cg, is := g.membership.(*consumerGroup)
	if !is {
		cg = newConsumerGroup(s, g)
		g.membership, g.stored = cg, true
	}
	cg.apply(&c)
	if c.kind == groupChange && c.group == nil {
		s.removeGroup(id)
	}
	return nil
}

func isConsumer(g *group) bool { _, ok := g.membership.(*consumerGroup); return ok }
