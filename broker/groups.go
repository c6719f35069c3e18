package broker

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/leatmq/leat/coordinator"
	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// offsetsTopic holds the groups and their committed offsets. It is made when the first client looks for a coordinator.
const offsetsTopic = metadata.OffsetsTopic

// groups is the coordinator of groups on this broker: a machine for each partition of __consumer_offsets that it leads. It follows the metadata: what is
// led is run, at the epoch at which it is led.
type groups struct {
	b        *Broker
	clock    *awakeClock // ms since the Unix epoch; see newGroups
	runtime  *coordinator.Runtime[*group.Shard]
	config   atomic.Pointer[group.Config]
	consumer consumerConfigs
	maxBatch atomic.Int64 // max.message.bytes of the topic
}

// newGroups makes the coordinator. Its clock shows the time of day as it was at the start, and runs with the steady clock from there, while this process
// runs: neither a clock that somebody sets nor a pause of the broker may end the sessions of all members, or keep them for ever.
func newGroups(b *Broker) *groups {
	g := &groups{b: b, clock: newAwakeClock(b.steady, b.now())}
	g.configure()
	g.maxBatch.Store(int64(b.settings().TopicDefaults.MaxMessageBytes))
	g.runtime = coordinator.New(coordinator.Options[*group.Shard]{
		Topic: offsetsTopic, Now: g.clock.ms, Logger: b.log, Notes: b.lines, Soon: b.tickSoon,
		MaxBatchBytes: func(int32) int { return int(g.maxBatch.Load()) },
		New: func(int32) *group.Shard {
			return group.New(group.Options{Config: g.config.Load, Topics: func() group.ConsumerTopics { return topicsOf{b.meta.Image()} }, NewID: newUUID,
				ConsumerConfig: g.consumer.of})
		},
	})
	return g
}

// configure takes over what the broker's configuration says about groups.
func (g *groups) configure() {
	c := g.b.settings()
	g.config.Store(&group.Config{
		InitialRebalanceDelayMs: c.GroupInitialRebalanceDelayMs, MinSessionTimeoutMs: c.GroupMinSessionTimeoutMs, MaxSessionTimeoutMs: c.GroupMaxSessionTimeoutMs,
		MaxSize: c.GroupMaxSize, OffsetMetadataMaxBytes: c.OffsetMetadataMaxBytes,
		OffsetsRetentionMs: c.OffsetsRetentionMs, OffsetsCheckIntervalMs: c.OffsetsRetentionCheckIntervalMs,
	})
	g.consumer.configure(c, g.b.config, g.b.meta.Image())
}

// tick does what is due, and returns after how long to call it again, at the latest.
func (g *groups) tick() time.Duration {
	g.clock.tick()
	now := g.clock.ms()
	wait := g.runtime.Tick(now) - now // may be as far as the end of time
	return time.Duration(min(wait, tickIntervalIdle.Milliseconds())) * time.Millisecond
}

// topicsOf shows an image to the groups.
type topicsOf struct{ image *metadata.Image }

func (t topicsOf) TopicID(name string) ([16]byte, bool) {
	if topic := t.image.Topic(name); topic != nil {
		return topic.ID, true
	}
	return [16]byte{}, false
}

func (t topicsOf) TopicName(id [16]byte) (string, bool) {
	if topic := t.image.TopicByID(id); topic != nil {
		return topic.Name, true
	}
	return "", false
}

func (t topicsOf) Topic(name string) ([16]byte, int32, bool) {
	if topic := t.image.Topic(name); topic != nil {
		return topic.ID, int32(len(topic.Partitions)), true
	}
	return [16]byte{}, 0, false
}

func (t topicsOf) Each(visit func(name string)) {
	for _, topic := range t.image.Topics() {
		visit(topic.Name)
	}
}

// Version is that of the whole metadata: it changes more often than the topics do.
func (t topicsOf) Version() int64 { return t.image.Offset() }

// newUUID is a random uuid, as the member ids of Kafka have it.
func newUUID() string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// follow is told of every change of the metadata, behind the partitions.
func (g *groups) follow(prev, next *metadata.Image, d *metadata.Delta) {
	if topic := next.Topic(offsetsTopic); topic != prev.Topic(offsetsTopic) || len(d.Brokers) > 0 {
		g.reconcile(next, topic)
	}
	g.consumer.follow(g.b.config, next, d.GroupConfigs)
	if len(d.Removed) > 0 {
		g.topicsDeleted(d.Removed)
	}
}

// reconcile runs what this broker leads.
func (g *groups) reconcile(image *metadata.Image, topic *metadata.Topic) {
	var led []int32
	if topic != nil {
		g.limitBatches(topic)
		b := image.Broker(g.b.nodeID)
		alive := b != nil && !b.Fenced && b.Incarnation == g.b.meta.Incarnation()
		for n := range topic.Partitions {
			if p := int32(n); alive && topic.Partitions[n].Leader == g.b.nodeID {
				led = append(led, p)
				g.lead(topic.ID, p, topic.Partitions[n].LeaderEpoch)
			}
		}
	}
	for _, p := range g.runtime.Partitions() {
		if !slices.Contains(led, p) {
			g.runtime.Stop(p)
		}
	}
}

