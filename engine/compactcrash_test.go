package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

// crashedLog makes a log, ready to be compacted, and returns its model. What compaction makes of it: several groups, one of which becomes two segments, a
// merge, empty batches of producers.
func crashedLog(f *fixture, cfg *config.Topic) (*Log, *progress, *compactModel) {
	l := f.logWith("t", cfg)
	p := watch(l)
	m := newCompactModel()
	for pid := int64(1); pid <= 3; pid++ {
		f.appendKeyed(l, m, record.Options{Idempotent: true, ProducerID: pid}, "a=1", "b=1", "c=")
	}
	for i := range 24 { // these stay, and get a delete horizon: the segments need more room
		f.appendKeyed(l, m, record.Options{}, fmt.Sprintf("t%d=", i), fmt.Sprintf("u%d=", i), fmt.Sprintf("v%d=", i))
	}
	f.fillKeys(l, m, 12, 8)
	f.awaitFlushed(p, l)
	return l, p, m
}

func crashCompactConfig(t testing.TB) *config.Topic {
	return compactConfig(t, func(c *config.Topic) { c.SegmentBytes, c.IndexIntervalBytes = 1_000, 200 })
}

// B-G3, C11, R5: the power is cut after every file operation of a compaction, in every way. After the restart each group of segments is the old one or the new
// one, whole; the log has what the model says, takes appends, knows its producers, can be compacted, and survives a second cut.
func TestCrashDuringCompaction(t *testing.T) {
	seed := seedOf(t)
	mem := vfs.NewMem(seed)
	f := newFixture(t, mem)
	f.open()
	cfg := crashCompactConfig(t)
	l, _, m := crashedLog(f, cfg)
	f.e.checkpoint()
	type shot struct {
		n    int
		what string
		mode vfs.CrashMode
		disk *vfs.Mem
	}
	var mu sync.Mutex
	var shots []shot
	var recording atomic.Bool
	ops, kinds := 0, map[vfs.OpKind]int{}
	outs, outsMax := 0, 0 // segments that are written to be put in place together
	mem.OnOp = func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if !recording.Load() {
			return
		}
		ops++
		kinds[op.Kind]++
		switch {
		case op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, logSuffix+segment.CleanedSuffix):
			outs++
			outsMax = max(outsMax, outs)
		case op.Kind == vfs.OpRename && strings.HasSuffix(op.NewName, logSuffix): // done
			outs = 0
		}
		for _, mode := range vfs.CrashModes {
			if testing.Short() && (ops+int(mode))%5 > 0 {
				continue
			}
			shots = append(shots, shot{ops, op.String(), mode, mem.Crash(mode)})
		}
		for range 3 { // there are many ways in which some of the names reach the disk and some do not
			if op.Kind == vfs.OpRename && !testing.Short() {
				shots = append(shots, shot{ops, op.String(), vfs.RandomPages, mem.Crash(vfs.RandomPages)})
			}
		}
	}
	before := len(l.segs.Load().list)
	recording.Store(true)
	f.e.Clean(f.clock.advance(1))
	f.settle()
	recording.Store(false)
	if s := f.e.CleanerStats(); s.Rounds != 1 || s.Failures != 0 || ops < 40 {
		t.Fatalf("%+v, %d operations\n%s", s, ops, f.logs)
	}
	if outsMax < 2 {
		t.Error("no group of segments became two") // of which a power cut could leave one
	}
	t.Logf("%d operations %v, %d shots, %d segments became %d", ops, kinds, len(shots), before, len(l.segs.Load().list))
	f.mustMatch(m, l)
	f.close()
	for _, s := range shots {
		if err := checkShot(t, s.disk, cfg, m); err != nil {
			t.Fatalf("power cut (%v) after operation %d, %s: %v", s.mode, s.n, s.what, err)
		}
	}
}

