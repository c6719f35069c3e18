package engine

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// fullDisk is an engine on a small disk that is filled to the last byte.
type fullDisk struct {
	*fixture
	mem   *vfs.Mem
	acked [][]byte // batches of log t, from offset from on
	from  int64
}

const fullDiskBytes = 64 << 20

func newFullDisk(t *testing.T, reserveBytes int64) *fullDisk {
	mem := vfs.NewMem(1)
	mem.SetCapacity(fullDiskBytes)
	d := &fullDisk{fixture: newFixture(t, mem), mem: mem}
	d.tweak = func(o *Options) {
		o.Defaults.LogDirReserveBytes = reserveBytes
		o.CheckpointStepBytes = 1
	}
	d.open()
	return d
}

// data is the log that fills the disk: segments of 1 MiB.
func (d *fullDisk) data() *Log {
	return d.logWith("t", small(d.t, func(c *config.Topic) { c.SegmentBytes, c.RetentionMs = 1<<20, -1 }))
}

func (d *fullDisk) free() int64 {
	u, err := d.mem.Usage("/data")
	if err != nil {
		d.t.Fatal(err)
	}
	return u.Free
}

func (d *fullDisk) reserved() int64 {
	info, err := d.mem.Stat("/data/" + reserveFileName)
	if err != nil {
		return 0
	}
	return info.Size
}

// fill appends until there is no space, and then lets something else take what the engine's steps have left. All is acknowledged by a flush round.
func (d *fullDisk) fill(l *Log) {
	d.t.Helper()
	p := watch(l)
	for size := 200_000; size >= 200; size /= 10 {
		for {
			a := appendBatch(l, batchOf(testStartMs, 1, size))
			if a.Err != nil {
				if !errors.Is(a.Err, ErrDiskFull) || errors.Is(a.Err, ErrStorage) {
					d.t.Fatalf("append to a full disk: %v", a.Err)
				}
				break
			}
			d.acked = append(d.acked, bytes.Clone(a.Batch))
		}
	}
	if err := p.await(l.EndOffset()); err != nil {
		d.t.Fatal(err)
	}
	d.settle()
	d.mem.SetCapacity(fullDiskBytes - d.free())
	if d.free() != 0 {
		d.t.Fatalf("%d bytes are free", d.free())
	}
}

// check reads everything that was acknowledged.
func (d *fullDisk) check(l *Log) {
	d.t.Helper()
	got := d.readAll(l, l.StartOffset(), l.EndOffset())
	want := d.acked[l.StartOffset()-d.from:]
	if !slices.EqualFunc(got, want, func(a record.Batch, b []byte) bool { return bytes.Equal(a, b) }) {
		d.t.Fatalf("%d batches from %d on, acknowledged were %d", len(got), l.StartOffset(), len(want))
	}
}

func (d *fullDisk) space() space { return d.e.dirs[0].reserve.space() }

