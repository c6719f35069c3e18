package replication

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/logtest"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/record"
)

var (
	ctx   = context.Background()
	seeds atomic.Uint64 // every start draws other numbers
)

const testDir = "/d"

// node is engine, metadata and replication on a disk in memory.
type node struct {
	t      testing.TB
	e      *engine.Engine
	meta   *metadata.Manager
	m      *Manager
	now    atomic.Int64
	parked atomic.Int64 // calls of Options.Parked
	logs   logtest.Buffer
}

// boot starts a node up to, but without, the registration of its broker.
func boot(t testing.TB, fsys vfs.FS, dir ...string) (*node, error) {
	dir = append(dir, testDir)[:1]
	n := &node{t: t}
	n.now.Store(1000)
	logger := slog.New(slog.NewTextHandler(&n.logs, nil))
	set := config.NewSet()
	var err error
	n.e, err = engine.Open(engine.Options{FS: fsys, Dirs: dir, NodeID: 1, Workers: 2, Now: n.now.Load, Logger: logger})
	if err != nil {
		return nil, err
	}
	n.meta, err = metadata.Open(metadata.Options{Engine: n.e, FS: fsys, NodeID: 1, Config: set, Now: n.now.Load, Logger: logger,
		Rand: rand.New(rand.NewPCG(1, seeds.Add(1)))})
	if err != nil {
		return nil, errors.Join(err, n.e.Close(ctx))
	}
	n.m, err = New(Options{Engine: n.e, Metadata: n.meta, Config: set, NodeID: 1, Now: n.now.Load, Logger: logger, Parked: func() { n.parked.Add(1) }})
	if err != nil {
		return nil, errors.Join(err, n.meta.Close(ctx), n.e.Close(ctx))
	}
	return n, nil
}

func start(t testing.TB, fsys vfs.FS, dir ...string) *node {
	t.Helper()
	n, err := boot(t, fsys, dir...)
	if err != nil {
		t.Fatal(err)
	}
	n.register()
	return n
}

func (n *node) register() {
	n.t.Helper()
	if _, err := n.meta.RegisterBroker(ctx, metadata.Registration{ID: 1}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) stop() {
	n.t.Helper()
	n.m.Close()
	if err := errors.Join(n.meta.Close(ctx), n.e.Close(ctx)); err != nil {
		n.t.Error(err)
	}
}

// create makes a topic and returns its first partition.
func (n *node) create(name string, partitions int32, config ...string) *Partition {
	n.t.Helper()
	s := metadata.TopicSpec{Name: name, Partitions: partitions, ReplicationFactor: 1}
	for i := 0; i < len(config); i += 2 {
		s.Config = append(s.Config, metadata.ConfigEntry{Name: config[i], Value: config[i+1]})
	}
	r, err := n.meta.CreateTopics(ctx, metadata.CreateTopicsRequest{Topics: []metadata.TopicSpec{s}})
	if err != nil || r[0].Err != nil {
		n.t.Fatal(err, r)
	}
	return n.m.Partition(name, 0)
}

func (n *node) alter(topic, key, value string) {
	n.t.Helper()
	r, err := n.meta.AlterConfigs(ctx, metadata.AlterConfigsRequest{Resources: []metadata.ResourceConfig{{Type: metadata.TopicResource, Name: topic,
		Changes: []metadata.ConfigChange{{Name: key, Value: value}}}}})
	if err != nil || r[0].Err != nil {
		n.t.Fatal(err, r)
	}
}

func (n *node) delete(topic string) {
	n.t.Helper()
	r, err := n.meta.DeleteTopics(ctx, []metadata.TopicRef{{Name: topic}})
	if err != nil || r[0].Err != nil {
		n.t.Fatal(err, r)
	}
}

// call is a Produce that can be waited for.
type call struct {
	Produce
	appended atomic.Bool
	done     chan struct{}
}

func (c *call) Appended(r *Produce) {
	if c.appended.Swap(true) {
		panic("Appended runs twice")
	}
}

func (c *call) ProduceDone(r *Produce) {
	if !c.appended.Load() {
		panic("ProduceDone before Appended")
	}
	close(c.done)
}

func (c *call) wait() error {
	<-c.done
	return c.Err
}

// produce starts a produce of a batch of n records.
func produce(p *Partition, acks int16, n int) *call {
	c := &call{done: make(chan struct{})}
	c.Sink, c.Acks, c.TimeoutMs, c.Batch = c, acks, 500, batch(n)
	p.Produce(&c.Produce)
	return c
}

func batch(n int) []byte {
	b := record.NewBuilder(record.Options{})
	for range n {
		b.Append(1000, []byte("k"), []byte("value"), nil)
	}
	return b.Bytes()
}

// wakes counts wake-ups.
type wakes struct{ c chan *Waiter }

func newWakes() *wakes { return &wakes{make(chan *Waiter, 100)} }

func (w *wakes) Wake(x *Waiter) { w.c <- x }

// holdSyncs stops every sync of log files until the returned function is called.
func holdSyncs(f *vfs.Fault) (release func()) {
	gate := make(chan struct{})
	f.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpSync, vfs.OpSyncFS), Before: func(op vfs.Op) { <-gate }})
	return sync.OnceFunc(func() {
		f.Clear()
		close(gate)
	})
}
