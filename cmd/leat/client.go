package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/client/admin"
	"github.com/leatmq/leat/internal/rpc"
)

// now is the time that ages are counted to.
var now = time.Now

// clusterFlags are what the commands that ask a cluster have in common.
type clusterFlags struct {
	connection
	output  string
	timeout time.Duration
}

func (f *clusterFlags) add(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.connection.add(fs)
	fs.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to try")
	addOutputFlag(cmd, &f.output)
}

func (f *clusterFlags) check() error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout is more than nothing, not %v", f.timeout)}
	}
	return f.load()
}

// run does something with a cluster, within the time limit. What goes wrong comes with what can be done about it.
func (f *clusterFlags) run(cmd *cobra.Command, do func(ctx context.Context, c *admin.Client) error) error {
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
	c, err := admin.New(f.clientConfig())
	if err != nil {
		return err
	}
	defer c.Close()
	return f.advise(c, do(ctx, c))
}

// advise adds the way out to errors that have one.
func (f *clusterFlags) advise(c *admin.Client, err error) error {
	return f.adviseOn(err, c.Told, c.Addr())
}

// adviseOn is advise for errors of any client of the cluster: told says whether an address comes from the cluster, which was asked at asked.
func (f *clusterFlags) adviseOn(err error, told func(addr string) bool, asked string) error {
	if all := each(err); len(all) > 1 {
		for i := range all {
			all[i] = f.adviseOn(all[i], told, asked)
		}
		return errors.Join(all...)
	}
	if e, ok := errors.AsType[*rpc.UnreachableError](err); ok {
		why := e.Err
		if advice := f.tlsAdvice(why); advice != "" {
			return fmt.Errorf("%s cannot be reached (%w): %s", e.Addr, why, advice)
		}
		if op, ok := errors.AsType[*net.OpError](e.Err); ok {
			why = op.Err
		}
		if told(e.Addr) {
			return fmt.Errorf("%s cannot be reached (%w), which is what the cluster at %s calls one of its brokers; make its advertised.listeners an address that works from here", e.Addr, why, asked)
		}
		return fmt.Errorf("%s cannot be reached (%w); start a broker there, or name the address of one with --bootstrap-server", e.Addr, why)
	}
	if e, ok := errors.AsType[*rpc.NotKafkaError](err); ok {
		return fmt.Errorf("%w; give --bootstrap-server the address of a Kafka listener without TLS, or --tls when it is one with TLS", e)
	}
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	if errors.Is(err, context.DeadlineExceeded) || rpc.Retriable(err) {
		return fmt.Errorf("%w; ask again, or wait longer with --timeout", err)
	}
	return err
}

// adviseClient is advise for errors of a client.Client.
func (f *clusterFlags) adviseClient(err error) error {
	if err == nil {
		return nil
	}
	return f.adviseOn(err, func(addr string) bool { return !slices.Contains(f.servers, addr) }, f.servers[0])
}

// clientConfig makes a client.Client.
func (f *clusterFlags) clientConfig() client.Config {
	return client.Config{BootstrapServers: f.servers, ClientID: "leat", TLS: f.secure, DialTimeout: max(min(f.timeout, 10*time.Second), time.Millisecond), RequestTimeout: max(f.timeout, time.Second)}
}

// lookUp asks for topics, so that what is wrong with the cluster's address or a topic's name is said at once.
func (f *clusterFlags) lookUp(ctx context.Context, names []string) (map[string]*admin.Topic, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	c, err := admin.New(f.clientConfig())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	topics, err := c.Topics(ctx, names)
	if err != nil {
		return nil, f.advise(c, err)
	}
	return topics, nil
}