// With not one byte free, everything that makes room or keeps the promises still works: checkpoints, DeleteRecords, retention, deletion of partitions,
// the log that needs the reserve, creation of a partition that was decided, restarts of both kinds. And it is over when space returns.
func TestReserve(t *testing.T) {
	d := newFullDisk(t, reserveBytesMin)
	const want = reserveBytesMin
	if d.reserved() != want || d.space() != spaceRoom {
		t.Fatalf("reserve %d, state %d", d.reserved(), d.space())
	}
	l, victim, meta := d.data(), d.log("victim", nil), d.log("meta", nil)
	meta.UseReserve()
	victimWatch, metaWatch := watch(victim), watch(meta)
	d.mustAppend(victim, batchOf(testStartMs, 1, 900_000))
	if err := victimWatch.await(1); err != nil {
		t.Fatal(err)
	}
	d.fill(l)
	if d.space() != spaceFull || d.reserved() != want || !d.e.Dirs()[0].Full {
		t.Fatalf("state %d, reserve %d", d.space(), d.reserved())
	}
	if err := d.e.Room(1); !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), "/data") {
		t.Fatalf("room: %v", err)
	}
	point := l.promise.recoveryPoint.Load()
	d.e.Tick(d.clock.advance(100_000))
	if now := l.promise.recoveryPoint.Load(); now <= point || now != l.FlushedOffset() {
		t.Fatalf("recovery point %d, was %d, flushed %d", now, point, l.FlushedOffset())
	}
	if d.space() != spaceTapped {
		t.Fatalf("the checkpoint found space: state %d, free %d", d.space(), d.free())
	}
	for i := range 200 { // what is free now is not for data
		if a := appendBatch(l, batchOf(testStartMs, 1, 100_000)); !errors.Is(a.Err, ErrDiskFull) {
			t.Fatalf("append %d: %v", i, a.Err)
		}
	}
	for range 20 { // but for this
		d.mustAppend(meta, batchOf(testStartMs, 1, 10_000))
	}
	if err := metaWatch.await(20); err != nil {
		t.Fatal(err)
	}
	d.log("decided", nil)
	d.check(l)

	for round := range 2 { // a start after a kill, and one after a clean stop
		d.mem.SetCapacity(fullDiskBytes - d.free()) // somebody else takes what is left again
		if round == 0 {
			d.kill()
			d.open()
		} else {
			d.restart()
		}
		l, victim, meta = d.data(), d.log("victim", nil), d.log("meta", nil)
		created := d.log("decided", nil)
		meta.UseReserve()
		watch(l)
		watch(victim)
		if l.Err() != nil || meta.EndOffset() != 20 || created.Err() != nil || d.space() != spaceTapped {
			t.Fatalf("round %d: %v, end %d, %v, state %d", round, l.Err(), meta.EndOffset(), created.Err(), d.space())
		}
		d.check(l)
	}

	d.mem.SetCapacity(fullDiskBytes - d.free())
	segments := len(l.segs.Load().list)
	half := l.segs.Load().list[segments/2].Base()
	if start, err := l.DeleteRecords(half); err != nil || start != half {
		t.Fatalf("DeleteRecords: %d, %v", start, err)
	}
	if err := d.e.Delete(victim.TP()); err != nil {
		t.Fatalf("delete: %v", err)
	}
	d.e.Tick(d.clock.advance(fullRetentionMs)) // neither log.retention.check.interval.ms nor file.delete.delay.ms is waited for
	d.e.Tick(d.clock.advance(1_000))
	d.settle()
	if d.free() < 10<<20 {
		t.Fatalf("%d bytes are free after deleting half of everything", d.free())
	}
	d.e.Tick(d.clock.advance(1_000))
	if d.space() != spaceRoom || d.reserved() != want || d.e.Room(1<<20) != nil {
		t.Fatalf("state %d, reserve %d, %v", d.space(), d.reserved(), d.e.Room(1<<20))
	}
	p := watch(l)
	a := d.mustAppend(l, batchOf(testStartMs, 1, 200_000))
	d.acked = append(d.acked, bytes.Clone(a.Batch))
	if err := p.await(l.EndOffset()); err != nil {
		t.Fatal(err)
	}
	d.check(l)
	for _, said := range []string{"log directory is full", "its reserve is in use", "log directory has space again"} {
		if !strings.Contains(d.logs.String(), said) {
			t.Errorf("the log does not say %q", said)
		}
	}
	d.restart()
	d.check(d.data())
}

// E1: a start needs no space: not without a reserve, not after a kill, not when all checkpoints are old, not when index files are gone.
func TestStartOnFullDiskWithoutReserve(t *testing.T) {
	d := newFullDisk(t, 0)
	l := d.data()
	d.fill(l)
	if _, err := d.mem.Stat("/data/" + reserveFileName); err == nil || d.reserved() != 0 {
		t.Fatal("there is a reserve")
	}
	for round := range 4 {
		switch round {
		case 0, 1:
			d.kill()
		case 2:
			_ = d.e.Close(context.Background()) // it cannot be clean
		case 3:
			d.kill()
			list, err := d.mem.ReadDir(l.path)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				if strings.HasSuffix(e.Name, indexSuffix) || strings.HasSuffix(e.Name, timeIndexSuffix) {
					if err := d.mem.Remove(l.path + "/" + e.Name); err != nil {
						t.Fatal(err)
					}
				}
			}
			d.mem.SetCapacity(fullDiskBytes - d.free())
		}
		if _, err := d.tryOpen(); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, d.logs)
		}
		l = d.e.Log(TopicPartition{Topic: "t"})
		d.check(l)
		if err := d.e.Delete(TopicPartition{Topic: "none"}); err != nil {
			t.Fatal(err)
		}
	}
	watch(l)
	if err := d.e.Delete(l.TP()); err != nil {
		t.Fatal(err)
	}
	d.e.Tick(d.clock.advance(1_000))
	d.settle()
	d.e.Tick(d.clock.advance(1_000))
	if d.space() != spaceRoom {
		t.Fatalf("state %d, free %d", d.space(), d.free())
	}
	d.mustAppend(d.log("next", nil), batchOf(testStartMs, 1, 100))
}

