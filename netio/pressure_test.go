package netio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// A client that sends without reading is muted, with bounded memory; when it reads at last, nothing is missing.
func TestFloodWithoutReading(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const size, queuedLimit, inFlight = 8 << 10, 128 << 10, 16
		s := start(t, d.options(Options{Handler: newTestHandler(echo), QueuedBytesLimit: queuedLimit, MaxInFlight: inFlight,
			SendBufferBytes: 32 << 10, RecvBufferBytes: 32 << 10}))
		c := dial(t, d, s)
		stop := make(chan struct{})
		go func() {
			for n, last := 0, false; !last; n++ {
				select {
				case <-stop:
					last = true
				default:
				}
				p := pattern(size)
				binary.BigEndian.PutUint32(p, uint32(n))
				p[4] = 0
				if last {
					p[4] = 1
				}
				if _, err := c.Write(frameOf(p)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		eventually(t, "the connection to be muted", func() bool { return s.Stats().Muted == 1 })
		st := s.Stats()
		// One batch may be delivered before the limit is looked at again.
		if limit := int64(inFlight * (size + 4)); st.QueuedBytes > queuedLimit+limit || st.FrameBytes > 2*limit {
			t.Errorf("over the limits: %+v", st)
		}
		if st.InFlight > inFlight {
			t.Errorf("%d requests in flight, limit %d", st.InFlight, inFlight)
		}
		got := 0
		check := func() (last bool) {
			b := c.recv()
			if n := int(binary.BigEndian.Uint32(b)); n != got || len(b) != size {
				t.Fatalf("answer %d is number %d with %d bytes", got, n, len(b))
			}
			got++
			return b[4] == 1
		}
		for got < 100 {
			check()
		}
		close(stop)
		for !check() {
		}
	})
}

// Mute inside OnRequest holds back requests that are already read, half ones included; Unmute lets all of them through.
func TestMute(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		delivered := make(chan *Call, 100)
		h := newTestHandler(func(c *Call) {
			c.Conn.Mute()
			delivered <- c
		})
		s := start(t, d.options(Options{Handler: h}))
		c := dial(t, d, s)
		last := frameOf([]byte("four"))
		c.raw(bytes.Join([][]byte{frameOf([]byte("one")), frameOf([]byte("two")), frameOf([]byte("three")), last[:5]}, nil))
		for i, want := range []string{"one", "two", "three"} {
			call := receive(t, delivered, "a request")
			if string(call.Frame.B) != want {
				t.Fatalf("got %q, want %q", call.Frame.B, want)
			}
			eventually(t, "the mute", func() bool { return s.Stats().Muted == 1 })
			if len(delivered) != 0 {
				t.Fatal("delivered although muted")
			}
			conn := call.Conn
			echo(call)
			if got := c.recv(); string(got) != want {
				t.Fatalf("answer %q", got)
			}
			if i == 2 {
				c.raw(last[5:])
			}
			conn.Unmute()
		}
		call := receive(t, delivered, "the request that was stashed in part")
		if string(call.Frame.B) != "four" {
			t.Fatalf("got %q", call.Frame.B)
		}
		call.Conn.Unmute()
		echo(call)
		c.recv()
	})
}

// Mutes are counted: two users (authentication, quota) do not undo each other's.
func TestMuteIsCounted(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		delivered := make(chan *Call, 100)
		s := start(t, d.options(Options{Handler: newTestHandler(func(c *Call) {
			c.Conn.Mute()
			c.Conn.Mute()
			delivered <- c
		})}))
		c := dial(t, d, s)
		c.send([]byte("one"), []byte("two"))
		call := receive(t, delivered, "a request")
		conn := call.Conn
		conn.Unmute()
		echo(call)
		c.recv()
		eventually(t, "the mute", func() bool { return s.Stats().Muted == 1 })
		if len(delivered) != 0 {
			t.Fatal("delivered although muted")
		}
		conn.Unmute()
		echo(receive(t, delivered, "the second request"))
		c.recv()
	})
}

// The bytes of requests that wait for their answers are limited per connection.
func TestInFlightBytesLimit(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		delivered := make(chan *Call, 100)
		s := start(t, d.options(Options{InFlightBytesLimit: 10_000, Handler: newTestHandler(func(c *Call) { delivered <- c })}))
		c := dial(t, d, s)
		p := pattern(6000)
		c.send(p, p, p, p)
		first := receive(t, delivered, "a request")
		second := receive(t, delivered, "a request")
		eventually(t, "the mute", func() bool { return s.Stats().Muted == 1 })
		if len(delivered) != 0 {
			t.Fatal("delivered over the limit")
		}
		echo(first)
		echo(second)
		echo(receive(t, delivered, "a request"))
		echo(receive(t, delivered, "a request"))
		for range 4 {
			c.recv()
		}
	})
}

// The memory of all request frames together is limited; who waits for it goes on when it is free.
func TestFrameBytesLimit(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		delivered := make(chan *Call, 100)
		const size, limit, conns = 90_000, 100_000, 4 // room for one, and each is too long for a connection's allowance
		s := start(t, d.options(Options{FrameBytesLimit: limit, Loops: 2,
			Handler: newTestHandler(func(c *Call) { delivered <- c })}))
		var clients []*client
		for range conns {
			clients = append(clients, dial(t, d, s))
		}
		p := pattern(size)
		for _, c := range clients {
			c.send(p)
		}
		for range conns {
			call := receive(t, delivered, "a request")
			if st := s.Stats(); st.FrameBytes > limit+conns*connAllowance || len(delivered) != 0 {
				t.Errorf("%d delivered at once: %+v", 1+len(delivered), st)
			}
			// A small request is served all the same.
			other := dial(t, d, s)
			other.send([]byte("small"))
			echo(receive(t, delivered, "a small request"))
			other.recv()
			other.Close()
			echo(call)
		}
		for _, c := range clients {
			if !bytes.Equal(c.recv(), p) {
				t.Fatal("wrong echo")
			}
		}
		eventually(t, "nobody to be muted", func() bool { return s.Stats().Muted == 0 && s.Stats().FrameBytes == 0 })
	})
}

