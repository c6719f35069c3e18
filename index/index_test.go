package index

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

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

func newMem(t testing.TB) *vfs.Mem {
	t.Helper()
	m := vfs.NewMem(1)
	must(t, m.MkdirAll("d", 0o755))
	return m
}

func onEachFS(t *testing.T, fn func(t *testing.T, fsys vfs.FS, dir string)) {
	t.Run("mem", func(t *testing.T) { fn(t, newMem(t), "d") })
	t.Run("os", func(t *testing.T) { fn(t, vfs.OS, t.TempDir()) })
}

// growOffsets adds n entries and returns all of x.
func growOffsets(t testing.TB, x *Offset, n int, seed uint64) (all []OffsetEntry) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	last, found := x.Last()
	if !found {
		last = OffsetEntry{Offset: x.base}
	}
	for range n {
		last.Offset += 1 + rng.Int64N(9)
		last.Position += 1 + rng.Int32N(5000)
		must(t, x.Append(last.Offset, last.Position))
	}
	return entriesOf(t, x)
}

func entriesOf(t testing.TB, x *Offset) (all []OffsetEntry) {
	t.Helper()
	for i := range x.Entries() {
		all = append(all, value[OffsetEntry](t)(x.Entry(i)))
	}
	if _, err := x.Entry(len(all)); err != io.EOF {
		t.Fatalf("entry behind the end: %v", err)
	}
	return all
}

func checkOffsets(t testing.TB, x *Offset, want []OffsetEntry) {
	t.Helper()
	got := entriesOf(t, x)
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("entry %d is %v, want %v", i, got[i], want[i])
		}
	}
	end := x.base + 5
	if len(want) > 0 {
		end = want[len(want)-1].Offset + 3
	}
	step := max(1, (end-x.base)/500)
	for target := x.base - 1; target <= end; target += step {
		checkLookup(t, x, want, target)
	}
	checkLookup(t, x, want, math.MaxInt64)
}

func checkLookup(t testing.TB, x *Offset, entries []OffsetEntry, target int64) {
	t.Helper()
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Offset > target }) - 1
	want := OffsetEntry{Offset: x.base}
	if i >= 0 {
		want = entries[i]
	}
	got, found, err := x.Lookup(target)
	if got != want || found != (i >= 0) || err != nil {
		t.Fatalf("lookup of %d among %d entries: %v %v %v, want %v", target, len(entries), got, found, err, want)
	}
}

func TestOffsetIndex(t *testing.T) {
	onEachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "x.index")
		for _, n := range []int{0, 1, 5, 511, 512, 513, 3000} { // around a page of a sealed index
			x := value[*Offset](t)(CreateOffset(fsys, name, 1000, 80_000))
			if info := value[vfs.Info](t)(fsys.Stat(name)); info.Size != 0 {
				t.Fatalf("an empty index has %d bytes", info.Size)
			}
			want := growOffsets(t, x, n, uint64(n))
			checkOffsets(t, x, want)
			must(t, x.Sync())
			must(t, x.Seal())
			checkOffsets(t, x, want)
			must(t, x.Seal())
			must(t, x.Sync())
			must(t, x.Close())
			if info := value[vfs.Info](t)(fsys.Stat(name)); info.Size != int64(n*OffsetEntrySize) {
				t.Fatalf("a sealed index of %d entries has %d bytes", n, info.Size)
			}
			x = value[*Offset](t)(OpenSealedOffset(fsys, name, 1000))
			checkOffsets(t, x, want)
			must(t, x.Close())

			x, damaged, err := OpenOffset(fsys, name, 1000, 80_000)
			if damaged || err != nil {
				t.Fatal(damaged, err)
			}
			checkOffsets(t, x, want)
			want = growOffsets(t, x, 700, 5)
			checkOffsets(t, x, want)
			cut := len(want) / 2
			must(t, x.TruncateTo(want[cut].Offset))
			checkOffsets(t, x, want[:cut])
			want = growOffsets(t, x, 10, 6)
			checkOffsets(t, x, want)
			must(t, x.TruncateToPosition(int64(want[cut].Position)+1))
			checkOffsets(t, x, want[:cut+1])
			must(t, x.Close()) // not sealed: allocated ahead

			// R2, A1, B-B1: the length of the file says nothing.
			x, damaged, err = OpenOffset(fsys, name, 1000, 80_000)
			if damaged || err != nil {
				t.Fatal(damaged, err)
			}
			checkOffsets(t, x, want[:cut+1])
			must(t, x.Reset())
			checkOffsets(t, x, nil)
			must(t, x.Append(1000, 4))
			must(t, x.Close())
		}
	})
}

