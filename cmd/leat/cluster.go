package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "cluster",
		Short:   "Look at the cluster: its brokers, disks and partitions",
		Example: "  leat cluster describe --bootstrap-server broker:9092",
		Args:    usageArgs(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newClusterDescribe())
	return cmd
}

// describedCluster is a cluster as `leat cluster describe --output json` shows it.
type describedCluster struct {
	ID              string            `json:"clusterId"`
	Controller      *int32            `json:"controller"` // null: none, or not told
	Brokers         []describedBroker `json:"brokers"`
	Topics          int               `json:"topics"`
	Partitions      int               `json:"partitions"`
	Offline         int               `json:"offlinePartitions"`
	UnderReplicated int               `json:"underReplicatedPartitions"`
}

type describedBroker struct {
	brokerJSON
	Rack    string         `json:"rack,omitempty"`
	Leads   int            `json:"leaderOf"` // partitions
	Holds   int            `json:"replicas"` // of partitions
	LogDirs []describedDir `json:"logDirs"`
	Error   string         `json:"error,omitempty"` // it does not answer
}

type describedDir struct {
	Path   string `json:"path"`
	Logs   int    `json:"logs"`
	Bytes  int64  `json:"bytes"`       // of all logs
	Total  *int64 `json:"totalBytes"`  // of the file system; null: not told
	Usable *int64 `json:"usableBytes"` // likewise
	Error  string `json:"error,omitempty"`
}

func newClusterDescribe() *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use:     "describe",
		Short:   "Show the brokers, what they lead, their log directories and the space there",
		Example: "  leat cluster describe\n  leat cluster describe --output json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, func(ctx context.Context, c *admin.Client) error {
				cluster, err := c.Cluster(ctx)
				if err != nil {
					return err
				}
				d := describeCluster(cluster)
				for i, b := range cluster.Brokers {
					dirs, err := c.LogDirs(ctx, b, nil)
					if err != nil {
						d.Brokers[i].Error = f.advise(c, err).Error()
					}
					for k := range dirs {
						d.Brokers[i].LogDirs = append(d.Brokers[i].LogDirs, describeDir(&dirs[k]))
					}
				}
				if f.output == "json" {
					return printJSON(cmd.OutOrStdout(), d)
				}
				return d.print(cmd.OutOrStdout())
			})
		},
	}
	f.add(cmd)
	return cmd
}

func describeCluster(c *admin.Cluster) *describedCluster {
	d := &describedCluster{ID: c.ID, Topics: len(c.Topics), Brokers: []describedBroker{}}
	if c.Controller >= 0 {
		d.Controller = &c.Controller
	}
	leads, holds := map[int32]int{}, map[int32]int{}
	for i := range c.Topics {
		t := listTopic(&c.Topics[i])
		d.Partitions += t.Partitions
		d.Offline += t.Offline
		d.UnderReplicated += t.UnderReplicated
		for _, p := range c.Topics[i].Partitions {
			leads[p.Leader]++
			for _, id := range p.Replicas {
				holds[id]++
			}
		}
	}
	for _, b := range c.Brokers {
		d.Brokers = append(d.Brokers, describedBroker{brokerJSON: brokerOf(b), Rack: b.Rack, Leads: leads[b.ID], Holds: holds[b.ID], LogDirs: []describedDir{}})
	}
	return d
}

func describeDir(dir *admin.LogDir) describedDir {
	d := describedDir{Path: dir.Path, Logs: len(dir.Sizes)}
	if dir.Err != nil {
		d.Error = dir.Err.Error()
	}
	for _, n := range dir.Sizes {
		d.Bytes += n
	}
	if dir.Total >= 0 {
		d.Total, d.Usable = &dir.Total, &dir.Usable
	}
	return d
}

func (d *describedCluster) print(w io.Writer) error {
	fmt.Fprintf(w, "Cluster %s: %s, %s, %s", printable(d.ID), counted(len(d.Brokers), "broker"), counted(d.Topics, "topic"), counted(d.Partitions, "partition"))
	if d.Offline > 0 {
		fmt.Fprintf(w, ", %d without a leader", d.Offline)
	}
	if d.UnderReplicated > 0 {
		fmt.Fprintf(w, ", %d under-replicated", d.UnderReplicated)
	}
	fmt.Fprint(w, "\n\n")
	t := newTable(w)
	row(t, "BROKER", "ADDRESS", "RACK", "CONTROLLER", "LEADS", "REPLICAS")
	for i := range d.Brokers {
		b := &d.Brokers[i]
		controller := ""
		if d.Controller != nil && *d.Controller == b.ID {
			controller = "yes"
		}
		row(t, b.ID, b.Addr, b.Rack, controller, b.Leads, b.Holds)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	t = newTable(w)
	row(t, "BROKER", "LOG-DIR", "LOGS", "BYTES", "USABLE", "TOTAL", "PROBLEM")
	for i := range d.Brokers {
		b := &d.Brokers[i]
		for k := range b.LogDirs {
			l := &b.LogDirs[k]
			row(t, b.ID, l.Path, l.Logs, bytesOf(&l.Bytes), bytesOf(l.Usable), bytesOf(l.Total), l.Error)
		}
		if b.Error != "" {
			row(t, b.ID, "", "", "", "", "", b.Error)
		}
	}
	return t.Flush()
}
