// Package broker is the assembly: it joins the storage, the network and the agreement columns into a node that Kafka clients talk to, and answers
// their requests, one file per API key.
//
// # Life of a node
//
//	New     bind the listeners (nobody is accepted yet), open the engine (recovery), open the metadata log (replay), register this broker with a
//	        new incarnation (every partition it leads gets a new leader epoch), open the partitions' roles
//	        (and serve metrics.listener, if there is one)
//	Serve   accept connections until Close
//	Close   stop the metrics, wake everything that is parked, let open answers leave, then stop in the reverse order; the engine last, for it writes the clean marker
//
// # Where a request runs
//
//	frame -> OnRequest (event loop): header, decode, look-up in the table of handlers
//	   loop    answers that only read memory, Produce (queues its batches on the append workers) and Fetch (ranges that are in the page cache)
//	   worker  whatever may wait or write: creating topics, configs, deleting records, look-ups by time
//	   disk    Fetch parts whose index or bytes are not in memory
//
// Requests of one connection take effect in the order in which they arrived: while one of them runs on a worker, the later ones of that connection
// wait behind it (connection.waiting). Requests that are parked (Fetch for data, Produce for durability) don't hold up the later ones. netio sends the
// answers in request order in any case.
//
// # Bounds
//
// What a request names costs a hundred times its bytes until it is answered. So a request names no more things than itemsMax and twice the partitions there
// are (its connection is closed else), what waits parkedPartsMax partitions, what sessions remember sessionPartitionsMax; and a request of unusual size
// leaves nothing behind in the memory that is used again.
//
// # Owners and locks
//
// A request's state hangs on its netio.Call and is reused with it; see request. Locks, none of which is held while calling another layer: connection.mu
// (order of requests, parked fetches), fetchOp.mu (is it parked), fetchSessions.mu then fetchSession.mu (what a session has told), workers.mu,
// producerIDs.mu (held over the allocation of a block, by workers only).
package broker

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	mathrand "math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/loglimit"
	"github.com/leatmq/leat/internal/metrics"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/netio"
	"github.com/leatmq/leat/replication"
)

const (
	metadataTopic = "__cluster_metadata"

	minChangeTimeout = 5 * time.Second // a metadata change is one durable append: shorter request time-outs would only make it look failed
	maxChangeTimeout = 60 * time.Second
)

// Options make a broker. Only Config is mandatory.
type Options struct {
	Config *config.Set
	FS     vfs.FS       // default: the operating system's
	Logger *slog.Logger // default: discards
	Now    func() int64 // broker clock, ms since the Unix epoch; default: the system's
	Steady func() int64 // ms of a clock that nobody sets, for time limits; default: Now where that is given, else the process's monotonic clock
}

// Broker is a node.
type Broker struct {
	config *config.Set
	log    *slog.Logger
	lines  *loglimit.Logger // for what clients can cause
	now    func() int64
	steady func() int64
	nodeID int32

	current atomic.Pointer[config.Broker] // what the dynamic configs make of config

	engine  *engine.Engine
	meta    *metadata.Manager
	repl    *replication.Manager
	groups  *groups
	servers []listening
	metrics *metrics.Server // nil: none

	requests    *workers // what may wait or write
	disk        *workers // cold reads and fetches that were woken
	sessions    *fetchSessions
	parkedParts parkedParts
	producerIDs *producerIDs
	conns       connections

	ctx      context.Context // ends when the broker stops
	cancel   context.CancelFunc
	stopping atomic.Bool
	ticker   sync.WaitGroup
	hurry    chan struct{} // the ticker has something to time out again
}

// listening is one configured listener.
type listening struct {
	listener   config.Listener
	advertised *config.Listener // nil: clients are told the address they reached us by
	server     netio.Server
}

// New opens everything and returns a broker that is ready to serve.
func New(o Options) (b *Broker, err error) {
	o.setDefaults()
	cfg, err := o.Config.Broker()
	if err != nil {
		return nil, err
	}
	b = &Broker{config: o.Config, log: o.Logger, lines: loglimit.New(o.Logger, o.Steady), now: o.Now, steady: o.Steady, nodeID: cfg.NodeID, hurry: make(chan struct{}, 1)}
	b.current.Store(cfg)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.requests = newWorkers(orCPUs(cfg.RequestWorkers, 4))
	b.disk = newWorkers(orCPUs(cfg.DiskWorkers, 4))
	b.sessions = newFetchSessions(cfg.FetchSessionCacheSlots, randomInt32)
	b.conns.init()
	defer func() {
		if err != nil {
			err = errors.Join(err, b.abandon())
			b = nil
		}
	}()
	if err := b.listen(cfg); err != nil {
		return b, err
	}
	if err := b.listenMetrics(cfg.MetricsListener); err != nil {
		return b, err
	}
	if err := b.open(&o, cfg); err != nil {
		return b, err
	}
	b.startMetrics()
	return b, nil
}

