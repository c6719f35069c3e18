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
// succeed later (its coordinator loads, or moved) and is asked again until the context ends. A Client is used by one goroutine.
package admin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
)

// retryPause is between two attempts.
const retryPause = 100 * time.Millisecond

// Client is the connections to a cluster.
type Client struct {
	bootstrap []string
	o         rpc.Options
	conns     map[string]*rpc.Conn // by address
	home      string               // the bootstrap address that answered
}

// New makes a client that begins with the first of the addresses (HOST:PORT) that answers. It connects when it is asked something.
func New(bootstrap []string, o rpc.Options) *Client {
	return &Client{bootstrap: bootstrap, o: o, conns: map[string]*rpc.Conn{}}
}

// Close ends all connections.
func (c *Client) Close() {
	for _, conn := range c.conns {
		conn.Close()
	}
	clear(c.conns)
}

// Addr is how the cluster was reached, for messages.
func (c *Client) Addr() string {
	if c.home != "" {
		return c.home
	}
	return strings.Join(c.bootstrap, ",")
}

// Told reports whether an address is one that the cluster told, and not one that the client began with.
func (c *Client) Told(addr string) bool { return c.home != "" && !slices.Contains(c.bootstrap, addr) }

// conn is a connection to a broker that works, or did a moment ago.
func (c *Client) conn(ctx context.Context, addr string) (*rpc.Conn, error) {
	if conn := c.conns[addr]; conn != nil {
		if conn.Err() == nil {
			return conn, nil
		}
		conn.Close()
		delete(c.conns, addr)
	}
	conn, err := rpc.Dial(ctx, addr, c.o)
	if err != nil {
		return nil, err
	}
	c.conns[addr] = conn
	return conn, nil
}

// any is a connection to any broker.
func (c *Client) any(ctx context.Context) (*rpc.Conn, error) {
	if c.home != "" {
		return c.conn(ctx, c.home)
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
	return c.conn(ctx, addr)
}

// ask sends a request to a broker; "" is any.
func (c *Client) ask(ctx context.Context, addr string, req kmsg.Request, newest int16) (kmsg.Response, error) {
	var conn *rpc.Conn
	var err error
	if addr == "" {
		conn, err = c.any(ctx)
	} else {
		conn, err = c.conn(ctx, addr)
	}
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
