package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

func TestCreateIsIdempotent(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", nil)
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	again := f.log("t", map[string]string{"retention.ms": "5"})
	if again != l || l.Config().RetentionMs != 5 {
		t.Fatal("another log, or the old configuration")
	}
	for _, tp := range []TopicPartition{{"", 0}, {"a/b", 0}, {"t", -1}, {strings.Repeat("x", 254), 0}, {"..", 0}} {
		if _, err := f.e.Create(tp, testID, topicConfig(t, nil)); err == nil {
			t.Errorf("%q was created", tp)
		}
	}
	if f.e.dirs[0].err() != nil {
		t.Fatal("a bad name took the directory offline")
	}
}

// otherID is far from testID: see SameTopic.
var otherID = [16]byte{0xf0, 0xf1, 0xf2, 0xf3, 0xf4}

// B-A18: the directory of a deleted topic is not used for a new one of the same name.
func TestCreateWithAnotherID(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	p := watch(l)
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	if err := p.await(1); err != nil {
		t.Fatal(err)
	}
	f.restart()
	fresh, err := f.e.Create(TopicPartition{Topic: "t"}, otherID, topicConfig(t, nil))
	if err != nil || fresh.EndOffset() != 0 || fresh.TopicID() != otherID {
		t.Fatalf("%v, end %d", err, fresh.EndOffset())
	}
	f.mustAppend(fresh, batchOf(testStartMs, 1, 10))
	// What the checkpoint files said about the old one must not count for the new one.
	f.fs = mem.Crash(vfs.KeepAll)
	f.kill()
	f.open()
	if l := f.log2("t"); l.Err() != nil || l.TopicID() != otherID || l.EndOffset() != 1 {
		t.Fatalf("%v, end %d", l.Err(), l.EndOffset())
	}
}

func TestDelete(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	p := watch(l)
	f.mustAppend(l, batchOf(testStartMs, 1, 100))
	if err := p.await(1); err != nil {
		t.Fatal(err)
	}
	r, err := l.Read(0, 1000, 1, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.e.Delete(l.TP()); err != nil {
		t.Fatal(err)
	}
	if err := f.e.Delete(l.TP()); err != nil {
		t.Fatal("deleting twice", err)
	}
	if err := p.awaitFailure(); !errors.Is(err, ErrDeleted) || !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if a := appendBatch(l, batchOf(testStartMs, 1, 10)); !errors.Is(a.Err, ErrDeleted) {
		t.Fatal(a.Err)
	}
	if _, err := l.Read(0, 1000, 1, true); !errors.Is(err, ErrDeleted) {
		t.Fatal(err)
	}
	buf := make([]byte, r.N)
	if _, err := r.ReadAt(buf, 0); err != nil {
		t.Fatal("a range must outlive its log:", err)
	}
	r.Release()
	if exists(mem.Crash(vfs.LoseUnsynced), "/data/t-0") {
		t.Fatal("the deletion is not durable")
	}
	if n := deletedDirs(t, mem); n != 1 {
		t.Fatalf("%d deleted directories", n)
	}
	// The delay goes on over a restart.
	f.restart()
	f.e.Tick(f.clock.advance(59_000))
	if n := deletedDirs(t, mem); n != 1 {
		t.Fatalf("%d deleted directories", n)
	}
	f.e.Tick(f.clock.advance(2_000))
	if n := deletedDirs(t, mem); n != 0 {
		t.Fatalf("%d deleted directories after the delay", n)
	}
}

func deletedDirs(t *testing.T, fsys vfs.FS) (n int) {
	t.Helper()
	entries, err := fsys.ReadDir("/data")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if isDeletedDirName(e.Name) {
			n++
		}
	}
	return n
}

// A deleted and re-created partition, then a crash: the old recovery point must not make the new log look damaged.
func TestRecreateAfterDelete(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	for range 10 {
		f.mustAppend(l, batchOf(testStartMs, 1, 10))
	}
	f.restart() // the checkpoint files speak about ten records
	l = f.log("t", nil)
	if err := f.e.Delete(l.TP()); err != nil {
		t.Fatal(err)
	}
	f.log("t", nil)
	f.fs = mem.Crash(vfs.LoseUnsynced)
	f.kill()
	f.open()
	l = f.log("t", nil)
	if l.Err() != nil || l.EndOffset() != 0 || l.StartOffset() != 0 {
		t.Fatalf("err %v, %d..%d", l.Err(), l.StartOffset(), l.EndOffset())
	}
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
}

// B-A11, B-A16: what nobody accounts for is renamed, never deleted.
func TestSetAside(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	path, err := f.e.SetAside(l.TP())
	if err != nil || !strings.HasSuffix(path, "-stray") || !exists(mem, path) {
		t.Fatalf("%q %v", path, err)
	}
	f.restart()
	f.e.Tick(f.clock.advance(1 << 40))
	if len(f.e.Logs()) != 0 || !exists(mem, path) {
		t.Fatal("the directory was touched")
	}
}
