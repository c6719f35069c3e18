package fuzz

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/metadata"
)

// kind is a sort of topic.
type kind struct {
	name     string
	config   map[string]string
	segment  int // segment.bytes, below what a topic's config may say; 0: the config's
	caching  bool
	rewrites bool // stored batches differ from those sent
}

var kinds = []kind{
	{name: "size", segment: 2000},
	{name: "index", config: map[string]string{"segment.index.bytes": "36", "index.interval.bytes": "250"}},
	{name: "caching", config: map[string]string{"write.caching": "true", "flush.ms": "2000"}, caching: true},
	{name: "appendtime", config: map[string]string{"message.timestamp.type": "LogAppendTime"}, segment: 3000, rewrites: true},
	{name: "zstd", config: map[string]string{"compression.type": "zstd"}, segment: 1500, rewrites: true},
	{name: "preallocated", config: map[string]string{"preallocate": "true"}, segment: 20000},
	{name: "gzip", config: map[string]string{"compression.type": "gzip", "segment.ms": "4000"}, rewrites: true},
}

// workload is one run of clients and operators against a node on a disk in memory; everything it does is decided by its seed.
type workload struct {
	rng   *rand.Rand
	seed  uint64
	w     *world
	n     *node
	disk  *vfs.Mem
	gate  *gate
	clock *clock
	o     nodeOptions
	boots uint64
	names []string
	hook  func(vfs.Op)         // of the disk
	alive *atomic.Bool         // the node on it: what a dead one does nobody sees
	shown atomic.Pointer[node] // n, while readers can reach it
	calls []*call              // not waited for
	trace func(format string, args ...any)
	stats map[string]int
}

const workloadSteps = 45

func newWorkload(seed uint64) *workload {
	rng := rand.New(rand.NewPCG(seed, 0))
	wl := &workload{rng: rng, seed: seed, w: &world{}, disk: vfs.NewMem(seed), gate: newGate(seed), clock: newClock(startMs), names: []string{"a", "b", "c"}, stats: map[string]int{}}
	wl.disk.SetNow(wl.clock.time)
	wl.trace = func(string, ...any) {}
	wl.o = nodeOptions{workers: 1 + rng.IntN(2), snapshotRecords: 8 + rng.Int64N(12), checkpointStep: 1 + rng.Int64N(3000),
		syncMethod: []string{"auto", "fdatasync"}[rng.IntN(2)]}
	return wl
}

// run runs the workload.
func (wl *workload) run() error {
	if err := wl.boot(); err != nil {
		return err
	}
	for range 2 {
		if err := wl.create(); err != nil {
			return err
		}
	}
	for range workloadSteps {
		if err := wl.step(); err != nil {
			return err
		}
	}
	return errors.Join(wl.settle(), wl.n.stop())
}

func (wl *workload) boot() (err error) {
	wl.boots++
	o := wl.o
	o.seed = wl.seed<<16 + wl.boots
	wl.alive = new(atomic.Bool)
	wl.disk.OnOp = whileAlive(wl.alive, wl.hook)
	if wl.n, err = boot(wl.gate.through(wl.disk), wl.clock, o); err != nil {
		return fmt.Errorf("start refused: %w", err)
	}
	wl.shown.Store(wl.n)
	return nil
}

// whileAlive returns a hook that does nothing any more once alive is false.
func whileAlive(alive *atomic.Bool, hook func(vfs.Op)) func(vfs.Op) {
	alive.Store(true)
	return func(op vfs.Op) {
		if alive.Load() {
			hook(op)
		}
	}
}

func (wl *workload) step() error {
	steps := []struct {
		weight int
		name   string
		do     func() error
	}{
		{40, "produce", wl.produce},
		{6, "wait", wl.settle},
		{5, "create", wl.create},
		{3, "delete", wl.delete},
		{3, "grow", wl.grow},
		{4, "configure topic", wl.configureTopic},
		{2, "configure broker", wl.configureBroker},
		{6, "delete records", wl.deleteRecords},
		{12, "tick", wl.tick},
		{3, "producer ids", wl.producerIDs},
		{3, "restart", wl.restart},
		{5, "crash", wl.crash},
		{4, "idle", wl.idle},
	}
	sum := 0
	for _, s := range steps {
		sum += s.weight
	}
	at := wl.rng.IntN(sum)
	for _, s := range steps {
		if at -= s.weight; at < 0 {
			wl.trace("step %s", s.name)
			wl.stats[s.name]++
			if err := s.do(); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			wl.shrink()
			return wl.w.err()
		}
	}
	return nil
}

// shrink gives topics segments smaller than a config may ask for.
func (wl *workload) shrink() { shrink(wl.n, wl.w) }

func shrink(n *node, w *world) {
	for _, t := range w.alive() {
		for _, p := range t.parts {
			q := n.repl.PartitionByID(t.id, p.number)
			if t.kind.segment == 0 || q == nil || q.Log() == nil || q.Log().Config().SegmentBytes == t.kind.segment {
				continue
			}
			cfg := *q.Log().Config()
			cfg.SegmentBytes = t.kind.segment
			q.Log().SetConfig(&cfg)
		}
	}
}

