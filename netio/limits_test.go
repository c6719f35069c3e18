package netio

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/leatmq/leat/internal/loglimit"
)

func TestFrameLimits(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const limit, before = 10_000, 100
		f := func(size int32, authenticated, ok bool) {
			t.Helper()
			h := newTestHandler(func(c *Call) {
				c.Conn.SetPrincipal("user")
				echo(c)
			})
			s := start(t, d.options(Options{Handler: h, MaxFrame: limit, MaxFrameUnauthenticated: before}))
			c := dial(t, d, s)
			if authenticated {
				c.send([]byte("password"))
				c.recv()
			}
			c.raw(binary.BigEndian.AppendUint32(nil, uint32(size)))
			if ok {
				c.raw(pattern(int(size)))
				if n := len(c.recv()); n != int(size) {
					t.Errorf("echo of %d bytes", n)
				}
				return
			}
			err := h.waitClosed(t)
			if fe := (*FrameError)(nil); !errors.As(err, &fe) || fe.Size != size {
				t.Errorf("size %d: reason %v", size, err)
			}
			if n := s.Stats().FrameBytes; n != 0 {
				t.Errorf("%d bytes allocated", n)
			}
		}
		f(before, false, true)
		f(before+1, false, false)
		f(limit, true, true)
		f(limit+1, true, false)
		f(0, true, false)
		f(-1, true, false)
		f(-1<<31, false, false)
		f(1<<31-1, true, false)
	})
}

// A limit that changes with the principal applies to the frame right behind, in the same segment.
func TestFrameLimitAfterAuthentication(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		h := newTestHandler(func(c *Call) {
			c.Conn.SetPrincipal("user")
			echo(c)
		})
		s := start(t, d.options(Options{Handler: h, MaxFrameUnauthenticated: 10}))
		c := dial(t, d, s)
		c.send([]byte("password"), pattern(1000))
		c.recv()
		if n := len(c.recv()); n != 1000 {
			t.Errorf("%d bytes", n)
		}
	})
}

func TestMaxConnections(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		for _, o := range []Options{{MaxConnections: 2}, {MaxPerIP: 2}} {
			var log syncBuffer
			o.Handler = newTestHandler(echo)
			o.Logger = log.logger()
			s := start(t, d.options(o))
			ok := []*client{dial(t, d, s), dial(t, d, s)}
			eventually(t, "two connections", func() bool { return s.Stats().Connections == 2 })
			const refusals = loglimit.Burst + 3
			for range refusals {
				refused := dial(t, driver{name: d.name}, s)
				if _, err := refused.tryRecv(); err == nil {
					t.Fatal("answer on a refused connection")
				}
			}
			for _, c := range ok {
				c.send([]byte("x"))
				c.recv()
			}
			if n := s.Stats().Rejected; n != refusals {
				t.Errorf("%d rejected", n)
			}
			if n := strings.Count(log.String(), "connection refused"); n != loglimit.Burst {
				t.Errorf("%d lines in the log, want %d", n, loglimit.Burst)
			}
			ok[0].Close()
			eventually(t, "a place", func() bool { return s.Stats().Connections == 1 })
			c := dial(t, d, s)
			c.send([]byte("x"))
			c.recv()
		}
	})
}

// Servers together count their connections and their frames together; a negative limit lets nobody in.
func TestLimitsTogether(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		for _, o := range []Options{{MaxConnections: 2}, {MaxPerIP: 2}} {
			o.Handler = newTestHandler(echo)
			first := start(t, d.options(o))
			o.Together = first
			second := start(t, d.options(o))
			kept := []*client{dial(t, d, first), dial(t, d, second)}
			eventually(t, "a connection of each", func() bool { return first.Stats().Connections == 1 && second.Stats().Connections == 1 })
			for _, s := range []Server{first, second} {
				if _, err := dial(t, driver{name: d.name}, s).tryRecv(); err == nil || s.Stats().Rejected != 1 {
					t.Errorf("a third connection: %v, %+v", err, s.Stats())
				}
			}
			kept[0].Close()
			eventually(t, "a place", func() bool { return first.Stats().Connections == 0 })
			c := dial(t, d, second)
			c.send([]byte("x"))
			c.recv()
		}
		for _, o := range []Options{{MaxConnections: -1}, {MaxPerIP: -1}} {
			o.Handler = newTestHandler(echo)
			s := start(t, d.options(o))
			if _, err := dial(t, driver{name: d.name}, s).tryRecv(); err == nil || s.Stats().Rejected != 1 {
				t.Errorf("%v, %+v", err, s.Stats())
			}
		}
	})
}

// Frame memory of servers together: what a request of one holds is missing at the other, and comes back to it.
func TestFrameMemoryTogether(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const size = 3 << 20
		calls := make(chan *Call, 1)
		o := Options{FrameBytesLimit: 4 << 20, MaxFrame: size, Handler: newTestHandler(func(c *Call) { calls <- c })}
		first := start(t, d.options(o))
		o.Together = first
		second := start(t, d.options(o))
		holder, waiter := dial(t, d, first), dial(t, d, second)
		holder.send(pattern(size))
		held := receive(t, calls, "the first request")
		go waiter.Write(frameOf(pattern(size)))
		eventually(t, "the second request to wait for memory", func() bool { return baseOf(second).frames.waiters.Load() == 1 })
		held.Complete(Response{Body: []byte{0, 0, 0, 1, 'k'}})
		receive(t, calls, "the second request").Complete(Response{Body: []byte{0, 0, 0, 1, 'k'}})
		holder.recv()
		waiter.recv()
	})
}

