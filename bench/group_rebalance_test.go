//go:build linux

package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// groupSize is one large group: its members, and its topics with so many partitions each.
type groupSize struct{ members, topics, partitions, rounds int }

var largeGroup = struct{ full, tiny groupSize }{
	full: groupSize{members: 500, topics: 50, partitions: 100, rounds: 5},
	tiny: groupSize{members: 5, topics: 3, partitions: 4, rounds: 2},
}

// BenchmarkRebalance is how long a group of 500 members on 5,000 partitions takes to let one more in. Nobody waits for the time of a heartbeat: what is measured
// is from the join of the new member until everybody has an assignment, with what the members themselves do (one goroutine for all of them); and, for
// KIP-848, the one heartbeat in which the coordinator does all the work, as its sender sees it (the records are on disk then).
func BenchmarkRebalance(b *testing.B) {
	b.Run("Classic", func(b *testing.B) {
		s := largeGroup.full
		all, cpu := classicRebalances(b, s)
		noteFact(b, fmt.Sprintf("classic group of %d members, %d partitions: one more joins, until all are synced", s.members, s.topics*s.partitions), "ms", "<= 2000 ms", all...)
		noteFact(b, "  CPU of the broker", "cpu-ms", "", cpu...)
	})
	b.Run("Consumer", func(b *testing.B) {
		s := largeGroup.full
		join, cpu, all := consumerJoins(b, s)
		noteFact(b, fmt.Sprintf("consumer group (KIP-848) of %d members, %d partitions: one more joins, its heartbeat", s.members, s.topics*s.partitions), "ms", "<= 50 ms", join...)
		noteFact(b, "  CPU of the broker", "cpu-ms", "", cpu...)
		noteFact(b, "  until all are at their target, beating without a pause", "all-ms", "", all...)
	})
}

func TestRebalance(t *testing.T) {
	t.Parallel()
	t.Run("Classic", func(t *testing.T) { classicRebalances(t, largeGroup.tiny) })
	t.Run("Consumer", func(t *testing.T) { consumerJoins(t, largeGroup.tiny) })
}

func createTopics(b testing.TB, addr string, s groupSize) (names []string) {
	b.Helper()
	names = manyNames("bench", s.topics)
	for _, name := range names {
		mustCreate(b, addr, name, int32(s.partitions))
	}
	return names
}

// classicRebalances returns milliseconds.
func classicRebalances(b testing.TB, s groupSize) (all, cpu []float64) {
	broker := startChild(b, brokerSpec(scratch(b)))
	topics := createTopics(b, broker.addr, s)
	awaitCoordinator(b, broker.addr, []string{"large"})
	members := formClassic(b, broker.addr, []string{"large"}, s.members, topics, int32(s.partitions))
	broker.profile("rebalance-classic")
	for range s.rounds {
		one := newClassicMember(b, broker.addr, "large", topics)
		before, begin := broker.usage().CPU, time.Now()
		one.sendJoin(b)
		for !one.joinsWithID(b) {
		}
		tellOfRebalance(b, members)
		for _, m := range members {
			m.sendJoin(b)
		}
		members = append(members, one)
		rebalance(b, members, int32(s.partitions))
		all = append(all, time.Since(begin).Seconds()*1000)
		cpu = append(cpu, (broker.usage().CPU-before).Seconds()*1000)
		checkClassic(b, members, 1, s.topics, s.partitions)
	}
	return all, cpu
}

// joinsWithID reads the answer to a member's first join, which gives it an id, and joins with it.
func (m *classicMember) joinsWithID(b testing.TB) bool {
	b.Helper()
	if m.id != "" {
		return true
	}
	if m.joined(b) {
		b.Fatal("a member without an id was let in")
	}
	return false
}

// tellOfRebalance lets members beat until they have heard that they must join again.
func tellOfRebalance(b testing.TB, members []*classicMember) {
	b.Helper()
	for deadline := time.Now().Add(groupPatience); len(members) > 0; {
		for _, m := range members {
			m.send(b, m.heartbeat())
		}
		var unaware []*classicMember
		for _, m := range members {
			if protocol.Code(m.receive(b).(*kmsg.HeartbeatResponse).ErrorCode) != protocol.RebalanceInProgress {
				unaware = append(unaware, m)
			}
		}
		if members = unaware; time.Now().After(deadline) {
			b.Fatal("the members are not told to join again")
		}
	}
}

// consumerJoins returns milliseconds.
func consumerJoins(b testing.TB, s groupSize) (join, cpu, all []float64) {
	spec := brokerSpec(scratch(b))
	spec.Settings = append(spec.Settings, "group.consumer.assignment.interval.ms=0") // every join is its own rebalance
	broker := startChild(b, spec)
	topics := createTopics(b, broker.addr, s)
	awaitCoordinator(b, broker.addr, []string{"large"})
	members := formConsumers(b, broker.addr, []string{"large"}, s.members, topics, s.partitions)
	broker.profile("rebalance-consumer")
	for range s.rounds {
		one := newConsumerMember(b, broker.addr, "large", topics)
		before, begin := broker.usage().CPU, time.Now()
		one.sendBeat(b)
		one.heard(b)
		join = append(join, time.Since(begin).Seconds()*1000)
		cpu = append(cpu, (broker.usage().CPU-before).Seconds()*1000)
		members = append(members, one)
		settleConsumers(b, members, 1, s.topics, s.partitions)
		all = append(all, time.Since(begin).Seconds()*1000)
		if len(one.owned) == 0 {
			b.Fatal("the new member has nothing")
		}
	}
	return join, cpu, all
}
