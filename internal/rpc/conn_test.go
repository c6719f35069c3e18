package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

const patience = 30 * time.Second

// peer is the other end: what a test makes of it.
type peer struct {
	t    *testing.T
	conn net.Conn
}

// serve runs a peer for each connection and returns its address.
func serve(t *testing.T, run func(p *peer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				run(&peer{t, c})
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l.Addr().String()
}

// request reads one request's key, version and correlation id; false when the connection is over.
func (p *peer) request() (key, version int16, id int32, ok bool) {
	var size [4]byte
	if _, err := io.ReadFull(p.conn, size[:]); err != nil {
		return 0, 0, 0, false
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(p.conn, b); err != nil {
		return 0, 0, 0, false
	}
	return int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:])), int32(binary.BigEndian.Uint32(b[4:])), true
}

func (p *peer) answer(id int32, resp kmsg.Response) {
	_, _ = p.conn.Write(protocol.AppendResponse(nil, id, resp))
}

// versions are those that a peer has.
func versions(version int16, keys ...kmsg.ApiVersionsResponseApiKey) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version, resp.ApiKeys = version, keys
	return resp
}

func key(k, low, high int16) kmsg.ApiVersionsResponseApiKey {
	a := kmsg.NewApiVersionsResponseApiKey()
	a.ApiKey, a.MinVersion, a.MaxVersion = k, low, high
	return a
}

// greet answers the question for versions: ListGroups 1-3, DescribeGroups 9-10.
func (p *peer) greet() bool {
	k, v, id, ok := p.request()
	if ok && k != 18 {
		p.t.Errorf("the first request has key %d", k)
	}
	p.answer(id, versions(v, key(16, 1, 3), key(15, 9, 10), key(18, 0, 3)))
	return ok
}

func list(v int16, code int16) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	resp.Version, resp.ErrorCode = v, code
	return resp
}

func dial(t *testing.T, addr string, o Options) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// ask lists groups; the error code of the answer comes back.
func ask(ctx context.Context, c *Conn) (int16, error) {
	resp, err := c.Request(ctx, kmsg.NewPtrListGroupsRequest(), -1)
	if err != nil {
		return 0, err
	}
	return resp.(*kmsg.ListGroupsResponse).ErrorCode, nil
}

func TestVersionsThatBothHave(t *testing.T) {
	asked := make(chan int16, 4)
	addr := serve(t, func(p *peer) {
		p.greet()
		for {
			_, v, id, ok := p.request()
			if !ok {
				return
			}
			asked <- v
			p.answer(id, list(v, 7))
		}
	})
	c := dial(t, addr, Options{})
	for newest, want := range map[int16]int16{-1: 3, 2: 2, 9: 3} {
		if _, err := c.Request(t.Context(), kmsg.NewPtrListGroupsRequest(), newest); err != nil {
			t.Fatal(err)
		}
		if got := <-asked; got != want {
			t.Errorf("up to %d: asked in version %d, want %d", newest, got, want)
		}
	}
	for _, tc := range []struct {
		req    kmsg.Request
		newest int16
		says   string
	}{
		{kmsg.NewPtrListGroupsRequest(), 0, "ListGroups in versions 1-3"},
		{kmsg.NewPtrDescribeGroupsRequest(), -1, "DescribeGroups in versions 9-10"},
		{kmsg.NewPtrMetadataRequest(), -1, "has no Metadata"},
	} {
		_, err := c.Request(t.Context(), tc.req, tc.newest)
		if e, ok := errors.AsType[*UnsupportedError](err); !ok || !strings.Contains(e.Error(), tc.says) {
			t.Errorf("%v, want %q", err, tc.says)
		}
	}
	if !c.Has(16, 1) || !c.Has(16, 3) || c.Has(16, 0) || c.Has(16, 4) || c.Has(3, 0) {
		t.Error("which versions there are is not known")
	}
	if code, err := ask(t.Context(), c); err != nil || code != 7 {
		t.Errorf("afterwards: %d, %v", code, err)
	}
}

// A broker that is older than the question refuses it in the oldest form; then it is asked in that.
func TestVersionsOfOldBroker(t *testing.T) {
	for _, empty := range []bool{false, true} { // old brokers list nothing in the refusal, newer ones their versions of ApiVersions
		addr := serve(t, func(p *peer) {
			_, v, id, _ := p.request()
			if v == 0 {
				p.t.Error("the newest form is not tried first")
			}
			refusal := versions(0)
			if refusal.ErrorCode = int16(protocol.UnsupportedVersion); !empty {
				refusal.ApiKeys = append(refusal.ApiKeys, key(18, 0, 1))
			}
			p.answer(id, refusal)
			if _, v, id, _ = p.request(); v != 0 {
				p.t.Errorf("asked again in version %d", v)
			}
			p.answer(id, versions(0, key(16, 0, 0)))
			_, v, id, _ = p.request()
			p.answer(id, list(v, 5))
		})
		if code, err := ask(t.Context(), dial(t, addr, Options{})); err != nil || code != 5 {
			t.Errorf("%d, %v", code, err)
		}
	}
}

