package segment

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// someBatches makes n batches with the timestamp ts, or growing ones when step is not 0.
func someBatches(n int, ts, step int64) []record.Batch {
	var all []record.Batch
	for i := range n {
		all = append(all, makeBatch(int64(i), 100, ts+int64(i)*step))
	}
	return all
}

// bytesRead sums up the reads of a recorded run.
func bytesRead(f *vfs.Fault) (n int64) {
	for _, op := range f.Recorded() {
		if op.Kind == vfs.OpRead {
			n += op.N
		}
	}
	return n
}

// F3, F5: a segment at rest has no file open; a start opens nothing, and the first use finds everything as it was.
func TestRest(t *testing.T) {
	for _, step := range []int64{0, 1} {
		f := vfs.NewFault(testMem(t, 1))
		o := testOptions(f)
		s := value[*Segment](t)(Create(testDir, 0, o))
		all := someBatches(50, 1000, step)
		appendBatches(t, s, all...)
		must(t, s.Sync())
		if !s.Acquire() {
			t.Fatal("no reference")
		}
		if done, err := s.Rest(); done || err != nil {
			t.Fatalf("it was put to rest under a reader: %v", err)
		}
		s.Release()
		before := f.Count(vfs.OpClose)
		if done, err := s.Rest(); !done || err != nil || !s.Resting() || f.Count(vfs.OpClose) != before+3 {
			t.Fatalf("not put to rest: %v, %d files closed", err, f.Count(vfs.OpClose)-before)
		}
		if _, err := s.Append([][]byte{makeBatch(50, 100, 2000)}, []Entry{EntryOf(makeBatch(50, 100, 2000))}, 1); err != nil || s.Resting() {
			t.Fatalf("append to a resting segment: %v", err)
		}
		must(t, s.Seal(0))
		must(t, s.Sync())
		must(t, s.SyncIndexes())
		end := s.State()
		s.Release()
		checkFiles(t, f, testDir, 0)

		f.Record()
		s, ok, err := OpenResting(testDir, 0, o, end)
		if err != nil || !ok {
			t.Fatalf("open: %v, %v", ok, err)
		}
		for _, op := range f.Recorded() {
			if op.Kind != vfs.OpStat {
				t.Errorf("opening did %v", op)
			}
		}
		if ts, off, err := s.MaxTimestamp(); ts != 2000 || off != 50 || err != nil || !s.Resting() {
			t.Fatalf("largest timestamp %d at %d, %v", ts, off, err)
		}
		if pos, base, _, err := s.PositionOf(49, s.Size()); err != nil || base != 49 || pos <= 0 || s.Resting() {
			t.Fatalf("position %d of batch %d, %v", pos, base, err)
		}
		appendBatches(t, s, makeBatch(51, 100, 3000))
		must(t, s.Sync())
		s.Release()
	}
}

// A file that is not what was noted is not opened so; one that has the length but not the batches is damage, of this segment alone.
func TestRestDamage(t *testing.T) {
	m := testMem(t, 1)
	o := testOptions(m)
	s := value[*Segment](t)(Create(testDir, 0, o))
	appendBatches(t, s, someBatches(20, 1000, 1)...)
	must(t, s.Seal(0))
	end := s.State()
	s.Release()
	wrong := end
	wrong.Size--
	if _, ok, err := OpenResting(testDir, 0, o, wrong); ok || err != nil {
		t.Fatalf("another length: %v, %v", ok, err)
	}
	damage(t, m, filepath.Join(testDir, FileName(0, LogSuffix)), func(data []byte) []byte {
		data[len(data)-20] ^= 1
		return data
	})
	s, ok, err := OpenResting(testDir, 0, o, end)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	defer s.Release()
	must(t, s.Load())
	if err := s.Damage(); err == nil {
		t.Fatal("the damage was not found")
	}
	b := makeBatch(20, 100, 5000)
	if _, err := s.Append([][]byte{b}, []Entry{EntryOf(b)}, 1); !errors.Is(err, ErrFailed) {
		t.Fatalf("append behind damage: %v", err)
	}
	if _, base, _, err := s.PositionOf(10, s.Size()); err != nil || base != 10 {
		t.Fatalf("the batches before: %d, %v", base, err)
	}
}

