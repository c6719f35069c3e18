package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

const testDir = "d"

func testOptions(fsys vfs.FS) *Options {
	return &Options{FS: fsys, MaxBytes: 1 << 20, IndexIntervalBytes: 200, IndexMaxBytes: 8 << 10, PreallocStep: 8 << 10}
}

func testMem(t testing.TB, seed uint64) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem(seed)
	must(t, m.MkdirAll(testDir, 0o755))
	must(t, m.SyncDir("/"))
	return m
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func value[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// makeBatch makes a batch of len(ts) records of size bytes each, with these timestamps.
func makeBatch(base int64, size int, ts ...int64) record.Batch {
	return makeBatchOf(record.Options{BaseOffset: base}, size, ts...)
}

func makeBatchOf(o record.Options, size int, ts ...int64) record.Batch {
	w := record.NewBuilder(o)
	for i, t := range ts {
		v := bytes.Repeat([]byte{byte('a' + (o.BaseOffset+int64(i))%26)}, size)
		w.Append(t, nil, v, nil)
	}
	return w.Bytes()
}

func appendBatches(t testing.TB, s *Segment, batches ...record.Batch) int64 {
	t.Helper()
	bufs, entries := parts(batches)
	pos, err := s.Append(bufs, entries, 1000)
	must(t, err)
	return pos
}

func parts(batches []record.Batch) (bufs [][]byte, entries []Entry) {
	for _, b := range batches {
		bufs = append(bufs, b)
		entries = append(entries, EntryOf(b))
	}
	return bufs, entries
}

// fill appends n batches of one to three records each, one or several at a time, and returns them.
func fill(t testing.TB, s *Segment, n int, seed uint64) []record.Batch {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	var all []record.Batch
	next := s.NextOffset()
	for len(all) < n {
		group := min(1+rng.IntN(3), n-len(all))
		start := len(all)
		for range group {
			var ts []int64
			for range 1 + rng.IntN(3) {
				ts = append(ts, 1_000_000+next*10+rng.Int64N(200))
			}
			b := makeBatch(next, rng.IntN(120), ts...)
			all = append(all, b)
			next = b.NextOffset()
		}
		appendBatches(t, s, all[start:]...)
	}
	return all
}

// contents returns all batches of the segment.
func contents(t testing.TB, s *Segment) (all []record.Batch) {
	t.Helper()
	must(t, s.Load())
	must(t, s.Batches(0, s.Size(), func(b record.Batch, _ int64) error {
		all = append(all, append(record.Batch(nil), b...))
		return nil
	}))
	return all
}

func equalBatches(t testing.TB, got, want []record.Batch) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d batches, want %d", len(got), len(want))
	}
	for i := range got {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("batch %d differs: offsets %d-%d, want %d-%d", i, got[i].BaseOffset(), got[i].LastOffset(), want[i].BaseOffset(), want[i].LastOffset())
		}
	}
}

// checkLookups asks for every offset from the first to behind the last.
func checkLookups(t testing.TB, s *Segment, want []record.Batch) {
	t.Helper()
	must(t, s.Load())
	pos := int64(0)
	next := s.Base()
	for _, b := range want {
		for o := next; o <= b.LastOffset(); o++ {
			if o == next+10 && b.LastOffset()-o > 100 {
				o = b.LastOffset() - 10 // a large gap
			}
			gotPos, base, size, err := s.PositionOf(o, s.Size())
			if err != nil || gotPos != pos || base != b.BaseOffset() || size != len(b) {
				t.Fatalf("PositionOf(%d) = %d, %d, %d, %v; want %d, %d, %d", o, gotPos, base, size, err, pos, b.BaseOffset(), len(b))
			}
			if _, _, _, err := s.PositionOf(o, pos); err != io.EOF {
				t.Fatalf("PositionOf(%d) below its batch: %v", o, err)
			}
		}
		pos += int64(len(b))
		next = b.NextOffset()
	}
	if gotPos, _, _, err := s.PositionOf(next, s.Size()); err != io.EOF || gotPos != pos {
		t.Fatalf("PositionOf(end) = %d, %v; want %d, EOF", gotPos, err, pos)
	}
	if s.NextOffset() != next || s.Size() != pos {
		t.Fatalf("next offset %d size %d, want %d and %d", s.NextOffset(), s.Size(), next, pos)
	}
}