func (o *Options) setDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Steady == nil {
		begin := time.Now()
		o.Steady = func() int64 { return time.Since(begin).Milliseconds() }
		if o.Now != nil {
			o.Steady = o.Now
		}
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
}

func orCPUs(n, perCPU int) int {
	if n > 0 {
		return n
	}
	return perCPU * runtime.GOMAXPROCS(0)
}

func randomInt32() int32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return int32(binary.BigEndian.Uint32(b[:]) &^ (1 << 31))
}

// listen binds the listeners: a port that is taken is found before any file is touched.
func (b *Broker) listen(cfg *config.Broker) error {
	for n, l := range cfg.Listeners {
		o := networkOptions(cfg)
		o.Address = net.JoinHostPort(l.Host, strconv.Itoa(l.Port))
		o.Handler, o.Logger = &entrance{b, n}, b.log
		if n > 0 {
			o.Together = b.servers[0].server // the limits are the broker's, not each listener's
		}
		s, err := netio.Listen(o)
		if err != nil {
			return &listenError{o.Address, "--listen HOST:PORT (listeners)", err}
		}
		e := listening{listener: l, server: s}
		for i := range cfg.AdvertisedListeners {
			if cfg.AdvertisedListeners[i].Name == l.Name {
				e.advertised = &cfg.AdvertisedListeners[i]
			}
		}
		b.servers = append(b.servers, e)
	}
	return nil
}

