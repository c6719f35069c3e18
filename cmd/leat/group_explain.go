package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
)

// rebalancesShown are the latest ones.
const rebalancesShown = 10

// explainedGroup is what `leat group explain --output json` prints. Times are RFC 3339; "" is not known.
type explainedGroup struct {
	Group      string       `json:"group"`
	Type       string       `json:"type"`
	State      string       `json:"state"`
	Since      string       `json:"since,omitempty"`
	Members    int          `json:"members"`
	Waiting    []memberName `json:"waitingFor"`             // members that a rebalance waits for
	Until      string       `json:"waitingUntil,omitempty"` // how long at most
	HasHistory bool         `json:"hasHistory"`             // the broker tells why groups rebalance
	Rebalances []rebalance  `json:"rebalances"`             // the latest last
	Later      []groupEvent `json:"later"`                  // what happened behind the last of them
	sinceMs    int64
	untilMs    int64
}

type memberName struct {
	ID     string `json:"memberId"`
	Client string `json:"client,omitempty"`
}

// rebalance is one rebalance: why it began, and what happened around it.
type rebalance struct {
	At     string       `json:"at"`
	Reason string       `json:"reason"`
	Events []groupEvent `json:"events"`
}

type groupEvent struct {
	At     string `json:"at"`
	What   string `json:"what"`
	Member string `json:"memberId,omitempty"`
	Client string `json:"client,omitempty"`
	Reason string `json:"reason,omitempty"`
}

func newGroupExplain() *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use:   "explain GROUP",
		Short: "Tell why a group is as it is: its state, what it waits for, why it rebalanced",
		Long: "Tell why a group is as it is: its state and since when, what a rebalance waits for and until when, and why the last ten rebalances happened: who\n" +
			"joined, left, expired or changed. leat remembers that in memory since it took the group over. Other brokers do not tell: then it is said what they do tell.",
		Example: "  leat group explain orders-app",
		Args:    usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, func(ctx context.Context, c *admin.Client) error {
				g, err := describeGroup(ctx, c, args[0], true)
				if err != nil {
					return err
				}
				e, err := explain(g)
				if err != nil {
					return err
				}
				if f.output == "json" {
					return printJSON(cmd.OutOrStdout(), e)
				}
				return e.print(cmd.OutOrStdout(), c.Addr())
			})
		},
	}
	f.add(cmd)
	return cmd
}

func explain(g *admin.Group) (*explainedGroup, error) {
	e := &explainedGroup{Group: g.Group, Type: g.Type, State: g.State, Members: len(g.Members), Waiting: []memberName{}, Rebalances: []rebalance{}, Later: []groupEvent{}, sinceMs: -1}
	if g.Story == nil {
		return e, nil
	}
	story, err := admin.ReadStory(g.Story)
	if err != nil {
		return nil, err
	}
	e.HasHistory, e.State, e.sinceMs, e.untilMs = true, story.State, story.SinceMs, story.UntilMs
	if e.sinceMs >= 0 {
		e.Since = timeOf(e.sinceMs)
	}
	if e.untilMs > 0 {
		e.Until = timeOf(e.untilMs)
	}
	for _, id := range story.Waiting {
		e.Waiting = append(e.Waiting, memberName{id, clientOf(g, id)})
	}
	e.Rebalances, e.Later = rebalancesOf(story.Events)
	e.Rebalances = e.Rebalances[max(len(e.Rebalances)-rebalancesShown, 0):]
	return e, nil
}

// clientOf is who a member is, for people.
func clientOf(g *admin.Group, id string) string {
	for i := range g.Members {
		if m := &g.Members[i]; m.ID == id {
			return m.ClientID + " " + m.Host
		}
	}
	return ""
}

