package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

// listedTopic is a topic as `leat topic list --output json` shows it.
type listedTopic struct {
	Topic             string `json:"topic"`
	ID                string `json:"topicId,omitempty"`
	Partitions        int    `json:"partitions"`
	ReplicationFactor int    `json:"replicationFactor"`
	Internal          bool   `json:"internal"`
	Offline           int    `json:"offlinePartitions"`         // without a leader
	UnderReplicated   int    `json:"underReplicatedPartitions"` // with fewer replicas in sync than it has
}

func newTopicList() *cobra.Command {
	var (
		f               clusterFlags
		excludeInternal bool
	)
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List topics with their partitions and what is wrong with them",
		Example: "  leat topic list\n  leat topic list --exclude-internal --output json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, func(ctx context.Context, c *admin.Client) error {
				topics, err := c.AllTopics(ctx)
				if err != nil {
					return err
				}
				rows := []listedTopic{}
				for i := range topics {
					if !topics[i].Internal || !excludeInternal {
						rows = append(rows, listTopic(&topics[i]))
					}
				}
				return f.printTopics(cmd, rows)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&excludeInternal, "exclude-internal", false, "leave out the broker's own topics, such as __consumer_offsets")
	return cmd
}

func listTopic(t *admin.TopicInfo) listedTopic {
	r := listedTopic{Topic: t.Name, ID: topicID(t.ID), Partitions: len(t.Partitions), Internal: t.Internal}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		r.ReplicationFactor = max(r.ReplicationFactor, len(p.Replicas))
		if p.Leader < 0 {
			r.Offline++
		}
		if len(p.ISR) < len(p.Replicas) {
			r.UnderReplicated++
		}
	}
	return r
}

func (f *clusterFlags) printTopics(cmd *cobra.Command, rows []listedTopic) error {
	if f.output == "json" {
		return printJSON(cmd.OutOrStdout(), rows)
	}
	t := newTable(cmd.OutOrStdout())
	row(t, "TOPIC", "PARTITIONS", "REPLICAS", "OFFLINE", "UNDER-REPLICATED")
	for _, r := range rows {
		row(t, r.Topic, r.Partitions, r.ReplicationFactor, noneIsEmpty(r.Offline), noneIsEmpty(r.UnderReplicated))
	}
	return t.Flush()
}

// noneIsEmpty is a cell that is only of interest when there is something.
func noneIsEmpty(n int) any {
	if n == 0 {
		return ""
	}
	return n
}
