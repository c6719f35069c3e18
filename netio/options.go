package netio

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"time"
)

// Server accepts connections until Shutdown.
type Server interface {
	// Addr is the first address listened on, with the real port.
	Addr() net.Addr
	// Addrs are all addresses listened on; they share one port where port 0 was asked for a name with several addresses.
	Addrs() []net.Addr
	// Serve works until Shutdown has finished (nil) or the server cannot go on.
	Serve() error
	// Shutdown stops accepting and reading, lets open calls finish and their answers leave, then closes everything. When ctx
	// ends first the rest is closed as it is and ctx's error returned. A Call still open then is Canceled.
	Shutdown(ctx context.Context) error
	Stats() Stats
}

// Stats is a look at a server's counters.
type Stats struct {
	Connections  int64 // open now
	Muted        int64 // of these, not read because of a limit or the handler
	InFlight     int64 // requests whose answer is not completely sent
	FrameBytes   int64 // memory of request frames not yet released
	QueuedBytes  int64 // bytes in memory of completed answers not completely sent
	Accepted     int64 // since the start, as all below
	Rejected     int64 // over MaxConnections or MaxPerIP
	AcceptPauses int64 // times accepting paused because the system had no descriptor or memory left
	Requests     int64
	Panics       int64
	BytesIn      int64
	BytesOut     int64
}

// Options say what Listen makes. The zero value of a limit means the default written beside it.
type Options struct {
	Network   string         // "tcp" (default), "tcp4", "tcp6"
	Address   string         // "host:port"; a host with several addresses (localhost) is listened on at each of them
	Addresses []string       // more of the same
	Listeners []net.Listener // instead of addresses; "net" driver only
	Driver    string         // "auto" (default: epoll where possible), "epoll", "net"
	Loops     int            // event loops; half the CPUs, but two where there are two
	Handler   Handler
	TLS       *tls.Config // "net" driver only

	MaxFrame                int   // largest request in bytes; 100 MiB
	MaxFrameUnauthenticated int   // the same while Conn.Principal is nil; MaxFrame
	MaxConnections          int   // unlimited; negative: none are taken
	MaxPerIP                int   // unlimited; negative: none are taken
	MaxInFlight             int   // unanswered requests per connection; 64
	InFlightBytesLimit      int   // bytes of unanswered requests per connection; 16 MiB. One request may exceed it
	QueuedBytesLimit        int   // bytes in memory of unsent answers per connection; 1 MiB. One answer may exceed it
	FrameBytesLimit         int64 // memory of all request frames but 64 KiB per connection; max(512 MiB, 2 x MaxFrame). It limits MaxFrame

	// Together is another server whose connections and frame memory count with this one's: MaxConnections, MaxPerIP and
	// FrameBytesLimit, which is the other's, hold for the sum. nil: they are this server's alone.
	Together Server

	IdleTimeout      time.Duration // no byte in either direction, no call with the handler; 10 min. Negative: never
	FrameTimeout     time.Duration // in which 64 KiB of an unfinished frame must arrive, or its end; 30 s. Negative: never
	HalfCloseTimeout time.Duration // how long answers are awaited for a peer that stopped sending; 10 s
	HandshakeTimeout time.Duration // TLS; 10 s
	SendBufferBytes  int           // SO_SNDBUF; the system's
	RecvBufferBytes  int           // SO_RCVBUF; the system's

	Logger *slog.Logger // slog.Default()
	NowMs  func() int64 // milliseconds of a steady clock; those in which the process ran

	awake *awakeClock // NowMs is its, or nil
}

// Defaults of Options.
const (
	defaultMaxFrame           = 100 << 20
	defaultMaxInFlight        = 64
	defaultInFlightBytesLimit = 16 << 20
	defaultQueuedBytesLimit   = 1 << 20
	defaultFrameBytesLimit    = 512 << 20
	defaultIdleTimeout        = 10 * time.Minute
	defaultFrameTimeout       = 30 * time.Second
	defaultHalfCloseTimeout   = 10 * time.Second
	defaultHandshakeTimeout   = 10 * time.Second
)

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (o *Options) setDefaults() {
	if o.Network == "" {
		o.Network = "tcp"
	}
	if o.Driver == "" {
		o.Driver = "auto"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.NowMs == nil {
		start := time.Now()
		o.awake = newAwakeClock(func() int64 { return time.Since(start).Milliseconds() })
		o.NowMs = o.awake.ms
	}
	orDefault(&o.Loops, max(min(2, runtime.NumCPU()), runtime.NumCPU()/2))
	orDefault(&o.MaxFrame, defaultMaxFrame)
	orDefault(&o.MaxFrameUnauthenticated, o.MaxFrame)
	orDefault(&o.MaxInFlight, defaultMaxInFlight)
	orDefault(&o.InFlightBytesLimit, defaultInFlightBytesLimit)
	orDefault(&o.QueuedBytesLimit, defaultQueuedBytesLimit)
	orDefault(&o.FrameBytesLimit, max(defaultFrameBytesLimit, 2*int64(o.MaxFrame)))
	orDefault(&o.IdleTimeout, defaultIdleTimeout)
	orDefault(&o.FrameTimeout, defaultFrameTimeout)
	orDefault(&o.HalfCloseTimeout, defaultHalfCloseTimeout)
	orDefault(&o.HandshakeTimeout, defaultHandshakeTimeout)
}

func (o *Options) validate() error {
	switch {
	case o.Handler == nil:
		return errors.New("netio: Options.Handler is missing")
	case o.Network != "tcp" && o.Network != "tcp4" && o.Network != "tcp6":
		return fmt.Errorf("netio: unknown network %q (tcp, tcp4, tcp6)", o.Network)
	case o.Driver != "auto" && o.Driver != "epoll" && o.Driver != "net":
		return fmt.Errorf("netio: unknown driver %q (auto, epoll, net)", o.Driver)
	case o.Driver == "epoll" && (o.TLS != nil || len(o.Listeners) > 0):
		return errors.New("netio: TLS and given listeners need the net driver")
	case o.Driver == "epoll" && !haveEpoll:
		return errors.New("netio: the epoll driver exists on Linux only")
	case o.Address == "" && len(o.Addresses) == 0 && len(o.Listeners) == 0:
		return errors.New("netio: no address to listen on")
	case o.Loops < 1 || o.MaxFrame < 1 || o.MaxFrameUnauthenticated < 1 || o.MaxInFlight < 1 ||
		o.InFlightBytesLimit < 1 || o.QueuedBytesLimit < 1 || o.FrameBytesLimit < 1:
		return errors.New("netio: a limit is negative")
	}
	return nil
}

// Listen binds the addresses; Serve does the rest.
func Listen(o Options) (Server, error) {
	o.setDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Driver == "net" || !haveEpoll || o.TLS != nil || len(o.Listeners) > 0 {
		return listenNet(o)
	}
	return listenEpoll(o)
}
