package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, platform := cmd.OutOrStdout(), runtime.GOOS+"/"+runtime.GOARCH
			switch output {
			case "table":
				_, err := fmt.Fprintf(w, "leat %s, Kafka protocol 4.4, %s %s\n", version, runtime.Version(), platform)
				return err
			case "json":
				return printJSON(w, struct {
					Version  string `json:"version"`
					Protocol string `json:"protocol"`
					Go       string `json:"go"`
					Platform string `json:"platform"`
				}{version, "4.4", runtime.Version(), platform})
			}
			return usageError{fmt.Errorf("--output is table or json, not %q", output)}
		},
	}
	addOutputFlag(cmd, &output)
	return cmd
}
