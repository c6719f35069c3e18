package netio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestHandlerPanicClosesOneConnection(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		var log syncBuffer
		h := newTestHandler(func(c *Call) {
			if string(c.Frame.B) == "panic" {
				panic("boom")
			}
			echo(c)
		})
		s := start(t, d.options(Options{Handler: h, Logger: log.logger(), Loops: 1}))
		bad, good := dial(t, d, s), dial(t, d, s)
		bad.send([]byte("fine"), []byte("panic"), []byte("never"))
		err := h.waitClosed(t)
		if pe := (*PanicError)(nil); !errors.As(err, &pe) || pe.Value != "boom" {
			t.Errorf("reason: %v", err)
		}
		good.send([]byte("alive"))
		if got := good.recv(); string(got) != "alive" {
			t.Errorf("other connection: %q", got)
		}
		if text := log.String(); !strings.Contains(text, "boom") || !strings.Contains(text, "TestHandlerPanicClosesOneConnection") {
			t.Errorf("log without panic or stack:\n%s", text)
		}
		if st := s.Stats(); st.FrameBytes != 0 || st.Panics != 1 || st.Connections != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A handler that gave the call away before it panicked may still complete it; that only releases.
func TestCompleteAfterPanic(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		away := make(chan *Call, 1)
		h := newTestHandler(func(c *Call) {
			away <- c
			panic("boom")
		})
		s := start(t, d.options(Options{Handler: h}))
		dial(t, d, s).send([]byte("x"))
		h.waitClosed(t)
		released := false
		c := receive(t, away, "the call")
		if !c.Canceled() {
			t.Error("not canceled")
		}
		c.Complete(Response{Body: []byte("late"), Release: func() { released = true }})
		if !released {
			t.Error("not released")
		}
	})
}

func TestPanicInOnClose(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		closed := make(chan struct{}, 1)
		h := newTestHandler(echo)
		h.onClose = func(Conn, error) {
			closed <- struct{}{}
			panic("boom")
		}
		s := start(t, d.options(Options{Handler: h}))
		dial(t, d, s).Close()
		receive(t, closed, "OnClose")
		c := dial(t, d, s)
		c.send([]byte("alive"))
		c.recv()
	})
}

func TestResponseClose(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		var later atomic.Bool
		h := newTestHandler(func(c *Call) {
			switch string(c.Frame.B) {
			case "bye":
				c.Complete(Response{Body: frameOf([]byte("bye")), Close: true})
			case "first":
				echo(c)
			default:
				later.Store(true)
				echo(c)
			}
		})
		s := start(t, d.options(Options{Handler: h}))
		c := dial(t, d, s)
		c.send([]byte("first"), []byte("bye"), []byte("later"), []byte("later"))
		if got := c.recv(); string(got) != "first" {
			t.Fatalf("%q", got)
		}
		if got := c.recv(); string(got) != "bye" {
			t.Fatalf("%q", got)
		}
		c.expectEnd()
		if err := h.waitClosed(t); !errors.Is(err, ErrClosed) {
			t.Errorf("reason: %v", err)
		}
		if later.Load() {
			t.Error("a request after the last one was delivered")
		}
	})
}

func TestNone(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		released := new(atomic.Int64)
		s := start(t, d.options(Options{Handler: newTestHandler(func(c *Call) {
			if string(c.Frame.B) == "none" {
				c.Complete(Response{None: true, Release: func() { released.Add(1) }})
				return
			}
			echo(c)
		})}))
		c := dial(t, d, s)
		c.send([]byte("none"), []byte("none"), []byte("some"), []byte("none"))
		if got := c.recv(); string(got) != "some" {
			t.Fatalf("%q", got)
		}
		eventually(t, "releases", func() bool { return released.Load() == 3 })
	})
}

func TestConnClose(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		for _, inside := range []bool{true, false} {
			conns := make(chan *Call, 10)
			h := newTestHandler(func(c *Call) {
				if inside {
					c.Conn.Close()
				}
				conns <- c
			})
			s := start(t, d.options(Options{Handler: h}))
			c := dial(t, d, s)
			c.send([]byte("one"), []byte("two"))
			call := receive(t, conns, "a request")
			if !inside {
				call.Conn.Close()
			}
			if err := h.waitClosed(t); !errors.Is(err, ErrClosed) {
				t.Errorf("reason: %v", err)
			}
			if !call.Canceled() {
				t.Error("not canceled")
			}
			if inside && len(conns) != 0 {
				t.Error("a request was delivered after Close")
			}
			call.Complete(Response{})
			for len(conns) > 0 {
				(<-conns).Complete(Response{})
			}
			if _, err := c.tryRecv(); err == nil {
				t.Error("an answer after Close")
			}
		}
	})
}

