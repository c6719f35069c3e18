package segment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// TestEveryFault makes each operation of a segment's life fail once. B-A7, E1, R3: an error says so, what was appended stays, what failed to
// be appended is not found by a later recovery.
func TestEveryFault(t *testing.T) {
	for _, in := range []vfs.Injection{
		{Err: syscall.EIO},
		{Err: syscall.ENOSPC, Short: 700},
	} {
		for n := 1; ; n++ {
			m := testMem(t, 1)
			f := vfs.NewFault(m)
			in := in
			in.Nth = n
			injected := f.Inject(in)
			faultyLife(t, fmt.Sprintf("operation %d fails with %v", n, in.Err), m, f)
			if injected.Hits() == 0 {
				if n < 30 {
					t.Fatalf("only %d operations", n)
				}
				break
			}
		}
	}
}

func faultyLife(t *testing.T, what string, m *vfs.Mem, f *vfs.Fault) {
	s, err := Create(testDir, 1000, testOptions(f))
	if err != nil {
		f.Clear()
		if entries := value[[]vfs.DirEntry](t)(m.ReadDir(testDir)); len(entries) > 0 {
			must(t, m.RemoveAll(testDir)) // the log removes what a failed Create left
			must(t, m.MkdirAll(testDir, 0o755))
		}
		return
	}
	var want []record.Batch
	grow := func() {
		for range 25 {
			b := makeBatch(s.NextOffset(), 700, 100+s.NextOffset(), 90)
			c := makeBatch(b.NextOffset(), 700, 50)
			bufs, entries := parts([]record.Batch{b, c})
			before := s.Size()
			if _, err := s.Append(bufs, entries, 1); err == nil {
				want = append(want, b, c)
			} else if s.Size() != before {
				t.Fatalf("%s: the end moved on a failed append", what)
			}
		}
	}
	grow()
	_ = s.Sync()
	_ = s.SyncIndexes()
	if _, err := s.TruncateTo(want[len(want)-3].BaseOffset()); err == nil {
		want = want[:len(want)-3]
	} else if s.Size() != size(want) {
		want = want[:len(want)-3]
	}
	grow()
	_ = s.Seal(1)
	_ = s.Sync()
	if err := s.Load(); err == nil && size(want) != s.Size() {
		t.Fatalf("%s: size %d, want %d", what, s.Size(), size(want))
	}
	f.Clear()
	disk := m.Crash(vfs.KeepAll)
	r := value[*Segment](t)(Open(testDir, 1000, testOptions(disk), false))
	got := recoverAll(t, what, r, 0)
	if !isPrefix(want, got) {
		t.Fatalf("%s: recovered %d batches, want the %d appended", what, len(got), len(want))
	}
	if len(got) > len(want) && s.failed == nil {
		t.Fatalf("%s: recovered %d batches, only %d were appended", what, len(got), len(want))
	}
	checkAfterRecovery(t, what, r, got)
	if !s.Sealed() {
		return
	}
	sealed := value[*Segment](t)(Open(testDir, 1000, testOptions(m), true))
	checkAfterRecovery(t, what+", sealed", sealed, want)
}

func TestFullDisk(t *testing.T) {
	// A11, A12, A13, A14, B-A15, R3: a full disk is an error of the append; reading goes on, and appending when there is room again.
	m := testMem(t, 1)
	o := testOptions(m)
	o.PreallocStep = 64 << 10
	s := value[*Segment](t)(Create(testDir, 1000, o))
	want := fill(t, s, 20, 1)
	m.SetCapacity(100 << 10)
	failures := 0
	for range 200 {
		b := makeBatch(s.NextOffset(), 5000, 1)
		bufs, entries := parts([]record.Batch{b})
		_, err := s.Append(bufs, entries, 1)
		switch {
		case err == nil:
			want = append(want, b)
		case !errors.Is(err, syscall.ENOSPC):
			t.Fatal(err)
		default:
			failures++
		}
	}
	if failures == 0 || size(want) < 80<<10 { // the disk is used to the end, not to the last whole step
		t.Fatalf("%d failures, %d bytes stored", failures, size(want))
	}
	checkLookups(t, s, want)
	m.SetCapacity(0)
	want = append(want, fill(t, s, 20, 2)...)
	checkLookups(t, s, want)
	must(t, s.Seal(1))
	s = reopen(t, s, true)
	checkLookups(t, s, want)
}

func TestFailedUndo(t *testing.T) {
	f := vfs.NewFault(testMem(t, 1))
	s := value[*Segment](t)(Create(testDir, 1000, testOptions(f)))
	want := fill(t, s, 5, 1)
	f.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpWrite, vfs.OpTruncate), Sticky: true, Nth: 1, Err: syscall.EIO, Short: 100})
	bufs, entries := parts([]record.Batch{makeBatch(s.NextOffset(), 100, 1)})
	if _, err := s.Append(bufs, entries, 1); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	f.Clear()
	if _, err := s.Append(bufs, entries, 1); !errors.Is(err, ErrFailed) {
		t.Fatalf("append after a failure that could not be undone: %v", err)
	}
	checkLookups(t, s, want)
}

