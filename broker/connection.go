package broker

import (
	"sync"

	"github.com/leatmq/leat/netio"
)

// connection is what the broker knows about one client connection.
type connection struct {
	conn netio.Conn
	mu   struct {
		sync.Mutex
		busy    bool       // a request runs on a worker
		waiting []*request // came meanwhile; at most netio.Options.MaxInFlight
		parked  map[*fetchOp]struct{}
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
func (b *Broker) connection(c netio.Conn) *connection {
	if conn, ok := c.Data().(*connection); ok {
		return conn
	}
	conn := &connection{conn: c}
	c.SetData(conn)
	b.conns.add(conn)
	return conn
}

// admit decides where a new request runs: true means here and now; else it has been queued, behind an earlier request or for a worker.
func (c *connection) admit(b *Broker, r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.busy {
		c.mu.waiting = append(c.mu.waiting, r)
		return false
	}
	if r.how.worker == nil || !r.how.worker(b, r) {
		return true
	}
	c.mu.busy = true
	if !b.requests.submit(func() { b.runOnWorker(r) }) {
		r.call.Complete(netio.Response{None: true, Close: true}) // the broker has stopped
	}
	return false
}

// nextWaiting takes the oldest waiting request; without one the connection is not busy any more.
func (c *connection) nextWaiting() *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.waiting) == 0 {
		c.mu.busy = false
		return nil
	}
	r := c.mu.waiting[0]
	c.mu.waiting = append(c.mu.waiting[:0], c.mu.waiting[1:]...)
	return r
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