// reopen closes the owner's reference and opens the files again.
func reopen(t testing.TB, s *Segment, sealed bool) *Segment {
	t.Helper()
	dir, base, o := s.Dir(), s.Base(), s.o
	s.Release()
	return value[*Segment](t)(Open(dir, base, o, sealed))
}

func onEachFS(t *testing.T, fn func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("mem", func(t *testing.T) { fn(t, testMem(t, 1), testDir) })
	t.Run("os", func(t *testing.T) { fn(t, vfs.OS, t.TempDir()) })
}

func TestAppendReadSealReopen(t *testing.T) {
	onEachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		o := testOptions(fsys)
		s := value[*Segment](t)(Create(dir, 100, o))
		want := fill(t, s, 200, 1)
		equalBatches(t, contents(t, s), want)
		checkLookups(t, s, want)
		if got := s.AppendTimeMaxMs(); got != 1000 {
			t.Fatalf("append time %d", got)
		}
		must(t, s.Seal(2000))
		checkLookups(t, s, want)
		must(t, s.Sync())
		must(t, s.SyncIndexes())

		s = reopen(t, s, true)
		if s.NextOffset() != -1 {
			t.Fatal("a sealed segment was read at Open") // R8
		}
		checkLookups(t, s, want)
		equalBatches(t, contents(t, s), want)
		if got := s.AppendTimeMaxMs(); got != 1000 { // R10, B10: the anchor survives a restart
			t.Fatalf("append time %d after a restart", got)
		}

		s = reopen(t, s, false)
		checkLookups(t, s, want)
		want = append(want, fill(t, s, 50, 2)...)
		checkLookups(t, s, want)
		must(t, s.Seal(3000))
		s = reopen(t, s, true)
		checkLookups(t, s, want)
		checkFiles(t, fsys, dir, 100)
		s.Release()
	})
}

func TestEmptySegment(t *testing.T) {
	onEachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		// A4, A15, A28: empty files and missing indexes are an empty segment, not damage.
		o := testOptions(fsys)
		s := value[*Segment](t)(Create(dir, 7, o))
		checkLookups(t, s, nil)
		s = reopen(t, s, false)
		checkLookups(t, s, nil)
		must(t, fsys.Remove(s.path(IndexSuffix)))
		must(t, fsys.Remove(s.path(TimeIndexSuffix)))
		s = reopen(t, s, false)
		result := value[RecoverResult](t)(s.Recover(0, nil))
		if result != (RecoverResult{NextOffset: 7}) {
			t.Fatalf("%+v", result)
		}
		must(t, s.Seal(1))
		s = reopen(t, s, true)
		checkLookups(t, s, nil)
		if ts, _, err := s.MaxTimestamp(); ts != -1 || err != nil {
			t.Fatalf("max timestamp %d %v", ts, err)
		}
		s = reopen(t, s, false)
		checkLookups(t, s, fill(t, s, 20, 1))
		s.Release()
	})
}

func TestCreateRefusesToReplace(t *testing.T) {
	o := testOptions(testMem(t, 1))
	s := value[*Segment](t)(Create(testDir, 7, o))
	fill(t, s, 10, 1)
	if _, err := Create(testDir, 7, o); err == nil { // B-B4: never delete what is there
		t.Fatal("an existing segment was replaced")
	}
}

func TestAppendRefuses(t *testing.T) {
	s := value[*Segment](t)(Create(testDir, 100, testOptions(testMem(t, 1))))
	appendBatches(t, s, makeBatch(100, 10, 1, 2, 3))
	refuse := func(why string, b record.Batch) {
		t.Helper()
		size, next := s.Size(), s.NextOffset()
		bufs, entries := parts([]record.Batch{b})
		_, err := s.Append(bufs, entries, 1)
		var offsetErr *OffsetError
		if !errors.As(err, &offsetErr) {
			t.Fatalf("%s: %v", why, err)
		}
		if s.Size() != size || s.NextOffset() != next {
			t.Fatalf("%s: appended", why)
		}
	}
	refuse("B-H2: an offset below the end", makeBatch(102, 1, 1))
	refuse("R13, A5: too far from the base", makeBatch(100+1<<31, 1, 1))
	if s.OffsetFits(100+1<<31) || !s.OffsetFits(100+1<<31-1) || s.OffsetFits(99) {
		t.Fatal("OffsetFits")
	}
	// The largest offset that fits, and with it a gap.
	b := makeBatch(100+1<<31-1, 1, 1)
	appendBatches(t, s, b)
	if pos, base, _, err := s.PositionOf(103, s.Size()); err != nil || base != b.BaseOffset() || pos == 0 {
		t.Fatalf("offset in the gap: %d %d %v", pos, base, err)
	}
	s = reopen(t, s, false)
	if s.NextOffset() != b.NextOffset() {
		t.Fatalf("next offset %d", s.NextOffset())
	}
}

