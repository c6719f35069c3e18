package segment

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// checked remembers which parts of the data file were seen to be whole: what this process wrote, what a recovery scanned, and what Check read.
// Everything else came from the disk unseen, and may be sent to somebody without passing through memory; a reader that must not hand on damage asks
// Checked, and where the answer is no, Check, which reads the batches once. So damage that happened while nobody looked is found before the first
// reader after an opening gets it; what goes bad later, under a page that was checked before, only the readers' own checksums find.
//
// A span begins and ends at batches. There are few: readers go forward, and neighbours are joined.
type checked struct {
	mu    sync.Mutex // of whoever changes spans
	spans atomic.Pointer[[]span]
}

type span struct{ from, to int64 }

// checkedSpansMax bounds what a segment remembers; the smallest is forgotten.
const checkedSpansMax = 64

// everything is what a segment made by this process has.
var everything = []span{{0, math.MaxInt64}}

// trust notes that all from pos on is whole, and what will be appended as well.
func (c *checked) trust(pos int64) {
	if pos == 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spans.Store(&everything)
		return
	}
	c.add(span{pos, math.MaxInt64})
}

func (c *checked) has(from, to int64) bool {
	p := c.spans.Load()
	if p == nil {
		return false
	}
	for _, s := range *p {
		if s.from <= from && to <= s.to {
			return true
		}
	}
	return false
}

// add joins a span with its neighbours.
func (c *checked) add(s span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next []span
	if p := c.spans.Load(); p != nil {
		for _, old := range *p {
			if old.to < s.from || s.to < old.from {
				next = append(next, old)
				continue
			}
			s.from, s.to = min(s.from, old.from), max(s.to, old.to)
		}
	}
	next = append(next, s)
	if len(next) > checkedSpansMax {
		smallest := slices.MinFunc(next, func(a, b span) int { return compareLengths(a, b) })
		next = slices.DeleteFunc(next, func(s span) bool { return s == smallest })
	}
	c.spans.Store(&next)
}

func compareLengths(a, b span) int {
	x, y := a.to-a.from, b.to-b.from
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// Checked tells whether the n bytes at pos were seen to be whole batches since the segment was opened. Never waits.
func (s *Segment) Checked(pos, n int64) bool { return s.checked.has(pos, pos+n) }

// Check reads the batches from pos, a batch boundary, until one ends at or behind end, proves their checksums and that their offsets follow each other,
// and returns where the good ones end. If that is before end, the error tells why: a *CorruptError names the position of the first bad batch.
// May wait for the disk.
func (s *Segment) Check(pos, end int64) (good int64, err error) {
	if err := s.Load(); err != nil {
		return pos, err
	}
	f, err := s.file()
	if err != nil {
		return pos, err
	}
	size := s.size.Load()
	r := newBatches(f, size)
	defer r.close()
	next, known := s.base, pos == 0
	for good = pos; good < min(end, size); {
		b, err := r.at(good)
		if err == nil {
			err = b.Check()
		}
		if err == nil {
			err = s.follows(b, next, known)
		}
		if err != nil {
			if notABatch(err) || isOffsetError(err) {
				err = s.corrupt(good, err)
			}
			s.noteChecked(pos, good)
			return good, err
		}
		good += int64(len(b))
		next, known = b.NextOffset(), true
	}
	s.noteChecked(pos, good)
	return good, nil
}

func (s *Segment) noteChecked(from, to int64) {
	if to > from {
		s.checked.add(span{from, to})
	}
}
