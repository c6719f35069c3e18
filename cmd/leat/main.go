// Command leat is the whole of leat: the broker and its tools.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/config"
)

// version is set by the build.
var version = "dev"

// Exit codes.
const (
	exitFailed = 1 // it did not work, or something is wrong with the data
	exitUsage  = 2 // the command line or configuration cannot be used as it is
)

// usageError is a mistake in how the command was called.
type usageError struct{ error }

// quietError ends the program with an exit code; everything has been said already.
type quietError struct{ code int }

func (e *quietError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func main() {
	os.Exit(run(newRoot(), os.Args[1:]))
}

// run executes a command line and returns the exit code.
func run(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	if q, ok := errors.AsType[*quietError](err); ok {
		return q.code
	}
	for _, e := range each(err) {
		fmt.Fprintf(cmd.ErrOrStderr(), "leat: %v\n", e)
	}
	if isUsage(err) {
		fmt.Fprintf(cmd.ErrOrStderr(), "Run '%s --help' for what it takes.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}

// each is the errors that were joined.
func each(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || strings.Count(err.Error(), "\n") == 0 {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, each(e)...)
	}
	return all
}

// isUsage tells mistakes of the caller from failures. An unknown or impossible configuration key is the former.
func isUsage(err error) bool {
	var u usageError
	if errors.As(err, &u) {
		return true
	}
	_, ok := errors.AsType[*config.Error](err)
	return ok
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "leat",
		Short: "A durable, partitioned commit log that every Kafka client can use",
		Long: "leat is a durable, partitioned commit log that every Kafka client can use.\n\n" +
			"  leat serve                              a broker on localhost:9092 with its data under ./data\n" +
			"  echo hello | leat produce greetings     writes a record to it, as any Kafka client does\n" +
			"  leat consume greetings --from-beginning reads it",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(newServe(), newConfig(), newLog(), newTopic(), newGroup(), newProduce(), newConsume(), newCluster(), newDoctor(), newBench(), newVersion())
	return root
}

// usageArgs makes a wrong number of arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			cobras := strings.HasSuffix(err.Error(), "received 0") // others say it better
			if use := strings.Fields(cmd.Use); cobras && len(use) > 1 {
				err = fmt.Errorf("%s is missing", strings.TrimSuffix(use[1], "..."))
			}
			return usageError{err}
		}
		return nil
	}
}
