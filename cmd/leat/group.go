package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

func newGroup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Look at consumer groups, find out why they rebalance, reset and delete them",
		Long: "Look at consumer groups, find out why they rebalance, reset and delete them. Works with leat and with any other broker that speaks Kafka's protocol;\n" +
			"only leat keeps the history that `explain` tells.",
		Example: "  leat group list\n" +
			"  leat group describe orders-app\n" +
			"  leat group explain orders-app --bootstrap-server broker:9092\n" +
			"  leat group reset orders-app --topic orders --to-datetime 2026-11-30T08:00:00Z\n" +
			"  leat group delete orders-app",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGroupList(), newGroupDescribe(), newGroupExplain(), newGroupReset(), newGroupDelete())
	return cmd
}

// noGroup says that there is no such group, and where the others are.
func noGroup(c *admin.Client, group string) error {
	return fmt.Errorf("group %q does not exist on %s; `leat group list --bootstrap-server %s` shows those that do", group, c.Addr(), c.Addr())
}

// describeGroup is a group, or a sentence why not.
func describeGroup(ctx context.Context, c *admin.Client, group string, story bool) (*admin.Group, error) {
	g, err := c.DescribeGroup(ctx, group, story)
	if errors.Is(err, admin.ErrNoGroup) {
		return nil, noGroup(c, group)
	}
	return g, err
}

// membersShown of a group that is in the way are named.
const membersShown = 5

// whoIsIn names members.
func whoIsIn(g *admin.Group) string {
	var all []string
	for i := range g.Members {
		if i == membersShown {
			all = append(all, fmt.Sprintf("and %d more", len(g.Members)-i))
			break
		}
		m := &g.Members[i]
		all = append(all, fmt.Sprintf("%s (%s on %s)", m.ID, m.ClientID, m.Host))
	}
	return strings.Join(all, ", ")
}

// activeGroup refuses what only a group without members allows.
func activeGroup(g *admin.Group, what string) error {
	if len(g.Members) == 0 {
		return fmt.Errorf("group %q is %s: members are joining; stop them before it can be %s", g.Group, g.State, what)
	}
	return fmt.Errorf("group %q is %s, its members would go on from where they are; stop them before it can be %s: %s", g.Group, g.State, what, whoIsIn(g))
}
