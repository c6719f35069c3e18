package segment

import (
	"testing"

	"github.com/leatmq/leat/record"
)

// B-B7: the index and the header of the newest batch reached the disk, the rest of the batch did not. The segment ends before that batch, and
// knows what comes next, without a Recover: who continues the log compares that with the recovery point.
func TestTornBatchBehindLastIndexEntry(t *testing.T) {
	for torn := 1; torn <= 3; torn++ {
		m := testMem(t, 1)
		s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
		var batches []record.Batch
		for i := range int64(6) {
			batches = append(batches, makeBatch(1000+i, 300, i))
		}
		appendBatches(t, s, batches...)
		entries := s.offsets.Load().Entries()
		must(t, s.Seal(1))
		name := s.path(LogSuffix)
		s.Release()
		damage(t, m, name, func(data []byte) []byte {
			for i := range torn {
				end := size(batches[:6-i])
				clear(data[end-100 : end])
			}
			return data
		})
		s = value[*Segment](t)(Open(testDir, 1000, testOptions(m), false))
		if s.Size() != size(batches[:6-torn]) || s.NextOffset() != 1006-int64(torn) {
			t.Errorf("%d of 6 batches torn, %d index entries: size %d, next offset %d", torn, entries, s.Size(), s.NextOffset())
		}
		s.Release()
	}
}
