package client

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/client/assign"
	"github.com/leatmq/leat/protocol"
)

func classicMember(change ...func(*ConsumerConfig)) *classic {
	config := ConsumerConfig{Group: "g"}
	for _, c := range change {
		c(&config)
	}
	config, err := config.withDefaults()
	if err != nil {
		panic(err)
	}
	return newClassic(&config)
}

func joinAnswer(code protocol.Code, id, leader, assignor string, members ...kmsg.JoinGroupResponseMember) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.ErrorCode, resp.MemberID, resp.LeaderID, resp.Protocol, resp.Generation, resp.Members = int16(code), id, leader, &assignor, 7, members
	return resp
}

func joinMember(id string, metadata []byte) kmsg.JoinGroupResponseMember {
	m := kmsg.NewJoinGroupResponseMember()
	m.MemberID, m.ProtocolMetadata = id, metadata
	return m
}

// A member joins, leads, assigns, and tells in the next round what it has.
func TestClassicLeads(t *testing.T) {
	m := classicMember(func(c *ConsumerConfig) { c.Assignors = []assign.Assignor{assign.CooperativeSticky} })
	if m.eager {
		t.Error("a cooperative member is eager")
	}
	req := m.join([]string{"t"}, nil, "why")
	if req.MemberID != "" || req.ProtocolType != "consumer" || len(req.Protocols) != 1 || req.Protocols[0].Name != "cooperative-sticky" || *req.Reason != "why" {
		t.Errorf("%+v", req)
	}
	if o, err := m.joined(joinAnswer(protocol.MemberIDRequired, "m1", "", "")); o != again || err != nil || m.memberID != "m1" {
		t.Errorf("%v, %v, id %q", o, err, m.memberID)
	}
	// One member cannot be understood: it gets nothing, and the others all the rest.
	o, err := m.joined(joinAnswer(0, "m1", "m1", "cooperative-sticky", joinMember("m1", req.Protocols[0].Metadata), joinMember("m2", []byte{0})))
	if o != proceed || err != nil || !m.leads || m.generation != 7 || fmt.Sprint(m.topics()) != "[t]" {
		t.Fatalf("%v, %v, %+v", o, err, m)
	}
	sync := m.sync(map[string]int32{"t": 2})
	given := map[string]string{}
	for _, a := range sync.GroupAssignment {
		parsed, err := assign.ParseAssignment(a.MemberAssignment)
		if err != nil {
			t.Error(err)
		}
		given[a.MemberID] = fmt.Sprint(parsed.Partitions)
	}
	if want := map[string]string{"m1": "[{t 0} {t 1}]", "m2": "[]"}; fmt.Sprint(given) != fmt.Sprint(want) || sync.Generation != 7 {
		t.Errorf("assigned %v, want %v", given, want)
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.MemberAssignment = (&assign.Assignment{Partitions: []TopicPartition{tp(0), tp(1)}}).Append(nil)
	mine, o, err := m.synced(resp)
	if fmt.Sprint(mine) != "[{t 0} {t 1}]" || o != proceed || err != nil {
		t.Errorf("%v, %v, %v", mine, o, err)
	}
	s, err := assign.ParseSubscription(m.join([]string{"t"}, mine, "").Protocols[0].Metadata)
	if err != nil || fmt.Sprint(s.Owned) != "[{t 0} {t 1}]" || s.Generation != 7 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A static leader that comes back does not assign again; a leaver without an id, or with an instance id, has nothing to say.
func TestClassicStatic(t *testing.T) {
	m := classicMember(func(c *ConsumerConfig) { c.InstanceID = "one" })
	answer := joinAnswer(0, "m1", "m1", "range", joinMember("m1", nil))
	answer.SkipAssignment = true
	if o, err := m.joined(answer); o != proceed || err != nil {
		t.Fatal(o, err)
	}
	if req := m.sync(map[string]int32{"t": 2}); len(req.GroupAssignment) != 0 || *req.InstanceID != "one" {
		t.Errorf("%+v", req)
	}
	if m.goodbye("") != nil {
		t.Error("a static member says good-bye")
	}
	m = classicMember()
	if m.goodbye("") != nil {
		t.Error("one without an id says good-bye")
	}
	m.memberID = "m1"
	if req := m.goodbye("why"); req.Members[0].MemberID != "m1" || *req.Members[0].Reason != "why" || req.MemberID != "m1" {
		t.Errorf("%+v", req)
	}
}

// What follows from each code, and what is left of the membership.
func TestClassicRefusals(t *testing.T) {
	for code, want := range map[protocol.Code]string{
		protocol.RebalanceInProgress: "rejoin m1 7", protocol.UnknownMemberID: "lost  -1", protocol.IllegalGeneration: "lost m1 -1", protocol.FencedInstanceID: "fatal  -1",
		protocol.NotCoordinator: "search m1 7", protocol.CoordinatorNotAvailable: "search m1 7", protocol.CoordinatorLoadInProgress: "again m1 7",
		protocol.GroupAuthorizationFailed: "fatal m1 7", protocol.InconsistentGroupProtocol: "fatal m1 7", protocol.GroupMaxSizeReached: "fatal m1 7",
	} {
		m := classicMember()
		m.memberID, m.generation = "m1", 7
		o, err := m.refused(int16(code))
		name := [...]string{"proceed", "again", "search", "rejoin", "lost", "fatal"}[o]
		if got := fmt.Sprintf("%s %s %d", name, m.memberID, m.generation); got != want || Code(err) != code {
			t.Errorf("%v: %s, %v, want %s", code, got, err, want)
		}
	}
	m := classicMember()
	if o, err := m.joined(joinAnswer(0, "m1", "m2", "unheard-of")); o != tellUser || err == nil {
		t.Errorf("an assignor that it does not have: %v, %v", o, err)
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.MemberAssignment = []byte{9}
	if _, o, err := m.synced(resp); o != tellUser || err == nil {
		t.Errorf("an assignment that is none: %v, %v", o, err)
	}
}
