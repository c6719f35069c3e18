package replication

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/metadata"
)

// Options configure a Manager. Engine and Metadata are mandatory.
type Options struct {
	Engine   *engine.Engine
	Metadata *metadata.Manager
	Config   *config.Set // the one the metadata manager has
	NodeID   int32
	Now      func() int64 // ms of a clock that nobody sets, for time limits; default the process's monotonic clock
	Logger   *slog.Logger // default: discards
	Parked   func()       // called when a produce parks and none was parked at the last Tick; must not block; may be nil
}

// Manager keeps the partitions of this node as the metadata says.
type Manager struct {
	o      Options
	byName table[string]
	byID   table[[16]byte]
	timers timers
	ticks  sync.Mutex // one Tick at a time
	closed atomic.Bool
}

// New reconciles the logs on disk with the metadata and follows its changes from there: every partition of this node has its
// log, its configuration and its role before a subscriber after this one, or who asked for the change, hears of it. Call it
// before the broker is registered (openLog relies on the leader epochs of before), and before the engine's background work is
// started, so that no log is ever looked at with a configuration that is not its own.
func New(o Options) (*Manager, error) {
	if o.Engine == nil || o.Metadata == nil {
		return nil, errors.New("replication: Options need Engine and Metadata")
	}
	if b := o.Metadata.Image().Broker(o.NodeID); b != nil && b.Incarnation == o.Metadata.Incarnation() {
		return nil, errors.New("replication: the broker was registered before its logs were looked at: a lost log could not be told from a new one")
	}
	if o.Now == nil {
		begin := time.Now()
		o.Now = func() int64 { return time.Since(begin).Milliseconds() }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Config == nil {
		o.Config = config.NewSet()
	}
	m := &Manager{o: o}
	m.timers.begun = o.Parked
	m.byName.init()
	m.byID.init()
	m.setStraysAside(o.Metadata.Image())
	first := true
	o.Metadata.Subscribe(func(prev, next *metadata.Image, d *metadata.Delta) {
		m.follow(next, d, first)
		first = false
	})
	return m, nil
}

// Partition returns a partition of this node by topic name; nil when it is not here. Lock-free.
func (m *Manager) Partition(topic string, p int32) *Partition { return m.byName.topic(topic).get(p) }

// PartitionByID returns a partition of this node by topic id; nil when it is not here. Lock-free.
func (m *Manager) PartitionByID(id [16]byte, p int32) *Partition { return m.byID.topic(id).get(p) }

// Tick times out parked produces, and tells whether any are left: then call it again after 100 ms or so, else when
// Options.Parked is called.
func (m *Manager) Tick(nowMs int64) (left bool) {
	m.ticks.Lock()
	defer m.ticks.Unlock()
	return m.timers.tick(nowMs)
}

// Close answers everything parked with ErrNotLeader, and refuses what comes. Call it when the listeners take no more requests
// and before the metadata manager and the engine are closed.
func (m *Manager) Close() {
	m.closed.Store(true)
	for s := range m.byName.shards {
		topics := m.byName.shards[s].Load()
		if topics == nil {
			continue
		}
		for _, tp := range *topics {
			for _, p := range tp.all() {
				if p != nil {
					p.leave(ErrNotLeader)
				}
			}
		}
	}
}

// follow brings this node in line with an image. The metadata manager's goroutine.
func (m *Manager) follow(next *metadata.Image, d *metadata.Delta, starting bool) {
	if m.closed.Load() {
		return
	}
	for _, t := range d.Removed {
		m.removeTopic(t)
	}
	for _, t := range d.Created {
		m.updateTopic(next, t, nil, starting)
	}
	if m.concernsAll(d) && !starting {
		for _, t := range next.Topics() {
			m.updateTopic(next, t, nil, false)
		}
		return
	}
	for n := range d.Changed {
		c := &d.Changed[n]
		numbers := c.Partitions
		if c.Config {
			numbers = nil
		}
		m.updateTopic(next, c.Next, numbers, false)
	}
}

// concernsAll says whether a change may concern every partition: our own registration, or defaults of topic configs.
func (m *Manager) concernsAll(d *metadata.Delta) bool {
	return slices.Contains(d.Brokers, m.o.NodeID) || len(d.BrokerConfigs) > 0
}

// removeTopic ends the topic's partitions and deletes their logs. A log that cannot be deleted now is one that the next start
// finds, knows as removed, and deletes.
func (m *Manager) removeTopic(t *metadata.Topic) {
	partitions := m.byID.topic(t.ID).all()
	m.byID.put(t.ID, nil)
	m.byName.put(t.Name, nil)
	for _, p := range partitions {
		if p == nil {
			continue
		}
		p.leave(ErrUnknownTopic)
		if p.log == nil {
			continue
		}
		p.log.SetObserver(nil)
		if err := m.o.Engine.Delete(p.log.TP()); err != nil {
			m.o.Logger.Error("a deleted partition could not be removed from disk", "partition", p.log.TP().String(), "error", err)
		}
	}
}

// updateTopic brings partitions of a topic in line: the numbered ones, or all.
func (m *Manager) updateTopic(image *metadata.Image, t *metadata.Topic, numbers []int32, starting bool) {
	u := topicUpdate{m: m, image: image, topic: t, starting: starting, known: m.byID.topic(t.ID)}
	u.config()
	u.partitions(numbers)
}

// topicUpdate is one run of updateTopic.
type topicUpdate struct {
	m        *Manager
	image    *metadata.Image
	topic    *metadata.Topic
	starting bool
	known    *topicPartitions // nil: new here
	cfg      *config.Topic
	alive    bool // this process is the registered broker
}

// config finds the topic's configuration. Only valid overrides get into the metadata, so invalid ones come from another
// version of leat; then nothing that could delete data may be guessed.
func (u *topicUpdate) config() {
	b := u.image.Broker(u.m.o.NodeID)
	u.alive = b != nil && !b.Fenced && b.Incarnation == u.m.o.Metadata.Incarnation()
	cfg, err := u.m.o.Config.Topic(u.topic.Config)
	if err == nil {
		u.cfg = cfg
		return
	}
	u.m.o.Logger.Error("the topic's configs are not valid here: its data is kept without limit until they are corrected", "topic", u.topic.Name, "error", err)
	cfg, err = u.m.o.Config.Topic(nil)
	if err != nil {
		panic(fmt.Sprintf("BUG: the defaults of topic configs are not valid: %v", err))
	}
	safe := *cfg
	safe.Delete, safe.Compact, safe.RetentionMs, safe.RetentionBytes = false, false, -1, -1
	u.cfg = &safe
}

func (u *topicUpdate) partitions(numbers []int32) {
	list := slices.Clone(u.known.all())
	for len(list) < len(u.topic.Partitions) {
		list = append(list, nil)
	}
	u.openMissing(list, numbers)
	here := false
	for n, p := range list {
		if p != nil && named(numbers, n) {
			u.update(p, &u.topic.Partitions[n])
		}
		here = here || p != nil
	}
	u.publish(list, here)
}

// named says whether the sorted numbers hold n; nil holds all.
func named(numbers []int32, n int) bool {
	_, ok := slices.BinarySearch(numbers, int32(n))
	return ok || numbers == nil
}

// logOpenersMax is how many logs of a topic are made at once: each is a few syncs of directories, which the file system can
// do together.
const logOpenersMax = 64

// openMissing makes the partitions that are new on this node.
func (u *topicUpdate) openMissing(list []*Partition, numbers []int32) {
	var openers sync.WaitGroup
	slots := make(chan struct{}, logOpenersMax)
	for n := range u.topic.Partitions {
		if list[n] != nil || !named(numbers, n) || !slices.Contains(u.topic.Partitions[n].Replicas, u.m.o.NodeID) {
			continue
		}
		slots <- struct{}{}
		openers.Go(func() {
			list[n] = u.open(int32(n), &u.topic.Partitions[n])
			<-slots
		})
	}
	openers.Wait()
}

// publish makes the partitions found. A topic is found by name and by id through the same list.
func (u *topicUpdate) publish(list []*Partition, here bool) {
	if !here {
		return
	}
	tp := u.known
	if tp == nil {
		tp = new(topicPartitions)
	}
	tp.list.Store(&list)
	if u.known == nil {
		u.m.byID.put(u.topic.ID, tp)
		u.m.byName.put(u.topic.Name, tp)
	}
}

// open makes a partition that is new here.
func (u *topicUpdate) open(n int32, meta *metadata.Partition) *Partition {
	log, err := u.openLog(n, meta)
	return newPartition(log, u.topic.ID, n, u.m.o.NodeID, u.m.o.Now, &u.m.timers, err)
}

// update brings the configuration and the role of a partition in line. One that has left this node follows.
func (u *topicUpdate) update(p *Partition, meta *metadata.Partition) {
	if p.log != nil {
		p.log.SetConfig(u.cfg)
	}
	p.assign(assignment{leads: u.alive && meta.Leader == u.m.o.NodeID, epoch: meta.LeaderEpoch, replicas: meta.Replicas, isr: meta.ISR,
		minISR: u.cfg.MinInsyncReplicas, caching: u.cfg.WriteCaching})
}

// openLog opens or creates the partition's log. A partition that has been led before and has no log has lost it: it stays out
// of service rather than beginning anew, empty, as if nothing had been acknowledged (B-A17). In leader epoch 0 the start
// before this one may have ended between the decision to create the topic and its directory.
func (u *topicUpdate) openLog(n int32, meta *metadata.Partition) (*engine.Log, error) {
	tp := engine.TopicPartition{Topic: u.topic.Name, Partition: n}
	if u.starting && meta.LeaderEpoch > 0 && u.m.o.Engine.Log(tp) == nil {
		err := fmt.Errorf("%w: the log of %s is in none of the log directories", engine.ErrStorage, tp)
		u.m.o.Logger.Error("a partition's log is missing: it stays out of service. Bring its directory back and restart, or delete the topic",
			"partition", tp.String())
		return nil, err
	}
	log, err := u.m.o.Engine.Create(tp, u.topic.ID, u.cfg)
	if err != nil {
		u.m.o.Logger.Error("a partition's log cannot be opened: it stays out of service until a restart", "partition", tp.String(), "error", err)
		return nil, storageError(err)
	}
	return log, nil
}
