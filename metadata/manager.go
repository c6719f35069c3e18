package metadata

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	crand "crypto/rand"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
)

// Options configure a Manager. Engine and NodeID are mandatory.
type Options struct {
	Engine   *engine.Engine   // holds the metadata log
	FS       vfs.FS           // the engine's; default vfs.OS. Snapshots lie beside the log
	NodeID   int32            // whose dynamic configs are applied to Config
	Config   *config.Set      // defaults and validation of configs; default a fresh Set
	Now      func() int64     // ms since the Unix epoch; default the wall clock
	Rand     *rand.Rand       // placement, topic ids, incarnation; used by the manager alone. Default seeded by the system
	Logger   *slog.Logger     // default: discards
	Features map[string]int16 // finalised when the cluster is created; nil = DefaultFeatures()

	SnapshotRecords int64 // take a snapshot after so many records; 0 = 20,000
	SnapshotBytes   int64 // or so many bytes of log; 0 = metadata.log.max.record.bytes.between.snapshots
	// SnapshotIntervalMs: or when the last is so old and there is anything new; 0 = never. Tick has the clock.
	SnapshotIntervalMs int64
}

// Limits of the manager.
const (
	queuedProposalsMax     = 10000     // waiting to be planned
	groupBytesTarget       = 1 << 20   // a batch of the log is closed when it reaches this size
	snapshotRecordsDefault = 20000     // replaying so many takes some 20 ms
	closeWaitMax           = time.Hour // for a Close without deadline: nothing waits for ever
)

func (o *Options) withDefaults() {
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Config == nil {
		o.Config = config.NewSet()
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Rand == nil {
		var seed [16]byte
		crand.Read(seed[:]) // never fails
		o.Rand = rand.New(rand.NewPCG(binary.NativeEndian.Uint64(seed[:8]), binary.NativeEndian.Uint64(seed[8:])))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Features == nil {
		o.Features = DefaultFeatures()
	}
	o.SnapshotRecords = cmp.Or(o.SnapshotRecords, snapshotRecordsDefault)
}

// Manager keeps the metadata of this node: the only one who appends to the metadata log, and who publishes images of it.
type Manager struct {
	o           Options
	controller  *controller
	log         replicatedLog
	incarnation [16]byte
	snapshots   *snapshotter
	removed     map[[16]byte]bool // ids of topics that the replayed part of the log removed; read only

	image atomic.Pointer[Image] // committed

	queue    queue    // proposals on their way to the proposer
	inflight inflight // groups on their way to the applier

	// subscribers.mu is held while an image is published and subscribers run; nothing else is.
	subscribers struct {
		mu  sync.Mutex
		fns []func(prev, next *Image, d *Delta)
	}

	goroutines sync.WaitGroup // proposer, applier
}

// Open opens or creates the metadata log, loads the newest snapshot, replays what follows and starts the manager. It refuses
// (*FormatError) a history that is damaged, incomplete or from a newer version: nothing is ever taken for "no such topic".
func Open(o Options) (*Manager, error) {
	o.withDefaults()
	broker, err := o.Config.Broker()
	if err != nil {
		return nil, err
	}
	o.SnapshotBytes = cmp.Or(o.SnapshotBytes, broker.MetadataSnapshotMaxNewBytes)
	others := 0
	for _, l := range o.Engine.Logs() {
		if l.TP().Topic != MetadataTopic {
			others++
		}
	}
	if dir, missing := missingLog(o.Engine); missing && others > 0 { // said before a log is made
		return nil, noMetadata(dir, others)
	}
	log, err := openEngineLog(o.Engine, broker)
	if err != nil {
		return nil, err
	}
	return open(o, log, log.dir(), others)
}

// missingLog tells whether every log directory works and none has the metadata log, and where it would be made.
func missingLog(e *engine.Engine) (dir string, missing bool) {
	tp := engine.TopicPartition{Topic: MetadataTopic}
	dirs := e.Dirs()
	for i := range dirs {
		if dirs[i].Err != nil {
			return "", false
		}
	}
	return filepath.Join(dirs[0].Path, tp.String()), e.Log(tp) == nil
}

// noMetadata refuses a node that has partitions and no metadata.
func noMetadata(dir string, partitions int) error {
	return &FormatError{Where: dir, Msg: fmt.Sprintf("there are %d partitions on disk, but no metadata that says what they are", partitions),
		Fix: "restore this directory from a backup, or move the partition directories away to begin an empty cluster"}
}

// open starts a manager on any log; snapshots lie in dir. otherLogs counts what the node holds besides.
func open(o Options, log replicatedLog, dir string, otherLogs int) (*Manager, error) {
	h, err := loadHistory(o.FS, dir, log, o.Logger)
	if err != nil {
		return nil, err
	}
	fresh := h.image.offset == 0
	if fresh && otherLogs > 0 {
		return nil, noMetadata(dir, otherLogs)
	}
	m := &Manager{o: o, controller: &controller{rules: o.Config, rand: o.Rand}, log: log, incarnation: randomUUID(o.Rand), removed: h.removed}
	m.snapshots = newSnapshotter(&m.o, log, dir, h)
	m.image.Store(h.image)
	m.queue.init(h.image)
	m.inflight.init(h.image.offset)
	m.applyBrokerConfigs(h.image, &Delta{BrokerConfigs: []string{"", m.brokerResource()}})
	m.start()
	if fresh {
		if err := m.proposeAndWait(context.Background(), func(*Image) []Record { return bootstrap(o.Features) }); err != nil {
			return nil, errors.Join(fmt.Errorf("metadata: cannot begin the metadata log: %w", err), m.Close(context.Background()))
		}
	}
	return m, nil
}

func (m *Manager) start() {
	m.goroutines.Go(m.runProposer)
	m.goroutines.Go(m.runApplier)
	m.log.follow(m.inflight.commit, m.fail)
}

// fail ends all changes: the log is broken, and nothing in flight will be committed.
func (m *Manager) fail(err error) {
	m.o.Logger.Error("the metadata log failed: nothing can be changed until the broker is restarted", "error", err)
	e := errorf(Unavailable, "The metadata log failed: %v", err)
	m.queue.stop(e)
	m.inflight.stop(e)
}

// Close stops the manager: what is queued is refused, what is in flight is answered or, when ctx ends, refused. Call it before
// the engine's Close, after the replication manager's.
func (m *Manager) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, closeWaitMax)
	defer cancel()
	closed := errorf(Unavailable, "The broker is stopping.")
	m.queue.stop(closed)
	done := make(chan struct{})
	go func() {
		m.goroutines.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = ctx.Err()
		m.inflight.stop(closed)
		<-done
	}
	m.log.close()
	m.snapshots.end()
	return err
}

