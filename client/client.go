package client

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Client is the connections to a cluster and what is known of it. Its methods may be used by several goroutines.
type Client struct {
	config       Config
	random       func() float64 // in [0, 1)
	ctx          context.Context
	cancel       context.CancelFunc
	running      sync.WaitGroup
	lastID       atomic.Int64 // of producers and consumers
	metadata     metadata
	conns        conns
	coordinators coordinators
	users        struct {
		sync.Mutex
		open   map[closer]struct{}
		closed bool
	}
}

// closer is a producer or consumer of the Client.
type closer interface{ shut() }

// New makes a Client. It connects to nothing. Errors: *ConfigError.
func New(config Config) (*Client, error) {
	return newClient(config, rand.Float64)
}

func newClient(config Config, random func() float64) (*Client, error) {
	config, err := config.Complete()
	if err != nil {
		return nil, err
	}
	c := &Client{config: config, random: random}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.conns.init(c)
	c.metadata.init(c)
	c.coordinators.homes = map[string]home{}
	c.users.open = map[closer]struct{}{}
	return c, nil
}

// Close ends the producers and consumers of the Client at once (close them before it where nothing may be left undone), and all connections. It returns when nothing runs any more.
func (c *Client) Close() {
	c.users.Lock()
	open := c.users.open
	c.users.open, c.users.closed = nil, true
	c.users.Unlock()
	for u := range open {
		u.shut()
	}
	c.cancel()
	c.conns.close()
	c.running.Wait()
}

// join makes a producer or consumer one that Close ends.
func (c *Client) join(u closer) error {
	c.users.Lock()
	defer c.users.Unlock()
	if c.users.closed {
		return ErrClosed
	}
	c.users.open[u] = struct{}{}
	return nil
}

// leave forgets a producer or consumer that has closed.
func (c *Client) leave(u closer) {
	c.users.Lock()
	defer c.users.Unlock()
	delete(c.users.open, u)
}

// servers is how the cluster is reached, for messages.
func (c *Client) servers() string { return strings.Join(c.config.BootstrapServers, ",") }

// backoff is the pause before retry n (from 1): doubling from RetryBackoff to RetryBackoffMax, less up to a quarter.
func (c *Client) backoff(n int) time.Duration {
	d := c.config.RetryBackoffMax
	if n < 32 {
		d = min(d, c.config.RetryBackoff<<max(n-1, 0))
	}
	if d <= 0 {
		d = c.config.RetryBackoffMax
	}
	return d - time.Duration(c.random()*float64(d)/4)
}

// sleep waits. The error is why it ended early: that of the context, or ErrClosed.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return ErrClosed
	}
}
