package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

// A power cut while segments below the log start were being removed may leave any of them: what is left of them is not looked at, and goes.
func TestHoleBelowLogStart(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	cfg := crashConfig(t)
	l := f.logWith("t", cfg)
	p := watch(l)
	for range 40 {
		f.mustAppend(l, batchOf(testStartMs, 1, 400))
	}
	if err := p.await(40); err != nil {
		t.Fatal(err)
	}
	f.settle()
	bases := l.segs.Load().list
	second, third := bases[1].Base(), bases[2].Base()
	if _, err := l.DeleteRecords(third); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("/data", "t-0")
	f.fs = mem.Crash(vfs.KeepAll)
	f.kill()
	for _, name := range []string{logFileName(second), indexFileName(second), timeIndexFileName(second)} {
		if err := f.fs.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	f.open()
	l = f.log2("t")
	if l.Err() != nil || l.StartOffset() != third || l.EndOffset() != 40 {
		t.Fatalf("log %d to %d, %v\n%s", l.StartOffset(), l.EndOffset(), l.Err(), f.logs)
	}
	f.readAll(l, third, 40)
	if _, err := f.fs.Stat(filepath.Join(dir, logFileName(0))); err == nil {
		t.Error("the first segment is still there")
	}
	f.restart()
}

// The page right behind the recovery point never reached the disk, later ones and the index did: the log ends at the recovery point.
func TestHoleBehindRecoveryPoint(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.tweak = func(o *Options) { o.Defaults.TopicDefaults.IndexIntervalBytes = 300 }
	f.open()
	l := f.logWith("t", small(t, func(c *config.Topic) { c.IndexIntervalBytes = 300 }))
	for range 3 {
		f.mustAppend(l, batchOf(testStartMs, 1, 200))
	}
	f.restart() // the recovery point is the end
	l = f.log2("t")
	pos := l.Size()
	for range 6 {
		f.mustAppend(l, batchOf(testStartMs, 1, 200))
	}
	f.settle()
	f.fs = mem.Crash(vfs.KeepAll)
	f.kill()
	file, err := f.fs.OpenFile(filepath.Join("/data", "t-0", logFileName(0)), os.O_RDWR, 0)
	if err == nil {
		_, err = file.WriteAt(make([]byte, 100), pos)
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	f.open()
	l = f.log2("t")
	if l.Err() != nil || l.EndOffset() != 3 {
		t.Fatalf("log ends at %d, %v\n%s", l.EndOffset(), l.Err(), f.logs)
	}
	f.readAll(l, 0, 3)
}

// With write.caching records may be deleted that are not on stable storage. Then they get there first: the log never ends below its start.
func TestLogStartAboveWhatIsFlushed(t *testing.T) {
	for _, mode := range vfs.CrashModes {
		mem := vfs.NewMem(1)
		f := newFixture(t, mem)
		f.open()
		l := f.logWith("t", small(t, func(c *config.Topic) { c.WriteCaching = true }))
		for range 5 {
			f.mustAppend(l, batchOf(testStartMs, 1, 200))
		}
		l.SetHighWatermark(5)
		if start, err := l.DeleteRecords(4); err != nil || start != 4 {
			t.Fatal(start, err)
		}
		f.fs = mem.Crash(mode)
		f.kill()
		f.open()
		l = f.log2("t")
		if l.Err() != nil || l.StartOffset() != 4 || l.EndOffset() < 4 {
			t.Fatalf("%v: log %d to %d, %v\n%s", mode, l.StartOffset(), l.EndOffset(), l.Err(), f.logs)
		}
		f.mustAppend(l, batchOf(testStartMs, 1, 200))
		f.close()
	}
}

// The record with the largest timestamp was deleted, others of its segment are there: then one of them has it.
func TestMaxTimestampAboveLogStart(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	for i, appendTime := range []bool{false, true} {
		l := f.logWith([]string{"t", "u"}[i], small(t, func(c *config.Topic) { c.LogAppendTime = appendTime }))
		p := watch(l)
		for _, ts := range []int64{900, 100, 300, 200, 300} {
			f.mustAppend(l, batchOf(testStartMs+ts, 2, 20)) // ts and ts+1
			f.clock.advance(-1)
		}
		if err := p.await(10); err != nil {
			t.Fatal(err)
		}
		if _, err := l.DeleteRecords(3); err != nil {
			t.Fatal(err)
		}
		offset, ts, _, found, err := l.MaxTimestampOffset(10)
		if want := []int64{5, 3}[i]; err != nil || !found || offset != want || !appendTime && ts != testStartMs+301 {
			t.Errorf("log append time %v: offset %d, %d, %v, %v", appendTime, offset, ts, found, err)
		}
	}
}
