package metadata

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
)

// node is a manager over a real engine on a disk in memory.
type node struct {
	e *engine.Engine
	m *Manager
}

func startNode(fsys vfs.FS, snapshotRecords int64) (*node, error) {
	e, err := engine.Open(engine.Options{FS: fsys, Dirs: []string{testDir}, NodeID: 1, Workers: 1, Now: func() int64 { return 1000 }})
	if err != nil {
		return nil, err
	}
	m, err := Open(Options{Engine: e, FS: fsys, NodeID: 1, Config: config.NewSet(), Now: func() int64 { return 1000 },
		Rand: rand.New(rand.NewPCG(2, seeds.Add(1))), Logger: slog.New(slog.DiscardHandler), SnapshotRecords: snapshotRecords})
	if err != nil {
		return nil, errors.Join(err, e.Close(ctx))
	}
	return &node{e, m}, nil
}

func (n *node) stop(t testing.TB) {
	t.Helper()
	if err := errors.Join(n.m.Close(ctx), n.e.Close(ctx)); err != nil {
		t.Error(err)
	}
}

func mustStart(t testing.TB, fsys vfs.FS, snapshotRecords int64) *node {
	t.Helper()
	n, err := startNode(fsys, snapshotRecords)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestOnTheEngine(t *testing.T) {
	disk := vfs.NewMem(1)
	n := mustStart(t, disk, 0)
	register(t, n.m)
	create(t, n.m, with(spec("a", 3, 1), "retention.ms", "77"))
	want := imageText(n.m.Image())
	n.stop(t)
	for epoch := int32(1); epoch < 3; epoch++ {
		n = mustStart(t, disk, 0)
		if got := imageText(n.m.Image()); got != want {
			t.Errorf("after a restart\n%s, before\n%s", got, want)
		}
		if got := n.m.log.epoch(); got != epoch {
			t.Errorf("start %d writes in leader epoch %d (B-D1)", epoch, got)
		}
		register(t, n.m)
		want = imageText(n.m.Image())
		n.stop(t)
	}
}

// TestMetadataLogIsGone: the refusal comes before a new metadata log is made.
func TestMetadataLogIsGone(t *testing.T) {
	disk := vfs.NewMem(1)
	n := mustStart(t, disk, 0)
	if _, err := n.e.Create(engine.TopicPartition{Topic: "t"}, [16]byte{1}, &mustBroker(t).TopicDefaults); err != nil {
		t.Fatal(err)
	}
	n.stop(t)
	dir := testDir + "/" + MetadataTopic + "-0"
	if err := disk.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	var format *FormatError
	if _, err := startNode(disk, 0); !errors.As(err, &format) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "restore this directory") {
		t.Errorf("start: %v", err)
	}
	if _, err := disk.Stat(dir); err == nil {
		t.Error("a new metadata log was made")
	}
}

