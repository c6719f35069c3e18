package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// netServer is the standard-library driver: a goroutine per listener, two per connection.
//
// States: new -> serving -> stopping (draining) -> stopped; new -> stopped when Shutdown comes before Serve.
type netServer struct {
	base
	listeners []net.Listener
	addrs     []net.Addr

	mu struct {
		sync.Mutex
		serving  bool
		draining bool
		conns    map[*netConn]struct{}
	}
	accepting sync.WaitGroup // a goroutine per listener
	working   sync.WaitGroup // one per connection, until its OnClose has returned
	stop      chan struct{}  // closed when Shutdown begins
	done      chan struct{}  // closed when Shutdown is finished
	failed    chan error     // a listener cannot go on
}

func listenNet(o Options) (Server, error) {
	ls, err := o.bind()
	if err != nil {
		return nil, err
	}
	s := &netServer{
		listeners: append(ls, o.Listeners...),
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
	}
	s.failed = make(chan error, len(s.listeners))
	s.base.init(o)
	s.mu.conns = map[*netConn]struct{}{}
	for _, l := range s.listeners {
		s.addrs = append(s.addrs, l.Addr())
	}
	return s, nil
}

func (s *netServer) Addr() net.Addr    { return s.addrs[0] }
func (s *netServer) Addrs() []net.Addr { return s.addrs }

func (s *netServer) Serve() error {
	s.mu.Lock()
	if s.mu.serving || s.mu.draining {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.mu.serving = true
	s.accepting.Add(len(s.listeners))
	s.mu.Unlock()
	for _, l := range s.listeners {
		go s.acceptFrom(l)
	}
	t := time.NewTicker(tickInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.tick()
		case err := <-s.failed:
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			s.Shutdown(ctx)
			return err
		case <-s.done:
			return nil
		}
	}
}

// acceptFrom accepts until the listener is closed. Other errors make a pause, never an end, unless they do not stop.
func (s *netServer) acceptFrom(l net.Listener) {
	defer s.accepting.Done()
	for {
		nc, err := l.Accept()
		if err == nil {
			s.accepted(nc)
			continue
		}
		select {
		case <-s.stop:
			return
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			s.failed <- err
			return
		}
		s.acceptPauses.Add(1)
		s.lines.Log(slog.LevelWarn, "accepting pauses", "err", err, "connections", s.connections.Load())
		select {
		case <-time.After(acceptPause):
		case <-s.stop:
			return
		}
	}
}

func (s *netServer) accepted(nc net.Conn) {
	if !s.admit(unmapped(addrPortOf(nc.RemoteAddr())).Addr()) {
		nc.Close()
		return
	}
	if t, ok := nc.(*net.TCPConn); ok {
		s.tune(t)
	}
	c := newNetConn(s, nc)
	if s.o.TLS != nil {
		c.tls = tls.Server(nc, s.o.TLS)
		c.nc = c.tls
	}
	s.mu.Lock()
	s.mu.conns[c] = struct{}{}
	s.working.Add(1)
	draining := s.mu.draining
	s.mu.Unlock()
	go c.run()
	if draining {
		c.drain()
	}
}

// tune sets socket options; a failure costs speed only. No delay and keep-alive are the net package's default.
func (s *netServer) tune(t *net.TCPConn) {
	if n := s.o.SendBufferBytes; n > 0 {
		t.SetWriteBuffer(n)
	}
	if n := s.o.RecvBufferBytes; n > 0 {
		t.SetReadBuffer(n)
	}
}

// forget is the last thing a connection does.
func (s *netServer) forget(c *netConn) {
	s.mu.Lock()
	delete(s.mu.conns, c)
	s.mu.Unlock()
	s.working.Done()
}

// snapshot is the connections of now.
func (s *netServer) snapshot() []*netConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := make([]*netConn, 0, len(s.mu.conns))
	for c := range s.mu.conns {
		conns = append(conns, c)
	}
	return conns
}

// tick closes what is idle or half-closed for too long.
func (s *netServer) tick() {
	s.watch()
	now := s.o.NowMs()
	for _, c := range s.snapshot() {
		c.tick(now)
	}
}

func (s *netServer) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	first := !s.mu.draining
	s.mu.draining = true
	s.mu.Unlock()
	if !first {
		select {
		case <-s.done:
			return nil
		case <-ctx.Done():
			s.closeConns()
			<-s.done
			return ctx.Err()
		}
	}
	close(s.stop)
	closeAll(s.listeners)
	s.accepting.Wait()
	for _, c := range s.snapshot() {
		c.drain()
	}
	finished := make(chan struct{})
	go func() { s.working.Wait(); close(finished) }()
	var err error
	select {
	case <-finished:
	case <-ctx.Done():
		err = ctx.Err()
		s.closeConns()
		<-finished
	}
	s.lines.Close()
	close(s.done)
	return err
}

func (s *netServer) closeConns() {
	for _, c := range s.snapshot() {
		c.fail(ErrServerClosed)
	}
}
