package netio

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// loopBuffer is the size of one read that is not straight into a frame, and of the scratch for small file ranges.
	loopBuffer = 64 << 10
	// drainRounds is how often completed calls are handled before the poller gets its turn again.
	drainRounds = 8
)

// Markers of loop.ready.
var (
	busy  = &Call{} // the loop is awake and will look before it sleeps: no wake-up needed
	ended = &Call{} // the loop is gone: whoever completes a call releases its response
)

// loop is one event loop: a poller and the connections whose only user it is. Everything not named otherwise is touched by
// the loop's goroutine only.
//
// Completed calls arrive on ready, a lock-free stack (order does not matter: each connection's pipeline keeps the order).
// Who pushes onto an empty stack wakes the loop; while the loop works, a marker keeps the stack from being empty, so that
// answers given inside OnRequest cost no system call.
type loop struct {
	srv       *epollServer
	poller    *poller
	acceptors map[int]*acceptor
	conns     map[int]*epollConn
	buf       []byte // loopBuffer bytes for reading
	scratch   []byte // loopBuffer bytes for file ranges to be sent
	out       sender
	nowMs     int64 // of the last tick

	touched        *epollConn // list of connections with work to do
	oldest, newest *epollConn // by last activity
	halfClosed     map[*epollConn]struct{}
	turnFd         int          // an eventfd in epoll, readable while waiting is not empty
	wakeFd         int          // an eventfd in epoll, edge-triggered: each write is an event, and nobody needs to read it
	waiting        []*epollConn // have more requests in their stash, and go on in the next turn, in this order
	served         []*epollConn // the previous turn's waiting, kept for its memory
	draining       bool
	drainReported  bool

	ready  atomic.Pointer[Call]
	postMu struct {
		sync.RWMutex
		ended bool // the poller is closed or will be; its descriptor may be somebody else's
	}
}

func newLoop(s *epollServer) (*loop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	turnFd, err := watchedEventfd(p, 0)
	if err != nil {
		p.close()
		return nil, fmt.Errorf("netio: %w", err)
	}
	wakeFd, err := watchedEventfd(p, unix.EPOLLET)
	if err != nil {
		unix.Close(turnFd)
		p.close()
		return nil, fmt.Errorf("netio: %w", err)
	}
	return &loop{
		srv:        s,
		turnFd:     turnFd,
		wakeFd:     wakeFd,
		poller:     p,
		acceptors:  map[int]*acceptor{},
		conns:      map[int]*epollConn{},
		buf:        make([]byte, loopBuffer),
		scratch:    make([]byte, loopBuffer),
		nowMs:      s.o.NowMs(),
		halfClosed: map[*epollConn]struct{}{},
	}, nil
}

func watchedEventfd(p *poller, how uint32) (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("eventfd", err)
	}
	if err := p.add(fd, readEvents|how); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// run is the life of the loop. It returns nil when it was told to end.
func (l *loop) run() error {
	err := l.poller.run(l.onEvent)
	reason := err
	if reason == nil {
		reason = ErrServerClosed
	}
	l.end(reason)
	return err
}

// end makes the loop unreachable and closes the connections, also those that were still on their way to it.
func (l *loop) end(reason error) {
	l.postMu.Lock()
	l.postMu.ended = true
	l.postMu.Unlock()
	l.poller.runTasks()
	for _, c := range l.conns {
		c.close(reason)
	}
	l.reportDrained()
	for c := l.ready.Swap(ended); c != nil && c != busy; {
		next := c.ready
		l.srv.finish(c)
		c = next
	}
	unix.Close(l.turnFd)
	unix.Close(l.wakeFd)
	l.poller.close()
}

func (l *loop) reportDrained() {
	if !l.drainReported {
		l.drainReported = true
		l.srv.drained.Done()
	}
}

// post runs fn(arg) on the loop, later, in the order of posting. False: the loop has ended.
func (l *loop) post(fn func(any) error, arg any) bool {
	l.postMu.RLock()
	defer l.postMu.RUnlock()
	if l.postMu.ended {
		return false
	}
	l.poller.post(fn, arg)
	return true
}

// one is what is written to an eventfd. Its counter lasts for 1<<64 - 2 of them.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// wake makes the loop handle what was completed. Unlike a task of the poller it allocates nothing.
func (l *loop) wake() {
	l.postMu.RLock()
	defer l.postMu.RUnlock()
	if !l.postMu.ended {
		unix.Write(l.wakeFd, one)
	}
}

// onEvent is the poller's callback. The descriptor may have been closed, and even reused, earlier in the same batch of
// events; then reading it says EAGAIN and nothing happens.
func (l *loop) onEvent(fd int, ev uint32) {
	c := l.conns[fd]
	if c == nil {
		switch a := l.acceptors[fd]; {
		case fd == l.wakeFd:
			l.enter()
			l.exit()
		case fd == l.turnFd:
			l.turn()
		case a != nil:
			a.accept()
		}
		return
	}
	l.enter()
	const trouble = unix.EPOLLHUP | unix.EPOLLERR
	if ev&(unix.EPOLLIN|unix.EPOLLPRI|trouble) != 0 && c.interest&wantRead != 0 {
		c.readable()
	}
	if ev&(unix.EPOLLOUT|trouble) != 0 && c.interest&wantWrite != 0 {
		c.writable()
	}
	l.exit()
}

