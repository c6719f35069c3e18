package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// damage changes the bytes of a file.
func damage(t testing.TB, fsys vfs.FS, name string, fn func(data []byte) []byte) {
	t.Helper()
	data := value[[]byte](t)(vfs.ReadFile(fsys, name, 1<<30))
	data = fn(data)
	f := value[vfs.File](t)(fsys.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644))
	defer f.Close()
	_, err := f.WriteAt(data, 0)
	must(t, err)
}

func TestRecoverReasons(t *testing.T) {
	// B-A13, B-D6, A16, A17: what is behind the last valid batch has a name.
	batches := []record.Batch{makeBatch(1000, 300, 1), makeBatch(1001, 300, 2), makeBatch(1002, 300, 3)}
	two := int(size(batches[:2]))
	cases := []struct {
		name   string
		damage func(data []byte) []byte // of a file of three batches
		keep   int
		reason Reason
	}{
		{"nothing", func(d []byte) []byte { return d }, 3, Clean},
		{"zeros", func(d []byte) []byte { return append(d, make([]byte, 5000)...) }, 3, ZeroTail},
		{"few zeros", func(d []byte) []byte { return append(d, 0, 0) }, 3, ZeroTail},
		{"garbage", func(d []byte) []byte { return append(d, 1, 2, 3) }, 3, Torn},
		{"cut in a header", func(d []byte) []byte { return d[:two+30] }, 2, Torn},
		{"cut in a batch", func(d []byte) []byte { return d[:len(d)-1] }, 2, Torn},
		{"half zeros", func(d []byte) []byte { clear(d[len(d)-100:]); return d }, 2, Torn},
		{"a bit of the last batch", func(d []byte) []byte { d[len(d)-1] ^= 1; return d }, 2, Torn},
		{"a bit of the second batch", func(d []byte) []byte { d[two-1] ^= 1; return d }, 1, Corrupt},
		{"zero header of the second batch", func(d []byte) []byte { clear(d[len(batches[0]):two]); return d }, 1, Torn},
		{"a batch twice", func(d []byte) []byte { return append(d, d[two:]...) }, 3, OffsetOrder},
		{"everything zero", func(d []byte) []byte { clear(d); return d }, 0, ZeroTail},
		{"empty", func(d []byte) []byte { return nil }, 0, Clean},
		{"old format", func(d []byte) []byte { d[two+16] = 1; return d }, 2, Torn},
		{"huge length", func(d []byte) []byte { copy(d[two+8:], []byte{0x7f, 0xff, 0xff, 0xff}); return d }, 2, Torn},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := testMem(t, 1)
			s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
			appendBatches(t, s, batches...)
			must(t, s.Seal(1))
			name := s.path(LogSuffix)
			s.Release()
			damage(t, m, name, c.damage)
			s = value[*Segment](t)(Open(testDir, 1000, testOptions(m), false))
			// Damage before the last index entry is not looked for at Open: what is below the recovery point is trusted (R8).
			if c.reason != Clean && !strings.Contains(c.name, "second batch") {
				bufs, entries := parts([]record.Batch{makeBatch(2000, 1, 1)})
				if _, err := s.Append(bufs, entries, 1); err != ErrNotRecovered {
					t.Fatalf("append: %v", err)
				}
				if _, err := s.TruncateTo(0); err != ErrNotRecovered {
					t.Fatalf("truncate: %v", err)
				}
				if err := s.Seal(1); err != ErrNotRecovered {
					t.Fatalf("seal: %v", err)
				}
			}
			before := value[vfs.Info](t)(m.Stat(name)).Size
			result := value[RecoverResult](t)(s.Recover(0, nil))
			want := size(batches[:c.keep])
			if result.Reason != c.reason || result.Size != want || result.Batches != c.keep || result.NextOffset != 1000+int64(c.keep) {
				t.Fatalf("%+v", result)
			}
			noDetail := c.reason == Clean || c.reason == ZeroTail
			if noDetail && (result.CutBytes != 0 || result.Detail != "") || !noDetail && (result.CutBytes != before-want || result.Detail == "") {
				t.Fatalf("%+v", result)
			}
			if n := value[vfs.Info](t)(m.Stat(name)).Size; n != want {
				t.Fatalf("%d bytes left", n)
			}
			result = value[RecoverResult](t)(s.Recover(0, nil))
			if result.Reason != Clean || result.Size != want {
				t.Fatalf("again: %+v", result)
			}
			checkLookups(t, s, batches[:c.keep])
		})
	}
}

