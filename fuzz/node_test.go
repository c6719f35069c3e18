package fuzz

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/replication"
)

var ctx = context.Background()

const (
	dataDir = "/data"
	nodeID  = 1
	startMs = 1_700_000_000_000
)

// clock is the broker's clock; it moves when the workload says so.
type clock struct{ ms atomic.Int64 }

func newClock(ms int64) *clock {
	c := &clock{}
	c.ms.Store(ms)
	return c
}

func (c *clock) now() int64      { return c.ms.Load() }
func (c *clock) time() time.Time { return time.UnixMilli(c.ms.Load()) }

// journal keeps what a node says and remembers complaints: in these suites the disk keeps what it promises, so that nothing may be
// logged as an error.
type journal struct {
	slog.Handler
	mu struct {
		sync.Mutex
		lines      []string
		complaints []string
	}
}

func newJournal() *journal { return &journal{} }

func (j *journal) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler               { return j }
func (j *journal) WithGroup(string) slog.Handler                    { return j }

func (j *journal) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool { fmt.Fprintf(&b, " %s=%v", a.Key, a.Value); return true })
	j.mu.Lock()
	defer j.mu.Unlock()
	j.mu.lines = append(j.mu.lines, b.String())
	if r.Level >= slog.LevelError {
		j.mu.complaints = append(j.mu.complaints, b.String())
	}
	return nil
}

func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.mu.lines, "\n")
}

func (j *journal) complaint() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.mu.complaints) == 0 {
		return ""
	}
	return j.mu.complaints[0]
}

// seededReader gives bytes for ids.
type seededReader struct{ *rand.Rand }

func (s seededReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(s.Uint32())
	}
	return len(p), nil
}

// node is a broker without its sockets: engine, metadata and replication, put together as package broker does.
type node struct {
	clock   *clock
	e       *engine.Engine
	meta    *metadata.Manager
	repl    *replication.Manager
	journal *journal
}

// nodeOptions are what tests vary.
type nodeOptions struct {
	seed            uint64 // of ids; each start of one disk has another one
	workers         int
	set             map[string]string // broker configs
	syncMethod      string
	snapshotRecords int64
	checkpointStep  int64
}

// smallConfig makes everything happen early: indexes of a few entries (a full one rolls the segment), checks at every tick.
var smallConfig = map[string]string{
	"num.recovery.threads.per.data.dir":               "1",
	"log.index.size.max.bytes":                        "96",
	"log.index.interval.bytes":                        "300",
	"log.retention.check.interval.ms":                 "1000",
	"log.flush.offset.checkpoint.interval.ms":         "2000",
	"log.flush.start.offset.checkpoint.interval.ms":   "2000",
	"replica.high.watermark.checkpoint.interval.ms":   "1500",
	"log.segment.delete.delay.ms":                     "3000",
	"producer.id.expiration.ms":                       "2000000000",
	"metadata.log.max.record.bytes.between.snapshots": "1000000",
}

func newSet(overrides ...map[string]string) (*config.Set, error) {
	set := config.NewSet()
	for _, o := range overrides {
		for _, k := range sortedKeys(o) {
			if err := set.Override(k, o[k], config.File); err != nil {
				return nil, err
			}
		}
	}
	return set, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// boot starts a node on a disk. An error is a refused start.
func boot(fsys vfs.FS, c *clock, o nodeOptions) (*node, error) {
	n := &node{clock: c, journal: newJournal()}
	logger := slog.New(n.journal)
	set, err := newSet(smallConfig, o.set)
	if err != nil {
		return nil, err
	}
	cfg, err := set.Broker()
	if err != nil {
		return nil, err
	}
	n.e, err = engine.Open(engine.Options{FS: fsys, Dirs: []string{dataDir}, NodeID: nodeID, Defaults: cfg, Workers: max(1, o.workers),
		Now: c.now, Logger: logger, SyncMethod: o.syncMethod, CheckpointStepBytes: o.checkpointStep,
		Rand: seededReader{rand.New(rand.NewPCG(o.seed, 1))}})
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	n.meta, err = metadata.Open(metadata.Options{Engine: n.e, FS: fsys, NodeID: nodeID, Config: set, Now: c.now, Logger: logger,
		Rand: rand.New(rand.NewPCG(o.seed, 2)), SnapshotRecords: o.snapshotRecords})
	if err != nil {
		return nil, errors.Join(err, n.e.Close(ctx))
	}
	n.repl, err = replication.New(replication.Options{Engine: n.e, Metadata: n.meta, Config: set, NodeID: nodeID, Now: c.now, Logger: logger})
	if err == nil {
		_, err = n.meta.RegisterBroker(ctx, metadata.Registration{ID: nodeID})
	}
	if err != nil {
		return nil, errors.Join(err, n.stop())
	}
	return n, nil
}

// stop stops the node as a clean stop does.
func (n *node) stop() error {
	if n.repl != nil {
		n.repl.Close()
	}
	return errors.Join(n.meta.Close(ctx), n.e.Close(ctx))
}

// tick is what the broker's tickers do.
func (n *node) tick() {
	n.e.Tick(n.clock.now())
	n.repl.Tick(n.clock.now())
}
