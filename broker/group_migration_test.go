package broker

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/protocol"
)

// joinOwning makes a stable classic group of one member that has partitions of t.
func (c *client) joinOwning(group string, partitions ...int32) (member string, generation int32) {
	c.t.Helper()
	id := do[*kmsg.JoinGroupResponse](c, joinRequest(9, group, "")).MemberID
	joined := do[*kmsg.JoinGroupResponse](c, joinRequest(9, group, id))
	wantCode(c.t, joined.ErrorCode, protocol.None)
	sync := syncRequest(group, id, joined.Generation, id)
	a := kmsg.NewConsumerMemberAssignment()
	a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "t", Partitions: partitions}}
	sync.GroupAssignment[0].MemberAssignment = a.AppendTo(nil)
	wantCode(c.t, do[*kmsg.SyncGroupResponse](c, sync).ErrorCode, protocol.None)
	return id, joined.Generation
}

// A classic group becomes a consumer group and a classic one again; either is so after a power cut, and a member goes on with its generation.
func TestGroupMigrationSurvives(t *testing.T) {
	disk := vfs.NewMem(11)
	n := startOn(t, disk, quickGroups...)
	powerCut := func() *client {
		disk = disk.Crash(vfs.LoseUnsynced)
		n = startOn(t, disk, quickGroups...)
		c := n.dial()
		c.findGroup("g")
		return c
	}
	c := n.dial()
	c.create("t", 2)
	c.findGroup("g")
	a, generation := c.joinOwning("g", 0, 1)
	b := c.beat(beat("g", "b", 0))
	wantCode(t, b.ErrorCode, protocol.None)

	c = powerCut()
	g := c.consumerDescribe("g")[0]
	if len(g.Members) != 2 || g.Epoch != generation+1 {
		t.Fatalf("%+v", g)
	}
	for _, m := range g.Members {
		if (m.MemberType == 0) != (m.MemberID == a) || m.MemberID == a && len(m.Assignment.TopicPartitions[0].Partitions) != 2 {
			t.Errorf("%+v", m)
		}
	}
	wantCode(t, do[*kmsg.HeartbeatResponse](c, heartbeatRequest("g", a, generation)).ErrorCode, protocol.RebalanceInProgress)
	wantCode(t, c.beat(beat("g", "b", b.MemberEpoch)).ErrorCode, protocol.None)
	wantCode(t, c.beat(beat("g", "b", -1)).ErrorCode, protocol.None)

	c = powerCut()
	d := do[*kmsg.DescribeGroupsResponse](c, &kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{"g"}}).Groups[0]
	if d.State != "PreparingRebalance" || len(d.Members) != 1 || d.Members[0].MemberID != a {
		t.Fatalf("%+v", d)
	}
	joined := do[*kmsg.JoinGroupResponse](c, joinRequest(9, "g", a))
	wantCode(t, joined.ErrorCode, protocol.None)
	if joined.LeaderID != a || joined.Generation != generation+2 {
		t.Errorf("%+v", joined)
	}
}

// The policy, in any case, says which of the changes there are.
func TestGroupMigrationPolicy(t *testing.T) {
	for policy, upgrades := range map[string]bool{"DISABLED": false, "downgrade": false, "Upgrade": true, "bidirectional": true} {
		t.Run(policy, func(t *testing.T) {
			c := start(t, append([]string{"group.consumer.migration.policy=" + policy}, quickGroups...)...).dial()
			c.create("t", 2)
			c.findGroup("g")
			a, generation := c.joinOwning("g", 0, 1)
			b := do[*kmsg.ConsumerGroupHeartbeatResponse](c, beat("g", "b", 0))
			if !upgrades {
				wantCode(t, b.ErrorCode, protocol.GroupIDNotFound)
				if b.ErrorMessage == nil || !strings.Contains(*b.ErrorMessage, "group.consumer.migration.policy") {
					t.Errorf("%v", b.ErrorMessage)
				}
				wantCode(t, do[*kmsg.HeartbeatResponse](c, heartbeatRequest("g", a, generation)).ErrorCode, protocol.None)
				return
			}
			wantCode(t, b.ErrorCode, protocol.None)
			wantCode(t, c.beat(beat("g", "b", -1)).ErrorCode, protocol.None)
			still := protocol.GroupIDNotFound
			if policy == "Upgrade" {
				still = protocol.None
			}
			wantCode(t, c.consumerDescribe("g")[0].ErrorCode, still)
		})
	}
}
