package broker

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// quickGroups are settings of a broker whose groups don't wait for more members.
var quickGroups = []string{"group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=5", "offsets.topic.segment.bytes=1048576"}

// findGroup looks for the coordinator of a group until there is one.
func (c *client) findGroup(group string) {
	c.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.SetVersion(6)
	req.CoordinatorKeys = []string{group}
	eventually(c.t, "a coordinator", func() bool {
		resp := do[*kmsg.FindCoordinatorResponse](c, req)
		return resp.Coordinators[0].ErrorCode == 0 && do[*kmsg.ListGroupsResponse](c, &kmsg.ListGroupsRequest{Version: 5}).ErrorCode == 0
	})
}

func joinRequest(version int16, group, member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = version, group, member, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = []string{"t"}
	p.Name, p.Metadata = "range", m.AppendTo(nil)
	req.Protocols = append(req.Protocols, p)
	return req
}

// joinAlone makes a stable group of one member.
func (c *client) joinAlone(group string) (member string, generation int32) {
	c.t.Helper()
	resp := do[*kmsg.JoinGroupResponse](c, joinRequest(9, group, ""))
	wantCode(c.t, resp.ErrorCode, protocol.MemberIDRequired)
	resp = do[*kmsg.JoinGroupResponse](c, joinRequest(9, group, resp.MemberID))
	wantCode(c.t, resp.ErrorCode, protocol.None)
	if resp.LeaderID != resp.MemberID || len(resp.Members) != 1 {
		c.t.Fatalf("%+v", resp)
	}
	synced := do[*kmsg.SyncGroupResponse](c, syncRequest(group, resp.MemberID, resp.Generation, resp.MemberID))
	wantCode(c.t, synced.ErrorCode, protocol.None)
	if string(synced.MemberAssignment) != resp.MemberID {
		c.t.Fatalf("assignment %q", synced.MemberAssignment)
	}
	return resp.MemberID, resp.Generation
}

// syncRequest gives every named member its own name as assignment.
func syncRequest(group, member string, generation int32, members ...string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 5, group, member, generation
	protocolType, name := "consumer", "range"
	req.ProtocolType, req.Protocol = &protocolType, &name
	for _, id := range members {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(id)})
	}
	return req
}

func heartbeatRequest(group, member string, generation int32) *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, group, member, generation
	return req
}