// "localhost" is both loopback addresses, where this machine has them, with one port.
func TestLocalhostIsBothFamilies(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		local := make(chan netip.AddrPort, 10)
		s := start(t, d.options(Options{Address: "localhost:0", Handler: newTestHandler(func(c *Call) {
			local <- c.Conn.LocalAddr()
			if ip := c.Conn.RemoteIP(); !ip.IsLoopback() || !strings.Contains(c.Conn.RemoteAddr(), ip.String()) {
				t.Errorf("remote %v, %v", ip, c.Conn.RemoteAddr())
			}
			echo(c)
		})}))
		port := s.Addr().(*net.TCPAddr).Port
		want := 1
		if probe, err := net.Listen("tcp", "[::1]:0"); err == nil {
			probe.Close()
			want = 2
		}
		if len(s.Addrs()) != want {
			t.Fatalf("listening on %v", s.Addrs())
		}
		for _, a := range s.Addrs() {
			if a.(*net.TCPAddr).Port != port {
				t.Errorf("ports differ: %v", s.Addrs())
			}
			raw, err := net.Dial("tcp", a.String())
			if err != nil {
				t.Fatal(err)
			}
			raw.Close()
		}
		c := dial(t, d, s)
		c.send([]byte("x"))
		c.recv()
		if got := receive(t, local, "a request"); got.String() != s.Addr().String() {
			t.Errorf("local address %v, dialed %v", got, s.Addr())
		}
	})
}

func TestSeveralAddresses(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		s := start(t, d.options(Options{Addresses: []string{"127.0.0.1:0", ":0"}, Handler: newTestHandler(echo), Address: "127.0.0.1:0"}))
		if len(s.Addrs()) != 3 {
			t.Fatalf("listening on %v", s.Addrs())
		}
	})
}

func TestListenErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := openFiles(t)
	f := func(o Options, want string) {
		t.Helper()
		s, err := Listen(o)
		if err == nil {
			t.Errorf("no error, want %q", want)
			s.Shutdown(t.Context())
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want %q", err, want)
		}
	}
	h := newTestHandler(echo)
	f(Options{Address: "127.0.0.1:0"}, "Handler")
	f(Options{Handler: h}, "no address")
	f(Options{Handler: h, Address: "127.0.0.1"}, "missing port")
	f(Options{Handler: h, Address: "127.0.0.1:0", Driver: "uring"}, "driver")
	f(Options{Handler: h, Address: "127.0.0.1:0", Network: "udp"}, "network")
	f(Options{Handler: h, Address: "127.0.0.1:0", MaxFrame: -1}, "negative")
	f(Options{Handler: h, Address: "127.0.0.1:0", Driver: "epoll", TLS: serverTLS()}, "net driver")
	f(Options{Handler: h, Network: "tcp6", Address: "127.0.0.1:0"}, "address")
	for _, d := range drivers() {
		f(d.options(Options{Handler: h, Addresses: []string{"127.0.0.1:0", taken.Addr().String()}}), "in use")
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestTLSState(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		s := start(t, d.options(Options{Handler: newTestHandler(func(c *Call) {
			if got := c.Conn.TLSState() != nil; got != d.tls {
				t.Errorf("TLS state present: %v", got)
			}
			echo(c)
		})}))
		c := dial(t, d, s)
		c.send([]byte("x"))
		c.recv()
	})
}

func TestConnKeepsWhatTheHandlerStores(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		ids := make(chan uint64, 10)
		h := newTestHandler(func(c *Call) {
			n, _ := c.Conn.Data().(int)
			c.Conn.SetData(n + 1)
			ids <- c.Conn.ID()
			echo(c)
		})
		data := make(chan any, 1)
		h.onClose = func(c Conn, _ error) { data <- c.Data() }
		s := start(t, d.options(Options{Handler: h}))
		c := dial(t, d, s)
		for range 3 {
			c.send([]byte("x"))
			c.recv()
		}
		c.Close()
		if got := receive(t, data, "OnClose"); got != 3 {
			t.Errorf("data %v", got)
		}
		if a, b := <-ids, <-ids; a != b || a == 0 {
			t.Errorf("ids %d, %d", a, b)
		}
	})
}

// A TLS listener does not wait for ever for a handshake, and survives what is none.
func TestTLSHandshakeFails(t *testing.T) {
	h := newTestHandler(echo)
	s := start(t, Options{Driver: "net", TLS: serverTLS(), Handler: h, HandshakeTimeout: 50_000_000})
	silent, plain := dial(t, driver{}, s), dial(t, driver{}, s)
	plain.send([]byte("plain text"))
	for range 2 {
		if err := h.waitClosed(t); err == nil {
			t.Error("no reason")
		}
	}
	if _, err := silent.tryRecv(); err == nil {
		t.Error("an answer")
	}
	c := dial(t, driver{tls: true}, s)
	c.send([]byte("x"))
	c.recv()
}

// pipeListener is a listener without a network.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

func TestGivenListener(t *testing.T) {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	s := start(t, Options{Listeners: []net.Listener{l}, Handler: newTestHandler(echo)})
	if s.Addr().String() != "memory" {
		t.Errorf("address %v", s.Addr())
	}
	here, there := net.Pipe()
	l.conns <- there
	c := &client{t: t, Conn: here}
	c.send([]byte("x"))
	if got := c.recv(); string(got) != "x" {
		t.Errorf("%q", got)
	}
	here.Close()
}
