package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

// leatGroup runs `leat group ...` against a broker.
func leatGroup(t *testing.T, p *harness.Peer, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return leatRun(t, p, append([]string{"group"}, args...)...)
}

// leatGroupJSON is what a command prints, which must succeed.
func leatGroupJSON[T any](t *testing.T, p *harness.Peer, args ...string) (v T) {
	t.Helper()
	return leatJSON[T](t, p, append([]string{"group"}, args...)...)
}

type groupDescribed struct {
	Group, Type, State, Protocol string
	Members                      []struct {
		MemberID, ClientID, Host string
		Assignment               map[string][]int32
	}
	Partitions []struct {
		Topic           string
		Partition       int32
		CommittedOffset *int64
		LogEndOffset    *int64
		Lag             *int64
		LagSeconds      *float64
		MemberID        string
	}
}

// TestLeatGroup: the commands of `leat group` say the same of a franz-go consumer's group on Kafka and on leat; only why it rebalanced is told by leat alone.
func TestLeatGroup(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := newTopic(t, p, "leat-group")
		group := topicName("group")
		begun := time.Now().Add(-time.Minute)
		produceOld(t, p, topic, begun)
		cl := committingMember(t, p, topic, group)

		listed := leatGroupJSON[[]struct{ Group, State, ProtocolType, Type string }](t, p, "list")
		found := false
		for _, g := range listed {
			if g.Group == group {
				found = true
				equal(t, "listed", fmt.Sprint(g), fmt.Sprintf("{%s Stable consumer classic}", group))
			}
		}
		equal(t, "found in the list", found, true)

		d := leatGroupJSON[[]groupDescribed](t, p, "describe", group)[0]
		equal(t, "state", d.State+" "+d.Type+" "+d.Protocol, "Stable classic range")
		equal(t, "members", len(d.Members), 1)
		equal(t, "assignment", fmt.Sprint(d.Members[0].Assignment[topic]), "[0 1 2]")
		equal(t, "client", d.Members[0].ClientID+" "+d.Members[0].Host, "franz 127.0.0.1")
		checkLag(t, d, begun)
		explainedOf(t, p, group)
		refusedWhileActive(t, p, group, cl)
		resetAndDelete(t, p, topic, group)
	})
}

// produceOld puts ten records into each of partitions 0 and 1, a second apart, compressed, in one batch.
func produceOld(t *testing.T, p *harness.Peer, topic string, begun time.Time) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(50*time.Millisecond))
	must(t, "client", err)
	defer cl.Close()
	var rs []*kgo.Record
	for i := range 20 {
		rs = append(rs, &kgo.Record{Partition: int32(i % 2), Value: []byte("v"), Timestamp: begun.Add(time.Duration(i/2) * time.Second)})
	}
	must(t, "produce", cl.ProduceSync(deadline(t), rs...).FirstErr())
}

// committingMember consumes everything, and commits 4 of partition 0 and all of partition 1.
func committingMember(t *testing.T, p *harness.Peer, topic, group string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.ClientID("franz"), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.RangeBalancer()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, "client", err)
	t.Cleanup(cl.Close)
	ctx := deadline(t)
	for read := 0; read < 20; {
		fs := cl.PollFetches(ctx)
		must(t, "poll", fs.Err())
		read += fs.NumRecords()
	}
	must(t, "commit", cl.CommitRecords(ctx, &kgo.Record{Topic: topic, Partition: 0, Offset: 3}, &kgo.Record{Topic: topic, Partition: 1, Offset: 9}))
	return cl
}

func checkLag(t *testing.T, d groupDescribed, begun time.Time) {
	t.Helper()
	equal(t, "partitions", len(d.Partitions), 3)
	for _, r := range d.Partitions[:2] {
		equal(t, "log end", *r.LogEndOffset, 10)
		equal(t, "owner", r.MemberID, d.Members[0].MemberID)
	}
	equal(t, "lag of 0", *d.Partitions[0].Lag, 6)
	equal(t, "lag of 1", *d.Partitions[1].Lag, 0)
	equal(t, "lag of 1 in seconds", *d.Partitions[1].LagSeconds, 0)
	if age := time.Since(begun.Add(4 * time.Second)).Seconds(); *d.Partitions[0].LagSeconds > age || *d.Partitions[0].LagSeconds < 55 {
		t.Errorf("the first record that is not consumed is %.1f s old; %.1f s are told", age, *d.Partitions[0].LagSeconds)
	}
	if r := d.Partitions[2]; r.CommittedOffset != nil || r.Lag != nil || r.LagSeconds != nil {
		t.Errorf("nothing is committed of partition 2: %+v", r)
	}
}

// explainedOf: leat tells what happened, of Kafka it is said that it does not.
func explainedOf(t *testing.T, p *harness.Peer, group string) {
	t.Helper()
	e := leatGroupJSON[struct {
		State      string
		HasHistory bool
		Rebalances []struct{ Reason string }
	}](t, p, "explain", group)
	equal(t, "state", e.State, "Stable")
	equal(t, "has a history", e.HasHistory, p.Kind == harness.LeatKind)
	equal(t, "has rebalances", len(e.Rebalances) > 0, e.HasHistory)
	code, out, _ := leatGroup(t, p, "explain", group)
	equal(t, "exit code", code, 0)
	equal(t, "is said not to tell", strings.Contains(out, "only leat keeps a history of its groups"), !e.HasHistory)
}

