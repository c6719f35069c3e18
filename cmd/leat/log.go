package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newLog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Look into and check the files of a log directory, offline",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLogDump(), newLogVerify())
	return cmd
}

func checkOutput(output string) error {
	if output != "table" && output != "json" {
		return usageError{fmt.Errorf("--output is table or json, not %q", output)}
	}
	return nil
}