func TestOffsetIndexFull(t *testing.T) {
	x := value[*Offset](t)(CreateOffset(newMem(t), "d/x", 0, 83)) // 10 entries and a rest
	for i := range int64(10) {
		if x.Full() {
			t.Fatalf("full with %d entries", i)
		}
		must(t, x.Append(i+1, int32(i+1)))
	}
	if err := x.Append(20, 20); err != ErrFull || !x.Full() || x.Entries() != 10 {
		t.Fatal(err)
	}
}

func TestTimeIndex(t *testing.T) {
	onEachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		name := filepath.Join(dir, "x.timeindex")
		x := value[*Time](t)(CreateTime(fsys, name, 100, 2000*TimeEntrySize))
		if x.Last() != (TimeEntry{NoTimestamp, 100}) {
			t.Fatal(x.Last())
		}
		must(t, x.MaybeAppend(0, 100, false)) // R1: would be all zeros
		must(t, x.MaybeAppend(NoTimestamp, 100, true))
		if x.Entries() != 0 {
			t.Fatal("entries")
		}
		var want []TimeEntry
		for i := int64(1); !x.Full(); i++ {
			want = append(want, TimeEntry{i * 1 << 33, 100 + i*2}) // R9, B4: 64 bits
			must(t, x.MaybeAppend(want[i-1].Timestamp, want[i-1].Offset, false))
			must(t, x.MaybeAppend(want[i-1].Timestamp, want[i-1].Offset+1, false)) // no later: no entry
		}
		if len(want) != 1999 {
			t.Fatalf("full with %d entries", len(want))
		}
		last := TimeEntry{1 << 60, 1 << 20}
		if err := x.MaybeAppend(last.Timestamp, last.Offset, false); err != ErrFull {
			t.Fatal(err)
		}
		must(t, x.MaybeAppend(last.Timestamp, last.Offset, true)) // A2, B-B2: the roll has its slot
		want = append(want, last)
		if err := x.MaybeAppend(last.Timestamp+1, last.Offset+1, true); err != ErrFull {
			t.Fatal(err)
		}
		check := func() {
			t.Helper()
			if x.Entries() != len(want) || x.Last() != want[len(want)-1] {
				t.Fatal(x.Entries(), x.Last())
			}
			for i := range want {
				if e := value[TimeEntry](t)(x.Lookup(want[i].Timestamp + 5)); e != want[i] {
					t.Fatalf("lookup: %v, want %v", e, want[i])
				}
				if e := value[TimeEntry](t)(x.Before(want[i].Offset + 1)); e != want[i] {
					t.Fatalf("before: %v, want %v", e, want[i])
				}
			}
			if e := value[TimeEntry](t)(x.Lookup(want[0].Timestamp - 1)); e != (TimeEntry{NoTimestamp, 100}) {
				t.Fatal(e)
			}
			if e := value[TimeEntry](t)(x.Before(want[0].Offset)); e != (TimeEntry{NoTimestamp, 100}) {
				t.Fatal(e)
			}
		}
		check()
		must(t, x.Seal())
		check()
		must(t, x.Close())
		x = value[*Time](t)(OpenSealedTime(fsys, name, 100))
		check()
		must(t, x.Close())
		x, _, err := OpenTime(fsys, name, 100, 2000*TimeEntrySize)
		must(t, err)
		want = want[:1000]
		must(t, x.TruncateTo(want[999].Offset+1))
		check()
		must(t, x.Close())
	})
}