func checkShot(t *testing.T, disk *vfs.Mem, cfg *config.Topic, m *compactModel) error {
	for round, mode := range []vfs.CrashMode{vfs.KeepAll, vfs.LoseUnsynced} {
		f := newFixture(t, disk)
		if _, err := f.tryOpen(); err != nil {
			return fmt.Errorf("round %d: open: %w", round, err)
		}
		l := f.logWith("t", cfg)
		if l.Err() != nil || l.EndOffset() != m.end || l.StartOffset() != 0 {
			return fmt.Errorf("round %d: log %d..%d, want 0..%d, %v\n%s", round, l.StartOffset(), l.EndOffset(), m.end, l.Err(), f.logs)
		}
		if err := m.check(l, l.EndOffset()); err != nil {
			return fmt.Errorf("round %d: %w\n%s", round, err, f.logs)
		}
		if err := checkSegments(disk, l); err != nil {
			return fmt.Errorf("round %d: %w\n%s", round, err, f.logs)
		}
		watch(l)
		for pid := int64(1); pid <= 3; pid++ {
			again := buildBatch(record.Options{Idempotent: true, ProducerID: pid}, testStartMs, 3, 20)
			if a := appendBatch(l, again); a.Err != nil || !a.Duplicate {
				return fmt.Errorf("round %d: producer %d sends its last batch again: duplicate %v, %v", round, pid, a.Duplicate, a.Err)
			}
		}
		if round == 1 { // and go on
			p := watch(l)
			rest := *m
			rest.records = map[int64]modelRecord{}
			for o, r := range m.records {
				rest.records[o] = r
			}
			f.fillKeys(l, &rest, 5, 8)
			f.awaitFlushed(p, l)
			f.e.Clean(f.clock.advance(1))
			if s := f.e.CleanerStats(); s.Failures != 0 {
				return fmt.Errorf("compacting after the crash: %+v\n%s", s, f.logs)
			}
			if err := rest.check(l, l.EndOffset()); err != nil {
				return fmt.Errorf("after another compaction: %w", err)
			}
			if err := checkSegments(disk, l); err != nil {
				return fmt.Errorf("after another compaction: %w", err)
			}
			return f.e.Close(context.Background())
		}
		next := disk.Crash(mode)
		f.kill()
		disk = next
	}
	return nil
}

// Until the directory is synced, a power cut may keep any of the renames that promise new segments, and lose any: unless it kept all of them, a restart goes
// back to the old ones.
func TestAnyRenameOfPromiseIsLost(t *testing.T) {
	mem := vfs.NewMem(seedOf(t))
	f := newFixture(t, mem)
	f.open()
	cfg := crashCompactConfig(t)
	_, _, m := crashedLog(f, cfg)
	var before *vfs.Mem // the first of the renames
	var staged []string
	var mu sync.Mutex
	mem.OnOp = func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if before != nil || op.Kind != vfs.OpSyncDir {
			return
		}
		shot := mem.Crash(vfs.KeepAll)
		entries, err := shot.ReadDir("/data/t-0")
		if err != nil {
			t.Error(err)
			return
		}
		var files []string
		logs := 0
		for _, e := range entries {
			if strings.HasSuffix(e.Name, segment.CleanedSuffix) {
				files = append(files, filepath.Join("/data/t-0", e.Name))
			}
			if strings.HasSuffix(e.Name, logSuffix+segment.CleanedSuffix) {
				logs++
			}
		}
		if logs == 2 && len(files) >= 6 { // and their indexes are written
			before, staged = shot, files
		}
	}
	f.e.Clean(f.clock.advance(1))
	f.settle()
	mem.OnOp = nil
	f.close()
	if before == nil {
		t.Fatal("no group of segments became two")
	}
	for kept := range 1 << len(staged) {
		if testing.Short() && kept%5 > 0 {
			continue
		}
		disk := before.Crash(vfs.KeepAll)
		for i, name := range staged {
			if kept>>i&1 == 0 {
				continue
			}
			if err := disk.Rename(name, strings.TrimSuffix(name, segment.CleanedSuffix)+segment.SwapSuffix); err != nil {
				t.Fatal(err)
			}
		}
		if err := checkShot(t, disk.Crash(vfs.KeepAll), cfg, m); err != nil {
			t.Fatalf("of %v, renames %b were kept: %v", staged, kept, err)
		}
	}
}

