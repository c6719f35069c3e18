package main

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func newTopic() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "topic",
		Short: "Create, look at, alter and delete topics",
		Long:  "Create, look at, alter and delete topics. Works with leat and with any other broker that speaks Kafka's protocol.",
		Example: "  leat topic create orders --partitions 12 --config retention.ms=86400000\n" +
			"  leat topic list\n" +
			"  leat topic describe orders --bootstrap-server broker:9092\n" +
			"  leat topic alter orders --partitions 24 --config cleanup.policy=compact\n" +
			"  leat topic delete orders",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTopicCreate(), newTopicList(), newTopicDescribe(), newTopicAlter(), newTopicDelete())
	return cmd
}

// parseConfigs reads --config KEY=VALUE. A value may have = and commas in it.
func parseConfigs(args []string) (map[string]string, error) {
	configs := make(map[string]string, len(args))
	for _, arg := range args {
		key, value, ok := strings.Cut(arg, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("--config %q: expected KEY=VALUE, such as retention.ms=86400000", arg)
		}
		if _, twice := configs[key]; twice {
			return nil, fmt.Errorf("--config %s is there twice", key)
		}
		configs[key] = value
	}
	return configs, nil
}

// noTopic says that there is no such topic, and where the others are.
func noTopic(addr, name string) error {
	return fmt.Errorf("topic %q does not exist on %s; `leat topic list --bootstrap-server %s` shows those that do", name, addr, addr)
}

// noPartition says that a topic has no such partition.
func noPartition(topic string, p int32, count int) error {
	return fmt.Errorf("topic %q has no partition %d; it has %s, from 0 on", topic, p, counted(count, "partition"))
}

// topicID is an id as Kafka's tools print it; "" when it is not known.
func topicID(id [16]byte) string {
	if id == [16]byte{} {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(id[:])
}