// Image returns the newest committed image.
func (m *Manager) Image() *Image { return m.image.Load() }

// Tick takes a snapshot when it is time for one. nowMs is a clock that nobody sets. Call it every second or so.
func (m *Manager) Tick(nowMs int64) { m.snapshots.tick(m.Image(), nowMs) }

// Incarnation is this start's id, random. A partition is led by this process only when the broker is registered with it.
func (m *Manager) Incarnation() [16]byte { return m.incarnation }

// Removed says whether the metadata is known to have removed a topic of this id, before this start. No is no answer: older
// removals are forgotten.
func (m *Manager) Removed(id [16]byte) bool { return m.removed[id] }

// Subscribe calls fn at once, with an empty prev and everything in next as created, and then for every commit, in order and
// before the proposals of that commit are answered. fn runs on the manager's goroutine: it must not wait for a proposal, nor
// subscribe.
func (m *Manager) Subscribe(fn func(prev, next *Image, d *Delta)) {
	m.subscribers.mu.Lock()
	defer m.subscribers.mu.Unlock()
	image := m.image.Load()
	fn(Empty(), image, image.everything())
	m.subscribers.fns = append(m.subscribers.fns, fn)
}

// everything is the delta from the empty image.
func (i *Image) everything() *Delta {
	d := &Delta{Created: i.Topics(), BrokerConfigs: sortedNames(i.configs), GroupConfigs: i.ConfiguredGroups(), Features: len(i.features) > 0}
	d.Brokers = sortedKeys(i.brokers)
	return d
}

// publish makes the next image the image, and tells the subscribers.
func (m *Manager) publish(next *Image, d *Delta) {
	m.subscribers.mu.Lock()
	defer m.subscribers.mu.Unlock()
	m.applyBrokerConfigs(next, d)
	prev := m.image.Swap(next)
	for _, fn := range m.subscribers.fns {
		fn(prev, next, d)
	}
}

func (m *Manager) brokerResource() string { return strconv.Itoa(int(m.o.NodeID)) }

// applyBrokerConfigs puts the dynamic configs of this broker into force. Only what is valid gets into the log, so what is not
// valid here comes from another version; it is left out and said loudly.
func (m *Manager) applyBrokerConfigs(image *Image, d *Delta) {
	for _, name := range d.BrokerConfigs {
		var source config.Source
		switch name {
		case "":
			source = config.DynamicDefault
		case m.brokerResource():
			source = config.DynamicBroker
		default:
			continue
		}
		if err := m.o.Config.SetDynamic(source, image.BrokerConfig(name)); err != nil {
			m.o.Logger.Error("dynamic broker configs are not in force", "resource", name, "error", err)
		}
	}
}

// Propose queues a change. plan gets the newest image, proposals before it included, and returns the records that make the
// change, all or none of which are applied; none is fine. done gets nil when every record up to and including these is
// committed and every subscriber has seen it, else an *Error. Both run on goroutines of the manager and must not wait.
func (m *Manager) Propose(plan func(*Image) []Record, done func(err error)) {
	if err := m.queue.push(proposal{plan, done}); err != nil {
		done(err)
	}
}

// proposeAndWait is Propose that waits.
func (m *Manager) proposeAndWait(ctx context.Context, plan func(*Image) []Record) error {
	_, err := await(ctx, func(done func(struct{}, error)) {
		m.Propose(plan, func(err error) { done(struct{}{}, err) })
	})
	return err
}

// await runs an asynchronous call and waits for its answer or the end of ctx.
func await[T any](ctx context.Context, start func(done func(T, error))) (T, error) {
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	start(func(value T, err error) { answers <- answer{value, err} })
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
