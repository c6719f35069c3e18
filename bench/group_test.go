//go:build linux

package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// How large the benchmarks of groups are. The tests run the same at a size at which they only show that they work.
type heartbeatSize struct {
	groups, members  int // groups, and members of each
	classic, consume time.Duration
	rounds           int // intervals that are measured
}

var heartbeatsOf = struct{ full, tiny heartbeatSize }{
	full: heartbeatSize{groups: 1000, members: 10, classic: 3 * time.Second, consume: 5 * time.Second, rounds: 4},
	tiny: heartbeatSize{groups: 3, members: 3, classic: 20 * time.Millisecond, consume: 20 * time.Millisecond, rounds: 2},
}

// heartbeatTarget is in percent of one core.
const heartbeatTarget = "<= 5 % of a core"

// BenchmarkHeartbeats is what 1,000 groups of 10 members cost the broker that do nothing but live, at the default intervals; and, to compare, what their
// connections cost when they say nothing. Every member has a connection of its own.
func BenchmarkHeartbeats(b *testing.B) {
	b.Run("Classic", func(b *testing.B) {
		s := heartbeatsOf.full
		u := classicHeartbeats(b, s)
		u.note(b, fmt.Sprintf("%d x %d classic members, a heartbeat every %v", s.groups, s.members, s.classic))
	})
	b.Run("Consumer", func(b *testing.B) {
		s := heartbeatsOf.full
		u := consumerHeartbeats(b, s)
		u.note(b, fmt.Sprintf("%d x %d consumer group (KIP-848) members, a heartbeat every %v", s.groups, s.members, s.consume))
	})
}

func TestHeartbeats(t *testing.T) {
	t.Parallel()
	classicHeartbeats(t, heartbeatsOf.tiny)
	consumerHeartbeats(t, heartbeatsOf.tiny)
}

// beatUse is what heartbeats have cost the broker, and the floor: percent of a core, and microseconds.
type beatUse struct{ beating, silent, each, floor, floorEach float64 }

func (u *beatUse) note(b *testing.B, what string) {
	noteFact(b, what, "%core", heartbeatTarget, u.beating)
	noteFact(b, "  the same connections, silent", "%core-idle", "", u.silent)
	noteFact(b, "  CPU of a heartbeat", "us/heartbeat", "", u.each)
	noteFact(b, "  the floor (one thread: epoll_wait, read, write)", "%core-floor", "", u.floor)
	noteFact(b, "  CPU of a heartbeat there", "us/floor", "", u.floorEach)
}

// beatAnswer is about the size of an answer to a heartbeat.
const beatAnswer = 17

// measureBeats measures an interval of silence, and then heartbeats, in turns with the floor: a server that answers the same frames at the same rate, on half as many
// connections, because descriptors are few.
func measureBeats(b testing.TB, broker *child, s heartbeatSize, interval time.Duration, beats []beat, check func(*groupConn, []byte) error) (u beatUse) {
	bare := startChild(b, childSpec{Role: "bare-answer", Dir: scratch(b), Answer: beatAnswer})
	half := make([]beat, (len(beats)+1)/2)
	for i := range half {
		half[i] = beat{newGroupConn(b, bare.addr), beats[i].req}
	}
	own, floor := newBeater(b, interval, beats), newBeater(b, interval/2, half)
	anything := func(*groupConn, []byte) error { return nil }
	own.run(b, 1, check) // to warm up
	floor.run(b, 1, anything)
	own.run(b, 1, check)
	begin, before := time.Now(), broker.usage().CPU
	time.Sleep(interval)
	u.silent = 100 * (broker.usage().CPU - before).Seconds() / time.Since(begin).Seconds()
	var ours, theirs beatCost
	for range s.rounds {
		ours.add(b, broker, own, 1, check)
		theirs.add(b, bare, floor, 2, anything)
	}
	u.beating, u.each = ours.figures()
	u.floor, u.floorEach = theirs.figures()
	return u
}

// beatCost is what heartbeats have cost a server so far.
type beatCost struct {
	wall, cpu time.Duration
	beats     int
}

func (c *beatCost) add(b testing.TB, server *child, g *beater, intervals int, check func(*groupConn, []byte) error) {
	b.Helper()
	begin, cpu, answered := time.Now(), server.usage().CPU, g.answered
	g.run(b, intervals, check)
	c.cpu += server.usage().CPU - cpu
	c.wall += time.Since(begin)
	c.beats += g.answered - answered
	if want := intervals * len(g.conns); g.answered-answered != want {
		b.Fatalf("%d heartbeats were answered, not %d", g.answered-answered, want)
	}
}

func (c *beatCost) figures() (percent, each float64) {
	return 100 * c.cpu.Seconds() / c.wall.Seconds(), c.cpu.Seconds() * 1e6 / float64(c.beats)
}

func classicHeartbeats(b testing.TB, s heartbeatSize) beatUse {
	broker := startChild(b, brokerSpec(scratch(b)))
	mustCreate(b, broker.addr, "bench", 10)
	groups := manyNames("classic", s.groups)
	awaitCoordinator(b, broker.addr, groups)
	members := formClassic(b, broker.addr, groups, s.members, []string{"bench"}, 10)
	var beats []beat
	for _, m := range members {
		beats = append(beats, beat{m.groupConn, m.heartbeat()})
	}
	kind := beats[0].req
	broker.profile("heartbeats-classic")
	return measureBeats(b, broker, s, s.classic, beats, func(_ *groupConn, answer []byte) error {
		resp, err := parse(kind, answer)
		if err == nil && resp.(*kmsg.HeartbeatResponse).ErrorCode != 0 {
			err = protocol.Code(resp.(*kmsg.HeartbeatResponse).ErrorCode)
		}
		return err
	})
}

func consumerHeartbeats(b testing.TB, s heartbeatSize) beatUse {
	broker := startChild(b, brokerSpec(scratch(b)))
	mustCreate(b, broker.addr, "bench", 10)
	groups := manyNames("consumer", s.groups)
	awaitCoordinator(b, broker.addr, groups)
	members := formConsumers(b, broker.addr, groups, s.members, []string{"bench"}, 10)
	var beats []beat
	epochs := map[*groupConn]int32{}
	for _, m := range members {
		beats = append(beats, beat{m.groupConn, m.beat()})
		epochs[m.groupConn] = m.epoch
	}
	kind := beats[0].req
	broker.profile("heartbeats-consumer")
	return measureBeats(b, broker, s, s.consume, beats, func(c *groupConn, answer []byte) error {
		resp, err := parse(kind, answer)
		if err != nil {
			return err
		}
		r := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		if r.ErrorCode != 0 || r.Assignment != nil || r.MemberEpoch != epochs[c] {
			return fmt.Errorf("a heartbeat at epoch %d: %v, epoch %d, assignment %v", epochs[c], protocol.Code(r.ErrorCode), r.MemberEpoch, r.Assignment)
		}
		return nil
	})
}
