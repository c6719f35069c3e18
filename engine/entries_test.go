package engine

import (
	"syscall"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

// B-A8, R5: a batch is promised only when the file it is in can be found after a power cut, also when another process made that file: its entry in the
// directory is durable before the log is closed cleanly, before a mark speaks of the segment, and before a recovery shows what is in it.
func TestEntryOfRolledSegmentIsDurable(t *testing.T) {
	stops := []struct {
		name string
		stop func(f *fixture, l *Log)
	}{
		{"none", func(f *fixture, l *Log) {}},
		{"clean", func(f *fixture, l *Log) { f.restart() }},
		{"killed", func(f *fixture, l *Log) { f.killAndOpen() }},
		{"killed behind a mark", func(f *fixture, l *Log) {
			f.e.Tick(f.clock.advance(2_000))
			f.killAndOpen()
		}},
		{"killed behind a mark, with a tail that is not flushed", func(f *fixture, l *Log) {
			f.e.Tick(f.clock.advance(2_000))
			l.SetConfig(small(f.t, func(c *config.Topic) { c.WriteCaching, c.FlushMs = true, 1<<40 }))
			f.mustAppend(l, batchOf(testStartMs, 1, 100))
			f.killAndOpen()
		}},
		{"clean after a mark", func(f *fixture, l *Log) {
			f.e.Tick(f.clock.advance(2_000))
			f.restart()
		}},
	}
	for _, s := range stops {
		t.Run(s.name, func(t *testing.T) {
			f := newFixture(t, vfs.NewMem(1))
			f.tweak = func(o *Options) { o.CheckpointStepBytes = 1 }
			f.open()
			cfg := small(t, func(c *config.Topic) { c.SegmentMs = 10_000 })
			l := f.logWith("t", cfg)
			f.fillFlushed(l, 2)
			f.e.checkpoint()                        // with the producer snapshot that the roll else would write, with a sync of the directory
			f.e.rollByTime(f.clock.advance(20_000)) // nobody appends: nothing waits for a flush
			if n := len(l.segs.Load().list); n != 2 {
				t.Fatalf("%d segments", n)
			}
			f.settle()
			s.stop(f, l)
			l = f.log2("t")
			l.SetConfig(cfg)
			f.lose(l) // what the start shows
			f.fillFlushed(l, 3)
			f.lose(l)
		})
	}
}

// A roll whose batch then found no space leaves a segment that no flush round has heard of.
func TestEntryOfSegmentWithoutItsBatchIsDurable(t *testing.T) {
	for _, clean := range []bool{true, false} {
		mem := vfs.NewMem(1)
		fault := vfs.NewFault(mem)
		f := newFixture(t, fault)
		f.tweak = func(o *Options) { o.CheckpointStepBytes = 1 }
		f.open()
		l := f.logWith("t", small(t, func(c *config.Topic) { c.SegmentBytes = 1500 }))
		f.fillFlushed(l, 1)
		f.e.checkpoint()
		fault.Inject(vfs.Injection{Match: isLogWrite, Nth: 1, Err: syscall.ENOSPC})
		if a := appendBatch(l, batchOf(testStartMs, 1, 1000)); a.Err == nil {
			t.Fatal("appended")
		}
		if n := len(l.segs.Load().list); n != 2 {
			t.Fatalf("%d segments", n)
		}
		fault.Clear()
		f.settle()
		f.fs = mem
		if clean {
			f.restart()
		} else {
			f.e.Tick(f.clock.advance(2_000))
			f.killAndOpen()
		}
		l = f.log2("t")
		f.fillFlushed(l, 1)
		f.lose(l)
	}
}

// killAndOpen ends the process and starts another: the page cache stays.
func (f *fixture) killAndOpen() {
	f.t.Helper()
	mem := f.fs.(*vfs.Mem)
	after := mem.Fork()
	f.kill()
	f.fs = after
	f.open()
}

// lose cuts the power, starts, and compares with what the log has promised.
func (f *fixture) lose(l *Log) {
	f.t.Helper()
	promised := l.FlushedOffset()
	after := newFixture(f.t, f.fs.(*vfs.Mem).Crash(vfs.LoseUnsynced))
	after.open()
	found := after.log2(l.TP().Topic)
	if found.Err() != nil || found.EndOffset() < promised {
		f.t.Errorf("the log ends at %d (%v); everything below %d was flushed", found.EndOffset(), found.Err(), promised)
	}
	after.close()
}
