package netio

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a server's clock that a test moves.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() int64 { return c.ms.Load() }

// pass moves the clock in steps of a tick.
func (c *clock) pass(s Server, d time.Duration) {
	for ; d > 0; d -= tickInterval {
		c.ms.Add(min(d, tickInterval).Milliseconds())
		tick(s)
	}
}

func header(size int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(size)) }

// allocated is the memory that is really in use.
func allocated() int64 {
	runtime.GC()
	runtime.GC() // the first one moves what is pooled aside
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// noted tells whether the watch can see an unfinished frame of which n bytes are there.
func noted(s Server, n int) bool {
	b := baseOf(s)
	b.unfinished.Lock()
	defer b.unfinished.Unlock()
	return slices.ContainsFunc(b.unfinished.list, func(p *progress) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.mu.frame != 0 && p.mu.got == n
	})
}

// Lengths alone: hundreds of connections that announce 100 MiB and send nothing keep nobody from being served.
func TestAnnouncedFramesHoldNobodyUp(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const limit, conns = 64 << 20, 200
		h := newTestHandler(echo)
		s := start(t, d.options(Options{Handler: h, FrameBytesLimit: limit, MaxFrame: 50 << 20, Loops: 2}))
		for range conns {
			dial(t, d, s).raw(append(header(50<<20), 0))
		}
		eventually(t, "the lengths to be read", func() bool { return s.Stats().BytesIn == conns*5 })
		if n := s.Stats().FrameBytes; n > limit/2+conns*connAllowance {
			t.Errorf("%d bytes taken for nothing", n)
		}
		if m := s.Stats().Muted; m != 0 {
			t.Errorf("%d muted", m)
		}
		other := dial(t, d, s)
		for _, n := range []int{1, 1000, connAllowance, 1 << 20, 3 << 20} {
			p := pattern(n)
			other.send(p)
			if !bytes.Equal(other.recv(), p) {
				t.Fatal("wrong echo")
			}
		}
	})
}

// Frames that are really sent, all of them unfinished, fill the account and no more; small requests of others are served
// meanwhile, and long ones when the slow holders have been given up.
func TestHeldFramesStayWithinTheLimit(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const limit, size, holders = 16 << 20, 6 << 20, 10
		var clk clock
		h := newTestHandler(func(c *Call) { c.Complete(Response{Body: []byte{0, 0, 0, 1, 'k'}}) }) // no memory but the frames'
		content, long := longPattern(), frameOf(pattern(3<<20))
		before := allocated()
		s := start(t, d.options(Options{Handler: h, FrameBytesLimit: limit, MaxFrame: size, NowMs: clk.now, Loops: 2}))
		stop := make(chan struct{})
		defer close(stop)
		for range holders {
			c := dial(t, d, s)
			go func() {
				c.Write(header(size))
				c.Write(content[:size-1]) // stands still when the server stops reading
				<-stop
			}()
		}
		eventually(t, "the account to be full", func() bool { return baseOf(s).frames.waiters.Load() > 0 })
		// Client side buffers of TLS and the socket objects are in this process too.
		const slack = 4 << 20
		bound := int64(limit + (holders+1)*connAllowance)
		check := func() {
			t.Helper()
			if n := s.Stats().FrameBytes; n > bound {
				t.Fatalf("%d bytes charged, limit %d", n, bound)
			}
			// Growing leaves garbage and pooled frames for a moment.
			eventually(t, "what is allocated to be within the limit", func() bool { return allocated()-before <= bound+slack })
		}
		check()
		other := dial(t, d, s)
		for _, n := range []int{1, 1000, connAllowance} {
			other.send(content[:n])
			other.recv()
		}
		served := make(chan struct{})
		go func() { // as clients do: again, when the connection is closed
			defer close(served)
			for t.Context().Err() == nil {
				c, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					return
				}
				if d.tls {
					c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
				}
				c.Write(long)
				_, err = (&client{t: t, Conn: c}).tryRecv()
				c.Close()
				if err == nil {
					return
				}
			}
		}()
		deadline := time.Now().Add(waitLimit)
		for waiting := true; waiting; {
			if time.Now().After(deadline) {
				t.Fatal("the long request is not served")
			}
			clk.pass(s, tickInterval)
			check()
			select {
			case <-served:
				waiting = false
			case <-time.After(20 * time.Millisecond): // the loops do what the tick has allowed them to
			}
		}
		var slow *SlowFrameError
		if err := h.waitClosed(t); !errors.As(err, &slow) || !slow.Shortage || slow.Size != size {
			t.Errorf("reason %v", err)
		}
	})
}