func (g *groups) lead(id [16]byte, p, epoch int32) {
	partition := g.b.repl.PartitionByID(id, p)
	if g.runtime.Epoch(p) == epoch || partition == nil || partition.Log() == nil {
		return // it runs, or cannot: its disk is gone
	}
	g.runtime.Start(p, epoch, func() coordinator.Log { return coordinator.NewLog(partition) })
}

func (g *groups) limitBatches(topic *metadata.Topic) {
	c, err := g.b.config.Topic(topic.Config)
	if err != nil {
		g.b.log.Error("the configs of "+offsetsTopic+" are not valid", "error", err)
		return
	}
	g.maxBatch.Store(int64(min(c.MaxMessageBytes, c.SegmentBytes)))
}

// topicsDeleted makes the groups forget what was committed for topics that are gone.
func (g *groups) topicsDeleted(topics []*metadata.Topic) {
	names := make([]string, 0, len(topics))
	for _, t := range topics {
		names = append(names, t.Name)
	}
	for _, p := range g.runtime.Partitions() {
		g.runtime.Do(p, coordinator.Input[*group.Shard]{
			Run:    func(s *group.Shard, _ int64, out *machine.Out) { s.TopicsDeleted(names, out) },
			Refuse: func(error) {}, // when it is loaded it finds out itself
		})
	}
}

// partitionOf is the partition of __consumer_offsets that holds a group; -1 while the topic is not there.
func (g *groups) partitionOf(id string) int32 {
	topic := g.b.meta.Image().Topic(offsetsTopic)
	if topic == nil {
		return -1
	}
	return partitionFor(id, int32(len(topic.Partitions)))
}

// partitionFor is Kafka's rule: Java's hash of the string, made positive in a way of its own.
func partitionFor(id string, partitions int32) int32 {
	hash := int32(0)
	for _, r := range id {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			hash = 31*hash + high
			r = low
		}
		hash = 31*hash + r
	}
	switch {
	case hash == -1<<31:
		hash = 0
	case hash < 0:
		hash = -hash
	}
	return hash % partitions
}

// do gives an input to the coordinator of a group. Exactly one of the two functions is called.
func (g *groups) do(id string, run func(s *group.Shard, nowMs int64, out *machine.Out), refuse func(protocol.Code)) {
	g.quick(id, nil, run, refuse)
}

// quick is do of what may be done at once, by the first function, if that returns true: see coordinator.Input.
func (g *groups) quick(id string, quick func(*group.Shard, int64, *machine.Out) bool, run func(*group.Shard, int64, *machine.Out), refuse func(protocol.Code)) {
	p := g.partitionOf(id)
	if p < 0 {
		refuse(protocol.NotCoordinator)
		return
	}
	g.runtime.Do(p, coordinator.Input[*group.Shard]{Quick: quick, Run: run, Refuse: func(err error) { refuse(codeOf(err)) }})
}

// createOffsetsTopic makes __consumer_offsets. The answer of whoever looked for a coordinator comes when it is there.
func (g *groups) createOffsetsTopic() {
	cfg := g.b.settings()
	replicas := min(int(cfg.OffsetsTopicReplicationFactor), g.b.aliveBrokers())
	ctx, cancel := context.WithTimeout(g.b.ctx, maxChangeTimeout)
	defer cancel()
	results, err := g.b.createTopics(ctx, metadata.CreateTopicsRequest{Topics: []metadata.TopicSpec{{
		Name: offsetsTopic, Partitions: cfg.OffsetsTopicPartitions, ReplicationFactor: int16(replicas),
		Config: []metadata.ConfigEntry{
			{Name: "cleanup.policy", Value: "compact"},
			{Name: "compression.type", Value: "producer"},
			{Name: "write.caching", Value: "false"}, // whatever the default for topics is: an answered commit is on disk
			{Name: "segment.bytes", Value: fmt.Sprint(cfg.OffsetsTopicSegmentBytes)},
		},
	}}})
	if err == nil && len(results) == 1 && results[0].Err != nil && results[0].Err.Kind != metadata.TopicExists {
		err = results[0].Err
	}
	if err != nil {
		g.b.lines.Log(slog.LevelWarn, "the topic of the group coordinator could not be made", "topic", offsetsTopic, "error", err)
	}
}

func (b *Broker) aliveBrokers() (n int) {
	for _, info := range b.meta.Image().Brokers() {
		if !info.Fenced {
			n++
		}
	}
	return max(n, 1)
}

// Tickets.

// ticket is an answer that is handled by a function.
type ticket func(body any)

// Answer implements machine.Ticket.
func (t ticket) Answer(body any) { t(body) }

// gather waits for several answers; done runs with the last.
type gather struct {
	left atomic.Int32
	done func()
}

func newGather(n int, done func()) *gather {
	g := &gather{done: done}
	g.left.Store(int32(n) + 1)
	return g
}

// more makes it wait for one more answer; before the last is there.
func (g *gather) more() { g.left.Add(1) }

// one is called for each answer, and once by whoever has asked for all.
func (g *gather) one() {
	if g.left.Add(-1) == 0 {
		g.done()
	}
}
