package client

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// cutConn ends one connection, after so many bytes, or damages the byte there.
type cutConn struct {
	net.Conn
	c *cut
}

// cut is what happens to the connections of a client: once, at a byte of what is written or read.
type cut struct {
	mu      sync.Mutex
	reading bool // else writing
	damage  bool // change the byte, and go on
	at      int  // bytes until then; over all connections
	done    bool
}

// pass is how many of n bytes pass; fewer than n: the connection ends.
func (c *cut) pass(n int) (passed int, here bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done || c.at >= n {
		c.at -= n
		return n, false
	}
	c.done = true
	return c.at, true
}

func (c *cutConn) Write(b []byte) (int, error) {
	if c.c.reading {
		return c.Conn.Write(b)
	}
	n, here := c.c.pass(len(b))
	if !here {
		return c.Conn.Write(b)
	}
	n, _ = c.Conn.Write(b[:n])
	c.Conn.Close()
	return n, errors.New("cut on purpose")
}

func (c *cutConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.c.reading || n == 0 {
		return n, err
	}
	passed, here := c.c.pass(n)
	if here && c.c.damage {
		b[passed] ^= 0x15
		return n, err
	}
	if here {
		c.Conn.Close()
		if passed == 0 {
			return 0, errors.New("cut on purpose")
		}
	}
	return passed, err
}

// sendThrough sends some records, one by one and together, over connections to which something happens.
func sendThrough(t *testing.T, c *cut) (log []int, told int) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster(t, 1)
		f.topic("a", 1)
		logs := f.takesRecords()
		cl := f.client(func(config *Config) {
			config.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := f.dial(ctx, network, addr)
				return &cutConn{conn, c}, err
			}
		})
		p := producer(t, cl, ProducerConfig{Linger: time.Millisecond, MaxBlock: time.Minute, DeliveryTimeout: time.Minute})
		for n := range 6 {
			err := p.Send(t.Context(), numbered("a", n), func(_ Delivery, err error) {
				if told++; err != nil && !c.damage {
					t.Errorf("at %d: %v", c.at, err)
				}
			})
			if err != nil && !c.damage {
				t.Fatal(err)
			}
			if n%3 == 0 {
				_ = p.Flush(t.Context())
			}
		}
		if err := p.Flush(within(t, 2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		log = logs.log("a-0")
	})
	return log, told
}

// A connection may end at any byte of a request or an answer: each record is there once, in order.
func TestCutAnywhere(t *testing.T) {
	for _, reading := range []bool{false, true} {
		cuts := 0
		for at := 0; ; at++ {
			c := &cut{reading: reading, at: at}
			log, told := sendThrough(t, c)
			if !slices.Equal(log, []int{0, 1, 2, 3, 4, 5}) || told != 6 {
				t.Fatalf("reading %t, cut at %d: the log is %v, told of %d", reading, at, log, told)
			}
			if !c.done {
				break
			}
			cuts++
		}
		if cuts < 300 {
			t.Errorf("reading %t: only %d bytes", reading, cuts)
		}
	}
}

// An answer may be damaged at any byte: nothing panics or hangs, and every record that was taken is told of.
func TestDamagedAnswers(t *testing.T) {
	for at := 0; ; at++ {
		c := &cut{reading: true, damage: true, at: at}
		if _, told := sendThrough(t, c); told > 6 {
			t.Fatalf("at %d: told of %d", at, told)
		}
		if !c.done {
			return
		}
	}
}