// baseOf is what the drivers' servers share.
func baseOf(s Server) *base { return s.(interface{ shared() *base }).shared() }

func (b *base) shared() *base { return b }

// In a shortage the frame with the least progress per time is given up, and only so many as are needed.
func TestShortageEndsTheSlowest(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const limit, size = 8 << 20, 3 << 20
		var clk clock
		h := newTestHandler(echo)
		s := start(t, d.options(Options{Handler: h, FrameBytesLimit: limit, MaxFrame: size, NowMs: clk.now, Loops: 1}))
		part := func(c *client, b []byte) {
			c.raw(b)
			eventually(t, "the bytes to be noted", func() bool { return noted(s, len(b)-frameHeaderSize) })
		}
		slow, fast, waiting := dial(t, d, s), dial(t, d, s), dial(t, d, s)
		p := pattern(size)
		part(slow, frameOf(p)[:4+1<<20-1]) // 1 MiB held
		part(fast, frameOf(p)[:4+2<<20+1]) // 3 MiB held
		clk.pass(s, 5*time.Second)
		go waiting.Write(frameOf(p)) // at 2 MiB it needs 3 more, and there are 2
		eventually(t, "somebody to wait", func() bool { return baseOf(s).frames.waiters.Load() > 0 })
		clk.pass(s, 3*time.Second)
		var why *SlowFrameError
		if err := h.waitClosed(t); !errors.As(err, &why) || !why.Shortage || why.Received != 1<<20-1 {
			t.Fatalf("reason %v", err)
		}
		if !bytes.Equal(waiting.recv(), p) {
			t.Fatal("wrong echo")
		}
		fast.raw(p[2<<20+1:])
		if !bytes.Equal(fast.recv(), p) {
			t.Fatal("wrong echo")
		}
	})
}

// Who gives way, in which order.
func TestHoldersAreCompared(t *testing.T) {
	slow := holder{got: 1000, ageMs: 5000, held: 1}
	fast := holder{got: 9000, ageMs: 5000, held: 9}
	waits := holder{got: 1, ageMs: 5000, held: 5, paused: true}
	large := holder{got: 9, ageMs: 1000, held: 7, paused: true}
	all := []holder{waits, fast, large, slow}
	slices.SortStableFunc(all, holder.compare)
	if !slices.Equal(all, []holder{slow, fast, large, waits}) {
		t.Errorf("%+v", all)
	}
}

// How many give way.
func TestVictims(t *testing.T) {
	var p [5]progress
	var b [5]budget
	for i := range p {
		p[i].budget = &b[i]
	}
	hold := func(held ...int64) (all []holder) { // of connections 0, 1, ...; the slowest first
		for i, n := range held {
			all = append(all, holder{p: &p[i], held: n})
		}
		return all
	}
	f := func(want int, holders []holder, free, share int64, waits ...wait) {
		t.Helper()
		if got := len(victims(holders, waits, free, share)); got != want {
			t.Errorf("%d victims, want %d", got, want)
		}
	}
	const never = 1 << 40
	f(1, hold(10, 10, 10), 0, never, wait{&b[4], 10})                 // the slowest suffices
	f(2, hold(10, 10, 10), 0, never, wait{&b[4], 11})                 // two of them
	f(1, hold(10, 10, 10), 5, never, wait{&b[4], 15})                 // with what is free
	f(0, hold(10, 10, 10), 0, never, wait{&b[4], 31})                 // the handler has it
	f(0, hold(10), 0, never, wait{&b[0], 10})                         // its own memory does not help it
	f(1, hold(10, 10), 0, never, wait{&b[0], 10}, wait{&b[1], 10})    // a deadlock: the slower gives way
	f(1, hold(10, 10), 0, never, wait{&b[1], 10}, wait{&b[0], 10})    //
	f(2, hold(10, 10, 10), 0, never, wait{&b[0], 5}, wait{&b[2], 20}) // a victim is not served
	f(2, hold(10, 10, 10, 10, 10), 0, 12, wait{&b[4], 1})             // they hold much: a share of it
	f(1, hold(10, 10), 0, 12, wait{&b[4], 1})                         // they hold little
	f(3, hold(10, 10, 10, 10, 10), 0, never, wait{&b[4], 25})         //
	f(0, hold(), 0, never, wait{&b[4], 1})                            //
	f(0, hold(10, 10), 0, never)                                      //
}

