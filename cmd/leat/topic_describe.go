package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

// describedTopic is a topic as `leat topic describe --output json` shows it.
type describedTopic struct {
	Topic      string               `json:"topic"`
	ID         string               `json:"topicId,omitempty"`
	Internal   bool                 `json:"internal"`
	Configs    map[string]*string   `json:"configs"` // those that are set for the topic; with --all-configs all; a secret is null
	Partitions []describedPartition `json:"partitions"`
	configs    []admin.Config       // the same, in order
}

// describedPartition is null where the broker does not tell, or nothing is there.
type describedPartition struct {
	Partition   int32   `json:"partition"`
	Leader      *int32  `json:"leader"`
	LeaderEpoch *int32  `json:"leaderEpoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	LogStart    *int64  `json:"logStartOffset"`
	LogEnd      *int64  `json:"logEndOffset"`
	Bytes       *int64  `json:"bytes"` // of the leader's log on disk
	Error       string  `json:"error,omitempty"`
}

func newTopicDescribe() *cobra.Command {
	var (
		f               clusterFlags
		all, allConfigs bool
	)
	cmd := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Show partitions, leaders, offsets, sizes and configuration of topics",
		Long: "Show the configuration of topics (what is set for the topic itself; with --all-configs everything in force), and for each partition its leader, replicas,\n" +
			"replicas in sync, first offset, end offset, and the bytes of its log on the leader's disk.",
		Example: "  leat topic describe orders\n  leat topic describe --all-topics --output json",
		Args: usageArgs(func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("takes the names of topics, or --all-topics")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, names []string) error {
			return f.run(cmd, func(ctx context.Context, c *admin.Client) error {
				rows, err := describeTopics(ctx, c, names, allConfigs)
				if len(rows) == 0 && err != nil {
					return err
				}
				return errors.Join(f.printDescribedTopics(cmd.OutOrStdout(), rows), err)
			})
		},
	}
	f.add(cmd)
	cmd.ValidArgsFunction = f.completeTopics(0)
	cmd.Flags().BoolVar(&all, "all-topics", false, "every topic")
	cmd.Flags().BoolVar(&allConfigs, "all-configs", false, "also the configuration that is not set for the topic")
	return cmd
}

// describeTopics describes topics; none are all.
func describeTopics(ctx context.Context, c *admin.Client, names []string, allConfigs bool) (rows []*describedTopic, err error) {
	var topics []admin.TopicInfo
	if len(names) == 0 {
		topics, err = c.AllTopics(ctx)
	} else {
		topics, err = namedTopics(ctx, c, names)
	}
	if len(topics) == 0 {
		return nil, err
	}
	v := &topicViewer{c: c, sizes: map[int32]map[admin.Partition]int64{}}
	if failed := v.look(ctx, topics); failed != nil {
		return nil, failed
	}
	for i := range topics {
		d, failed := v.describe(ctx, &topics[i], allConfigs)
		if failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		rows = append(rows, d)
	}
	return rows, err
}

// topicViewer gathers what is known of partitions.
type topicViewer struct {
	c          *admin.Client
	start, end map[admin.Partition]admin.Offset
	failed     error                               // the offsets cannot be told
	sizes      map[int32]map[admin.Partition]int64 // by broker
}

// namedTopics are the topics of these names; those that there are not, or cannot be told, are the error.
func namedTopics(ctx context.Context, c *admin.Client, names []string) ([]admin.TopicInfo, error) {
	topics, failed, err := c.DescribeTopics(ctx, names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		why := failed[name]
		if errors.Is(why, admin.ErrNoTopic) {
			why = noTopic(c.Addr(), name)
		}
		err = errors.Join(err, why)
		delete(failed, name) // named twice, told once
	}
	return topics, err
}

// look asks for the offsets of all partitions, and every broker for the sizes of its logs; those of a broker that does not tell are left out.
func (v *topicViewer) look(ctx context.Context, topics []admin.TopicInfo) error {
	var all []admin.Partition
	for i := range topics {
		for j := range topics[i].Partitions {
			all = append(all, admin.Partition{Topic: topics[i].Name, Index: topics[i].Partitions[j].Index})
		}
	}
	if v.start, v.failed = v.c.Offsets(ctx, all, admin.Earliest); v.failed == nil {
		v.end, v.failed = v.c.Offsets(ctx, all, admin.Latest)
	}
	brokers, err := v.c.Brokers(ctx)
	for _, b := range brokers {
		dirs, err := v.c.LogDirs(ctx, b, all)
		if err != nil {
			continue
		}
		v.sizes[b.ID] = map[admin.Partition]int64{}
		for i := range dirs {
			maps.Copy(v.sizes[b.ID], dirs[i].Sizes)
		}
	}
	return err
}

func (v *topicViewer) describe(ctx context.Context, t *admin.TopicInfo, allConfigs bool) (*describedTopic, error) {
	configs, err := v.c.Configs(ctx, admin.TopicResource(t.Name))
	if errors.Is(err, admin.ErrNoTopic) {
		return nil, noTopic(v.c.Addr(), t.Name) // deleted meanwhile
	}
	if err != nil {
		return nil, err
	}
	d := &describedTopic{Topic: t.Name, ID: topicID(t.ID), Internal: t.Internal, Configs: map[string]*string{}, Partitions: []describedPartition{}}
	for _, c := range configs {
		if c.Set || allConfigs {
			d.Configs[c.Name] = c.Value
			d.configs = append(d.configs, c)
		}
	}
	for i := range t.Partitions {
		d.Partitions = append(d.Partitions, v.partition(t.Name, &t.Partitions[i]))
	}
	return d, nil
}

func (v *topicViewer) partition(topic string, p *admin.PartitionInfo) describedPartition {
	d := describedPartition{Partition: p.Index, Replicas: p.Replicas, ISR: p.ISR}
	if p.Leader >= 0 {
		d.Leader = &p.Leader
	}
	if p.LeaderEpoch >= 0 {
		d.LeaderEpoch = &p.LeaderEpoch
	}
	tp := admin.Partition{Topic: topic, Index: p.Index}
	if n, ok := v.sizes[p.Leader][tp]; ok {
		d.Bytes = &n
	}
	for _, o := range []struct {
		of *admin.Offset
		to **int64
	}{{at(v.start, tp), &d.LogStart}, {at(v.end, tp), &d.LogEnd}} {
		switch {
		case v.failed != nil:
			d.Error = v.failed.Error()
		case o.of == nil:
		case o.of.Err != nil:
			d.Error = o.of.Err.Error()
		default:
			*o.to = &o.of.Offset
		}
	}
	return d
}

func at(m map[admin.Partition]admin.Offset, p admin.Partition) *admin.Offset {
	if o, ok := m[p]; ok {
		return &o
	}
	return nil
}

func (f *clusterFlags) printDescribedTopics(w io.Writer, rows []*describedTopic) error {
	if f.output == "json" {
		if rows == nil {
			rows = []*describedTopic{}
		}
		return printJSON(w, rows)
	}
	for i, d := range rows {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := d.print(w); err != nil {
			return err
		}
	}
	return nil
}

func (d *describedTopic) print(w io.Writer) error {
	fmt.Fprintf(w, "Topic %s: %s", printable(d.Topic), counted(len(d.Partitions), "partition"))
	if d.ID != "" {
		fmt.Fprintf(w, ", id %s", d.ID)
	}
	if d.Internal {
		fmt.Fprint(w, ", internal")
	}
	fmt.Fprintln(w)
	for _, c := range d.configs {
		value := "(secret)"
		if c.Value != nil {
			value = printable(*c.Value)
		} else if !c.Sensitive {
			value = "(none)"
		}
		fmt.Fprintf(w, "  %s=%s\n", printable(c.Name), value)
	}
	t := newTable(w)
	row(t, "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "LOG-START", "LOG-END", "BYTES")
	for i := range d.Partitions {
		p := &d.Partitions[i]
		row(t, p.Partition, number(p.Leader), number(p.LeaderEpoch), joined(p.Replicas), joined(p.ISR), number(p.LogStart), number(p.LogEnd), number(p.Bytes))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range d.Partitions {
		if p := &d.Partitions[i]; p.Error != "" {
			fmt.Fprintf(w, "  partition %d: %s\n", p.Partition, printable(p.Error))
		}
	}
	return nil
}

// joined is a cell of several numbers.
func joined(ids []int32) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]")
}