// A restart that is itself interrupted while it finishes or undoes a compaction leaves nothing that the next one cannot finish.
func TestCrashWhileSettling(t *testing.T) {
	seed := seedOf(t)
	stride := 17
	if testing.Short() {
		stride = 101
	}
	mem := vfs.NewMem(seed)
	f := newFixture(t, mem)
	f.open()
	cfg := crashCompactConfig(t)
	_, _, m := crashedLog(f, cfg)
	var first []*vfs.Mem
	var mu sync.Mutex
	mem.OnOp = func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == vfs.OpRename || op.Kind == vfs.OpSyncDir {
			first = append(first, mem.Crash(vfs.RandomPages))
		}
	}
	f.e.Clean(f.clock.advance(1))
	f.settle()
	mem.OnOp = nil
	f.close()
	checked := 0
	for i, disk := range first {
		var second []*vfs.Mem
		ops := 0
		disk.OnOp = func(op vfs.Op) {
			mu.Lock()
			defer mu.Unlock()
			if ops++; strings.Contains(op.Name, "/t-0") && (ops+i)%stride == 0 {
				second = append(second, disk.Crash(vfs.CrashModes[len(second)%len(vfs.CrashModes)]))
			}
		}
		f := newFixture(t, disk)
		f.open()
		disk.OnOp = nil
		f.kill()
		for k, disk := range second {
			if err := checkShot(t, disk, cfg, m); err != nil {
				t.Fatalf("first cut %d, second %d: %v", i, k, err)
			}
			checked++
		}
	}
	t.Logf("%d pictures", checked)
}

// C1, C2, R12: whatever operation of a compaction fails, the log stays as it is and works, the others are compacted, and it is tried again later, by itself.
func TestCompactionFails(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC, syscall.EMFILE} {
		tried, offline, step := 0, 0, 1
		if testing.Short() {
			step = 5
		}
		for nth := 1; ; nth += step {
			fault := vfs.NewFault(vfs.NewMem(uint64(nth)))
			f := newFixture(t, fault)
			f.open()
			cfg := crashCompactConfig(t)
			l, p, m := crashedLog(f, cfg)
			other, err := f.e.Create(TopicPartition{Topic: "other"}, [16]byte{9}, cfg)
			sideMust(t, err)
			op, om := watch(other), newCompactModel()
			f.fillKeys(other, om, 10, 3)
			f.awaitFlushed(op, other)
			inj := fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return strings.Contains(op.Name, "/t-0") }, Nth: nth, Err: cause})
			f.e.Clean(f.clock.advance(1))
			hit := inj.Hits() > 0
			inj.Remove()
			f.settle()
			if l.Err() != nil {
				// An operation whose outcome nobody knows: the directory is offline, as for every other use of it. The files are in order all the same.
				if !errors.Is(l.Err(), ErrStorage) || cause != syscall.EIO && !strings.Contains(l.Err().Error(), "sync") {
					t.Fatalf("%v at %d: %v\n%s", cause, nth, l.Err(), f.logs)
				}
				offline++
				f.close()
				f.open()
				if l = f.logWith("t", cfg); l.Err() != nil {
					t.Fatalf("%v at %d: after a restart: %v", cause, nth, l.Err())
				}
				f.mustMatch(m, l)
				f.close()
				continue
			}
			if other.CompactedOffset() == 0 {
				t.Fatalf("%v at %d: the other log was not compacted\n%s", cause, nth, f.logs)
			}
			if err := m.check(l, l.EndOffset()); err != nil {
				t.Fatalf("%v at %d: %v", cause, nth, err)
			}
			f.fillKeys(l, m, 2, 8)
			f.awaitFlushed(p, l)
			if status, ok := l.Compaction(); ok && status.Err != nil {
				tried++
				if f.e.Clean(f.clock.Now()); f.e.CleanerStats().Failing != 1 {
					t.Fatalf("%v at %d: tried again at once", cause, nth)
				}
				if nth%2 == 0 { // or the next start finishes what was begun
					f.restart()
					l = f.logWith("t", cfg)
					watch(l)
					f.mustMatch(m, l)
				}
				f.e.Clean(status.RetryMs)
			}
			f.settle()
			if s := f.e.CleanerStats(); l.CompactedOffset() == 0 || s.Failing != 0 {
				t.Fatalf("%v at %d: not compacted by the second try: %+v\n%s", cause, nth, s, f.logs)
			}
			f.mustMatch(m, l)
			f.close()
			if !hit {
				break
			}
		}
		t.Logf("%v: %d tries failed, %d took the directory offline", cause, tried, offline)
		if tried < 5 {
			t.Errorf("%v: only %d tries failed", cause, tried)
		}
	}
}

