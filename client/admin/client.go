// Package admin asks a cluster: who its brokers are, where partitions and groups are at home, which offsets there are, what topics and groups look like; and
// changes topics and groups. It is what `leat topic`, `leat group` and `leat cluster` stand on, and works with any broker that speaks Kafka's protocol.
//
//	client.go       connections, one for each broker that is needed
//	cluster.go      brokers, leaders, coordinators
//	topics.go       topics: create, delete, add partitions, describe
//	configs.go      configuration of topics, log directories
//	offsets.go      log start, log end, by time; the timestamp of a record
//	groups.go       list, describe, delete
//	commits.go      committed offsets: read and set
//
// What is about several partitions tells errors for each of them, and asks once: a partition without a leader is something to show. What a broker says of a group may
// succeed later (its coordinator loads, or moved) and is asked again until the context ends. Connections are shared by whoever uses a Client; they are made one at a time.
package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/internal/rpc"
)

// retryPause is between two attempts.
const retryPause = 100 * time.Millisecond

// Client is the connections to a cluster. Its methods may be used by several goroutines.
type Client struct {
	bootstrap []string
	o         rpc.Options

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	turn  chan struct{}        // held by whoever looks for a connection, or makes one; guards what follows
	conns map[string]*rpc.Conn // by address
	home  string               // the bootstrap address that answered
}

// New makes a client that begins with the first of the bootstrap servers that answers. It connects when it is asked something. Of the configuration it uses what
// is about connections: the rest, such as back-offs, is for producers and consumers. Errors: *client.ConfigError.
func New(config client.Config) (*Client, error) {
	config, err := config.Complete()
	if err != nil {
		return nil, err
	}
	return newClient(config.BootstrapServers, rpc.Options{ClientID: config.ClientID, Timeout: config.RequestTimeout, Dial: config.DialBroker}), nil
}

func newClient(bootstrap []string, o rpc.Options) *Client {
	c := &Client{bootstrap: bootstrap, o: o, turn: make(chan struct{}, 1), conns: map[string]*rpc.Conn{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends all connections, and what waits for answers with them.
func (c *Client) Close() {
	c.cancel()
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	for _, conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
}

// Addr is how the cluster was reached, for messages.
func (c *Client) Addr() string {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	if c.home != "" {
		return c.home
	}
	return strings.Join(c.bootstrap, ",")
}

// Told reports whether an address is one that the cluster told, and not one that the client began with.
func (c *Client) Told(addr string) bool {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return c.home != "" && !slices.Contains(c.bootstrap, addr)
}

// take waits for the turn, as long as the context lasts.
func (c *Client) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.ctx.Err() != nil {
		<-c.turn
		return client.ErrClosed
	}
	return nil
}

// conn is a connection to a broker that works, or did a moment ago; "" is any broker.
func (c *Client) conn(ctx context.Context, addr string) (*rpc.Conn, error) {
	if err := c.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-c.turn }()
	if addr == "" {
		return c.any(ctx)
	}
	return c.dial(ctx, addr)
}

// dial is conn for whoever holds turn.
func (c *Client) dial(ctx context.Context, addr string) (*rpc.Conn, error) {
	if conn := c.conns[addr]; conn != nil {
		if conn.Err() == nil {
			return conn, nil
		}
		conn.Close()
		delete(c.conns, addr)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	conn, err := rpc.Dial(ctx, addr, c.o)
	if err != nil {
		return nil, err
	}
	c.conns[addr] = conn
	return conn, nil
}

// any is a connection to any broker. turn is held.
func (c *Client) any(ctx context.Context) (*rpc.Conn, error) {
	if c.home != "" {
		return c.dial(ctx, c.home)
	}
	var all []error
	for i, addr := range c.bootstrap {
		conn, err := c.share(ctx, addr, len(c.bootstrap)-i)
		if err == nil {
			c.home = addr
			return conn, nil
		}
		all = append(all, err)
	}
	if len(all) == 1 {
		return nil, all[0]
	}
	return nil, errors.Join(all...)
}

// share connects in one n-th of the time that is left: the other addresses are tried in the rest.
func (c *Client) share(ctx context.Context, addr string, n int) (*rpc.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && n > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
		defer cancel()
	}
	return c.dial(ctx, addr)
}

// ask sends a request to a broker; "" is any.
func (c *Client) ask(ctx context.Context, addr string, req kmsg.Request, newest int16) (kmsg.Response, error) {
	conn, err := c.conn(ctx, addr)
	if err != nil {
		return nil, err
	}
	return conn.Request(ctx, req, newest)
}

// retry runs an attempt until it succeeds, fails for good, or the context ends; the error is that of the latest attempt.
func retry(ctx context.Context, attempt func() error) error {
	for {
		err := attempt()
		if err == nil || !rpc.Retriable(err) || isUnreachable(err) {
			return err
		}
		timer := time.NewTimer(retryPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// isUnreachable: nobody waits for a broker that is not there; the address may be wrong.
func isUnreachable(err error) bool {
	_, ok := errors.AsType[*rpc.UnreachableError](err)
	return ok
}
