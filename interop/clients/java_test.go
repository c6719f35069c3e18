package clients

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leatmq/leat/interop/harness"
)

const (
	tools     = "org.apache.kafka.tools."
	toolLimit = 3 * time.Minute // a JVM on a busy machine
)

func tool(t *testing.T, class string, args ...string) string {
	t.Helper()
	return harness.Tool(t, toolLimit, nil, tools+class, args...)
}

// javaConsume reads one partition with the console consumer.
func javaConsume(t *testing.T, addr, topic string, p int32, n int64) []message {
	t.Helper()
	out := tool(t, "consumer.ConsoleConsumer", "--bootstrap-server", addr, "--topic", topic, "--partition", fmt.Sprint(p), "--offset", "earliest",
		"--max-messages", fmt.Sprint(n), "--timeout-ms", "30000", "--formatter-property", "print.key=true")
	var got []message
	for line := range strings.Lines(out) {
		k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		got = append(got, message{p, k, v})
	}
	return got
}

// TestJavaConsole produces with the console producer with each codec (idempotent: its default) and reads every
// partition back. The tool's partitioner decides, so the order is compared per key.
func TestJavaConsole(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := newTopic(t, p, "java")
		var want []message
		for _, codec := range codecs {
			ms := messages(codec, perCodec)
			var in strings.Builder
			for _, m := range ms {
				in.WriteString(m.key + "\t" + m.value + "\n")
			}
			harness.Tool(t, toolLimit, strings.NewReader(in.String()), tools+"ConsoleProducer", "--bootstrap-server", p.Addr, "--topic", topic,
				"--reader-property", "parse.key=true", "--compression-codec", codec)
			want = append(want, ms...)
		}
		var got []message
		for part, n := range counts(t, p, topic) {
			if n > 0 {
				got = append(got, javaConsume(t, p.Addr, topic, part, n)...)
			}
		}
		equal(t, "records", len(got), len(want))
		codecsKept(t, p.Addr, topic, len(want))
		w, g := byKey(want), byKey(got)
		for key := range w {
			equal(t, "values of "+key, strings.Join(g[key], "\n"), strings.Join(w[key], "\n"))
		}
	})
}

func byKey(ms []message) map[string][]string {
	out := map[string][]string{}
	for _, m := range ms {
		out[m.key] = append(out[m.key], m.value)
	}
	return out
}

func TestJavaAdmin(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := topicName("java-admin")
		server := []string{"--bootstrap-server", p.Addr}
		topics := func(args ...string) string { return tool(t, "TopicCommand", append(server, args...)...) }
		configs := func(args ...string) string { return tool(t, "ConfigCommand", append(server, args...)...) }
		contains := func(what, out, part string) {
			t.Helper()
			if !strings.Contains(out, part) {
				t.Fatalf("%s: no %q in:\n%s", what, part, out)
			}
		}
		topics("--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=777777")
		awaitTopic(t, p, topic, 2)
		topics("--alter", "--topic", topic, "--partitions", fmt.Sprint(partitions))
		awaitTopic(t, p, topic, partitions)
		contains("list", topics("--list"), topic)
		described := topics("--describe", "--topic", topic)
		contains("describe", described, "PartitionCount: 3")
		contains("describe", described, "retention.ms=777777")
		contains("describe", described, "Partition: 2")

		configs("--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "retention.ms=888888,max.message.bytes=2000000")
		contains("config", configs("--describe", "--entity-type", "topics", "--entity-name", topic), "retention.ms=888888")
		configs("--alter", "--entity-type", "topics", "--entity-name", topic, "--delete-config", "max.message.bytes")
		contains("all configs", configs("--describe", "--all", "--entity-type", "topics", "--entity-name", topic), "max.message.bytes=1048588")
		contains("broker configs", configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"), "log.retention")

		franzProduce(t, p.Addr, topic, messages("admin", 30))
		contains("offsets", tool(t, "GetOffsetShell", append(server, "--topic", topic)...), topic+":1:10")
		contains("earliest offsets", tool(t, "GetOffsetShell", append(server, "--topic", topic, "--time", "earliest")...), topic+":1:0")
		contains("max timestamp", tool(t, "GetOffsetShell", append(server, "--topic", topic, "--time", "-3")...), topic+":1:")
		cut := writeFile(t, fmt.Sprintf(`{"partitions":[{"topic":%q,"partition":0,"offset":4}],"version":1}`, topic))
		contains("delete records", tool(t, "DeleteRecordsCommand", append(server, "--offset-json-file", cut)...), "low_watermark: 4")
		contains("log dirs", tool(t, "LogDirsCommand", append(server, "--describe", "--topic-list", topic)...), `"partition":"`+topic+`-0"`)
		contains("versions", tool(t, "BrokerApiVersionsCommand", server...), "Produce(0): 0 to 13")
		topics("--delete", "--topic", topic)
	})
}

func TestJavaProducers(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := newTopic(t, p, "java-producers")
		out := tool(t, "VerifiableProducer", "--bootstrap-server", p.Addr, "--topic", topic, "--max-messages", "300", "--throughput", "-1", "--acks", "-1")
		acked := 0
		for line := range strings.Lines(out) {
			var event struct{ Name string }
			if json.Unmarshal([]byte(line), &event) == nil && event.Name == "producer_send_success" {
				acked++
			}
		}
		equal(t, "acknowledged", acked, 300)
		perf := tool(t, "ProducerPerformance", "--bootstrap-server", p.Addr, "--topic", topic, "--num-records", "5000", "--record-size", "200", "--throughput", "-1",
			"--command-property", "acks=all")
		if !strings.Contains(perf, "5000 records sent") {
			t.Fatalf("ProducerPerformance: %s", perf)
		}
		total := int64(0)
		for _, n := range counts(t, p, topic) {
			total += n
		}
		equal(t, "records", total, 5300)
	})
}
