package broker

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/protocol"
)

const (
	groupResource = kmsg.ConfigResourceTypeGroupConfig
	sessionKey    = "consumer.session.timeout.ms"
	heartbeatKey  = "consumer.heartbeat.interval.ms"
)

func (c *client) listResources(kinds ...int8) string {
	c.t.Helper()
	resp := do[*kmsg.ListConfigResourcesResponse](c, &kmsg.ListConfigResourcesRequest{Version: 1, ResourceTypes: kinds})
	s := protocol.Code(resp.ErrorCode).Name()
	for _, r := range resp.ConfigResources {
		s += fmt.Sprintf(" %d:%s", r.Type, r.Name)
	}
	return s
}

// Each step of a group's configs: the answer, and what is there afterwards. The group does not exist.
func TestGroupConfigs(t *testing.T) {
	n := start(t)
	c := n.dial()
	const set, del, add = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend
	for _, s := range []struct {
		op         kmsg.IncrementalAlterConfigOp
		key, value string
		code       protocol.Code
		now        string
		source     kmsg.ConfigSource
	}{
		{del, sessionKey, "", protocol.None, "45000", kmsg.ConfigSourceDefaultConfig},
		{set, sessionKey, "50000", protocol.None, "50000", kmsg.ConfigSourceGroupConfig},
		{set, sessionKey, "60001", protocol.InvalidConfig, "50000", kmsg.ConfigSourceGroupConfig},
		{set, sessionKey, "many", protocol.InvalidConfig, "50000", kmsg.ConfigSourceGroupConfig},
		{add, sessionKey, "1", protocol.InvalidConfig, "50000", kmsg.ConfigSourceGroupConfig},
		{set, "share.session.timeout.ms", "50000", protocol.InvalidConfig, "50000", kmsg.ConfigSourceGroupConfig},
		{del, "share.session.timeout.ms", "", protocol.None, "50000", kmsg.ConfigSourceGroupConfig},
	} {
		if code := c.alter(groupResource, "g", s.op, s.key, s.value); code != s.code {
			t.Fatalf("%+v: %s", s, code.Name())
		}
		if got := c.describe(groupResource, "g", sessionKey); text(got.Value) != s.now || got.Source != s.source || got.ReadOnly {
			t.Fatalf("%+v: now %+v", s, got)
		}
	}
	if got := c.describe(groupResource, "g", sessionKey).ConfigSynonyms; len(got) != 2 || got[0].Source != kmsg.ConfigSourceGroupConfig || got[1].Name != "group."+sessionKey {
		t.Errorf("synonyms %+v", got)
	}
	c.create("t", 1)
	for want, kinds := range map[string][]int8{
		"NONE 32:g 4:1 2:t":   nil,
		"NONE 32:g":           {32, 32},
		"NONE 4:1 2:t":        {2, 4, 16, 8},
		"UNSUPPORTED_VERSION": {32, 7},
	} {
		if got := c.listResources(kinds...); got != want {
			t.Errorf("resources of %v: %s, want %s", kinds, got, want)
		}
	}
	if got := do[*kmsg.ListConfigResourcesResponse](c, &kmsg.ListConfigResourcesRequest{Version: 0}); got.ErrorCode != 0 || len(got.ConfigResources) != 0 {
		t.Errorf("client metrics: %+v", got)
	}
	n = n.restart()
	c = n.dial()
	if got := text(c.describe(groupResource, "g", sessionKey).Value); got != "50000" {
		t.Fatalf("after a restart: %s", got)
	}
	replace := kmsg.NewPtrAlterConfigsRequest()
	replace.Version, replace.Resources = 2, []kmsg.AlterConfigsRequestResource{{ResourceType: groupResource, ResourceName: "g"}}
	wantCode(t, do[*kmsg.AlterConfigsResponse](c, replace).Resources[0].ErrorCode, protocol.None)
	if got := c.listResources(32); got != "NONE" {
		t.Errorf("nothing is set any more: %s", got)
	}
	wantCode(t, int16(c.alter(groupResource, "", set, sessionKey, "50000")), protocol.InvalidRequest)
	unnamed := kmsg.NewPtrDescribeConfigsRequest()
	unnamed.Version, unnamed.Resources = 4, []kmsg.DescribeConfigsRequestResource{{ResourceType: groupResource}}
	wantCode(t, do[*kmsg.DescribeConfigsResponse](c, unnamed).Resources[0].ErrorCode, protocol.InvalidRequest)
}

