package client

import (
	"math/bits"

	"github.com/leatmq/leat/record"
)

// splitOverhead is what a record may grow by in another batch: its deltas may take more bytes.
const splitOverhead = 10

// split makes two batches of one that the broker finds too large; nil when it has one record only, may have been appended before, or cannot be read. From now on, batches of
// the partition are smaller. mu is held.
func (t *part) split(b *batch) []*batch {
	if b.builder.Count() < 2 || b.unknown {
		return nil
	}
	sizes, total := make([]int, 0, b.builder.Count()), 0
	err := b.data.Records(func(r *record.Record) error {
		sizes = append(sizes, r.Size+splitOverhead)
		total += r.Size + splitOverhead
		return nil
	})
	if err != nil {
		return nil
	}
	first, size := 1, sizes[0]
	for first < len(sizes)-1 && size+sizes[first] <= total/2 {
		size += sizes[first]
		first++
	}
	halves := []*batch{t.part(b, size), t.part(b, total-size)}
	n := 0
	base := b.data.BaseTimestamp()
	_ = b.data.Records(func(r *record.Record) error {
		to, delta := halves[0], n
		if n >= first {
			to, delta = halves[1], n-first
		}
		to.builder.AppendView(base+r.TimestampDelta, int32(delta), r)
		n++
		return nil
	})
	if len(b.dones) > 0 {
		halves[0].dones = append(halves[0].dones, b.dones[:first]...)
		halves[1].dones = append(halves[1].dones, b.dones[first:]...)
	}
	t.largest = max(smallestBuffer, 1<<(bits.Len(uint(total/2))-1))
	return halves
}

// part is an empty batch with what is common to both halves of b, and room for so many bytes of records. Its memory may be beyond the limit, until that of b is given back.
func (t *part) part(b *batch, size int) *batch {
	p := t.producer
	half := p.batches.Get().(*batch)
	half.reset(p.pool.force(record.HeaderSize+size), p.options(), b.created, b.deadline)
	for _, f := range b.flushes {
		f.left.Add(1)
		half.flushes = append(half.flushes, f)
	}
	return half
}

// drop lets go of a batch that others have taken the place of. mu is held.
func (t *part) drop(b *batch) {
	t.producer.pool.put(b.builder.SetBuffer(nil))
	for _, f := range b.flushes {
		f.release()
	}
	b.data = nil
	t.producer.batches.Put(b)
}
