package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

// How bad a diagnosis is.
const (
	doctorOK   = "ok"
	doctorWarn = "warn" // it works, and may surprise
	doctorBad  = "bad"  // it does not work, or a promise cannot be kept
)

// diagnosis is one thing that was looked at, as `leat doctor --output json` shows it.
type diagnosis struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warn, bad
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"`
}

// diagnoses gathers.
type diagnoses []diagnosis

func (f *diagnoses) ok(check, found string, args ...any) {
	*f = append(*f, diagnosis{check, doctorOK, fmt.Sprintf(found, args...), ""})
}

func (f *diagnoses) warn(check, fix, found string, args ...any) {
	*f = append(*f, diagnosis{check, doctorWarn, fmt.Sprintf(found, args...), fix})
}

func (f *diagnoses) bad(check, fix, found string, args ...any) {
	*f = append(*f, diagnosis{check, doctorBad, fmt.Sprintf(found, args...), fix})
}

func newDoctor() *cobra.Command {
	var (
		f clusterFlags
		s settings
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for what would get in a broker's way, on this machine and as clients see it",
		Long: "Look for what would get in a broker's way. On this machine: the data directories (can they be written, how much space, what file system, how long a sync\n" +
			"takes), the limit of open files, the clock. As a client: does the broker answer, which addresses does it tell clients, can each be reached from here,\n" +
			"are partitions without a leader, is a log directory offline. Each finding says what to do about it. Give it the flags that `leat serve` gets.\n" +
			"Nothing is changed: a file of a few kilobytes is written and removed. The exit code is 1 when something is bad.",
		Example: "  leat doctor --data-dir /var/lib/leat\n  leat doctor --config server.properties --bootstrap-server broker:9092 --output json",
		Args:    usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := s.load()
			if err != nil {
				return err
			}
			b, err := set.Broker()
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			found := examineMachine(b.LogDirs)
			err = f.run(cmd, func(ctx context.Context, c *admin.Client) error {
				f.examineCluster(ctx, c, &found)
				return nil
			})
			if err != nil {
				return err
			}
			return errors.Join(f.printDiagnoses(cmd.OutOrStdout(), found), found.verdict())
		},
	}
	s.addFlags(cmd)
	f.add(cmd)
	return cmd
}

// verdict ends the program with an exit code of its own when something is bad.
func (f diagnoses) verdict() error {
	for _, x := range f {
		if x.Status == doctorBad {
			return &quietError{exitFailed}
		}
	}
	return nil
}

func (f *clusterFlags) printDiagnoses(w io.Writer, all diagnoses) error {
	if f.output == "json" {
		return printJSON(w, all)
	}
	for _, x := range all {
		fmt.Fprintf(w, "%-4s  %s: %s\n", x.Status, printable(x.Check), printable(x.Found))
		if x.Fix != "" {
			fmt.Fprintf(w, "      -> %s\n", printable(x.Fix))
		}
	}
	return nil
}
