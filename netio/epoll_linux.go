package netio

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const haveEpoll = true

// epollServer runs the event loops. Loop 0 accepts for all.
//
// States: new -> serving -> stopping -> stopped; new -> stopped when Shutdown comes before Serve.
type epollServer struct {
	base
	addrs     []net.Addr
	loops     []*loop
	acceptors []*acceptor // of loop 0

	mu struct {
		sync.Mutex
		serving bool
		stopped bool // Shutdown was called, or a loop failed
	}
	drained sync.WaitGroup // one per loop: no connection left after draining began
	done    chan struct{}  // every loop has ended
	nextTo  int            // loop for the next connection; loop 0 only
}

func listenEpoll(o Options) (Server, error) {
	ls, err := o.bind()
	if err != nil {
		return nil, err
	}
	s := &epollServer{done: make(chan struct{})}
	s.base.init(o)
	err = s.open(ls)
	closeAll(ls) // the acceptors have their own descriptors of the same sockets
	if err != nil {
		s.closeAll()
		return nil, err
	}
	return s, nil
}

// open makes the loops and takes over the listening sockets.
func (s *epollServer) open(ls []net.Listener) error {
	for range s.o.Loops {
		l, err := newLoop(s)
		if err != nil {
			return err
		}
		s.loops = append(s.loops, l)
		s.drained.Add(1)
	}
	for _, ln := range ls {
		a, err := newAcceptor(s, ln)
		if err != nil {
			return err
		}
		s.acceptors = append(s.acceptors, a)
		s.addrs = append(s.addrs, ln.Addr())
	}
	return nil
}

// closeAll closes what open made, when no loop runs.
func (s *epollServer) closeAll() {
	for _, a := range s.acceptors {
		a.close()
	}
	for _, l := range s.loops {
		l.end(ErrServerClosed)
	}
}

func (s *epollServer) Addr() net.Addr    { return s.addrs[0] }
func (s *epollServer) Addrs() []net.Addr { return s.addrs }

func (s *epollServer) Serve() error {
	s.mu.Lock()
	if s.mu.stopped || s.mu.serving {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.mu.serving = true
	s.mu.Unlock()

	errs := make(chan error, len(s.loops))
	for _, l := range s.loops {
		go func() { errs <- l.run() }()
	}
	stopTicks := make(chan struct{})
	go s.ticker(stopTicks)
	var first error
	for range s.loops {
		if err := <-errs; err != nil && first == nil {
			first = err
			s.kill(err) // one loop cannot go on: none shall
		}
	}
	close(stopTicks)
	for _, a := range s.acceptors {
		a.close()
	}
	s.lines.Close()
	close(s.done)
	return first
}

func (s *epollServer) ticker(stop <-chan struct{}) {
	t := time.NewTicker(tickInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.tick()
		case <-stop:
			return
		}
	}
}

// tick lets every loop look at its clock.
func (s *epollServer) tick() {
	s.watch()
	for _, l := range s.loops {
		l.post(tickTask, l)
	}
}

func (s *epollServer) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	first := !s.mu.stopped
	s.mu.stopped = true
	serving := s.mu.serving
	s.mu.Unlock()
	if !serving {
		if first {
			s.closeAll()
		}
		return nil
	}
	if first {
		s.drain()
	}
	drained := make(chan struct{})
	go func() { s.drained.Wait(); close(drained) }()
	var err error
	select {
	case <-drained:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.kill(nil)
	<-s.done
	return err
}

// drain stops accepting, then lets every loop finish its connections. Loop 0 has handed over all accepted connections
// before any loop is told.
func (s *epollServer) drain() {
	s.loops[0].post(func(any) error {
		for _, a := range s.acceptors {
			a.close()
		}
		for _, l := range s.loops {
			l.post(drainTask, l)
		}
		return nil
	}, nil)
}

// kill ends every loop. A nil err is the regular end.
func (s *epollServer) kill(err error) {
	s.mu.Lock()
	s.mu.stopped = true
	s.mu.Unlock()
	for _, l := range s.loops {
		l.post(endTask, l)
	}
	if err != nil {
		s.log.Error("event loop failed, network server stops", "err", err)
	}
}

// acceptor is one listening socket; loop 0 owns it.
type acceptor struct {
	srv    *epollServer
	fd     int // -1 when closed
	paused bool
}

// acceptBatch is how many connections are accepted before other events get their turn.
const acceptBatch = 64

// newAcceptor duplicates the descriptor of ln, which the net package bound and configured.
func newAcceptor(s *epollServer, ln net.Listener) (*acceptor, error) {
	sc, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		return nil, err
	}
	a := &acceptor{srv: s, fd: -1}
	var dupErr error
	err = sc.Control(func(fd uintptr) { a.fd, dupErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, dupErr); err != nil {
		return nil, err
	}
	l := s.loops[0]
	if err := l.poller.add(a.fd, readEvents); err != nil {
		unix.Close(a.fd)
		return nil, err
	}
	l.acceptors[a.fd] = a
	return a, nil
}

func (a *acceptor) close() {
	if a.fd < 0 {
		return
	}
	delete(a.srv.loops[0].acceptors, a.fd)
	unix.Close(a.fd)
	a.fd = -1
}

// accept takes waiting connections. An error that is not about one connection makes a pause, never an end.
func (a *acceptor) accept() {
	for range acceptBatch {
		fd, sa, err := unix.Accept4(a.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			a.accepted(fd, sa)
		case unix.EAGAIN:
			return
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM, unix.EBADF, unix.EINVAL, unix.ENOTSOCK, unix.EFAULT:
			a.pause(err)
			return
		default: // EINTR, ECONNABORTED and the network errors that accept(2) passes on from the new connection
		}
	}
}

func (a *acceptor) accepted(fd int, sa unix.Sockaddr) {
	s := a.srv
	remote := addrPort(sa)
	if !s.admit(remote.Addr().Unmap()) {
		unix.Close(fd)
		return
	}
	l := s.loops[s.nextTo%len(s.loops)]
	s.nextTo++
	c := newEpollConn(l, fd, remote)
	if l == s.loops[0] {
		l.register(c)
	} else if !l.post(registerTask, c) {
		s.leave(c.RemoteIP())
		unix.Close(fd)
	}
}

// pause stops watching the listening socket for a while; connections wait in its backlog.
func (a *acceptor) pause(err error) {
	if a.paused {
		return
	}
	a.paused = true
	a.srv.acceptPauses.Add(1)
	a.srv.lines.Log(slog.LevelWarn, "accepting pauses", "err", err, "connections", a.srv.connections.Load())
	l := a.srv.loops[0]
	l.poller.remove(a.fd)
	time.AfterFunc(acceptPause, func() { l.post(resumeAcceptTask, a) })
}

func resumeAcceptTask(arg any) error {
	a := arg.(*acceptor)
	a.paused = false
	if a.fd < 0 {
		return nil
	}
	if err := a.srv.loops[0].poller.add(a.fd, readEvents); err != nil {
		a.pause(err)
	}
	return nil
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
