package clients

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/leatmq/leat/interop/harness"
)

// G7: Java clients of every age that has the consumer protocol, one after the other in one group: each goes on where the one before has committed.
func TestJavaConsumerGroupVersions(t *testing.T) {
	p := harness.Shared(t, harness.LeatKind)
	topic, group := newTopic(t, p, "java-ages"), topicName("g848")
	harness.Need(t, "java", "mvn", "bash")
	for _, version := range []string{"4.0.0", "4.1.0", "4.2.0"} {
		property := "--consumer-property" // until 4.1
		if version >= "4.2" {
			property = "--command-property"
		}
		ms := messages("of "+version, perCodec)
		franzProduce(t, p.Addr, topic, ms)
		want := map[string]bool{}
		for _, m := range ms {
			want[strings.TrimSpace(m.value)] = true
		}
		out := harness.Program(t, toolLimit, nil, "env", "KAFKA_VERSION="+version, "bash", harness.KafkaScript(), "tool", tools+"consumer.ConsoleConsumer", "--bootstrap-server", p.Addr,
			"--topic", topic, "--group", group, property, "group.protocol=consumer", property, "auto.offset.reset=earliest", "--max-messages", fmt.Sprint(len(ms)), "--timeout-ms", "60000")
		var got []string
		for line := range strings.Lines(out) {
			got = append(got, strings.TrimSpace(line))
		}
		slices.Sort(got)
		equal(t, "values for "+version, strings.Join(got, "\n"), strings.Join(slices.Sorted(maps.Keys(want)), "\n"))
		d := leatGroupJSON[[]groupDescribed](t, p, "describe", group)[0]
		equal(t, "type", d.Type+" "+d.State, "consumer Empty")
	}
}