// A damaged record below keeps its log from being compacted, and nothing else: it is said, counted, and what is whole stays readable.
func TestDamagedLogIsNotCompacted(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	cfg := crashCompactConfig(t)
	l, _, m := crashedLog(f, cfg)
	h := l.segs.Load().list[1]
	file, err := mem.OpenFile(h.Dir()+"/"+logFileName(h.Base()), 2, 0)
	sideMust(t, err)
	_, err = file.WriteAt([]byte{0xff, 0xff, 0xff}, 70)
	sideMust(t, err)
	for i := range 4 {
		status, _ := l.Compaction()
		now := max(f.clock.advance(1), status.RetryMs)
		f.e.Clean(now)
		status, ok := l.Compaction()
		if !ok || status.Err == nil || status.Failures != i+1 || status.RetryMs != now+min(int64(retryMsMin)<<i, retryMsMax) {
			t.Fatalf("try %d: %+v", i, status)
		}
	}
	if s := f.e.CleanerStats(); s.Failing != 1 || s.Failures != 4 || l.Err() != nil {
		t.Errorf("%+v, %v", s, l.Err())
	}
	if err := checkTail(l, m); err != nil {
		t.Error(err)
	}
}

// checkTail reads the last segment.
func checkTail(l *Log, m *compactModel) error {
	_, err := readBatches(l, l.segs.Load().active().Base(), m.end)
	return err
}

// A stop ends a round between two batches, and what was written goes.
func TestCloseEndsCompaction(t *testing.T) {
	mem := vfs.NewMem(4)
	f := newFixture(t, mem)
	f.open()
	cfg := crashCompactConfig(t)
	_, _, m := crashedLog(f, cfg)
	waiting := make(chan struct{})
	c := &f.e.cleaner
	c.begin(f.e)
	c.pace.bytesPerSecond = 1
	c.pace.wait = func(d time.Duration) bool { // the first bytes take for ever
		close(waiting)
		return c.wait(d)
	}
	done := make(chan struct{})
	go func() {
		f.e.Clean(f.clock.Now())
		close(done)
	}()
	<-waiting
	f.close()
	<-done
	f.open()
	f.mustMatch(m, f.logWith("t", cfg))
}

// The pace holds over any number of steps, on a clock of the test's own.
func TestPacer(t *testing.T) {
	now := time.Unix(1000, 0)
	waited := time.Duration(0)
	p := pacer{bytesPerSecond: 1e6, now: func() time.Time { return now }}
	p.wait = func(d time.Duration) bool {
		if d < paceStep {
			t.Errorf("waits %v", d)
		}
		now, waited = now.Add(d), waited+d
		return false
	}
	for range 10_000 {
		p.spend(1000)
	}
	if waited < 9900*time.Millisecond || waited > 10*time.Second {
		t.Errorf("10 MB at 1 MB/s took %v", waited)
	}
	now = now.Add(time.Hour) // an idle hour is not saved up
	waited = 0
	for range 1000 {
		p.spend(1000)
	}
	if waited < 900*time.Millisecond {
		t.Errorf("1 MB after an idle hour took %v", waited)
	}
	p = pacer{bytesPerSecond: 1.7976931348623157e308, now: p.now}
	if p.spend(1 << 30) {
		t.Error("stopped")
	}
}

// A partition that is deleted, and made again, while it is compacted: the round ends without a word, and touches nothing of the new one.
func TestDeletedWhileCompacted(t *testing.T) {
	for nth := 1; nth < 60; nth += 3 {
		fault := vfs.NewFault(vfs.NewMem(uint64(nth)))
		f := newFixture(t, fault)
		f.open()
		cfg := crashCompactConfig(t)
		l, _, _ := crashedLog(f, cfg)
		var again *Log
		m := newCompactModel()
		inject := vfs.Injection{Nth: nth, Match: func(op vfs.Op) bool {
			return op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, logSuffix+".cleaned") || op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".log")
		}}
		inject.Before = func(vfs.Op) {
			if f.e.Delete(l.TP()) != nil {
				t.Error("not deleted")
			}
			again = f.logWith("t", cfg)
			f.fillKeys(again, m, 20, 5)
		}
		inj := fault.Inject(inject)
		f.e.Clean(f.clock.advance(1))
		hit := inj.Hits() > 0
		inj.Remove()
		if s := f.e.CleanerStats(); s.Failures > 0 || s.Failing > 0 {
			t.Fatalf("at %d: %+v\n%s", nth, s, f.logs)
		}
		if hit {
			p := watch(again)
			f.awaitFlushed(p, again)
			f.mustMatch(m, again)
			f.e.Clean(f.clock.advance(1))
			f.mustMatch(m, again)
			f.restart()
			f.mustMatch(m, f.logWith("t", cfg))
		}
		f.close()
		if !hit {
			break
		}
	}
}
