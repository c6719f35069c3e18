package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client/admin"
	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// resetPlan is what `leat group reset --output json` prints.
type resetPlan struct {
	Group      string        `json:"group"`
	Executed   bool          `json:"executed"`
	Partitions []resetOffset `json:"partitions"`
}

type resetOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Current   *int64 `json:"currentOffset"` // null: none is committed
	New       int64  `json:"newOffset"`
	Note      string `json:"note,omitempty"`
	Error     string `json:"error,omitempty"`
}

func newGroupReset() *cobra.Command {
	var (
		f       clusterFlags
		to      resetTarget
		topics  []string
		execute bool
		dryRun  bool
	)
	cmd := &cobra.Command{
		Use:   "reset GROUP",
		Short: "Set the committed offsets of a group: to an end, an offset, a time, or by a distance",
		Long: "Set the committed offsets of a group that has no members. Without --execute nothing is changed: it is shown what would be.\n" +
			"Offsets outside of what a partition has become its first or its end. Without --topic, all partitions are meant of which the group has offsets.",
		Example: "  leat group reset orders-app --to-earliest\n" +
			"  leat group reset orders-app --topic orders:0,3 --topic payments --to-datetime 2026-11-30T08:00:00Z --execute\n" +
			"  leat group reset orders-app --by-duration 90m --execute\n" +
			"  leat group reset orders-app --shift-by -100 --execute",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := to.check(cmd.Flags().Changed); err != nil {
				return usageError{err}
			}
			if execute && dryRun {
				return usageError{errors.New("--execute and --dry-run exclude each other")}
			}
			scope, err := parseScope(topics)
			if err != nil {
				return usageError{err}
			}
			return f.run(cmd, func(ctx context.Context, c *admin.Client) error {
				r := &resetter{c: c, group: args[0], to: &to, scope: scope}
				plan, err := r.plan(ctx)
				if err == nil && execute {
					err = r.execute(ctx, plan)
				}
				if plan == nil {
					return err
				}
				return errors.Join(f.printPlan(cmd.OutOrStdout(), plan), err)
			})
		},
	}
	f.add(cmd)
	to.add(cmd)
	fs := cmd.Flags()
	fs.StringArrayVar(&topics, "topic", nil, "`TOPIC` or TOPIC:0,1,2 for some of its partitions; may be given several times")
	fs.BoolVar(&execute, "execute", false, "do it")
	fs.BoolVar(&dryRun, "dry-run", false, "only show what would be done; the default")
	return cmd
}

// resetTarget says where the offsets go.
type resetTarget struct {
	earliest, latest   bool
	offset, shift      int64
	datetime, duration string
	kind               string // the flag that was given
	ms                 int64  // of datetime and duration
}

var resetFlags = []string{"to-earliest", "to-latest", "to-offset", "to-datetime", "by-duration", "shift-by"}

func (to *resetTarget) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.BoolVar(&to.earliest, "to-earliest", false, "to the first record that is there")
	fs.BoolVar(&to.latest, "to-latest", false, "to the end: what is there is not consumed")
	fs.Int64Var(&to.offset, "to-offset", 0, "to this offset")
	fs.StringVar(&to.datetime, "to-datetime", "", "to the first record not older than this `TIME`: RFC 3339, such as 2026-11-30T08:00:00Z")
	fs.StringVar(&to.duration, "by-duration", "", "to the first record not older than this `DURATION` before now: 1h30m, or PT1H30M")
	fs.Int64Var(&to.shift, "shift-by", 0, "forward by so many records, or back when it is negative")
}

func (to *resetTarget) check(changed func(string) bool) error {
	for _, name := range resetFlags {
		if changed(name) {
			if to.kind != "" {
				return fmt.Errorf("--%s and --%s exclude each other", to.kind, name)
			}
			to.kind = name
		}
	}
	switch to.kind {
	case "":
		return errors.New("it is not said where the offsets go: one of --" + strings.Join(resetFlags, ", --"))
	case "to-earliest", "to-latest":
		if !to.earliest && !to.latest {
			return fmt.Errorf("--%s takes no value", to.kind)
		}
	case "to-offset":
		if to.offset < 0 {
			return fmt.Errorf("--to-offset is 0 or more, not %d", to.offset)
		}
	case "to-datetime":
		at, err := time.Parse(time.RFC3339, to.datetime)
		if err != nil {
			return fmt.Errorf("--to-datetime: %q is no time as in RFC 3339, such as 2026-11-30T08:00:00Z or 2026-11-30T09:00:00.5+01:00", to.datetime)
		}
		to.ms = at.UnixMilli()
	case "by-duration":
		d, err := parseDuration(to.duration)
		if err != nil {
			return fmt.Errorf("--by-duration: %w", err)
		}
		to.ms = now().Add(-d).UnixMilli()
	}
	if to.ms < 0 {
		return fmt.Errorf("--%s: a time before 1970", to.kind)
	}
	return nil
}