func commitRequest(version int16, group, topic string, id [16]byte, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation, req.RetentionTimeMillis = version, group, -1, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	metadata := "m"
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 7, &metadata
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// mustCommit commits as a simple consumer.
func (c *client) mustCommit(group, topic string, partition int32, offset int64) {
	c.t.Helper()
	resp := do[*kmsg.OffsetCommitResponse](c, commitRequest(9, group, topic, [16]byte{}, partition, offset))
	wantCode(c.t, resp.Topics[0].Partitions[0].ErrorCode, protocol.None)
}

func offsetFetchRequest(version int16, group string, topic string, id [16]byte, partitions ...int32) *kmsg.OffsetFetchRequest {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = version, group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if len(partitions) > 0 {
		t := kmsg.NewOffsetFetchRequestTopic()
		t.Topic, t.Partitions = topic, partitions
		req.Topics = append(req.Topics, t)
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.TopicID, gt.Partitions = topic, id, partitions
		g.Topics = append(g.Topics, gt)
	}
	req.Groups = append(req.Groups, g)
	return req
}

// committed fetches one committed offset.
func (c *client) committed(group, topic string, partition int32) int64 {
	c.t.Helper()
	resp := do[*kmsg.OffsetFetchResponse](c, offsetFetchRequest(9, group, topic, [16]byte{}, partition))
	wantCode(c.t, resp.Groups[0].ErrorCode, protocol.None)
	p := resp.Groups[0].Topics[0].Partitions[0]
	wantCode(c.t, p.ErrorCode, protocol.None)
	return p.Offset
}

// The whole life of a group through the socket: two members, a rebalance, one leaves, the group is deleted.
func TestGroupLife(t *testing.T) {
	n := start(t, quickGroups...)
	a, b, admin := n.dial(), n.dial(), n.dial()
	a.create("t", 2)
	a.findGroup("g")
	first, generation := a.joinAlone("g")
	wantCode(t, do[*kmsg.HeartbeatResponse](a, heartbeatRequest("g", first, generation)).ErrorCode, protocol.None)

	second := do[*kmsg.JoinGroupResponse](b, joinRequest(9, "g", "")).MemberID
	b.send(joinRequest(9, "g", second)) // waits for the first
	eventually(t, "the first hears of the rebalance", func() bool {
		return do[*kmsg.HeartbeatResponse](a, heartbeatRequest("g", first, generation)).ErrorCode == int16(protocol.RebalanceInProgress)
	})
	joined := do[*kmsg.JoinGroupResponse](a, joinRequest(9, "g", first))
	other := next[*kmsg.JoinGroupResponse](b)
	if joined.Generation != generation+1 || other.Generation != joined.Generation || len(joined.Members) != 2 || len(other.Members) != 0 || other.LeaderID != first {
		t.Fatalf("%+v %+v", joined, other)
	}
	b.send(syncRequest("g", second, joined.Generation))
	got := do[*kmsg.SyncGroupResponse](a, syncRequest("g", first, joined.Generation, first, second))
	if string(got.MemberAssignment) != first || string(next[*kmsg.SyncGroupResponse](b).MemberAssignment) != second {
		t.Fatalf("%+v", got)
	}

	commit := commitRequest(10, "g", "", n.topicID("t"), 0, 5)
	commit.MemberID, commit.Generation = second, joined.Generation
	wantCode(t, do[*kmsg.OffsetCommitResponse](b, commit).Topics[0].Partitions[0].ErrorCode, protocol.None)
	if got := admin.committed("g", "t", 0); got != 5 {
		t.Fatalf("committed is %d", got)
	}

	described := do[*kmsg.DescribeGroupsResponse](admin, &kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{"g", "none", "g"}})
	if len(described.Groups) != 2 || described.Groups[0].State != "Stable" || len(described.Groups[0].Members) != 2 || described.Groups[0].Members[0].ClientHost != "/127.0.0.1" {
		t.Fatalf("%+v", described)
	}
	wantCode(t, described.Groups[1].ErrorCode, protocol.GroupIDNotFound)
	listed := do[*kmsg.ListGroupsResponse](admin, &kmsg.ListGroupsRequest{Version: 5, StatesFilter: []string{"stable"}, TypesFilter: []string{"Classic"}})
	if len(listed.Groups) != 1 || listed.Groups[0].Group != "g" || listed.Groups[0].GroupType != "classic" {
		t.Fatalf("%+v", listed)
	}
	deletion := &kmsg.DeleteGroupsRequest{Version: 3, Groups: []string{"g"}}
	wantCode(t, do[*kmsg.DeleteGroupsResponse](admin, deletion).Groups[0].ErrorCode, protocol.NonEmptyGroup)
	for _, id := range []string{first, second} {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group = 5, "g"
		req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: id}}
		wantCode(t, do[*kmsg.LeaveGroupResponse](a, req).Members[0].ErrorCode, protocol.None)
	}
	wantCode(t, do[*kmsg.DeleteGroupsResponse](admin, deletion).Groups[0].ErrorCode, protocol.None)
	wantCode(t, do[*kmsg.DeleteGroupsResponse](admin, deletion).Groups[0].ErrorCode, protocol.GroupIDNotFound)
	if got := admin.committed("g", "t", 0); got != -1 {
		t.Fatalf("committed is %d", got)
	}
}

// Somebody sets the clock forward by a day, then back by two: sessions neither end nor last for ever. And while nothing waits, the broker sleeps.
func TestGroupsWhenTheClockJumps(t *testing.T) {
	const day = 24 * 3600 * 1000
	var wall, steady atomic.Int64
	wall.Store(nowMs())
	n, err := tryStartWith(t, Options{FS: vfs.NewMem(1), Now: wall.Load, Steady: steady.Load}, quickGroups...)
	if err != nil {
		t.Fatal(err)
	}
	if got := n.b.groups.tick(); got != tickIntervalIdle {
		t.Errorf("without groups the next tick is after %v", got)
	}
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	member, generation := c.joinAlone("g")
	for _, jump := range []int64{day, -2 * day} {
		wall.Add(jump)
		n.awake(&steady, 20_000) // of a session of 30 s
		if got := n.b.groups.tick(); got <= 0 || got > tickIntervalIdle {
			t.Errorf("the next tick is after %v", got)
		}
		wantCode(t, do[*kmsg.HeartbeatResponse](c, heartbeatRequest("g", member, generation)).ErrorCode, protocol.None)
	}
	n.awake(&steady, 31_000)
	eventually(t, "the member to expire", func() bool {
		return len(do[*kmsg.DescribeGroupsResponse](c, &kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{"g"}}).Groups[0].Members) == 0
	})
	wantCode(t, do[*kmsg.HeartbeatResponse](c, heartbeatRequest("g", member, generation)).ErrorCode, protocol.UnknownMemberID)
}

