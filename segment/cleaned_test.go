package segment

import (
	"testing"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

func batchAt(base int64, n int, ts int64) record.Batch {
	w := record.NewBuilder(record.Options{BaseOffset: base})
	for range n {
		w.Append(ts, []byte("k"), make([]byte, 90), nil)
	}
	return w.Bytes()
}

// A segment written by a compaction is, once installed, one like any other: it opens without a rebuild, leads to every batch over its gaps, and agrees
// with its indexes; batches without records have offsets and no time (R11).
func TestCleaned(t *testing.T) {
	mem := testMem(t, 1)
	o := testOptions(mem)
	c, err := CreateCleaned(testDir, 100, o)
	must(t, err)
	var bases []int64
	for i := range int64(40) {
		b := batchAt(103+i*10, 2, 5000+i)
		if i%4 == 3 {
			b = batchAt(103+i*10, 2, 900_000)
			b = record.AppendEmpty(nil, b)
		}
		if !c.Fits(b) {
			t.Fatal("does not fit")
		}
		must(t, c.Append(b))
		bases = append(bases, b.BaseOffset())
	}
	c.AppendAborted(index.AbortedTxn{ProducerID: 3, FirstOffset: 110, LastOffset: 120, LastStableOffset: 121})
	must(t, c.Sync(77_000))
	must(t, c.SyncIndexes())
	must(t, c.Promise())
	must(t, c.Install())
	must(t, c.Install())
	must(t, mem.SyncDir(testDir))
	mem = mem.Crash(vfs.LoseUnsynced)
	o = testOptions(mem)
	s, err := Open(testDir, 100, o, true)
	must(t, err)
	if s.AppendTimeMaxMs() != 77_000 || s.Size() != c.Size() {
		t.Errorf("append time %d, size %d", s.AppendTimeMaxMs(), s.Size())
	}
	must(t, s.Load())
	if s.NextOffset() != 495 || s.NextOffset() != c.NextOffset() {
		t.Fatalf("next offset %d", s.NextOffset())
	}
	if ts, last, err := s.MaxTimestamp(); err != nil || ts != 5038 || last != 103+380+1 {
		t.Errorf("largest timestamp %d at %d, %v", ts, last, err)
	}
	for off := int64(100); off < 495; off++ {
		i := 0
		for bases[i]+1 < off {
			i++
		}
		want := bases[i]
		_, base, _, err := s.PositionOf(off, s.Size())
		if err != nil || base != want {
			t.Fatalf("offset %d is in the batch at %d, want %d, %v", off, base, want, err)
		}
	}
	txns, _, err := s.AbortedTxns(nil, 0, 1000)
	if err != nil || len(txns) != 1 {
		t.Errorf("%v, %v", txns, err)
	}
	must(t, VerifySegment(mem, testDir, 100, true, func(p Problem) error {
		t.Errorf("%v", p)
		return nil
	}))
	if s.IndexErr() != nil {
		t.Errorf("an index was made again: %v", s.IndexErr())
	}
	s.Release()
}

// A segment that is full, or too far from its base, takes no more (R13).
func TestCleanedLimits(t *testing.T) {
	o := testOptions(testMem(t, 1))
	o.MaxBytes = 1000
	c, err := CreateCleaned(testDir, 5, o)
	must(t, err)
	if !c.Fits(batchAt(5, 30, 1)) { // one batch of any size
		t.Error("the first batch does not fit")
	}
	must(t, c.Append(batchAt(5, 5, 1)))
	if c.Fits(batchAt(10, 5, 1)) || !c.Fits(batchAt(10, 1, 1)) {
		t.Error("segment.bytes does not count")
	}
	if c.Fits(batchAt(5+1<<31, 1, 1)) || !c.Fits(batchAt(5+1<<31-1, 1, 1)) {
		t.Error("the span of offsets does not count")
	}
	if c.Append(batchAt(9, 1, 1)) == nil {
		t.Error("offsets went back")
	}
	must(t, c.Abort())
	if list, err := o.FS.ReadDir(testDir); err != nil || len(list) != 0 {
		t.Errorf("%v left, %v", list, err)
	}
}
