package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

// deletedTopic is a topic as `leat topic delete --output json` shows it.
type deletedTopic struct {
	Topic   string `json:"topic"`
	Deleted bool   `json:"deleted"`
	Error   string `json:"error,omitempty"`
}

func newTopicDelete() *cobra.Command {
	var (
		f        clusterFlags
		ifExists bool
	)
	cmd := &cobra.Command{
		Use:   "delete TOPIC...",
		Short: "Delete topics with all their records",
		Long: "Delete topics with all their records, for good. Names are exact, there are no patterns. Topics that can be deleted are, also when another cannot; then the exit\n" +
			"code is 1.",
		Example: "  leat topic delete orders orders-test",
		Args:    usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			return f.run(cmd, func(ctx context.Context, c *admin.Client) (err error) {
				rows := make([]deletedTopic, 0, len(names))
				for _, name := range names {
					failed := c.DeleteTopic(ctx, name)
					r := deletedTopic{Topic: name, Deleted: failed == nil}
					if errors.Is(failed, admin.ErrNoTopic) {
						if failed = noTopic(c.Addr(), name); ifExists {
							failed = nil
						}
					}
					if failed != nil {
						r.Error = f.advise(c, failed).Error()
						err = errors.Join(err, failed)
					}
					rows = append(rows, r)
				}
				return errors.Join(f.printDeletedTopics(cmd, rows), err)
			})
		},
	}
	f.add(cmd)
	cmd.ValidArgsFunction = f.completeTopics(0)
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "a topic that is not there is no error")
	return cmd
}

func (f *clusterFlags) printDeletedTopics(cmd *cobra.Command, rows []deletedTopic) error {
	if f.output == "json" {
		return printJSON(cmd.OutOrStdout(), rows)
	}
	for _, r := range rows {
		switch {
		case r.Deleted:
			fmt.Fprintf(cmd.OutOrStdout(), "Topic %s is deleted.\n", printable(r.Topic))
		case r.Error == "":
			fmt.Fprintf(cmd.OutOrStdout(), "Topic %s does not exist.\n", printable(r.Topic))
		}
	}
	return nil
}