// awake lets time pass in which the broker runs.
func (n *node) awake(steady *atomic.Int64, ms int64) {
	for ms > 0 {
		step := min(ms, stopMs)
		steady.Add(step)
		n.b.groups.tick()
		ms -= step
	}
}

// A broker that was stopped for longer than a session hears its members before it gives them up.
func TestGroupsWhenTheBrokerIsStopped(t *testing.T) {
	var wall, steady atomic.Int64
	wall.Store(nowMs())
	n, err := tryStartWith(t, Options{FS: vfs.NewMem(1), Now: wall.Load, Steady: steady.Load}, quickGroups...)
	if err != nil {
		t.Fatal(err)
	}
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	member, generation := c.joinAlone("g")
	epoch := c.beat(beat("h", "m", 0)).MemberEpoch
	n.awake(&steady, 10_000) // of sessions of 30 s and 45 s
	members := func() int {
		return len(do[*kmsg.DescribeGroupsResponse](c, &kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{"g"}}).Groups[0].Members) + len(c.consumerDescribe("h")[0].Members)
	}
	for range 3 {
		steady.Add(600_000)
		n.b.groups.tick()
		for range 2 { // deadlines that are over come behind what was asked
			if got := members(); got != 2 {
				t.Fatalf("%d members are left", got)
			}
		}
		wantCode(t, do[*kmsg.HeartbeatResponse](c, heartbeatRequest("g", member, generation)).ErrorCode, protocol.None)
		wantCode(t, c.beat(beat("h", "m", epoch)).ErrorCode, protocol.None)
	}
	n.awake(&steady, 46_000)
	eventually(t, "the members to expire", func() bool { return members() == 0 })
}

// topicID is the id of a topic.
func (n *node) topicID(topic string) [16]byte {
	n.t.Helper()
	t := n.b.meta.Image().Topic(topic)
	if t == nil {
		n.t.Fatalf("no topic %s", topic)
	}
	return t.ID
}

// What was answered is there after a power cut, whichever unsynced pages survive (F4, B-F4); leader epochs and metadata come back as they were sent (gotcha 11).
func TestCommittedOffsetsSurvive(t *testing.T) {
	for _, mode := range []vfs.CrashMode{vfs.LoseUnsynced, vfs.KeepAll, vfs.RandomPages, vfs.Torn512} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			disk := vfs.NewMem(3)
			n := startOn(t, disk, quickGroups...)
			c := n.dial()
			c.create("t", 3)
			c.findGroup("g")
			member, generation := c.joinAlone("g")
			for i := range 20 {
				req := commitRequest(9, "g", "t", [16]byte{}, int32(i%3), int64(i))
				req.MemberID, req.Generation = member, generation
				wantCode(t, do[*kmsg.OffsetCommitResponse](c, req).Topics[0].Partitions[0].ErrorCode, protocol.None)
				c.mustCommit(fmt.Sprint("simple", i), "t", 0, int64(i))
			}
			after := disk.Crash(mode)
			n.kill()
			n = startOn(t, after, quickGroups...)
			c = n.dial()
			c.findGroup("g")
			resp := do[*kmsg.OffsetFetchResponse](c, offsetFetchRequest(9, "g", "t", [16]byte{}, 0, 1, 2))
			for i, p := range resp.Groups[0].Topics[0].Partitions {
				if want := int64([]int{18, 19, 17}[i]); p.Offset != want || p.LeaderEpoch != 7 || text(p.Metadata) != "m" {
					t.Errorf("partition %d: %+v, want %d", i, p, want)
				}
			}
			for i := range 20 {
				if got := c.committed(fmt.Sprint("simple", i), "t", 0); got != int64(i) {
					t.Errorf("simple%d is at %d", i, got)
				}
			}
			// The member goes on as if nothing had happened: the generation is in the log.
			wantCode(t, do[*kmsg.HeartbeatResponse](c, heartbeatRequest("g", member, generation)).ErrorCode, protocol.None)
			described := do[*kmsg.DescribeGroupsResponse](c, &kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{"g"}}).Groups[0]
			if described.State != "Stable" || string(described.Members[0].MemberAssignment) != member {
				t.Errorf("%+v", described)
			}
		})
	}
}

