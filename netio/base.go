package netio

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/loglimit"
)

// base is what both drivers' servers share: options, counters, admission, the pool of calls.
type base struct {
	o   Options
	log *slog.Logger
	*limits
	// largestFrame is what has room in frames.
	largestFrame int
	calls        sync.Pool // of *Call, with the User the handler left in it
	// lines is for what peers can cause.
	lines *loglimit.Logger

	connections  atomic.Int64
	muted        atomic.Int64
	inFlight     atomic.Int64
	queuedBytes  atomic.Int64
	accepted     atomic.Int64
	rejected     atomic.Int64
	acceptPauses atomic.Int64
	requests     atomic.Int64
	panics       atomic.Int64
	bytesIn      atomic.Int64
	bytesOut     atomic.Int64
}

// limits is what limits count: of one server, or of all that have it together (Options.Together).
type limits struct {
	frames     account
	unfinished unfinished
	admission  struct {
		sync.Mutex
		connections int
		perIP       map[netip.Addr]int // connections; only while MaxPerIP is set
	}
}

func newLimits(o *Options) *limits {
	l := &limits{}
	l.frames.limit, l.frames.nowMs = o.FrameBytesLimit, o.NowMs
	l.admission.perIP = map[netip.Addr]int{}
	return l
}

// common is what a server shares with those that name it in Options.Together.
func (b *base) common() *limits { return b.limits }

func (b *base) init(o Options) {
	b.o = o
	b.log = o.Logger
	b.lines = loglimit.New(o.Logger, o.NowMs)
	if other, ok := o.Together.(interface{ common() *limits }); ok {
		b.limits = other.common()
	} else {
		b.limits = newLimits(&o)
	}
	b.largestFrame = b.frames.largest()
}

// watch does what is due about once a second on behalf of all connections.
func (b *base) watch() {
	if b.o.awake != nil {
		b.o.awake.tick()
	}
	b.watchFrames(b.o.NowMs())
	b.lines.Flush()
}

func (b *base) Stats() Stats {
	return Stats{
		Connections:  b.connections.Load(),
		Muted:        b.muted.Load(),
		InFlight:     b.inFlight.Load(),
		FrameBytes:   b.frames.bytes(),
		QueuedBytes:  b.queuedBytes.Load(),
		Accepted:     b.accepted.Load(),
		Rejected:     b.rejected.Load(),
		AcceptPauses: b.acceptPauses.Load(),
		Requests:     b.requests.Load(),
		Panics:       b.panics.Load(),
		BytesIn:      b.bytesIn.Load(),
		BytesOut:     b.bytesOut.Load(),
	}
}

const (
	// tickInterval is the precision of idle and half-close time-outs.
	tickInterval = time.Second
	// acceptPause is how long accepting rests when the system is out of descriptors or memory.
	acceptPause = 100 * time.Millisecond
)

// admit counts a new connection, or refuses it. Every admitted connection must be left.
func (b *base) admit(ip netip.Addr) bool {
	b.admission.Lock()
	defer b.admission.Unlock()
	reason := ""
	switch {
	case b.o.MaxConnections != 0 && b.admission.connections >= max(b.o.MaxConnections, 0):
		reason = "max.connections is reached"
	case b.o.MaxPerIP != 0 && b.admission.perIP[ip] >= max(b.o.MaxPerIP, 0):
		reason = "max.connections.per.ip is reached"
	}
	if reason != "" {
		b.rejected.Add(1)
		b.lines.Log(slog.LevelWarn, "connection refused", "reason", reason, "ip", ip)
		return false
	}
	if b.o.MaxPerIP > 0 {
		b.admission.perIP[ip]++
	}
	b.admission.connections++
	b.connections.Add(1)
	b.accepted.Add(1)
	return true
}

func (b *base) leave(ip netip.Addr) {
	b.admission.Lock()
	defer b.admission.Unlock()
	b.admission.connections--
	b.connections.Add(-1)
	if b.o.MaxPerIP <= 0 {
		return
	}
	if b.admission.perIP[ip]--; b.admission.perIP[ip] == 0 {
		delete(b.admission.perIP, ip)
	}
}

// newCall makes the call for a frame that arrived on conn.
func (b *base) newCall(owner callOwner, conn Conn, f *Frame) *Call {
	c, _ := b.calls.Get().(*Call)
	if c == nil {
		c = &Call{}
	}
	c.Conn, c.owner, c.Frame, c.frameSize = conn, owner, f, len(f.B)
	b.requests.Add(1)
	b.inFlight.Add(1)
	return c
}

