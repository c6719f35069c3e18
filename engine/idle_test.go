package engine

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// openFiles counts what this process has open, and mapped, of files in dir.
func openFiles(t *testing.T, dir string) (fds, maps int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("there is no /proc")
	}
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && strings.HasPrefix(to, dir) {
			fds++
		}
	}
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return fds, strings.Count(string(text), dir)
}

// F3, F5, F6: idle partitions have nothing open; busy ones stay below the limit, and everything works across it.
func TestOpenFilesAreBounded(t *testing.T) {
	f := newFixture(t, vfs.OS)
	dir := t.TempDir()
	f.dirs = []string{dir}
	const limit = 20
	f.tweak = func(o *Options) { o.OpenSegmentsMax = limit }
	logs := f.manyLogs(200)
	fds, maps := openFiles(t, dir)
	if fds > 2 || maps > 0 {
		t.Fatalf("200 idle partitions have %d files open, %d mapped", fds, maps)
	}
	for round := range 3 {
		for i, l := range logs {
			f.fillFlushed(l, 6)
			if i%limit == 0 {
				f.e.Tick(f.clock.advance(1_000))
			}
		}
		f.settle()
		f.e.Tick(f.clock.advance(1_000))
		if fds, maps := openFiles(t, dir); fds > 3*limit+2 || maps > 2*limit {
			t.Fatalf("round %d: %d files are open, %d mapped", round, fds, maps)
		}
	}
	for _, l := range logs {
		if n := len(f.readAll(l, 0, l.EndOffset())); n != 18 {
			t.Fatalf("%v has %d batches", l.TP(), n)
		}
	}
	f.e.Tick(f.clock.advance(idleMs))
	f.e.Tick(f.clock.advance(2 * idleMs))
	if fds, maps := openFiles(t, dir); fds > 2 || maps > 0 {
		t.Fatalf("after two idle minutes %d files are open, %d mapped", fds, maps)
	}
	f.restart()
	if fds, maps := openFiles(t, dir); fds > 2 || maps > 0 {
		t.Fatalf("after a restart %d files are open, %d mapped", fds, maps)
	}
	for _, l := range logs {
		if n := len(f.readAll(f.e.Log(l.TP()), 0, 18)); n != 18 {
			t.Fatalf("%v has %d batches", l.TP(), n)
		}
	}
	f.e.Tick(f.clock.advance(idleMs))
}

// F1: what an idle partition costs of the heap.
func TestIdlePartitionMemory(t *testing.T) {
	f := newFixture(t, vfs.OS)
	f.dirs = []string{t.TempDir()}
	e := f.open()
	cfg := topicConfig(t, nil)
	const n = 200
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for p := range n {
		if _, err := e.Create(TopicPartition{Topic: "t", Partition: int32(p)}, testID, cfg); err != nil {
			t.Fatal(err)
		}
	}
	if each := (int64(heap()) - int64(before)) / n; each > 4<<10 {
		t.Errorf("an idle log costs %d bytes of heap", each)
	} else {
		t.Logf("an idle log costs %d bytes of heap", each)
	}
}
