package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// rawList is a ListGroups request of version 3, which is flexible, without a filter's worth of body.
func rawList() Raw { return Raw{Key: 16, Version: 3, Flexible: true, Body: net.Buffers{{}, {0}}} }

// codeOf reads the answer to rawList.
func codeOf(body []byte) int16 {
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version = 3
	if resp.ReadFrom(body) != nil {
		return -100
	}
	return resp.ErrorCode
}

// Answers come in the order of the requests, whoever encodes them, and waiting requests mix with them.
func TestAsyncOrder(t *testing.T) {
	addr := serve(t, func(p *peer) {
		p.greet()
		for {
			_, v, id, ok := p.request()
			if !ok {
				return
			}
			p.answer(id, list(v, int16(id)))
		}
	})
	c := dial(t, addr, Options{InFlight: 4})
	var mu sync.Mutex
	var got []int16
	note := func(code int16, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			t.Error(err)
		}
		got = append(got, code)
	}
	for i := range 100 {
		var err error
		switch i % 3 {
		case 0:
			err = c.Go(t.Context(), kmsg.NewPtrListGroupsRequest(), -1, 0, func(r kmsg.Response, err error) { note(r.(*kmsg.ListGroupsResponse).ErrorCode, err) })
		case 1:
			err = c.GoRaw(t.Context(), rawList(), 0, func(body []byte, err error) { note(codeOf(body), err) })
		default:
			var code int16
			code, err = ask(t.Context(), c)
			note(code, err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ask(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(got) != 100 || !slices.IsSorted(got) {
		t.Errorf("answers: %v", got)
	}
}

// Whatever ends a connection is told to all that wait, once, in order; afterwards nothing is taken.
func TestAsyncLost(t *testing.T) {
	broken := errors.New("broken on purpose")
	for name, end := range map[string]func(c *Conn, hangUp chan struct{}){
		"close":  func(c *Conn, _ chan struct{}) { c.Close() },
		"break":  func(c *Conn, _ chan struct{}) { c.Break(broken) },
		"hangup": func(_ *Conn, hangUp chan struct{}) { close(hangUp) },
	} {
		hangUp, read := make(chan struct{}), make(chan struct{})
		addr := serve(t, func(p *peer) {
			p.greet()
			for range 3 {
				p.request()
			}
			close(read)
			select {
			case <-hangUp:
			default:
				go func() { <-hangUp; p.conn.Close() }()
				_, _ = io.Copy(io.Discard, p.conn)
			}
		})
		c := dial(t, addr, Options{})
		told := make(chan int, 10)
		var errs [3]error
		for i := range 3 {
			if err := c.GoRaw(t.Context(), rawList(), 0, func(_ []byte, err error) { errs[i] = err; told <- i }); err != nil {
				t.Fatal(err)
			}
		}
		<-read
		end(c, hangUp)
		for i := range 3 {
			if got := <-told; got != i || errs[i] == nil {
				t.Errorf("%s: told %d of %d: %v", name, got, i, errs[i])
			}
		}
		if name == "break" && !errors.Is(errs[0], broken) {
			t.Errorf("the reason is %v", errs[0])
		}
		if err := c.GoRaw(t.Context(), rawList(), 0, func([]byte, error) { told <- 99 }); err == nil {
			t.Errorf("%s: a request is taken afterwards", name)
		}
		c.Close()
		if len(told) != 0 {
			t.Errorf("%s: told again", name)
		}
		if name != "hangup" {
			close(hangUp)
		}
	}
}

// A request that waits too long ends the connection.
func TestAsyncTimeout(t *testing.T) {
	addr := serve(t, func(p *peer) {
		p.greet()
		_, _ = io.Copy(io.Discard, p.conn)
	})
	c := dial(t, addr, Options{})
	told := make(chan error, 1)
	if err := c.GoRaw(t.Context(), rawList(), 10*time.Millisecond, func(_ []byte, err error) { told <- err }); err != nil {
		t.Fatal(err)
	}
	err := <-told
	if e, ok := errors.AsType[*TimeoutError](err); !ok || e.Request != "ListGroups" || c.Err() == nil {
		t.Errorf("%v, then %v", err, c.Err())
	}
}

// No more are on their way than allowed, and whoever waits for a place can give up.
func TestAsyncBound(t *testing.T) {
	addr := serve(t, func(p *peer) {
		p.greet()
		_, _ = io.Copy(io.Discard, p.conn)
	})
	c := dial(t, addr, Options{InFlight: 2})
	for range 2 {
		if err := c.GoRaw(t.Context(), rawList(), 0, func([]byte, error) {}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.GoRaw(ctx, rawList(), 0, func([]byte, error) { t.Error("told") }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := c.GoRaw(t.Context(), rawList(), 10*time.Millisecond, func([]byte, error) { t.Error("told") }); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if c.Err() != nil {
		t.Errorf("what was not sent ends the connection: %v", c.Err())
	}
}

// A request without an answer takes no place, and the next answer is not its.
func TestNoAnswer(t *testing.T) {
	addr := serve(t, func(p *peer) {
		p.greet()
		for range 3 {
			p.request()
		}
		_, v, id, _ := p.request()
		p.answer(id, list(v, 9))
		_, _ = io.Copy(io.Discard, p.conn)
	})
	c := dial(t, addr, Options{InFlight: 1})
	for range 3 {
		if err := c.GoRaw(t.Context(), rawList(), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if code, err := ask(t.Context(), c); err != nil || code != 9 {
		t.Errorf("%d, %v", code, err)
	}
}

// An answer that cannot be read ends the connection, and whoever asked is told.
func TestAsyncUnreadable(t *testing.T) {
	addr := serve(t, func(p *peer) {
		p.greet()
		_, _, id, _ := p.request()
		_, _ = p.conn.Write([]byte{0, 0, 0, 7, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id), 0, 1, 2})
		_, _ = io.Copy(io.Discard, p.conn)
	})
	c := dial(t, addr, Options{})
	told := make(chan error, 1)
	if err := c.Go(t.Context(), kmsg.NewPtrListGroupsRequest(), -1, 0, func(_ kmsg.Response, err error) { told <- err }); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*NotKafkaError](<-told); !ok || c.Err() == nil {
		t.Error("it goes on")
	}
	addr = serve(t, func(p *peer) {
		p.greet()
		_, v, id, _ := p.request()
		p.answer(id+1, list(v, 0)) // another's
		_, _ = io.Copy(io.Discard, p.conn)
	})
	c = dial(t, addr, Options{})
	if err := c.GoRaw(t.Context(), rawList(), 0, func(_ []byte, err error) { told <- err }); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*NotKafkaError](<-told); !ok {
		t.Error("another's answer is taken")
	}
	if v, err := c.Version(16, 2); v != 2 || err != nil {
		t.Errorf("version %d, %v", v, err)
	}
	if _, err := c.Version(int16(3), 9); protocol.Code(0) != Code(err) || err == nil {
		t.Error("a version of what it does not have")
	}
}

// The connection is made by the caller's function.
func TestDialOption(t *testing.T) {
	addr := serve(t, func(p *peer) {
		p.greet()
		_, v, id, _ := p.request()
		p.answer(id, list(v, 4))
	})
	asked := ""
	c, err := Dial(t.Context(), "broker.example:9092", Options{Dial: func(ctx context.Context, network, to string) (net.Conn, error) {
		asked = network + " " + to
		return new(net.Dialer).DialContext(ctx, network, addr)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if code, err := ask(t.Context(), c); err != nil || code != 4 || asked != "tcp broker.example:9092" {
		t.Errorf("%d, %v, %s", code, err, asked)
	}
}
