package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

// completionTimeout is how long a shell waits for topics.
const completionTimeout = 2 * time.Second

// completeValues lets shells complete the values of flags that have few.
func completeValues(cmd *cobra.Command, flags map[string]string) {
	for flag, values := range flags {
		if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(strings.Fields(values), cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic("BUG: " + err.Error())
		}
	}
}

// completeTopics lets shells complete the names of topics, for the first most arguments (0: all); files follow them.
func (f *clusterFlags) completeTopics(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveDefault
		}
		if f.load() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		config := f.clientConfig()
		config.RequestTimeout, config.DialTimeout = completionTimeout, completionTimeout
		c, err := admin.New(config)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		topics, err := c.AllTopics(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for i := range topics {
			if name := topics[i].Name; strings.HasPrefix(name, begin) && !slices.Contains(args, name) && (!topics[i].Internal || begin != "") {
				names = append(names, name)
			}
		}
		slices.SortFunc(names, cmp.Compare[string])
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
