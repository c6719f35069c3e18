package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

func TestOpenEmpty(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	e := f.open()
	id := e.ClusterID()
	if len(id) != 22 || e.NodeID() != 1 || len(e.Logs()) != 0 || e.Log(TopicPartition{Topic: "t"}) != nil {
		t.Fatalf("cluster id %q", id)
	}
	e = f.restart()
	if e.ClusterID() != id {
		t.Fatalf("cluster id changed from %q to %q", id, e.ClusterID())
	}
}

func TestOpenForeignDirectory(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	f.close()
	var meta *MetaPropertiesError
	f.tweak = func(o *Options) { o.NodeID = 2 }
	if _, err := f.tryOpen(); !errors.As(err, &meta) {
		t.Fatalf("other node: %v", err)
	}
	f.tweak = func(o *Options) { o.ClusterID = "another" }
	if _, err := f.tryOpen(); !errors.As(err, &meta) {
		t.Fatalf("other cluster: %v", err)
	}
	f.tweak = nil
	f.open() // the locks were given back
}

func TestTwoEnginesOnOneDirectory(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	first := f.e
	_, err := f.tryOpen()
	var locked *vfs.LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("second open: %v", err)
	}
	if first.closed() {
		t.Fatal("the first engine was disturbed")
	}
}

func TestCleanRestartScansNothing(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.open()
	cfg := *topicConfig(t, nil)
	cfg.SegmentBytes = 50_000
	l, err := f.e.Create(TopicPartition{Topic: "t"}, testID, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		f.mustAppend(l, batchOf(testStartMs, 1, 10_000))
	}
	f.close()
	read := int64(0)
	fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool {
		if op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, logSuffix) {
			read += op.N
		}
		return false
	}})
	f.open()
	if read > 100_000 {
		t.Errorf("a clean start read %d bytes of logs", read)
	}
	if l := f.log("t", nil); l.EndOffset() != 100 || l.FlushedOffset() != 100 || len(f.readAll(l, 0, 100)) != 100 {
		t.Errorf("end %d", l.EndOffset())
	}
}

// R7, R8, D2: a start after a crash reads what is above the checkpointed recovery point, not the whole log.
func TestUncleanRestartScansTheTail(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.open()
	l := f.log("t", nil)
	p := watch(l)
	for i := range int64(3000) {
		f.mustAppend(l, batchOf(testStartMs+i, 1, 10_000))
	}
	if err := p.await(3000); err != nil {
		t.Fatal(err)
	}
	f.e.Tick(f.clock.advance(120_000)) // the periodic checkpoint
	for i := range int64(10) {
		f.mustAppend(l, batchOf(testStartMs+3000+i, 1, 10_000))
	}
	if err := p.await(3010); err != nil {
		t.Fatal(err)
	}
	point := l.promise.recoveryPoint.Load()
	f.kill()
	read := int64(0)
	fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool {
		if op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, logSuffix) {
			read += op.N
		}
		return false
	}})
	f.open()
	if read > 10_000_000 {
		t.Errorf("the start read %d bytes of a log with 100 kB above the recovery point %d\n%s", read, point, f.logs)
	}
	l = f.log("t", nil)
	if l.EndOffset() != 3010 || len(f.readAll(l, 0, 3010)) != 3010 {
		t.Errorf("end %d", l.EndOffset())
	}
}

// A6: crash, restart, append, crash, restart.
func TestTwoCrashes(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	p := watch(l)
	end := int64(0)
	for round := range 4 {
		for range 5 {
			f.mustAppend(l, batchOf(testStartMs, 2, 500))
			end += 2
		}
		if err := p.await(end); err != nil {
			t.Fatal(err)
		}
		mem = mem.Crash(vfs.CrashModes[round%len(vfs.CrashModes)])
		f.kill()
		f.fs = mem
		f.open()
		l = f.log("t", nil)
		p = watch(l)
		if l.EndOffset() != end {
			t.Fatalf("round %d: end %d, want %d", round, l.EndOffset(), end)
		}
		f.readAll(l, 0, end)
	}
}

// A torn tail above the flushed offset is cut, and the cut is told.
func TestTornTailIsCut(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	for range 3 {
		f.mustAppend(l, batchOf(testStartMs, 1, 500))
	}
	f.kill()
	name := filepath.Join(l.path, logFileName(0))
	size := l.segsSizeForTest(t, mem, name)
	corrupt(t, mem, name, size-10)
	f.open()
	l = f.log("t", nil)
	if l.EndOffset() != 2 || len(f.readAll(l, 0, 2)) != 2 {
		t.Fatalf("end %d", l.EndOffset())
	}
	if !strings.Contains(f.logs.String(), "cut the tail") {
		t.Fatal("the cut was not logged")
	}
	f.mustAppend(l, batchOf(testStartMs, 1, 500))
}

