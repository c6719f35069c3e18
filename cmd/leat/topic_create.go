package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

// createdTopic is a topic as `leat topic create --output json` shows it. A number is null when the broker does not tell.
type createdTopic struct {
	Topic             string `json:"topic"`
	ID                string `json:"topicId,omitempty"`
	Created           bool   `json:"created"`
	Partitions        *int32 `json:"partitions"`
	ReplicationFactor *int16 `json:"replicationFactor"`
	Note              string `json:"note,omitempty"`
	Error             string `json:"error,omitempty"`
}

type topicCreator struct {
	clusterFlags
	partitions  int32
	replication int16
	configs     []string
	ifNotExists bool
	validate    bool
}

func newTopicCreate() *cobra.Command {
	var f topicCreator
	cmd := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Create topics",
		Long: "Create topics. Without --partitions and --replication-factor the broker's num.partitions and default.replication.factor count.\n" +
			"Topics that can be created are, also when another cannot; then the exit code is 1.",
		Example: "  leat topic create orders --partitions 12\n" +
			"  leat topic create accounts --config cleanup.policy=compact --config min.compaction.lag.ms=60000 --if-not-exists",
		Args: usageArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			configs, err := parseConfigs(f.configs)
			if err != nil {
				return usageError{err}
			}
			for flag, n := range map[string]int32{"partitions": f.partitions, "replication-factor": int32(f.replication)} {
				if cmd.Flags().Changed(flag) && n < 1 {
					return usageError{fmt.Errorf("--%s is at least 1, not %d", flag, n)}
				}
			}
			return f.run(cmd, func(ctx context.Context, c *admin.Client) (err error) {
				rows := make([]createdTopic, 0, len(names))
				for _, name := range names {
					t := admin.NewTopic{Name: name, Partitions: f.partitions, ReplicationFactor: f.replication, Configs: configs}
					r, failed := f.create(ctx, c, t)
					if failed != nil {
						r.Error = f.advise(c, failed).Error()
						err = errors.Join(err, failed)
					}
					rows = append(rows, r)
				}
				return errors.Join(f.print(cmd.OutOrStdout(), rows), err)
			})
		},
	}
	f.add(cmd)
	fs := cmd.Flags()
	fs.Int32Var(&f.partitions, "partitions", -1, "how many partitions (default: the broker's num.partitions)")
	fs.Int16Var(&f.replication, "replication-factor", -1, "how many copies of each partition (default: the broker's default.replication.factor)")
	fs.StringArrayVar(&f.configs, "config", nil, "a topic configuration, `KEY=VALUE`; may be given several times")
	fs.BoolVar(&f.ifNotExists, "if-not-exists", false, "do nothing, and succeed, when the topic is there")
	fs.BoolVar(&f.validate, "validate-only", false, "create nothing, only say whether it could be done")
	fs.Lookup("partitions").DefValue, fs.Lookup("replication-factor").DefValue = "0", "0" // help: no "(default -1)"
	return cmd
}

func (f *topicCreator) create(ctx context.Context, c *admin.Client, t admin.NewTopic) (createdTopic, error) {
	made, err := c.CreateTopic(ctx, t, f.validate)
	r := createdTopic{Topic: t.Name, Created: err == nil && !f.validate}
	switch {
	case errors.Is(err, admin.ErrTopicExists) && f.ifNotExists:
		r.Note, err = "exists already", nil
	case errors.Is(err, admin.ErrTopicExists):
		err = fmt.Errorf("topic %q exists already; with --if-not-exists that is no error", t.Name)
	case err == nil && f.validate:
		r.Note = "could be created"
	}
	if err != nil || r.Note == "exists already" {
		return r, err
	}
	if !f.validate {
		r.ID = topicID(made.ID)
	}
	if made.Partitions > 0 {
		r.Partitions, r.ReplicationFactor = &made.Partitions, &made.ReplicationFactor
	}
	return r, nil
}

func (f *topicCreator) print(w io.Writer, rows []createdTopic) error {
	if f.output == "json" {
		return printJSON(w, rows)
	}
	for _, r := range rows { // errors are told as such
		size := ""
		if r.Partitions != nil {
			size = fmt.Sprintf(" with %s, replication factor %d", counted(int(*r.Partitions), "partition"), *r.ReplicationFactor)
		}
		switch {
		case r.Error != "":
		case r.Created:
			fmt.Fprintf(w, "Topic %s is created%s.\n", printable(r.Topic), size)
		default:
			fmt.Fprintf(w, "Topic %s %s%s.\n", printable(r.Topic), r.Note, size)
		}
	}
	return nil
}
