package client

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

func consumerMember(change ...func(*ConsumerConfig)) *member {
	return newMember(classicMember(change...).config, "m1")
}

// beatText is what a heartbeat says: "EPOCH names=[..] owned=[..] all", without what it does not say.
func beatText(req *kmsg.ConsumerGroupHeartbeatRequest) string {
	text := fmt.Sprint(req.MemberEpoch)
	if req.SubscribedTopicNames != nil {
		text += fmt.Sprintf(" names=%v", req.SubscribedTopicNames)
	}
	if req.Topics != nil {
		text += " owned="
		for _, t := range req.Topics {
			text += fmt.Sprintf("%d%v", t.TopicID[0], t.Partitions)
		}
	}
	if req.RebalanceTimeoutMillis >= 0 {
		text += " all"
	}
	return text
}

func beatAnswer(epoch int32, assigned ...idPartitions) *kmsg.ConsumerGroupHeartbeatResponse {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.MemberEpoch, resp.HeartbeatIntervalMillis = epoch, 77
	for _, a := range assigned {
		if resp.Assignment == nil {
			resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
		}
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = a.topic, a.partitions
		resp.Assignment.Topics = append(resp.Assignment.Topics, t)
	}
	return resp
}

func ids(topic byte, partitions ...int32) idPartitions {
	return idPartitions{[16]byte{topic}, partitions}
}

// A member says all of itself when it joins and when an answer is missing, else only what is new.
func TestMemberSaysWhatIsNew(t *testing.T) {
	m := consumerMember()
	m.topics = []string{"t"}
	say := func(want string) {
		t.Helper()
		if got := beatText(m.heartbeat()); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	hear := func(resp *kmsg.ConsumerGroupHeartbeatResponse) {
		t.Helper()
		if o, err := m.answered(resp, m.topics, m.owned); o != proceed || err != nil {
			t.Error(o, err)
		}
	}
	say("0 names=[t] owned= all")
	hear(beatAnswer(3, ids(1, 1, 0)))
	if m.interval != 77*time.Millisecond || fmt.Sprint(m.target) != fmt.Sprint([]idPartitions{ids(1, 0, 1)}) || m.who() != (identity{member: "m1", generation: 3}) {
		t.Errorf("%+v", m)
	}
	if m.news() {
		t.Error("there is news where none is")
	}
	say("3")
	hear(beatAnswer(3))
	m.owned = m.target
	if !m.news() {
		t.Error("that it has what it was given is no news")
	}
	say("3 owned=1[0 1]")
	say("3 names=[t] owned=1[0 1] all") // there was no answer
	hear(beatAnswer(4, ids(1, 0)))
	m.topics = []string{"t", "u"}
	say("4 names=[t u]")
	hear(beatAnswer(5))
	if fmt.Sprint(m.target) != fmt.Sprint([]idPartitions{ids(1, 0)}) {
		t.Errorf("an answer without an assignment changes it: %v", m.target)
	}
	if got := beatText(m.goodbye()); got != "-1" {
		t.Errorf("it leaves with %q", got)
	}
	m.config.InstanceID = "one"
	if got := beatText(m.goodbye()); got != "-2" {
		t.Errorf("a static member leaves with %q", got)
	}
}

// What follows from each code, and what is left of the membership.
func TestMemberRefusals(t *testing.T) {
	for code, want := range map[protocol.Code]string{
		protocol.UnknownMemberID: "lost 0", protocol.FencedMemberEpoch: "lost 0", protocol.FencedInstanceID: "fatal 0", protocol.UnreleasedInstanceID: "fatal 0",
		protocol.NotCoordinator: "search 3", protocol.CoordinatorLoadInProgress: "again 3", protocol.UnsupportedAssignor: "fatal 0", protocol.GroupIDNotFound: "lost 0",
		protocol.GroupAuthorizationFailed: "fatal 0",
	} {
		m := consumerMember()
		m.epoch, m.owned = 3, []idPartitions{ids(1, 0)}
		resp := beatAnswer(9)
		resp.ErrorCode = int16(code)
		o, err := m.answered(resp, nil, nil)
		name := [...]string{"proceed", "again", "search", "rejoin", "lost", "fatal"}[o]
		if got := fmt.Sprintf("%s %d", name, m.epoch); got != want || Code(err) != code || m.epoch == 0 && m.owned != nil {
			t.Errorf("%v: %s, %v, want %s", code, got, err, want)
		}
	}
	if consumerMember().goodbye() != nil {
		t.Error("one who has not joined says good-bye")
	}
}