// finish releases what a completed call holds and makes the Call ready for its next use.
func (b *base) finish(c *Call) {
	c.resp.drop()
	if invariant.Enabled {
		return // a second Complete of this call must be seen, not reach the next request
	}
	c.Conn, c.owner, c.ready = nil, nil, nil
	c.done, c.queued, c.part, c.off = false, 0, 0, 0
	c.state.Store((c.state.Load()/callUse + 1) * callUse)
	b.calls.Put(c)
}

// completed keeps the counters when a response arrives, popped when its call leaves the pipeline.
func (b *base) completed(c *Call) { b.queuedBytes.Add(int64(c.queued)) }

func (b *base) popped(c *Call) {
	b.inFlight.Add(-1)
	if c.done {
		b.queuedBytes.Add(-int64(c.queued))
	}
}

// deliver hands the call to the handler. A panic comes back as *PanicError; the call then counts as the handler's for ever.
func (b *base) deliver(c *Call) (err error) {
	state := c.state.Load()
	defer func() {
		if v := recover(); v != nil {
			err = b.panicked(c, state, v)
		}
	}()
	b.o.Handler.OnRequest(c)
	return nil
}

func (b *base) panicked(c *Call, state uint32, v any) error {
	b.panics.Add(1)
	b.lines.Log(slog.LevelError, "handler panicked, closing the connection", "panic", v, "stack", string(debug.Stack()))
	if c.state.CompareAndSwap(state, state+callAbandoned) && c.Frame != nil {
		c.Frame.abandon()
	}
	return &PanicError{Value: v}
}

// notifyClosed runs the handler's OnClose.
func (b *base) notifyClosed(c Conn, err error) {
	defer func() {
		if v := recover(); v != nil {
			b.panics.Add(1)
			b.lines.Log(slog.LevelError, "handler panicked in OnClose", "panic", v, "stack", string(debug.Stack()))
		}
	}()
	b.o.Handler.OnClose(c, err)
}

var lastConnID atomic.Uint64

// connBase is what both drivers' connections share.
type connBase struct {
	srv       *base
	id        uint64
	remote    netip.AddrPort
	local     netip.AddrPort
	principal atomic.Pointer[any]
	data      atomic.Pointer[any]
	mutes     atomic.Int32 // Mute minus Unmute
	closed    atomic.Bool
	finishing atomic.Bool // a response that ends the connection is on its way: nothing more is read
	budget    budget
	progress  progress
	noted     bool // progress knows of an unfinished frame; reader only
}

// transport is the driver's side of a connection.
type transport interface {
	// memoryFreed: see budget.
	memoryFreed()
	// fail closes the connection; any goroutine, and without waiting.
	fail(reason error)
}

func (c *connBase) init(srv *base, t transport, remote, local netip.AddrPort) {
	c.srv = srv
	c.budget.account, c.budget.owner = &srv.frames, t
	c.progress.owner, c.progress.budget = t, &c.budget
	c.id = lastConnID.Add(1)
	c.remote = unmapped(remote)
	c.local = unmapped(local)
}

// unmapped turns an IPv4 address that arrived on an IPv6 socket back into IPv4.
func unmapped(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

func (c *connBase) ID() uint64                     { return c.id }
func (c *connBase) RemoteIP() netip.Addr           { return c.remote.Addr() }
func (c *connBase) LocalAddr() netip.AddrPort      { return c.local }
func (c *connBase) TLSState() *tls.ConnectionState { return nil }
func (c *connBase) isClosed() bool                 { return c.closed.Load() }
func (c *connBase) Principal() any                 { return load(&c.principal) }
func (c *connBase) SetPrincipal(p any)             { c.principal.Store(&p) }
func (c *connBase) Data() any                      { return load(&c.data) }
func (c *connBase) SetData(d any)                  { c.data.Store(&d) }
func (c *connBase) Mute()                          { c.mutes.Add(1) }
func (c *connBase) RemoteAddr() string             { return c.remote.String() }

func load(p *atomic.Pointer[any]) any {
	if v := p.Load(); v != nil {
		return *v
	}
	return nil
}

// unmute takes one Mute back and tells whether it was the last.
func (c *connBase) unmute() bool {
	n := c.mutes.Add(-1)
	invariant.Must(n >= 0, "netio: Unmute without Mute")
	return n == 0
}

// frameLimit is the largest frame acceptable now.
func (c *connBase) frameLimit() int {
	if c.Principal() == nil {
		return min(c.srv.o.MaxFrameUnauthenticated, c.srv.largestFrame)
	}
	return min(c.srv.o.MaxFrame, c.srv.largestFrame)
}