// TestIndexDamage: R1, R2, R6, A1, A2, A4, A7, A10, A20, B-B1, B-B2, B-B6, B-B7: whatever an index file holds, the segment opens, reads right, and
// has a good index afterwards; the other file is not touched.
func TestIndexDamage(t *testing.T) {
	damages := map[string]func(d []byte) []byte{
		"empty":               func(d []byte) []byte { return nil },
		"half":                func(d []byte) []byte { return d[:len(d)/24*12] },
		"unaligned":           func(d []byte) []byte { return d[:len(d)-3] },
		"allocated ahead":     func(d []byte) []byte { return append(d, make([]byte, 4096)...) },
		"all zeros":           func(d []byte) []byte { clear(d); return d },
		"a zero page":         func(d []byte) []byte { clear(d[len(d)/4 : len(d)/2]); return d },
		"zero start":          func(d []byte) []byte { clear(d[:48]); return d },
		"zero end":            func(d []byte) []byte { clear(d[len(d)-24:]); return d },
		"garbage":             func(d []byte) []byte { fillRandom(d, 1); return d },
		"garbage behind":      func(d []byte) []byte { g := make([]byte, 240); fillRandom(g, 2); return append(d, g...) },
		"a larger last entry": func(d []byte) []byte { d[len(d)-6]++; return d },
	}
	for name, change := range damages {
		for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
			for _, sealed := range []bool{true, false} {
				t.Run(name+suffix+map[bool]string{true: " sealed", false: " active"}[sealed], func(t *testing.T) {
					m := testMem(t, 1)
					s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
					want := fill(t, s, 300, 3)
					must(t, s.Seal(1))
					s.Release()
					damage(t, m, s.path(suffix), change)
					other := map[string]string{IndexSuffix: TimeIndexSuffix, TimeIndexSuffix: IndexSuffix}[suffix]
					otherBefore := string(value[[]byte](t)(vfs.ReadFile(m, s.path(other), 1<<20)))
					s = value[*Segment](t)(Open(testDir, 1000, testOptions(m), sealed))
					checkAfterRecovery(t, name, s, want)
					if got := string(value[[]byte](t)(vfs.ReadFile(m, s.path(other), 1<<20))); sealed && got != otherBefore {
						t.Fatal("the other index changed")
					}
					checkTimes(t, s, want)
					must(t, s.Seal(1))
					s = reopen(t, s, true)
					checkAfterRecovery(t, name, s, want)
					if s.IndexErr() != nil {
						t.Fatal(s.IndexErr())
					}
				})
			}
		}
	}
}

func fillRandom(p []byte, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range p {
		p[i] = byte(rng.Uint32())
	}
}

