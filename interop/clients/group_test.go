package clients

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/IBM/sarama"
	segmentio "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

// groupLimit is how long anything may take in which clients wait for sessions and rebalances.
const groupLimit = 3 * time.Minute

// seen is what the members of a group received.
type seen struct {
	mu      sync.Mutex
	values  map[string]int             // how often
	members map[string]map[int32]int64 // the first offset of each partition, by member
	counts  map[string]int
}

func newSeen() *seen {
	return &seen{values: map[string]int{}, members: map[string]map[int32]int64{}, counts: map[string]int{}}
}

func (s *seen) add(member string, partition int32, offset int64, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[value]++
	s.counts[member]++
	if s.members[member] == nil {
		s.members[member] = map[int32]int64{}
	}
	if _, ok := s.members[member][partition]; !ok {
		s.members[member][partition] = offset
	}
}

func (s *seen) count(member string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[member]
}

// missing is the first of the messages that nobody has seen, and how many there are.
func (s *seen) missing(ms []message) (n int, first string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range ms {
		if s.values[m.value] == 0 {
			if n++; n == 1 {
				first = fmt.Sprintf("%.40q", m.value)
			}
		}
	}
	return n, first
}

func (s *seen) await(t *testing.T, ms []message) {
	t.Helper()
	if err := harness.Poll(groupLimit, func() error {
		if n, first := s.missing(ms); n > 0 {
			return fmt.Errorf("%d of %d records have not come, the first is %s", n, len(ms), first)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// joiner makes a consumer join a group and consume until leave is called, which commits and leaves the group.
type joiner func(t *testing.T, addr, topic, group, member string, to *seen) (leave func())

// groupClients are the clients that can consume in a group.
var groupClients = map[string]joiner{"franz-go": franzJoin, "sarama": saramaJoin, "kafka-go": kafkaGoJoin, "kcat": kcatJoin, "java": javaJoin}

func franzJoin(t *testing.T, addr, topic, group, member string, to *seen) func() {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ClientID(member), kgo.BlockRebalanceOnPoll(), kgo.DisableAutoCommit())
	must(t, "client", err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fs := cl.PollFetches(ctx)
			fs.EachRecord(func(r *kgo.Record) { to.add(member, r.Partition, r.Offset, string(r.Value)) })
			_ = cl.CommitUncommittedOffsets(ctx)
			cl.AllowRebalance()
		}
	}()
	return func() {
		cancel()
		<-done
		cl.CloseAllowingRebalance()
	}
}

// saramaMember is a sarama.ConsumerGroupHandler.
type saramaMember struct {
	name string
	to   *seen
}

func (saramaMember) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (m saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for msg := range c.Messages() {
		m.to.add(m.name, msg.Partition, msg.Offset, string(msg.Value))
		s.MarkMessage(msg, "")
	}
	return nil
}

func saramaJoin(t *testing.T, addr, topic, group, member string, to *seen) func() {
	c := saramaConfig(sarama.V2_8_0_0)
	c.ClientID, c.Consumer.Offsets.Initial, c.Consumer.Offsets.AutoCommit.Interval = member, sarama.OffsetOldest, 100*time.Millisecond
	g, err := sarama.NewConsumerGroup([]string{addr}, group, c)
	must(t, "group", err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := g.Consume(ctx, []string{topic}, saramaMember{member, to}); err != nil {
				time.Sleep(100 * time.Millisecond)
			}
		}
	}()
	return func() {
		cancel()
		<-done
		g.Close()
	}
}

func kafkaGoJoin(t *testing.T, addr, topic, group, member string, to *seen) func() {
	r := segmentio.NewReader(segmentio.ReaderConfig{Brokers: []string{addr}, GroupID: group, Topic: topic, StartOffset: segmentio.FirstOffset, MaxWait: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := r.FetchMessage(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				time.Sleep(100 * time.Millisecond)
				continue
			}
			to.add(member, int32(m.Partition), m.Offset, string(m.Value))
			_ = r.CommitMessages(ctx, m)
		}
	}()
	return func() {
		cancel()
		<-done
		r.Close()
	}
}

// process runs a program that prints "partition offset value" lines until it is told to end.
func process(t *testing.T, member string, to *seen, name string, args ...string) func() {
	t.Helper()
	cmd := exec.Command(name, args...)
	out, err := cmd.StdoutPipe()
	must(t, "pipe", err)
	must(t, name, cmd.Start())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for in := bufio.NewReader(out); ; {
			line, err := in.ReadString('\n')
			if err == io.EOF {
				return
			}
			f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
			if len(f) != 3 {
				continue
			}
			p, err1 := strconv.ParseInt(strings.TrimPrefix(f[0], "Partition:"), 10, 32)
			o, err2 := strconv.ParseInt(strings.TrimPrefix(f[1], "Offset:"), 10, 64)
			if err1 == nil && err2 == nil {
				to.add(member, int32(p), o, f[2])
			}
		}
	}()
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-done
		_ = cmd.Wait()
	}
}

