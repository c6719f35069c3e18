package client

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// Epochs of a member that are none.
const (
	epochJoin        = 0
	epochLeave       = -1
	epochLeaveStatic = -2 // to come back
)

// member is a member of a consumer group (KIP-848). It is pure: it makes the heartbeats, which are all there is, and takes their answers.
//
//	epoch 0    joins: says all of itself
//	epoch n    says what has changed since an answer, and is told what has changed: what it shall have
//	           It gives up first, and says so; what it gets may still be somebody's, and is told when it is free
//	fenced     or unknown: what it had is lost, and it joins again
//
// When an answer is missing, it is not known what the coordinator has heard: the next heartbeat says all.
type member struct {
	config *ConsumerConfig
	id     string
	epoch  int32
	all    bool // the next heartbeat says all

	topics, told []string       // what it subscribes to, and what the coordinator knows of that
	owned, has   []idPartitions // what the user has, and what the coordinator knows of that
	target       []idPartitions // what it shall have
	interval     time.Duration  // between heartbeats
}

// idPartitions are partitions of a topic by its id, in order.
type idPartitions struct {
	topic      [16]byte
	partitions []int32
}

func (a idPartitions) compare(b idPartitions) int {
	return cmp.Or(slices.Compare(a.topic[:], b.topic[:]), slices.Compare(a.partitions, b.partitions))
}

func equalPartitions(a, b []idPartitions) bool {
	return slices.EqualFunc(a, b, func(a, b idPartitions) bool { return a.compare(b) == 0 })
}

func newMember(config *ConsumerConfig, id string) *member {
	return &member{config: config, id: id, interval: config.HeartbeatInterval}
}

func (m *member) who() identity {
	if m.epoch <= 0 {
		return identity{generation: -1}
	}
	return identity{member: m.id, generation: m.epoch, instance: m.instance()}
}

func (m *member) instance() *string {
	if m.config.InstanceID == "" {
		return nil
	}
	return &m.config.InstanceID
}

// news says whether there is something to say before the next heartbeat is due.
func (m *member) news() bool {
	return m.epoch == epochJoin || !slices.Equal(m.topics, m.told) || !equalPartitions(m.owned, m.has)
}

// heartbeat makes the next heartbeat.
func (m *member) heartbeat() *kmsg.ConsumerGroupHeartbeatRequest {
	req := m.bare(m.epoch)
	all := m.all || m.epoch == epochJoin
	if all {
		req.RebalanceTimeoutMillis = int32(m.config.MaxPollInterval.Milliseconds())
		if m.config.Rack != "" {
			req.RackID = &m.config.Rack
		}
		if m.config.ServerAssignor != "" {
			req.ServerAssignor = &m.config.ServerAssignor
		}
	}
	if all || !slices.Equal(m.topics, m.told) {
		req.SubscribedTopicNames = append([]string{}, m.topics...)
	}
	if all || !equalPartitions(m.owned, m.has) {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, o := range m.owned {
			t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			t.TopicID, t.Partitions = o.topic, o.partitions
			req.Topics = append(req.Topics, t)
		}
	}
	m.all = true // until there is an answer
	return req
}

// bare makes a heartbeat that says nothing but who it is.
func (m *member) bare(epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = m.config.Group, m.id, epoch, m.instance()
	req.RebalanceTimeoutMillis = -1
	return req
}

// answered takes the answer to a heartbeat, which said topics and owned as they were then.
func (m *member) answered(resp *kmsg.ConsumerGroupHeartbeatResponse, topics []string, owned []idPartitions) (outcome, error) {
	if o, err := m.refused(resp.ErrorCode, resp.ErrorMessage); o != proceed {
		return o, err
	}
	if resp.MemberID != nil && *resp.MemberID != "" {
		m.id = *resp.MemberID
	}
	m.epoch, m.all, m.told, m.has = resp.MemberEpoch, false, topics, owned
	if resp.HeartbeatIntervalMillis > 0 {
		m.interval = time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond
	}
	if resp.Assignment != nil {
		m.target = nil
		for _, t := range resp.Assignment.Topics {
			m.target = append(m.target, idPartitions{t.TopicID, slices.Sorted(slices.Values(t.Partitions))})
		}
		slices.SortFunc(m.target, idPartitions.compare)
	}
	return proceed, nil
}

// goodbye makes the heartbeat that leaves; nil when there is nothing to leave.
func (m *member) goodbye() *kmsg.ConsumerGroupHeartbeatRequest {
	if m.epoch <= 0 {
		return nil
	}
	if m.config.InstanceID != "" {
		return m.bare(epochLeaveStatic)
	}
	return m.bare(epochLeave)
}

// outside forgets the membership, but for the id.
func (m *member) outside() {
	m.epoch, m.told, m.owned, m.has, m.target = epochJoin, nil, nil, nil, nil
}

// refused sorts the error codes.
func (m *member) refused(code int16, text *string) (outcome, error) {
	err := rpc.ErrorOf(code, text, "group "+m.config.Group)
	switch protocol.Code(code) {
	case protocol.None:
		return proceed, nil
	case protocol.NotCoordinator, protocol.CoordinatorNotAvailable:
		return findAgain, err
	case protocol.UnknownMemberID, protocol.FencedMemberEpoch:
		m.outside()
		return lost, err
	case protocol.FencedInstanceID:
		m.outside()
		return tellUser, err
	case protocol.GroupIDNotFound: // it is gone, with the member in it
		if m.epoch > 0 {
			m.outside()
			return lost, err
		}
		return tellUser, err
	}
	if protocol.Code(code).Retriable() {
		return again, err
	}
	m.outside()
	return tellUser, err
}
