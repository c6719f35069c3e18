package clients

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leatmq/leat/interop/harness"
)

// TestJavaGroupConfigs sets, shows and deletes configs of groups with kafka-configs.
func TestJavaGroupConfigs(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		group := topicName("java-group-configs")
		configs := func(args ...string) string {
			return tool(t, "ConfigCommand", append([]string{"--bootstrap-server", p.Addr, "--entity-type", "groups"}, args...)...)
		}
		shows := func(what string, args ...string) {
			t.Helper()
			must(t, what, harness.Poll(groupLimit, func() error { // Kafka shows a change a moment after it has answered
				if out := configs(append([]string{"--describe"}, args...)...); !strings.Contains(out, what) {
					return fmt.Errorf("not in:\n%s", out)
				}
				return nil
			}))
		}
		configs("--entity-name", group, "--alter", "--add-config", "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000")
		shows("consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000, DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}",
			"--entity-name", group)
		shows("consumer.assignment.interval.ms=1000", "--entity-name", group, "--all")
		shows("Dynamic configs for group " + group) // of all groups
		out, err := harness.TryProgram(toolLimit, nil, "bash", harness.KafkaScript(), "tool", tools+"ConfigCommand", "--bootstrap-server", p.Addr, "--entity-type", "groups",
			"--entity-name", group, "--alter", "--add-config", "consumer.session.timeout.ms=1")
		if err == nil || !strings.Contains(err.Error(), "InvalidConfigurationException") {
			t.Errorf("a session of 1 ms: %s, %v", out, err)
		}
		configs("--entity-name", group, "--alter", "--delete-config", "consumer.session.timeout.ms,consumer.heartbeat.interval.ms")
		shows("The group '"+group+"' doesn't exist and doesn't have dynamic config", "--entity-name", group)
	})
}
