package group

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// committedAt puts an offset into a group, which is a simple one when it is new.
func (s *sim) committedAt(group, topic string, partition int32, commitMs, expireMs int64) {
	g := s.s.group(group)
	t := g.offsets[topic]
	if t == nil {
		t = new(topicOffsets)
		g.offsets[topic] = t
	}
	t.committed.put(partition, &committed{offset: 7, commitMs: commitMs, expireMs: expireMs, topicID: s.names[topic]})
}

func TestSummary(t *testing.T) {
	s := newSim(t)
	s.names["t"], s.names["u"] = [16]byte{15: 1}, [16]byte{15: 2}
	s.now = 100 * noticeMs
	kept := s.cfg.OffsetsRetentionMs
	soon := s.now + noticeMs - kept // of a commit whose offset expires in exactly a day
	s.committedAt("idle", "t", 0, soon, -1)
	s.committedAt("idle", "t", 1, soon-5, -1)
	s.committedAt("idle", "t", 2, soon+1, -1)
	s.committedAt("idle", "u", 0, s.now, -1)
	s.committedAt("own time", "t", 0, s.now, s.now+1000)
	s.committedAt("over", "t", 0, s.now-kept-1, -1)
	s.committedAt("fresh", "t", 0, s.now, -1)
	s.committedAt("bad\xff", "t", 0, soon, -1)
	s.committedAt(strings.Repeat("long", 100), "t", 0, soon, -1)
	s.consumerBeat("m", joinEpoch, []string{"t"}) // the group is g
	s.committedAt("g", "t", 0, soon, -1)
	s.committedAt("g", "u", 0, soon, -1) // nobody subscribes to it any more
	got := s.s.Summarize(s.now)
	got.Finish()
	want := &Summary{Offsets: 11, ExpiringGroups: 6, ExpiringOffsets: 7,
		Groups:   map[Class]int{{"classic", "Empty"}: 6, {"consumer", "Stable"}: 1},
		Expiring: []Expiring{{"g", 1, s.now + noticeMs}, {"idle", 2, s.now + noticeMs - 5}, {"over", 1, s.now - 1}, {"own time", 1, s.now + 1000}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// What is said to expire within a day is what has expired in a day.
func TestSummaryForesees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := newSim(t)
	s.names["t"] = [16]byte{15: 1}
	s.now = 100 * noticeMs
	for n := range 2000 {
		expireMs := int64(-1)
		if r.IntN(4) == 0 {
			expireMs = s.now + r.Int64N(3*noticeMs)
		}
		s.committedAt(fmt.Sprint("g", n%3*r.IntN(500)), "t", int32(n), s.now-r.Int64N(9*noticeMs), expireMs)
	}
	sum := s.s.Summarize(s.now)
	groups, offsets := 0, 0
	for _, g := range s.s.groups {
		if due, _, _ := s.s.due(s.now+noticeMs, g); len(due) > 0 {
			groups, offsets = groups+1, offsets+len(due)
		}
	}
	if sum.ExpiringGroups != groups || sum.ExpiringOffsets != offsets || groups < 100 || offsets == sum.Offsets || sum.Offsets != 2000 {
		t.Errorf("%d groups, %d offsets of %d; want %d and %d", sum.ExpiringGroups, sum.ExpiringOffsets, sum.Offsets, groups, offsets)
	}
}

// A turn of a shard with 20,000 offsets: a fiftieth of a million.
func BenchmarkSummarize20k(b *testing.B) {
	s := newSim(b)
	s.names["t"] = [16]byte{15: 1}
	s.now = 100 * noticeMs
	for g := range 200 {
		for p := range int32(100) {
			s.committedAt(fmt.Sprint("g", g), "t", p, s.now, -1)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		s.s.Summarize(s.now)
	}
}