// pick returns a partition of a topic that is there.
func (wl *workload) pick() (*topic, *part) {
	alive := wl.w.alive()
	if len(alive) == 0 {
		return nil, nil
	}
	t := alive[wl.rng.IntN(len(alive))]
	return t, t.parts[wl.rng.IntN(len(t.parts))]
}

// produce sends some batches to a partition, and mostly waits for the answers.
func (wl *workload) produce() error {
	t, p := wl.pick()
	if t == nil {
		return nil
	}
	idempotent := wl.rng.IntN(2) == 0 && !t.kind.caching
	n := 1 + wl.rng.IntN(4)
	if idempotent && wl.w.unanswered(p)+n > resendMax {
		if err := wl.settle(); err != nil {
			return err
		}
	}
	batches, acks := make([]*batch, n), make([]int16, n)
	for i := range n { // all before the first is sent: it may take long, and then nothing else must happen meanwhile
		batches[i], acks[i] = wl.w.makeBatch(t, p, wl.rng, wl.clock.now(), idempotent), -1
		if !idempotent && wl.rng.IntN(4) == 0 {
			acks[i] = 1
		}
	}
	runtime.Gosched()
	for i, b := range batches {
		wl.calls = append(wl.calls, wl.w.send(wl.n, t, p, b, acks[i]))
	}
	wl.clock.ms.Add(wl.rng.Int64N(50))
	if wl.rng.IntN(4) == 0 {
		return nil
	}
	return wl.settle()
}

// settle waits for all answers.
func (wl *workload) settle() error {
	for _, c := range wl.calls {
		<-c.done
	}
	wl.calls = nil
	return wl.w.err()
}

// idle lets everything go on that can.
func (wl *workload) idle() error {
	wl.gate.settle()
	return nil
}

func (wl *workload) create() error {
	w := wl.w
	used := map[string]bool{}
	for _, t := range w.alive() {
		used[t.name] = true
	}
	var free []string
	for _, n := range wl.names {
		if !used[n] {
			free = append(free, n)
		}
	}
	if len(free) == 0 {
		return nil
	}
	k := kinds[wl.rng.IntN(len(kinds))]
	return createTopic(wl.n, w, free[wl.rng.IntN(len(free))], k, 1+wl.rng.Int32N(2))
}

// topicErr is why a request about one topic failed.
func topicErr(r []metadata.TopicResult, err error) error {
	if err == nil && r[0].Err != nil {
		return r[0].Err
	}
	return err
}

func createTopic(n *node, w *world, name string, k kind, partitions int32) error {
	t := &topic{name: name, kind: k, tried: partitions, config: configs{acked: maps.Clone(k.config)}}
	spec := metadata.TopicSpec{Name: name, Partitions: partitions, ReplicationFactor: 1}
	for _, key := range sortedKeys(k.config) {
		spec.Config = append(spec.Config, metadata.ConfigEntry{Name: key, Value: k.config[key]})
	}
	w.mu.Lock()
	w.topics = append(w.topics, t)
	w.mu.Unlock()
	r, err := n.meta.CreateTopics(ctx, metadata.CreateTopicsRequest{Topics: []metadata.TopicSpec{spec}})
	if err := topicErr(r, err); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.id, t.state = r[0].ID, live
	for range partitions {
		t.addPart()
	}
	return nil
}

func (wl *workload) delete() error {
	t, _ := wl.pick()
	if t == nil {
		return nil
	}
	if err := wl.settle(); err != nil {
		return err
	}
	return deleteTopic(wl.n, wl.w, t)
}

func deleteTopic(n *node, w *world, t *topic) error {
	w.mu.Lock()
	t.state = deleting
	w.mu.Unlock()
	r, err := n.meta.DeleteTopics(ctx, []metadata.TopicRef{{Name: t.name}})
	if err := topicErr(r, err); err != nil {
		return err
	}
	w.mu.Lock()
	t.state = deleted
	w.mu.Unlock()
	return nil
}

func (wl *workload) grow() error {
	t, _ := wl.pick()
	if t == nil || len(t.parts) > 3 {
		return nil
	}
	w := wl.w
	w.mu.Lock()
	t.tried = int32(len(t.parts)) + 1
	w.mu.Unlock()
	r, err := wl.n.meta.CreatePartitions(ctx, metadata.CreatePartitionsRequest{Topics: []metadata.PartitionsSpec{{Topic: t.name, Count: t.tried}}})
	if err := topicErr(r, err); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.addPart()
	return nil
}

func (wl *workload) configureTopic() error {
	t, _ := wl.pick()
	if t == nil {
		return nil
	}
	choice := [][2]string{{"retention.bytes", "4000"}, {"retention.bytes", "-1"}, {"retention.ms", "5000"}, {"retention.ms", "-1"}, {"max.message.bytes", "70000"}}[wl.rng.IntN(5)]
	return wl.alter(&t.config, metadata.TopicResource, t.name, choice[0], choice[1])
}

