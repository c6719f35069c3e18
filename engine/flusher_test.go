package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

// One round syncs few files one by one and many with one syncfs, if the directory has a file system of its own or it is asked for.
func TestSyncMethod(t *testing.T) {
	for _, test := range []struct {
		method     string
		logs       int
		wantSyncFS bool
	}{{"auto", 3, false}, {"auto", 8, true}, {"fdatasync", 30, false}, {"syncfs", 8, true}, {"syncfs", 1, false}} {
		t.Run(fmt.Sprintf("%s,%d", test.method, test.logs), func(t *testing.T) {
			fault := vfs.NewFault(vfs.NewMem(1)) // Mem says that every directory has a file system of its own
			f := newFixture(t, fault)
			f.tweak = func(o *Options) { o.SyncMethod = test.method }
			f.open()
			var logs []*Log
			var watchers []*progress
			for i := range test.logs {
				l := f.log(fmt.Sprintf("t%d", i), nil)
				logs, watchers = append(logs, l), append(watchers, watch(l))
			}
			x := f.log("x", nil)
			blocked, release := make(chan struct{}), make(chan struct{})
			fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpSync && strings.HasPrefix(op.Name, x.path) }, Nth: 1,
				Before: func(vfs.Op) { close(blocked); <-release }})
			f.mustAppend(x, batchOf(testStartMs, 1, 10))
			<-blocked // what follows gathers for the next round
			before := fault.Count(vfs.OpSyncFS)
			for _, l := range logs {
				f.mustAppend(l, batchOf(testStartMs, 1, 10))
			}
			close(release)
			for _, p := range watchers {
				if err := p.await(1); err != nil {
					t.Fatal(err)
				}
			}
			if got := fault.Count(vfs.OpSyncFS) > before; got != test.wantSyncFS {
				t.Errorf("syncfs used: %v", got)
			}
		})
	}
}

func TestUnknownSyncMethod(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.tweak = func(o *Options) { o.SyncMethod = "fsync" }
	if _, err := f.tryOpen(); err == nil {
		t.Fatal("opened")
	}
}

// What is acknowledged survives a power cut, whatever segment it is in and however new its file is.
func TestFlushedSurvives(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.logWith("t", crashConfig(t))
	p := watch(l)
	for i := range 60 {
		a := f.mustAppend(l, batchOf(testStartMs, 1, 100+7*i))
		if err := p.await(a.LastOffset + 1); err != nil {
			t.Fatal(err)
		}
		f2 := newFixture(t, mem.Crash(vfs.LoseUnsynced))
		f2.open()
		l := f2.log2("t")
		if l.Err() != nil || l.EndOffset() != a.LastOffset+1 {
			t.Fatalf("end %d, %v", l.EndOffset(), l.Err())
		}
		f2.readAll(l, 0, l.EndOffset())
		f2.close()
	}
}

// A topic with write.caching is flushed after flush.messages or flush.ms, and at the latest by a checkpoint or a clean stop.
func TestWriteCaching(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	cfg := *topicConfig(t, nil)
	cfg.WriteCaching, cfg.FlushMessages, cfg.FlushMs = true, 5, 10_000
	l := f.logWith("t", &cfg)
	p := watch(l)
	for range 4 {
		f.mustAppend(l, batchOf(testStartMs, 1, 10))
	}
	f.e.Tick(f.clock.advance(5_000))
	f.settle()
	if l.FlushedOffset() != 0 {
		t.Fatalf("flushed %d", l.FlushedOffset())
	}
	f.mustAppend(l, batchOf(testStartMs, 1, 10)) // the fifth
	if err := p.await(5); err != nil {
		t.Fatal(err)
	}
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	f.e.Tick(f.clock.advance(11_000))
	if err := p.await(6); err != nil {
		t.Fatal(err)
	}
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	f.restart()
	if l := f.log2("t"); l.EndOffset() != 7 || l.FlushedOffset() != 7 {
		t.Fatalf("%d %d", l.EndOffset(), l.FlushedOffset())
	}
	cfg.FlushMessages, cfg.FlushMs = config.NoLimit, config.NoLimit
	l = f.logWith("t", &cfg)
	p = watch(l)
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	f.e.Tick(f.clock.advance(100_000)) // a checkpoint
	if err := p.await(8); err != nil {
		t.Fatal(err)
	}
}

// B-A1: a round whose own sync succeeds promises nothing when something else of the directory failed meanwhile: what that sync lost, this one may not have seen.
func TestRoundOverlapsFailure(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.open()
	l := f.logWith("t", topicConfig(t, nil))
	p := watch(l)
	inj := fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, logSuffix) }, Nth: 1,
		Before: func(vfs.Op) { f.e.dirs[0].fail("write", syscall.EIO) }})
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	if err := p.await(1); !errors.Is(err, ErrStorage) {
		t.Fatalf("%v: promised", err)
	}
	f.close() // and the round is over
	if inj.Hits() != 1 || l.FlushedOffset() != 0 || p.flushed != 0 {
		t.Fatalf("%d syncs, flushed %d, told %d", inj.Hits(), l.FlushedOffset(), p.flushed)
	}
}

// A log that is deleted while its round runs does not take the directory down.
func TestDeleteDuringRounds(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	cfg := crashConfig(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for round := range 10 {
				l, err := f.e.Create(TopicPartition{"t", int32(i)}, [16]byte{byte(round + 1)}, cfg)
				if err != nil {
					t.Error(err)
					return
				}
				for range 8 {
					if a := appendBatch(l, batchOf(testStartMs, 1, 900)); a.Err != nil {
						t.Error(a.Err)
					}
				}
				if round%2 == 0 {
					if err := f.e.Delete(l.TP()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	f.settle()
	if err := f.e.dirs[0].err(); err != nil {
		t.Fatal(err)
	}
}
