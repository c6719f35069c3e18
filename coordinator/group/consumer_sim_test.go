package group

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group/assign"
	"github.com/leatmq/leat/coordinator/machine"
)

// beatOf makes a ConsumerGroupHeartbeat of member=, epoch=, topics=t/u, regex=, owns=t:0,1/u:2, timeout=, assignor=, instance=,
// rack=, v=. What is not there is null; "-" is an empty list. A heartbeat with epoch 0 has timeout 60000 and owns nothing, if it
// does not say otherwise.
func (p *player) beatOf(group string, a args) *kmsg.ConsumerGroupHeartbeatRequest {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch = int16(a.num("v", 1)), group, a["member"], int32(a.num("epoch", 0))
	r.RebalanceTimeoutMillis = -1
	if r.MemberEpoch == 0 {
		r.RebalanceTimeoutMillis, r.Topics = 60_000, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	r.RebalanceTimeoutMillis = int32(a.num("timeout", int64(r.RebalanceTimeoutMillis)))
	r.InstanceID, r.RackID, r.SubscribedTopicRegex, r.ServerAssignor = a.ptr("instance"), a.ptr("rack"), a.ptr("regex"), a.ptr("assignor")
	if topics, ok := a["topics"]; ok {
		r.SubscribedTopicNames = []string{}
		if topics != "-" {
			r.SubscribedTopicNames = strings.Split(topics, "/")
		}
	}
	if owns, ok := a["owns"]; ok {
		r.Topics = p.topicsOf(owns)
	}
	return r
}

func (s *sim) topicsOf(list string) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	all := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if list == "null" {
		return nil
	}
	if list == "-" {
		return all
	}
	for one := range strings.SplitSeq(list, "/") {
		name, partitions, _ := strings.Cut(one, ":")
		t := kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: s.names[name]}
		for n := range strings.SplitSeq(partitions, ",") {
			v, err := strconv.Atoi(n)
			if err != nil {
				panic(err)
			}
			t.Partitions = append(t.Partitions, int32(v))
		}
		all = append(all, t)
	}
	return all
}

// showAssignment names topics by the last byte of their id.
func showAssignment(a assign.Assignment) string {
	all := []string{}
	for _, p := range a {
		all = append(all, fmt.Sprintf("%d:%s", p.Topic[15], strings.Trim(strings.ReplaceAll(fmt.Sprint(p.Partitions), " ", ","), "[]")))
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, "/")
}

func showOwned(o owned) string {
	s := showAssignment(o.Assignment)
	if s != "-" {
		s += fmt.Sprintf("@%v", o.epochs)
	}
	return s
}

func showBeat(r *kmsg.ConsumerGroupHeartbeatResponse) string {
	if r.ErrorCode != 0 {
		return fmt.Sprintf("beat %s: %s", code(r.ErrorCode), orNull(r.ErrorMessage))
	}
	line := fmt.Sprintf("beat ok %s epoch %d", orNull(r.MemberID), r.MemberEpoch)
	if r.Assignment != nil {
		line += " has " + showAssignment(assignedBy(r))
	}
	return line
}

// assignedBy is the assignment of an answer.
func assignedBy(r *kmsg.ConsumerGroupHeartbeatResponse) (a assign.Assignment) {
	for _, t := range r.Assignment.Topics {
		a = append(a, assign.Partitions{Topic: t.TopicID, Partitions: t.Partitions})
	}
	return a
}

func showConsumerDescribe(r *kmsg.ConsumerGroupDescribeResponseGroup) string {
	if r.ErrorCode != 0 {
		return "consumer-describe " + code(r.ErrorCode)
	}
	line := fmt.Sprintf("consumer-describe %s epoch %d target %d %s", r.State, r.Epoch, r.AssignmentEpoch, r.AssignorName)
	show := func(a kmsg.Assignment) string {
		all := assign.Assignment{}
		for _, t := range a.TopicPartitions {
			all = append(all, assign.Partitions{Topic: t.TopicID, Partitions: t.Partitions})
		}
		return showAssignment(all)
	}
	for _, m := range r.Members {
		line += fmt.Sprintf(" [%s instance %s rack %s epoch %d %s%s %v %s has %s target %s type %d]", m.MemberID, orNull(m.InstanceID), orNull(m.RackID), m.MemberEpoch,
			m.ClientID, m.ClientHost, m.SubscribedTopics, orNull(m.SubscribedTopicRegex), show(m.Assignment), show(m.TargetAssignment), m.MemberType)
	}
	return line
}

// showChange prints a record of a consumer group.
func showChange(version int16, r machine.Record) string {
	group, c, ok, err := readChange(version, r)
	switch {
	case err != nil:
		return err.Error()
	case !ok:
		return fmt.Sprintf("record of type %d", version)
	}
	what := [...]string{classicChange: "classic", groupChange: "group", subscriptionChange: "member", targetEpochChange: "target epoch", targetChange: "target", currentChange: "current", regexChange: "regex"}[c.kind]
	line := fmt.Sprintf("%s %s %s", group, what, c.name)
	switch {
	case c.gone():
		return line + " tombstone"
	case c.group != nil:
		line += fmt.Sprintf("epoch %d", c.group.epoch)
	case c.sub != nil:
		line += fmt.Sprintf(" %s%s %v regex %q instance %s timeout %d assignor %s", c.sub.clientID, c.sub.clientHost, c.sub.topics, c.sub.regex, orNull(c.sub.instance),
			c.sub.rebalanceTimeoutMs, orNull(c.sub.assignor))
		if o := c.sub.classic; o != nil {
			line += fmt.Sprintf(" classic session %d", o.sessionTimeoutMs)
			for i := range o.protocols {
				line += fmt.Sprintf(" %s:%q", o.protocols[i].name, o.protocols[i].metadata)
			}
		}
	case c.epoch != nil:
		line += fmt.Sprintf("%d at %d", c.epoch.epoch, c.epoch.atMs)
	case c.target != nil:
		line += " " + showAssignment(c.target)
	case c.cur != nil:
		line += fmt.Sprintf(" epoch %d before %d state %d has %s gives %s", c.cur.epoch, c.cur.previous, c.cur.state, showOwned(c.cur.assigned), showOwned(c.cur.revoking))
	case c.regex != nil:
		line += fmt.Sprintf(" %v", c.regex.topics)
	}
	return line
}

// dumpConsumer is everything about a consumer group that outlives the broker.
func dumpConsumer(g *consumerGroup) string {
	var lines []string
	add := func(c change) {
		r := c.record(g.id)
		lines = append(lines, showChange(int16(recordKeys[c.kind]), r))
	}
	for _, k := range []changeKey{{groupChange, ""}, {targetEpochChange, ""}} {
		add(g.state(k))
	}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		for _, kind := range []changeKind{subscriptionChange, targetChange, currentChange} {
			add(g.state(changeKey{kind, id}))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(g.targets)) {
		if g.members[id] == nil {
			add(g.state(changeKey{targetChange, id}))
		}
	}
	for _, expression := range slices.Sorted(maps.Keys(g.regexes)) {
		add(g.state(changeKey{regexChange, expression}))
	}
	lines = append(lines, fmt.Sprint(g.static, g.topicUsers, g.regexUsers, len(g.owners), g.classics, g.offers, g.settled))
	return strings.Join(lines, "\n")
}
