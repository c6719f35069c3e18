package netio

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// waitLimit bounds every wait of a test for something that must happen.
const waitLimit = time.Minute

// driver is one way to run the suite.
type driver struct {
	name string
	tls  bool
}

func (d driver) options(o Options) Options {
	o.Driver = d.name
	if d.tls {
		o.TLS = serverTLS()
	}
	return o
}

// drivers of this platform; every test of the suite runs on each of them.
func drivers() []driver {
	all := []driver{{name: "net"}, {name: "net", tls: true}}
	if haveEpoll {
		all = append([]driver{{name: "epoll"}}, all...)
	}
	return all
}

func forEachDriver(t *testing.T, fn func(t *testing.T, d driver)) {
	for _, d := range drivers() {
		name := d.name
		if d.tls {
			name += "+tls"
		}
		t.Run(name, func(t *testing.T) { fn(t, d) })
	}
}

// testHandler calls functions and remembers the reasons of closed connections.
type testHandler struct {
	onRequest func(*Call)
	onClose   func(Conn, error)
	closed    chan error
}

func newTestHandler(onRequest func(*Call)) *testHandler {
	return &testHandler{onRequest: onRequest, closed: make(chan error, 10_000)}
}

func (h *testHandler) OnRequest(c *Call) { h.onRequest(c) }

func (h *testHandler) OnClose(c Conn, err error) {
	if h.onClose != nil {
		h.onClose(c, err)
	}
	h.closed <- err
}

func (h *testHandler) waitClosed(t *testing.T) error {
	t.Helper()
	return receive(t, h.closed, "a connection to close")
}

func receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(waitLimit):
		t.Fatalf("waited %v for %s", waitLimit, what)
		panic("unreachable")
	}
}

// start serves until the test ends; then every counter must be back at zero.
func start(t testing.TB, o Options) Server {
	t.Helper()
	if o.Address == "" && len(o.Listeners) == 0 {
		o.Address = "127.0.0.1:0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Shutdown(ctx)
		if err := receive(t, served, "Serve to return"); err != nil && !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
		st := s.Stats()
		if st.Connections != 0 || st.Muted != 0 || st.InFlight != 0 || st.QueuedBytes != 0 {
			t.Errorf("after Shutdown: %+v", st)
		}
	})
	return s
}

// client is one raw connection that speaks frames.
type client struct {
	t testing.TB
	net.Conn
}

func dial(t testing.TB, d driver, s Server) *client {
	t.Helper()
	raw, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if d.tls {
		raw = tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	}
	raw.SetDeadline(time.Now().Add(waitLimit))
	t.Cleanup(func() { raw.Close() })
	return &client{t: t, Conn: raw}
}

func frameOf(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func (c *client) send(payloads ...[]byte) {
	c.t.Helper()
	var b []byte
	for _, p := range payloads {
		b = append(b, frameOf(p)...)
	}
	c.raw(b)
}

func (c *client) raw(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) recv() []byte {
	c.t.Helper()
	b, err := c.tryRecv()
	if err != nil {
		c.t.Fatal(err)
	}
	return b
}

func (c *client) tryRecv() ([]byte, error) {
	var h [4]byte
	if _, err := io.ReadFull(c, h[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(h[:]))
	_, err := io.ReadFull(c, b)
	return b, err
}

// expectEnd reads until the connection ends and fails on any byte.
func (c *client) expectEnd() {
	c.t.Helper()
	n, err := io.Copy(io.Discard, c)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		c.t.Fatal("the connection was not closed")
	}
	if n != 0 {
		c.t.Fatalf("%d bytes before the end", n)
	}
}

// reset closes with RST.
func (c *client) reset() {
	raw := c.Conn
	if tc, ok := raw.(*tls.Conn); ok {
		raw = tc.NetConn()
	}
	raw.(*net.TCPConn).SetLinger(0)
	raw.Close()
}

// echo answers with the request.
func echo(c *Call) {
	f := NewFrame(4 + len(c.Frame.B))
	binary.BigEndian.PutUint32(f.B, uint32(len(c.Frame.B)))
	copy(f.B[4:], c.Frame.B)
	c.Reply(f)
}

// file is a FileRef that counts.
type file struct {
	*os.File
	refs *atomic.Int64
	noFd bool
}

func (f *file) Fd() (uintptr, bool) { return f.File.Fd(), !f.noFd }
func (f *file) Release()            { f.refs.Add(-1) }

func (f *file) acquire() *file {
	f.refs.Add(1)
	return f
}

// pattern is content in which every position can be told from its neighbours.
func pattern(n int) []byte { return bytes.Clone(longPattern()[:n]) }

var longPattern = sync.OnceValue(func() []byte {
	b := make([]byte, 32<<20)
	for i := 0; i < len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], uint32(i)*2654435761)
	}
	return b
})

func tempFile(t testing.TB, content []byte) *file {
	t.Helper()
	path := filepath.Join(t.TempDir(), "segment")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &file{File: f, refs: new(atomic.Int64)}
}

// eventually polls a condition that another goroutine makes true; there is nothing to wait on.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitLimit); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", waitLimit, what)
		}
		<-time.After(time.Millisecond)
	}
}

var serverTLS = sync.OnceValue(func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
})

func TestEcho(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		s := start(t, d.options(Options{Handler: newTestHandler(echo)}))
		c := dial(t, d, s)
		for _, n := range []int{1, 100, 64 << 10, 3 << 20} {
			p := pattern(n)
			c.send(p)
			if got := c.recv(); !bytes.Equal(got, p) {
				t.Fatalf("%d bytes: wrong echo", n)
			}
		}
		if got := s.Stats().FrameBytes; got != 0 {
			t.Fatalf("%d bytes of frames not released", got)
		}
	})
}

// syncBuffer collects log output of several goroutines.
type syncBuffer struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.Buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.Buffer.String()
}

func (b *syncBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
