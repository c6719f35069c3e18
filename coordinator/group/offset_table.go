package group

import (
	"iter"
	"math/bits"
	"slices"
	"sort"
)

// offsetTable is the committed offsets of one topic, by partition, small in memory and quick to fill: a coordinator that begins
// takes millions of them over while its clients wait. Any number is a partition's, for they come out of a log.
//
// Partitions are in pages of pageSize neighbours. A page has a bit for each partition and, densely, the offsets of those that are there. What
// nearly all offsets of a topic have in common (its id) or do not have (metadata, a time to expire of their own) is not in them.
type offsetTable struct {
	pages  []offsetPage // in order of number, none empty
	id     [16]byte     // the topic's id, of all offsets that are not in others
	others map[int32]otherOffset
	count  int
}

const (
	pageBits = 6
	pageSize = 1 << pageBits
)

type offsetPage struct {
	number int32 // of its partitions, without the last pageBits
	there  uint64
	list   []plainOffset // one for each bit of there
}

// plainOffset is what every offset has.
type plainOffset struct {
	offset      int64
	commitMs    int64
	leaderEpoch int32
	other       bool // the rest is in others
}

// otherOffset is what few have.
type otherOffset struct {
	metadata string
	expireMs int64
	topicID  [16]byte
}

// page returns the place of a page in pages; there is false when it would have to be inserted there. Pages are mostly filled one after the other.
func (t *offsetTable) page(number int32) (at int, there bool) {
	n := len(t.pages)
	if n > 0 && t.pages[n-1].number == number {
		return n - 1, true
	}
	if n == 0 || t.pages[n-1].number < number {
		return n, false
	}
	at = sort.Search(n, func(i int) bool { return t.pages[i].number >= number })
	return at, t.pages[at].number == number
}

// slot returns the place of a partition in the list of a page, and its bit.
func (p *offsetPage) slot(partition int32) (at int, bit uint64) {
	bit = 1 << (partition & (pageSize - 1))
	return bits.OnesCount64(p.there & (bit - 1)), bit
}

// find returns the page and the slot of a partition; nil when there is no offset.
func (t *offsetTable) find(partition int32) (*offsetPage, int) {
	at, there := t.page(partition >> pageBits)
	if !there {
		return nil, 0
	}
	p := &t.pages[at]
	slot, bit := p.slot(partition)
	if p.there&bit == 0 {
		return nil, 0
	}
	return p, slot
}

func (t *offsetTable) has(partition int32) bool {
	p, _ := t.find(partition)
	return p != nil
}

func (t *offsetTable) get(partition int32) (committed, bool) {
	p, slot := t.find(partition)
	if p == nil {
		return committed{}, false
	}
	return t.whole(partition, &p.list[slot]), true
}

// whole puts an offset together.
func (t *offsetTable) whole(partition int32, o *plainOffset) committed {
	c := committed{offset: o.offset, leaderEpoch: o.leaderEpoch, commitMs: o.commitMs, expireMs: -1, topicID: t.id}
	if o.other {
		x := t.others[partition]
		c.metadata, c.expireMs, c.topicID = x.metadata, x.expireMs, x.topicID
	}
	return c
}

// put sets the offset of a partition.
func (t *offsetTable) put(partition int32, c *committed) {
	if t.count == 0 {
		t.id = c.topicID
	}
	o := plainOffset{offset: c.offset, commitMs: c.commitMs, leaderEpoch: c.leaderEpoch}
	o.other = c.metadata != "" || c.expireMs >= 0 || c.topicID != t.id
	was := t.set(partition, o)
	switch {
	case o.other:
		if t.others == nil {
			t.others = map[int32]otherOffset{}
		}
		t.others[partition] = otherOffset{c.metadata, c.expireMs, c.topicID}
	case was.other:
		delete(t.others, partition)
	}
}

// set puts the plain part of an offset into its page and returns what was there.
func (t *offsetTable) set(partition int32, o plainOffset) (was plainOffset) {
	at, there := t.page(partition >> pageBits)
	if !there {
		t.pages = slices.Insert(t.pages, at, offsetPage{number: partition >> pageBits})
	}
	p := &t.pages[at]
	slot, bit := p.slot(partition)
	if p.there&bit != 0 {
		was, p.list[slot] = p.list[slot], o
		return was
	}
	p.list = slices.Insert(p.list, slot, o)
	p.there |= bit
	t.count++
	return was
}

func (t *offsetTable) remove(partition int32) {
	p, slot := t.find(partition)
	if p == nil {
		return
	}
	if p.list[slot].other {
		delete(t.others, partition)
	}
	_, bit := p.slot(partition)
	p.list = slices.Delete(p.list, slot, slot+1)
	p.there &^= bit
	if t.count--; p.there == 0 {
		at, _ := t.page(p.number)
		t.pages = slices.Delete(t.pages, at, at+1)
	}
}

// all is every offset, in order of partitions. The table must not be changed meanwhile.
func (t *offsetTable) all() iter.Seq2[int32, committed] {
	return func(yield func(int32, committed) bool) {
		for i := range t.pages {
			p := &t.pages[i]
			for slot, there := 0, p.there; there != 0; slot, there = slot+1, there&(there-1) {
				partition := p.number<<pageBits + int32(bits.TrailingZeros64(there))
				if !yield(partition, t.whole(partition, &p.list[slot])) {
					return
				}
			}
		}
	}
}

// uniform says whether all offsets are of one topic id, and none expires at a time of its own: t.id says then all there is to know.
func (t *offsetTable) uniform() bool { return len(t.others) == 0 }
