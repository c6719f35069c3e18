package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

// R18, B-A1, B-A17: whichever sync fails first, with whatever error, and though it would succeed if it was repeated: everybody who waits for it hears so,
// nothing is acknowledged after it, nothing is written to the directory any more, the log says why, and the other directory goes on. What had been
// acknowledged is there after the restart.
func TestFailedSyncIsFinal(t *testing.T) {
	inA := func(kind vfs.OpKind, suffix string) func(vfs.Op) bool {
		return func(op vfs.Op) bool {
			return op.Kind == kind && strings.HasPrefix(op.Name, "/a/") && strings.HasSuffix(op.Name, suffix)
		}
	}
	for _, c := range []struct {
		name   string
		match  func(vfs.Op) bool
		method string
		err    error
	}{
		{"data", inA(vfs.OpSync, logSuffix), "fdatasync", syscall.EIO},
		{"data, no space", inA(vfs.OpSync, logSuffix), "fdatasync", syscall.ENOSPC},
		{"data, no memory", inA(vfs.OpSync, logSuffix), "fdatasync", syscall.ENOMEM},
		{"file system", func(op vfs.Op) bool { return op.Kind == vfs.OpSyncFS && op.Name == "/a" }, "syncfs", syscall.EIO},
		{"directory", inA(vfs.OpSyncDir, "t-0"), "fdatasync", syscall.EIO},
		{"index", inA(vfs.OpSync, indexSuffix), "fdatasync", syscall.EIO},
		{"index, no space", inA(vfs.OpSync, indexSuffix), "fdatasync", syscall.ENOSPC},
		{"checkpoint", func(op vfs.Op) bool { return op.Kind == vfs.OpSyncDir && op.Name == "/a" }, "fdatasync", syscall.EIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem(1)
			fault := vfs.NewFault(mem)
			f := newFixture(t, fault)
			f.dirs = []string{"/a", "/b"}
			f.tweak = func(o *Options) { o.SyncMethod, o.CheckpointStepBytes = c.method, 1 }
			f.open()
			cfg := small(t, func(c *config.Topic) { c.SegmentBytes, c.RetentionMs = 4_000, -1 })
			l := f.logWith("t", cfg)
			other := f.logWith("other", cfg)
			neighbours := []*Log{}
			for _, name := range []string{"n1", "n2", "n3", "n4", "n5", "n6"} {
				n := f.logWith(name, cfg)
				if n.Dir() == l.Dir() {
					neighbours = append(neighbours, n)
				}
			}
			if l.Dir() != "/a" || other.Dir() != "/b" {
				t.Fatalf("t is in %s, other in %s", l.Dir(), other.Dir())
			}
			p, po := watch(l), watch(other)
			in := fault.Inject(vfs.Injection{Match: c.match, Nth: 2, Err: c.err})
			acked := map[int64][]byte{}
			for i := 0; i < 40 && l.Err() == nil; i++ {
				for _, a := range appendBurst(l, 60) { // several segments in one round
					if a.Err == nil && p.await(a.LastOffset+1) == nil {
						acked[a.BaseOffset] = bytes.Clone(a.Batch)
					}
				}
				for _, n := range neighbours {
					appendBatch(n, batchOf(testStartMs, 1, 10))
				}
				f.settle()
				f.e.Tick(f.clock.advance(31_000))
			}
			if in.Hits() != 1 {
				t.Fatalf("%d syncs failed", in.Hits())
			}
			failure := p.awaitFailure()
			if !errors.Is(failure, ErrStorage) || !errors.Is(failure, c.err) || !strings.Contains(failure.Error(), "/a") {
				t.Fatalf("observer heard: %v", failure)
			}
			if s := f.e.Dirs(); s[0].Err == nil || s[1].Err != nil || !strings.Contains(f.logs.String(), "log directory is offline") {
				t.Fatalf("%v, %v", s[0].Err, s[1].Err)
			}
			f.e.dirs[0].flusher.settle() // a round that had begun before ends
			flushed := l.FlushedOffset()
			fault.Record()
			for range 3 {
				for _, n := range append(neighbours, l) {
					if a := appendBatch(n, batchOf(testStartMs, 1, 300)); !errors.Is(a.Err, ErrStorage) {
						t.Fatalf("append to %v: %v", n.TP(), a.Err)
					}
				}
				f.settle()
				f.e.Tick(f.clock.advance(400_000))
				a := f.mustAppend(other, batchOf(testStartMs, 1, 300))
				if err := po.await(a.LastOffset + 1); err != nil {
					t.Fatalf("the other directory: %v", err)
				}
			}
			for _, op := range fault.Recorded() {
				if vfs.Mutating(op) && strings.HasPrefix(op.Name, "/a") {
					t.Errorf("after the failure: %v", op)
				}
			}
			if l.FlushedOffset() != flushed || l.HighWatermark() > flushed {
				t.Fatalf("flushed %d, was %d; hw %d", l.FlushedOffset(), flushed, l.HighWatermark())
			}
			if got := f.readAll(l, 0, flushed); int64(len(got)) != flushed { // what was promised is served
				t.Fatalf("%d batches of %d", len(got), flushed)
			}
			if _, err := l.DeleteRecords(1); !errors.Is(err, ErrStorage) {
				t.Fatalf("DeleteRecords: %v", err)
			}
			if _, err := f.e.Create(TopicPartition{Topic: "new"}, testID, cfg); err != nil || f.e.Log(TopicPartition{Topic: "new"}).Dir() != "/b" {
				t.Fatalf("create: %v", err)
			}
			if err := f.e.Close(context.Background()); err != nil {
				t.Fatalf("close: %v", err)
			}
			for path, want := range map[string]bool{"/a/" + cleanMarkerFileName: false, "/b/" + cleanMarkerFileName: true} {
				if _, err := mem.Stat(path); (err == nil) != want {
					t.Errorf("%s: %v", path, err)
				}
			}
			disk := mem.Crash(vfs.LoseUnsynced)
			again := newFixture(t, disk)
			again.dirs = f.dirs
			again.open()
			batches := again.readAll(again.e.Log(l.TP()), 0, again.e.Log(l.TP()).EndOffset())
			for offset, want := range acked {
				if offset >= int64(len(batches)) || !bytes.Equal(batches[offset], want) {
					t.Fatalf("acknowledged batch %d is missing", offset)
				}
			}
		})
	}
}

