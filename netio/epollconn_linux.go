package netio

import (
	"io"
	"net/netip"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// readBudget is how much one connection may read before others get their turn.
	readBudget = 256 << 10
	// directRead is from how many missing bytes of a frame on they are read straight into it.
	directRead = 16 << 10
	// lingerReads bounds what is read and thrown away before a closing connection is closed, see finishClose.
	lingerReads = 4
)

// What a connection wants from epoll.
const (
	wantRead  = 1
	wantWrite = 2
)

// epollConn is one connection of a loop, see loop for who may touch it.
type epollConn struct {
	connBase
	loop *loop
	fd   int

	framer framer
	pipe   pipeline
	// stash is what was read but not parsed when the connection became muted; its first stashOff bytes are done. While it
	// exists nothing is read. It is at most loopBuffer long.
	stash    *Frame
	stashOff int

	interest     uint8
	blocked      bool                  // the socket took no more, or the budget was used: wait for writability
	eof          bool                  // the peer has stopped sending
	closeWhy     atomic.Pointer[error] // somebody asked for the end
	countedMuted bool
	lastActiveMs int64
	halfClosedMs int64
	older, newer *epollConn // by activity
	isTouched    bool       // in the list loop.touched
	nextTouched  *epollConn
	slice        int  // requests that may be delivered in this turn
	yielded      bool // in the list loop.waiting: there is more in the stash, for the next turn
}

func newEpollConn(l *loop, fd int, remote netip.AddrPort) *epollConn {
	c := &epollConn{loop: l, fd: fd}
	var local netip.AddrPort
	if sa, err := unix.Getsockname(fd); err == nil {
		local = addrPort(sa)
	}
	c.connBase.init(&l.srv.base, c, remote, local)
	return c
}

// tune sets socket options; a failure costs speed only.
func (c *epollConn) tune() {
	unix.SetsockoptInt(c.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	if n := c.srv.o.SendBufferBytes; n > 0 {
		unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, n)
	}
	if n := c.srv.o.RecvBufferBytes; n > 0 {
		unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, n)
	}
}

func (c *epollConn) Unmute() {
	if c.unmute() {
		c.loop.post(workTask, c)
	}
}

func (c *epollConn) Close() { c.fail(ErrClosed) }

// fail asks the loop to close the connection; the first reason counts.
func (c *epollConn) fail(reason error) {
	if c.closeWhy.CompareAndSwap(nil, &reason) {
		c.loop.post(workTask, c)
	}
}

func (c *epollConn) closeAsked() bool { return c.closeWhy.Load() != nil }

func (c *epollConn) memoryFreed() { c.loop.post(workTask, c) }

func (c *epollConn) completed(call *Call) {
	if call.resp.Close {
		c.finishing.Store(true)
	}
	c.loop.push(call)
}

// mayRead tells whether more of the stream may be read, and sees to it that there is memory for it.
func (c *epollConn) mayRead() bool {
	if c.ending() || c.mutes.Load() > 0 || !c.pipe.room(&c.srv.o) {
		return false
	}
	return !c.framer.hungry() || c.framer.feed(&c.budget)
}

// ending tells that no further request will be delivered.
func (c *epollConn) ending() bool {
	return c.eof || c.loop.draining || c.finishing.Load() || c.closeAsked()
}

// readable reads what there is, up to a budget, and delivers the frames.
func (c *epollConn) readable() {
	c.loop.touch(c)
	c.slice = requestSlice
	c.readSome()
	if !c.isClosed() {
		c.note(&c.framer, c.loop.nowMs)
	}
}

func (c *epollConn) readSome() {
	for budget := readBudget; budget > 0 && c.slice > 0 && !c.isClosed() && c.stash == nil && c.mayRead(); {
		dst := c.framer.space()
		direct := len(dst) >= directRead
		if !direct {
			dst = c.loop.buf
		}
		n, err := unix.Read(c.fd, dst)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return
		case err != nil:
			c.close(os.NewSyscallError("read", err))
			return
		case n == 0:
			c.peerDone()
			return
		}
		c.srv.bytesIn.Add(int64(n))
		c.loop.active(c)
		if direct {
			c.advance(n)
		} else {
			c.stashRest(c.parse(dst[:n]))
		}
		if n < len(dst) {
			return // the socket is empty; if not, epoll says so
		}
		budget -= n
	}
}

// parse delivers the frames in data until the connection is muted or closed or its slice is used, and returns what is left.
func (c *epollConn) parse(data []byte) []byte {
	for len(data) > 0 {
		n := copy(c.framer.space(), data)
		data = data[n:]
		if delivered := c.advance(n); !delivered && !c.framer.hungry() {
			continue
		}
		if c.isClosed() || c.ending() {
			return nil
		}
		if c.slice <= 0 || !c.mayRead() {
			break
		}
	}
	return data
}

// advance moves the framer and delivers the frame that is complete; true when the state of the connection may have changed.
func (c *epollConn) advance(n int) bool {
	f, err := c.framer.advance(n, c.frameLimit(), &c.budget)
	if err != nil {
		c.close(err)
		return true
	}
	if f == nil {
		return false
	}
	c.slice--
	call := c.srv.newCall(c, c, f)
	c.pipe.push(call)
	if err := c.srv.deliver(call); err != nil {
		c.close(err)
	} else if why := c.closeWhy.Load(); why != nil {
		c.close(*why)
	}
	return true
}

