package client

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/client/assign"
	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// classic is a member of a classic group. It is pure: it makes the requests and takes the answers, and says what follows.
//
//	          joins                     everybody has joined        the leader has assigned
//	outside ---------> JoinGroup -----------------> SyncGroup -----------------> stable: Heartbeat
//	   ^                  ^  |                        |                            |      |
//	   |                  |  +- MEMBER_ID_REQUIRED    +- rebalance in progress -+  |      | rebalance in progress
//	   |                  +-----------------------------------------------------+--+------+
//	   +------- unknown member, illegal generation: what it had is lost
//
// In an eager group (some assignor is not cooperative) a member gives up everything before it joins. In a cooperative one it keeps what it has, learns from SyncGroup what to give up, and joins once more
// for the others to get that.
type classic struct {
	config *ConsumerConfig
	eager  bool

	memberID   string // "": not known to the group
	generation int32  // -1: none
	assignor   assign.Assignor
	leads      bool
	members    []assign.Member // of the generation, when it leads
	skip       bool            // it leads and has nothing to assign: it came back, as a static member does

	last           []TopicPartition // what it was assigned last, whether it still has it or not
	lastGeneration int32            // in which that was
}

func newClassic(config *ConsumerConfig) *classic {
	m := &classic{config: config, generation: -1, lastGeneration: -1}
	for _, a := range config.Assignors {
		m.eager = m.eager || !a.Cooperative()
	}
	return m
}

// outcome is what follows from an answer.
type outcome uint8

const (
	proceed   outcome = iota // it went well
	again                    // the same once more: at once when the answer was to have asked otherwise, else after a pause
	findAgain                // the coordinator is another one: after a pause
	rejoin                   // join, with what it has
	lost                     // it is not in the group, or not in this generation: what it had is not its own any more
	tellUser                 // the user must know, and nothing is done before he does
)

func (m *classic) who() identity {
	return identity{member: m.memberID, generation: m.generation, instance: m.instance()}
}

func (m *classic) instance() *string {
	if m.config.InstanceID == "" {
		return nil
	}
	return &m.config.InstanceID
}

// join makes the request to join. owned is what the member has now.
func (m *classic) join(topics []string, owned []TopicPartition, reason string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = m.config.Group, m.memberID, m.instance(), "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(m.config.SessionTimeout.Milliseconds()), int32(m.config.MaxPollInterval.Milliseconds())
	req.Reason = &reason
	for _, a := range m.config.Assignors {
		s := assign.Subscription{Topics: topics, Owned: owned, Generation: -1, Rack: m.config.Rack, UserData: a.UserData(m.last, m.lastGeneration)}
		if len(owned) > 0 {
			s.Generation = m.generation
		}
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = a.Name(), s.Append(nil)
		req.Protocols = append(req.Protocols, p)
	}
	return req
}

// joined takes the answer to join.
func (m *classic) joined(resp *kmsg.JoinGroupResponse) (outcome, error) {
	if protocol.Code(resp.ErrorCode) == protocol.MemberIDRequired {
		m.memberID = resp.MemberID
		return again, nil
	}
	if o, err := m.refused(resp.ErrorCode); o != proceed {
		return o, err
	}
	m.memberID, m.generation = resp.MemberID, resp.Generation
	m.leads, m.skip, m.members, m.assignor = resp.LeaderID == resp.MemberID, resp.SkipAssignment, nil, nil
	for _, a := range m.config.Assignors {
		if resp.Protocol != nil && a.Name() == *resp.Protocol {
			m.assignor = a
		}
	}
	if m.assignor == nil {
		return tellUser, &Error{Code: protocol.InconsistentGroupProtocol, Where: "group " + m.config.Group, Message: "the coordinator chose an assignor that this member does not have"}
	}
	if !m.leads {
		return proceed, nil
	}
	return m.meet(resp.Members)
}

// meet reads what the members say of themselves. One that cannot be understood gets nothing.
func (m *classic) meet(members []kmsg.JoinGroupResponseMember) (outcome, error) {
	for i := range members {
		member := assign.Member{ID: members[i].MemberID, Generation: -1}
		if members[i].InstanceID != nil {
			member.InstanceID = *members[i].InstanceID
		}
		if s, err := assign.ParseSubscription(members[i].ProtocolMetadata); err == nil {
			member.Topics, member.Owned, member.Generation, member.Rack, member.UserData = s.Topics, s.Owned, s.Generation, s.Rack, s.UserData
		}
		m.members = append(m.members, member)
	}
	return proceed, nil
}

// topics are those of all members, for the one that leads.
func (m *classic) topics() (all []string) {
	for i := range m.members {
		all = append(all, m.members[i].Topics...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sync makes the request for the assignment, with everybody's when the member leads. partitions are how many each topic has that exists.
func (m *classic) sync(partitions map[string]int32) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.config.Group, m.memberID, m.generation, m.instance()
	kind, name := "consumer", m.assignor.Name()
	req.ProtocolType, req.Protocol = &kind, &name
	if !m.leads || m.skip {
		return req
	}
	for id, given := range m.assignor.Assign(m.members, partitions) {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = id, (&assign.Assignment{Partitions: given}).Append(nil)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return req
}

// synced takes the answer to sync: what the member shall have.
func (m *classic) synced(resp *kmsg.SyncGroupResponse) ([]TopicPartition, outcome, error) {
	if o, err := m.refused(resp.ErrorCode); o != proceed {
		return nil, o, err
	}
	a, err := assign.ParseAssignment(resp.MemberAssignment)
	if err != nil {
		return nil, tellUser, fmt.Errorf("the leader of group %s assigned something that cannot be read: %w", m.config.Group, err)
	}
	m.last, m.lastGeneration = a.Partitions, m.generation
	return a.Partitions, proceed, nil
}

func (m *classic) heartbeat() *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = m.config.Group, m.memberID, m.generation, m.instance()
	return req
}

// goodbye makes the request to leave; nil when there is nothing to leave, or the member is static: it keeps its place for when it comes back.
func (m *classic) goodbye(reason string) *kmsg.LeaveGroupRequest {
	if m.memberID == "" || m.config.InstanceID != "" {
		return nil
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = m.config.Group, m.memberID
	member := kmsg.NewLeaveGroupRequestMember()
	member.MemberID, member.Reason = m.memberID, &reason
	req.Members = append(req.Members, member)
	return req
}

// outside forgets the membership.
func (m *classic) outside() { m.memberID, m.generation, m.leads, m.members = "", -1, false, nil }

// refused sorts the error codes of all answers.
func (m *classic) refused(code int16) (outcome, error) {
	err := rpc.ErrorOf(code, nil, "group "+m.config.Group)
	switch protocol.Code(code) {
	case protocol.None:
		return proceed, nil
	case protocol.NotCoordinator, protocol.CoordinatorNotAvailable:
		return findAgain, err
	case protocol.RebalanceInProgress:
		return rejoin, err
	case protocol.UnknownMemberID:
		m.outside()
		return lost, err
	case protocol.IllegalGeneration: // it is known, but missed a generation
		m.generation = -1
		return lost, err
	case protocol.FencedInstanceID:
		m.outside()
		return tellUser, err
	}
	if protocol.Code(code).Retriable() {
		return again, err
	}
	return tellUser, err
}
