//go:build linux

package bench

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// Versions that the members of classic groups speak: those of a Java client of today.
const (
	joinVersion      = 9
	syncVersion      = 5
	heartbeatVersion = 4
)

const classicSessionMs, classicRebalanceMs = 45_000, 300_000 // the defaults of the Java consumer

// classicMember is a member of a classic group, with the protocol "range".
type classicMember struct {
	*groupConn
	group, id  string
	topics     []string
	generation int32
	others     []kmsg.JoinGroupResponseMember // the leader's: everybody
	owned      []kmsg.ConsumerMemberAssignmentTopic
}

func newClassicMember(b testing.TB, addr, group string, topics []string) *classicMember {
	return &classicMember{groupConn: newGroupConn(b, addr), group: group, topics: topics}
}

func (m *classicMember) sendJoin(b testing.TB) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = joinVersion, m.group, m.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = classicSessionMs, classicRebalanceMs
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version, meta.Topics, meta.Generation = 3, m.topics, m.generation
	for _, t := range m.owned {
		meta.OwnedPartitions = append(meta.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition(t))
	}
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", meta.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	m.send(b, req)
}

// joined reads the answer to a join; false when the broker gave the member an id only, and the member has joined again with it.
func (m *classicMember) joined(b testing.TB) bool {
	b.Helper()
	resp := m.receive(b).(*kmsg.JoinGroupResponse)
	m.id = resp.MemberID
	if protocol.Code(resp.ErrorCode) == protocol.MemberIDRequired {
		m.sendJoin(b)
		return false
	}
	if resp.ErrorCode != 0 {
		b.Fatalf("join: code %d", resp.ErrorCode)
	}
	m.generation, m.others = resp.Generation, resp.Members
	return true
}

// sendSync sends the assignment of everybody, when the member is the leader.
func (m *classicMember) sendSync(b testing.TB, partitions int32) {
	req := kmsg.NewPtrSyncGroupRequest()
	kind, name := "consumer", "range"
	req.Version, req.Group, req.MemberID, req.Generation, req.ProtocolType, req.Protocol = syncVersion, m.group, m.id, m.generation, &kind, &name
	if len(m.others) > 0 {
		req.GroupAssignment = assignRange(b, m.others, partitions)
	}
	m.send(b, req)
}

func (m *classicMember) synced(b testing.TB) {
	b.Helper()
	resp := m.receive(b).(*kmsg.SyncGroupResponse)
	if resp.ErrorCode != 0 {
		b.Fatalf("sync: code %d", resp.ErrorCode)
	}
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(resp.MemberAssignment); err != nil {
		b.Fatalf("the assignment of a member: %v", err)
	}
	m.owned = a.Topics
}

func (m *classicMember) heartbeat() *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = heartbeatVersion, m.group, m.id, m.generation
	return req
}

// assignRange gives every topic's partitions to the members that want it, in order of their ids.
func assignRange(b testing.TB, members []kmsg.JoinGroupResponseMember, partitions int32) []kmsg.SyncGroupRequestGroupAssignment {
	b.Helper()
	slices.SortFunc(members, func(a, b kmsg.JoinGroupResponseMember) int {
		return bytes.Compare([]byte(a.MemberID), []byte(b.MemberID))
	})
	wanted := map[string][]int{}
	var topics []string
	for i := range members {
		var meta kmsg.ConsumerMemberMetadata
		if err := meta.ReadFrom(members[i].ProtocolMetadata); err != nil {
			b.Fatalf("the subscription of a member: %v", err)
		}
		for _, t := range meta.Topics {
			if wanted[t] == nil {
				topics = append(topics, t)
			}
			wanted[t] = append(wanted[t], i)
		}
	}
	slices.Sort(topics)
	plans := make([]kmsg.ConsumerMemberAssignment, len(members))
	turn := 0 // whose turn it is, so that nobody is left out while there are fewer partitions of a topic than members
	for _, t := range topics {
		of := wanted[t]
		mine := make([][]int32, len(of))
		for p := range partitions {
			i := (turn + int(p)*len(of)/max(int(partitions), len(of))) % len(of)
			mine[i] = append(mine[i], p)
		}
		turn += min(int(partitions), len(of))
		for i, list := range mine {
			if len(list) > 0 {
				plan := &plans[of[i]]
				plan.Topics = append(plan.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t, Partitions: list})
			}
		}
	}
	all := make([]kmsg.SyncGroupRequestGroupAssignment, len(members))
	for i := range members {
		all[i] = kmsg.SyncGroupRequestGroupAssignment{MemberID: members[i].MemberID, MemberAssignment: plans[i].AppendTo(nil)}
	}
	return all
}

// rebalance takes members of any number of groups, who have sent their join, to a generation.
func rebalance(b testing.TB, members []*classicMember, partitions int32) {
	b.Helper()
	for again := members; len(again) > 0; {
		var waiting []*classicMember
		for _, m := range again {
			if !m.joined(b) {
				waiting = append(waiting, m)
			}
		}
		again = waiting
	}
	for _, m := range members {
		m.sendSync(b, partitions)
	}
	for _, m := range members {
		m.synced(b)
	}
}

// formClassic makes classic groups of so many members, with every member at its own connection.
func formClassic(b testing.TB, addr string, groups []string, size int, topics []string, partitions int32) (members []*classicMember) {
	b.Helper()
	for _, g := range groups {
		for range size {
			members = append(members, newClassicMember(b, addr, g, topics))
		}
	}
	for _, m := range members {
		m.sendJoin(b)
	}
	rebalance(b, members, partitions)
	checkClassic(b, members, len(groups), len(topics), int(partitions))
	return members
}

// checkClassic sees that every group has given every partition to one member.
func checkClassic(b testing.TB, members []*classicMember, groups, topics, partitions int) {
	b.Helper()
	owners := map[string]partitionSet[string]{}
	generations := map[string]int32{}
	for _, m := range members {
		if owners[m.group] == nil {
			owners[m.group], generations[m.group] = partitionSet[string]{}, m.generation
		}
		if m.generation != generations[m.group] {
			b.Fatalf("members of %s are in generations %d and %d", m.group, m.generation, generations[m.group])
		}
		for _, t := range m.owned {
			owners[m.group].add(b, t.Topic, t.Partitions, m.id)
		}
	}
	for g, set := range owners {
		if !set.whole(topics, partitions) {
			b.Fatalf("the group %s does not have all partitions", g)
		}
	}
	if len(owners) != groups {
		b.Fatalf("%d groups, not %d", len(owners), groups)
	}
}

// manyNames are names in order.
func manyNames(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s-%04d", prefix, i))
	}
	return all
}
