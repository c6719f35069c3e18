//go:build linux

package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// rollingSize is a rolling restart: how many members, on how many partitions; how long each is away, and how long it is back before the next one goes: both a
// little longer than group.consumer.assignment.interval.ms, for no process starts faster.
type rollingSize struct {
	members, partitions int
	absence, pause      time.Duration
}

var rolling = struct{ full, tiny rollingSize }{
	full: rollingSize{members: 100, partitions: 1000, absence: 1100 * time.Millisecond, pause: 1100 * time.Millisecond},
	tiny: rollingSize{members: 4, partitions: 9, absence: 5 * time.Millisecond, pause: 5 * time.Millisecond},
}

// BenchmarkRollingRestart restarts the members of two consumer groups (KIP-848) one after the other, at the default heartbeat interval, and says how long
// partitions had no owner beyond the absence of the member that went away with them. The members of one group are static (group.instance.id), those
// of the other come back as new members. An owner is who uses a partition by what the coordinator has told it: from the answer that gives it until the
// answer that takes it away, or until it leaves.
func BenchmarkRollingRestart(b *testing.B) {
	s := rolling.full
	for i, g := range rollingRestart(b, s) {
		what := []string{"static members", "members that come back as new ones"}[i]
		noteFact(b, fmt.Sprintf("rolling restart of %d %s, %d partitions: without owner beyond the absence, p99", s.members, what, s.partitions), "p99-ms", "<= 500 ms", g.percentile(0.99))
		noteFact(b, "  median", "p50-ms", "", g.percentile(0.5))
		noteFact(b, "  longest", "max-ms", "", g.percentile(1))
		noteFact(b, "  times that a partition had no owner", "gaps", "", float64(len(g.beyond)))
	}
}

func TestRollingRestart(t *testing.T) {
	t.Parallel()
	for _, g := range rollingRestart(t, rolling.tiny) {
		if len(g.beyond) < rolling.tiny.partitions {
			t.Errorf("%d times without owner", len(g.beyond))
		}
	}
}

// rollingGroup is one of the groups, and what has become of its partitions.
type rollingGroup struct {
	name    string
	size    rollingSize
	members []*rollingMember
	open    map[ownedKey]gap // partitions without owner
	beyond  []time.Duration  // of gaps that are over

	turn   int // who is away, or goes next
	due    time.Time
	absent bool
}

type ownedKey struct {
	topic     topicID
	partition int32
}

// gap is a partition without owner: since when, and who has gone away with it.
type gap struct {
	since time.Time
	left  *absence
}

// absence is that of a member; long is known when it is over.
type absence struct {
	since time.Time
	long  time.Duration
}

type rollingMember struct {
	*consumerMember
	due     time.Time // of its next heartbeat
	leaving *absence  // the one it is in
}

func newRollingGroup(b testing.TB, addr, name string, s rollingSize, static bool) *rollingGroup {
	g := &rollingGroup{name: name, size: s, open: map[ownedKey]gap{}}
	var members []*consumerMember
	for i := range s.members {
		m := &rollingMember{consumerMember: newConsumerMember(b, addr, name, []string{"bench"})}
		if static {
			instance := fmt.Sprintf("instance-%d", i)
			m.instance = &instance
		}
		g.members = append(g.members, m)
		members = append(members, m.consumerMember)
	}
	settleConsumers(b, members, 1, 1, s.partitions)
	now := time.Now()
	for i, m := range g.members {
		m.due = now.Add(time.Duration(i) * time.Duration(m.intervalMs) * time.Millisecond / time.Duration(s.members))
		m.changed = func(owns bool, topic topicID, partition int32) { g.changed(m, owns, ownedKey{topic, partition}) }
	}
	return g
}

func (g *rollingGroup) changed(m *rollingMember, owns bool, p ownedKey) {
	now := time.Now()
	if !owns {
		g.open[p] = gap{now, m.leaving}
		return
	}
	was := g.open[p]
	delete(g.open, p)
	beyond := now.Sub(was.since)
	if was.left != nil {
		away := was.left.long
		if away == 0 { // it is still away
			away = now.Sub(was.left.since)
		}
		beyond -= away
	}
	g.beyond = append(g.beyond, max(beyond, 0))
}

// next is when something is to be done: a member to beat, or to go or come.
func (g *rollingGroup) next() (at time.Time, m *rollingMember) {
	at = g.due
	for i, o := range g.members {
		if g.absent && i == g.turn || o.due.After(at) {
			continue
		}
		at, m = o.due, o
	}
	return at, m
}

func (g *rollingGroup) over() bool { return g.turn == len(g.members) }

// goOrCome lets the member whose turn it is leave, or begin anew.
func (g *rollingGroup) goOrCome(b testing.TB) {
	b.Helper()
	m := g.members[g.turn]
	now := time.Now()
	if !g.absent {
		m.leaving = &absence{since: now}
		m.leave(b)
		g.absent, g.due = true, now.Add(g.size.absence)
		return
	}
	m.leaving.long = now.Sub(m.leaving.since)
	m.leaving = nil
	g.absent, g.due = false, now.Add(g.size.pause)
	g.turn++
	m.beatNow(b)
}

// beatNow beats, and again for as long as there is something to tell.
func (m *rollingMember) beatNow(b testing.TB) {
	b.Helper()
	for again := true; again; again = !m.told || m.epoch == 0 {
		m.sendBeat(b)
		m.heard(b)
	}
	m.due = m.sentAt.Add(time.Duration(m.intervalMs) * time.Millisecond)
}

func (g *rollingGroup) percentile(p float64) float64 {
	slices.Sort(g.beyond)
	return g.beyond[int(p*float64(len(g.beyond)-1))].Seconds() * 1000
}

// rollingRestart restarts all members of both groups, static first, and waits until every partition has its owner again.
func rollingRestart(b testing.TB, s rollingSize) []*rollingGroup {
	broker := startChild(b, brokerSpec(scratch(b)))
	mustCreate(b, broker.addr, "bench", int32(s.partitions))
	awaitCoordinator(b, broker.addr, []string{"static", "dynamic"})
	groups := []*rollingGroup{newRollingGroup(b, broker.addr, "static", s, true), newRollingGroup(b, broker.addr, "dynamic", s, false)}
	for _, g := range groups {
		g.due = time.Now().Add(s.pause) // the group is at rest then
	}
	for !groups[0].done() || !groups[1].done() {
		first := groups[0]
		at, m := first.next()
		if other, om := groups[1].next(); other.Before(at) {
			first, at, m = groups[1], other, om
		}
		time.Sleep(time.Until(at))
		switch {
		case m != nil:
			m.beatNow(b)
		case first.over():
			first.due = time.Now().Add(time.Hour)
		default:
			first.goOrCome(b)
		}
	}
	for _, g := range groups {
		var members []*consumerMember
		for _, m := range g.members {
			members = append(members, m.consumerMember)
		}
		if !checkConsumers(b, members, 1, 1, s.partitions) {
			b.Fatalf("the group %s does not have all partitions", g.name)
		}
	}
	return groups
}

// done says that everybody was restarted and nothing is without owner.
func (g *rollingGroup) done() bool { return g.over() && len(g.open) == 0 }