func TestFull(t *testing.T) {
	s := value[*Segment](t)(Create(testDir, 0, &Options{FS: testMem(t, 1), MaxBytes: 1000, IndexIntervalBytes: 0, IndexMaxBytes: 1}))
	if s.Full(5000) {
		t.Fatal("an empty segment refuses a large batch")
	}
	b := makeBatch(0, 100, 1)
	appendBatches(t, s, b)
	if s.Full(1000-len(b)) || !s.Full(1000-len(b)+1) {
		t.Fatal("Full")
	}
	for i := int64(1); !s.IndexFull(); i++ {
		appendBatches(t, s, makeBatch(i, 0, i))
	}
	// B-B2: a full index stops nothing by itself, and the roll's entry has its slot.
	next := s.NextOffset()
	for i := range int64(5) {
		appendBatches(t, s, makeBatch(next+i, 0, 1000+i))
	}
	must(t, s.Seal(1))
	s = reopen(t, s, true)
	if ts, last, err := s.MaxTimestamp(); ts != 1004 || last != next+4 || err != nil {
		t.Fatalf("max timestamp %d at %d, %v", ts, last, err)
	}
	checkLookups(t, s, contents(t, s))
}

func TestLifetime(t *testing.T) {
	// R17, B-B3: a reader keeps the files until it is done.
	m := testMem(t, 1)
	o := testOptions(m)
	reaped := 0
	o.Reap = func(s *Segment) { reaped++; must(t, s.Destroy()) }
	s := value[*Segment](t)(Create(testDir, 0, o))
	want := fill(t, s, 30, 1)
	must(t, s.Seal(1))
	s = reopen(t, s, true)
	if !s.Acquire() {
		t.Fatal("Acquire")
	}
	must(t, s.Delete())
	must(t, s.Delete())
	names := value[[]vfs.DirEntry](t)(m.ReadDir(testDir))
	for _, e := range names {
		if _, suffix, ok := ParseFileName(e.Name); !ok || suffix[len(suffix)-len(DeletedSuffix):] != DeletedSuffix {
			t.Fatalf("%s is left after Delete", e.Name)
		}
	}
	s.Release()
	equalBatches(t, contents(t, s), want) // opened lazily, under its new name
	s.Release()
	if s.Acquire() || reaped != 2 {
		t.Fatalf("alive after the last release, %d reaped", reaped)
	}
	if names := value[[]vfs.DirEntry](t)(m.ReadDir(testDir)); len(names) != 0 {
		t.Fatalf("left: %v", names)
	}
}

func TestIdlePartitionIsSmall(t *testing.T) {
	// Thousands of idle partitions must not eat the disk: nothing is allocated before the first append, little after it.
	m := testMem(t, 1)
	o := &Options{FS: m, MaxBytes: 1 << 30, IndexIntervalBytes: 4096, IndexMaxBytes: 10 << 20}
	s := value[*Segment](t)(Create(testDir, 0, o))
	sizes := func() (total int64) {
		for _, e := range value[[]vfs.DirEntry](t)(m.ReadDir(testDir)) {
			total += e.Size
		}
		return total
	}
	if n := sizes(); n != 0 {
		t.Fatalf("an empty segment takes %d bytes", n)
	}
	appendBatches(t, s, makeBatch(0, 100, 1))
	if n := sizes(); n > preallocStepDefault {
		t.Fatalf("a segment of one record takes %d bytes", n)
	}
}

func TestDirectoryMoves(t *testing.T) {
	m := testMem(t, 1)
	s := value[*Segment](t)(Create(testDir, 0, testOptions(m)))
	want := fill(t, s, 10, 1)
	must(t, s.Seal(1))
	s = reopen(t, s, true)
	must(t, m.Rename(testDir, "e"))
	s.Moved("e")
	equalBatches(t, contents(t, s), want)
}

func TestGapsResetTheShortCut(t *testing.T) {
	s := value[*Segment](t)(Create(testDir, 0, testOptions(testMem(t, 1))))
	var want []record.Batch
	next := int64(0)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		if rng.IntN(10) == 0 {
			next += 1 + rng.Int64N(5)
		}
		b := makeBatch(next, 5, next+1, next+2)
		appendBatches(t, s, b)
		want = append(want, b)
		next = b.NextOffset()
	}
	checkLookups(t, s, want)
}

