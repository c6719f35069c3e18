package metadata

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// memLog is a replicated log in memory. Commits come at once, or with commit() when held.
type memLog struct {
	mu struct {
		sync.Mutex
		batches   [][]byte
		start     int64
		end       int64
		committed int64
		held      bool
		appendErr error
		onCommit  func(int64)
		onFail    func(error)
	}
	leaderEpoch int32
}

func newMemLog() *memLog { return new(memLog) }

// reopen is the log after a restart, in the next leader epoch.
func (l *memLog) reopen() *memLog {
	next := &memLog{leaderEpoch: l.leaderEpoch + 1}
	next.mu.batches, next.mu.start, next.mu.end, next.mu.committed = l.mu.batches, l.mu.start, l.mu.end, l.mu.end
	return next
}

func (l *memLog) epoch() int32 { return l.leaderEpoch }
func (l *memLog) close()       {}

func (l *memLog) bounds() (int64, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.start, l.mu.end
}

func (l *memLog) append(batch []byte) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.appendErr != nil {
		return 0, l.mu.appendErr
	}
	b := record.Batch(append([]byte(nil), batch...))
	b.SetBaseOffset(l.mu.end)
	b.SetPartitionLeaderEpoch(l.leaderEpoch)
	base := l.mu.end
	l.mu.batches = append(l.mu.batches, b)
	l.mu.end = b.NextOffset()
	if !l.mu.held {
		l.mu.committed = l.mu.end
		l.mu.onCommit(l.mu.committed)
	}
	return base, nil
}

func (l *memLog) follow(committed func(int64), failed func(error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.onCommit, l.mu.onFail = committed, failed
	committed(l.mu.committed)
}

// hold stops commits until commit is called.
func (l *memLog) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.held = true
}

func (l *memLog) commit() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.held, l.mu.committed = false, l.mu.end
	l.mu.onCommit(l.mu.end)
}

func (l *memLog) setAppendErr(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.appendErr = err
}

func (l *memLog) read(from int64, visit func(record.Batch) error) error {
	for _, b := range l.mu.batches {
		if record.Batch(b).NextOffset() > from {
			if err := visit(b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *memLog) trim(upTo int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.start = max(l.mu.start, upTo)
	for len(l.mu.batches) > 0 && record.Batch(l.mu.batches[0]).NextOffset() <= upTo {
		l.mu.batches = l.mu.batches[1:]
	}
	return nil
}

var errTest = errors.New("the test breaks it")

const testDir = "/d"

var seeds atomic.Uint64 // every start draws other numbers

func testOptions(t testing.TB, fsys vfs.FS) Options {
	t.Helper()
	if err := fsys.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{FS: fsys, NodeID: 1, Config: config.NewSet(), Now: func() int64 { return 1000 }, Rand: rand.New(rand.NewPCG(1, seeds.Add(1))),
		Logger: slog.New(slog.DiscardHandler), SnapshotBytes: 1 << 40}
	o.withDefaults()
	return o
}

// openTest opens a manager over a log; it is closed with the test.
func openTest(t testing.TB, o Options, l replicatedLog) *Manager {
	t.Helper()
	m, err := open(o, l, testDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func testController() *controller {
	return &controller{rules: config.NewSet(), rand: rand.New(rand.NewPCG(3, 4))}
}

// apply replays records on an image and fails the test when they don't fit.
func apply(t testing.TB, i *Image, records ...Record) (*Image, *Delta) {
	t.Helper()
	next, d, err := i.Apply(0, records)
	if err != nil {
		t.Fatal(err)
	}
	return next, d
}

// brokers is an image with unfenced brokers 1..n, in racks r0, r1, ... round robin; one rack when racks is 0.
func brokers(t testing.TB, n, racks int) *Image {
	image := Empty()
	for id := 1; id <= n; id++ {
		r := BrokerRegistration{ID: int32(id), Epoch: -1, Incarnation: [16]byte{byte(id), 1}}
		if racks > 0 {
			r.Rack = "r" + string(rune('0'+(id-1)%racks))
		}
		image, _ = apply(t, image, r)
	}
	return image
}

func id(n byte) [16]byte { return [16]byte{0: 0xee, 15: n} }

// batchOf is a batch of raw record values.
func batchOf(values ...[]byte) []byte {
	b := record.NewBuilder(record.Options{})
	for _, v := range values {
		b.Append(1000, nil, v, nil)
	}
	return b.Bytes()
}