// segsSizeForTest returns the bytes of batches in the file name, by walking it.
func (l *Log) segsSizeForTest(t *testing.T, fsys vfs.FS, name string) int64 {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	n, _ := record.Walk(data, func(int, record.Batch) error { return nil })
	return int64(n)
}

// corrupt flips the byte at pos.
func corrupt(t *testing.T, fsys vfs.FS, name string, pos int64) {
	t.Helper()
	file, err := fsys.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, pos); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0xff
	if _, err := file.WriteAt(b, pos); err != nil {
		t.Fatal(err)
	}
}

// Damage below the recovery point is never cut away: the log fails, and what is whole stays readable.
func TestDamageBelowTheRecoveryPoint(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	p := watch(l)
	for range 300 {
		f.mustAppend(l, batchOf(testStartMs, 1, 10_000))
	}
	if err := p.await(300); err != nil {
		t.Fatal(err)
	}
	f.e.Tick(f.clock.advance(120_000))
	f.kill()
	name := filepath.Join(l.path, logFileName(0))
	file, err := mem.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Truncate(1_000_000); err != nil { // what was durable is gone
		t.Fatal(err)
	}
	file.Close()
	for range 2 { // a restart does not heal it either
		f.open()
		l = f.log2("t")
		var damage *DamageError
		if err := l.Err(); !errors.Is(err, ErrStorage) || !errors.As(err, &damage) {
			t.Fatalf("log error %v", err)
		}
		if a := appendBatch(l, batchOf(testStartMs, 1, 10)); !errors.Is(a.Err, ErrStorage) {
			t.Fatalf("append: %v", a.Err)
		}
		if l.EndOffset() != 300 {
			t.Fatalf("end %d: offsets would be used again", l.EndOffset())
		}
		if n := len(f.readAll(l, 0, 90)); n != 90 {
			t.Fatalf("%d batches before the damage", n)
		}
		if _, err := l.Read(200, 1000, 300, true); !errors.Is(err, ErrStorage) {
			t.Fatalf("read at the damage: %v", err)
		}
		_ = f.e.Close(context.Background())
	}
}

// log2 returns the log of partition 0 of topic as it is.
func (f *fixture) log2(topic string) *Log {
	f.t.Helper()
	l := f.e.Log(TopicPartition{Topic: topic})
	if l == nil {
		f.t.Fatalf("no log of %s", topic)
	}
	return l
}

// R6, A10, A20, A23, D1: a missing or broken derived file is rebuilt and blocks nothing.
func TestDerivedFilesAreRebuilt(t *testing.T) {
	files := []string{recoveryPointFileName, logStartFileName, highWatermarkFileName, "t-0/" + leaderEpochFileName, "t-0/" + partitionMetadataFileName,
		"t-0/" + indexFileName(0), "t-0/" + timeIndexFileName(0), "t-0/" + snapshotFileName(20)}
	for _, clean := range []bool{true, false} {
		for _, name := range files {
			for _, how := range []string{"missing", "empty", "garbage", "zeros"} {
				t.Run(fmt.Sprintf("%s,%s,clean=%v", filepath.Base(name), how, clean), func(t *testing.T) {
					testDerivedFile(t, clean, name, how)
				})
			}
		}
	}
}

func testDerivedFile(t *testing.T, clean bool, name, how string) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.log("t", nil)
	for i := range int32(20) {
		if a := appendAs(l, idempotentBatch(3, 0, i, 1), FromClient, i/10); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	f.close()
	if !clean {
		f.open()
		f.kill()
	}
	path := filepath.Join("/data", name)
	var data []byte
	switch how {
	case "garbage":
		data = []byte("nonsense that is no file of ours\x00\x01\x02 garbage garbage garbage garbage")
	case "zeros":
		data = make([]byte, 96)
	}
	if how == "missing" {
		if err := mem.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	} else if err := vfs.WriteFileAtomic(mem, path, data); err != nil {
		t.Fatal(err)
	}
	f.open()
	l = f.log("t", nil)
	if l.Err() != nil || l.EndOffset() != 20 || len(f.readAll(l, 0, 20)) != 20 {
		t.Fatalf("err %v, end %d", l.Err(), l.EndOffset())
	}
	if a := f.mustAppend(l, idempotentBatch(3, 0, 19, 1)); !a.Duplicate || a.BaseOffset != 19 {
		t.Errorf("duplicate not recognised: %+v", a)
	}
	if a := f.mustAppend(l, idempotentBatch(3, 0, 20, 1)); a.BaseOffset != 20 {
		t.Errorf("%+v", a)
	}
	if l.LatestEpoch() != 1 || l.EpochAt(5) != 0 || l.EpochAt(15) != 1 {
		t.Errorf("epochs: latest %d, %d, %d", l.LatestEpoch(), l.EpochAt(5), l.EpochAt(15))
	}
}

