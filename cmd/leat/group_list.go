package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

// listedGroup is a group as `leat group list --output json` shows it.
type listedGroup struct {
	Group        string     `json:"group"`
	Type         string     `json:"type"` // "" when the broker is too old to say
	State        string     `json:"state"`
	ProtocolType string     `json:"protocolType"` // "consumer" for consumers, "" for a group that only has offsets
	Coordinator  brokerJSON `json:"coordinator"`
}

func newGroupList() *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List all groups with their state and coordinator",
		Example: "  leat group list\n  leat group list --bootstrap-server broker:9092 --output json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, func(ctx context.Context, c *admin.Client) error {
				groups, err := c.ListGroups(ctx)
				if err != nil {
					return err
				}
				return f.printList(cmd, groups)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (f *clusterFlags) printList(cmd *cobra.Command, groups []admin.Listed) error {
	if f.output == "json" {
		rows := make([]listedGroup, 0, len(groups))
		for _, g := range groups {
			rows = append(rows, listedGroup{g.Group, g.Type, g.State, g.ProtocolType, brokerOf(g.Coordinator)})
		}
		return printJSON(cmd.OutOrStdout(), rows)
	}
	t := newTable(cmd.OutOrStdout())
	row(t, "GROUP", "TYPE", "STATE", "PROTOCOL-TYPE", "COORDINATOR")
	for _, g := range groups {
		row(t, g.Group, g.Type, g.State, g.ProtocolType, g.Coordinator)
	}
	return t.Flush()
}