// Requests about groups before anybody looked for a coordinator, and with names that cannot be.
func TestGroupsWithoutCoordinator(t *testing.T) {
	n := start(t, quickGroups...)
	c := n.dial()
	c.create("t", 1)
	wantCode(t, do[*kmsg.JoinGroupResponse](c, joinRequest(9, "g", "")).ErrorCode, protocol.NotCoordinator)
	wantCode(t, do[*kmsg.SyncGroupResponse](c, syncRequest("g", "m", 1)).ErrorCode, protocol.NotCoordinator)
	wantCode(t, do[*kmsg.HeartbeatResponse](c, heartbeatRequest("g", "m", 1)).ErrorCode, protocol.NotCoordinator)
	wantCode(t, do[*kmsg.OffsetFetchResponse](c, offsetFetchRequest(9, "g", "t", [16]byte{}, 0)).Groups[0].ErrorCode, protocol.NotCoordinator)
	wantCode(t, do[*kmsg.OffsetFetchResponse](c, offsetFetchRequest(1, "g", "t", [16]byte{}, 0)).Topics[0].Partitions[0].ErrorCode, protocol.NotCoordinator)
	wantCode(t, do[*kmsg.OffsetCommitResponse](c, commitRequest(9, "g", "t", [16]byte{}, 0, 1)).Topics[0].Partitions[0].ErrorCode, protocol.NotCoordinator)
	wantCode(t, do[*kmsg.JoinGroupResponse](c, joinRequest(9, "", "")).ErrorCode, protocol.InvalidGroupID)
	if resp := do[*kmsg.ListGroupsResponse](c, &kmsg.ListGroupsRequest{Version: 5}); resp.ErrorCode != 0 || len(resp.Groups) != 0 {
		t.Fatalf("%+v", resp)
	}
}

// Unknown topics and partitions are refused one by one, by name and by id; the rest is committed.
func TestCommitOfUnknownPartitions(t *testing.T) {
	n := start(t, quickGroups...)
	c := n.dial()
	id := c.create("t", 1)
	c.findGroup("g")
	req := commitRequest(9, "g", "t", [16]byte{}, 0, 1)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: 1, LeaderEpoch: -1})
	req.Topics = append(req.Topics, commitRequest(9, "g", "u", [16]byte{}, 0, 1).Topics...)
	got := map[string]protocol.Code{}
	for _, topic := range do[*kmsg.OffsetCommitResponse](c, req).Topics {
		for _, p := range topic.Partitions {
			got[fmt.Sprintf("%s-%d", topic.Topic, p.Partition)] = protocol.Code(p.ErrorCode)
		}
	}
	if got["t-0"] != 0 || got["t-1"] != protocol.UnknownTopicOrPartition || got["u-0"] != protocol.UnknownTopicOrPartition || len(got) != 3 {
		t.Fatalf("%v", got)
	}
	empty := commitRequest(9, "g", "u", [16]byte{}, 0, 1)
	empty.Topics[0].Partitions = nil
	if all := do[*kmsg.OffsetCommitResponse](c, empty).Topics; len(all) != 1 || all[0].Topic != "u" || len(all[0].Partitions) != 0 {
		t.Fatalf("nothing of an unknown topic: %+v", all)
	}
	resp := do[*kmsg.OffsetCommitResponse](c, commitRequest(10, "g", "", [16]byte{1}, 0, 1))
	wantCode(t, resp.Topics[0].Partitions[0].ErrorCode, protocol.UnknownTopicID)
	fetched := do[*kmsg.OffsetFetchResponse](c, offsetFetchRequest(10, "g", "", [16]byte{1}, 0))
	wantCode(t, fetched.Groups[0].Topics[0].Partitions[0].ErrorCode, protocol.UnknownTopicID)
	fetched = do[*kmsg.OffsetFetchResponse](c, offsetFetchRequest(10, "g", "", id, 0))
	if p := fetched.Groups[0].Topics[0]; p.TopicID != id || p.Partitions[0].Offset != 1 {
		t.Fatalf("%+v", p)
	}
}