// TestSealWithoutRoomForIndexes: A2, B-B2: an index that cannot be finished keeps no segment from being rolled, and is made again.
func TestSealWithoutRoomForIndexes(t *testing.T) {
	m := testMem(t, 1)
	f := vfs.NewFault(m)
	s := value[*Segment](t)(Create(testDir, 1000, testOptions(f)))
	want := []record.Batch{makeBatch(1000, 10, 7), makeBatch(1001, 10, 9)} // no index entries yet
	appendBatches(t, s, want...)
	f.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpAllocate }, Err: syscall.ENOSPC})
	must(t, s.Seal(1))
	if !errors.Is(s.IndexErr(), syscall.ENOSPC) {
		t.Fatal(s.IndexErr())
	}
	f.Clear()
	s = reopen(t, s, true)
	checkAfterRecovery(t, "", s, want)

	// A data file that cannot be cut can be tried again.
	value[int64](t)(s.TruncateTo(s.NextOffset()))
	want = append(want, fill(t, s, 30, 1)...)
	f.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpTruncate && op.Name == s.path(LogSuffix) }, Nth: 1, Err: syscall.EIO})
	if err := s.Seal(1); !errors.Is(err, syscall.EIO) || s.Sealed() {
		t.Fatal(err)
	}
	must(t, s.Seal(1))
	s = reopen(t, s, true)
	checkAfterRecovery(t, "sealed at the second try", s, want)

	// Or written again.
	value[int64](t)(s.TruncateTo(s.NextOffset()))
	f.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpTruncate && op.Name == s.path(LogSuffix) }, Nth: 1, Err: syscall.EIO})
	if err := s.Seal(1); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	value[int64](t)(s.TruncateTo(want[10].BaseOffset()))
	want = append(want[:10:10], fill(t, s, 30, 2)...)
	checkAfterRecovery(t, "written again after a failed seal", s, want)
}

func TestSyncFailureIsFinal(t *testing.T) {
	// R18, B-A1: a failed sync is never followed by a success.
	f := vfs.NewFault(testMem(t, 1))
	s := value[*Segment](t)(Create(testDir, 1000, testOptions(f)))
	fill(t, s, 5, 1)
	f.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpSync), Nth: 1, Err: syscall.EIO})
	for range 2 {
		if err := s.Sync(); !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
	}
}

func TestFaultInMappedIndex(t *testing.T) {
	// R4, A9: a fault in a mapping is an error of that file, not the end of the process.
	dir := t.TempDir()
	o := testOptions(vfs.OS)
	s := value[*Segment](t)(Create(dir, 1000, o))
	want := fill(t, s, 400, 1)
	must(t, os.Truncate(filepath.Join(dir, FileName(1000, IndexSuffix)), 0))
	var fault *vfs.FaultError
	if _, _, _, err := s.PositionOf(want[5].BaseOffset(), s.Size()); !errors.As(err, &fault) {
		t.Fatalf("lookup: %v", err)
	}
	want = append(want, fill(t, s, 200, 2)...) // appending goes on, without the index
	if err := s.IndexErr(); !errors.As(err, &fault) {
		t.Fatalf("index error: %v", err)
	}
	equalBatches(t, contents(t, s), want)
	must(t, s.Sync())
	s = reopen(t, s, false)
	value[RecoverResult](t)(s.Recover(0, nil))
	checkLookups(t, s, want)
}

// TestReadersDoNotWait: A22, B-B3: readers look up, scan and search while the writer appends, seals, and opens again for writing.
func TestReadersDoNotWait(t *testing.T) {
	onEachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		s := value[*Segment](t)(Create(dir, 1000, testOptions(fsys)))
		fill(t, s, 50, 1)
		var stop atomic.Bool
		var readers sync.WaitGroup
		for r := range 3 {
			readers.Go(func() {
				for i := int64(r); !stop.Load(); i++ {
					readSome(t, s, i)
				}
			})
		}
		for i := range 30 {
			fill(t, s, 40, uint64(i))
			if i%5 == 4 {
				must(t, s.Seal(1))
				must(t, s.SyncIndexes())
				value[int64](t)(s.TruncateTo(s.NextOffset() - 1))
			}
		}
		stop.Store(true)
		readers.Wait()
	})
}

