package differential

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinOf builds a JoinGroup of a consumer: a minute of session, a minute to rebalance, one protocol.
func joinOf(group, member string, change ...func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 60_000, 60_000
	req.Protocols = offers("range")
	for _, fn := range change {
		fn(req)
	}
	return req
}

// offers is protocols with a subscription to "t" as metadata.
func offers(names ...string) (all []kmsg.JoinGroupRequestProtocol) {
	for _, name := range names {
		p := kmsg.NewJoinGroupRequestProtocol()
		m := kmsg.NewConsumerMemberMetadata()
		m.Topics = []string{"t"}
		p.Name, p.Metadata = name, m.AppendTo(nil)
		all = append(all, p)
	}
	return all
}

// offersTopics is one protocol with a subscription to topics.
func offersTopics(name string, topics ...string) []kmsg.JoinGroupRequestProtocol {
	all := offers(name)
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	all[0].Metadata = m.AppendTo(nil)
	return all
}

// static makes a JoinGroup one of a static member.
func static(instance string) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) { r.InstanceID = &instance }
}

// syncOf builds a SyncGroup; members are given their number as assignment.
func syncOf(group, member string, generation int32, members ...string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation, req.ProtocolType, req.Protocol = group, member, generation, ptr("consumer"), ptr("range")
	for i, id := range members {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: fmt.Append(nil, i)})
	}
	return req
}

func heartbeatOf(group, member string, generation int32) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = group, member, generation
	return req
}

// leaveOf builds a LeaveGroup; up to version 2 the first member counts.
func leaveOf(group string, members ...string) *kmsg.LeaveGroupRequest {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, id := range members {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = id
		req.Members = append(req.Members, m)
	}
	if len(members) > 0 {
		req.MemberID = members[0]
	}
	return req
}

// oc is one offset to commit.
type oc struct {
	t      topic
	p      int32
	offset int64
}

// commitOf builds an OffsetCommit by a simple consumer.
func commitOf(group string, offsets ...oc) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.RetentionTimeMillis = group, -1, -1
	for _, o := range offsets {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic, t.TopicID = o.t.name, o.t.id
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.p, o.offset, 0, ptr("m")
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// by makes a commit one of a member.
func by(req *kmsg.OffsetCommitRequest, member string, generation int32) *kmsg.OffsetCommitRequest {
	req.MemberID, req.Generation = member, generation
	return req
}

// offsetsOf builds an OffsetFetch of one group for any version; without partitions of all.
func offsetsOf(group string, of ...oc) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for _, o := range of {
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = o.t.name, []int32{o.p}
		req.Topics = append(req.Topics, t)
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.TopicID, gt.Partitions = o.t.name, o.t.id, []int32{o.p}
		g.Topics = append(g.Topics, gt)
	}
	req.Groups = append(req.Groups, g)
	return req
}

func describeOf(groups ...string) *kmsg.DescribeGroupsRequest {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = groups
	return req
}

func deleteGroupsOf(groups ...string) *kmsg.DeleteGroupsRequest {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = groups
	return req
}

func offsetDeleteOf(group string, of ...oc) *kmsg.OffsetDeleteRequest {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = group
	for _, o := range of {
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = o.t.name
		t.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: o.p}}
		req.Topics = append(req.Topics, t)
	}
	return req
}

// coordinator waits until groups can be used: the first to ask finds none with Kafka.
func (s *S) coordinator(group string) {
	s.until("a coordinator", func() bool {
		resp := s.quiet(4, findOf(0, group)).(*kmsg.FindCoordinatorResponse)
		return len(resp.Coordinators) == 1 && resp.Coordinators[0].ErrorCode == 0
	})
	s.until("a group coordinator that has loaded", func() bool {
		resp := s.quiet(9, offsetsOf(group, oc{topic{name: "t"}, 0, 0})).(*kmsg.OffsetFetchResponse)
		return len(resp.Groups) == 1 && resp.Groups[0].ErrorCode == 0
	})
}

// group is the name of a group of this run, whose coordinator is there.
func (s *S) group(short string) string {
	name := s.name(short)
	s.coordinator(name)
	return name
}

// peer is another client of the same script: its answers are recorded when they are asked for.
type peer struct {
	s *S
	c *conn
	// what was sent and has no answer yet
	label string
	req   kmsg.Request
}

func (s *S) peer() *peer {
	c, err := dial(s.addr)
	if err != nil {
		s.abort("dial: %v", err)
	}
	p := &peer{s: s, c: c}
	s.peers = append(s.peers, p)
	return p
}