func TestSealedRefusesDamage(t *testing.T) {
	// R1, R6, A10: a sealed index has nothing but valid entries, or it is rebuilt.
	good := []byte{0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 20}
	cases := map[string][]byte{
		"zero entry":           append(append([]byte(nil), good...), make([]byte, 8)...),
		"only zeros":           make([]byte, 8),
		"incomplete":           good[:15],
		"offset goes back":     append(append([]byte(nil), good...), 0, 0, 0, 6, 0, 0, 0, 30),
		"position goes back":   append(append([]byte(nil), good...), 0, 0, 0, 9, 0, 0, 0, 19),
		"negative":             append(append([]byte(nil), good...), 0x80, 0, 0, 9, 0, 0, 0, 30),
		"zero entry in middle": append(make([]byte, 8), good...),
	}
	m := newMem(t)
	for what, data := range cases {
		must(t, vfs.WriteFileAtomic(m, "d/x", data))
		var corrupt *CorruptError
		if _, err := OpenSealedOffset(m, "d/x", 0); !errors.As(err, &corrupt) || corrupt.File != "d/x" {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, vfs.WriteFileAtomic(m, "d/x", good))
	checkOffsets(t, value[*Offset](t)(OpenSealedOffset(m, "d/x", 0)), []OffsetEntry{{5, 9}, {7, 20}})
	if _, err := OpenSealedOffset(m, "d/y", 0); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if _, _, err := OpenOffset(m, "d/y", 0, 100); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

func TestOpenKeepsValidPrefix(t *testing.T) {
	m := newMem(t)
	data := []byte{0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 7, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 30}
	must(t, vfs.WriteFileAtomic(m, "d/x", data))
	x, damaged, err := OpenOffset(m, "d/x", 0, 100)
	if !damaged || err != nil {
		t.Fatal(damaged, err)
	}
	checkOffsets(t, x, []OffsetEntry{{5, 9}, {7, 20}})
	must(t, x.Append(8, 25))
	must(t, x.Sync())
	must(t, x.Close())
	// A7: what was behind the hole does not come back behind the new entry.
	x, damaged, err = OpenOffset(m, "d/x", 0, 100)
	if damaged || err != nil {
		t.Fatal(damaged, err)
	}
	checkOffsets(t, x, []OffsetEntry{{5, 9}, {7, 20}, {8, 25}})
}

func TestSpaceComesBeforeTheMapping(t *testing.T) {
	// R3, R4, A11, B-A15: a full disk is an error of Append; nothing was touched, and it goes on when there is room.
	m := newMem(t)
	x := value[*Offset](t)(CreateOffset(m, "d/x", 0, 1<<20))
	growOffsets(t, x, 512, 1)
	m.SetCapacity(4096)
	last, _ := x.Last()
	if err := x.Append(last.Offset+1, last.Position+1); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	m.SetCapacity(0)
	checkOffsets(t, x, growOffsets(t, x, 100, 2))
}

func TestFaultIsAnError(t *testing.T) {
	// R4, A9, B-B3: the file vanished under the mapping.
	name := filepath.Join(t.TempDir(), "x")
	x := value[*Offset](t)(CreateOffset(vfs.OS, name, 0, 1<<20))
	growOffsets(t, x, 5000, 1)
	must(t, os.Truncate(name, 0))
	var fault *vfs.FaultError
	if _, _, err := x.Lookup(100); !errors.As(err, &fault) {
		t.Fatal(err)
	}
	last, _ := x.Last()
	var err error
	for i := int64(1); err == nil && i <= tailEntries+1; i++ {
		err = x.Append(last.Offset+i, last.Position+int32(i))
	}
	if !errors.As(err, &fault) {
		t.Fatal(err)
	}
	if err := x.Sync(); !errors.As(err, &fault) {
		t.Fatal(err)
	}
	if err := x.TruncateTo(0); !errors.As(err, &fault) {
		t.Fatal(err)
	}
	if x.Warm(1) {
		t.Fatal("warm")
	}
	must(t, x.Close())
}

func TestFewMappings(t *testing.T) {
	// R15, F6: sealed indexes are not mapped, nor are those without entries.
	f := vfs.NewFault(newMem(t))
	x := value[*Offset](t)(CreateOffset(f, "d/x", 0, 1<<20))
	if n := f.Count(vfs.OpMap); n != 0 {
		t.Fatal(n)
	}
	growOffsets(t, x, 3000, 1)
	must(t, x.Seal())
	if n := f.Count(vfs.OpMap); n != 1 || x.view.Load().region != nil {
		t.Fatal(n)
	}
	y := value[*Offset](t)(OpenSealedOffset(f, "d/x", 0))
	checkOffsets(t, y, entriesOf(t, x))
	if n := f.Count(vfs.OpMap); n != 1 {
		t.Fatal(n)
	}
}

func TestReadersDuringSealAndTruncate(t *testing.T) {
	// B-B3: nobody looks into an unmapped index.
	onEachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		var current atomic.Pointer[Offset]
		var stop atomic.Bool
		var readers sync.WaitGroup
		name := filepath.Join(dir, "x")
		x := value[*Offset](t)(CreateOffset(fsys, name, 0, 1<<20))
		growOffsets(t, x, 10, 1)
		current.Store(x)
		for range 3 {
			readers.Go(func() {
				for i := int64(0); !stop.Load(); i++ {
					x := current.Load()
					e, _, err := x.Lookup(i % 10_000)
					if err != nil || e.Offset > i%10_000 {
						t.Errorf("lookup of %d: %v %v", i%10_000, e, err)
						return
					}
					x.Warm(i % 10_000)
					runtime.Gosched()
				}
			})
		}
		for i := range 10 {
			growOffsets(t, x, 700, uint64(i))
			must(t, x.TruncateTo(value[OffsetEntry](t)(x.Entry(600)).Offset))
			must(t, x.Seal())
			next, _, err := OpenOffset(fsys, name, 0, 1<<20)
			must(t, err)
			current.Store(next)
			must(t, x.Close()) // a reader may still hold x
			x = next
			must(t, x.TruncateTo(value[OffsetEntry](t)(x.Entry(5)).Offset))
		}
		stop.Store(true)
		readers.Wait()
	})
}

