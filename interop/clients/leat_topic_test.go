package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

// leatRun runs a command of leat against a broker.
func leatRun(t *testing.T, p *harness.Peer, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(deadline(t), harness.LeatBinary(t), append(args, "--bootstrap-server", p.Addr)...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode(), out.String(), errs.String()
	}
	must(t, "leat", err)
	return 0, out.String(), errs.String()
}

// leatJSON is what a command prints, which must succeed.
func leatJSON[T any](t *testing.T, p *harness.Peer, args ...string) (v T) {
	t.Helper()
	code, out, errs := leatRun(t, p, append(args, "--output", "json")...)
	if code != 0 {
		t.Fatalf("leat %v: exit code %d: %s", args, code, errs)
	}
	must(t, fmt.Sprintf("JSON of leat %v", args), json.Unmarshal([]byte(out), &v))
	return v
}

type topicDescribed struct {
	Topic, TopicID string
	Configs        map[string]string
	Partitions     []struct {
		Partition, Leader, LeaderEpoch      int32
		Replicas, ISR                       []int32
		LogStartOffset, LogEndOffset, Bytes int64
	}
}

// TestLeatTopic: the commands of `leat topic` and `leat cluster` do and say the same on Kafka and on leat.
func TestLeatTopic(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := topicName("leat-topic")
		made := leatJSON[[]struct {
			Topic, TopicID    string
			Created           bool
			Partitions        int
			ReplicationFactor int
		}](t, p, "topic", "create", topic, "--partitions", "2", "--config", "retention.ms=86400000")[0]
		equal(t, "created", fmt.Sprint(made.Created, made.Partitions, made.ReplicationFactor), "true 2 1")
		code, _, errs := leatRun(t, p, "topic", "create", topic)
		equal(t, "created twice", fmt.Sprint(code, strings.Contains(errs, "exists already")), "1 true")
		code, out, _ := leatRun(t, p, "topic", "create", topic, "--if-not-exists")
		equal(t, "created twice, on purpose", fmt.Sprint(code, strings.Contains(out, "exists already")), "0 true")
		code, _, errs = leatRun(t, p, "topic", "create", topic+"-no", "--config", "no.such.key=1")
		equal(t, "an unknown key", fmt.Sprint(code, strings.Contains(errs, "INVALID_CONFIG")), "1 true")

		cl, err := kgo.NewClient(kgo.SeedBrokers(p.Addr), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		must(t, "client", err)
		defer cl.Close()
		must(t, "produce", cl.ProduceSync(deadline(t), &kgo.Record{Partition: 1, Value: []byte("a")}, &kgo.Record{Partition: 1, Value: []byte("b")}).FirstErr())

		_, out, _ = leatRun(t, p, "topic", "alter", topic, "--config", "max.message.bytes=2000000", "--delete-config", "retention.ms", "--partitions", "3")
		equal(t, "altered", strings.TrimSpace(out), fmt.Sprintf("Topic %s is altered: max.message.bytes=2000000, retention.ms back to the default, 3 partitions.", topic))
		code, _, errs = leatRun(t, p, "topic", "alter", topic, "--partitions", "1")
		equal(t, "fewer partitions", fmt.Sprint(code, strings.Contains(errs, "INVALID_PARTITIONS")), "1 true")

		d := leatJSON[[]topicDescribed](t, p, "topic", "describe", topic)[0]
		equal(t, "id", d.TopicID, made.TopicID)
		equal(t, "configs", fmt.Sprint(d.Configs), "map[max.message.bytes:2000000]")
		equal(t, "partitions", len(d.Partitions), 3)
		for i, q := range d.Partitions {
			equal(t, fmt.Sprint("partition ", i), fmt.Sprint(q.Partition, q.Leader, q.Replicas, q.ISR, q.LogStartOffset, q.LogEndOffset, q.Bytes > 0),
				fmt.Sprintf("%d 1 [1] [1] 0 %d %v", i, map[bool]int{true: 2}[i == 1], i == 1))
		}
		listed := 0
		for _, l := range leatJSON[[]struct {
			Topic      string
			Partitions int
		}](t, p, "topic", "list", "--exclude-internal") {
			if l.Topic == topic {
				listed = l.Partitions
			}
		}
		equal(t, "listed", listed, 3)
		c := leatJSON[struct {
			ClusterID string
			Brokers   []struct {
				Address string
				LogDirs []struct{ TotalBytes, UsableBytes int64 }
			}
		}](t, p, "cluster", "describe")
		equal(t, "brokers", fmt.Sprint(len(c.ClusterID), " ", c.Brokers[0].Address, " ", len(c.Brokers[0].LogDirs), c.Brokers[0].LogDirs[0].TotalBytes > 0), fmt.Sprintf("22 %s 1 true", p.Addr))

		_, out, _ = leatRun(t, p, "topic", "delete", topic)
		equal(t, "deleted", strings.TrimSpace(out), fmt.Sprintf("Topic %s is deleted.", topic))
		code, _, errs = leatRun(t, p, "topic", "delete", topic)
		equal(t, "deleted twice", fmt.Sprint(code, strings.Contains(errs, "does not exist")), "1 true")
		code, _, errs = leatRun(t, p, "topic", "describe", topic)
		equal(t, "described after that", fmt.Sprint(code, strings.Contains(errs, "does not exist")), "1 true")
	})
}