func refusedWhileActive(t *testing.T, p *harness.Peer, group string, cl *kgo.Client) {
	t.Helper()
	for _, args := range [][]string{{"reset", group, "--to-earliest", "--execute"}, {"delete", group}} {
		code, _, errs := leatGroup(t, p, args...)
		if code != 1 || !strings.Contains(errs, "is Stable, its members would go on from where they are") || !strings.Contains(errs, "franz on 127.0.0.1") {
			t.Errorf("%v of an active group: exit code %d: %s", args, code, errs)
		}
	}
	cl.Close()
	must(t, "leave", harness.Poll(limit, func() error {
		if d := leatGroupJSON[[]groupDescribed](t, p, "describe", group)[0]; d.State != "Empty" {
			return fmt.Errorf("it is %s", d.State)
		}
		return nil
	}))
}

func resetAndDelete(t *testing.T, p *harness.Peer, topic, group string) {
	t.Helper()
	offsets := func() string {
		all, err := admin(t, p).FetchOffsets(deadline(t), group)
		must(t, "offsets", err)
		text := ""
		for n := range int32(partitions) {
			if o, ok := all.Lookup(topic, n); ok {
				text += fmt.Sprintf("%d:%d ", n, o.At)
			}
		}
		return strings.TrimSpace(text)
	}
	reset := func(want string, args ...string) {
		t.Helper()
		code, out, errs := leatGroup(t, p, append([]string{"reset", group}, args...)...)
		if code != 0 {
			t.Fatalf("reset %v: exit code %d: %s%s", args, code, out, errs)
		}
		equal(t, fmt.Sprint("offsets after reset ", args), offsets(), want)
	}
	reset("0:4 1:10", "--to-earliest")
	reset("0:0 1:0", "--to-earliest", "--execute")
	reset("0:3 1:3", "--to-offset", "3", "--execute")
	reset("0:1 1:1", "--shift-by", "-2", "--execute")
	reset("0:10 1:1", "--topic", topic+":0", "--to-latest", "--execute")
	reset("0:10 1:10 2:0", "--topic", topic, "--to-datetime", time.Now().Add(time.Hour).Format(time.RFC3339), "--execute")
	reset("0:0 1:0 2:0", "--by-duration", "PT1H", "--execute")
	for _, tc := range []struct{ args, says string }{
		{"reset " + group + " --topic missing --to-latest", `topic "missing" does not exist on ` + p.Addr},
		{"reset " + group + " --topic " + topic + ":3 --to-latest", "has no partition 3, only 0 to 2"},
		{"describe missing", `group "missing" does not exist on ` + p.Addr},
		{"explain missing", `group "missing" does not exist on ` + p.Addr},
		{"reset missing --to-latest", `group "missing" does not exist on ` + p.Addr},
		{"delete missing", `group "missing" does not exist on ` + p.Addr},
	} {
		code, out, errs := leatGroup(t, p, strings.Fields(tc.args)...)
		if code != 1 || out != "" || !strings.Contains(errs, tc.says) {
			t.Errorf("%s: exit code %d: %s%s; want %q", tc.args, code, out, errs, tc.says)
		}
	}
	code, _, errs := leatGroup(t, p, "delete", group)
	equal(t, "delete "+errs, code, 0)
	if code, _, errs = leatGroup(t, p, "describe", group); code != 1 || !strings.Contains(errs, "does not exist") {
		t.Errorf("it is there still: exit code %d: %s", code, errs)
	}
}

// TestLeatGroupOfConsumerProtocol: a group whose assignor is the broker (KIP-848) is described with the same words.
func TestLeatGroupOfConsumerProtocol(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic, group := newTopic(t, p, "leat-group-848"), topicName("group-848")
		ctx := deadline(t)
		done := make(chan string)
		go func() {
			_, err := harness.TryProgram(limit, nil, harness.KafkaScript(), "tool", tools+"consumer.ConsoleConsumer", "--bootstrap-server", p.Addr, "--topic", topic, "--group", group,
				"--consumer-property", "group.protocol=consumer", "--from-beginning", "--timeout-ms", "20000")
			done <- fmt.Sprint(err)
		}()
		var d groupDescribed
		must(t, "a stable group", harness.Poll(limit, func() error {
			code, out, errs := leatGroup(t, p, "describe", group, "--output", "json")
			var all []groupDescribed
			if code != 0 || json.Unmarshal([]byte(out), &all) != nil {
				return errors.New(errs)
			}
			if d = all[0]; d.State != "Stable" || len(d.Members) != 1 || len(d.Members[0].Assignment[topic]) != partitions {
				return errors.New(out)
			}
			return nil
		}, ctx.Done()))
		equal(t, "type", d.Type+" "+d.Protocol, "consumer uniform")
		code, out, errs := leatGroup(t, p, "explain", group)
		if code != 0 || !strings.Contains(out, "(consumer) is Stable") {
			t.Errorf("explain: exit code %d: %s%s", code, out, errs)
		}
		t.Log(<-done)
	})
}