// B-A5: the marker is gone durably before anything is loaded.
func TestCleanMarkerGoesFirst(t *testing.T) {
	mem := vfs.NewMem(1)
	fault := vfs.NewFault(mem)
	f := newFixture(t, fault)
	f.open()
	f.log("t", nil)
	f.close()
	if !exists(mem, "/data/"+cleanMarkerFileName) {
		t.Fatal("no marker after a clean stop")
	}
	loaded := false
	fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool {
		if strings.Contains(op.Name, "t-0") && !loaded {
			loaded = true
			if exists(mem.Crash(vfs.LoseUnsynced), "/data/"+cleanMarkerFileName) {
				t.Error("the marker would survive a crash while logs are loaded")
			}
		}
		return false
	}})
	f.open()
	if !loaded {
		t.Fatal("nothing was loaded")
	}
}

func exists(fsys vfs.FS, name string) bool {
	_, err := fsys.Stat(name)
	return err == nil
}

// B-A6, B-A7: a directory that was not loaded, or whose stop failed, is not marked clean.
func TestNoCleanMarkerAfterFailures(t *testing.T) {
	mem := vfs.NewMem(1)
	fault := vfs.NewFault(mem)
	f := newFixture(t, fault)
	f.open()
	l := f.log("t", nil)
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	f.close()

	in := fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return strings.HasSuffix(op.Name, logSuffix) }, Err: syscall.EIO, Sticky: true})
	if _, err := f.tryOpen(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("open: %v", err)
	}
	in.Remove()
	if exists(mem, "/data/"+cleanMarkerFileName) {
		t.Fatal("marker after a failed start")
	}

	f.open()
	l = f.log("t", nil)
	p := watch(l)
	fault.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpSync), Nth: 1, Err: syscall.EIO})
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	if err := p.awaitFailure(); err == nil {
		t.Fatal("no failure")
	}
	_ = f.e.Close(context.Background())
	if exists(mem, "/data/"+cleanMarkerFileName) {
		t.Fatal("marker after a failed sync")
	}
}

// B-A17: with a directory that could not be loaded, no partition begins anew.
func TestUnloadedDirectoryBlocksNewPartitions(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.dirs = []string{"/d1", "/d2"}
	f.open()
	for i := range int32(4) {
		if _, err := f.e.Create(TopicPartition{"t", i}, testID, topicConfig(t, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := f.e.dirs[0].count(), f.e.dirs[1].count(); a != 2 || b != 2 {
		t.Fatalf("%d and %d logs", a, b)
	}
	f.close()
	fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpReadDir && op.Name == "/d2" }, Err: syscall.EIO, Sticky: true})
	f.open()
	if n := len(f.e.Logs()); n != 2 {
		t.Fatalf("%d logs", n)
	}
	for i := range int32(4) {
		l, err := f.e.Create(TopicPartition{"t", i}, testID, topicConfig(t, nil))
		switch {
		case err == nil && l.Dir() == "/d1":
		case errors.Is(err, ErrStorage):
		default:
			t.Errorf("create t-%d: %v", i, err)
		}
	}
	if n := len(f.e.Logs()); n != 2 {
		t.Fatalf("%d logs", n)
	}
}

func TestDuplicateLog(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.dirs = []string{"/d1"}
	f.open()
	f.log("t", nil)
	f.close()
	f.dirs = []string{"/d2"}
	f.tweak = func(o *Options) { o.ClusterID = f.e.ClusterID() }
	f.open()
	f.log("t", nil)
	f.close()
	f.dirs = []string{"/d1", "/d2"}
	var double *DuplicateLogError
	if _, err := f.tryOpen(); !errors.As(err, &double) {
		t.Fatalf("open: %v", err)
	}
}
