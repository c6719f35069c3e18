package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// deletedGroup is a group as `leat group delete --output json` shows it.
type deletedGroup struct {
	Group   string `json:"group"`
	Deleted bool   `json:"deleted"`
	Error   string `json:"error,omitempty"`
}

func newGroupDelete() *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use:     "delete GROUP...",
		Short:   "Delete groups that have no members, with their committed offsets",
		Long:    "Delete groups that have no members, with their committed offsets. What can be deleted is, also when something else cannot; then the exit code is 1.",
		Example: "  leat group delete orders-app old-app",
		Args:    usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, groups []string) error {
			return f.run(cmd, func(ctx context.Context, c *admin.Client) (err error) {
				rows := make([]deletedGroup, 0, len(groups))
				for _, name := range groups {
					r := deletedGroup{Group: name, Deleted: true}
					if failed := deleteGroup(ctx, c, name); failed != nil {
						r.Deleted, r.Error = false, f.advise(c, failed).Error()
						err = errors.Join(err, failed)
					}
					rows = append(rows, r)
				}
				return errors.Join(f.printDeleted(cmd, rows), err)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func deleteGroup(ctx context.Context, c *admin.Client, name string) error {
	err := c.DeleteGroup(ctx, name)
	switch {
	case errors.Is(err, admin.ErrNoGroup):
		return noGroup(c, name)
	case rpc.Code(err) == protocol.NonEmptyGroup:
		if g, failed := c.DescribeGroup(ctx, name, false); failed == nil && g.Active() {
			return activeGroup(g, "deleted")
		}
	}
	return err
}

func (f *clusterFlags) printDeleted(cmd *cobra.Command, rows []deletedGroup) error {
	if f.output == "json" {
		return printJSON(cmd.OutOrStdout(), rows)
	}
	for _, r := range rows {
		if r.Deleted { // the others are told of as errors
			fmt.Fprintf(cmd.OutOrStdout(), "Group %s is deleted.\n", printable(r.Group))
		}
	}
	return nil
}
