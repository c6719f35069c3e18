package broker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// beat is a heartbeat of a member of a consumer group.
func beat(group, member string, epoch int32, owned ...kmsg.ConsumerGroupHeartbeatRequestTopic) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = 1, group, member, epoch, -1
	req.Topics = owned
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames, req.Topics = 60_000, []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	return req
}

func (c *client) beat(req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	c.t.Helper()
	resp := do[*kmsg.ConsumerGroupHeartbeatResponse](c, req)
	wantCode(c.t, resp.ErrorCode, protocol.None)
	return resp
}

func (c *client) consumerDescribe(groups ...string) []kmsg.ConsumerGroupDescribeResponseGroup {
	return do[*kmsg.ConsumerGroupDescribeResponse](c, &kmsg.ConsumerGroupDescribeRequest{Version: 1, Groups: groups, IncludeAuthorizedOperations: true}).Groups
}

// A consumer group of two members, over a restart of the broker (G3, G4: it is shown as what it is).
func TestConsumerGroupLife(t *testing.T) {
	n := start(t, append([]string{"group.consumer.assignment.interval.ms=0"}, quickGroups...)...)
	c := n.dial()
	c.create("t", 4)
	c.findGroup("g")
	id := n.topicID("t")
	owns := func(p ...int32) kmsg.ConsumerGroupHeartbeatRequestTopic {
		return kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: id, Partitions: p}
	}
	first := c.beat(beat("g", "a", 0))
	if first.MemberEpoch != 2 || first.HeartbeatIntervalMillis != 5000 || len(first.Assignment.Topics) != 1 || len(first.Assignment.Topics[0].Partitions) != 4 {
		t.Fatalf("%+v", first)
	}
	if second := c.beat(beat("g", "b", 0)); second.MemberEpoch != 3 || len(second.Assignment.Topics) != 0 {
		t.Fatalf("%+v", second)
	}
	if a := c.beat(beat("g", "a", 2)); a.MemberEpoch != 2 || len(a.Assignment.Topics[0].Partitions) != 2 {
		t.Fatalf("%+v", a)
	}
	if b := c.beat(beat("g", "b", 3)); b.Assignment != nil {
		t.Fatalf("%+v", b)
	}
	if a := c.beat(beat("g", "a", 2, owns(0, 1))); a.MemberEpoch != 3 || a.Assignment != nil {
		t.Fatalf("%+v", a)
	}
	commit := commitRequest(10, "g", "", id, 1, 5)
	commit.MemberID, commit.Generation = "a", 3
	wantCode(t, do[*kmsg.OffsetCommitResponse](c, commit).Topics[0].Partitions[0].ErrorCode, protocol.None)
	commit.Generation = 4
	wantCode(t, do[*kmsg.OffsetCommitResponse](c, commit).Topics[0].Partitions[0].ErrorCode, protocol.StaleMemberEpoch)

	n = n.restart()
	c = n.dial()
	c.findGroup("g")
	if b := c.beat(beat("g", "b", 3)); b.MemberEpoch != 3 || len(b.Assignment.Topics[0].Partitions) != 2 {
		t.Fatalf("%+v", b)
	}
	described := c.consumerDescribe("g", "none", "g", "")
	if len(described) != 3 || described[0].State != "Stable" || described[0].Epoch != 3 || described[0].AssignmentEpoch != 3 || described[0].AssignorName != "uniform" ||
		len(described[0].Members) != 2 || described[0].AuthorizedOperations != groupOperations {
		t.Fatalf("%+v", described)
	}
	if m := described[0].Members[1]; m.MemberID != "b" || m.MemberType != 1 || m.ClientHost != "/127.0.0.1" || m.Assignment.TopicPartitions[0].Topic != "t" ||
		len(m.TargetAssignment.TopicPartitions[0].Partitions) != 2 {
		t.Fatalf("%+v", m)
	}
	wantCode(t, described[1].ErrorCode, protocol.GroupIDNotFound)
	wantCode(t, described[2].ErrorCode, protocol.InvalidGroupID)
	listed := do[*kmsg.ListGroupsResponse](c, &kmsg.ListGroupsRequest{Version: 5, TypesFilter: []string{"consumer"}})
	if len(listed.Groups) != 1 || listed.Groups[0].GroupType != "consumer" || listed.Groups[0].GroupState != "Stable" || listed.Groups[0].ProtocolType != "consumer" {
		t.Fatalf("%+v", listed)
	}
	wantCode(t, do[*kmsg.DescribeGroupsResponse](c, &kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{"g"}}).Groups[0].ErrorCode, protocol.GroupIDNotFound)
	wantCode(t, do[*kmsg.JoinGroupResponse](c, joinRequest(9, "g", "")).ErrorCode, protocol.MemberIDRequired) // it may become a member of the group
	for _, member := range []string{"a", "b"} {
		c.beat(beat("g", member, -1))
	}
	if got := c.committed("g", "t", 1); got != 5 {
		t.Fatalf("committed is %d", got)
	}
	wantCode(t, do[*kmsg.DeleteGroupsResponse](c, &kmsg.DeleteGroupsRequest{Version: 3, Groups: []string{"g"}}).Groups[0].ErrorCode, protocol.None)
	wantCode(t, c.consumerDescribe("g")[0].ErrorCode, protocol.GroupIDNotFound)
}

// A name that no record can hold is refused with the request that brings it: in the log it would keep the partition from being loaded.
func TestGroupNamesOfAnyLength(t *testing.T) {
	n := start(t, quickGroups...)
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	for _, length := range []int{1<<15 - 1, 1 << 15, 40_000} {
		long := strings.Repeat("x", length)
		member := n.dial()
		member.send(beat("g", long, 0))
		c := n.dial()
		commit := commitRequest(9, long, "t", [16]byte{}, 0, 1)
		c.send(commit)
		if length < 1<<15 {
			wantCode(t, next[*kmsg.ConsumerGroupHeartbeatResponse](member).ErrorCode, protocol.None)
			wantCode(t, next[*kmsg.OffsetCommitResponse](c).Topics[0].Partitions[0].ErrorCode, protocol.None)
			continue
		}
		member.wantClosed()
		c.wantClosed()
	}
	n = n.restart()
	c = n.dial()
	c.findGroup("g")
	if g := c.consumerDescribe("g")[0]; len(g.Members) != 1 {
		t.Fatalf("%d members", len(g.Members))
	}
}
