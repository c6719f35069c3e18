package group

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/leatmq/leat/coordinator/group/assign"
)

func compareKeys(a, b changeKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), strings.Compare(a.name, b.name))
}

// subscribedTopics are the names that anybody subscribes to, in order.
func (g *consumerGroup) subscribedTopics() []string {
	all := slices.Collect(maps.Keys(g.topicUsers))
	for expression := range g.regexUsers {
		if r := g.regexes[expression]; r != nil {
			all = append(all, r.topics...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// hash is of the topics that are subscribed to and exist, and of how many partitions they have; 0 when there are none.
func (g *consumerGroup) hash() int64 {
	topics, h := g.shard.o.Topics(), fnv.New64a()
	var buf []byte
	none := true
	for _, name := range g.subscribedTopics() {
		id, partitions, ok := topics.Topic(name)
		if !ok {
			continue
		}
		none = false
		buf = append(append(buf[:0], id[:]...), name...)
		h.Write(binary.BigEndian.AppendUint32(buf, uint32(partitions)))
	}
	if none {
		return 0
	}
	return int64(h.Sum64())
}

// advance makes a new epoch of the group when must says so, or when the topics are others than the epoch was made for.
func (g *consumerGroup) advance(nowMs int64, c *changes, must bool, why string) {
	version := g.shard.o.Topics().Version()
	if !must && version == g.seenTopics {
		return
	}
	hash, old := g.hash(), int64(0)
	if g.current != nil {
		old = g.current.hash
	}
	g.seenTopics = version
	if !must {
		if old == hash {
			return
		}
		why = "topics were created, deleted or got more partitions"
	}
	c.do(change{changeKey: changeKey{groupChange, ""}, group: &groupEpoch{g.epoch() + 1, hash}})
	g.history.add(Event{AtMs: nowMs, What: Rebalance, Reason: why})
}

// refreshRegexes looks again for the topics that the expressions match, when topics have come or gone, or it was long ago.
func (g *consumerGroup) refreshRegexes(nowMs int64, c *changes) {
	if len(g.regexUsers) == 0 {
		return
	}
	version, pause := g.shard.o.Topics().Version(), int64(regexPauseMs)
	if version == g.seenNames {
		pause = g.config().RegexRefreshMs
	}
	if age := nowMs - g.regexAtMs; age >= 0 && age < pause {
		return
	}
	g.seenNames, g.regexAtMs = version, nowMs
	for _, expression := range slices.Sorted(maps.Keys(g.regexUsers)) {
		g.resolve(nowMs, c, expression)
	}
}

// resolve notes what an expression matches now; the record is written when that is something else than it was. It says whether so.
func (g *consumerGroup) resolve(nowMs int64, c *changes, expression string) (changed bool) {
	now, old := resolve(expression, g.shard.o.Topics(), nowMs), g.regexes[expression]
	if old != nil && slices.Equal(old.topics, now.topics) {
		return false // when it was looked at is not worth a record
	}
	c.do(change{changeKey: changeKey{regexChange, expression}, regex: now})
	g.seenTopics = -1
	return true
}

// dropRegex forgets an expression that nobody uses any more.
func (g *consumerGroup) dropRegex(c *changes, expression string) {
	if expression != "" && g.regexUsers[expression] == 0 && g.regexes[expression] != nil {
		c.do(change{changeKey: changeKey{regexChange, expression}})
	}
}

// assignorName is the assignor that most members ask for; of equals the one that the configuration names first.
func (g *consumerGroup) assignorName() string {
	names := g.config().Assignors
	if len(names) == 0 {
		return assign.UniformName
	}
	votes := map[string]int{}
	for _, m := range g.members {
		if m.sub.assignor != nil {
			votes[*m.sub.assignor]++
		}
	}
	best := names[0]
	for _, name := range names {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// retarget makes the target assignment of the group's epoch, unless it has one or the last one is too young.
func (g *consumerGroup) retarget(nowMs int64, c *changes) {
	if g.epoch() <= g.targetEpoch() {
		return
	}
	if g.target != nil {
		if age := nowMs - g.target.atMs; age >= 0 && age < int64(g.config().AssignmentIntervalMs) {
			return
		}
	}
	members := g.assignable()
	name := g.assignorName()
	for i, target := range assign.ByName(name)(members) {
		id := members[i].ID
		if !target.Equal(g.targets[id]) {
			if target == nil {
				target = emptyTarget
			}
			c.do(change{changeKey: changeKey{targetChange, id}, target: target})
		}
	}
	c.do(change{changeKey: changeKey{targetEpochChange, ""}, epoch: &targetEpoch{g.epoch(), nowMs}})
	g.history.add(Event{AtMs: nowMs, What: Assigned, Reason: name})
}

// assignable is the members as the assignors see them.
func (g *consumerGroup) assignable() []assign.Member {
	type wish struct{ topics, regex string }
	cache := map[wish][]assign.Topic{}
	members := make([]assign.Member, 0, len(g.members))
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		m := g.members[id]
		key := wish{strings.Join(m.sub.topics, ","), m.sub.regex}
		topics, ok := cache[key]
		if !ok {
			topics = g.topicsOf(m.sub)
			cache[key] = topics
		}
		members = append(members, assign.Member{ID: id, Instance: m.sub.instance, Topics: topics, Current: g.claimed(id)})
	}
	return members
}

// claimed is the target of a member, in the order in which it is to be kept: first what the member has, or would have but for others who have it still; then what
// nobody has, because the member has not been heard of since it was given it. So a member that was restarted gets back what is free, and does not
// wait for what others took over.
func (g *consumerGroup) claimed(id string) assign.Assignment {
	target := g.targets[id]
	free := func(topic assign.TopicID) func(p int32) bool {
		return func(p int32) bool { return g.owners[ownedPartition{topic, p}] == "" }
	}
	if !slices.ContainsFunc(target, func(t assign.Partitions) bool { return slices.ContainsFunc(t.Partitions, free(t.Topic)) }) {
		return target
	}
	var claimed, unclaimed assign.Assignment
	for _, t := range target {
		isFree := free(t.Topic)
		has, not := assign.Partitions{Topic: t.Topic}, assign.Partitions{Topic: t.Topic}
		for _, p := range t.Partitions {
			if isFree(p) {
				not.Partitions = append(not.Partitions, p)
			} else {
				has.Partitions = append(has.Partitions, p)
			}
		}
		claimed, unclaimed = append(claimed, has), append(unclaimed, not)
	}
	return append(claimed, unclaimed...)
}

// topicsOf are the topics of a subscription that exist, in order of their ids.
func (g *consumerGroup) topicsOf(sub *memberSubscription) []assign.Topic {
	topics := g.shard.o.Topics()
	all := []assign.Topic{}
	add := func(name string) {
		if id, partitions, ok := topics.Topic(name); ok {
			all = append(all, assign.Topic{ID: id, Partitions: partitions})
		}
	}
	for _, name := range sub.topics {
		add(name)
	}
	if r := g.regexes[sub.regex]; sub.regex != "" && r != nil {
		for _, name := range r.topics {
			add(name)
		}
	}
	slices.SortFunc(all, func(a, b assign.Topic) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return slices.CompactFunc(all, func(a, b assign.Topic) bool { return a.ID == b.ID })
}
