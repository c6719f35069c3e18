package main

import (
	"cmp"
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

// describedGroup is a group as `leat group describe --output json` shows it.
type describedGroup struct {
	Group       string            `json:"group"`
	Type        string            `json:"type"`
	State       string            `json:"state"`
	Protocol    string            `json:"protocol"` // what the members agreed on, or the assignor of the broker
	Epoch       *int32            `json:"epoch,omitempty"`
	Coordinator brokerJSON        `json:"coordinator"`
	Members     []describedMember `json:"members"`
	Partitions  []partitionLag    `json:"partitions"`
}

type describedMember struct {
	ID         string             `json:"memberId"`
	Instance   string             `json:"groupInstanceId,omitempty"`
	ClientID   string             `json:"clientId"`
	Host       string             `json:"host"`
	Epoch      *int32             `json:"epoch,omitempty"`
	Assignment map[string][]int32 `json:"assignment"` // null: in a form that is the members' own
	partitions []admin.Partition  // the same, in order
}

// partitionLag is how far a group is in a partition. null is not known, or nothing.
type partitionLag struct {
	Topic      string   `json:"topic"`
	Partition  int32    `json:"partition"`
	Committed  *int64   `json:"committedOffset"`
	LogStart   *int64   `json:"logStartOffset"`
	LogEnd     *int64   `json:"logEndOffset"`
	Lag        *int64   `json:"lag"`            // records that are there and not consumed; those that are gone do not count
	Gone       int64    `json:"gone,omitempty"` // offsets behind the committed one that were deleted before they were consumed
	LagSeconds *float64 `json:"lagSeconds"`     // age of the first record that is not consumed
	Member     string   `json:"memberId,omitempty"`
	Note       string   `json:"note,omitempty"` // what is wrong with the committed offset
	Error      string   `json:"error,omitempty"`
}

func newGroupDescribe() *cobra.Command {
	var (
		f   clusterFlags
		all bool
	)
	cmd := &cobra.Command{
		Use:   "describe GROUP...",
		Short: "Show members, assignments, committed offsets and lag of groups",
		Long: "Show state, members and assignments of groups, and for each partition the committed offset, the log end, and the lag: in records, and in seconds.\n" +
			"The lag in seconds is the age of the first record that the group has not consumed, by its timestamp; 0 when there is none, - when it cannot be told.\n" +
			"Records that were deleted before the group consumed them are no lag: they are told of on a line of their own.",
		Example: "  leat group describe orders-app\n  leat group describe --all-groups --output json",
		Args: usageArgs(func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("takes the names of groups, or --all-groups")
			}
			return nil
		}),
		RunE: func(cmd *cobra.Command, groups []string) error {
			return f.run(cmd, func(ctx context.Context, c *admin.Client) (err error) {
				if all {
					if groups, err = groupNames(ctx, c); err != nil {
						return err
					}
				}
				described := []*describedGroup{}
				for _, name := range groups {
					d, failed := describe(ctx, c, name)
					if failed != nil {
						err = errors.Join(err, failed)
						continue
					}
					described = append(described, d)
				}
				if len(described) == 0 && err != nil {
					return err
				}
				return errors.Join(f.printDescribed(cmd.OutOrStdout(), described), err)
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&all, "all-groups", false, "every group of consumers")
	return cmd
}

// groupNames are all groups that can be described here.
func groupNames(ctx context.Context, c *admin.Client) (names []string, err error) {
	groups, err := c.ListGroups(ctx)
	for _, g := range groups {
		if g.Type == "" || g.Type == "classic" || g.Type == "consumer" {
			names = append(names, g.Group)
		}
	}
	return names, err
}

func describe(ctx context.Context, c *admin.Client, name string) (*describedGroup, error) {
	g, err := describeGroup(ctx, c, name, false)
	if err != nil {
		return nil, err
	}
	committed, err := c.CommittedOffsets(ctx, name)
	if err != nil {
		return nil, err
	}
	d := &describedGroup{Group: name, Type: g.Type, State: g.State, Protocol: g.Protocol, Coordinator: brokerOf(g.Coordinator), Members: []describedMember{}}
	if g.Epoch >= 0 {
		d.Epoch = &g.Epoch
	}
	for i := range g.Members {
		d.Members = append(d.Members, memberOf(&g.Members[i]))
	}
	d.Partitions, err = lagOf(ctx, c, g, committed)
	return d, err
}

func memberOf(m *admin.Member) describedMember {
	d := describedMember{ID: m.ID, Instance: m.Instance, ClientID: m.ClientID, Host: m.Host, partitions: m.Assignment}
	if m.Epoch >= 0 {
		d.Epoch = &m.Epoch
	}
	if m.AssignmentOpaque {
		return d
	}
	d.Assignment = map[string][]int32{}
	for _, p := range m.Assignment {
		d.Assignment[p.Topic] = append(d.Assignment[p.Topic], p.Index)
	}
	return d
}

// lagOf is a row for each partition that has a committed offset or is assigned.
func lagOf(ctx context.Context, c *admin.Client, g *admin.Group, committed map[admin.Partition]int64) ([]partitionLag, error) {
	owners := map[admin.Partition]string{}
	for i := range g.Members {
		for _, p := range g.Members[i].Assignment {
			owners[p] = g.Members[i].ID
		}
	}
	all := slices.Collect(maps.Keys(committed))
	for p := range owners {
		if _, ok := committed[p]; !ok {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, admin.ComparePartitions)
	ends, err := c.Offsets(ctx, all, admin.Latest)
	if err != nil {
		return nil, err
	}
	starts, err := c.Offsets(ctx, all, admin.Earliest)
	if err != nil {
		return nil, err
	}
	behind := map[admin.Partition]int64{}
	for p, offset := range committed {
		if e := ends[p]; e.Err == nil && e.Offset > offset {
			behind[p] = max(offset, starts[p].Offset)
		}
	}
	times, err := c.Times(ctx, behind)
	if err != nil {
		return nil, err
	}
	rows := make([]partitionLag, 0, len(all))
	for _, p := range all {
		rows = append(rows, lagRow(p, owners[p], committed, starts[p], ends[p], times))
	}
	return rows, nil
}

func lagRow(p admin.Partition, owner string, committed map[admin.Partition]int64, start, end admin.Offset, times map[admin.Partition]int64) partitionLag {
	r := partitionLag{Topic: p.Topic, Partition: p.Index, Member: owner}
	offset, ok := committed[p]
	if ok {
		r.Committed = &offset
	}
	if err := cmp.Or(end.Err, start.Err); err != nil {
		r.Error = err.Error()
		return r
	}
	r.LogStart, r.LogEnd = &start.Offset, &end.Offset
	if !ok {
		return r
	}
	lag := end.Offset - max(offset, start.Offset)
	switch {
	case offset < start.Offset:
		r.Gone = start.Offset - offset
		r.Note = fmt.Sprintf("%s: the records from the committed offset %d up to %d were deleted before the group consumed them; it goes on where its auto.offset.reset says", p, offset, start.Offset)
	case lag < 0:
		lag = 0
		r.Note = fmt.Sprintf("%s: the committed offset %d is behind the end, %d: the topic was made anew, or lost records; the group goes on where its auto.offset.reset says", p, offset, end.Offset)
	}
	r.Lag = &lag
	if ms, known := times[p]; known || lag == 0 {
		seconds := 0.0
		if lag > 0 {
			seconds = max(float64(now().UnixMilli()-ms)/1000, 0)
		}
		r.LagSeconds = &seconds
	}
	return r
}

func (f *clusterFlags) printDescribed(w io.Writer, groups []*describedGroup) error {
	if f.output == "json" {
		return printJSON(w, groups)
	}
	for i, g := range groups {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := g.print(w); err != nil {
			return err
		}
	}
	return nil
}

func (g *describedGroup) print(w io.Writer) error {
	t := newTable(w)
	row(t, "GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR", "MEMBERS")
	row(t, g.Group, g.State, g.Type, g.Protocol, admin.Broker{ID: g.Coordinator.ID, Addr: g.Coordinator.Addr}, len(g.Members))
	if err := t.Flush(); err != nil {
		return err
	}
	if len(g.Members) > 0 {
		fmt.Fprintln(w)
		row(t, "MEMBER", "INSTANCE", "CLIENT", "HOST", "ASSIGNMENT")
		for i := range g.Members {
			m := &g.Members[i]
			row(t, m.ID, m.Instance, m.ClientID, m.Host, m.assignment())
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if len(g.Partitions) > 0 {
		fmt.Fprintln(w)
		row(t, "TOPIC", "PARTITION", "COMMITTED", "LOG-END", "LAG", "LAG-SECONDS", "MEMBER")
		for i := range g.Partitions {
			p := &g.Partitions[i]
			row(t, p.Topic, p.Partition, number(p.Committed), number(p.LogEnd), number(p.Lag), p.seconds(), p.Member)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	for i := range g.Partitions {
		if p := &g.Partitions[i]; p.Error != "" || p.Note != "" {
			fmt.Fprintln(w, printable(cmp.Or(p.Error, p.Note)))
		}
	}
	return nil
}

// assignment is a cell such as "orders:0,1 payments:3".
func (m *describedMember) assignment() string {
	if m.Assignment == nil {
		return "(not readable)"
	}
	var b strings.Builder
	topic := ""
	for i, p := range m.partitions {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "%s:%d", p.Topic, p.Index)
		case p.Topic != topic:
			fmt.Fprintf(&b, " %s:%d", p.Topic, p.Index)
		default:
			fmt.Fprintf(&b, ",%d", p.Index)
		}
		topic = p.Topic
	}
	return b.String()
}

func (p *partitionLag) seconds() string {
	switch {
	case p.LagSeconds == nil:
		return ""
	case *p.LagSeconds == 0:
		return "0"
	}
	return fmt.Sprintf("%.1f", *p.LagSeconds)
}