// A peer that announces a long frame does not get its memory before it sends.
func TestLongFrameTakesMemoryAsItArrives(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		s := start(t, d.options(Options{Handler: newTestHandler(echo)}))
		c := dial(t, d, s)
		p := pattern(20 << 20) // grows twice
		b := frameOf(p)
		c.raw(b[:5])
		eventually(t, "the frame to begin", func() bool { return s.Stats().FrameBytes > 0 })
		if n := s.Stats().FrameBytes; n > eagerFrame {
			t.Fatalf("%d bytes taken for one byte received", n)
		}
		got := make(chan []byte, 1)
		go func() { r, _ := c.tryRecv(); got <- r }()
		c.raw(b[5:])
		if !bytes.Equal(receive(t, got, "the echo"), p) {
			t.Fatal("wrong echo")
		}
		eventually(t, "the memory to be released", func() bool { return s.Stats().FrameBytes == 0 })
	})
}

// One connection that fetches without end does not keep the loop from the others. 64 x 32 MiB are asked; the echoes must be
// back long before, whatever the speed.
func TestFairness(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const size, fetches = 32 << 20, 64
		f := tempFile(t, pattern(size))
		h := newTestHandler(func(c *Call) {
			if c.Frame.B[0] != 'f' {
				echo(c)
				return
			}
			c.Complete(Response{Parts: []Part{{File: f.acquire(), N: size}}})
		})
		s := start(t, d.options(Options{Handler: h, Loops: 1}))
		fetcher, other := dial(t, d, s), dial(t, d, s)
		for range fetches {
			fetcher.send([]byte("fetch"))
		}
		var received atomic.Int64
		go func() {
			b := make([]byte, 1<<20)
			for {
				n, err := fetcher.Read(b)
				received.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
		eventually(t, "the fetch to begin", func() bool { return received.Load() > 0 })
		for range 20 {
			other.send([]byte("echo"))
			other.recv()
		}
		if n := received.Load(); n > size*fetches/2 {
			t.Errorf("the other connection had to wait for %d of %d bytes", n, size*fetches)
		}
		fetcher.reset()
		h.waitClosed(t)
		eventually(t, "references to be released", func() bool { return f.refs.Load() == 0 })
	})
}

// R17, and slow consumers: the peer reads a little of a long range, then resets. Everything is given back.
func TestResetInsideRange(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const size = 16 << 20
		f := tempFile(t, pattern(size))
		released := new(atomic.Int64)
		h := newTestHandler(func(c *Call) {
			c.Complete(Response{
				Body:    []byte("head"),
				Parts:   []Part{{File: f.acquire(), N: size}, {B: []byte("tail")}, {File: f.acquire(), N: 10}},
				Release: func() { released.Add(1) },
			})
		})
		s := start(t, d.options(Options{Handler: h, SendBufferBytes: 64 << 10}))
		before := openFiles(t)
		const conns, requests = 8, 4
		for range conns {
			c := dial(t, d, s)
			for range requests {
				c.send([]byte("fetch"))
			}
			b := make([]byte, 100_000)
			if _, err := c.Read(b); err != nil {
				t.Fatal(err)
			}
			c.reset()
		}
		for range conns {
			if err := h.waitClosed(t); err == nil || errors.Is(err, ErrServerClosed) {
				t.Errorf("reason: %v", err)
			}
		}
		eventually(t, "everything to be released", func() bool {
			return f.refs.Load() == 0 && released.Load() == s.Stats().Requests
		})
		eventually(t, "descriptors to be closed", func() bool { return openFiles(t) <= before })
	})
}

// A range longer than its file is a broken promise: the connection is closed, not left waiting.
func TestShortFile(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		for _, n := range []int{5000, 200_000} {
			f := tempFile(t, pattern(4000))
			h := newTestHandler(func(c *Call) { c.Complete(Response{Parts: []Part{{File: f.acquire(), N: n}}}) })
			s := start(t, d.options(Options{Handler: h}))
			dial(t, d, s).send([]byte("fetch"))
			if err := h.waitClosed(t); !errors.Is(err, ErrShortFile) {
				t.Errorf("%d bytes: reason %v", n, err)
			}
			if f.refs.Load() != 0 {
				t.Error("reference kept")
			}
		}
	})
}

// Shutdown does not wait for a client that never reads its answer, beyond the context.
func TestShutdownWithStalledReader(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		f := tempFile(t, pattern(32<<20))
		h := newTestHandler(func(c *Call) { c.Complete(Response{Parts: []Part{{File: f.acquire(), N: 32 << 20}}}) })
		s := start(t, d.options(Options{Handler: h, SendBufferBytes: 64 << 10}))
		dial(t, d, s).send([]byte("fetch"))
		eventually(t, "the answer to be under way", func() bool { return s.Stats().BytesOut > 0 })
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if n := f.refs.Load(); n != 0 {
			t.Errorf("%d references kept", n)
		}
	})
}