// isoDuration is the form of durations of Kafka's tools.
var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?$`)

// parseDuration reads 1h30m and PT1H30M.
func parseDuration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is no duration that is not negative, such as 1h30m or PT1H30M", text)
	m := isoDuration.FindStringSubmatch(text)
	if m == nil || strings.HasSuffix(text, "P") || strings.HasSuffix(text, "T") {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, bad
		}
		return d, nil
	}
	total := time.Duration(0)
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second} {
		if m[i+1] == "" {
			continue
		}
		n, err := strconv.ParseInt(m[i+1], 10, 64)
		if err != nil || n > (math.MaxInt64-int64(total))/int64(unit) {
			return 0, bad
		}
		total += time.Duration(n) * unit
	}
	return total, nil
}

// scopeTopic is a topic of --topic; no partitions are all.
type scopeTopic struct {
	name       string
	partitions []int32
}

func parseScope(flags []string) (scope []scopeTopic, err error) {
	for _, text := range flags {
		name, list, some := strings.Cut(text, ":")
		t := scopeTopic{name: name}
		if name == "" {
			return nil, fmt.Errorf("--topic: %q names no topic", text)
		}
		if some {
			for number := range strings.SplitSeq(list, ",") {
				n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 32)
				if err != nil || n < 0 {
					return nil, fmt.Errorf("--topic: %q in %q is no partition; expected TOPIC:0,1,2", number, text)
				}
				t.partitions = append(t.partitions, int32(n))
			}
		}
		scope = append(scope, t)
	}
	return scope, nil
}

// resetter resets one group.
type resetter struct {
	c     *admin.Client
	group string
	to    *resetTarget
	scope []scopeTopic
}

func (r *resetter) plan(ctx context.Context) (*resetPlan, error) {
	g, err := describeGroup(ctx, r.c, r.group, false)
	if err != nil {
		return nil, err
	}
	if g.Active() {
		return nil, activeGroup(g, "reset")
	}
	committed, err := r.c.CommittedOffsets(ctx, r.group)
	if err != nil {
		return nil, err
	}
	partitions, err := r.partitions(ctx, committed)
	if err != nil {
		return nil, err
	}
	return r.target(ctx, partitions, committed)
}

// partitions are those that are meant.
func (r *resetter) partitions(ctx context.Context, committed map[admin.Partition]int64) (all []admin.Partition, err error) {
	if len(r.scope) == 0 {
		if len(committed) == 0 {
			return nil, fmt.Errorf("group %q has no committed offsets; name the topics to reset with --topic", r.group)
		}
		return slices.SortedFunc(maps.Keys(committed), admin.ComparePartitions), nil
	}
	var names []string
	for _, t := range r.scope {
		names = append(names, t.name)
	}
	slices.Sort(names)
	topics, err := r.c.Topics(ctx, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	for _, s := range r.scope {
		ps, err := r.partitionsOf(s, topics[s.name])
		if err != nil {
			return nil, err
		}
		all = append(all, ps...)
	}
	slices.SortFunc(all, admin.ComparePartitions)
	return slices.Compact(all), nil
}

func (r *resetter) partitionsOf(s scopeTopic, t *admin.Topic) (all []admin.Partition, err error) {
	switch rpc.Code(t.Err) {
	case protocol.None:
	case protocol.UnknownTopicOrPartition, protocol.InvalidTopicException:
		return nil, fmt.Errorf("topic %q does not exist on %s; check the name given to --topic", s.name, r.c.Addr())
	default:
		return nil, t.Err
	}
	for _, n := range s.partitions {
		if int(n) >= len(t.Leaders) {
			return nil, fmt.Errorf("topic %q has no partition %d, only 0 to %d; check --topic", s.name, n, len(t.Leaders)-1)
		}
		all = append(all, admin.Partition{Topic: s.name, Index: n})
	}
	if len(s.partitions) == 0 {
		for n := range t.Leaders {
			all = append(all, admin.Partition{Topic: s.name, Index: int32(n)})
		}
	}
	return all, nil
}

// target finds the new offset of each partition.
func (r *resetter) target(ctx context.Context, partitions []admin.Partition, committed map[admin.Partition]int64) (*resetPlan, error) {
	starts, err := r.offsets(ctx, partitions, admin.Earliest)
	if err != nil {
		return nil, err
	}
	ends, err := r.offsets(ctx, partitions, admin.Latest)
	if err != nil {
		return nil, err
	}
	var timed map[admin.Partition]admin.Offset
	if r.to.kind == "to-datetime" || r.to.kind == "by-duration" {
		if timed, err = r.offsets(ctx, partitions, r.to.ms); err != nil {
			return nil, err
		}
	}
	plan := &resetPlan{Group: r.group}
	for _, p := range partitions {
		row := resetOffset{Topic: p.Topic, Partition: p.Index}
		current, has := committed[p]
		if has {
			row.Current = &current
		}
		start, end := starts[p].Offset, ends[p].Offset
		switch r.to.kind {
		case "to-earliest":
			row.New = start
		case "to-latest":
			row.New = end
		case "to-offset":
			row.New = r.to.offset
		case "shift-by":
			if !has {
				return nil, fmt.Errorf("group %q has no committed offset of %s to shift; use another flag for it, or leave it out with --topic", r.group, p)
			}
			row.New = shifted(current, r.to.shift)
		default:
			if row.New = timed[p].Offset; row.New < 0 {
				row.New, row.Note = end, "no record is that young: the end"
			}
		}
		switch {
		case row.New < start:
			row.New, row.Note = start, fmt.Sprintf("%d is gone: the first that is there", row.New)
		case row.New > end:
			row.New, row.Note = end, fmt.Sprintf("%d is not there yet: the end", row.New)
		}
		plan.Partitions = append(plan.Partitions, row)
	}
	return plan, nil
}

// shifted adds without going over the edge.
func shifted(offset, by int64) int64 {
	if by > 0 && offset > math.MaxInt64-by {
		return math.MaxInt64
	}
	return max(offset+by, 0)
}

// offsets are those of all partitions, or an error.
func (r *resetter) offsets(ctx context.Context, partitions []admin.Partition, at int64) (map[admin.Partition]admin.Offset, error) {
	all, err := r.c.Offsets(ctx, partitions, at)
	if err != nil {
		return nil, err
	}
	for _, p := range partitions {
		err := all[p].Err
		if rpc.Code(err) == protocol.UnknownTopicOrPartition {
			return nil, fmt.Errorf("the group has an offset of %s, which does not exist on %s any more; name what to reset with --topic", p, r.c.Addr())
		}
		if err != nil {
			return nil, fmt.Errorf("the offsets of %s are not known now, nothing was changed: %w", p, err)
		}
	}
	return all, nil
}

func (r *resetter) execute(ctx context.Context, plan *resetPlan) error {
	offsets := map[admin.Partition]int64{}
	for i := range plan.Partitions {
		p := &plan.Partitions[i]
		offsets[admin.Partition{Topic: p.Topic, Index: p.Partition}] = p.New
	}
	refused, err := r.c.CommitOffsets(ctx, r.group, offsets)
	if err != nil && len(refused) == 0 {
		return err
	}
	plan.Executed = len(refused) < len(plan.Partitions)
	for i := range plan.Partitions {
		p := &plan.Partitions[i]
		if err := refused[admin.Partition{Topic: p.Topic, Index: p.Partition}]; err != nil {
			p.Error = err.Error()
			if rpc.Code(err) == protocol.UnknownMemberID {
				return fmt.Errorf("members joined group %q in the meantime, nothing was changed; stop them first", r.group)
			}
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("%d of %d offsets were not set", len(refused), len(plan.Partitions))
	}
	return nil
}

func (f *clusterFlags) printPlan(w io.Writer, plan *resetPlan) error {
	if f.output == "json" {
		return printJSON(w, plan)
	}
	t := newTable(w)
	row(t, "TOPIC", "PARTITION", "CURRENT", "NEW", "NOTE")
	for i := range plan.Partitions {
		p := &plan.Partitions[i]
		note := p.Note
		if p.Error != "" {
			note = p.Error
		}
		row(t, p.Topic, p.Partition, number(p.Current), p.New, note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if plan.Executed {
		fmt.Fprintln(w, "Done.")
	} else {
		fmt.Fprintln(w, "Nothing was changed. Run it again with --execute to do it.")
	}
	return nil
}
