package metadata

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

func TestSnapshotNames(t *testing.T) {
	want := snapshotID{offset: 123, epoch: 4}
	if got, ok := parseSnapshotName("00000000000000000123-0000000004.checkpoint"); !ok || got != want || want.file() != "00000000000000000123-0000000004.checkpoint" {
		t.Errorf("%v %v", got, ok)
	}
	for _, name := range []string{"", "123-4.checkpoint", "00000000000000000123-0000000004.checkpoint.tmp", "00000000000000000123.log",
		"0000000000000000-123-0000000004.checkpoint", "00000000000000000123-00000000-4.checkpoint"} {
		if id, ok := parseSnapshotName(name); ok {
			t.Errorf("%q is %v", name, id)
		}
	}
}

// fullImage has one of everything, and enough topics for several batches.
func fullImage(t testing.TB) *Image {
	image := brokers(t, 3, 2)
	image, _ = apply(t, image, FeatureLevel{Name: "f", Level: 3}, ProducerIDs{Next: 5000},
		ConfigRecord{Resource: BrokerResource, Name: "", Key: "k", Value: "v"}, ConfigRecord{Resource: BrokerResource, Name: "2", Key: "k", Value: "w"},
		ConfigRecord{Resource: GroupResource, Name: "g2", Key: "k", Value: "x"}, ConfigRecord{Resource: GroupResource, Name: "g1", Key: "k", Value: "y"},
		BrokerChange{ID: 3, Epoch: 2, Fenced: true})
	for n := range 200 {
		image, _ = apply(t, image, topicRecords(fmt.Sprintf("t%03d", n), byte(n+1), 5, 1)...)
	}
	image, _ = apply(t, image, ConfigRecord{Resource: TopicResource, Name: "t007", Key: "retention.ms", Value: "9"},
		PartitionChange{TopicID: id(8), Partition: 2, Leader: -1, ISR: []int32{}, ELR: []int32{1}}, RemoveTopic{ID: id(20)},
		BrokerRegistration{ID: 1, Epoch: -1, Incarnation: id(99)})
	return image
}

func TestSnapshotRoundTrip(t *testing.T) {
	fsys := vfs.NewMem(1)
	if err := fsys.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, image := range []*Image{Empty(), brokers(t, 1, 0), fullImage(t)} {
		image.epoch = max(image.epoch, 0)
		if err := writeSnapshot(fsys, testDir, image, 1000); err != nil {
			t.Fatal(err)
		}
		got, err := readSnapshot(fsys, testDir, snapshotID{image.offset, image.epoch})
		if err != nil {
			t.Fatal(err)
		}
		if imageText(got) != imageText(image) {
			t.Errorf("came back as\n%s, was\n%s", imageText(got), imageText(image))
		}
	}
}

