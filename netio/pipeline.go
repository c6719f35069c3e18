package netio

// requestSlice is how many requests of one connection are delivered before others get their turn.
const requestSlice = 32

// pipeline is the unanswered requests of one connection, oldest first. It is not locked: its owner is the event loop of the
// connection (epoll) or the connection's mutex (net).
//
// Invariant: calls, frameBytes and queuedBytes are the sums over the list of 1, frameSize and (once done) queued.
type pipeline struct {
	head, tail  *Call
	calls       int
	frameBytes  int
	queuedBytes int
	full        bool // over a limit and not yet back at half of it
}

func (p *pipeline) push(c *Call) {
	if p.tail == nil {
		p.head = c
	} else {
		p.tail.next = c
	}
	p.tail = c
	p.calls++
	p.frameBytes += c.frameSize
}

// complete notes that the response of c is there.
func (p *pipeline) complete(c *Call) {
	c.done = true
	c.queued = c.resp.inMemory()
	p.queuedBytes += c.queued
}

// pop removes the oldest call.
func (p *pipeline) pop() *Call {
	c := p.head
	p.head = c.next
	if p.head == nil {
		p.tail = nil
	}
	c.next = nil
	p.calls--
	p.frameBytes -= c.frameSize
	if c.done {
		p.queuedBytes -= c.queued
	}
	return c
}

// sendable tells whether the oldest call has its response.
func (p *pipeline) sendable() bool { return p.head != nil && p.head.done }

// room tells whether another request may be read. Once over a limit there is none until half of it is free again, so that
// reading is not switched for every request.
func (p *pipeline) room(o *Options) bool {
	if p.full {
		p.full = p.calls > o.MaxInFlight/2 || p.frameBytes > o.InFlightBytesLimit/2 || p.queuedBytes > o.QueuedBytesLimit/2
	} else {
		p.full = p.calls >= o.MaxInFlight || p.frameBytes >= o.InFlightBytesLimit || p.queuedBytes >= o.QueuedBytesLimit
	}
	return !p.full
}
