package replication

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
)

// promise is what had been answered when the power went.
type promise struct {
	at       string
	disk     *vfs.Mem
	created  int32 // topics t0, t1, ... exist
	produced int32 // records answered with acks=all, in t0
	deleted  bool  // t0 was deleted
}

// TestCrash cuts the power after every operation on the disk, in every mode, while topics are created, written and deleted.
// After a restart every topic that was answered is there and every record that was answered is readable; nothing that was
// deleted is back, nothing is set aside, and everything works (promise 1 of the design; B-A8, B-A11, B-A18).
func TestCrash(t *testing.T) {
	for _, mode := range vfs.CrashModes {
		t.Run(mode.String(), func(t *testing.T) {
			for n, p := range promises(t, mode) {
				if invariant.Enabled && n%4 != 0 { // the race detector is slow: a sample will do
					continue
				}
				p.check(t)
			}
		})
	}
}

func promises(t *testing.T, mode vfs.CrashMode) []promise {
	disk := vfs.NewMem(3)
	var created, produced atomic.Int32
	var deleted atomic.Bool
	var mu sync.Mutex
	var all []promise
	cut := func(after any) {
		mu.Lock()
		defer mu.Unlock()
		p := promise{at: fmt.Sprintf("operation %d, %v", len(all), after), created: created.Load(), produced: produced.Load(), deleted: deleted.Load()}
		p.disk = disk.Crash(mode)
		all = append(all, p)
	}
	disk.OnOp = func(op vfs.Op) { cut(op) }
	n := start(t, disk)
	for topic := range int32(3) {
		n.create(fmt.Sprint("t", topic), 1)
		created.Store(topic + 1)
		for range 4 {
			if err := produce(n.m.Partition("t0", 0), -1, 3).wait(); err != nil {
				t.Fatal(err)
			}
			cut(fmt.Sprint("answer of record ", produced.Add(3)))
		}
	}
	n.delete("t0")
	deleted.Store(true)
	cut("answer of the deletion")
	n.stop()
	mu.Lock()
	defer mu.Unlock()
	return all
}

func (p promise) check(t *testing.T) {
	t.Helper()
	n, err := boot(t, p.disk)
	if err != nil {
		t.Errorf("crash after %s: no start: %v", p.at, err)
		return
	}
	defer n.stop()
	n.register()
	for topic := range p.created {
		name := fmt.Sprint("t", topic)
		q := n.m.Partition(name, 0)
		if q == nil && topic == 0 && p.created == 3 && p.produced == 36 {
			continue // its deletion may have begun
		}
		if q == nil || q.Check(-1) != nil || p.deleted && topic == 0 {
			t.Errorf("crash after %s: topic %s: %+v\n%s", p.at, name, q, n.logs.String())
			continue
		}
		if topic == 0 && (q.HighWatermark() < int64(p.produced) || q.HighWatermark() != q.LogEnd()) {
			t.Errorf("crash after %s: %d records answered, %d visible, %d in the log", p.at, p.produced, q.HighWatermark(), q.LogEnd())
		}
	}
	if strings.Contains(n.logs.String(), "set aside") {
		t.Errorf("crash after %s: something was set aside\n%s", p.at, n.logs.String())
	}
	if q := n.create("after", 1); produce(q, -1, 1).wait() != nil || q.HighWatermark() != 1 {
		t.Errorf("crash after %s: nothing can be written", p.at)
	}
}