func (c *epollConn) stashRest(rest []byte) {
	if len(rest) == 0 || c.isClosed() {
		return
	}
	// Not charged to the frame memory: a connection that waits for that memory must not be what uses it up.
	c.stash = NewFrame(len(rest))
	c.stashOff = copy(c.stash.B, rest) - len(rest)
}

// unstash parses what is stashed, as far as the connection may read.
func (c *epollConn) unstash() {
	rest := c.parse(c.stash.B[c.stashOff:])
	if c.stash == nil {
		return // closed meanwhile
	}
	c.stashOff = len(c.stash.B) - len(rest)
	if len(rest) == 0 {
		c.dropStash()
	}
	c.note(&c.framer, c.loop.nowMs)
}

func (c *epollConn) dropStash() {
	if c.stash != nil {
		c.stash.Release()
		c.stash, c.stashOff = nil, 0
	}
}

// peerDone handles the end of the peer's stream: answers still due are sent first.
func (c *epollConn) peerDone() {
	c.eof = true
	if c.pipe.head != nil {
		c.halfClosedMs = c.loop.nowMs
		c.loop.halfClosed[c] = struct{}{}
	}
	c.settle()
}

// work does what can be done now: close, send, parse what was stashed, and tell epoll what to wait for.
func (c *epollConn) work() {
	if c.isClosed() {
		return
	}
	if why := c.closeWhy.Load(); why != nil {
		c.close(*why)
		return
	}
	if !c.blocked {
		c.flush()
	}
	c.settle()
}

// writable is epoll's event of that name.
func (c *epollConn) writable() {
	if !c.isClosed() {
		c.flush()
		c.settle()
	}
}

// settle follows any change: an ending connection without open requests is closed, another goes on reading if it may.
func (c *epollConn) settle() {
	if c.isClosed() {
		return
	}
	if c.ending() {
		c.dropStash()
		if c.pipe.head == nil && !c.finishing.Load() {
			c.finishClose(c.endReason())
			return
		}
	} else {
		c.goOn()
	}
	if !c.isClosed() {
		c.updateInterest()
	}
}

// goOn delivers what is stashed, in this turn or in the next.
func (c *epollConn) goOn() {
	if c.stash != nil && c.slice > 0 && c.mayRead() {
		c.unstash()
	}
	if c.stash != nil && c.slice <= 0 && c.mayRead() {
		c.loop.yield(c)
	}
}

func (c *epollConn) endReason() error {
	why := c.closeWhy.Load()
	switch {
	case why != nil:
		return *why
	case c.eof && (c.framer.got > 0 || c.framer.begun()): // inside a header or a frame
		return io.ErrUnexpectedEOF
	case c.eof:
		return io.EOF
	}
	return ErrServerClosed
}

// updateInterest tells epoll what to wait for, if that changed.
func (c *epollConn) updateInterest() {
	var want uint8
	mayRead := c.mayRead()
	if c.stash == nil && mayRead {
		want = wantRead
	}
	if c.blocked {
		want |= wantWrite
	}
	c.countMuted(!mayRead && !c.ending())
	if want == c.interest {
		return
	}
	if err := c.changeInterest(want); err != nil {
		c.close(err)
		return
	}
	c.interest = want
}

// changeInterest takes a connection that waits for nothing out of epoll: else its end would be an event again and again.
func (c *epollConn) changeInterest(want uint8) error {
	p := c.loop.poller
	var events uint32
	if want&wantRead != 0 {
		events |= readEvents
	}
	if want&wantWrite != 0 {
		events |= writeEvents
	}
	switch {
	case want == 0:
		return p.remove(c.fd)
	case c.interest == 0:
		return p.add(c.fd, events)
	}
	return p.mod(c.fd, events)
}

func (c *epollConn) countMuted(muted bool) {
	if muted == c.countedMuted {
		return
	}
	c.countedMuted = muted
	c.pause(muted)
	if muted {
		c.srv.muted.Add(1)
	} else {
		c.srv.muted.Add(-1)
	}
}

// probe finds out whether the peer of a connection that is not read has reset it.
func (c *epollConn) probe() error {
	var b [1]byte
	_, _, err := unix.Recvfrom(c.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err == nil || err == unix.EAGAIN || err == unix.EINTR {
		return nil
	}
	return os.NewSyscallError("recv", err)
}

// finishClose closes after the last answer. Closing a socket with unread bytes resets the connection, which may destroy the
// answer on its way; so say first that nothing more comes, and read what is already here.
func (c *epollConn) finishClose(reason error) {
	unix.Shutdown(c.fd, unix.SHUT_WR)
	for range lingerReads {
		n, err := unix.Read(c.fd, c.loop.buf)
		if n <= 0 || err != nil {
			break
		}
	}
	c.close(reason)
}

// close ends the connection at once. Calls the handler still has stay with it.
func (c *epollConn) close(reason error) {
	if c.closed.Swap(true) {
		return
	}
	l := c.loop
	delete(l.conns, c.fd)
	delete(l.halfClosed, c)
	l.unlink(c)
	unix.Close(c.fd) // also leaves epoll: nobody has a duplicate
	c.countMuted(false)
	c.framer.release(&c.budget)
	c.note(&c.framer, l.nowMs)
	c.dropStash()
	for c.pipe.head != nil {
		call := c.pipe.pop()
		c.srv.popped(call)
		if call.done {
			c.srv.finish(call)
		}
	}
	c.srv.leave(c.RemoteIP())
	c.srv.notifyClosed(c, reason)
	if l.draining && len(l.conns) == 0 {
		l.reportDrained()
	}
}