// appendBurst appends n batches that are queued at once.
func appendBurst(l *Log, n int) []*Append {
	w := waiter{make(chan struct{}, n)}
	all := make([]*Append, n)
	for i := range all {
		all[i] = &Append{Batch: batchOf(testStartMs, 1, 300), Done: w}
		l.Enqueue(all[i])
	}
	for range all {
		<-w.done
	}
	return all
}

// Running out of descriptors, for one operation or a while, is nobody's failure: the operation that meets it answers an error or waits, and the next one is
// tried again.
func TestNoDescriptors(t *testing.T) {
	needsOne := func(op vfs.Op) bool {
		switch op.Kind {
		case vfs.OpOpen, vfs.OpCreate, vfs.OpSyncDir, vfs.OpReadDir:
			return true
		}
		return false
	}
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE} {
		for n := 1; ; n++ {
			mem := vfs.NewMem(uint64(n))
			fault := vfs.NewFault(mem)
			f := newFixture(t, fault)
			f.tweak = func(o *Options) { o.CheckpointStepBytes, o.SyncMethod = 1, "fdatasync" }
			f.open()
			in := fault.Inject(vfs.Injection{Match: needsOne, Nth: n, Err: errno})
			cfg := small(t, func(c *config.Topic) { c.SegmentBytes = 2_000 })
			l, err := f.e.Create(TopicPartition{Topic: "t"}, testID, cfg)
			if err != nil {
				l = f.logWith("t", cfg)
			}
			p := watch(l)
			for range 20 {
				a := appendBatch(l, batchOf(testStartMs, 1, 300))
				if a.Err != nil {
					if !errors.Is(a.Err, errno) {
						t.Fatalf("operation %d: %v", n, a.Err)
					}
					a = f.mustAppend(l, batchOf(testStartMs, 1, 300))
				}
				if err := p.await(a.LastOffset + 1); err != nil {
					t.Fatalf("operation %d: %v", n, err)
				}
			}
			f.settle()
			f.e.Tick(f.clock.advance(100_000))
			f.e.Tick(f.clock.advance(400_000_000)) // retention
			f.settle()
			f.e.Tick(f.clock.advance(400_000_000))
			if err := f.e.Delete(l.TP()); err != nil && !errors.Is(err, errno) {
				t.Fatalf("operation %d: %v", n, err)
			}
			if err := f.e.Dirs()[0].Err; err != nil {
				t.Fatalf("operation %d: the directory is offline: %v", n, err)
			}
			hits := in.Hits()
			if err := f.e.Close(context.Background()); err != nil && !errors.Is(err, errno) {
				t.Fatalf("operation %d: close: %v", n, err)
			}
			if hits == 0 {
				t.Logf("%v: %d operations", errno, n-1)
				break
			}
		}
	}
}

