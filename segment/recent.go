package segment

import "sync/atomic"

// recentBatches is how many batches from the end are found without reading anything.
const recentBatches = 64

// recent remembers where the last batches begin, for consumers at the tail. Batch k (counted from the opening of the segment) is in slot
// k%recentBatches as offset relative to the base << 32 | position. Slot count holds the end: the next offset and the size. Batches
// in it follow each other without gaps in offsets; a gap starts it anew.
//
// One writer. A reader takes no lock: it checks afterwards that the slots it read cannot have been overwritten in between.
type recent struct {
	slots [recentBatches]atomic.Uint64
	first atomic.Int64 // the oldest batch that counts
	count atomic.Int64 // batches ever added
}

func (r *recent) put(k, rel, pos int64) {
	r.slots[k%recentBatches].Store(uint64(rel)<<32 | uint64(pos))
}

// reset forgets everything; rel and pos are the end.
func (r *recent) reset(rel, pos int64) {
	k := r.count.Load() + 1
	r.put(k, rel, pos)
	r.first.Store(k)
	r.count.Store(k)
}

// add remembers a batch that begins at rel and the end of the previous one, and ends at (nextRel, nextPos).
func (r *recent) add(nextRel, nextPos int64) {
	k := r.count.Load() + 1
	r.put(k, nextRel, nextPos)
	r.count.Store(k)
}

// find returns the batch with the offset rel: where it begins and ends.
func (r *recent) find(rel int64) (baseRel, pos, end int64, ok bool) {
	count := r.count.Load()
	next := r.slots[count%recentBatches].Load()
	if rel >= int64(next>>32) {
		return 0, 0, 0, false
	}
	oldest := max(r.first.Load(), count-recentBatches+2)
	for k := count - 1; k >= oldest; k-- {
		v := r.slots[k%recentBatches].Load()
		if int64(v>>32) <= rel {
			// The writer may be about to reuse the slot of batch now-recentBatches+1, not newer ones.
			intact := r.count.Load()-k < recentBatches-1 && r.first.Load() <= k
			return int64(v >> 32), int64(v & (1<<32 - 1)), int64(next & (1<<32 - 1)), intact
		}
		next = v
	}
	return 0, 0, 0, false
}