// readSome reads below what is never truncated.
func readSome(t *testing.T, s *Segment, i int64) {
	end := s.NextOffset() - 10
	limit := s.Size()
	offset := 1000 + i%(end-1000)
	pos, base, n, err := s.PositionOf(offset, limit)
	if err != nil || base > offset || n < record.HeaderSize {
		t.Errorf("PositionOf(%d): %d %d %d %v", offset, pos, base, n, err)
		return
	}
	p := make([]byte, n)
	if _, err := s.ReadAt(p, pos); err != nil || record.Batch(p).Check() != nil || record.Batch(p).LastOffset() < offset {
		t.Errorf("ReadAt(%d): %v", pos, err)
	}
	if _, _, found, err := s.OffsetForTimestamp(1_000_000+offset, end); !found || err != nil {
		t.Errorf("OffsetForTimestamp: %v %v", found, err)
	}
	if _, _, err := s.MaxTimestamp(); err != nil {
		t.Error(err)
	}
	s.Hot(offset)
}

func TestSteadyStateAllocatesNothing(t *testing.T) {
	if invariant.Enabled {
		t.Skip("the checks allocate")
	}
	dir := t.TempDir()
	o := &Options{FS: vfs.OS, MaxBytes: 1 << 30, IndexIntervalBytes: 100, IndexMaxBytes: 1 << 20}
	s := value[*Segment](t)(Create(dir, 0, o))
	b := makeBatch(0, 1000, 1)
	bufs := [][]byte{b, nil}
	entries := make([]Entry, 2)
	second := makeBatch(0, 10, 2)
	bufs[1] = second
	now := int64(0)
	add := func() {
		now++
		b.SetBaseOffset(s.NextOffset())
		second.SetBaseOffset(s.NextOffset() + 1)
		entries[0], entries[1] = EntryOf(b), EntryOf(second)
		if _, err := s.Append(bufs, entries, now); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		add()
	}
	if n := testing.AllocsPerRun(500, add); n != 0 {
		t.Errorf("append: %v allocations", n)
	}
	for _, sealed := range []bool{false, true} {
		if sealed {
			must(t, s.Seal(1))
			s = reopen(t, s, true)
			must(t, s.Load())
		}
		offset := int64(0)
		if n := testing.AllocsPerRun(500, func() {
			offset = (offset + 37) % s.NextOffset()
			if _, _, _, err := s.PositionOf(offset, s.Size()); err != nil {
				t.Fatal(err)
			}
			s.Hot(offset)
		}); n != 0 {
			t.Errorf("lookup: %v allocations", n)
		}
	}
}

func TestVerifyFindsProblems(t *testing.T) {
	m := testMem(t, 1)
	s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
	want := fill(t, s, 100, 3)
	must(t, s.Seal(1))
	s.Release()
	find := func(suffix string, change func(d []byte) []byte) (kinds []ProblemKind) {
		t.Helper()
		name := s.path(suffix)
		before := value[[]byte](t)(vfs.ReadFile(m, name, 1<<20))
		damage(t, m, name, change)
		must(t, Verify(m, name, true, func(p Problem) error {
			if p.File != name || p.String() == "" {
				t.Errorf("%+v", p)
			}
			kinds = append(kinds, p.Kind)
			return nil
		}))
		damage(t, m, name, func([]byte) []byte { return before })
		return kinds
	}
	check := func(what string, got []ProblemKind, want ...ProblemKind) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	same := func(d []byte) []byte { return d }
	zeros := func(d []byte) []byte { return append(d, make([]byte, 240)...) }
	flip := func(at int) func(d []byte) []byte { return func(d []byte) []byte { d[at] ^= 1; return d } }
	at := int(size(want[:50]))
	check("good log", find(LogSuffix, same))
	check("good index", find(IndexSuffix, same))
	check("good time index", find(TimeIndexSuffix, same))
	check("log allocated ahead", find(LogSuffix, zeros), UnusedSpace)
	check("index allocated ahead", find(IndexSuffix, zeros), UnusedSpace)
	check("time index allocated ahead", find(TimeIndexSuffix, zeros), UnusedSpace)
	check("bit in a batch", find(LogSuffix, flip(at+70)), BadBatch)
	check("bit in a magic", find(LogSuffix, flip(at+16)), BadTail)
	check("bit in an offset", find(LogSuffix, flip(at+5)), BadOrder)
	check("cut log", find(LogSuffix, func(d []byte) []byte { return d[:len(d)-1] }), BadTail)
	check("bit in a position", find(IndexSuffix, flip(8*10+7)), WrongEntry)
	check("bit in an offset entry", find(IndexSuffix, flip(8*10+2)), WrongEntry, BadEntry)
	check("bit in a time", find(TimeIndexSuffix, flip(12*5+7)), WrongEntry)
	check("cut index", find(IndexSuffix, func(d []byte) []byte { return d[:len(d)-1] }), BadEntry)
	check("cut time index", find(TimeIndexSuffix, func(d []byte) []byte { return d[:len(d)-1] }), BadEntry)
	if err := Verify(m, "d/x.log", false, nil); err == nil {
		t.Error("a file of any name was verified")
	}
	var nameErr *NameError
	if err := DumpIndex(m, s.path(TimeIndexSuffix), func(int, index.OffsetEntry, error) error { return nil }); !errors.As(err, &nameErr) {
		t.Error(err)
	}
}
