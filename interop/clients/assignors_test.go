package clients

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/client/assign"
	"github.com/leatmq/leat/interop/harness"
)

// assignorPartitions is even to share among 2 and 4, and not among 3.
const assignorPartitions = 8

// assignorMembers join a group with one assignor, each under its own name as client id; the result ends them.
var assignorMembers = map[string]func(t *testing.T, addr, topic, group, assignor string) func(){"leat": leatSharer, "franz": franzSharer, "java": javaSharer, "kcat": kcatSharer}

func leatSharer(t *testing.T, addr, topic, group, assignor string) func() {
	c, err := client.New(client.Config{BootstrapServers: []string{addr}, ClientID: "leat"})
	must(t, "client", err)
	consumer, err := c.NewConsumer(client.ConsumerConfig{Group: group, Assignors: []assign.Assignor{assign.ByName(assignor)}, HeartbeatInterval: 500 * time.Millisecond, SessionTimeout: 10 * time.Second})
	must(t, "consumer", err)
	must(t, "subscribe", consumer.Subscribe(topic))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_, _ = consumer.Poll(ctx, 0)
		}
	}()
	return func() {
		cancel()
		<-done
		must(t, "close", consumer.Close(deadline(t)))
		c.Close()
	}
}

func franzSharer(t *testing.T, addr, topic, group, assignor string) func() {
	balancer := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()}[assignor]
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ClientID("franz"), kgo.Balancers(balancer), kgo.HeartbeatInterval(500*time.Millisecond))
	must(t, "client", err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx)
		}
	}()
	return func() {
		cancel()
		<-done
		cl.Close()
	}
}

func javaSharer(t *testing.T, addr, topic, group, assignor string) func() {
	class := map[string]string{"range": "RangeAssignor", "roundrobin": "RoundRobinAssignor", "sticky": "StickyAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}[assignor]
	return process(t, "java", newSeen(), "bash", harness.KafkaScript(), "tool", tools+"consumer.ConsoleConsumer", "--bootstrap-server", addr, "--topic", topic, "--group", group,
		"--command-property", "client.id=java", "--command-property", "heartbeat.interval.ms=500", "--command-property", "partition.assignment.strategy=org.apache.kafka.clients.consumer."+class)
}

func kcatSharer(t *testing.T, addr, topic, group, assignor string) func() {
	return process(t, "kcat", newSeen(), "kcat", "-b", addr, "-G", group, "-q", "-u", "-E", "-X", "client.id=kcat", "-X", "heartbeat.interval.ms=500", "-X", "partition.assignment.strategy="+assignor, topic)
}

// TestAssignorsTogether: members of four clients share a group with each of the assignors that all have. At first leat's client leads and assigns, and
// understands what the others say; then it leaves, one of the others leads, and it comes back as one of many, and is understood. With the sticky ones, nobody loses or gets more than
// must be.
func TestAssignorsTogether(t *testing.T) {
	harness.Need(t, "java", "mvn", "bash")
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		for _, a := range []assign.Assignor{assign.Range, assign.RoundRobin, assign.Sticky, assign.CooperativeSticky} {
			t.Run(a.Name(), func(t *testing.T) { together(t, p, a.Name()) })
		}
	})
}

// sharing is a group in which members come and go.
type sharing struct {
	t                      *testing.T
	p                      *harness.Peer
	topic, group, assignor string
	leave                  map[string]func()
	shares                 map[string][]int32 // of each member
}

// join adds a member, and checks that those who keep what they can get nothing.
func (s *sharing) join(who string, keep ...string) {
	s.t.Helper()
	s.leave[who] = assignorMembers[who](s.t, s.p.Addr, s.topic, s.group, s.assignor)
	before := s.settle()
	for _, k := range keep {
		if !subset(s.shares[k], before[k]) {
			s.t.Errorf("%s joined, and %s got partitions: %v became %v", who, k, before, s.shares)
		}
	}
}

// part ends a member, and checks that those who keep what they can lose nothing.
func (s *sharing) part(who string, keep ...string) {
	s.t.Helper()
	s.leave[who]()
	delete(s.leave, who)
	before := s.settle()
	for _, k := range keep {
		if !subset(before[k], s.shares[k]) {
			s.t.Errorf("%s left, and %s lost partitions: %v became %v", who, k, before, s.shares)
		}
	}
}

func (s *sharing) settle() (before map[string][]int32) {
	s.t.Helper()
	before, s.shares = s.shares, awaitShares(s.t, s.p, s.topic, s.group, s.assignor, len(s.leave))
	return before
}

func together(t *testing.T, p *harness.Peer, assignor string) {
	s := &sharing{t: t, p: p, topic: topicName("assignors"), group: topicName("group"), assignor: assignor, leave: map[string]func(){}}
	leatRun(t, p, "topic", "create", s.topic, "--partitions", fmt.Sprint(assignorPartitions))
	awaitTopic(t, p, s.topic, assignorPartitions)
	defer func() {
		for _, f := range s.leave {
			f()
		}
	}()
	keep := map[string][]string{ // those whose shares are followed, by assignor
		"sticky":             {"leat", "java"}, // franz-go forgets what it had when it revokes it for an eager rebalance, and so tells nobody
		"cooperative-sticky": {"leat", "franz", "java", "kcat"},
	}[assignor]
	s.join("leat")
	s.join("franz", present(s, keep)...)
	s.join("java", present(s, keep)...)
	if _, err := exec.LookPath("kcat"); err == nil && assignor != "sticky" { // librdkafka has no such one
		s.join("kcat", present(s, keep)...)
	}
	s.part("leat")
	s.join("leat")
	s.part("java", present(s, keep[:min(1, len(keep))])...)
}

// present is those who are in the group.
func present(s *sharing, names []string) (all []string) {
	for _, n := range names {
		if s.leave[n] != nil {
			all = append(all, n)
		}
	}
	return all
}

// subset says whether all of a are in b.
func subset(a, b []int32) bool {
	return !slices.ContainsFunc(a, func(p int32) bool { return !slices.Contains(b, p) })
}

// awaitShares waits until so many members are at rest and share all partitions evenly, and returns who has what.
func awaitShares(t *testing.T, p *harness.Peer, topic, group, assignor string, count int) map[string][]int32 {
	t.Helper()
	var last groupDescribed
	for end := time.Now().Add(groupLimit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		code, _, _ := leatGroup(t, p, "describe", group)
		if code != 0 {
			continue // it is not there yet
		}
		last = leatGroupJSON[[]groupDescribed](t, p, "describe", group)[0]
		if last.State != "Stable" || last.Protocol != assignor || len(last.Members) != count {
			continue
		}
		shares, all := map[string][]int32{}, map[int32]bool{}
		least, most := assignorPartitions, 0
		for _, m := range last.Members {
			mine := m.Assignment[topic]
			shares[m.ClientID] = mine
			least, most = min(least, len(mine)), max(most, len(mine))
			for _, n := range mine {
				all[n] = true
			}
		}
		if len(all) == assignorPartitions && most-least <= 1 {
			return shares
		}
	}
	t.Fatalf("the members do not share the partitions: %+v", last)
	return nil
}