// Requests of several goroutines are on their way at once, and each gets its own answer.
func TestPipeline(t *testing.T) {
	addr := serve(t, func(p *peer) {
		p.greet()
		var ids []int32
		for range DefaultInFlight { // nothing is answered before all are there
			_, _, id, ok := p.request()
			if !ok {
				return
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			p.answer(id, list(3, int16(id)))
		}
		for {
			_, _, id, ok := p.request()
			if !ok {
				return
			}
			p.answer(id, list(3, int16(id)))
		}
	})
	c := dial(t, addr, Options{Timeout: patience})
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[int16]bool{}
	for range 10 * DefaultInFlight {
		all.Go(func() {
			code, err := ask(t.Context(), c)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || seen[code] {
				t.Errorf("%d, %v", code, err)
			}
			seen[code] = true
		})
	}
	all.Wait()
}

// A request is given up with its context; its answer, when it comes, is nobody else's.
func TestGivenUp(t *testing.T) {
	given := make(chan struct{})
	addr := serve(t, func(p *peer) {
		p.greet()
		_, _, first, _ := p.request()
		<-given
		p.answer(first, list(3, 1))
		_, _, second, ok := p.request()
		if ok {
			p.answer(second, list(3, 2))
		}
		_, _ = io.Copy(io.Discard, p.conn)
	})
	c := dial(t, addr, Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := ask(ctx, c)
	if e, ok := errors.AsType[*TimeoutError](err); !ok || e.Request != "ListGroups" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up with %v", err)
	}
	close(given)
	if code, err := ask(t.Context(), c); code != 2 || err != nil {
		t.Errorf("the next one: %d, %v", code, err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err := ask(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// What is not an answer ends the connection, for all that wait, and takes no memory on its word.
func TestNotKafka(t *testing.T) {
	for name, answer := range map[string]string{
		"web server":     "HTTP/1.1 400 Bad Request\r\n\r\n",
		"TLS alert":      "\x15\x03\x03\x00\x02\x02\x16",
		"tiny":           "\x00\x00\x00\x03abc",
		"negative":       "\xff\xff\xff\xffabcd",
		"other id":       "\x00\x00\x00\x06\x00\x00\x7f\x00\x00\x00",
		"cut":            "\x00\x00",
		"unreadable":     "\x00\x00\x00\x05\x00\x00\x00\x01\x00",
		"huge array":     "\x00\x00\x00\x0b\x00\x00\x00\x01\x00\x00\xff\xff\xff\xff\x07",
		"nothing at all": "",
	} {
		addr := serve(t, func(p *peer) {
			p.request()
			_, _ = io.WriteString(p.conn, answer)
		})
		_, err := Dial(t.Context(), addr, Options{})
		if e, ok := errors.AsType[*NotKafkaError](err); !ok || e.Addr != addr || Retriable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSilent(t *testing.T) {
	addr := serve(t, func(p *peer) { _, _ = io.Copy(io.Discard, p.conn) })
	if _, err := Dial(t.Context(), addr, Options{Timeout: 20 * time.Millisecond}); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Error(err)
	}
}

func TestUnreachable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = Dial(t.Context(), l.Addr().String(), Options{})
	if e, ok := errors.AsType[*UnreachableError](err); !ok || e.Addr != l.Addr().String() || !Retriable(err) {
		t.Error(err)
	}
}

// An answer may be as long as allowed and no longer.
func TestAnswerLimit(t *testing.T) {
	const size = 300_000
	addr := serve(t, func(p *peer) {
		p.greet()
		for {
			_, v, id, ok := p.request()
			if !ok {
				return
			}
			resp := list(v, 0)
			g := kmsg.NewListGroupsResponseGroup()
			g.Group = strings.Repeat("g", size)
			resp.Groups = append(resp.Groups, g)
			p.answer(id, resp)
		}
	})
	if _, err := ask(t.Context(), dial(t, addr, Options{MaxAnswer: size + 100})); err != nil {
		t.Error(err)
	}
	c := dial(t, addr, Options{MaxAnswer: size})
	if _, err := ask(t.Context(), c); err == nil || !strings.Contains(err.Error(), "300") {
		t.Errorf("a long answer: %v", err)
	}
	if _, err := ask(t.Context(), c); err == nil || c.Err() == nil {
		t.Error("the connection goes on behind it")
	}
}

// Whoever waits is told when the connection is lost or closed, and nothing is left running.
func TestLostAndClosed(t *testing.T) {
	addr := serve(t, func(p *peer) {
		p.greet()
		p.request()
	})
	_, err := ask(t.Context(), dial(t, addr, Options{}))
	if _, ok := errors.AsType[*LostError](err); !ok || !Retriable(err) {
		t.Errorf("lost: %v", err)
	}
	waits := make(chan struct{})
	addr = serve(t, func(p *peer) {
		p.greet()
		p.request()
		close(waits)
		_, _ = io.Copy(io.Discard, p.conn)
	})
	c := dial(t, addr, Options{})
	answered := make(chan error)
	go func() {
		_, err := ask(context.Background(), c)
		answered <- err
	}()
	<-waits
	c.Close()
	if err := <-answered; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	c.Close()
	select {
	case <-c.ended:
	default:
		t.Error("the reader still runs")
	}
}

// A peer that does not read ends the connection when the time is over: half a request cannot be taken back.
func TestPeerThatDoesNotRead(t *testing.T) {
	done := make(chan struct{})
	addr := serve(t, func(p *peer) {
		p.greet()
		<-done
	})
	defer close(done)
	c := dial(t, addr, Options{})
	c.versions[42] = key(42, 0, 0)
	req := kmsg.NewPtrDeleteGroupsRequest()
	for range 700 {
		req.Groups = append(req.Groups, strings.Repeat("x", 30_000))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Request(ctx, req, -1); !errors.Is(err, context.DeadlineExceeded) || c.Err() == nil {
		t.Errorf("%v, then %v", err, c.Err())
	}
}

// lateConn ends the context of whoever writes while it writes, and is slow to take the deadline that follows.
type lateConn struct {
	net.Conn
	cancel  context.CancelFunc
	late    chan struct{} // closed when a deadline in the past is about to be set
	cleared chan struct{} // closed when it is taken back
	set     chan time.Time
}

func (c *lateConn) Write(b []byte) (int, error) {
	c.cancel()
	<-c.late
	return len(b), nil
}

func (c *lateConn) SetWriteDeadline(at time.Time) error {
	if at.IsZero() {
		close(c.cleared)
	} else {
		close(c.late)
		select { // whoever takes it back before it is set takes back nothing
		case <-c.cleared:
		case <-time.After(50 * time.Millisecond):
		}
	}
	c.set <- at
	return nil
}

// A context that ends while the last bytes of its request are written leaves no deadline behind for the next request.
func TestGivenUpWhileWriting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	late := &lateConn{cancel: cancel, late: make(chan struct{}), cleared: make(chan struct{}), set: make(chan time.Time, 2)}
	c := &Conn{net: late}
	if err := c.write(ctx, net.Buffers{[]byte("request")}); err != nil {
		t.Fatal(err)
	}
	if first, last := <-late.set, <-late.set; first.IsZero() || !last.IsZero() {
		t.Errorf("the deadline is %v, then %v", first, last)
	}
}

func TestErrors(t *testing.T) {
	text := "it is said"
	for _, tc := range []struct {
		err       error
		code      protocol.Code
		retriable bool
		says      string
	}{
		{ErrorOf(0, &text, "x"), protocol.None, false, ""},
		{ErrorOf(14, nil, "group g"), protocol.CoordinatorLoadInProgress, true, "group g: "},
		{ErrorOf(68, &text, "group g"), protocol.NonEmptyGroup, false, "group g: it is said (NON_EMPTY_GROUP)"},
		{errors.New("else"), protocol.None, false, "else"},
	} {
		if Code(tc.err) != tc.code || Retriable(tc.err) != tc.retriable || tc.err != nil && !strings.Contains(tc.err.Error(), tc.says) {
			t.Errorf("%v: code %v, retriable %t", tc.err, Code(tc.err), Retriable(tc.err))
		}
	}
}

// FuzzParse: no answer can do harm.
func FuzzParse(f *testing.F) {
	f.Add(int16(18), int16(3), []byte{0, 0, 1, 0})
	f.Add(int16(16), int16(3), list(3, 0).AppendTo([]byte{1, 5, 1, 9}))
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		req := kmsg.RequestForKey(key)
		if req == nil || version < 0 || version > req.MaxVersion() {
			return
		}
		req.SetVersion(version)
		_, _ = parse(req, body)
	})
}

// An answer lies in the memory that the caller has for it, if he has any.
func TestMemoryOfAnswers(t *testing.T) {
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
	mine := make([]byte, 1<<16)
	asked := 0
	c := dial(t, addr, Options{Memory: func(n int) []byte {
		if asked++; asked%2 == 0 {
			return nil
		}
		return mine[:n]
	}})
	for range 4 {
		var body []byte
		done := make(chan error, 1)
		if err := c.GoRaw(t.Context(), rawList(), 0, func(b []byte, err error) { body = b; done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		in := &body[len(body)-1] == &mine[len(body)] // behind the tags of the header, which are one byte
		if in != (asked%2 == 1) || codeOf(body) != int16(c.next) {
			t.Errorf("answer %d: in the caller's memory: %v, code %d", asked, in, codeOf(body))
		}
	}
}
