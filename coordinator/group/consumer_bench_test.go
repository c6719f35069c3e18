package group

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// largeConsumerGroup is a stable group of members on 5,000 partitions of 50 topics.
func largeConsumerGroup(b *testing.B, members int) *sim {
	s := newSim(b)
	var names []string
	for i := range 50 {
		name := fmt.Sprintf("t%02d", i)
		names = append(names, name)
		s.names[name] = [16]byte{15: byte(i + 1)}
		s.sizes[name] = 100
	}
	s.ccfg.AssignmentIntervalMs = 1 << 30 // one target, when all have joined
	for i := range members {
		s.consumerBeat(fmt.Sprintf("m%04d", i), 0, names)
	}
	s.ccfg.AssignmentIntervalMs = 0
	g := s.s.groups["g"].membership.(*consumerGroup)
	for range 6 {
		for id, m := range g.members {
			s.consumerBeat(id, m.cur.epoch, nil)
		}
	}
	if g.stateName() != "Stable" {
		b.Fatal(g.stateName())
	}
	return s
}

// consumerBeat is a heartbeat of a member that gives up at once what it must.
func (s *sim) consumerBeat(id string, epoch int32, topics []string) {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.SubscribedTopicNames = 1, "g", id, epoch, topics
	r.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	r.RebalanceTimeoutMillis = -1
	if epoch == joinEpoch {
		r.RebalanceTimeoutMillis = 60_000
	}
	s.s.ConsumerHeartbeat(s.now, r, Client{ID: "c", Host: "/h"}, s.ticket(id), &s.out)
	s.deliver()
	s.answers = s.answers[:0]
	s.log = s.log[:0]
}

// One more member in a group of 500 on 5,000 partitions: the whole heartbeat, with its records. At most 50 ms are allowed.
func BenchmarkConsumerJoin(b *testing.B) {
	s := largeConsumerGroup(b, 500)
	var names []string
	for name := range s.names {
		names = append(names, name)
	}
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("n%d", i)
		s.consumerBeat(id, joinEpoch, names)
		b.StopTimer()
		s.consumerBeat(id, leaveEpoch, nil)
		s.consumerBeat("m0000", s.s.groups["g"].membership.(*consumerGroup).members["m0000"].cur.epoch, nil)
		b.StartTimer()
	}
}

// A heartbeat that changes nothing, of a member of 500.
func BenchmarkConsumerHeartbeat(b *testing.B) {
	s := largeConsumerGroup(b, 500)
	g := s.s.groups["g"].membership.(*consumerGroup)
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version, r.Group, r.MemberID, r.MemberEpoch, r.RebalanceTimeoutMillis = 1, "g", "m0001", g.members["m0001"].cur.epoch, -1
	g.shard.o.Topics = func() ConsumerTopics { return fixedTopics{simTopics{s}} }
	b.ReportAllocs()
	for b.Loop() {
		s.s.ConsumerHeartbeat(s.now, r, Client{ID: "c", Host: "/h"}, nil, &s.out)
		s.out.Reset()
	}
}

// fixedTopics has a version that costs nothing, as that of a broker does.
type fixedTopics struct{ simTopics }

func (fixedTopics) Version() int64 { return 1 }
