package group

import (
	"cmp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

func sortPartitions(all []topicPartition) {
	slices.SortFunc(all, func(a, b topicPartition) int {
		return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
}

// Describe is DescribeGroups of one group.
func (s *Shard) Describe(_ int64, id string, to machine.Ticket, out *machine.Out) {
	a := kmsg.NewDescribeGroupsResponseGroup()
	a.Group = id
	code := protocol.GroupIDNotFound
	if g := s.groups[id]; g != nil {
		code = g.membership.describe(&a)
	}
	if code != protocol.None {
		a.State, a.ErrorCode = Dead.String(), int16(code)
	}
	out.Answer(to, &a)
}

// describe fills the answer of DescribeGroups. What members offered is told of a stable group only: before, it is changing.
func (g *classic) describe(a *kmsg.DescribeGroupsResponseGroup) protocol.Code {
	a.State, a.ProtocolType = g.state.String(), g.protocolType
	stable := g.state == Stable
	if stable {
		a.Protocol = g.protocol
	}
	for _, m := range g.members.list {
		d := kmsg.NewDescribeGroupsResponseGroupMember()
		d.MemberID, d.InstanceID, d.ClientID, d.ClientHost, d.MemberAssignment = m.id, m.instance, m.clientID, m.clientHost, m.assignment
		if stable {
			d.ProtocolMetadata = m.metadata(g.protocol)
		}
		a.Members = append(a.Members, d)
	}
	return protocol.None
}

// Listed is a group as ListGroups tells it.
type Listed struct{ ID, Kind, State, Type string }

// List answers with every group ([]Listed).
func (s *Shard) List(_ int64, to machine.Ticket, out *machine.Out) {
	all := make([]Listed, 0, len(s.groups))
	for _, id := range s.sorted() {
		m := s.groups[id].membership
		all = append(all, Listed{id, m.kind(), m.stateName(), m.typeName()})
	}
	out.Answer(to, all)
}

// Delete is DeleteGroups of one group: its offsets and its membership go. The answer is a protocol.Code.
func (s *Shard) Delete(_ int64, id string, to machine.Ticket, out *machine.Out) {
	g := s.groups[id]
	switch {
	case g == nil:
		out.Answer(to, protocol.GroupIDNotFound)
		return
	case !g.membership.isEmpty():
		out.Answer(to, protocol.NonEmptyGroup)
		return
	}
	if c, ok := g.membership.(*classic); ok { // who was given an id and has not come back finds no group
		for id := range c.pending {
			c.forget(id)
		}
	}
	var tombstone []machine.Record
	if g.stored {
		tombstone = g.membership.tombstones()
	}
	s.deleteGroup(g, g.partitions(), tombstone, out, func(err error, out *machine.Out) {
		code := protocol.None
		if err != nil {
			code = writeCode(err)
		}
		out.Answer(to, code)
	})
}

// Story is what is known about how a group came to be as it is.
type Story struct {
	State   string   `json:"state"`
	SinceMs int64    `json:"sinceMs"`           // when the state began; -1: not known
	Waiting []string `json:"waiting,omitempty"` // ids of members that a rebalance waits for
	UntilMs int64    `json:"untilMs,omitempty"` // how long it waits for them; 0: it does not
	Events  []Event  `json:"events,omitempty"`  // the oldest first
}

// Explain answers with the Story of a group, nil when there is no such group.
func (s *Shard) Explain(_ int64, id string, to machine.Ticket, out *machine.Out) {
	g := s.groups[id]
	if g == nil {
		out.Answer(to, (*Story)(nil))
		return
	}
	story := &Story{State: g.membership.stateName(), SinceMs: -1, Events: g.history.events()}
	g.membership.explain(story)
	out.Answer(to, story)
}

func (g *classic) explain(story *Story) {
	story.SinceMs = g.sinceMs
	for _, m := range g.members.list {
		if g.state == PreparingRebalance && m.join == nil || g.unsynced[m.id] {
			story.Waiting = append(story.Waiting, m.id)
		}
	}
	switch {
	case g.joinTimer.isSet():
		story.UntilMs = g.joinTimer.at
	case g.syncTimer.isSet():
		story.UntilMs = g.syncTimer.at
	}
}