// send sends a request whose answer may take its time.
func (p *peer) send(label string, version int16, req kmsg.Request) {
	req.SetVersion(version)
	h := header{key: req.Key(), version: version, flexible: req.IsFlexible(), clientID: ptr("diff")}
	p.label, p.req = fmt.Sprintf("%s v%d", label, version), req
	p.c.write(p.c.request(req, h))
}

// recv records the answer.
func (p *peer) recv() kmsg.Response {
	own := p.s.c
	p.s.c = p.c
	resp := p.s.receive(answerLimit, p.label, p.req, p.c.corr)
	p.s.c = own
	return resp
}

func (p *peer) do(label string, version int16, req kmsg.Request) kmsg.Response {
	p.send(label, version, req)
	return p.recv()
}

// joinAs joins a group as its first member at a version, with the detour over a member id.
func (p *peer) joinAs(label string, version int16, group string, change ...func(*kmsg.JoinGroupRequest)) (member string, generation int32) {
	resp, ok := p.do(label, version, joinOf(group, "", change...)).(*kmsg.JoinGroupResponse)
	if ok && resp.ErrorCode == 79 {
		resp, ok = p.do(label+" again", version, joinOf(group, resp.MemberID, change...)).(*kmsg.JoinGroupResponse)
	}
	if !ok {
		p.s.abort("%s: no answer", label)
	}
	return resp.MemberID, resp.Generation
}

// stable makes a stable group of one member.
func (p *peer) stable(group string, change ...func(*kmsg.JoinGroupRequest)) (member string, generation int32) {
	member, generation = p.joinAs("join", 7, group, change...)
	p.do("sync", 4, syncOf(group, member, generation, member))
	return member, generation
}

// awaitState waits until a group is in a state.
func (s *S) awaitState(group, state string) {
	s.until("the group is "+state, func() bool {
		resp := s.quiet(5, describeOf(group)).(*kmsg.DescribeGroupsResponse)
		return resp.Groups[0].State == state
	})
}

// awaitMembers waits until a group has so many members.
func (s *S) awaitMembers(group string, n int) {
	s.until(fmt.Sprintf("the group has %d members", n), func() bool {
		resp := s.quiet(5, describeOf(group)).(*kmsg.DescribeGroupsResponse)
		return len(resp.Groups[0].Members) == n
	})
}

// --- changes to requests

func noProtocols(r *kmsg.JoinGroupRequest) { r.Protocols = nil }
func noType(r *kmsg.JoinGroupRequest)      { r.ProtocolType = "" }
func session999(r *kmsg.JoinGroupRequest)  { r.SessionTimeoutMillis = 999 }
func sessionHour(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 3_600_000 }

func ofType(name string) func(*kmsg.JoinGroupRequest) {
	return func(r *kmsg.JoinGroupRequest) { r.ProtocolType = name }
}

// named is a SyncGroup with other names.
func named(r *kmsg.SyncGroupRequest, kind, protocol *string) *kmsg.SyncGroupRequest {
	r.ProtocolType, r.Protocol = kind, protocol
	return r
}

func syncAs(instance string, r *kmsg.SyncGroupRequest) *kmsg.SyncGroupRequest {
	r.InstanceID = &instance
	return r
}

func beatAs(instance string, r *kmsg.HeartbeatRequest) *kmsg.HeartbeatRequest {
	r.InstanceID = &instance
	return r
}

// leaveAs gives the first of the members that leave an instance.
func leaveAs(r *kmsg.LeaveGroupRequest, instances ...string) *kmsg.LeaveGroupRequest {
	for i := range instances {
		r.Members[i].InstanceID = &instances[i]
	}
	return r
}

func commitAs(instance string, r *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitRequest {
	r.InstanceID = &instance
	return r
}

// noted puts metadata into the first partition of a commit.
func noted(r *kmsg.OffsetCommitRequest, metadata string) *kmsg.OffsetCommitRequest {
	r.Topics[0].Partitions[0].Metadata = &metadata
	return r
}

func onlyStable(r *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchRequest {
	r.RequireStable = true
	return r
}

func offsetsAs(member string, epoch int32, r *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchRequest {
	r.Groups[0].MemberID, r.Groups[0].MemberEpoch = &member, epoch
	return r
}

func withOperations(r *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsRequest {
	r.IncludeAuthorizedOperations = true
	return r
}

func listGroupsOf(states, types []string) *kmsg.ListGroupsRequest {
	r := kmsg.NewPtrListGroupsRequest()
	r.StatesFilter, r.TypesFilter = states, types
	return r
}