func (wl *workload) configureBroker() error {
	value := fmt.Sprint(1_000_000 + wl.rng.IntN(1000))
	return wl.alter(&wl.w.config, metadata.BrokerResource, fmt.Sprint(nodeID), "message.max.bytes", value)
}

func (wl *workload) alter(c *configs, resource metadata.ResourceType, name, key, value string) error {
	w := wl.w
	w.mu.Lock()
	c.set(key, value)
	w.mu.Unlock()
	r, err := wl.n.meta.AlterConfigs(ctx, metadata.AlterConfigsRequest{Resources: []metadata.ResourceConfig{{Type: resource, Name: name,
		Changes: []metadata.ConfigChange{{Name: key, Value: value}}}}})
	if err == nil && r[0].Err != nil {
		err = r[0].Err
	}
	if err != nil {
		return err
	}
	w.mu.Lock()
	c.answered()
	w.mu.Unlock()
	return nil
}

func (wl *workload) deleteRecords() error {
	t, p := wl.pick()
	if t == nil {
		return nil
	}
	q := wl.n.repl.PartitionByID(t.id, p.number)
	start, hw := q.LogStart(), q.HighWatermark()
	if hw == start {
		return nil
	}
	return deleteRecords(wl.n, wl.w, t, p, start+1+wl.rng.Int64N(hw-start))
}

func deleteRecords(n *node, w *world, t *topic, p *part, upTo int64) error {
	w.mu.Lock()
	p.ceil = max(p.ceil, upTo)
	w.mu.Unlock()
	low, err := n.repl.PartitionByID(t.id, p.number).Log().DeleteRecords(upTo)
	if err != nil {
		return err
	}
	if low != upTo {
		return fmt.Errorf("asked for %d, answered %d", upTo, low)
	}
	w.mu.Lock()
	p.floor = max(p.floor, low)
	w.mu.Unlock()
	return nil
}

// tick lets time pass: checkpoints, retention, lazy flushes, the end of what was deleted.
func (wl *workload) tick() error {
	wl.clock.ms.Add(1 + wl.rng.Int64N(4000))
	tick(wl.n, wl.w)
	return nil
}

func tick(n *node, w *world) {
	topics := w.alive()
	ceil := map[*part]int64{}
	for _, t := range topics {
		for _, p := range t.parts {
			ceil[p] = p.ceil
			w.mu.Lock()
			if t.config.acked["retention.ms"] == "5000" || t.config.acked["retention.bytes"] == "4000" {
				p.ceil = n.repl.PartitionByID(t.id, p.number).LogEnd()
			}
			w.mu.Unlock()
		}
	}
	n.tick()
	for _, t := range topics {
		for _, p := range t.parts {
			start := n.repl.PartitionByID(t.id, p.number).LogStart()
			w.mu.Lock()
			if !w.hadFaults { // else it may not have been possible to make it durable
				p.floor = max(p.floor, start)
			}
			p.ceil = max(ceil[p], start)
			w.mu.Unlock()
		}
	}
}

func (wl *workload) producerIDs() error {
	block, err := wl.n.meta.AllocateProducerIDs(ctx)
	if err != nil {
		return err
	}
	w := wl.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if block.First < w.pidEnd {
		return fmt.Errorf("ids from %d given out twice", block.First)
	}
	w.pidEnd = block.First + int64(block.Count)
	return nil
}

// restart stops the node as operators do, with or without requests on their way.
func (wl *workload) restart() error {
	for _, c := range wl.calls {
		c.w.mu.Lock()
		c.may = true
		c.w.mu.Unlock()
	}
	if wl.rng.IntN(2) == 0 {
		if err := wl.settle(); err != nil {
			return err
		}
	}
	err := wl.n.stop()
	wl.shown.Store(nil)
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	if err := wl.settle(); err != nil {
		return err
	}
	return wl.start(stopped)
}

// crash cuts the power, or kills the node.
func (wl *workload) crash() error {
	mode := vfs.CrashModes[wl.rng.IntN(len(vfs.CrashModes))]
	wl.w.observe(wl.n)
	wl.shown.Store(nil)
	after := wl.disk.CrashAt(mode, wl.rng.Uint64())
	wl.w.mu.Lock()
	wl.w.gen++
	if mode != vfs.KeepAll {
		wl.w.forget()
	}
	wl.w.mu.Unlock()
	wl.alive.Store(false)
	_ = wl.n.stop()
	wl.calls = nil
	wl.disk = after
	how := powerCut
	if mode == vfs.KeepAll {
		how = killed
	}
	return wl.start(how)
}

func (wl *workload) start(how stopKind) error {
	if err := wl.boot(); err != nil {
		return err
	}
	if err := wl.w.check(wl.n, how); err != nil {
		return fmt.Errorf("after a restart: %w", err)
	}
	wl.shrink()
	return wl.w.resend(wl.n)
}
