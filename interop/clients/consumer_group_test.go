package clients

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/interop/harness"
)

// Groups of the consumer protocol (KIP-848), G7: several clients.

// readers notes who read what.
type readers struct {
	sync.Mutex
	seen map[string]int // value: how often
	by   map[string]map[int32]bool
}

func newReaders() *readers { return &readers{seen: map[string]int{}, by: map[string]map[int32]bool{}} }

func (r *readers) read(who string, partition int32, value string) {
	r.Lock()
	defer r.Unlock()
	r.seen[value]++
	if r.by[who] == nil {
		r.by[who] = map[int32]bool{}
	}
	r.by[who][partition] = true
}

func (r *readers) count() int {
	r.Lock()
	defer r.Unlock()
	return len(r.seen)
}

// await waits until all messages were read by somebody.
func (r *readers) await(t *testing.T, want []message) {
	t.Helper()
	must(t, "reading", harness.Poll(limit, func() error {
		if n := r.count(); n < len(want) {
			return fmt.Errorf("%d of %d records", n, len(want))
		}
		return nil
	}))
	for _, m := range want {
		if r.seen[m.value] == 0 {
			t.Fatalf("%.40q was not read", m.value)
		}
	}
}

// described is ConsumerGroupDescribe of a group.
func described(t *testing.T, addr, group string) kmsg.ConsumerGroupDescribeResponseGroup {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	must(t, "client", err)
	defer cl.Close()
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(deadline(t), cl)
	must(t, "describe", err)
	return resp.Groups[0]
}

// awaitConsumerGroup waits until a group is stable with so many members, which have all partitions together.
func awaitConsumerGroup(t *testing.T, addr, group string, members int) {
	t.Helper()
	must(t, "the group", harness.Poll(limit, func() error {
		g := described(t, addr, group)
		total := 0
		for _, m := range g.Members {
			for _, tp := range m.Assignment.TopicPartitions {
				total += len(tp.Partitions)
			}
		}
		if g.State != "Stable" || len(g.Members) != members || total != partitions {
			return fmt.Errorf("%s with %d members and %d partitions", g.State, len(g.Members), total)
		}
		return nil
	}))
}

// franzMember consumes as a member until stop is called.
func franzMember(t *testing.T, addr, group, who string, r *readers, opts ...kgo.Opt) (stop func()) {
	t.Helper()
	ctx := t.Context()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.ServerSideBalancer(), kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ClientID(who),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AutoCommitInterval(200 * time.Millisecond)}, opts...)...)
	must(t, "client", err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			fs := cl.PollFetches(ctx)
			if fs.IsClientClosed() || ctx.Err() != nil {
				return
			}
			fs.EachRecord(func(rec *kgo.Record) { r.read(who, rec.Partition, string(rec.Value)) })
		}
	}()
	var once sync.Once
	return func() { once.Do(func() { cl.Close(); <-done }) }
}

func TestFranzConsumerGroup(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic, group, r := newTopic(t, p, "franz-848"), topicName("g848"), newReaders()
		first := messages("first", perCodec)
		franzProduce(t, p.Addr, topic, first)
		stopA := franzMember(t, p.Addr, group, "a", r, kgo.ConsumeTopics(topic))
		defer stopA()
		r.await(t, first)
		awaitConsumerGroup(t, p.Addr, group, 1)
		stopB := franzMember(t, p.Addr, group, "b", r, kgo.ConsumeTopics(topic))
		defer stopB()
		awaitConsumerGroup(t, p.Addr, group, 2)
		second := messages("second", perCodec)
		franzProduce(t, p.Addr, topic, second)
		r.await(t, append(slices.Clone(first), second...))
		if len(r.by["b"]) == 0 {
			t.Error("the second member read nothing")
		}
		stopA()
		awaitConsumerGroup(t, p.Addr, group, 1)
		third := messages("third", perCodec)
		franzProduce(t, p.Addr, topic, third)
		r.await(t, append(append(slices.Clone(first), second...), third...))
		stopB()
		if g := described(t, p.Addr, group); g.State != "Empty" {
			t.Errorf("the group is %s", g.State)
		}
		commits, err := admin(t, p).FetchOffsets(deadline(t), group)
		must(t, "offsets", err)
		var total int64
		commits.Offsets().Each(func(o kadm.Offset) { total += o.At })
		equal(t, "committed", total, int64(len(first)+len(second)+len(third)))
	})
}

// The broker is killed while two members read, several times: every record is read, and what is committed does not go back.
func TestConsumerGroupBrokerKilled(t *testing.T) {
	p := harness.StartLeat(t, harness.SuiteSettings()...)
	topic, group, r := newTopic(t, p, "killed-848"), topicName("g848"), newReaders()
	for _, who := range []string{"a", "b"} {
		defer franzMember(t, p.Addr, group, who, r, kgo.ConsumeTopics(topic))()
	}
	var all []message
	var before int64
	for round := range 4 {
		ms := messages(fmt.Sprintf("round %d", round), perCodec)
		franzProduce(t, p.Addr, topic, ms)
		all = append(all, ms...)
		if round == 0 {
			r.await(t, all)
			awaitConsumerGroup(t, p.Addr, group, 2)
		}
		commits, err := admin(t, p).FetchOffsets(deadline(t), group)
		must(t, "offsets", err)
		var now int64
		commits.Offsets().Each(func(o kadm.Offset) { now += o.At })
		if now < before {
			t.Fatalf("%d records were committed, now %d are", before, now)
		}
		before = now
		p.Kill()
		must(t, "restart", p.Restart())
	}
	r.await(t, all)
	awaitConsumerGroup(t, p.Addr, group, 2)
}

// A pattern is a regular expression that the broker looks topics up with; a topic that comes later is found.
func TestFranzConsumerGroupPattern(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic, group, r := newTopic(t, p, "pattern-848"), topicName("g848"), newReaders()
		ms := messages("x", perCodec)
		franzProduce(t, p.Addr, topic, ms)
		defer franzMember(t, p.Addr, group, "a", r, kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+topic+".*"))()
		r.await(t, ms)
	})
}

func TestJavaConsumerGroup(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic, group := newTopic(t, p, "java-848"), topicName("g848")
		consume := func(n int, more ...string) (values []string) {
			out := tool(t, "consumer.ConsoleConsumer", append([]string{"--bootstrap-server", p.Addr, "--group", group, "--command-property", "group.protocol=consumer",
				"--command-property", "auto.offset.reset=earliest", "--max-messages", fmt.Sprint(n), "--timeout-ms", "60000"}, more...)...)
			for line := range strings.Lines(out) {
				values = append(values, strings.TrimSpace(line))
			}
			slices.Sort(values)
			return values
		}
		for round, more := range [][]string{{"--topic", topic}, {"--include", topic + ".*"}} {
			ms := messages(fmt.Sprintf("round %d", round), perCodec)
			franzProduce(t, p.Addr, topic, ms)
			want := map[string]bool{}
			for _, m := range ms {
				want[strings.TrimSpace(m.value)] = true
			}
			equal(t, "values", strings.Join(consume(len(ms), more...), "\n"), strings.Join(slices.Sorted(maps.Keys(want)), "\n"))
		}
		out := tool(t, "consumer.group.ConsumerGroupCommand", "--bootstrap-server", p.Addr, "--describe", "--group", group, "--state")
		if !strings.Contains(out, "Empty") {
			t.Errorf("kafka-consumer-groups says %s", out)
		}
	})
}