func TestImages(t *testing.T) {
	m := newMem(t)
	for _, full := range []bool{false, true} {
		if full {
			must(t, m.Remove("d/i"))
			m.SetCapacity(1)
		}
		offsets, times := NewOffsetImage(10), NewTimeImage(10)
		var want []OffsetEntry
		for i := range int64(2000) {
			want = append(want, OffsetEntry{11 + i, int32(i + 1)})
			offsets.Add(11+i, int32(i+1))
			times.MaybeAdd(i/2, 10+i)
		}
		x, err := offsets.Install(m, "d/i")
		if (err != nil) != full {
			t.Fatal(err)
		}
		checkOffsets(t, x, want)
		y, err := times.Install(m, "d/t")
		if (err != nil) != full || y.Entries() != 1000 || y.Last() != (TimeEntry{999, 10 + 1998}) {
			t.Fatal(err, y.Entries(), y.Last())
		}
		must(t, x.Sync())
		must(t, x.Close())
		must(t, y.Close())
	}
}

func TestTxnIndex(t *testing.T) {
	m := newMem(t)
	x := value[*Txn](t)(OpenTxn(m, "d/x"))
	list := []AbortedTxn{{7, 10, 20, 10}, {8, 12, 30, 12}, {7, 25, 40, 25}}
	for _, e := range list {
		must(t, x.Append(e))
	}
	must(t, x.Sync())
	must(t, x.Close())
	x = value[*Txn](t)(OpenTxn(m, "d/x"))
	if got, complete := x.Collect(nil, 21, 25); len(got) != 1 || got[0] != list[1] || !complete {
		t.Fatal(got, complete)
	}
	if got, complete := x.Collect(nil, 0, 100); len(got) != 3 || complete {
		t.Fatal(got, complete)
	}
	must(t, x.TruncateTo(40))
	must(t, x.Close())
	x = value[*Txn](t)(OpenTxn(m, "d/x"))
	if x.Entries() != 2 {
		t.Fatal(x.Entries())
	}
	must(t, x.Append(list[2]))
	must(t, x.Close())

	// A torn or zero entry: the valid prefix, and a word about it.
	data := value[[]byte](t)(vfs.ReadFile(m, "d/x", 1000))
	zeros := append(data[:len(data):len(data)], make([]byte, TxnEntrySize)...)
	for want, bad := range map[int][]byte{2: data[:len(data)-1], 3: zeros} {
		must(t, vfs.WriteFileAtomic(m, "d/x", bad))
		var corrupt *CorruptError
		x, err := OpenTxn(m, "d/x")
		if !errors.As(err, &corrupt) || x.Entries() != want {
			t.Fatal(err, x.Entries())
		}
		must(t, x.Append(AbortedTxn{9, 100, 200, 100}))
		must(t, x.Close())
	}
	must(t, x.Reset())
}
