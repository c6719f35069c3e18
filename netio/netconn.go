package netio

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/internal/invariant"
)

// netReadBuffer holds frame headers and small frames of one connection; longer frames are read straight into place.
const netReadBuffer = 4 << 10

// netConn is a connection of the standard-library driver.
//
// The reader goroutine shakes hands, reads frames and delivers them; the writer goroutine sends answers. The pipeline is
// shared under mu. Who wants the connection to end says why in mu.reason and closes the socket, which wakes both; the last
// of the two to leave cleans up.
type netConn struct {
	connBase
	server *netServer
	nc     net.Conn
	tls    *tls.Conn                           // nc, or nil
	state  atomic.Pointer[tls.ConnectionState] // after the handshake

	lastActiveMs atomic.Int64
	framer       framer // reader

	mu struct {
		sync.Mutex
		pipe         pipeline
		reason       error // why it ends; nil while it does not
		inputEnded   error // why nothing more is read; nil while it may be
		halfClosedMs int64 // when that was
		countedMuted bool
		memoryFreed  bool // since the reader began to wait for memory
		gone         bool // cleaned up: responses are released by who completes them
	}
	mayGo   sync.Cond // reader: reading may be allowed again, or the end; on mu
	hasWork sync.Cond // writer: the oldest call is completed, or the end; on mu
	exits   atomic.Int32
}

func newNetConn(s *netServer, nc net.Conn) *netConn {
	c := &netConn{server: s, nc: nc}
	c.connBase.init(&s.base, c, addrPortOf(nc.RemoteAddr()), addrPortOf(nc.LocalAddr()))
	c.mayGo.L = &c.mu
	c.hasWork.L = &c.mu
	c.lastActiveMs.Store(s.o.NowMs())
	return c
}

func (c *netConn) TLSState() *tls.ConnectionState { return c.state.Load() }

// RemoteAddr is the transport's text where the address is not an IP address.
func (c *netConn) RemoteAddr() string {
	if !c.remote.IsValid() {
		return c.nc.RemoteAddr().String()
	}
	return c.connBase.RemoteAddr()
}

func (c *netConn) Unmute() {
	if c.unmute() {
		c.wake()
	}
}

// wake makes the reader look again whether it may read.
func (c *netConn) wake() {
	c.mu.Lock()
	c.mayGo.Signal()
	c.mu.Unlock()
}

func (c *netConn) memoryFreed() {
	c.mu.Lock()
	c.mu.memoryFreed = true
	c.mayGo.Signal()
	c.mu.Unlock()
}

func (c *netConn) Close() { c.fail(ErrClosed) }

// fail ends the connection at once; the first reason counts.
func (c *netConn) fail(reason error) {
	c.mu.Lock()
	first := c.mu.reason == nil
	if first {
		c.mu.reason = reason
		c.closed.Store(true)
		c.mayGo.Signal()
		c.hasWork.Signal()
	}
	c.mu.Unlock()
	if first {
		c.socket().Close() // not the TLS connection: its Close waits for a writer
	}
}

// socket is the connection below TLS.
func (c *netConn) socket() net.Conn {
	if c.tls != nil {
		return c.tls.NetConn()
	}
	return c.nc
}

// drain stops reading; the connection ends when its open calls are answered.
func (c *netConn) drain() {
	c.endInput(ErrServerClosed)
	c.nc.SetReadDeadline(time.Unix(1, 0)) // wakes the reader
}

// endInput notes that no more requests come, and why.
func (c *netConn) endInput(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.inputEnded == nil {
		c.mu.inputEnded = why
		c.mu.halfClosedMs = c.srv.o.NowMs()
	}
	c.mayGo.Signal()
	c.hasWork.Signal()
}

func (c *netConn) completed(call *Call) {
	if call.resp.Close {
		c.finishing.Store(true)
	}
	c.mu.Lock()
	gone := c.mu.gone
	if !gone {
		c.mu.pipe.complete(call)
		c.srv.completed(call)
		if c.mu.pipe.sendable() {
			c.hasWork.Signal()
		}
	}
	c.mu.Unlock()
	if gone {
		c.srv.finish(call)
	}
}

// run is the reader goroutine; it starts the writer when the handshake is done.
func (c *netConn) run() {
	if err := c.handshake(); err != nil {
		c.fail(err)
		c.exits.Add(1) // there is no writer
		c.exit()
		return
	}
	go c.write()
	if err := c.read(); err != nil {
		c.fail(err)
	}
	c.framer.release(&c.budget)
	c.note(&c.framer, 0)
	c.exit()
}

func (c *netConn) handshake() error {
	if c.tls == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.srv.o.HandshakeTimeout)
	defer cancel()
	if err := c.tls.HandshakeContext(ctx); err != nil {
		return err
	}
	state := c.tls.ConnectionState()
	c.state.Store(&state)
	return nil
}