// B-H1: calls that are open when their connection ends are canceled; completing them releases, and sends nothing to whoever
// has the descriptor next.
func TestCompleteAfterClose(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		calls := make(chan *Call, 10)
		h := newTestHandler(func(c *Call) {
			if string(c.Frame.B) == "echo" {
				echo(c)
				return
			}
			calls <- c
		})
		f := tempFile(t, pattern(100_000))
		s := start(t, d.options(Options{Handler: h}))
		c := dial(t, d, s)
		c.send([]byte("a"), []byte("b"))
		a, b := receive(t, calls, "a request"), receive(t, calls, "a request")
		b.Complete(Response{Parts: []Part{{File: f.acquire(), N: 100_000}}}) // completed, but behind a
		c.reset()
		if err := h.waitClosed(t); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("reason: %v", err)
		}
		if !a.Canceled() {
			t.Error("not canceled")
		}
		next := dial(t, d, s)
		next.send([]byte("echo"))
		a.Complete(Response{Body: []byte("wrong"), Parts: []Part{{File: f.acquire(), N: 100_000}}})
		if got := next.recv(); string(got) != "echo" {
			t.Fatalf("%q", got)
		}
		eventually(t, "releases", func() bool { return f.refs.Load() == 0 && s.Stats().FrameBytes == 0 })
	})
}

func TestHalfWrittenFrame(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		for _, n := range []int{1, 3, 4, 5, 50_000} {
			h := newTestHandler(echo)
			s := start(t, d.options(Options{Handler: h}))
			c := dial(t, d, s)
			c.raw(frameOf(pattern(100_000))[:n])
			c.Close()
			if err := h.waitClosed(t); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%d bytes: reason %v", n, err)
			}
			if got := s.Stats().FrameBytes; got != 0 {
				t.Errorf("%d bytes: %d bytes of frames left", n, got)
			}
		}
	})
}

func TestPeerClose(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		h := newTestHandler(echo)
		s := start(t, d.options(Options{Handler: h}))
		c := dial(t, d, s)
		c.send([]byte("x"))
		c.recv()
		c.Close()
		if err := h.waitClosed(t); err != io.EOF {
			t.Errorf("reason: %v", err)
		}
	})
}

func closeWrite(c *client) { c.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// A peer that has sent its last request still gets the answers.
func TestHalfClose(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		calls := make(chan *Call, 10)
		h := newTestHandler(func(c *Call) { calls <- c })
		s := start(t, d.options(Options{Handler: h}))
		c := dial(t, d, s)
		c.send([]byte("one"), []byte("two"))
		closeWrite(c)
		one, two := receive(t, calls, "a request"), receive(t, calls, "a request")
		if one.Canceled() {
			t.Error("canceled while the peer still listens")
		}
		echo(two)
		echo(one)
		if a, b := c.recv(), c.recv(); string(a) != "one" || string(b) != "two" {
			t.Errorf("%q, %q", a, b)
		}
		c.expectEnd()
		if err := h.waitClosed(t); err != io.EOF {
			t.Errorf("reason: %v", err)
		}
	})
}

func TestHalfCloseTimeout(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		var now atomic.Int64
		calls := make(chan *Call, 10)
		h := newTestHandler(func(c *Call) { calls <- c })
		s := start(t, d.options(Options{Handler: h, NowMs: now.Load, HalfCloseTimeout: 10 * time.Second}))
		c := dial(t, d, s)
		c.send([]byte("one"))
		call := receive(t, calls, "a request")
		closeWrite(c)
		eventually(t, "the time-out", func() bool {
			now.Add(5000)
			tick(s)
			return len(h.closed) > 0
		})
		if err := h.waitClosed(t); !errors.Is(err, ErrHalfClosed) {
			t.Errorf("reason: %v", err)
		}
		call.Complete(Response{})
	})
}

func tick(s Server) { s.(interface{ tick() }).tick() }