func TestReadAt(t *testing.T) {
	s := value[*Segment](t)(Create(testDir, 0, testOptions(testMem(t, 1))))
	b := makeBatch(0, 100, 1)
	appendBatches(t, s, b)
	p := make([]byte, len(b)+10)
	n, err := s.ReadAt(p, 0)
	if n != len(b) || err != io.EOF || !bytes.Equal(p[:n], b) {
		t.Fatalf("%d %v: the allocated tail must not be readable", n, err)
	}
	if n, err := s.ReadAt(p[:10], 5); n != 10 || err != nil || !bytes.Equal(p[:10], b[5:15]) {
		t.Fatalf("%d %v", n, err)
	}
	if n, err := s.ReadAt(p, int64(len(b))+5); n != 0 || err != io.EOF {
		t.Fatalf("%d %v", n, err)
	}
}

// TestHot: R16: what is looked up at once is the end of a segment being written, and elsewhere what is in the page cache.
func TestHot(t *testing.T) {
	fsys := vfs.NewFault(testMem(t, 1))
	s := value[*Segment](t)(Create(testDir, 0, &Options{FS: fsys, MaxBytes: 1 << 20, IndexIntervalBytes: 0, IndexMaxBytes: 1 << 20}))
	for i := range int64(1500) {
		appendBatches(t, s, makeBatch(i, 0, i))
	}
	cold := ".log"
	fsys.SetCached(func(name string, _, _ int64) bool { return !strings.HasSuffix(name, cold) })
	if s.Hot(100) || !s.Hot(1000) || !s.Hot(1499) {
		t.Fatal(s.Hot(100), s.Hot(1000), s.Hot(1499))
	}
	must(t, s.Seal(1))
	for _, test := range []struct {
		cold string
		hot  bool
	}{{".log", false}, {".index", false}, {".timeindex", true}} {
		cold = test.cold
		if s.Hot(100) != test.hot || s.Hot(1499) != test.hot {
			t.Errorf("hot: %v %v, %s is not in memory", s.Hot(100), s.Hot(1499), cold)
		}
	}
}

// TestFirstTimestamp: B14 too: the first and the largest timestamp are not each other.
func TestFirstTimestamp(t *testing.T) {
	s := value[*Segment](t)(Create(testDir, 0, testOptions(testMem(t, 1))))
	if _, ok, err := s.FirstTimestamp(); ok || err != nil {
		t.Fatal("first timestamp of nothing")
	}
	appendBatches(t, s, makeBatch(0, 1, 50, 70, 60), makeBatch(3, 1, 10))
	for range 2 {
		if ts, ok, err := s.FirstTimestamp(); ts != 70 || !ok || err != nil {
			t.Fatalf("%d %v %v", ts, ok, err)
		}
		must(t, s.Seal(1))
		s = reopen(t, s, true)
	}
	value[int64](t)(s.TruncateTo(0))
	if _, ok, err := s.FirstTimestamp(); ok || err != nil {
		t.Fatal("first timestamp of nothing left")
	}
}

func TestSealKeepsAppendTime(t *testing.T) {
	m := testMem(t, 1)
	m.SetNow(func() time.Time { return time.UnixMilli(999_000) })
	o := testOptions(m)
	o.Now = func() int64 { return 77 }
	s := value[*Segment](t)(Create(testDir, 0, o))
	if s.AppendTimeMaxMs() != 77 {
		t.Fatal("append time of an empty segment")
	}
	bufs, entries := parts([]record.Batch{makeBatch(0, 1, 5_000_000_000_000)}) // B10: the producer's clock is far ahead
	for _, now := range []int64{1500, 1400} {
		if _, err := s.Append(bufs, entries, now); err != nil {
			t.Fatal(err)
		}
		entries[0].BaseOffset, entries[0].LastOffset = 1, 1
		record.Batch(bufs[0]).SetBaseOffset(1)
	}
	must(t, s.Seal(888_000))
	s = reopen(t, s, true)
	if got := s.AppendTimeMaxMs(); got != 1500 {
		t.Fatalf("append time %d after a restart", got)
	}
}

func ExampleFileName() {
	fmt.Println(FileName(42, TimeIndexSuffix))
	// Output: 00000000000000000042.timeindex
}
