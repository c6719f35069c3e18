//go:build linux

package bench

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

const consumerBeatVersion = 1

type topicID = [16]byte

// consumerMember is a member of a consumer group (KIP-848). It does what the Java consumer does, with listeners that take no time: what it must give up it
// gives up when it hears of it, and says so at once; what it is given it has from then on.
type consumerMember struct {
	*groupConn
	group, id  string
	instance   *string // of a static member
	topics     []string
	epoch      int32
	intervalMs int32
	owned      map[topicID][]int32
	told       bool // the coordinator has heard what is owned
	sentAt     time.Time

	// changed hears of partitions that begin or cease to be owned; may be nil.
	changed func(owns bool, topic topicID, partition int32)
}

func newConsumerMember(b testing.TB, addr, group string, topics []string) *consumerMember {
	return &consumerMember{groupConn: newGroupConn(b, addr), group: group, id: newMemberID(), topics: topics, owned: map[topicID][]int32{}}
}

func newMemberID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// beat is the heartbeat that is due: all there is to say when the member joins, what it has when that is another thing than it has said, nothing otherwise.
func (m *consumerMember) beat() *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = consumerBeatVersion, m.group, m.id, m.epoch, m.instance
	req.RebalanceTimeoutMillis = -1
	if m.epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 300_000, m.topics
		m.told = false
	}
	if !m.told {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for id, list := range m.owned {
			t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			t.TopicID, t.Partitions = id, list
			req.Topics = append(req.Topics, t)
		}
		m.told = true
	}
	return req
}

func (m *consumerMember) sendBeat(b testing.TB) {
	b.Helper()
	m.sentAt = time.Now()
	m.send(b, m.beat())
}

// heard reads the answer to a beat and does what it says. A member that is fenced gives everything up and joins anew.
func (m *consumerMember) heard(b testing.TB) {
	b.Helper()
	resp := m.receive(b).(*kmsg.ConsumerGroupHeartbeatResponse)
	switch code := protocol.Code(resp.ErrorCode); code {
	case protocol.None:
	case protocol.FencedMemberEpoch, protocol.UnknownMemberID:
		m.own(nil)
		m.epoch = 0
		return
	default:
		b.Fatalf("a heartbeat of %s: %v", m.id, code)
	}
	m.epoch, m.intervalMs = resp.MemberEpoch, resp.HeartbeatIntervalMillis
	if resp.Assignment == nil {
		return
	}
	next := map[topicID][]int32{}
	for _, t := range resp.Assignment.Topics {
		next[t.TopicID] = slices.Sorted(slices.Values(t.Partitions))
	}
	m.own(next)
}

// own makes the member have these partitions and no others.
func (m *consumerMember) own(next map[topicID][]int32) {
	m.tell(false, m.owned, next)
	m.tell(true, next, m.owned)
	m.owned = next
}

// tell tells of the partitions of a that are not in b.
func (m *consumerMember) tell(owns bool, a, b map[topicID][]int32) {
	for id, list := range a {
		for _, p := range list {
			if _, ok := slices.BinarySearch(b[id], p); ok {
				continue
			}
			m.told = false
			if m.changed != nil {
				m.changed(owns, id, p)
			}
		}
	}
}

// leave tells the coordinator that the member goes: for good, or with an instance id to come back.
func (m *consumerMember) leave(b testing.TB) {
	b.Helper()
	m.epoch = -1
	if m.instance != nil {
		m.epoch = -2
	}
	req := m.beat()
	req.Topics = nil
	resp := m.call(b, req).(*kmsg.ConsumerGroupHeartbeatResponse)
	if resp.ErrorCode != 0 {
		b.Fatalf("%s leaves: code %d", m.id, resp.ErrorCode)
	}
	m.own(nil)
	m.epoch, m.id = 0, newMemberID()
}

// settleConsumers lets all members beat until the coordinator says that every group is stable, every partition has one owner, and everybody has said so.
func settleConsumers(b testing.TB, members []*consumerMember, groups, topics, partitions int) {
	b.Helper()
	for deadline := time.Now().Add(groupPatience); ; {
		for _, m := range members {
			m.sendBeat(b)
		}
		quiet := true
		for _, m := range members {
			m.heard(b)
			quiet = quiet && m.told
		}
		if quiet && checkConsumers(b, members, groups, topics, partitions) && allStable(b, members) {
			return
		}
		if time.Now().After(deadline) {
			b.Fatal("the groups do not come to rest")
		}
	}
}

// allStable asks for the state of every group.
func allStable(b testing.TB, members []*consumerMember) bool {
	b.Helper()
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Version = 1
	for i, m := range members {
		if i == 0 || m.group != members[i-1].group {
			req.Groups = append(req.Groups, m.group)
		}
	}
	for _, g := range members[0].call(b, req).(*kmsg.ConsumerGroupDescribeResponse).Groups {
		if g.ErrorCode != 0 {
			b.Fatalf("the group %s: %v", g.Group, protocol.Code(g.ErrorCode))
		}
		if g.State != "Stable" || g.Epoch != g.AssignmentEpoch {
			return false
		}
	}
	return true
}

// checkConsumers sees that no partition has two owners in a group, and says whether all have one.
func checkConsumers(b testing.TB, members []*consumerMember, groups, topics, partitions int) bool {
	b.Helper()
	owners := map[string]partitionSet[topicID]{}
	for _, m := range members {
		if owners[m.group] == nil {
			owners[m.group] = partitionSet[topicID]{}
		}
		for t, list := range m.owned {
			if len(list) > 0 {
				owners[m.group].add(b, t, list, m.id)
			}
		}
	}
	whole := len(owners) == groups
	for _, set := range owners {
		whole = whole && set.whole(topics, partitions)
	}
	return whole
}

// formConsumers makes consumer groups of so many members, each at its own connection.
func formConsumers(b testing.TB, addr string, groups []string, size int, topics []string, partitions int) (members []*consumerMember) {
	b.Helper()
	for _, g := range groups {
		for range size {
			members = append(members, newConsumerMember(b, addr, g, topics))
		}
	}
	settleConsumers(b, members, len(groups), len(topics), partitions)
	return members
}
