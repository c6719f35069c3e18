package engine

import (
	"strings"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

// sender is an idempotent producer of batches of two records.
type sender struct {
	f    *fixture
	id   int64
	next int // batch
}

func (s *sender) send(l *Log, n int) {
	s.f.t.Helper()
	var last *Append
	for range n {
		last = s.f.mustAppend(l, idempotentBatch(s.id, 0, int32(s.next)*2, 2))
		s.next++
	}
	if err := watch(l).await(last.LastOffset + 1); err != nil {
		s.f.t.Fatal(err)
	}
}

// sendAgain sends the newest n batches again: they must be recognised; then the next one, which must not.
func (s *sender) sendAgain(l *Log, n int) {
	s.f.t.Helper()
	for i := max(0, s.next-n); i < s.next; i++ {
		if a := appendBatch(l, idempotentBatch(s.id, 0, int32(i)*2, 2)); a.Err != nil || !a.Duplicate {
			s.f.t.Errorf("producer %d: batch %d of %d again: duplicate %v, %v", s.id, i, s.next, a.Duplicate, a.Err)
		}
	}
	a := appendBatch(l, idempotentBatch(s.id, 0, int32(s.next)*2, 2))
	if a.Err != nil || a.Duplicate {
		s.f.t.Fatalf("producer %d: the next batch, %d: duplicate %v, %v", s.id, s.next, a.Duplicate, a.Err)
	}
	if err := watch(l).await(a.LastOffset + 1); err != nil {
		s.f.t.Fatal(err)
	}
	s.next++
}

// stops are the ways from one process to the next.
var stops = map[string]func(f *fixture){
	"clean": func(f *fixture) { f.restart() },
	"killed": func(f *fixture) {
		f.killAndOpen()
	},
	"power cut": func(f *fixture) {
		after := f.fs.(*vfs.Mem).Crash(vfs.LoseUnsynced)
		f.kill()
		f.fs = after
		f.open()
	},
}

func smallSegments(t *testing.T) *config.Topic {
	return small(t, func(c *config.Topic) { c.SegmentBytes, c.FileDeleteDelayMs = 400, 0 })
}

// B-E2, B-E9: a producer's newest batches are known after any stop, wherever they are when it comes: in segments that retention has deleted, below the log
// start, in segments rolled since the log's state was noted.
func TestProducersOutliveTheirBatches(t *testing.T) {
	moments := map[string]func(f *fixture, l *Log, s, other *sender){
		"a new log that has rolled": func(f *fixture, l *Log, s, other *sender) {
			s.send(l, 9)
			f.settle()
		},
		"all deleted, files there": func(f *fixture, l *Log, s, other *sender) {
			s.send(l, 9)
			f.deleteAll(l)
		},
		"all deleted, with their files": func(f *fixture, l *Log, s, other *sender) {
			s.send(l, 9)
			f.deleteAll(l)
			f.e.retain(f.clock.Now())
		},
		"noted, then deleted with their files": func(f *fixture, l *Log, s, other *sender) {
			s.send(l, 2)
			f.e.Tick(f.clock.advance(2_000))
			s.send(l, 7)
			f.deleteAll(l)
			f.e.retain(f.clock.Now())
		},
		"deleted, then others write": func(f *fixture, l *Log, s, other *sender) {
			f.e.Tick(f.clock.advance(2_000))
			s.send(l, 9)
			f.e.checkpoint()
			f.deleteAll(l)
			other.send(l, 9)
			f.deleteAll(l)
			f.e.retain(f.clock.Now())
			other.send(l, 9)
			f.settle()
		},
		"retention takes the active segment": func(f *fixture, l *Log, s, other *sender) {
			s.send(l, 9)
			cfg := *l.Config()
			cfg.RetentionMs = 1000
			l.SetConfig(&cfg)
			f.e.retain(f.clock.advance(10_000))
			if l.StartOffset() != l.EndOffset() {
				f.t.Fatal("nothing was deleted")
			}
		},
	}
	for moment, do := range moments {
		for stop, restart := range stops {
			t.Run(moment+", "+stop, func(t *testing.T) {
				f := newFixture(t, vfs.NewMem(1))
				f.tweak = func(o *Options) { o.CheckpointStepBytes = 1 }
				f.open()
				l := f.logWith("t", smallSegments(t))
				s, other := &sender{f: f, id: 7}, &sender{f: f, id: 8}
				do(f, l, s, other)
				for range 2 {
					restart(f)
					l = f.log2("t")
					l.SetConfig(smallSegments(t))
					watch(l)
					s.sendAgain(l, 5)
					if other.next > 0 {
						other.sendAgain(l, 5)
					}
				}
			})
		}
	}
}

// deleteAll deletes all records of the log.
func (f *fixture) deleteAll(l *Log) {
	f.t.Helper()
	if _, err := l.DeleteRecords(-1); err != nil {
		f.t.Fatal(err)
	}
}

// When what was noted of the producers is from before batches whose files are gone, it is forgotten: their next batch must not be refused.
func TestStaleProducersAreForgotten(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.logWith("t", smallSegments(t))
	s, other := &sender{f: f, id: 7}, &sender{f: f, id: 8}
	s.send(l, 4)
	f.settle()
	snapshot := encodeSnapshot(l.mu.producers.snapshot())
	offset := l.EndOffset()
	s.send(l, 6)
	other.send(l, 6)
	f.deleteAll(l)
	f.e.retain(f.clock.Now())
	f.close()
	sideMust(t, mem.Remove("/data/"+logStateFileName))
	files, err := mem.ReadDir("/data/t-0")
	sideMust(t, err)
	for _, file := range files {
		if strings.HasSuffix(file.Name, snapshotSuffix) {
			sideMust(t, mem.Remove("/data/t-0/"+file.Name))
		}
	}
	sideMust(t, vfs.WriteFileAtomic(mem, "/data/t-0/"+snapshotFileName(offset), snapshot))
	f.open()
	l = f.log2("t")
	if first := l.segs.Load().list[0].Base(); offset >= first {
		t.Fatalf("snapshot at %d, first segment %d: no gap", offset, first)
	}
	s.sendAgain(l, 0)
}

// A producer snapshot of a tail that a power cut took is gone for good before the log gets another tail of the same offsets, also when the log is opened by its mark.
func TestSnapshotOfLostTailIsGone(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	s := &sender{f: f, id: 7}
	s.send(l, 3)
	f.e.Tick(f.clock.advance(2_000))
	disk := mem.Crash(vfs.LoseUnsynced)
	f.kill()
	sideMust(t, writeSnapshot(disk, "/data/t-0", 8, []snapshotEntry{{producerID: 9, lastSequence: 1, lastOffset: 7, offsetDelta: 1, coordinatorEpoch: -1, txnFirstOffset: -1}}))
	f.fs = disk
	f.open()
	if l = f.log2("t"); l.EndOffset() != 6 {
		t.Fatalf("end %d", l.EndOffset())
	}
	after := disk.Crash(vfs.LoseUnsynced)
	if _, err := after.Stat("/data/t-0/" + snapshotFileName(8)); err == nil {
		t.Error("a power cut brings the snapshot back")
	}
}

// What of a producer's newest batches is left after a truncation is known.
func TestTruncationKeepsProducerWindows(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.tweak = func(o *Options) { o.CheckpointStepBytes = 1 }
	f.open()
	l := f.log("t", nil)
	for i := range 8 {
		f.mustAppend(l, idempotentBatch(7, 0, int32(i)*2, 2))
		if err := watchOnly(l, nil).await(int64(i+1) * 2); err != nil {
			t.Fatal(err)
		}
		if i >= 5 {
			f.e.checkpoint() // snapshots at 12, 14 and 16; the producer's newest batch is all they know
		}
	}
	if err := l.Truncate(14); err != nil {
		t.Fatal(err)
	}
	s := &sender{f: f, id: 7, next: 7}
	s.sendAgain(l, 4) // batch 3, the fifth from the new end, was remembered no more when there were eight
}

// A log that was rolled for its age, and whose other segments then go, is never without a segment that a power cut leaves.
func TestRetentionBehindRollByTime(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.tweak = func(o *Options) { o.CheckpointStepBytes = 1 }
	f.open()
	cfg := small(t, func(c *config.Topic) { c.SegmentMs = 10_000 })
	l := f.logWith("t", cfg)
	f.fillFlushed(l, 3)
	f.e.checkpoint()
	f.e.rollByTime(f.clock.advance(20_000))
	f.settle()
	f.deleteAll(l)
	cuts := 0
	mem.OnOp = func(op vfs.Op) {
		if op.Kind != vfs.OpRename || !strings.HasSuffix(op.NewName, deletedSuffix) {
			return
		}
		for seed := range uint64(20) {
			after := newFixture(t, mem.CrashAt(vfs.RandomPages, seed))
			after.open()
			if l := after.log2("t"); l.Err() != nil || l.EndOffset() != 3 {
				t.Errorf("%v, seed %d: end %d, %v", op, seed, l.EndOffset(), l.Err())
			}
			after.close()
			cuts++
		}
	}
	f.e.retain(f.clock.Now())
	mem.OnOp = nil
	if cuts == 0 {
		t.Fatal("nothing was deleted")
	}
}