// TestSnapshotDamage: a snapshot with any byte changed or cut away is refused, never half believed (B-A11).
func TestSnapshotDamage(t *testing.T) {
	fsys := vfs.NewMem(1)
	if err := fsys.MkdirAll(testDir, 0o755); err != nil {
		t.Fatal(err)
	}
	image, _ := apply(t, brokers(t, 1, 0), topicRecords("a", 1, 1, 1)...)
	if err := writeSnapshot(fsys, testDir, image, 1000); err != nil {
		t.Fatal(err)
	}
	snap := snapshotID{image.offset, image.epoch}
	name := filepath.Join(testDir, snap.file())
	good, err := vfs.ReadFile(fsys, name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f := func(what string, data []byte) {
		t.Helper()
		put(t, fsys, name, data)
		got, err := readSnapshot(fsys, testDir, snap)
		if err == nil && imageText(got) == imageText(image) {
			return // a byte that no CRC covers and nobody reads, such as the offset of the batch
		}
		var format *FormatError
		if !errors.As(err, &format) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := range good {
		f(fmt.Sprint("cut at ", n), good[:n])
		for _, bit := range []byte{1, 0x80} {
			changed := bytes.Clone(good)
			changed[n] ^= bit
			f(fmt.Sprint("changed at ", n), changed)
		}
	}
	f("something behind it", append(bytes.Clone(good), 0))
	f("zeros behind it", append(bytes.Clone(good), make([]byte, 4096)...))
	f("twice", append(bytes.Clone(good), good...))
	f("zeros", make([]byte, len(good)))
	f("empty", nil) // A28
	other, _ := apply(t, image, NoOp{})
	if err := writeSnapshot(fsys, testDir, other, 1000); err != nil {
		t.Fatal(err)
	}
	data, err := vfs.ReadFile(fsys, filepath.Join(testDir, snapshotID{other.offset, other.epoch}.file()), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	f("another snapshot under this name", data)
}

func put(t testing.TB, fsys vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fsys.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close(), fsys.SyncDir(filepath.Dir(name))); err != nil {
		t.Fatal(err)
	}
}

// snapshotted is a log with two snapshots, trimmed to the older, and what the image was.
func snapshotted(t *testing.T) (Options, *memLog, string) {
	t.Helper()
	l := newMemLog()
	o := testOptions(t, vfs.NewMem(1))
	o.SnapshotRecords = 20
	m, err := open(o, l, testDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	register(t, m)
	for n := 0; ; n++ {
		create(t, m, spec(fmt.Sprint("t", n), 3, 1))
		if start, _ := l.bounds(); start > 0 && n > 20 {
			break
		}
	}
	create(t, m, spec("last", 1, 1))
	text := imageText(m.Image())
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return o, l, text
}

func TestSnapshotAndTrim(t *testing.T) {
	o, l, want := snapshotted(t)
	ids, err := listSnapshots(o.FS, testDir)
	if err != nil || len(ids) != snapshotsKept || l.mu.start != ids[1].offset {
		t.Fatalf("snapshots %v, log begins at %d, %v", ids, l.mu.start, err)
	}
	if m := openTest(t, testOptions(t, o.FS), l.reopen()); imageText(m.Image()) != want {
		t.Errorf("after a restart\n%s, before\n%s", imageText(m.Image()), want)
	}
}

// A snapshot that somebody has removed, which they may once there are newer ones, is no reason to complain for ever.
func TestRemovedSnapshot(t *testing.T) {
	o, l, _ := snapshotted(t)
	ids, err := listSnapshots(o.FS, testDir)
	if err != nil {
		t.Fatal(err)
	}
	m := openTest(t, testOptions(t, o.FS), l.reopen())
	if err := o.FS.Remove(filepath.Join(testDir, ids[1].file())); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		image, _ := apply(t, m.Image(), NoOp{})
		m.image.Store(image)
		if err := m.snapshots.write(image); err != nil {
			t.Error(err)
		}
	}
}

// TestDamagedSnapshots: the newest damaged, the one before and the log make the same image; both damaged, the start is
// refused, for the log begins too late (B-A11, B-D5).
func TestDamagedSnapshots(t *testing.T) {
	o, l, want := snapshotted(t)
	ids, err := listSnapshots(o.FS, testDir)
	if err != nil {
		t.Fatal(err)
	}
	damage := func(id snapshotID) { put(t, o.FS, filepath.Join(testDir, id.file()), []byte("not a snapshot")) }
	damage(ids[0])
	m, err := open(testOptions(t, o.FS), l.reopen(), testDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := imageText(m.Image()); got != want {
		t.Errorf("from the older snapshot\n%s, want\n%s", got, want)
	}
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	damage(ids[1])
	refused(t, o, l.reopen(), 0)
	for _, id := range ids {
		if err := o.FS.Remove(filepath.Join(testDir, id.file())); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, o, l.reopen(), 0)
}

// refused expects that a start is refused with a sentence that names a fix.
func refused(t *testing.T, o Options, l *memLog, others int) {
	t.Helper()
	m, err := open(testOptions(t, o.FS), l, testDir, others)
	var format *FormatError
	if !errors.As(err, &format) || format.Fix == "" {
		t.Errorf("opened with %v", err)
	}
	if err == nil {
		_ = m.Close(ctx)
	}
}

func TestLostLogIsRefused(t *testing.T) {
	o, l, _ := snapshotted(t)
	lost := l.reopen()
	lost.mu.batches, lost.mu.start, lost.mu.end, lost.mu.committed = nil, 0, 0, 0
	refused(t, o, lost, 0)
	gap := l.reopen()
	gap.mu.batches = append(gap.mu.batches[:1:1], gap.mu.batches[2:]...)
	ids, _ := listSnapshots(o.FS, testDir)
	put(t, o.FS, filepath.Join(testDir, ids[0].file()), nil) // so that the gap matters
	refused(t, o, gap, 0)
}

// TestMetadataGoneButPartitionsThere: without metadata, partitions on disk are not garbage (B-A11).
func TestMetadataGoneButPartitionsThere(t *testing.T) {
	refused(t, testOptions(t, vfs.NewMem(1)), newMemLog(), 3)
}

func TestNewerRecordIsRefused(t *testing.T) {
	l := newMemLog()
	o := testOptions(t, vfs.NewMem(1))
	m, err := open(o, l, testDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(ctx); err != nil {
		t.Fatal(err)
	}
	b := batchOf([]byte{50, 0})
	if _, err := l.append(b); err != nil {
		t.Fatal(err)
	}
	_, err = open(testOptions(t, o.FS), l.reopen(), testDir, 0)
	var format *FormatError
	if !errors.As(err, &format) || !format.Newer || format.Fix == "" {
		t.Errorf("opened with %v", err)
	}
}

// TestSnapshotCrash: a crash at any operation of writing a snapshot leaves either a whole one or none.
func TestSnapshotCrash(t *testing.T) {
	image := fullImage(t)
	for _, mode := range vfs.CrashModes {
		for at := 0; ; at++ {
			disk, ended := crashInSnapshot(t, image, at, mode)
			ids, err := listSnapshots(disk, testDir)
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range ids {
				if got, err := readSnapshot(disk, testDir, id); err != nil || imageText(got) != imageText(image) {
					t.Fatalf("crash %v after operation %d: %v", mode, at, err)
				}
			}
			if ended {
				if len(ids) != 1 {
					t.Fatalf("crash %v after the end: %v", mode, ids)
				}
				break
			}
		}
	}
}

// crashInSnapshot writes a snapshot and returns the disk after a crash at the operation, or after the end.
func crashInSnapshot(t *testing.T, image *Image, at int, mode vfs.CrashMode) (disk *vfs.Mem, ended bool) {
	t.Helper()
	mem := vfs.NewMem(uint64(at))
	if err := errors.Join(mem.MkdirAll(testDir, 0o755), mem.SyncDir(filepath.Dir(testDir))); err != nil {
		t.Fatal(err)
	}
	ops := 0
	mem.OnOp = func(vfs.Op) {
		if ops == at {
			disk = mem.Crash(mode)
		}
		ops++
	}
	if err := writeSnapshot(mem, testDir, image, 1000); err != nil {
		t.Fatal(err)
	}
	mem.OnOp = nil
	if disk != nil {
		return disk, false
	}
	return mem.Crash(mode), true
}

func FuzzSnapshot(f *testing.F) {
	fsys := vfs.NewMem(1)
	if err := fsys.MkdirAll(testDir, 0o755); err != nil {
		f.Fatal(err)
	}
	image, _ := apply(f, brokers(f, 1, 0), topicRecords("a", 1, 1, 1)...)
	if err := writeSnapshot(fsys, testDir, image, 1000); err != nil {
		f.Fatal(err)
	}
	snap := snapshotID{image.offset, image.epoch}
	good, err := vfs.ReadFile(fsys, filepath.Join(testDir, snap.file()), 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		put(t, fsys, filepath.Join(testDir, snap.file()), b)
		if _, err := readSnapshot(fsys, testDir, snap); err != nil {
			var format *FormatError
			if !errors.As(err, &format) {
				t.Fatal(err)
			}
		}
	})
}

// metadata.log.max.snapshot.interval.ms: a snapshot when the last is so old, if there is anything new; none when nothing is, none with 0.
func TestSnapshotByTime(t *testing.T) {
	o := testOptions(t, vfs.NewMem(1))
	o.SnapshotIntervalMs = 1000
	m := openTest(t, o, newMemLog())
	register(t, m)
	snapshots := func() int {
		m.snapshots.done.Wait()
		ids, err := listSnapshots(o.FS, testDir)
		if err != nil {
			t.Fatal(err)
		}
		return len(ids)
	}
	for _, step := range []struct {
		nowMs int64
		want  int
	}{{5000, 0}, {5999, 0}, {6000, 1}, {7000, 1}, {9000, 1}} { // the first tick begins the time; then nothing is new
		m.Tick(step.nowMs)
		if got := snapshots(); got != step.want {
			t.Errorf("at %d: %d snapshots, want %d", step.nowMs, got, step.want)
		}
	}
	create(t, m, spec("t", 1, 1))
	m.Tick(10000)
	if got := snapshots(); got != 2 {
		t.Errorf("%d snapshots after a change", got)
	}
	m.o.SnapshotIntervalMs = 0
	create(t, m, spec("u", 1, 1))
	m.Tick(1 << 40)
	if got := snapshots(); got != 2 {
		t.Errorf("%d snapshots without an interval", got)
	}
}
