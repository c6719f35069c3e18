package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
)

// purpose is what a connection is for. Two purposes never share a connection.
type purpose string

// general is for short questions that anybody may ask.
const general purpose = ""

type connKey struct {
	addr    string
	purpose purpose
}

// conns is the table of connections.
type conns struct {
	client *Client
	mu     struct {
		sync.Mutex
		slots  map[connKey]*connSlot
		proven map[string]bool                // addresses at which there has been a broker
		memory map[purpose]func(n int) []byte // of answers on connections of a purpose; see rpc.Options
		closed bool
	}
}

// connSlot is the place of a connection; guarded by conns.mu.
type connSlot struct {
	conn      *rpc.Conn     // nil: none, or one is being made
	dialing   chan struct{} // closed when the attempt is over; nil: there is none
	err       error         // of the last attempt
	failures  int           // in a row
	notBefore time.Time     // of the next attempt
	gone      bool          // out of the table: what is dialled is closed
}

func (cs *conns) init(c *Client) {
	cs.client = c
	cs.mu.slots, cs.mu.proven, cs.mu.memory = map[connKey]*connSlot{}, map[string]bool{}, map[purpose]func(n int) []byte{}
}

// get is a connection that works, or did a moment ago.
func (cs *conns) get(ctx context.Context, key connKey) (*rpc.Conn, error) {
	for waited := false; ; waited = true {
		conn, dialing, err := cs.look(key, waited)
		if conn != nil || err != nil {
			return conn, err
		}
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look is the connection of a key, or the attempt to make it, which it begins; after an attempt that was waited for, its error.
func (cs *conns) look(key connKey, waited bool) (*rpc.Conn, chan struct{}, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.mu.closed {
		return nil, nil, ErrClosed
	}
	s := cs.mu.slots[key]
	if s == nil {
		s = &connSlot{}
		cs.mu.slots[key] = s
	}
	if s.conn != nil {
		if s.conn.Err() == nil {
			return s.conn, nil, nil
		}
		cs.discard(s.conn)
		s.conn = nil
	}
	if s.dialing != nil {
		return nil, s.dialing, nil
	}
	if waited && s.err != nil {
		return nil, nil, s.err
	}
	s.dialing = make(chan struct{})
	pause := time.Until(s.notBefore)
	cs.client.running.Go(func() { cs.dial(key, s, pause) })
	return nil, s.dialing, nil
}

// discard closes a connection beside: its last answers may have to be told first.
func (cs *conns) discard(conn *rpc.Conn) { cs.client.running.Go(conn.Close) }

// setMemory says where the answers on connections of a purpose get their memory from; nil: nowhere in particular.
func (cs *conns) setMemory(p purpose, memory func(n int) []byte) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.mu.memory[p] = memory; memory == nil {
		delete(cs.mu.memory, p)
	}
}

func (cs *conns) memoryOf(p purpose) func(n int) []byte {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.mu.memory[p]
}

// dial makes the connection of a slot.
func (cs *conns) dial(key connKey, s *connSlot, pause time.Duration) {
	c := cs.client
	conn, err := (*rpc.Conn)(nil), c.sleep(c.ctx, pause)
	if err == nil {
		begin := time.Now()
		var ctx context.Context
		ctx, cancel := context.WithTimeout(c.ctx, c.config.DialTimeout)
		conn, err = rpc.Dial(ctx, key.addr, rpc.Options{ClientID: c.config.ClientID, Timeout: c.config.RequestTimeout, Dial: c.config.DialBroker, Memory: cs.memoryOf(key.purpose)})
		cancel()
		if hook := c.config.Hooks.Dialed; hook != nil {
			hook(key.addr, time.Since(begin), err)
		}
		if err != nil {
			c.config.Logger.Debug("no connection", "addr", key.addr, "err", err)
		}
	}
	if c.ctx.Err() != nil && err != nil {
		err = ErrClosed
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if s.err = cs.judgeLocked(key.addr, s.failures, err); err != nil {
		s.failures++
		s.notBefore = time.Now().Add(c.backoff(s.failures))
	} else {
		s.failures, cs.mu.proven[key.addr] = 0, true
		if s.gone || cs.mu.closed {
			cs.discard(conn)
			s.err = ErrClosed
		} else {
			s.conn = conn
		}
	}
	close(s.dialing)
	s.dialing = nil
}

// silentTries is how often in a row whoever is at an address where no broker has been may say nothing before it is taken for something else.
const silentTries = 3

// judgeLocked is the error of an attempt after others that failed. A broker that is killed, or not ready, hangs up as well as something that is no broker does.
func (cs *conns) judgeLocked(addr string, failures int, err error) error {
	if e, ok := errors.AsType[*NotKafkaError](err); ok && e.Silent && (cs.mu.proven[addr] || failures < silentTries-1) {
		return &LostError{Addr: addr, Err: err}
	}
	return err
}

// DialBroker makes a connection to a broker as a Client does: with Dial, and TLS on top.
func (c Config) DialBroker(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := c.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err != nil || c.TLS == nil {
		return conn, err
	}
	config := c.TLS
	if config.ServerName == "" && !config.InsecureSkipVerify {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("no TLS: %w", err)
	}
	return secure, nil
}

// live is a connection of a purpose that is open, to any of the addresses; nil when there is none.
func (cs *conns) live(p purpose, addrs []string) *rpc.Conn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, addr := range addrs {
		if s := cs.mu.slots[connKey{addr, p}]; s != nil && s.conn != nil && s.conn.Err() == nil {
			return s.conn
		}
	}
	return nil
}

// keep closes the connections for which it says no, and forgets them.
func (cs *conns) keep(want func(connKey) bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for key, s := range cs.mu.slots {
		if want(key) {
			continue
		}
		s.gone = true
		if s.conn != nil {
			cs.discard(s.conn)
		}
		delete(cs.mu.slots, key)
	}
}

func (cs *conns) close() {
	cs.mu.Lock()
	cs.mu.closed = true
	cs.mu.Unlock()
	cs.keep(func(connKey) bool { return false })
}

// closeConns closes the connections of a purpose: whoever they were for has ended.
func (c *Client) closeConns(p purpose) {
	c.conns.keep(func(k connKey) bool { return k.purpose != p })
}

// broker is a connection to a broker of the cluster, by its id.
func (c *Client) broker(ctx context.Context, id int32, p purpose) (*rpc.Conn, error) {
	addr, ok := c.metadata.current().addrs[id]
	if !ok {
		cl, err := c.refresh(ctx)
		if err != nil {
			return nil, err
		}
		if addr, ok = cl.addrs[id]; !ok {
			return nil, &UnreachableError{Addr: fmt.Sprintf("broker %d", id), Err: errors.New("the cluster does not name it now")}
		}
	}
	conn, err := c.conns.get(ctx, connKey{addr, p})
	if err != nil && ctx.Err() == nil {
		c.stale() // it may have moved
	}
	return conn, err
}

// anyBroker is a general connection to any broker: one that is open, else the first that can be made, to brokers that are known, then to those to begin with.
func (c *Client) anyBroker(ctx context.Context) (*rpc.Conn, error) {
	var addrs []string
	for _, addr := range c.metadata.current().addrs {
		addrs = append(addrs, addr)
	}
	slices.Sort(addrs)
	c.shuffle(addrs)
	for _, addr := range c.config.BootstrapServers {
		if !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	if conn := c.conns.live(general, addrs); conn != nil {
		return conn, nil
	}
	var all []error
	for _, addr := range addrs {
		conn, err := c.conns.get(ctx, connKey{addr, general})
		if err == nil {
			return conn, nil
		}
		if all = append(all, err); ctx.Err() != nil {
			break
		}
	}
	if len(all) == 1 {
		return nil, all[0]
	}
	return nil, errors.Join(all...)
}

// request asks and waits. A broker that does not answer within RequestTimeout loses its connection: the next question must not wait for the same silence.
func (c *Client) request(ctx context.Context, conn *rpc.Conn, req kmsg.Request) (kmsg.Response, error) {
	resp, err := conn.Request(ctx, req, -1)
	if _, late := errors.AsType[*TimeoutError](err); late && ctx.Err() == nil {
		conn.Break(err)
	}
	return resp, err
}

func (c *Client) shuffle(s []string) {
	for i := len(s) - 1; i > 0; i-- {
		j := int(c.random() * float64(i+1))
		s[i], s[j] = s[j], s[i]
	}
}
