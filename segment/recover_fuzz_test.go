package segment

import (
	"bytes"
	"math"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// FuzzRecover: whatever the bytes of the files are, a recovery from the start keeps exactly the longest run of valid batches with growing offsets, a
// second one changes nothing, and lookups and searches work. A recovery from elsewhere, which trusts the indexes as far as they agree with
// the data, does not panic and is repeatable too.
func FuzzRecover(f *testing.F) {
	var log []byte
	for i := range int64(8) {
		log = append(log, makeBatch(1000+2*i, 50, 1000+i, 900)...)
	}
	f.Add(log, []byte(nil), []byte(nil), uint16(0))
	f.Add(append(log[:len(log):len(log)], make([]byte, 300)...), []byte{0, 0, 0, 5, 0, 0, 1, 0xd4}, make([]byte, 24), uint16(400))
	f.Add(log[:len(log)-7], []byte{0, 0, 0, 3, 0, 0, 0, 181}, []byte{0, 0, 0, 0, 0, 0, 3, 0xe9, 0, 0, 0, 3}, uint16(600))
	f.Add(append([]byte(nil), log[100:]...), []byte(nil), []byte(nil), uint16(0))
	f.Fuzz(func(t *testing.T, log, offsets, times []byte, from uint16) {
		if len(log)+len(offsets)+len(times) > 1<<16 {
			return
		}
		m := testMem(t, 1)
		put := func() {
			for suffix, data := range map[string][]byte{LogSuffix: log, IndexSuffix: offsets, TimeIndexSuffix: times} {
				must(t, vfs.WriteFileAtomic(m, testDir+"/"+FileName(1000, suffix), data))
			}
		}
		put()
		s := value[*Segment](t)(Open(testDir, 1000, testOptions(m), false))
		want := validRun(log)
		got := recoverAll(t, "", s, 0)
		if size(got) != int64(want) || !bytes.Equal(bytes.Join(asBytes(got), nil), log[:want]) {
			t.Fatalf("%d bytes recovered, %d are valid", size(got), want)
		}
		checkLookups(t, s, got)
		for range 2 {
			again := recoverAll(t, "", s, 0)
			if len(again) != len(got) {
				t.Fatal("a second recovery changes something")
			}
			s = reopen(t, s, false)
		}
		checkFilesShallow(t, m)
		s.Release()

		put()
		s = value[*Segment](t)(Open(testDir, 1000, testOptions(m), false))
		result := value[RecoverResult](t)(s.Recover(int64(from), nil))
		s = reopen(t, s, false)
		again := value[RecoverResult](t)(s.Recover(int64(from), nil))
		if again.Size != result.Size || again.NextOffset != result.NextOffset || again.Reason != Clean {
			t.Fatalf("first %+v, second %+v", result, again)
		}
		s.Release()

		put()
		s = value[*Segment](t)(Open(testDir, 1000, testOptions(m), true))
		_, _, _, _ = s.PositionOf(1003, math.MaxInt64)
		_, _, _, _ = s.OffsetForTimestamp(1001, 2000)
		_, _, _, _ = s.MaxTimestampOffset(1005)
		s.Release()
	})
}

func asBytes(batches []record.Batch) (list [][]byte) {
	for _, b := range batches {
		list = append(list, b)
	}
	return list
}

// validRun says by other means how long the run of valid batches is.
func validRun(log []byte) int {
	next := int64(1000)
	end, _ := record.Walk(log, func(pos int, b record.Batch) error {
		if b.BaseOffset() < next || b.LastOffset() > 1000+math.MaxInt32 {
			return record.ErrEnd
		}
		next = b.NextOffset()
		return nil
	})
	return end
}

func checkFilesShallow(t *testing.T, m *vfs.Mem) {
	t.Helper()
	must(t, VerifySegment(m, testDir, 1000, false, func(p Problem) error {
		if !p.Harmless() {
			t.Error(p)
		}
		return nil
	}))
}
