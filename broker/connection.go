package broker

import (
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/netio"
)

// connection is what the broker knows about one client connection.
//
// Order: a request that needs a worker runs when the appends of all earlier Produce requests are done, and later requests wait until it is done. So
// topics, configs and the ends of logs change in the order in which the client asked.
type connection struct {
	conn     netio.Conn
	listener int                    // index of Broker.servers
	host     atomic.Pointer[string] // see clientHost
	mu       struct {
		sync.Mutex
		appending int        // Produce requests whose batches are not all in their logs
		busy      bool       // a request runs on a worker, or waits to
		held      bool       // busy, and waiting[0] waits for appending to be 0
		waiting   []*request // came meanwhile; at most netio.Options.MaxInFlight
		parked    map[*fetchOp]struct{}
	}
}

// connections is the set of open connections.
type connections struct {
	mu struct {
		sync.Mutex
		all map[*connection]struct{}
	}
}

func (s *connections) init() { s.mu.all = map[*connection]struct{}{} }

func (s *connections) add(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.all[c] = struct{}{}
}

func (s *connections) remove(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.all, c)
}

// each calls fn for every connection, without the lock.
func (s *connections) each(fn func(*connection)) {
	s.mu.Lock()
	all := make([]*connection, 0, len(s.mu.all))
	for c := range s.mu.all {
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		fn(c)
	}
}

// connection returns the broker's side of a connection, made at its first request.
func (b *Broker) connection(c netio.Conn, listener int) *connection {
	if conn, ok := c.Data().(*connection); ok {
		return conn
	}
	conn := &connection{conn: c, listener: listener}
	c.SetData(conn)
	b.conns.add(conn)
	return conn
}

// admit decides where a new request runs: true means here and now; else it has been queued, behind an earlier request or for a worker.
func (c *connection) admit(b *Broker, r *request) bool {
	c.mu.Lock()
	if !c.mu.busy && !r.needsWorker(b) {
		c.mu.Unlock()
		return true
	}
	first := !c.mu.busy && c.mu.appending == 0
	if !first {
		c.mu.held = c.mu.held || !c.mu.busy
		c.mu.waiting = append(c.mu.waiting, r)
	}
	c.mu.busy = true
	c.mu.Unlock()
	if first {
		b.submit(r)
	}
	return false
}

// nextWaiting takes the oldest waiting request, unless that must wait for appends. When nothing waits the connection is not busy any more.
func (c *connection) nextWaiting(b *Broker) *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.mu.waiting) == 0:
		c.mu.busy = false
		return nil
	case c.mu.appending > 0 && c.mu.waiting[0].needsWorker(b):
		c.mu.held = true
		return nil
	}
	return c.popWaitingLocked()
}

func (c *connection) popWaitingLocked() *request {
	r := c.mu.waiting[0]
	n := copy(c.mu.waiting, c.mu.waiting[1:])
	c.mu.waiting[n] = nil
	c.mu.waiting = c.mu.waiting[:n]
	return r
}

// beginAppends and endAppends enclose the time in which a Produce request has batches on their way to their logs.
func (c *connection) beginAppends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.appending++
}

func (c *connection) endAppends(b *Broker) {
	c.mu.Lock()
	c.mu.appending--
	var r *request
	if c.mu.appending == 0 && c.mu.held {
		c.mu.held = false
		r = c.popWaitingLocked()
	}
	c.mu.Unlock()
	if r != nil {
		b.submit(r)
	}
}

// park and unpark keep the fetches that must be woken when the connection goes.
func (c *connection) park(op *fetchOp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.parked == nil {
		c.mu.parked = map[*fetchOp]struct{}{}
	}
	c.mu.parked[op] = struct{}{}
}

func (c *connection) unpark(op *fetchOp) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.parked, op)
}

// wakeParked makes parked fetches look again: the connection is gone, or the broker stops.
func (c *connection) wakeParked() {
	c.mu.Lock()
	ops := make([]*fetchOp, 0, len(c.mu.parked))
	for op := range c.mu.parked {
		ops = append(ops, op)
	}
	c.mu.Unlock()
	for _, op := range ops {
		op.wake()
	}
}
