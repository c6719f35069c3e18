package metadata

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// placer spreads replicas over brokers: leaders go round, and the replicas of one partition lie in as many racks as there
// are. Brokers stand in a ring in which racks alternate. The leader of the next partition is the next broker in the ring;
// followers are the next ones after it, but a rack used already is passed over while there is an unused one. Each time the
// ring is through, followers start one step further away, so that a broker's partitions don't all share the same followers.
type placer struct {
	ring  []*BrokerInfo // unfenced
	spare []*BrokerInfo // fenced: only when there is no other way
	next  int           // leader of the next partition
	shift int           // how far behind its leader the followers of a partition begin
	first int           // where next began: back there the ring is through
}

// newPlacer places on the brokers of an image, from a random place in the ring on.
func newPlacer(brokers []*BrokerInfo, r *rand.Rand) *placer {
	p := new(placer)
	for _, b := range brokers {
		if b.Fenced {
			p.spare = append(p.spare, b)
		} else {
			p.ring = append(p.ring, b)
		}
	}
	p.ring, p.spare = alternateRacks(p.ring), alternateRacks(p.spare)
	if n := len(p.ring); n > 0 {
		p.first, p.shift = r.IntN(n), r.IntN(n)
		p.next = p.first
	}
	return p
}

// alternateRacks orders brokers so that neighbours lie in different racks as long as possible; within a rack by id.
func alternateRacks(brokers []*BrokerInfo) []*BrokerInfo {
	byRack := map[string][]*BrokerInfo{}
	var racks []string
	for _, b := range brokers {
		if byRack[b.Rack] == nil {
			racks = append(racks, b.Rack)
		}
		byRack[b.Rack] = append(byRack[b.Rack], b)
	}
	slices.SortFunc(racks, strings.Compare)
	ring := make([]*BrokerInfo, 0, len(brokers))
	for len(ring) < len(brokers) {
		for _, rack := range racks {
			if rest := byRack[rack]; len(rest) > 0 {
				ring = append(ring, rest[0])
				byRack[rack] = rest[1:]
			}
		}
	}
	return ring
}

// place returns the replicas of the next partition, leader first. There must be an unfenced broker and at least rf in all.
func (p *placer) place(rf int) []int32 {
	n := len(p.ring)
	leader := p.ring[p.next]
	candidates := make([]*BrokerInfo, 0, n-1+len(p.spare))
	for i := range n - 1 {
		candidates = append(candidates, p.ring[(p.next+1+(p.shift+i)%(n-1))%n])
	}
	p.advance()
	return pick(leader, candidates, p.spare, rf)
}

func (p *placer) advance() {
	p.next = (p.next + 1) % len(p.ring)
	if p.next == p.first {
		p.shift++
	}
}

// pick takes rf brokers: the leader, then candidates in new racks, then any candidates, then spares.
func pick(leader *BrokerInfo, candidates, spare []*BrokerInfo, rf int) []int32 {
	ids := []int32{leader.ID}
	racks := map[string]bool{leader.Rack: true}
	for _, b := range candidates {
		if len(ids) < rf && !racks[b.Rack] {
			racks[b.Rack] = true
			ids = append(ids, b.ID)
		}
	}
	for _, rest := range [...][]*BrokerInfo{candidates, spare} {
		for _, b := range rest {
			if len(ids) < rf && !slices.Contains(ids, b.ID) {
				ids = append(ids, b.ID)
			}
		}
	}
	return ids
}