// A round that cannot begin for want of a descriptor waits, and its waiters with it.
func TestFlushWaitsForDescriptor(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.tweak = func(o *Options) { o.SyncMethod = "fdatasync" } // syncfs would open nothing
	f.open()
	cfg := small(t, func(c *config.Topic) { c.SegmentBytes = 1_000 })
	l := f.logWith("t", cfg)
	p := watch(l)
	in := fault.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpSyncDir), Err: syscall.EMFILE})
	for range 5 {
		f.mustAppend(l, batchOf(testStartMs, 1, 500))
	}
	deadline := time.Now().Add(10 * time.Second)
	for in.Hits() < 2 && time.Now().Before(deadline) {
		f.settle()
		time.Sleep(time.Millisecond)
	}
	if in.Hits() < 2 || l.FlushedOffset() >= 5 || l.Err() != nil {
		t.Fatalf("%d tries, flushed %d, %v", in.Hits(), l.FlushedOffset(), l.Err())
	}
	in.Remove()
	if err := p.await(5); err != nil {
		t.Fatal(err)
	}
}

// A directory whose space cannot be told is online, its space not known.
func TestUsageFails(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.open()
	fault.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpUsage), Err: syscall.EIO})
	if s := f.e.Dirs()[0]; s.Err != nil || s.Usage != (vfs.Usage{Total: -1, Free: -1}) {
		t.Fatalf("%+v", s)
	}
	f.e.Tick(f.clock.advance(1_000))
	f.mustAppend(f.log("t", nil), batchOf(testStartMs, 1, 10))
	f.restart()
	f.mustAppend(f.log("t", nil), batchOf(testStartMs, 1, 10))
}

// B-E13, B-E14: a batch that was checked behind others in one turn fails with them when their write fails, though it would find room in the segment that is
// begun for it: appended alone, it would leave a gap in its producer's sequence that can only be filled by writing twice.
func TestWriteFailsBeforeRoll(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.open()
	l := f.logWith("t", small(t, func(c *config.Topic) { c.SegmentBytes, c.RetentionMs = 1_000, -1 }))
	p := watch(l)
	first := idempotentBatch(7, 0, 0, 10)
	f.mustAppend(l, bytes.Clone(first))
	batches := [][]byte{idempotentBatch(7, 0, 10, 10), idempotentBatch(7, 0, 20, 10), idempotentBatch(7, 0, 30, 10)}
	in := fault.Inject(vfs.Injection{Match: isLogWrite, Nth: 2, Err: syscall.ENOSPC}) // behind the filler
	w := waiter{make(chan struct{}, 10)}
	filler := &Append{Batch: batchOf(testStartMs, 1, 10), Done: w}
	l.mu.Lock() // the worker waits with the filler, and finds the others together
	l.Enqueue(filler)
	for deadline := time.Now().Add(10 * time.Second); l.queue.Load() != nil && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	var all []*Append
	for _, b := range batches {
		a := &Append{Batch: bytes.Clone(b), Done: w}
		all = append(all, a)
		l.Enqueue(a)
	}
	l.mu.Unlock()
	for range len(all) + 1 {
		<-w.done
	}
	if filler.Err != nil || in.Hits() != 1 {
		t.Fatalf("%v, %d hits", filler.Err, in.Hits())
	}
	for i, a := range all {
		if a.Err == nil {
			t.Errorf("batch %d was appended at offset %d behind one that failed", i, a.BaseOffset)
		}
	}
	for _, b := range batches { // sent again, each is there once
		f.mustAppend(l, bytes.Clone(b))
	}
	if err := p.await(l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	if got := f.readAll(l, 0, l.EndOffset()); len(got) != 5 || l.EndOffset() != 41 {
		t.Fatalf("%d batches, end %d", len(got), l.EndOffset())
	}
}