func mustBroker(t *testing.T) *config.Broker {
	t.Helper()
	b, err := config.NewSet().Broker()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSnapshotsOnTheEngine runs through many snapshots; the log's prefix goes.
func TestSnapshotsOnTheEngine(t *testing.T) {
	disk := vfs.NewMem(1)
	n := mustStart(t, disk, 10)
	register(t, n.m)
	for i := range 60 {
		create(t, n.m, spec(fmt.Sprint("t", i), 1, 1))
	}
	want := imageText(n.m.Image())
	n.stop(t)
	n = mustStart(t, disk, 10)
	defer n.stop(t)
	if got := imageText(n.m.Image()); got != want {
		t.Errorf("after a restart\n%s, before\n%s", got, want)
	}
	if start, _ := n.m.log.bounds(); start == 0 {
		t.Error("the log still begins at 0")
	}
}

func TestPartitionsWithoutMetadata(t *testing.T) {
	disk := vfs.NewMem(1)
	n := mustStart(t, disk, 0)
	cfg, err := config.NewSet().Topic(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.e.Create(engine.TopicPartition{Topic: "a"}, id(1), cfg); err != nil {
		t.Fatal(err)
	}
	n.stop(t)
	if err := disk.RemoveAll(testDir + "/" + MetadataTopic + "-0"); err != nil {
		t.Fatal(err)
	}
	var format *FormatError
	if n, err := startNode(disk, 0); err == nil {
		n.stop(t)
		t.Fatal("a node that lost its metadata begins a new cluster (B-A11)")
	} else if !errors.As(err, &format) && !errors.Is(err, engine.ErrStorage) {
		t.Errorf("refused with %v", err)
	}
}

// TestMetadataDiskFails: a disk that fails makes changes fail, not the process, and what was visible stays.
func TestMetadataDiskFails(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := mustStart(t, fault, 0)
	register(t, n.m)
	create(t, n.m, spec("a", 1, 1))
	fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") }, Err: errTest})
	if _, err := n.m.CreateTopics(ctx, CreateTopicsRequest{Topics: []TopicSpec{spec("b", 1, 1)}}); !errors.Is(err, &Error{Kind: Unavailable}) {
		t.Errorf("create: %v", err)
	}
	if n.m.Image().Topic("a") == nil || n.m.Image().Topic("b") != nil {
		t.Error("the image is not what was committed")
	}
	_ = n.m.Close(ctx)
	_ = n.e.Close(ctx)
}

func TestMetadataDiskFull(t *testing.T) {
	disk := vfs.NewMem(1)
	n := mustStart(t, disk, 0)
	defer n.stop(t)
	register(t, n.m)
	disk.SetCapacity(1)
	big := make([]TopicSpec, 9)
	for i := range big {
		big[i] = spec(fmt.Sprint("t", i), 1000, 1)
	}
	full := false
	for range 50 { // until the preallocated part is used up
		for i := range big {
			big[i].Name += "x"
		}
		if _, err := n.m.CreateTopics(ctx, CreateTopicsRequest{Topics: big}); err != nil {
			if !errors.Is(err, &Error{Kind: Unavailable}) {
				t.Fatal(err)
			}
			full = true
			break
		}
	}
	if !full {
		t.Fatal("the disk is never full")
	}
	disk.SetCapacity(1 << 40)
	if r := create(t, n.m, big...); r[0].Err != nil {
		t.Errorf("after space was made: %v", r[0].Err)
	}
}

// crash is a disk as a power cut would leave it, and what had been answered by then.
type crash struct {
	at    string
	disk  *vfs.Mem
	acked int32
}

// history of TestMetadataCrash: step n, once answered, is seen in every image after it.
var crashSteps = []struct {
	do   func(m *Manager) error
	seen func(i *Image) bool
}{
	{func(m *Manager) error { _, err := m.RegisterBroker(ctx, Registration{ID: 1}); return err },
		func(i *Image) bool { return i.Broker(1) != nil }},
	{func(m *Manager) error { return createOne(m, "a", 3) },
		func(i *Image) bool {
			a := i.Topic("a")
			return a == nil && i.Topic("c") != nil || a != nil && len(a.Partitions) == 3 // removed later, behind c
		}},
	{func(m *Manager) error { return alterBroker(m, "", "log.retention.ms", "5") },
		func(i *Image) bool { return i.BrokerConfig("")["log.retention.ms"] == "5" }},
	{func(m *Manager) error { return alterGroup(m, "g", "consumer.session.timeout.ms", "50000") },
		func(i *Image) bool { return i.GroupConfig("g")["consumer.session.timeout.ms"] == "50000" }},
	{func(m *Manager) error { _, err := m.AllocateProducerIDs(ctx); return err },
		func(i *Image) bool { return i.NextProducerID() >= 1000 }},
	{func(m *Manager) error { return createOne(m, "b", 20) }, // makes a snapshot due
		func(i *Image) bool { return i.Topic("b") != nil }},
	{func(m *Manager) error { return createOne(m, "c", 20) },
		func(i *Image) bool { return i.Topic("c") != nil }},
	{func(m *Manager) error { _, err := m.DeleteTopics(ctx, []TopicRef{{Name: "a"}}); return err },
		func(i *Image) bool { return i.Topic("a") == nil }},
	{func(m *Manager) error { return createOne(m, "d", 20) },
		func(i *Image) bool { return i.Topic("d") != nil }},
}

func createOne(m *Manager, name string, partitions int32) error {
	r, err := m.CreateTopics(ctx, CreateTopicsRequest{Topics: []TopicSpec{spec(name, partitions, 1)}})
	if err == nil && r[0].Err != nil {
		return r[0].Err
	}
	return err
}

// TestMetadataCrash cuts the power after every operation on the disk, in every mode. Whatever survives must start, and show
// everything that had been answered (B-D4, B-D5, B-A11); and start again after more changes (A6).
func TestMetadataCrash(t *testing.T) {
	for _, mode := range vfs.CrashModes {
		t.Run(mode.String(), func(t *testing.T) {
			for n, c := range crashes(t, mode) {
				if invariant.Enabled && n%4 != 0 { // the race detector is slow: a sample will do
					continue
				}
				checkCrash(t, c)
			}
		})
	}
}

// crashes runs the history and cuts the power after every operation.
func crashes(t *testing.T, mode vfs.CrashMode) []crash {
	disk := vfs.NewMem(7)
	var acked atomic.Int32
	var mu sync.Mutex
	var all []crash
	cut := func(after any) {
		mu.Lock()
		defer mu.Unlock()
		c := crash{at: fmt.Sprintf("operation %d, %v", len(all), after), acked: acked.Load()}
		c.disk = disk.Crash(mode)
		all = append(all, c)
	}
	disk.OnOp = func(op vfs.Op) { cut(op) }
	n := mustStart(t, disk, 30)
	for _, s := range crashSteps {
		if err := s.do(n.m); err != nil {
			t.Fatal(err)
		}
		cut(fmt.Sprint("answer ", acked.Add(1)))
	}
	n.stop(t)
	mu.Lock()
	defer mu.Unlock()
	return all
}

func checkCrash(t *testing.T, c crash) {
	t.Helper()
	n, err := startNode(c.disk, 30)
	if err != nil {
		t.Errorf("crash after %s: no start: %v", c.at, err)
		return
	}
	for s := range c.acked {
		if !crashSteps[s].seen(n.m.Image()) {
			t.Errorf("crash after %s: step %d was answered and is lost\n%s", c.at, s, imageText(n.m.Image()))
		}
	}
	register(t, n.m)
	create(t, n.m, spec("after", 30, 1))
	want := imageText(n.m.Image())
	n.stop(t)
	if n, err = startNode(c.disk, 30); err != nil {
		t.Errorf("crash after %s: no second start: %v", c.at, err)
		return
	}
	if got := imageText(n.m.Image()); got != want {
		t.Errorf("crash after %s: the second start has\n%s, want\n%s", c.at, got, want)
	}
	n.stop(t)
}

// TestNothingBeforeTheFlush: a change that is written, but not on stable storage, is neither answered nor visible.
func TestNothingBeforeTheFlush(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	n := mustStart(t, fault, 0)
	defer n.stop(t)
	register(t, n.m)
	before := n.m.Image().Offset()
	gate := make(chan struct{})
	fault.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpSync, vfs.OpSyncFS), Before: func(vfs.Op) { <-gate }})
	answer := make(chan error, 1)
	n.m.CreateTopicsAsync(CreateTopicsRequest{Topics: []TopicSpec{spec("a", 1, 1)}}, func(_ []TopicResult, err error) { answer <- err })
	for _, end := n.m.log.bounds(); end == before; _, end = n.m.log.bounds() {
		runtime.Gosched() // until it is written
	}
	barrier := make(chan struct{})
	n.m.Propose(func(*Image) []Record { close(barrier); return nil }, func(error) {})
	<-barrier // planned when the append of the change had returned
	n.m.inflight.mu.Lock()
	if n.m.inflight.mu.committed != before {
		t.Errorf("committed up to %d before the flush of what begins at %d", n.m.inflight.mu.committed, before)
	}
	n.m.inflight.mu.Unlock()
	select {
	case err := <-answer:
		t.Errorf("answered before the flush: %v", err)
		answer <- err
	default:
	}
	if n.m.Image().Topic("a") != nil {
		t.Error("visible before the flush")
	}
	fault.Clear()
	close(gate)
	if err := <-answer; err != nil || n.m.Image().Topic("a") == nil {
		t.Error(err)
	}
}