// An unfinished frame must make progress: one that stands still or drips is closed, a slow but honest one is not, and the
// time in which this server does not read is nobody's fault.
func TestFrameTimeout(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const size = 1 << 20
		var clk clock
		h := newTestHandler(echo)
		s := start(t, d.options(Options{Handler: h, NowMs: clk.now, FrameTimeout: 30 * time.Second, IdleTimeout: -1}))
		still, drip, honest := dial(t, d, s), dial(t, d, s), dial(t, d, s)
		idle := dial(t, d, s)
		p := pattern(size)
		for _, c := range []*client{still, drip, honest} {
			c.raw(header(size))
		}
		eventually(t, "the lengths to be noted", func() bool { return noted(s, 0) })
		const step = 5
		sent := 0
		for range 3 * 30 / step {
			drip.Write([]byte{1}) // until it is closed
			n := min(frameProgress*step/30+1000, size-sent)
			honest.raw(p[sent : sent+n])
			sent += n
			eventually(t, "the bytes to be noted", func() bool { return noted(s, sent) })
			clk.pass(s, step*time.Second)
		}
		for range 2 {
			var slow *SlowFrameError
			if err := h.waitClosed(t); !errors.As(err, &slow) || slow.Shortage || slow.Size != size || slow.Received > 10 {
				t.Errorf("reason %v", err)
			}
		}
		honest.raw(p[sent:])
		if !bytes.Equal(honest.recv(), p) {
			t.Fatal("wrong echo")
		}
		clk.pass(s, 2*time.Minute)
		for _, c := range []*client{idle, honest} { // no frame is unfinished: not this time-out's business
			c.send([]byte("x"))
			c.recv()
		}
		if n := s.Stats().Connections; n != 2 {
			t.Errorf("%d connections", n)
		}
	})
}

// While the handler has muted the connection its half frame does not age.
func TestFrameTimeoutSparesTheMuted(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		var clk clock
		calls := make(chan *Call, 10)
		s := start(t, d.options(Options{NowMs: clk.now, IdleTimeout: -1, FrameTimeout: 10 * time.Second, MaxFrame: 1 << 20, FrameBytesLimit: 1 << 20,
			Handler: newTestHandler(func(c *Call) { calls <- c })}))
		holder, c := dial(t, d, s), dial(t, d, s)
		p := pattern(700_000)
		holder.send(p)
		held := receive(t, calls, "the request that fills the account")
		go c.Write(frameOf(p))
		eventually(t, "the wait for memory", func() bool { return s.Stats().Muted == 1 })
		clk.pass(s, time.Minute)
		echo(held)
		echo(receive(t, calls, "the request that waited"))
		if !bytes.Equal(c.recv(), p) {
			t.Fatal("wrong echo")
		}
	})
}

