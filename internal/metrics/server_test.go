package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serving is a server under test with a clock of its own.
type serving struct {
	*Server
	t     *testing.T
	now   atomic.Int64
	count atomic.Int64 // collections
}

func serve(t *testing.T, collect func(ctx context.Context, w *Writer)) *serving {
	t.Helper()
	s := &serving{t: t}
	var err error
	s.Server, err = Listen(Options{Address: "127.0.0.1:0", NowMs: s.now.Load, Logger: slog.New(slog.DiscardHandler), Collect: func(ctx context.Context, w *Writer) {
		w.One("leat_n", Gauge, "Collections.", s.count.Add(1))
		if collect != nil {
			collect(ctx, w)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// ask sends a request on a connection of its own and returns the answer with its body.
func (s *serving) ask(request string) (*http.Response, string) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	return s.talk(c, request)
}

func (s *serving) talk(c net.Conn, request string) (*http.Response, string) {
	s.t.Helper()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	go io.WriteString(c, request) // it may be longer than what the server reads of it
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("%.40q: %v", request, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%.40q: %v", request, err)
	}
	return resp, string(body)
}

const scrape = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

func TestServerAnswers(t *testing.T) {
	s := serve(t, nil)
	resp, body := s.ask(scrape)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != ContentType || body != "# HELP leat_n Collections.\n# TYPE leat_n gauge\nleat_n 1\n" {
		t.Errorf("%+v %q", resp, body)
	}
	for request, want := range map[string]int{
		"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n":                                  200,
		"GET /metrics?x=1 HTTP/1.0\r\n\r\n":                                          200,
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":                                          404,
		"GET /metrics/ HTTP/1.1\r\nHost: x\r\n\r\n":                                  404,
		"GET /../metrics HTTP/1.1\r\nHost: x\r\n\r\n":                                404,
		"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc":          405,
		"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n":                                405,
		"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n":                                      404,
		"GET /metrics HTTP/1.1\r\n\r\n":                                              400,
		"GET /metrics HTTP/9.9\r\nHost: x\r\n\r\n":                                   505,
		"nonsense\r\n\r\n":                                                           400,
		"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n": 200,
	} {
		if resp, _ := s.ask(request); resp.StatusCode != want {
			t.Errorf("%.60q: %d, want %d", request, resp.StatusCode, want)
		}
	}
}

// A request without an end is cut off: its sender is told so, or finds the connection gone while it still sends.
func TestServerLongRequest(t *testing.T) {
	s := serve(t, nil)
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	go io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("x", 64<<20))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil && resp.StatusCode != 431 {
		t.Errorf("status %d", resp.StatusCode)
	}
	if n := s.count.Load(); n != 0 {
		t.Errorf("%d collections", n)
	}
}

// A request that does not come to its end is waited for no longer than the server's time for it, and so is one that never begins.
func TestServerSlowRequests(t *testing.T) {
	s, err := Listen(Options{Address: "127.0.0.1:0", NowMs: func() int64 { return 0 }, Logger: slog.New(slog.DiscardHandler), Collect: func(context.Context, *Writer) {}})
	if err != nil {
		t.Fatal(err)
	}
	if s.http.ReadTimeout != requestTime || s.http.WriteTimeout != answerTime || s.http.IdleTimeout != idleTime || requestTime+collectTime >= answerTime {
		t.Error("a time is not limited")
	}
	s.http.ReadTimeout = 20 * time.Millisecond
	s.Start()
	defer s.Close()
	for _, begin := range []string{"", "GET /metrics HTTP/1.1\r\nHost: x\r\n", "GET /metrics HTT"} {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprint(c, begin)
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the connection is still open", begin)
		}
	}
}

// However often it is asked, collecting has a rest of a second, or of twenty times what it took.
func TestServerCollectsSeldom(t *testing.T) {
	took := int64(0)
	var s *serving
	s = serve(t, func(context.Context, *Writer) { s.now.Add(took) })
	expect := func(want string) {
		t.Helper()
		if _, body := s.ask(scrape); !strings.HasSuffix(body, "leat_n "+want+"\n") {
			t.Errorf("at %d: %q, want %s", s.now.Load(), body, want)
		}
	}
	expect("1")
	expect("1")
	s.now.Add(restMs - 1)
	expect("1")
	took = 200
	s.now.Add(1)
	expect("2")
	s.now.Add(restTimes*took - 1)
	expect("2")
	s.now.Add(1)
	expect("3")
}

// Those who ask while a page is made wait for that one.
func TestServerCollectsOnce(t *testing.T) {
	begun, release := make(chan struct{}, 10), make(chan struct{})
	s := serve(t, func(context.Context, *Writer) { begun <- struct{}{}; <-release })
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			if c := s.page(t.Context()); !strings.HasSuffix(string(c), "leat_n 1\n") {
				t.Errorf("%q", c)
			}
		})
	}
	<-begun
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if page := s.page(gone); page != nil {
		t.Errorf("who does not wait gets %q", page)
	}
	close(release)
	all.Wait()
	if n := s.count.Load(); n != 1 {
		t.Errorf("%d collections", n)
	}
}

// A bug costs the page.
func TestServerPanic(t *testing.T) {
	broken := true
	s := serve(t, func(context.Context, *Writer) {
		if broken {
			panic("a bug")
		}
	})
	if resp, _ := s.ask(scrape); resp.StatusCode != 503 {
		t.Errorf("status %d", resp.StatusCode)
	}
	broken = false
	s.now.Add(restMs)
	if resp, _ := s.ask(scrape); resp.StatusCode != 200 {
		t.Errorf("afterwards: status %d", resp.StatusCode)
	}
}

// There is room for so many connections: the next one is closed, and when one goes the next is served.
func TestServerConnections(t *testing.T) {
	s := serve(t, nil)
	conns := make([]net.Conn, connectionsMax)
	for i := range conns {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
		if resp, _ := s.talk(c, scrape); resp.StatusCode != 200 { // it has its place
			t.Fatal(resp.Status)
		}
	}
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatalf("one too many reads %d bytes", n)
	}
	conns[0].Close()
	for deadline := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
		again, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = again.SetDeadline(deadline)
		fmt.Fprint(again, scrape)
		n, _ := again.Read(make([]byte, 1))
		again.Close()
		if n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the place of a connection that went is not given away")
		}
	}
}

// Close ends a collection that waits, and whoever waits for it.
func TestServerClose(t *testing.T) {
	begun := make(chan struct{})
	var ended atomic.Bool
	s := serve(t, func(ctx context.Context, _ *Writer) {
		close(begun)
		<-ctx.Done()
		ended.Store(true)
	})
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, scrape)
	<-begun
	s.Close()
	if !ended.Load() {
		t.Error("the collection goes on")
	}
	if page := s.page(t.Context()); page != nil {
		t.Errorf("a closed server collects: %q", page)
	}
	if _, err := net.Dial("tcp", s.Addr().String()); err == nil {
		t.Error("a closed server listens")
	}
	s.Close()
	never, err := Listen(Options{Address: "127.0.0.1:0", NowMs: s.now.Load, Logger: slog.New(slog.DiscardHandler), Collect: func(context.Context, *Writer) {}})
	if err != nil {
		t.Fatal(err)
	}
	never.Close()
	if _, err := net.Dial("tcp", never.Addr().String()); err == nil {
		t.Error("a server that was never started listens after its end")
	}
}