// A change counts from the next heartbeat on, in both directions, and of that group only; a restart keeps it, a change of the broker's values passes it by, and
// when the group is deleted it stays.
func TestGroupConfigsAreObeyed(t *testing.T) {
	const set, del = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete
	n := start(t, quickGroups...)
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	interval := func(group string, epoch int32) int32 {
		t.Helper()
		return c.beat(beat(group, "m", epoch)).HeartbeatIntervalMillis
	}
	epoch := c.beat(beat("g", "m", 0)).MemberEpoch
	other := c.beat(beat("other", "m", 0)).MemberEpoch
	wantCode(t, int16(c.alter(groupResource, "g", set, heartbeatKey, "7000")), protocol.None)
	if got, others := interval("g", epoch), interval("other", other); got != 7000 || others != 5000 {
		t.Fatalf("after the change: %d ms, another group %d ms", got, others)
	}
	wantCode(t, int16(c.alter(kmsg.ConfigResourceTypeBroker, "", set, "group.consumer.assignment.interval.ms", "2000")), protocol.None)
	if got := n.b.groups.consumer.of("g"); got.AssignmentIntervalMs != 2000 || got.HeartbeatIntervalMs != 7000 {
		t.Fatalf("after a change of the broker: %+v", got)
	}
	n = n.restart(append([]string{"group.consumer.max.heartbeat.interval.ms=6000", "group.consumer.max.assignment.interval.ms=1500"}, quickGroups...)...)
	c = n.dial()
	if !strings.Contains(n.logs.String(), "group.consumer.assignment.interval.ms: 2000 is not from 0 to 1500") {
		t.Error("nothing is said about the broker's value that is out of the new limits")
	}
	c.create("made", 1) // all the same
	c.findGroup("g")
	if got := interval("g", epoch); got != 6000 {
		t.Fatalf("after a restart with a lower limit: %d ms", got)
	}
	c.beat(beat("g", "m", -1))
	wantCode(t, do[*kmsg.DeleteGroupsResponse](c, &kmsg.DeleteGroupsRequest{Version: 3, Groups: []string{"g"}}).Groups[0].ErrorCode, protocol.None)
	if got := text(c.describe(groupResource, "g", heartbeatKey).Value); got != "7000" {
		t.Fatalf("the deleted group has %s", got)
	}
	wantCode(t, int16(c.alter(groupResource, "g", del, heartbeatKey, "")), protocol.None)
	if got := interval("g", 0); got != 5000 {
		t.Fatalf("without a config of its own: %d ms", got)
	}
}

// The session of a group's own is the one that its members have, from their next heartbeat on.
func TestGroupSessionTimeout(t *testing.T) {
	var wall, steady atomic.Int64
	wall.Store(nowMs())
	n, err := tryStartWith(t, Options{FS: vfs.NewMem(1), Now: wall.Load, Steady: steady.Load}, quickGroups...)
	if err != nil {
		t.Fatal(err)
	}
	c := n.dial()
	c.create("t", 1)
	c.findGroup("g")
	epoch := c.beat(beat("g", "m", 0)).MemberEpoch
	wantCode(t, int16(c.alter(groupResource, "g", kmsg.IncrementalAlterConfigOpSet, sessionKey, "60000")), protocol.None)
	for range 3 {
		c.beat(beat("g", "m", epoch))
		n.awake(&steady, 55_000) // more than the broker's 45 s
	}
	c.beat(beat("g", "m", epoch))
	n.awake(&steady, 61_000)
	eventually(t, "the member to expire", func() bool { return len(c.consumerDescribe("g")[0].Members) == 0 })
}

// What was answered is there after a power cut.
func TestGroupConfigsSurvive(t *testing.T) {
	disk := vfs.NewMem(7)
	n := startOn(t, disk)
	c := n.dial()
	wantCode(t, int16(c.alter(groupResource, "g", kmsg.IncrementalAlterConfigOpSet, sessionKey, "50000")), protocol.None)
	after := disk.Crash(vfs.LoseUnsynced)
	c = startOn(t, after).dial()
	if got := text(c.describe(groupResource, "g", sessionKey).Value); got != "50000" {
		t.Fatalf("after a power cut: %s", got)
	}
}