// A reserve that cannot be made for want of space is made later; another size in the configuration is followed.
func TestReserveSize(t *testing.T) {
	for _, c := range []struct{ configured, total, want int64 }{
		{-1, 1 << 40, reserveBytesMax}, {-1, 8 << 30, 8 << 20}, {-1, 1 << 30, reserveBytesMin}, {-1, 16 << 20, 1 << 20}, {-1, 0, reserveBytesMin}, {0, 1 << 40, 0}, {5, 1 << 40, 5},
	} {
		if got := reserveBytes(c.configured, c.total); got != c.want {
			t.Errorf("configured %d of %d: %d, want %d", c.configured, c.total, got, c.want)
		}
	}
	d := newFullDisk(t, 1<<20)
	for _, size := range []int64{3 << 20, 100, 1 << 20} {
		d.tweak = func(o *Options) { o.Defaults.LogDirReserveBytes = size }
		d.restart()
		if d.reserved() != size {
			t.Fatalf("reserve %d, want %d", d.reserved(), size)
		}
	}
	used := fullDiskBytes - d.free()
	d.mem.SetCapacity(used + 1<<20)
	d.tweak = func(o *Options) { o.Defaults.LogDirReserveBytes = 4 << 20 }
	d.restart()
	if d.space() != spaceTapped || d.reserved() != 1<<20 {
		t.Fatalf("state %d, reserve %d", d.space(), d.reserved())
	}
	d.mem.SetCapacity(fullDiskBytes)
	d.e.Tick(d.clock.advance(1_000))
	if d.space() != spaceRoom || d.reserved() != 4<<20 {
		t.Fatalf("state %d, reserve %d", d.space(), d.reserved())
	}
}

// A quota answers as a full disk does, while the file system says that much is free: what counts is what can be had.
func TestQuota(t *testing.T) {
	mem := vfs.NewMem(1)
	fault := vfs.NewFault(mem)
	f := newFixture(t, fault)
	f.open()
	l := f.log("t", nil)
	quota := fault.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpAllocate, vfs.OpWrite), Err: errQuota})
	if a := appendBatch(l, batchOf(testStartMs, 1, 100)); !errors.Is(a.Err, ErrDiskFull) {
		t.Fatal(a.Err)
	}
	for range 3 {
		f.e.Tick(f.clock.advance(1_000))
		if f.e.dirs[0].reserve.space() == spaceRoom {
			t.Fatal("nothing can be written, and there is room")
		}
	}
	quota.Remove()
	f.e.Tick(f.clock.advance(1_000))
	f.mustAppend(l, batchOf(testStartMs, 1, 100))
}

// Of two directories the one with room gets the new partitions, and a full one does not keep the other from taking appends.
func TestOneOfTwoDisksFull(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem(1))
	f := newFixture(t, fault)
	f.dirs = []string{"/a", "/b"}
	f.open()
	onA, onB := f.log("one", nil), f.log("two", nil)
	if onA.Dir() == onB.Dir() {
		t.Fatal("both in one directory")
	}
	fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpAllocate && strings.HasPrefix(op.Name, onA.Dir()) }, Err: syscall.ENOSPC})
	if a := appendBatch(onA, batchOf(testStartMs, 1, 100)); !errors.Is(a.Err, ErrDiskFull) || !strings.Contains(a.Err.Error(), onA.Dir()) {
		t.Fatal(a.Err)
	}
	f.mustAppend(onB, batchOf(testStartMs, 1, 100))
	for _, topic := range []string{"three", "four", "five"} {
		if l := f.log(topic, nil); l.Dir() != onB.Dir() {
			t.Fatalf("%s lies in %s", topic, l.Dir())
		}
	}
	if err := f.e.Room(1000); err != nil {
		t.Fatal(err)
	}
}