// networkOptions are the network's settings in netio's words, where 0 is a default: here 0 connections are none, 0 ms are over at once, and -1 bytes are
// no limit.
func networkOptions(cfg *config.Broker) netio.Options {
	o := netio.Options{
		Driver: cfg.NetworkDriver, Loops: cfg.NetworkLoops, MaxFrame: cfg.SocketRequestMaxBytes, FrameBytesLimit: cfg.QueuedMaxRequestBytes,
		MaxConnections: cfg.MaxConnections, MaxPerIP: cfg.MaxConnectionsPerIP, MaxInFlight: cfg.ConnectionMaxInFlight,
		IdleTimeout: time.Duration(min(cfg.ConnectionsMaxIdleMs, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond,
	}
	if o.FrameBytesLimit <= 0 {
		o.FrameBytesLimit = math.MaxInt64
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = -1
	}
	if o.MaxPerIP == 0 {
		o.MaxPerIP = -1
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = time.Millisecond
	}
	return o
}

// open opens the layers bottom up.
func (b *Broker) open(o *Options, cfg *config.Broker) (err error) {
	b.engine, err = engine.Open(engine.Options{
		FS: o.FS, Dirs: cfg.LogDirs, NodeID: cfg.NodeID, Defaults: cfg, Workers: cfg.AppendWorkers, Now: o.Now, Logger: o.Logger,
		SyncMethod: cfg.LogSyncMethod,
	})
	if err != nil {
		return err
	}
	b.meta, err = metadata.Open(metadata.Options{
		Engine: b.engine, FS: o.FS, NodeID: cfg.NodeID, Config: b.config, Now: o.Now, Logger: o.Logger,
		Rand: mathrand.New(mathrand.NewPCG(mathrand.Uint64(), mathrand.Uint64())), SnapshotBytes: cfg.MetadataSnapshotMaxNewBytes,
		SnapshotIntervalMs: cfg.MetadataSnapshotMaxIntervalMs,
	})
	if err != nil {
		return err
	}
	b.producerIDs = &producerIDs{allocate: b.meta.AllocateProducerIDs}
	b.meta.Subscribe(b.applyBrokerConfigs)
	b.repl, err = replication.New(replication.Options{
		Engine: b.engine, Metadata: b.meta, Config: b.config, NodeID: cfg.NodeID, Now: o.Steady, Logger: o.Logger, Parked: b.tickSoon,
	})
	if err != nil {
		return err
	}
	b.groups = newGroups(b)
	b.meta.Subscribe(b.groups.follow)
	// Registered last: from here on this process leads partitions, and their logs must have been looked at before.
	ctx, cancel := context.WithTimeout(b.ctx, maxChangeTimeout)
	defer cancel()
	if _, err := b.meta.RegisterBroker(ctx, metadata.Registration{ID: cfg.NodeID, Rack: cfg.Rack, Listeners: b.endpoints()}); err != nil {
		return fmt.Errorf("this broker cannot be registered: %w", err)
	}
	b.engine.StartBackground()
	b.groups.clock.begin()
	b.ticker.Add(1)
	go b.tick()
	return nil
}

// settings is the configuration in force; changes of dynamic keys show in the next call.
func (b *Broker) settings() *config.Broker { return b.current.Load() }

// applyBrokerConfigs makes dynamic broker configs effective. It runs for every change of metadata, in order.
func (b *Broker) applyBrokerConfigs(prev, next *metadata.Image, d *metadata.Delta) {
	if prev != nil && len(d.BrokerConfigs) == 0 {
		return
	}
	err := errors.Join(
		b.config.SetDynamic(config.DynamicDefault, next.BrokerConfig("")),
		b.config.SetDynamic(config.DynamicBroker, next.BrokerConfig(strconv.Itoa(int(b.nodeID)))),
	)
	cfg, brokerErr := b.config.Broker()
	if err = errors.Join(err, brokerErr); err != nil {
		b.log.Error("dynamic broker configs could not be applied; the previous ones stay in force", "error", err)
		return
	}
	b.current.Store(cfg)
	b.engine.SetProducerIDExpirationMs(cfg.ProducerIDExpirationMs)
	if b.groups != nil {
		b.groups.configure()
	}
}

// endpoints is what this broker registers.
func (b *Broker) endpoints() []metadata.Endpoint {
	var all []metadata.Endpoint
	for _, l := range b.servers {
		e := metadata.Endpoint{Name: l.listener.Name, Security: l.listener.Protocol, Port: int32(l.port())}
		if l.advertised != nil {
			e.Host, e.Port = l.advertised.Host, int32(l.advertised.Port)
		}
		all = append(all, e)
	}
	return all
}

func (l *listening) port() int {
	if a, ok := l.server.Addr().(*net.TCPAddr); ok {
		return a.Port
	}
	return l.listener.Port
}

// address is where a client on conn finds a broker: what was configured, else the address by which the client reached us (design decision 14).
func (b *Broker) address(n *metadata.BrokerInfo, conn netio.Conn) (host string, port int32) {
	i := 0
	if own, ok := conn.Data().(*connection); ok && n.ID == b.nodeID {
		i = own.listener
	}
	if i < len(n.Listeners) {
		host, port = n.Listeners[i].Host, n.Listeners[i].Port
	}
	if local := conn.LocalAddr(); host == "" && n.ID == b.nodeID && local.IsValid() {
		return local.Addr().Unmap().WithZone("").String(), int32(local.Port())
	}
	return host, port
}

// Addrs are the addresses the broker listens on, with real ports.
func (b *Broker) Addrs() []net.Addr {
	var all []net.Addr
	for _, l := range b.servers {
		all = append(all, l.server.Addrs()...)
	}
	return all
}

// MetricsAddr is the address of metrics.listener, with its real port; nil when there is none.
func (b *Broker) MetricsAddr() net.Addr {
	if b.metrics == nil {
		return nil
	}
	return b.metrics.Addr()
}

// ClusterID is the id of the cluster the broker belongs to.
func (b *Broker) ClusterID() string { return b.engine.ClusterID() }

// Serve accepts connections until Close, or until a listener fails.
func (b *Broker) Serve() error {
	failed := make(chan error, len(b.servers))
	for _, l := range b.servers {
		go func() { failed <- l.server.Serve() }()
	}
	var errs []error
	for range b.servers {
		if err := <-failed; err != nil && !errors.Is(err, netio.ErrServerClosed) { // closed before it began
			errs = append(errs, err)
			b.stopServers(b.ctx)
		}
	}
	return errors.Join(errs...)
}

// Close stops the broker: open answers leave, everything is flushed and checkpointed, and the next start is a clean one. When ctx ends first,
// what is left of the connections is dropped; the log is closed cleanly all the same.
func (b *Broker) Close(ctx context.Context) error {
	b.stopping.Store(true)
	b.stopMetrics()
	b.conns.each(func(c *connection) { c.wakeParked() })
	b.groups.runtime.Close() // answers the JoinGroups that wait; whoever asks now looks for another coordinator
	err := b.stopServers(ctx)
	if err != nil {
		b.log.Warn("connections were cut before their answers had left", "error", err)
	}
	return b.shut(ctx)
}

// stopServers stops all listeners at once.
func (b *Broker) stopServers(ctx context.Context) error {
	errs := make([]error, len(b.servers))
	var all sync.WaitGroup
	for i := range b.servers {
		all.Go(func() { errs[i] = b.servers[i].server.Shutdown(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// shut closes the layers top down; layers that were never opened are left out.
func (b *Broker) shut(ctx context.Context) error {
	whole := context.WithoutCancel(ctx) // as long as it takes: cut short, the next start has to look at every log
	b.cancel()
	b.requests.stop()
	b.disk.stop()
	b.ticker.Wait()
	if b.groups != nil {
		b.groups.runtime.Close()
	}
	var errs []error
	if b.repl != nil {
		b.repl.Close()
	}
	if b.meta != nil {
		errs = append(errs, b.meta.Close(whole))
	}
	if b.engine != nil {
		errs = append(errs, b.engine.Close(whole))
	}
	return errors.Join(errs...)
}

// abandon undoes a start that failed.
func (b *Broker) abandon() error {
	ctx, cancel := context.WithTimeout(context.Background(), maxChangeTimeout)
	defer cancel()
	b.stopMetrics()
	return errors.Join(b.stopServers(ctx), b.shut(ctx))
}