// R7, R8, D1: a recovery from a noted state reads what was appended since, whatever is before it, in the indexes, and allocated behind it.
func TestRecoverTailReadsTheTail(t *testing.T) {
	for _, step := range []int64{0, 1} { // 0: a time index of one entry must not lead to a walk over everything
		m := testMem(t, 1)
		f := vfs.NewFault(m)
		o := testOptions(f)
		o.MaxBytes, o.PreallocStep, o.IndexMaxBytes = 8<<20, 4<<20, 256<<10
		s := value[*Segment](t)(Create(testDir, 0, o))
		all := someBatches(2000, 1000, step)
		appendBatches(t, s, all[:1990]...)
		must(t, s.Sync())
		end := s.State()
		appendBatches(t, s, all[1990:]...)
		must(t, f.SyncDir(testDir))
		f = vfs.NewFault(m.Crash(vfs.KeepAll))
		o.FS = f
		f.Record()
		seen := 0
		s, res, ok, err := RecoverTail(testDir, 0, o, end, 1995, func(record.Batch) { seen++ })
		if err != nil || !ok || seen != 10 || res.NextOffset != 2000 || !s.Resting() {
			t.Fatalf("%v, %v, %d batches, %+v", err, ok, seen, res)
		}
		if n := bytesRead(f); n > scanChunkBytesMin+2*zeroTailBytesMax {
			t.Errorf("step %d: %d bytes were read for a tail of 10 batches", step, n)
		}
		f.Record()
		appendBatches(t, s, makeBatch(2000, 100, 9000)) // wakes it
		if n := bytesRead(f); n > 3*o.indexBytesOf(2000)+(256<<10) {
			t.Errorf("step %d: %d bytes were read at the first append", step, n)
		}
		must(t, s.Seal(0))
		must(t, s.Sync())
		s.Release()
		checkFiles(t, f, testDir, 0)
	}
}

// indexBytesOf bounds the size of the indexes of n batches.
func (o *Options) indexBytesOf(n int64) int64 { return n * 20 }

// Valid batches that end below what was promised are damage: nothing is changed.
func TestRecoverTailPromised(t *testing.T) {
	m := testMem(t, 1)
	o := testOptions(m)
	s := value[*Segment](t)(Create(testDir, 0, o))
	all := someBatches(20, 1000, 1)
	appendBatches(t, s, all[:10]...)
	end := s.State()
	appendBatches(t, s, all[10:]...)
	must(t, s.Sync())
	must(t, m.SyncDir(testDir))
	s.Release()
	name := filepath.Join(testDir, FileName(0, LogSuffix))
	damage(t, m, name, func(data []byte) []byte {
		data[int(end.Size)+5*len(all[0])+70] ^= 1
		return data
	})
	before := value[[]byte](t)(vfs.ReadFile(m, name, 1<<20))
	if _, _, ok, err := RecoverTail(testDir, 0, o, end, 16, func(record.Batch) {}); ok || err != nil {
		t.Fatalf("promised to 16, valid to 15: %v, %v", ok, err)
	}
	if after := value[[]byte](t)(vfs.ReadFile(m, name, 1<<20)); string(after) != string(before) {
		t.Fatal("the file was changed")
	}
	s, res, ok, err := RecoverTail(testDir, 0, o, end, 15, func(record.Batch) {})
	if !ok || err != nil || res.NextOffset != 15 || res.CutBytes == 0 {
		t.Fatalf("promised to 15: %v, %v, %+v", ok, err, res)
	}
	s.Release()
}

// Readers and the one who puts segments to rest at the same time.
func TestRestHammer(t *testing.T) {
	dir := t.TempDir()
	o := testOptions(vfs.OS)
	s := value[*Segment](t)(Create(dir, 0, o))
	all := someBatches(100, 1000, 1)
	appendBatches(t, s, all...)
	must(t, s.Sync())
	done := make(chan error, 4)
	for r := range 4 {
		go func() {
			buf := make([]byte, len(all[0]))
			for i := range 300 {
				n := int64((i*7 + r) % 100)
				if !s.Acquire() {
					done <- errors.New("gone")
					return
				}
				pos, _, size, err := s.PositionOf(n, s.Size())
				if err == nil {
					_, err = s.ReadAt(buf[:size], pos)
				}
				s.Release()
				if err != nil || record.Batch(buf).BaseOffset() != n {
					done <- errors.Join(err, os.ErrInvalid)
					return
				}
			}
			done <- nil
		}()
	}
	for left := 4; left > 0; {
		if _, err := s.Rest(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			left--
			if err != nil {
				t.Fatal(err)
			}
		default:
		}
	}
	s.Release()
}
