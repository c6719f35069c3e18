package metrics

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"time"
)

// Bounds of the server.
const (
	connectionsMax = 64
	headerBytes    = 8 << 10
	requestTime    = 5 * time.Second  // for a request to arrive
	collectTime    = 10 * time.Second // for its page to be made
	answerTime     = 30 * time.Second // for both, and for the answer to leave
	idleTime       = 2 * time.Minute  // between two requests of a connection
	farewellTime   = time.Second      // for answers to leave when the server is closed

	restMs    = 1000 // between two collections, at least
	restTimes = 20   // and so many times as long as the last one took
)

// Options make a Server. All are mandatory.
type Options struct {
	Address string // host:port; port 0 takes a free one
	Collect func(ctx context.Context, w *Writer)
	NowMs   func() int64 // a clock that nobody sets
	Logger  *slog.Logger
}

// Server serves one page, /metrics.
type Server struct {
	o        Options
	listener net.Listener
	http     http.Server
	ctx      context.Context // of collecting; ends with Close
	cancel   context.CancelFunc
	work     sync.WaitGroup

	mu struct {
		sync.Mutex
		now    *collection // under way; nil: none
		last   *collection // the page that is shown until nextMs
		nextMs int64
		closed bool
	}
}

// collection is one page in the making. page is set before done is closed; nil then: it failed.
type collection struct {
	done chan struct{}
	page []byte
}

// Listen takes the address; nobody is served before Start.
func Listen(o Options) (*Server, error) {
	l, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, listener: &limited{Listener: l, places: make(chan struct{}, connectionsMax)}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.http = http.Server{
		Handler: http.HandlerFunc(s.answer), ReadTimeout: requestTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: headerBytes,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), DisableGeneralOptionsHandler: true,
	}
	return s, nil
}

// Addr is the address with its real port.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Start begins to serve.
func (s *Server) Start() {
	s.work.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.o.Logger.Error("the metrics are not served any more", "address", s.Addr(), "error", err)
		}
	})
}

// Close ends it: nothing is collected any more when it returns.
func (s *Server) Close() {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	_ = s.http.Shutdown(ctx)
	_ = s.http.Close()
	_ = s.listener.Close() // where Start was not called
	s.work.Wait()
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/metrics":
		http.Error(w, "the metrics are at /metrics", http.StatusNotFound)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "the metrics can only be read", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), collectTime)
	defer cancel()
	page := s.page(ctx)
	if page == nil {
		http.Error(w, "the metrics could not be collected in time", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(page)
	}
}

// page is a page that is new enough; nil when there is none in time.
func (s *Server) page(ctx context.Context) []byte {
	c := s.collection()
	if c == nil {
		return nil
	}
	select {
	case <-c.done:
		return c.page
	case <-ctx.Done():
		return nil
	}
}

// collection is the one that answers a request which comes now; nil when the server is closed.
func (s *Server) collection() *collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return nil
	case s.mu.now != nil:
		return s.mu.now
	case s.mu.last != nil && s.o.NowMs() < s.mu.nextMs:
		return s.mu.last
	}
	c := &collection{done: make(chan struct{})}
	s.mu.now = c
	s.work.Go(func() { s.collect(c) })
	return c
}

func (s *Server) collect(c *collection) {
	begin := s.o.NowMs()
	c.page = s.write()
	end := s.o.NowMs()
	s.mu.Lock()
	s.mu.now, s.mu.last = nil, c
	s.mu.nextMs = end + max(restMs, restTimes*(end-begin))
	s.mu.Unlock()
	close(c.done)
}

// write makes a page. A bug in what collects costs the page, not the process.
func (s *Server) write() (page []byte) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Logger.Error("BUG: collecting the metrics panicked", "panic", p, "stack", string(debug.Stack()))
			page = nil
		}
	}()
	ctx, cancel := context.WithTimeout(s.ctx, collectTime)
	defer cancel()
	var w Writer
	s.o.Collect(ctx, &w)
	return w.b
}

// limited closes connections for which there is no place.
type limited struct {
	net.Listener
	places chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.places <- struct{}{}:
			return &placed{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
		default:
			c.Close()
		}
	}
}

// placed is a connection that gives its place back.
type placed struct {
	net.Conn
	leave func()
}

func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}
