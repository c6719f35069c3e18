package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/config"
)

// configRow is one key as `leat config --output json` shows it.
type configRow struct {
	Name    string  `json:"name"`
	Value   *string `json:"value"` // null: not set, or secret
	Default string  `json:"default"`
	Source  string  `json:"source"`
	Dynamic bool    `json:"dynamic"` // may be changed while the broker runs
	Doc     string  `json:"doc"`
}

func newConfig() *cobra.Command {
	var (
		s      settings
		output string
		docs   bool
	)
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print every broker key with its value, its default and where the value came from",
		Long: "Print every broker key with the value that `leat serve` would use given the same flags, its default, and where the value came from.\n" +
			"Values set at run time (kafka-configs) are in the cluster's metadata and not shown.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := s.load()
			if err != nil {
				return err
			}
			return printConfig(cmd.OutOrStdout(), set.Effective(), output, docs)
		},
	}
	s.addFlags(cmd)
	addOutputFlag(cmd, &output)
	cmd.Flags().BoolVar(&docs, "docs", false, "also print what each key means")
	return cmd
}

func addOutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "table", "how to print: table or json")
}

func printConfig(w io.Writer, values []config.Value, output string, docs bool) error {
	switch output {
	case "json":
		rows := make([]configRow, 0, len(values))
		for i := range values {
			rows = append(rows, rowOf(&values[i]))
		}
		return printJSON(w, rows)
	case "table":
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "KEY\tVALUE\tDEFAULT\tSOURCE")
		for i := range values {
			r := rowOf(&values[i])
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Name, cell(r.Value), r.Default, r.Source)
			if docs {
				fmt.Fprintf(t, "    %s\t\t\t\n", r.Doc)
			}
		}
		return t.Flush()
	}
	return usageError{fmt.Errorf("--output is table or json, not %q", output)}
}

func rowOf(v *config.Value) configRow {
	r := configRow{Name: v.Key.Name, Default: v.Key.Default, Source: v.Source.String(), Dynamic: v.Key.Dynamic, Doc: v.Key.Doc}
	if !v.Null && !v.Key.Sensitive {
		r.Value = &v.Value
	}
	return r
}

func cell(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