// A topic that is deleted takes what was committed with it, and one of the same name starts clean (B-F5); also after a restart.
func TestTopicDeletionForgetsOffsets(t *testing.T) {
	n := start(t, quickGroups...)
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	c.mustCommit("g", "t", 0, 5)
	c.delete("t")
	c.create("t", 1)
	if got := c.committed("g", "t", 0); got != -1 {
		t.Fatalf("the new topic is at %d", got)
	}
	c.mustCommit("g", "t", 0, 1)
	n = n.restart(quickGroups...)
	c = n.dial()
	c.findGroup("g")
	if got := c.committed("g", "t", 0); got != 1 {
		t.Fatalf("the new topic is at %d", got)
	}
}

// A client that asks ahead reads what it wrote: answers are in order, and so are effects.
func TestPipelinedCommitAndFetch(t *testing.T) {
	n := start(t, quickGroups...)
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	for i := range int64(50) {
		c.send(commitRequest(9, "g", "t", [16]byte{}, 0, i))
		c.send(offsetFetchRequest(9, "g", "t", [16]byte{}, 0))
	}
	for i := range int64(50) {
		wantCode(t, next[*kmsg.OffsetCommitResponse](c).Topics[0].Partitions[0].ErrorCode, protocol.None)
		if got := next[*kmsg.OffsetFetchResponse](c).Groups[0].Topics[0].Partitions[0].Offset; got != i {
			t.Fatalf("after the commit of %d: %d", i, got)
		}
	}
}

// What a group is told is on stable storage (B-F): no answer comes before the flush, whatever the topic's defaults and acks.
func TestGroupAnswersWaitForTheFlush(t *testing.T) {
	n, disk := startFaulty(t, "log.write.caching=true", "group.consumer.assignment.interval.ms=0", "offsets.topic.num.partitions=1", "offsets.topic.segment.bytes=1048576")
	other := n.dial()
	other.create("t", 1)
	other.findGroup("g")
	id := n.topicID("t")
	for _, req := range []kmsg.Request{commitRequest(9, "g", "t", [16]byte{}, 0, 5), commitRequest(10, "g2", "", id, 0, 5), beat("g3", "a", 0),
		&kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{"g"}}} {
		part := n.b.repl.Partition(offsetsTopic, 0)
		end := part.LogEnd()
		release := holdSyncs(disk)
		c := n.dial()
		c.send(req)
		eventually(t, "it is written", func() bool { return part.LogEnd() > end })
		for range 3 { // turns of the coordinator behind the append
			wantCode(t, do[*kmsg.ListGroupsResponse](other, &kmsg.ListGroupsRequest{Version: 5}).ErrorCode, protocol.None)
		}
		if hasInput(c) {
			t.Errorf("%T was answered before the flush", req)
		}
		release()
		eventually(t, "it is flushed", func() bool { return part.HighWatermark() == part.LogEnd() })
		eventually(t, "it is answered", func() bool { return hasInput(c) })
	}
}

// A power cut right behind the answers, in each way a disk may forget what was not synced: what was committed is committed.
func TestCrashKeepsCommittedOffsets(t *testing.T) {
	for _, mode := range vfs.CrashModes {
		t.Run(mode.String(), func(t *testing.T) {
			mem := vfs.NewMem(uint64(mode) + 3)
			offset := int64(-1)
			for round := range int64(6) {
				n := startOn(t, mem, append([]string{"log.write.caching=true"}, quickGroups...)...)
				c := n.dial()
				if round == 0 {
					c.create("t", 1, "write.caching=false")
				}
				c.findGroup("g")
				if round > 0 {
					if got := do[*kmsg.OffsetFetchResponse](c, offsetFetchRequest(9, "g", "t", [16]byte{}, 0)).Groups[0].Topics[0].Partitions[0].Offset; got != offset {
						t.Fatalf("round %d: %d is committed, want %d", round, got, offset)
					}
				}
				offset = round * 10
				c.mustCommit("g", "t", 0, offset)
				mem = mem.Crash(mode)
				n.kill()
			}
		})
	}
}