func TestIdleTimeout(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		var now atomic.Int64
		now.Store(1000)
		calls := make(chan *Call, 10)
		h := newTestHandler(func(c *Call) {
			if string(c.Frame.B) == "park" {
				calls <- c
				return
			}
			echo(c)
		})
		s := start(t, d.options(Options{Handler: h, NowMs: now.Load, IdleTimeout: time.Minute, Loops: 1}))
		idle, parked, busy := dial(t, d, s), dial(t, d, s), dial(t, d, s)
		for _, c := range []*client{idle, parked, busy} {
			c.send([]byte("x"))
			c.recv()
		}
		parked.send([]byte("park"))
		call := receive(t, calls, "a request")
		for range 12 {
			now.Add(10_000)
			tick(s)
			busy.send([]byte("x"))
			busy.recv()
			parked.send([]byte("more"))
		}
		if err := h.waitClosed(t); !errors.Is(err, ErrIdle) {
			t.Errorf("reason: %v", err)
		}
		idle.expectEnd()
		echo(call)
		if got := parked.recv(); string(got) != "park" {
			t.Errorf("%q", got)
		}
		if n := s.Stats().Connections; n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// Shutdown lets open calls finish, takes no new request, and closes idle connections at once.
func TestShutdownDrains(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		calls := make(chan *Call, 10)
		h := newTestHandler(func(c *Call) { calls <- c })
		s := start(t, d.options(Options{Handler: h, Loops: 2}))
		idle, open := dial(t, d, s), dial(t, d, s)
		idle.send([]byte("hello"))
		echo(receive(t, calls, "a request"))
		idle.recv()
		open.send([]byte("one"))
		call := receive(t, calls, "a request")
		down := make(chan error, 1)
		go func() { down <- s.Shutdown(context.Background()) }()
		idle.expectEnd()
		if err := h.waitClosed(t); !errors.Is(err, ErrServerClosed) {
			t.Errorf("reason of the idle connection: %v", err)
		}
		select {
		case err := <-down:
			t.Fatalf("Shutdown returned (%v) with a call open", err)
		default:
		}
		if call.Canceled() {
			t.Error("canceled too early")
		}
		echo(call)
		if got := open.recv(); string(got) != "one" {
			t.Errorf("%q", got)
		}
		open.expectEnd()
		if err := receive(t, down, "Shutdown"); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
			t.Error("still listening")
		}
	})
}

// When the context ends first, open calls are canceled; completing them later, when no loop runs any more, still releases.
func TestShutdownCancels(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		calls := make(chan *Call, 10)
		h := newTestHandler(func(c *Call) { calls <- c })
		s := start(t, d.options(Options{Handler: h}))
		dial(t, d, s).send([]byte("one"), []byte("two"))
		one, two := receive(t, calls, "a request"), receive(t, calls, "a request")
		f := tempFile(t, pattern(1000))
		two.Complete(Response{Parts: []Part{{File: f.acquire(), N: 1000}}})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown: %v", err)
		}
		if !one.Canceled() {
			t.Error("not canceled")
		}
		released := false
		one.Complete(Response{Parts: []Part{{File: f.acquire(), N: 1000}}, Release: func() { released = true }})
		if !released || f.refs.Load() != 0 || s.Stats().FrameBytes != 0 {
			t.Errorf("released %v, %d references, %+v", released, f.refs.Load(), s.Stats())
		}
	})
}

func TestShutdownBeforeServe(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		before := openFiles(t)
		s, err := Listen(d.options(Options{Address: "localhost:0", Handler: newTestHandler(echo)}))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		}
		if err := s.Serve(); !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
		if after := openFiles(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
	})
}

// A taken frame stays until its last user has released it.
func TestTakenFrameOutlivesTheCall(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		taken := make(chan *Frame, 10)
		s := start(t, d.options(Options{Handler: newTestHandler(func(c *Call) {
			f := c.TakeFrame()
			f.Retain()
			taken <- f
			c.Complete(Response{Parts: []Part{{B: frameOf(f.B)[:4]}, {B: f.B}}, Buffer: f})
		})}))
		c := dial(t, d, s)
		p := pattern(1000)
		c.send(p)
		if !bytes.Equal(c.recv(), p) {
			t.Error("wrong echo")
		}
		f := receive(t, taken, "the frame")
		eventually(t, "the answer to be counted as sent", func() bool { return s.Stats().InFlight == 0 })
		if !bytes.Equal(f.B, p) || s.Stats().FrameBytes == 0 {
			t.Error("released too early")
		}
		f.Release()
		if n := s.Stats().FrameBytes; n != 0 {
			t.Errorf("%d bytes left", n)
		}
	})
}