// TestRebuildOnFullDisk: E1: a full disk does not keep a segment without indexes from being read.
func TestRebuildOnFullDisk(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		m := testMem(t, 1)
		s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
		want := fill(t, s, 300, 3)
		must(t, s.Seal(1))
		s.Release()
		must(t, m.Remove(s.path(IndexSuffix)))
		must(t, m.Remove(s.path(TimeIndexSuffix)))
		m.SetCapacity(1)
		s = value[*Segment](t)(Open(testDir, 1000, testOptions(m), sealed))
		checkLookups(t, s, want)
		checkTimes(t, s, want)
		if s.IndexErr() == nil {
			t.Fatal("no word about the index")
		}
		m.SetCapacity(0)
		must(t, s.Seal(1))
		s = reopen(t, s, true)
		checkAfterRecovery(t, "after", s, want)
		if err := s.IndexErr(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDamagedDataOfSealed(t *testing.T) {
	// B-A10, B-A19: damage inside a sealed segment is an error, never a shorter log.
	m := testMem(t, 1)
	s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
	want := fill(t, s, 100, 3)
	must(t, s.Seal(1))
	s.Release()
	at := int(size(want[:50])) + 9
	damage(t, m, s.path(LogSuffix), func(d []byte) []byte { d[at] ^= 0x40; return d })
	s = value[*Segment](t)(Open(testDir, 1000, testOptions(m), true))
	must(t, s.Load())
	var corrupt *CorruptError
	if err := s.Batches(0, s.Size(), func(record.Batch, int64) error { return nil }); !errors.As(err, &corrupt) {
		t.Fatalf("scan: %v", err)
	}
	if _, _, _, err := s.PositionOf(want[50].BaseOffset(), s.Size()); !errors.As(err, &corrupt) {
		t.Fatalf("lookup: %v", err)
	}
	if s.NextOffset() != want[99].NextOffset() {
		t.Fatalf("next offset %d", s.NextOffset())
	}
	s.Release()
	must(t, m.Remove(filepath.Join(testDir, FileName(1000, IndexSuffix))))
	s = value[*Segment](t)(Open(testDir, 1000, testOptions(m), true))
	must(t, s.Load())
	if err := s.Damage(); !errors.As(err, &corrupt) || corrupt.Pos != size(want[:50]) || corrupt.File != s.path(LogSuffix) {
		t.Fatalf("loaded without index: %v", err)
	}
	if s.NextOffset() != want[50].BaseOffset() || s.Size() != size(want[:50]) { // what is before it can be read
		t.Fatalf("ends at offset %d, position %d", s.NextOffset(), s.Size())
	}
	if _, err := m.Stat(s.path(IndexSuffix)); err == nil {
		t.Fatal("an index that ends at the damage is on disk")
	}
}

func TestRecoverVisitsFromPosition(t *testing.T) {
	m := testMem(t, 1)
	s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
	want := fill(t, s, 100, 3)
	from := size(want[:60])
	must(t, s.SyncIndexes())
	s = reopen(t, s, false)
	next := 60
	result := value[RecoverResult](t)(s.Recover(from, func(b record.Batch, pos int64) error {
		if pos != size(want[:next]) || string(b) != string(want[next]) {
			t.Fatalf("visited %d at %d", b.BaseOffset(), pos)
		}
		next++
		return nil
	}))
	if next != 100 || result.Batches > 60 {
		t.Fatalf("visited up to %d, %+v", next, result) // R8, D2: a tail scan
	}
	stop := errors.New("stop")
	if _, err := s.Recover(0, func(record.Batch, int64) error { return stop }); err != stop {
		t.Fatalf("visit's error: %v", err)
	}
	bufs, entries := parts([]record.Batch{makeBatch(9000, 1, 1)})
	if _, err := s.Append(bufs, entries, 1); err != ErrNotRecovered {
		t.Fatalf("append after half a recovery: %v", err)
	}
}

func TestTruncate(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		m := testMem(t, 1)
		s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
		want := fill(t, s, 200, 5)
		rng := rand.New(rand.NewPCG(1, 1))
		for len(want) > 0 {
			if sealed {
				must(t, s.Seal(1))
				s = reopen(t, s, true)
			}
			n := max(0, len(want)-1-rng.IntN(30))
			to := want[n].BaseOffset() + rng.Int64N(want[n].LastOffset()-want[n].BaseOffset()+1) // anywhere in the batch
			if got := value[int64](t)(s.TruncateTo(to)); got != size(want[:n]) {
				t.Fatalf("size %d", got)
			}
			want = want[:n:n]
			checkAfterRecovery(t, "truncated", s, want)
			checkTimes(t, s, want)
			want = append(want, fill(t, s, min(n/3, 10), uint64(n))...)
			checkAfterRecovery(t, "appended", s, want)
		}
		// B-B4: truncated to nothing it goes on as new.
		if got := value[int64](t)(s.TruncateTo(0)); got != 0 || s.NextOffset() != 1000 {
			t.Fatalf("%d %d", got, s.NextOffset())
		}
		want = fill(t, s, 50, 6)
		if got := value[int64](t)(s.TruncateTo(s.NextOffset())); got != size(want) {
			t.Fatal("truncating to the end cuts")
		}
		must(t, s.Seal(1))
		s = reopen(t, s, true)
		checkAfterRecovery(t, "sealed", s, want)
		// Nothing to cut, but the segment becomes the last of its log.
		if got := value[int64](t)(s.TruncateTo(s.Base() + 1<<20)); got != size(want) || s.Sealed() {
			t.Fatalf("%d of %d bytes, sealed %v", got, size(want), s.Sealed())
		}
		want = append(want, fill(t, s, 50, 7)...)
		checkAfterRecovery(t, "written again", s, want)
	}
}

func TestTxnIndex(t *testing.T) {
	m := testMem(t, 1)
	s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
	want := fill(t, s, 100, 3)
	if _, err := m.Stat(s.path(TxnIndexSuffix)); err == nil {
		t.Fatal("a transaction index without transactions")
	}
	txn := func(i int) index.AbortedTxn {
		return index.AbortedTxn{ProducerID: int64(i), FirstOffset: want[i-5].BaseOffset(), LastOffset: want[i].LastOffset(), LastStableOffset: want[i-5].BaseOffset()}
	}
	for _, i := range []int{10, 20, 30, 90} {
		must(t, s.AppendAborted(txn(i)))
	}
	aborted := func(from, upTo int64) []index.AbortedTxn {
		t.Helper()
		list, _, err := s.AbortedTxns(nil, from, upTo)
		must(t, err)
		return list
	}
	if got := aborted(0, 1<<40); len(got) != 4 {
		t.Fatalf("%v", got)
	}
	if got := aborted(txn(20).LastOffset, txn(30).FirstOffset); len(got) != 1 || got[0] != txn(20) {
		t.Fatalf("%v", got)
	}
	if _, complete, _ := s.AbortedTxns(nil, 0, txn(10).LastStableOffset); !complete {
		t.Fatal("not complete")
	}
	value[int64](t)(s.TruncateTo(want[90].BaseOffset()))
	if got := aborted(0, 1<<40); len(got) != 3 {
		t.Fatalf("%v", got)
	}
	must(t, s.SyncIndexes())
	// Recovery drops what belongs to scanned batches and the visitor adds it again, once.
	s = reopen(t, s, false)
	value[RecoverResult](t)(s.Recover(size(want[:25]), func(b record.Batch, pos int64) error {
		if b.LastOffset() == txn(30).LastOffset {
			return s.AppendAborted(txn(30))
		}
		return nil
	}))
	if got := aborted(0, 1<<40); len(got) != 3 || got[2] != txn(30) {
		t.Fatalf("%v", got)
	}
	must(t, s.SyncIndexes())
	must(t, VerifySegment(m, testDir, 1000, false, func(p Problem) error { t.Error(p); return nil }))
	must(t, s.Delete())
	s.Release()
	if list := value[[]vfs.DirEntry](t)(m.ReadDir(testDir)); len(list) != 0 {
		t.Fatalf("left: %v", list)
	}
}

// TestLyingIndex: an index whose own order is good but whose entries point nowhere costs time, not correctness.
func TestLyingIndex(t *testing.T) {
	m := testMem(t, 1)
	s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
	want := fill(t, s, 300, 3)
	must(t, s.Seal(1))
	s.Release()
	damage(t, m, s.path(IndexSuffix), func(d []byte) []byte {
		for i := 7; i < len(d)-8; i += 8 {
			d[i] ^= 1
		}
		return d
	})
	for _, sealed := range []bool{true, false} {
		s = value[*Segment](t)(Open(testDir, 1000, testOptions(m), sealed))
		checkLookups(t, s, want)
		checkTimes(t, s, want)
		s.Release()
	}
}

// The length of a batch below the last index entry is damaged and leads past the batch of that entry, but not past the end of the file. A recovery that trusted
// the entry cut the file so that the length led past the end, and the next one, which then saw the damage, kept nothing.
func TestRecoverTwiceBehindDamagedLength(t *testing.T) {
	first, second := makeBatch(1000, 100, -1), makeBatch(1001, 100, -1) // no timestamps: the time index has nothing to say
	for _, tail := range []int{0, 1, 150, 400} {
		for grow := 1; grow <= len(second)+tail+1; grow++ {
			m := testMem(t, 1)
			bad := append(record.Batch(nil), first...)
			binary.BigEndian.PutUint32(bad[8:], binary.BigEndian.Uint32(bad[8:])+uint32(grow))
			log := slices.Concat(bad, second, bytes.Repeat([]byte{0xff}, tail))
			entry := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, uint32(len(first)))
			for suffix, data := range map[string][]byte{LogSuffix: log, IndexSuffix: entry, TimeIndexSuffix: nil} {
				must(t, vfs.WriteFileAtomic(m, testDir+"/"+FileName(1000, suffix), data))
			}
			s := value[*Segment](t)(Open(testDir, 1000, testOptions(m), false))
			from := int64(len(first) + 1)
			result := value[RecoverResult](t)(s.Recover(from, nil))
			s = reopen(t, s, false)
			again := value[RecoverResult](t)(s.Recover(from, nil))
			if again.Size != result.Size || again.NextOffset != result.NextOffset || again.Reason != Clean {
				t.Fatalf("length %d bytes too large, %d bytes behind: first %+v, second %+v", grow, tail, result, again)
			}
			s.Release()
		}
	}
}

