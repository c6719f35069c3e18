package clients

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

// migrant makes a consumer join a group and consume until leave is called, which commits and leaves the group. It speaks the classic protocol with an
// assignor, "range" (eager) or "cooperative-sticky", or, with "", the consumer protocol.
type migrant func(t *testing.T, addr, topic, group, member, assignor string, to *seen) (leave func())

// migrants are the clients that speak both protocols.
var migrants = map[string]migrant{"franz-go": franzMigrant, "java": javaMigrant}

func franzMigrant(t *testing.T, addr, topic, group, member, assignor string, to *seen) func() {
	opts := []kgo.Opt{kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ClientID(member), kgo.BlockRebalanceOnPoll(), kgo.DisableAutoCommit()}
	switch assignor {
	case "":
		opts = append(opts, kgo.ServerSideBalancer())
	case "range":
		opts = append(opts, kgo.Balancers(kgo.RangeBalancer()))
	default:
		opts = append(opts, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	}
	if assignor != "" {
		opts = append(opts, kgo.SessionTimeout(6*time.Second), kgo.HeartbeatInterval(500*time.Millisecond))
	}
	cl, err := kgo.NewClient(opts...)
	must(t, "client", err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			fs := cl.PollRecords(ctx, 10)
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

func javaMigrant(t *testing.T, addr, topic, group, member, assignor string, to *seen) func() {
	harness.Need(t, "java", "mvn", "bash")
	args := []string{harness.KafkaScript(), "tool", tools + "consumer.ConsoleConsumer", "--bootstrap-server", addr, "--topic", topic, "--group", group,
		"--formatter-property", "print.partition=true", "--formatter-property", "print.offset=true"}
	properties := []string{"auto.offset.reset=earliest", "auto.commit.interval.ms=200", "client.id=" + member}
	const strategy = "partition.assignment.strategy=org.apache.kafka.clients.consumer."
	switch assignor {
	case "":
		properties = append(properties, "group.protocol=consumer")
	case "range":
		properties = append(properties, "session.timeout.ms=6000", "heartbeat.interval.ms=500", strategy+"RangeAssignor")
	default:
		properties = append(properties, "session.timeout.ms=6000", "heartbeat.interval.ms=500", strategy+"CooperativeStickyAssignor")
	}
	for _, property := range properties {
		args = append(args, "--command-property", property)
	}
	return process(t, member, to, "bash", args...)
}

// TestGroupMigration: consumers of different clients in one group, under load, are replaced one by one by such of the consumer protocol, and then by
// such of the classic one again. The group changes with them; every record is seen, and what is committed never goes back.
func TestGroupMigration(t *testing.T) {
	often := []string{"group.consumer.min.heartbeat.interval.ms=500", "group.consumer.heartbeat.interval.ms=500"}
	for _, kind := range harness.Kinds() {
		start, assignors := harness.StartLeat, []string{"cooperative-sticky", "range"}
		if kind == harness.KafkaKind {
			start, assignors = harness.StartKafka, assignors[:1]
		}
		t.Run(kind, func(t *testing.T) {
			p := start(t, often...)
			for _, assignor := range assignors {
				t.Run(assignor, func(t *testing.T) { migrateGroup(t, p, assignor) })
			}
		})
	}
}

func migrateGroup(t *testing.T, p *harness.Peer, assignor string) {
	topic, group, got := newTopic(t, p, "migration"), topicName("migration"), newSeen()
	load := startLoad(t, p.Addr, topic)
	watch := watchCommits(t, p, group, topic)
	names := append(slices.Sorted(maps.Keys(migrants)), "franz-go")
	leave := make([]func(), len(names))
	join := func(i int, assignor string) {
		leave[i] = migrants[names[i]](t, p.Addr, topic, group, fmt.Sprintf("%s-%d-%s", names[i], i, assignor), assignor, got)
	}
	for i := range names {
		join(i, assignor)
	}
	got.await(t, load.sent())
	awaitType(t, p, group, "classic", len(names), 0)
	for _, to := range []string{"", assignor} {
		for i := range names {
			leave[i]()
			join(i, to)
			classic := len(names) - i - 1
			if to != "" {
				classic = i + 1
			}
			want := "consumer"
			if classic == len(names) {
				want = "classic"
			}
			began := time.Now()
			awaitType(t, p, group, want, classic, len(names)-classic)
			got.await(t, load.sent())
			t.Logf("%s with %q: %v", names[i], to, time.Since(began).Round(time.Millisecond))
		}
	}
	all := load.stop()
	got.await(t, all)
	for i := range leave {
		leave[i]()
	}
	watch()
	total := 0
	for _, n := range got.values {
		total += n
	}
	t.Logf("%d records, %d seen again", len(all), total-len(all))
}

// awaitType waits until a group is of a type, at rest, and has so many members of either protocol.
func awaitType(t *testing.T, p *harness.Peer, group, want string, classic, consumer int) {
	t.Helper()
	must(t, "the group is of type "+want, harness.Poll(groupLimit, func() error {
		if want == "classic" {
			d, err := admin(t, p).DescribeGroups(deadline(t), group)
			if err == nil {
				err = d.Error()
			}
			if g := d[group]; err == nil && (g.State != "Stable" || len(g.Members) != classic) {
				err = fmt.Errorf("%s with %d members", g.State, len(g.Members))
			}
			return err
		}
		g, n := described(t, p.Addr, group), [2]int{}
		for _, m := range g.Members {
			n[m.MemberType&1]++
		}
		if g.State != "Stable" || n != [2]int{classic, consumer} {
			return fmt.Errorf("%s with %d classic and %d consumer members", g.State, n[0], n[1])
		}
		return nil
	}))
}

// load produces all the time.
type load struct {
	mu   sync.Mutex
	ms   []message
	stop func() []message
}

// sent is what was acknowledged so far.
func (l *load) sent() []message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ms)
}

func startLoad(t *testing.T, addr, topic string) *load {
	l, ctx := &load{}, t.Context()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for round := 0; ; round++ {
			select {
			case <-quit:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			ms := messages(fmt.Sprintf("load %d %s", round, topic), 6)
			franzProduce(t, addr, topic, ms)
			l.mu.Lock()
			l.ms = append(l.ms, ms...)
			l.mu.Unlock()
		}
	}()
	l.stop = sync.OnceValue(func() []message {
		close(quit)
		<-done
		return l.sent()
	})
	t.Cleanup(func() { l.stop() })
	return l
}

// watchCommits looks at the committed offsets all the time: none may go back.
func watchCommits(t *testing.T, p *harness.Peer, group, topic string) (stop func()) {
	adm := admin(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		before := map[int32]int64{}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			resp, err := adm.FetchOffsets(ctx, group)
			if err != nil {
				continue
			}
			for part, o := range resp[topic] {
				if o.At < before[part] {
					t.Errorf("partition %d: %d was committed, and then %d", part, before[part], o.At)
				}
				before[part] = max(before[part], o.At)
			}
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}