// rebalancesOf sorts events by the rebalance that they led to or belong to. What happened to a group that stood still led to the next one; a rebalance ends when its
// assignment is stored or nobody is left. later is what no rebalance followed yet.
func rebalancesOf(events []admin.Event) (all []rebalance, later []groupEvent) {
	all, later = []rebalance{}, []groupEvent{}
	open := false
	for _, e := range events {
		event := groupEvent{timeOf(e.AtMs), e.What, e.Member, e.Client, e.Reason}
		switch {
		case e.What == "rebalance":
			if open {
				later = all[len(all)-1].cutCause()
			}
			all = append(all, rebalance{event.At, e.Reason, later})
			open, later = true, []groupEvent{}
		case open:
			last := &all[len(all)-1]
			last.Events = append(last.Events, event)
			open = e.What != "assigned" && e.What != "emptied"
		default:
			later = append(later, event)
		}
	}
	return all, later
}

// cutCause takes away what happened behind the end of the joining: it made the next rebalance begin before this one had its assignment.
func (r *rebalance) cutCause() []groupEvent {
	i := slices.IndexFunc(r.Events, func(e groupEvent) bool { return e.What == "completed" })
	if i < 0 {
		return []groupEvent{}
	}
	cause := slices.Clone(r.Events[i+1:])
	r.Events = r.Events[:i+1]
	return cause
}

func (e *explainedGroup) print(w io.Writer, addr string) error {
	fmt.Fprintf(w, "Group %s (%s) is %s%s, with %s.\n", printable(e.Group), e.Type, e.State, e.since(), count(e.Members, "member"))
	e.printWaiting(w)
	if !e.HasHistory {
		fmt.Fprintf(w, "Since when, and why it rebalanced, %s does not tell: only leat keeps a history of its groups.\n", addr)
		return nil
	}
	if len(e.Rebalances) == 0 {
		fmt.Fprintln(w, "There was no rebalance since this broker took the group over.")
	} else {
		fmt.Fprintln(w, "\nThe last rebalances, the latest at the end:")
	}
	for i := range e.Rebalances {
		r := &e.Rebalances[i]
		fmt.Fprintf(w, "\n%s  %s\n", r.At, printable(r.Reason))
		if err := printEvents(w, r.Events); err != nil {
			return err
		}
	}
	if len(e.Later) > 0 {
		fmt.Fprintln(w, "\nOutside of rebalances, since then:")
		return printEvents(w, e.Later)
	}
	return nil
}

func (e *explainedGroup) since() string {
	if e.sinceMs < 0 {
		return ""
	}
	return fmt.Sprintf(" since %s (for %s)", e.Since, span(now().UnixMilli()-e.sinceMs))
}

func (e *explainedGroup) printWaiting(w io.Writer) {
	until := ""
	if e.untilMs > 0 {
		until = fmt.Sprintf(", until %s (for another %s)", e.Until, span(e.untilMs-now().UnixMilli()))
	}
	switch {
	case len(e.Waiting) > 0:
		what := "join again"
		switch {
		case e.Type == "consumer":
			what = "follow the new assignment"
		case e.State != "PreparingRebalance":
			what = "fetch the assignment"
		}
		fmt.Fprintf(w, "It waits for %s to %s%s:\n", count(len(e.Waiting), "member"), what, until)
		for _, m := range e.Waiting {
			fmt.Fprintf(w, "  %s  %s\n", printable(m.ID), printable(m.Client))
		}
	case until != "":
		fmt.Fprintf(w, "It waits for more members to come%s.\n", until)
	case e.HasHistory:
		fmt.Fprintln(w, "It waits for nothing.")
	case e.State == "PreparingRebalance":
		fmt.Fprintln(w, "It waits for members to join.")
	case e.State == "CompletingRebalance":
		fmt.Fprintln(w, "It waits for the assignment of the member that leads.")
	}
}

func printEvents(w io.Writer, events []groupEvent) error {
	t := newTable(w)
	for i := range events {
		e := &events[i]
		who := e.Member
		if e.Client != "" {
			who += " (" + e.Client + ")"
		}
		fmt.Fprint(t, "  ")
		row(t, e.At, e.What, who, e.Reason)
	}
	return t.Flush()
}

// count is a number of things.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// span is a length of time for people.
func span(ms int64) string {
	d := time.Duration(max(ms, 0)) * time.Millisecond
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