// A flood of long honest requests through a small account: all are answered, nothing is lost.
func TestManyLongFramesThroughASmallAccount(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const limit, conns, requests = 8 << 20, 12, 4
		// All 12 can wait with half a MiB each, and one of them still gets its whole: nobody needs to give way, and time stands
		// still so that nobody does.
		var clk clock
		s := start(t, d.options(Options{Handler: newTestHandler(echo), FrameBytesLimit: limit, MaxFrame: 2 << 20, NowMs: clk.now, Loops: 2}))
		errs := make(chan error, conns)
		for i := range conns {
			c := dial(t, d, s)
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			go func() {
				for range requests {
					p := pattern(1 + rnd.IntN(1<<20))
					sent := make(chan error, 1)
					go func() { _, err := c.Write(frameOf(p)); sent <- err }()
					b, err := c.tryRecv()
					if err == nil && !bytes.Equal(b, p) {
						err = errors.New("wrong echo")
					}
					if err = errors.Join(err, <-sent); err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range conns {
			if err := receive(t, errs, "a client"); err != nil {
				t.Error(err)
			}
		}
		eventually(t, "the memory to be given back", func() bool { return s.Stats().FrameBytes == 0 })
	})
}

// Connections that go while they wait for memory, or while they have been granted some, leave nothing behind.
func TestGoneWhileWaitingForMemory(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		calls := make(chan *Call, 100)
		h := newTestHandler(func(c *Call) { calls <- c })
		s := start(t, d.options(Options{Handler: h, FrameBytesLimit: 1 << 20, MaxFrame: 1 << 20}))
		p := pattern(700_000)
		dial(t, d, s).send(p)
		held := receive(t, calls, "a request")
		const waiters = 10
		conns := make(chan Conn, waiters)
		for range waiters {
			c := dial(t, d, s)
			c.send([]byte("first"))
			first := receive(t, calls, "a request")
			conns <- first.Conn
			echo(first)
			c.recv()
			go c.Write(frameOf(p))
		}
		eventually(t, "all to wait", func() bool { return baseOf(s).frames.waiters.Load() == waiters })
		for range waiters / 2 {
			(<-conns).Close()
		}
		echo(held)
		for range waiters / 2 {
			(<-conns).Close()
		}
		for range waiters {
			h.waitClosed(t)
		}
		for {
			select {
			case c := <-calls:
				c.Complete(Response{None: true})
				continue
			default:
			}
			break
		}
		eventually(t, "nobody to wait", func() bool {
			a := &baseOf(s).frames
			select {
			case c := <-calls:
				c.Complete(Response{None: true})
			default:
			}
			return a.waiters.Load() == 0 && a.bytes() == 0
		})
	})
}

type fakeTransport struct{ freed int }

func (f *fakeTransport) memoryFreed() { f.freed++ }
func (f *fakeTransport) fail(error)   {}

func TestAccount(t *testing.T) {
	now := int64(5)
	a := &account{limit: 1000_000, nowMs: func() int64 { return now }}
	var owners [4]fakeTransport
	var b [4]budget
	for i := range b {
		b[i].account, b[i].owner = a, &owners[i]
	}
	take := func(i int, n int64, wantOwn, wantOK bool) {
		t.Helper()
		if own, ok := b[i].take(n); own != wantOwn || ok != wantOK {
			t.Fatalf("take of %d by %d: own %v, ok %v", n, i, own, ok)
		}
	}
	freed := func(want ...int) {
		t.Helper()
		var got []int
		for i := range owners {
			got = append(got, owners[i].freed)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("told %v, want %v", got, want)
		}
	}
	take(0, 60_000, true, true)
	take(0, 60_000, false, true) // the allowance is used
	take(1, 940_000, false, true)
	take(2, 65_536, true, true) // full, but the allowance is there
	take(2, 500_000, false, false)
	now = 6
	take(3, 100_000, false, false)
	take(0, 70_000, false, false)
	if w := a.waits(5); len(w) != 1 || w[0] != (wait{&b[2], 500_000}) {
		t.Fatalf("waits %v", w)
	}
	b[0].give(60_000, false) // suffices for none
	freed(0, 0, 0, 0)
	b[0].give(60_000, true) // own: 0 may look again, and its want is too long for the allowance
	freed(1, 0, 0, 0)
	take(0, 70_000, false, false)
	b[1].give(440_000, false) // 500,000 free: the oldest
	freed(1, 0, 1, 0)
	take(2, 500_000, false, true)
	b[1].give(100_000, false)
	freed(1, 0, 1, 1)
	b[3].cancel() // granted and not wanted: the next
	freed(2, 0, 1, 1)
	take(0, 70_000, false, true)
	b[0].give(70_000, false)
	b[2].give(500_000, false)
	b[2].give(65_536, true)
	b[1].give(400_000, false)
	if a.bytes() != 0 || a.waiters.Load() != 0 {
		t.Errorf("%d bytes, %d waiters left", a.bytes(), a.waiters.Load())
	}
}