// A file that ends with a whole batch, whose index entry is good, has damage further below, which only shows because the time index has to be made again. It is
// not taken for a shorter log that may go on there: it needs a recovery, which finds what was promised gone and cuts nothing.
func TestDamageBelowGoodEnd(t *testing.T) {
	batches := []record.Batch{makeBatch(1000, 100, 1), makeBatch(1001, 100, 2), makeBatch(1002, 100, 3)}
	log := bytes.Join([][]byte{batches[0], batches[1], batches[2]}, nil)
	log[len(batches[0])+100] ^= 1
	m := testMem(t, 1)
	entry := binary.BigEndian.AppendUint32([]byte{0, 0, 0, 2}, uint32(len(batches[0])+len(batches[1])))
	for suffix, data := range map[string][]byte{LogSuffix: log, IndexSuffix: entry, TimeIndexSuffix: nil} {
		must(t, vfs.WriteFileAtomic(m, testDir+"/"+FileName(1000, suffix), data))
	}
	s := value[*Segment](t)(Open(testDir, 1000, testOptions(m), false))
	next := makeBatch(1001, 100, 4)
	if _, err := s.Append([][]byte{next}, []Entry{EntryOf(next)}, 5); !errors.Is(err, ErrNotRecovered) {
		t.Fatal(err)
	}
	result := value[RecoverResult](t)(s.RecoverPromised(0, 1003, nil))
	if !result.Damaged || result.Size != int64(len(batches[0])) {
		t.Fatalf("%+v", result)
	}
	s.Release()
	if after := value[[]byte](t)(vfs.ReadFile(m, testDir+"/"+FileName(1000, LogSuffix), 1<<20)); !bytes.Equal(after, log) {
		t.Fatal("the file was changed")
	}
}