// push hands a completed call to the loop. Any goroutine.
func (l *loop) push(c *Call) {
	for {
		top := l.ready.Load()
		if top == ended {
			l.srv.finish(c)
			return
		}
		c.ready = top
		if l.ready.CompareAndSwap(top, c) {
			if top == nil {
				l.wake()
			}
			return
		}
	}
}

// enter announces that the loop is awake, exit handles what was completed meanwhile and goes back to sleep.
func (l *loop) enter() { l.ready.CompareAndSwap(nil, busy) }

func (l *loop) exit() {
	for range drainRounds {
		l.handle(l.ready.Swap(busy))
		if l.ready.CompareAndSwap(busy, nil) {
			return
		}
	}
	// Others complete faster than we can look. Let file descriptors have a turn: a push from now on wakes us.
	l.handle(l.ready.Swap(nil))
}

// handle notes the responses of a list of calls, and lets their connections and all others that were touched work.
func (l *loop) handle(c *Call) {
	for c != nil && c != busy {
		next := c.ready
		c.ready = nil
		conn := c.owner.(*epollConn)
		if conn.isClosed() {
			l.srv.finish(c)
		} else {
			conn.pipe.complete(c)
			l.srv.completed(c)
			l.touch(conn)
		}
		c = next
	}
	for l.touched != nil {
		conn := l.touched
		l.touched, conn.nextTouched, conn.isTouched = conn.nextTouched, nil, false
		conn.work()
	}
}

// touch makes c work before the loop sleeps.
func (l *loop) touch(c *epollConn) {
	if !c.isTouched {
		c.isTouched = true
		c.nextTouched = l.touched
		l.touched = c
	}
}

// yield puts c at the end of those that go on in the next turn.
//
// A turn is an event of an eventfd that is readable as long as anybody waits for one: so the poller looks at all other
// descriptors between two turns. A task would not do: the poller runs tasks that come meanwhile before it looks again.
func (l *loop) yield(c *epollConn) {
	if c.yielded {
		return
	}
	c.yielded = true
	l.waiting = append(l.waiting, c)
	if len(l.waiting) == 1 {
		unix.Write(l.turnFd, one)
	}
}

// turn gives a slice to each connection that has waited for one.
func (l *loop) turn() {
	var count [8]byte
	unix.Read(l.turnFd, count[:])
	turn := l.waiting
	l.waiting = l.served[:0]
	l.enter()
	for i, c := range turn {
		turn[i] = nil
		c.yielded = false
		c.slice = requestSlice
		c.work()
	}
	l.served = turn
	l.exit()
}

// workTask looks at one connection whose state was changed from outside (Unmute, Close).
func workTask(arg any) error {
	c := arg.(*epollConn)
	c.loop.enter()
	c.work()
	c.loop.exit()
	return nil
}

func registerTask(arg any) error {
	c := arg.(*epollConn)
	c.loop.register(c)
	return nil
}

func (l *loop) register(c *epollConn) {
	l.conns[c.fd] = c
	c.lastActiveMs = l.nowMs
	l.appendNewest(c)
	c.tune()
	if l.draining {
		c.close(ErrServerClosed)
		return
	}
	c.updateInterest()
}

func endTask(any) error { return errEnd }

func drainTask(arg any) error {
	l := arg.(*loop)
	l.draining = true
	l.enter()
	for _, c := range l.conns {
		c.work()
	}
	l.exit()
	if len(l.conns) == 0 {
		l.reportDrained()
	}
	return nil
}

func tickTask(arg any) error {
	l := arg.(*loop)
	l.nowMs = l.srv.o.NowMs()
	l.enter()
	l.closeIdle()
	for c := range l.halfClosed {
		if l.nowMs-c.halfClosedMs >= l.srv.o.HalfCloseTimeout.Milliseconds() {
			c.close(ErrHalfClosed)
		}
	}
	l.exit()
	return nil
}

// closeIdle walks from the least recently active connection to the first that may stay. A connection whose oldest request is
// still with the handler is not idle, but if it is not being read nobody has noticed whether its peer is gone.
func (l *loop) closeIdle() {
	if l.srv.o.IdleTimeout < 0 {
		return
	}
	limit := max(1, l.srv.o.IdleTimeout.Milliseconds())
	for c := l.oldest; c != nil && l.nowMs-c.lastActiveMs >= limit; c = l.oldest {
		if waiting := c.pipe.head != nil && !c.pipe.head.done; !waiting {
			c.close(ErrIdle)
		} else if err := c.probe(); err != nil {
			c.close(err)
		} else {
			l.active(c)
		}
	}
}

// active notes that bytes moved on c.
func (l *loop) active(c *epollConn) {
	if c.lastActiveMs == l.nowMs {
		return
	}
	c.lastActiveMs = l.nowMs
	l.unlink(c)
	l.appendNewest(c)
}

func (l *loop) appendNewest(c *epollConn) {
	c.older, c.newer = l.newest, nil
	if l.newest == nil {
		l.oldest = c
	} else {
		l.newest.newer = c
	}
	l.newest = c
}

func (l *loop) unlink(c *epollConn) {
	if c.older == nil {
		l.oldest = c.newer
	} else {
		c.older.newer = c.newer
	}
	if c.newer == nil {
		l.newest = c.older
	} else {
		c.newer.older = c.older
	}
	c.older, c.newer = nil, nil
}
