package netio

import (
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startPoller runs a poller whose events go to onEvent, until the test ends or a task says errEnd.
func startPoller(t *testing.T, onEvent func(fd int, events uint32)) (p *poller, ended chan error) {
	t.Helper()
	p, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- p.run(onEvent) }()
	t.Cleanup(func() {
		p.post(endTask, nil)
		select {
		case <-ended:
			p.close()
		case <-time.After(10 * time.Second):
			t.Error("the poller does not end")
		}
	})
	return p, ended
}

// Tasks run in the order in which they were posted, from whatever goroutine, also those that are posted by tasks; those behind the end run too.
func TestPollerTasks(t *testing.T) {
	p, ended := startPoller(t, func(int, uint32) {})
	const posters, each = 4, 500
	var got [posters][]int
	var all sync.WaitGroup
	all.Add(posters * each)
	for g := range posters {
		go func() {
			for i := range each {
				p.post(func(arg any) error {
					if i%2 == 0 {
						got[g] = append(got[g], arg.(int))
						all.Done()
						return nil
					}
					p.post(func(any) error { all.Done(); return nil }, nil)
					return nil
				}, i)
			}
		}()
	}
	all.Wait()
	for g := range got {
		if len(got[g]) != each/2 || !slices.IsSorted(got[g]) {
			t.Errorf("poster %d: %v", g, got[g])
		}
	}
	ran := make(chan struct{})
	p.post(func(any) error {
		p.post(endTask, nil)
		p.post(func(any) error { close(ran); return nil }, nil)
		return nil
	}, nil)
	<-ran
	err := <-ended
	ended <- err
	if err != nil {
		t.Fatal(err)
	}
}

// A task that posts itself again and again keeps no descriptor from its turn.
func TestPollerTasksDoNotStarve(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	seen := make(chan uint32, 1)
	p, _ := startPoller(t, func(fd int, events uint32) {
		if fd == pipe[0] {
			unix.Read(fd, make([]byte, 8))
			seen <- events
		}
	})
	if err := p.add(pipe[0], readEvents); err != nil {
		t.Fatal(err)
	}
	stop := false // the poller's
	var again func(any) error
	again = func(any) error {
		if !stop {
			p.post(again, nil)
		}
		return nil
	}
	p.post(again, nil)
	unix.Write(pipe[1], []byte("x"))
	if events := <-seen; events&unix.EPOLLIN == 0 {
		t.Errorf("events %#x", events)
	}
	done := make(chan struct{})
	p.post(func(any) error { stop = true; close(done); return nil }, nil)
	<-done
}

// A descriptor that stays ready is an event again (level-triggered), one that was removed is none, and a poller that waits wakes for each.
func TestPollerIsLevelTriggered(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	events := make(chan uint32)
	p, _ := startPoller(t, func(fd int, ev uint32) {
		if fd == pipe[0] {
			events <- ev
			unix.Read(fd, make([]byte, 1))
		}
	})
	onLoop := func(fn func() error) {
		t.Helper()
		done := make(chan error)
		p.post(func(any) error { done <- fn(); return nil }, nil)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	onLoop(func() error { return p.add(pipe[0], readEvents) })
	for range 100 { // each time the poller waits, or is about to
		unix.Write(pipe[1], []byte("x"))
		<-events
	}
	unix.Write(pipe[1], []byte("abc"))
	for range 3 {
		<-events
	}
	onLoop(func() error { return p.remove(pipe[0]) })
	unix.Write(pipe[1], []byte("x"))
	onLoop(func() error { return nil })
	onLoop(func() error { return p.add(pipe[0], readEvents) })
	<-events
	if err := p.mod(-1, readEvents); !errors.Is(err, unix.EBADF) {
		t.Error(err)
	}
}

// A poller whose descriptor fails says so instead of looking for ever.
func TestPollerFailure(t *testing.T) {
	p, err := newPoller()
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(p.taskFd)
	p.taskFd = -1
	unix.Close(p.fd)
	if err := p.run(func(int, uint32) {}); err == nil {
		t.Error("no error")
	}
}

// A connection that was accepted, but whose loop ended before it got there, is closed like all others.
func TestConnectionOnItsWayToAnEndedLoop(t *testing.T) {
	h := newTestHandler(echo)
	srv, err := Listen(driver{name: "epoll"}.options(Options{Handler: h, Address: "127.0.0.1:0"}))
	if err != nil {
		t.Fatal(err)
	}
	s := srv.(*epollServer)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	if !s.admit(netip.IPv4Unspecified()) {
		t.Fatal("not admitted")
	}
	l := s.loops[len(s.loops)-1]
	if !l.post(registerTask, newEpollConn(l, fds[0], netip.AddrPortFrom(netip.IPv4Unspecified(), 1))) {
		t.Fatal("not posted")
	}
	s.closeAll()
	if err := h.waitClosed(t); !errors.Is(err, ErrServerClosed) {
		t.Errorf("closed with %v", err)
	}
	if n, err := unix.Read(fds[1], make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("its peer reads %d bytes, %v", n, err)
	}
	if n := s.connections.Load(); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}
