package group

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// restarts is a group of 3 members on 9 partitions, at rest.
func restarts(t *testing.T) (s *sim, beat func(id string, epoch int32, has ...int32) *kmsg.ConsumerGroupHeartbeatResponse) {
	s = newSim(t)
	s.names["t"], s.sizes["t"] = [16]byte{15: 1}, 9
	beat = func(id string, epoch int32, has ...int32) *kmsg.ConsumerGroupHeartbeatResponse {
		t.Helper()
		r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		r.Version, r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = 1, "g", id, epoch, -1
		r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		if epoch == joinEpoch {
			r.RebalanceTimeoutMillis, r.SubscribedTopicNames = 60_000, []string{"t"}
		}
		if len(has) > 0 {
			r.Topics = append(r.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: s.names["t"], Partitions: has})
		}
		s.s.ConsumerHeartbeat(s.now, r, Client{ID: "c", Host: "/h"}, s.ticket(id), &s.out)
		s.deliver()
		a := s.answers[len(s.answers)-1].body.(*kmsg.ConsumerGroupHeartbeatResponse)
		if a.ErrorCode != 0 {
			t.Fatalf("%s: %s", id, code(a.ErrorCode))
		}
		return a
	}
	for _, id := range []string{"a", "b", "c"} {
		beat(id, joinEpoch)
	}
	for range 4 {
		for _, id := range []string{"a", "b", "c"} {
			beat(id, s.epochOf(id))
		}
	}
	if state := s.s.groups["g"].membership.stateName(); state != "Stable" {
		t.Fatal(state)
	}
	return s, beat
}

func (s *sim) epochOf(id string) int32 {
	return s.s.groups["g"].membership.(*consumerGroup).members[id].cur.epoch
}

func partitionsIn(a *kmsg.ConsumerGroupHeartbeatResponse) (n int) {
	for _, t := range a.Assignment.Topics {
		n += len(t.Partitions)
	}
	return n
}

// A member that was restarted gets at once what nobody else has taken over: a partition is not kept for somebody who has not been heard of since it was
// given to him.
func TestRestartedMemberGetsWhatIsFree(t *testing.T) {
	for _, id := range []string{"a", "b", "c"} {
		s, beat := restarts(t)
		other := map[string]string{"a": "b", "b": "c", "c": "a"}[id]
		beat(id, leaveEpoch)
		free := 3 + 3 - partitionsIn(beat(other, s.epochOf(other))) // the third one does not come
		if free == 0 || free == 3 {
			t.Fatalf("%d partitions are free", free)
		}
		if n := partitionsIn(beat(id+"2", joinEpoch)); n != free {
			t.Errorf("%s comes back: %d partitions were free, and it got %d of them", id, free, n)
		}
	}
}

// Who waits for what others must give up first is told to come back soon, and nobody else is.
func TestWaitingMemberComesSoon(t *testing.T) {
	s, beat := restarts(t)
	beat("a", leaveEpoch)
	for range 2 {
		for _, id := range []string{"b", "c"} {
			if ms := beat(id, s.epochOf(id)).HeartbeatIntervalMillis; ms != s.ccfg.HeartbeatIntervalMs {
				t.Errorf("%s beats after %d ms", id, ms)
			}
		}
	}
	if a := beat("a2", joinEpoch); a.HeartbeatIntervalMillis != waitingBeatMs || partitionsIn(a) != 0 {
		t.Errorf("it beats after %d ms and has %d partitions, though the others must give them up first", a.HeartbeatIntervalMillis, partitionsIn(a))
	}
	for range 3 {
		for _, id := range []string{"b", "c", "a2"} {
			beat(id, s.epochOf(id))
		}
	}
	if ms := beat("a2", s.epochOf("a2")).HeartbeatIntervalMillis; ms != s.ccfg.HeartbeatIntervalMs {
		t.Errorf("at rest it beats after %d ms", ms)
	}
}

// Who waits for the next target is told to come when it is due.
func TestMemberComesForTheNextTarget(t *testing.T) {
	s, beat := restarts(t)
	s.ccfg.AssignmentIntervalMs = 1000
	beat("a", leaveEpoch) // makes a target
	s.advance(400)
	if s.s.groups["g"].membership.(*consumerGroup).target.atMs == s.now {
		t.Fatal("the target is new")
	}
	if ms := beat("a2", joinEpoch).HeartbeatIntervalMillis; ms < 1 || ms > 1000 {
		t.Errorf("it beats after %d ms", ms)
	}
	s.advance(1000)
	if n := partitionsIn(beat("a2", s.epochOf("a2"))); n != 3 {
		t.Errorf("it has %d partitions", n)
	}
}
