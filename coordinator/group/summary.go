package group

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Summary is a look at the groups of a shard, or of several, in numbers.
type Summary struct {
	Groups  map[Class]int
	Offsets int // committed, of all groups

	// Of groups with offsets that expire within a day unless something happens.
	ExpiringGroups  int
	ExpiringOffsets int
	Expiring        []Expiring // at most ExpiringMax, those that lose an offset first; not those with an id that is long or not UTF-8
}

// Class is what groups are counted by, in the words of ListGroups.
type Class struct{ Type, State string }

// Expiring is a group with offsets that expire within a day.
type Expiring struct {
	ID      string
	Offsets int
	AtMs    int64 // when the first of them does
}

// Bounds of Summary.Expiring.
const (
	ExpiringMax      = 1000
	expiringIDLength = 256
)

// Summarize counts. It reads every group and every offset, and changes nothing.
func (s *Shard) Summarize(nowMs int64) *Summary {
	sum := &Summary{Groups: map[Class]int{}}
	retentionMs := s.config().OffsetsRetentionMs
	var c committed // one for all: it is handed on by its address
	for id, g := range s.groups {
		sum.Groups[Class{g.membership.typeName(), g.membership.stateName()}]++
		e := Expiring{ID: id}
		for name, t := range g.offsets {
			sum.Offsets += t.committed.count
			if !g.membership.isEmpty() && g.membership.subscribes(name) {
				continue
			}
			for _, c = range t.committed.all() {
				if at, ok := expiresAt(g, &c, retentionMs); ok && at-nowMs <= noticeMs {
					if e.Offsets++; e.Offsets == 1 || at < e.AtMs {
						e.AtMs = at
					}
				}
			}
		}
		sum.expiring(e)
	}
	return sum
}

func (s *Summary) expiring(e Expiring) {
	if e.Offsets == 0 {
		return
	}
	s.ExpiringGroups++
	s.ExpiringOffsets += e.Offsets
	if len(e.ID) <= expiringIDLength && utf8.ValidString(e.ID) {
		s.Expiring = append(s.Expiring, e)
		s.cut(2 * ExpiringMax)
	}
}

// cut leaves the first ExpiringMax when there are more than limit.
func (s *Summary) cut(limit int) {
	if len(s.Expiring) <= limit {
		return
	}
	slices.SortFunc(s.Expiring, func(a, b Expiring) int { return cmp.Or(cmp.Compare(a.AtMs, b.AtMs), strings.Compare(a.ID, b.ID)) })
	s.Expiring = slices.Clone(s.Expiring[:ExpiringMax])
}

// Add takes the groups of another shard in.
func (s *Summary) Add(other *Summary) {
	for class, n := range other.Groups {
		s.Groups[class] += n
	}
	s.Offsets += other.Offsets
	s.ExpiringGroups += other.ExpiringGroups
	s.ExpiringOffsets += other.ExpiringOffsets
	s.Expiring = append(s.Expiring, other.Expiring...)
	s.cut(2 * ExpiringMax)
}

// Finish cuts and sorts what Add has put together: by id.
func (s *Summary) Finish() {
	s.cut(ExpiringMax)
	slices.SortFunc(s.Expiring, func(a, b Expiring) int { return strings.Compare(a.ID, b.ID) })
}