// A broker that stops answers the JoinGroups that wait.
func TestStopAnswersJoins(t *testing.T) {
	n := start(t, "offsets.topic.num.partitions=1", "group.initial.rebalance.delay.ms=600000", "offsets.topic.segment.bytes=1048576")
	c := n.dial()
	c.findGroup("g")
	c.send(joinRequest(3, "g", ""))
	eventually(t, "the member waits", func() bool {
		d := n.dial()
		return len(do[*kmsg.DescribeGroupsResponse](d, &kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{"g"}}).Groups[0].Members) == 1
	})
	var wait sync.WaitGroup
	wait.Go(n.close)
	wantCode(t, next[*kmsg.JoinGroupResponse](c).ErrorCode, protocol.NotCoordinator)
	wait.Wait()
}

// Where a group lives: Kafka's rule, over the code units of Java's strings.
func TestPartitionFor(t *testing.T) {
	for id, want := range map[string]int32{
		"": 0, "g": 3, "my-group": 12, "polygenelubricants": 0, // the hash of the last is the smallest int
		"grüße": 23, "😀": 49,
	} {
		if got := partitionFor(id, 50); got != want {
			t.Errorf("%q is in partition %d, want %d", id, got, want)
		}
	}
}

// An OffsetFetch that names one partition again and again does not get gigabytes (R14).
func TestOffsetFetchIsBounded(t *testing.T) {
	n := start(t, append([]string{"offset.metadata.max.bytes=30000"}, quickGroups...)...)
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	req := commitRequest(9, "g", "t", [16]byte{}, 0, 1)
	long := string(make([]byte, 30000))
	req.Topics[0].Partitions[0].Metadata = &long
	wantCode(t, do[*kmsg.OffsetCommitResponse](c, req).Topics[0].Partitions[0].ErrorCode, protocol.None)
	resp := do[*kmsg.OffsetFetchResponse](c, offsetFetchRequest(9, "g", "t", [16]byte{}, make([]int32, 3000)...))
	refused := 0
	for _, p := range resp.Groups[0].Topics[0].Partitions {
		if p.ErrorCode != 0 {
			refused++
		}
	}
	if refused == 0 || refused > 1000 {
		t.Fatalf("%d refused", refused)
	}
}

// Clients do not write into the topic of the groups; a record of theirs could not be told from ours.
func TestInternalTopicsAreNotWritten(t *testing.T) {
	n := start(t, quickGroups...)
	c := n.dial()
	c.findGroup("g")
	wantCode(t, c.produce(offsetsTopic, 0, plain("x")).ErrorCode, protocol.InvalidTopicException)
	c.form = kmsg.NewRequestFormatter(kmsg.FormatterClientID(adminClientID))
	wantCode(t, c.produce(offsetsTopic, 0, plain("x")).ErrorCode, protocol.None)
}

// A record that cannot be understood takes the groups of its partition out of service, and says which it is. They are never said not to exist.
func TestDamagedOffsetsRecord(t *testing.T) {
	n := start(t, append(quickGroups, "offsets.topic.num.partitions=1")...)
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	c.mustCommit("g", "t", 0, 5)
	c.form = kmsg.NewRequestFormatter(kmsg.FormatterClientID(adminClientID))
	b := record.NewBuilder(record.Options{})
	b.Append(nowMs(), []byte{0, 1, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 0}, []byte{0, 9}, nil)
	c.mustProduce(offsetsTopic, 0, b.Bytes())
	n = n.restart(append(quickGroups, "offsets.topic.num.partitions=1")...)
	c = n.dial()
	eventually(t, "the damage is found", func() bool {
		return do[*kmsg.OffsetFetchResponse](c, offsetFetchRequest(9, "g", "t", [16]byte{}, 0)).Groups[0].ErrorCode == int16(protocol.CoordinatorNotAvailable)
	})
	if log := n.logs.String(); !strings.Contains(log, "offset 1") || !strings.Contains(log, "partition=0") {
		t.Error(log)
	}
	wantCode(t, do[*kmsg.DescribeGroupsResponse](c, &kmsg.DescribeGroupsRequest{Version: 6, Groups: []string{"g"}}).Groups[0].ErrorCode, protocol.CoordinatorNotAvailable)
	wantCode(t, do[*kmsg.ListGroupsResponse](c, &kmsg.ListGroupsRequest{Version: 5}).ErrorCode, protocol.CoordinatorNotAvailable)
}
