package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/internal/admin"
	"github.com/leatmq/leat/internal/rpc"
)

func newGroup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "group",
		Short: "Look at consumer groups, find out why they rebalance, reset and delete them",
		Long: "Look at consumer groups, find out why they rebalance, reset and delete them. Works with leat and with any other broker that speaks Kafka's protocol;\n" +
			"only leat keeps the history that `explain` tells.",
		Example: "  leat group list\n" +
			"  leat group describe orders-app\n" +
			"  leat group explain orders-app --bootstrap-server broker:9092\n" +
			"  leat group reset orders-app --topic orders --to-datetime 2026-11-30T08:00:00Z\n" +
			"  leat group delete orders-app",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGroupList(), newGroupDescribe(), newGroupExplain(), newGroupReset(), newGroupDelete())
	return cmd
}

// now is the time that ages are counted to.
var now = time.Now

// groupFlags are what the commands about groups have in common.
type groupFlags struct {
	bootstrap string
	output    string
	timeout   time.Duration
	servers   []string // bootstrap, parsed
}

func (f *groupFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.bootstrap, "bootstrap-server", "localhost:9092", "brokers to begin with, `HOST:PORT`; several with commas between them")
	fs.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to try")
	addOutputFlag(cmd, &f.output)
}

func (f *groupFlags) check() error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout is more than nothing, not %v", f.timeout)}
	}
	f.servers = nil
	for s := range strings.SplitSeq(f.bootstrap, ",") {
		s = strings.TrimSpace(s)
		host, port, err := net.SplitHostPort(s)
		if err != nil || host == "" || port == "" {
			return usageError{fmt.Errorf("--bootstrap-server: %q is no address; expected HOST:PORT", s)}
		}
		f.servers = append(f.servers, s)
	}
	return nil
}

// run does something with a cluster, within the time limit. What goes wrong comes with what can be done about it.
func (f *groupFlags) run(cmd *cobra.Command, do func(ctx context.Context, c *admin.Client) error) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	c := admin.New(f.servers, rpc.Options{ClientID: "leat-group", Timeout: f.timeout})
	defer c.Close()
	return f.advise(c, do(ctx, c))
}

// advise adds the way out to errors that have one.
func (f *groupFlags) advise(c *admin.Client, err error) error {
	if all := each(err); len(all) > 1 {
		for i := range all {
			all[i] = f.advise(c, all[i])
		}
		return errors.Join(all...)
	}
	if e, ok := errors.AsType[*rpc.UnreachableError](err); ok {
		why := e.Err
		if op, ok := errors.AsType[*net.OpError](e.Err); ok {
			why = op.Err
		}
		if c.Told(e.Addr) {
			return fmt.Errorf("%s cannot be reached (%w), which is what the cluster at %s calls one of its brokers; make its advertised.listeners an address that works from here", e.Addr, why, c.Addr())
		}
		return fmt.Errorf("%s cannot be reached (%w); start a broker there, or name the address of one with --bootstrap-server", e.Addr, why)
	}
	if e, ok := errors.AsType[*rpc.NotKafkaError](err); ok {
		return fmt.Errorf("%w; give --bootstrap-server the address of a Kafka listener without TLS", e)
	}
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	if errors.Is(err, context.DeadlineExceeded) || rpc.Retriable(err) {
		return fmt.Errorf("%w; ask again, or wait longer with --timeout", err)
	}
	return err
}

// noGroup says that there is no such group, and where the others are.
func noGroup(c *admin.Client, group string) error {
	return fmt.Errorf("group %q does not exist on %s; `leat group list --bootstrap-server %s` shows those that do", group, c.Addr(), c.Addr())
}

// describeGroup is a group, or a sentence why not.
func describeGroup(ctx context.Context, c *admin.Client, group string, story bool) (*admin.Group, error) {
	g, err := c.DescribeGroup(ctx, group, story)
	if errors.Is(err, admin.ErrNoGroup) {
		return nil, noGroup(c, group)
	}
	return g, err
}

// membersShown of a group that is in the way are named.
const membersShown = 5

// whoIsIn names members.
func whoIsIn(g *admin.Group) string {
	var all []string
	for i := range g.Members {
		if i == membersShown {
			all = append(all, fmt.Sprintf("and %d more", len(g.Members)-i))
			break
		}
		m := &g.Members[i]
		all = append(all, fmt.Sprintf("%s (%s on %s)", m.ID, m.ClientID, m.Host))
	}
	return strings.Join(all, ", ")
}

// activeGroup refuses what only a group without members allows.
func activeGroup(g *admin.Group, what string) error {
	if len(g.Members) == 0 {
		return fmt.Errorf("group %q is %s: members are joining; stop them before it can be %s", g.Group, g.State, what)
	}
	return fmt.Errorf("group %q is %s, its members would go on from where they are; stop them before it can be %s: %s", g.Group, g.State, what, whoIsIn(g))
}

// Printing.

// brokerJSON is a broker in the output.
type brokerJSON struct {
	ID   int32  `json:"id"`
	Addr string `json:"address"`
}

func brokerOf(b admin.Broker) brokerJSON { return brokerJSON{b.ID, b.Addr} }

// newTable aligns cells; print a row with row.
func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// row prints cells; one that is empty is a dash.
func row(t *tabwriter.Writer, cells ...any) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t, "\t")
		}
		fmt.Fprint(t, cmp.Or(printable(fmt.Sprint(c)), "-"))
	}
	fmt.Fprintln(t)
}

// printable keeps what clients choose from moving the cursor.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// number is a cell of a number that may not be known.
func number(n *int64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

// timeOf is a time in milliseconds for people and programs.
func timeOf(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00") }
