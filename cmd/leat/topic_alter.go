package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

// alteredTopic is a topic as `leat topic alter --output json` shows it.
type alteredTopic struct {
	Topic        string            `json:"topic"`
	Partitions   *int32            `json:"partitions,omitempty"` // how many there are now, when that was asked for
	Set          map[string]string `json:"set,omitempty"`
	Reset        []string          `json:"reset,omitempty"` // to the broker's default
	ValidateOnly bool              `json:"validateOnly,omitempty"`
}

type topicAlterer struct {
	clusterFlags
	partitions int32
	configs    []string
	deletes    []string
	validate   bool
}

func newTopicAlter() *cobra.Command {
	var f topicAlterer
	cmd := &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Add partitions to a topic, set and reset its configuration",
		Long: "Add partitions to a topic, set configuration keys, or take them back to the broker's default. The keys are changed all or none, and before the partitions.\n" +
			"Partitions can only be added: with more of them, keys go to other partitions than before.",
		Example: "  leat topic alter orders --config retention.ms=604800000 --delete-config cleanup.policy\n  leat topic alter orders --partitions 24",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			a := alteredTopic{Topic: args[0], Reset: f.deletes, ValidateOnly: f.validate}
			if err := f.read(cmd, &a); err != nil {
				return usageError{err}
			}
			return f.run(cmd, func(ctx context.Context, c *admin.Client) error {
				err := f.alter(ctx, c, &a)
				if errors.Is(err, admin.ErrNoTopic) {
					return noTopic(c.Addr(), a.Topic)
				}
				if err != nil {
					return err
				}
				return f.print(cmd.OutOrStdout(), &a)
			})
		},
	}
	f.add(cmd)
	cmd.ValidArgsFunction = f.completeTopics(1)
	fs := cmd.Flags()
	fs.Int32Var(&f.partitions, "partitions", 0, "how many partitions the topic is to have")
	fs.StringArrayVar(&f.configs, "config", nil, "set a configuration, `KEY=VALUE`; may be given several times")
	fs.StringSliceVar(&f.deletes, "delete-config", nil, "take a configuration back to the broker's default, `KEY`; several with commas between them")
	fs.BoolVar(&f.validate, "validate-only", false, "change nothing, only say whether the configuration could be set")
	return cmd
}

// read takes what is to be done from the flags.
func (f *topicAlterer) read(cmd *cobra.Command, a *alteredTopic) (err error) {
	if a.Set, err = parseConfigs(f.configs); err != nil {
		return err
	}
	for _, key := range f.deletes {
		if _, both := a.Set[key]; both {
			return fmt.Errorf("%s is in --config and in --delete-config: give one of them", key)
		}
		if key == "" {
			return errors.New("--delete-config: expected KEY, such as retention.ms")
		}
	}
	if cmd.Flags().Changed("partitions") {
		if f.partitions < 1 {
			return fmt.Errorf("--partitions is at least 1, not %d", f.partitions)
		}
		a.Partitions = &f.partitions
	}
	switch {
	case f.validate && a.Partitions != nil:
		return errors.New("--validate-only is for --config and --delete-config, not for --partitions")
	case len(a.Set)+len(a.Reset) == 0 && a.Partitions == nil:
		return errors.New("nothing to do: give --config, --delete-config or --partitions")
	}
	return nil
}

func (f *topicAlterer) alter(ctx context.Context, c *admin.Client, a *alteredTopic) error {
	configs := len(a.Set)+len(a.Reset) > 0
	if configs {
		if err := c.AlterConfigs(ctx, admin.TopicResource(a.Topic), a.Set, a.Reset, a.ValidateOnly); err != nil {
			return err
		}
	}
	if a.Partitions == nil {
		return nil
	}
	err := c.CreatePartitions(ctx, a.Topic, *a.Partitions)
	if err != nil && configs && !errors.Is(err, admin.ErrNoTopic) {
		return fmt.Errorf("%w (the configuration is changed)", err)
	}
	return err
}

func (f *topicAlterer) print(w io.Writer, a *alteredTopic) error {
	if f.output == "json" {
		return printJSON(w, a)
	}
	var done []string
	for _, key := range slices.Sorted(maps.Keys(a.Set)) {
		done = append(done, key+"="+a.Set[key])
	}
	for _, key := range a.Reset {
		done = append(done, key+" back to the default")
	}
	if a.Partitions != nil {
		done = append(done, counted(int(*a.Partitions), "partition"))
	}
	what := "is altered"
	if a.ValidateOnly {
		what = "could be altered"
	}
	fmt.Fprintf(w, "Topic %s %s: %s.\n", printable(a.Topic), what, printable(strings.Join(done, ", ")))
	return nil
}