func kcatJoin(t *testing.T, addr, topic, group, member string, to *seen) func() {
	harness.Need(t, "kcat")
	return process(t, member, to, "kcat", "-b", addr, "-G", group, "-q", "-u", "-E", "-f", "%p\t%o\t%s\n", "-X", "auto.offset.reset=earliest", "-X", "client.id="+member,
		"-X", "auto.commit.interval.ms=200", topic)
}

func javaJoin(t *testing.T, addr, topic, group, member string, to *seen) func() {
	harness.Need(t, "java", "mvn", "bash")
	return process(t, member, to, "bash", harness.KafkaScript(), "tool", tools+"consumer.ConsoleConsumer", "--bootstrap-server", addr, "--topic", topic, "--group", group,
		"--from-beginning", "--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true", "--command-property", "auto.commit.interval.ms=200")
}

// TestGroups: of each client a member joins, a second one takes its share, the first leaves, the second leaves, and a third goes on where they were.
func TestGroups(t *testing.T) {
	for name, join := range groupClients {
		t.Run(name, func(t *testing.T) {
			harness.EachPeer(t, func(t *testing.T, p *harness.Peer) { groupLife(t, p, join) })
		})
	}
}

func groupLife(t *testing.T, p *harness.Peer, join joiner) {
	topic, group, got := newTopic(t, p, "group"), topicName("group"), newSeen()
	produce := func(label string, n int) []message {
		ms := messages(label+" "+topic, n)
		franzProduce(t, p.Addr, topic, ms)
		return ms
	}
	first := produce("first", 90)
	leaveA := join(t, p.Addr, topic, group, "a", got)
	got.await(t, first)
	leaveB := join(t, p.Addr, topic, group, "b", got)
	var all []message
	if err := harness.Poll(groupLimit, func() error {
		all = append(all, produce(fmt.Sprint("shared ", len(all)), 9)...)
		if got.count("b") == 0 {
			return fmt.Errorf("the second member has got nothing")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	got.await(t, all)
	leaveA()
	got.await(t, produce("second", 30))
	leaveB()
	committed := committedOffsets(t, p, group, topic)
	last := produce("third", 30)
	leaveC := join(t, p.Addr, topic, group, "c", got)
	got.await(t, last)
	leaveC()
	for part, offset := range got.members["c"] {
		if offset < committed[part] {
			t.Errorf("partition %d: the third member began at %d, committed was %d", part, offset, committed[part])
		}
	}
	if len(committed) != partitions {
		t.Errorf("committed are %v", committed)
	}
}

func committedOffsets(t *testing.T, p *harness.Peer, group, topic string) map[int32]int64 {
	t.Helper()
	resp, err := admin(t, p).FetchOffsets(deadline(t), group)
	must(t, "fetch offsets", err)
	out := map[int32]int64{}
	for part, o := range resp[topic] {
		if o.At >= 0 {
			out[part] = o.At
		}
	}
	return out
}

// TestGroupsSurviveKill: leat is killed with -9 while two members consume, again and again. Every record that was acknowledged is seen, and what is
// committed never goes back.
func TestGroupsSurviveKill(t *testing.T) {
	for name, join := range groupClients {
		if name == "java" {
			continue // starts too slowly to be in the way of many kills; TestGroups has it
		}
		t.Run(name, func(t *testing.T) { groupKilled(t, join) })
	}
}

func groupKilled(t *testing.T, join joiner) {
	p := harness.StartLeat(t)
	topic, group, got := newTopic(t, p, "killed"), topicName("killed"), newSeen()
	franzProduce(t, p.Addr, topic, messages("begin "+topic, 30))
	leaveA, leaveB := join(t, p.Addr, topic, group, "a", got), join(t, p.Addr, topic, group, "b", got)
	got.await(t, messages("begin "+topic, 30))
	before := map[int32]int64{}
	var all []message
	for round := range 3 {
		ms := messages(fmt.Sprintf("round %d %s", round, topic), 300)
		produced := make(chan struct{})
		go func() {
			defer close(produced)
			franzProduce(t, p.Addr, topic, ms, kgo.RecordDeliveryTimeout(groupLimit))
		}()
		time.Sleep(time.Duration(50*(round+1)) * time.Millisecond)
		p.Kill()
		must(t, "restart", p.Restart())
		<-produced
		all = append(all, ms...)
		got.await(t, all)
		now := map[int32]int64{}
		must(t, "committed offsets", harness.Poll(groupLimit, func() error {
			now = committedOffsets(t, p, group, topic)
			if len(now) != partitions {
				return fmt.Errorf("%d partitions", len(now))
			}
			return nil
		}))
		for part, offset := range before {
			if now[part] < offset {
				t.Errorf("partition %d: committed went from %d back to %d", part, offset, now[part])
			}
		}
		before = now
	}
	leaveA()
	leaveB()
}