// read delivers frames until the input ends (nil) or the connection must be closed (why).
func (c *netConn) read() error {
	r := bufio.NewReaderSize(c.nc, netReadBuffer)
	for n := 1; c.waitMayRead(); n++ {
		if n%requestSlice == 0 {
			runtime.Gosched() // a flood of what is answered at once leaves the processor to others
		}
		// Limits may be reached while this connection waits for its peer, so look again when there is a header.
		if _, err := r.Peek(frameHeaderSize); err != nil {
			return c.readFailed(err, r.Buffered() > 0)
		}
		if !c.waitMayRead() {
			return nil
		}
		frame, err := c.readFrame(r)
		if err != nil {
			return c.readFailed(err, true)
		}
		if err := c.deliver(frame); err != nil {
			return err
		}
	}
	return nil
}

// readFailed tells an end of input, after which answers are still sent (nil), from a failure. midFrame: part of a frame was
// read.
func (c *netConn) readFailed(err error, midFrame bool) error {
	c.mu.Lock()
	ended := c.endedLocked() // then err is the deadline of drain or the end that finishes the connection
	c.mu.Unlock()
	if ended {
		return nil
	}
	if err == io.EOF && midFrame {
		err = io.ErrUnexpectedEOF
	}
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	c.endInput(err)
	return nil
}

// readFrame reads until a frame is complete.
func (c *netConn) readFrame(r *bufio.Reader) (*Frame, error) {
	for c.waitForMemory() {
		n, err := r.Read(c.framer.space())
		if n > 0 {
			c.active(&c.srv.bytesIn, n)
			frame, frameErr := c.framer.advance(n, c.frameLimit(), &c.budget)
			c.note(&c.framer, c.lastActiveMs.Load())
			if frame != nil || frameErr != nil {
				return frame, frameErr
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, ErrServerClosed // or whatever ended it: the reason is there
}

// waitForMemory waits until the framer has space; false: the connection has ended.
func (c *netConn) waitForMemory() bool {
	for c.framer.hungry() && !c.framer.feed(&c.budget) {
		c.mu.Lock()
		for !c.endedLocked() && !c.mu.memoryFreed {
			c.countMutedLocked(true)
			c.mayGo.Wait()
		}
		c.mu.memoryFreed = false
		c.countMutedLocked(false)
		ended := c.endedLocked()
		c.mu.Unlock()
		if ended {
			return false
		}
	}
	return true
}

func (c *netConn) deliver(f *Frame) error {
	call := c.srv.newCall(c, c, f)
	c.mu.Lock()
	c.mu.pipe.push(call)
	c.mu.Unlock()
	return c.srv.deliver(call)
}

// active notes that bytes moved.
func (c *netConn) active(counter *atomic.Int64, n int) {
	counter.Add(int64(n))
	c.lastActiveMs.Store(c.srv.o.NowMs())
}

// endedLocked tells that no further request will be delivered.
func (c *netConn) endedLocked() bool {
	return c.mu.reason != nil || c.mu.inputEnded != nil || c.finishing.Load()
}

// waitMayRead waits until another frame may be read; false: no more.
func (c *netConn) waitMayRead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.endedLocked() {
		if c.mutes.Load() == 0 && c.mu.pipe.room(&c.srv.o) {
			c.countMutedLocked(false)
			return true
		}
		c.countMutedLocked(true)
		c.mayGo.Wait()
	}
	c.countMutedLocked(false)
	return false
}

func (c *netConn) countMutedLocked(muted bool) {
	if muted == c.mu.countedMuted {
		return
	}
	c.mu.countedMuted = muted
	c.pause(muted)
	if muted {
		c.srv.muted.Add(1)
	} else {
		c.srv.muted.Add(-1)
	}
}

// tick ends the connection when it is idle, or its peer stopped sending and the answers take too long. A connection whose
// oldest request is still with the handler is not idle.
func (c *netConn) tick(nowMs int64) {
	o := &c.srv.o
	c.mu.Lock()
	waiting := c.mu.pipe.head != nil && !c.mu.pipe.head.done
	halfClosed := c.mu.inputEnded != nil && c.mu.inputEnded != ErrServerClosed
	late := halfClosed && nowMs-c.mu.halfClosedMs >= o.HalfCloseTimeout.Milliseconds()
	c.mu.Unlock()
	switch {
	case late:
		c.fail(ErrHalfClosed)
	case o.IdleTimeout >= 0 && !waiting && nowMs-c.lastActiveMs.Load() >= o.IdleTimeout.Milliseconds():
		c.fail(ErrIdle)
	}
}

// exit is the last act of the reader and of the writer; the second of them cleans up.
func (c *netConn) exit() {
	if c.exits.Add(1) < 2 {
		return
	}
	c.mu.Lock()
	c.mu.gone = true
	reason := c.mu.reason
	pipe := c.mu.pipe
	c.mu.pipe = pipeline{}
	c.mu.Unlock()
	invariant.Must(reason != nil, "netio: connection left without a reason")
	for pipe.head != nil {
		call := pipe.pop()
		c.srv.popped(call)
		if call.done {
			c.srv.finish(call)
		}
	}
	c.srv.leave(c.RemoteIP())
	c.srv.notifyClosed(c, reason)
	c.server.forget(c)
}