// Every frame that the account admits can be completed when it is alone, whatever its length.
func TestEveryAdmittedFrameFits(t *testing.T) {
	for _, limit := range []int64{1, 65_536, 100_000, 1 << 20, 3 << 20, 20 << 20} {
		a := &account{limit: limit, nowMs: func() int64 { return 0 }}
		b := &budget{account: a, owner: &fakeTransport{}}
		for _, size := range []int{1, a.largest() / 3, a.largest()/2 + 1, a.largest() - 1, a.largest()} {
			var f framer
			for left := append(header(size), make([]byte, size)...); len(left) > 0; {
				if f.hungry() {
					t.Fatalf("limit %d: a frame of %d gets no memory at %d bytes", limit, size, f.got)
				}
				n := copy(f.space(), left)
				left = left[n:]
				frame, err := f.advance(n, a.largest(), b)
				if err != nil {
					t.Fatal(err)
				}
				if (frame != nil) != (len(left) == 0) {
					t.Fatal("complete at the wrong place")
				}
				if a.bytes() > limit+connAllowance {
					t.Fatalf("%d bytes charged, limit %d", a.bytes(), limit)
				}
				if frame != nil {
					frame.Release()
				}
			}
		}
	}
}

// The driver's own loop: many requests of one connection do not keep the others of its loop waiting. The handler is held in
// its first request until everybody's bytes are there; then the order of deliveries tells who is served when.
func TestFloodOfCheapRequestsIsSliced(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const floods, others, pipelined = 3, 5, 3000
		hold := make(chan struct{})
		var holding atomic.Bool
		order := make(chan byte, floods*pipelined+others+1)
		h := newTestHandler(func(c *Call) {
			if c.Frame.B[0] == 'h' {
				holding.Store(true)
				<-hold
			}
			order <- c.Frame.B[0]
			echo(c)
		})
		s := start(t, d.options(Options{Handler: h, Loops: 1}))
		var floodClients, otherClients []*client
		for range floods {
			floodClients = append(floodClients, dial(t, d, s))
		}
		for range others {
			otherClients = append(otherClients, dial(t, d, s))
		}
		eventually(t, "the connections", func() bool { return s.Stats().Connections == floods+others })
		holder := dial(t, d, s)
		holder.send([]byte("h"))
		eventually(t, "the loop to be held", holding.Load)
		flood := bytes.Repeat(frameOf([]byte("f")), pipelined)
		for _, c := range floodClients {
			go io.Copy(io.Discard, c)
			c.raw(flood)
		}
		for _, c := range otherClients {
			c.send([]byte("o"))
		}
		close(hold)
		for _, c := range otherClients {
			c.recv()
		}
		holder.recv()
		if d.name != "epoll" {
			return // a goroutine each: the scheduler's order
		}
		before := 0
		for seen := 0; seen < others; {
			switch receive(t, order, "a delivery") {
			case 'f':
				before++
			case 'o':
				seen++
			}
		}
		if limit := floods * 2 * requestSlice; before > limit {
			t.Errorf("%d requests of the flood were served before the last of the others, limit %d", before, limit)
		}
	})
}

// Slices lose nothing: floods are answered to the end, in order, also when the peer stops sending behind them.
func TestSlicedFloodIsAnsweredWhole(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		const conns, requests = 8, 5000
		s := start(t, d.options(Options{Handler: newTestHandler(echo), Loops: 2}))
		errs := make(chan error, conns)
		for range conns {
			c := dial(t, d, s)
			go func() {
				var b []byte
				for i := range requests {
					b = append(b, frameOf(header(i))...)
				}
				c.Write(b)
				if w, ok := c.Conn.(*net.TCPConn); ok {
					w.CloseWrite()
				}
			}()
			go func() {
				for i := range requests {
					b, err := c.tryRecv()
					if err != nil || !bytes.Equal(b, header(i)) {
						errs <- errors.Join(err, errors.New("wrong answer"))
						return
					}
				}
				errs <- nil
			}()
		}
		for range conns {
			if err := receive(t, errs, "a client"); err != nil {
				t.Error(err)
			}
		}
	})
}
