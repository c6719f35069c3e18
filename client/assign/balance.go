package assign

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
)

// balance is an assignment in the making, with members and topics as indexes.
//
// Even means: no chain of moves (one partition from a to b, one from b to c, ...; each to a subscriber of its topic) brings something from a member to
// one that has at least two fewer. Where no such chain is left, the assignment is as even as any can be (it is an optimal semi-matching of partitions
// to members).
//
// The steps: everybody keeps what it claims (keep); free partitions go to the subscriber with the least (share); chains of them are followed until there
// are none, then chains of all partitions (even); and what ended up elsewhere than it was goes back where that costs no evenness (home). That the free
// ones come first makes the second round of cooperative-sticky the last: they fit around what everybody has, so nothing of that moves.
type balance struct {
	topics  []subscribed
	members []*Member
	load    []int       // partitions of each member
	topicOf [][]int     // of each member: its topics, ascending
	held    [][][]int32 // of each member and each topic of topicOf: the partitions it has now
	owner   [][]int     // of each topic and partition: the member; nobody when free
	was     [][]int     // likewise: who claims it
	spare   [][]int     // like held: how many of the partitions somebody else claims, or nobody
}

const nobody = -1

// balanced gives out partitions evenly, with as little change to the claims as possible.
func balanced(members []*Member, claims []claim, partitions map[string]int32) map[string][]TopicPartition {
	b := newBalance(members, partitions)
	b.keep(claims)
	b.share()
	b.even(true)
	b.even(false)
	for b.home() {
	}
	return b.answer()
}

func newBalance(members []*Member, partitions map[string]int32) *balance {
	b := &balance{topics: subscriptions(members, partitions), members: members, load: make([]int, len(members)),
		topicOf: make([][]int, len(members)), held: make([][][]int32, len(members)), spare: make([][]int, len(members))}
	b.owner, b.was = make([][]int, len(b.topics)), make([][]int, len(b.topics))
	for t := range b.topics {
		b.owner[t] = slices.Repeat([]int{nobody}, int(b.topics[t].partitions))
		b.was[t] = slices.Clone(b.owner[t])
		for _, m := range b.topics[t].subscribers {
			b.topicOf[m] = append(b.topicOf[m], t)
		}
	}
	for m := range members {
		b.held[m], b.spare[m] = make([][]int32, len(b.topicOf[m])), make([]int, len(b.topicOf[m]))
	}
	return b
}

// place is where a topic is in topicOf and held of a member.
func (b *balance) place(m, t int) (int, bool) { return slices.BinarySearch(b.topicOf[m], t) }

func (b *balance) give(m, t int, p int32) {
	k, _ := b.place(m, t)
	b.held[m][k] = append(b.held[m][k], p)
	b.owner[t][p] = m
	b.load[m]++
	if b.was[t][p] != m {
		b.spare[m][k]++
	}
}

func (b *balance) take(t int, p int32) {
	m := b.owner[t][p]
	k, _ := b.place(m, t)
	i := slices.Index(b.held[m][k], p)
	b.held[m][k] = slices.Delete(b.held[m][k], i, i+1)
	b.owner[t][p] = nobody
	b.load[m]--
	if b.was[t][p] != m {
		b.spare[m][k]--
	}
}

// keep gives partitions to those who claim them: to the newest claim, and of equal ones to that of the first member.
func (b *balance) keep(claims []claim) {
	for i, c := range claims {
		for _, p := range c.partitions {
			t, ok := slices.BinarySearchFunc(b.topics, p.Topic, func(s subscribed, name string) int { return strings.Compare(s.name, name) })
			if !ok || p.Partition < 0 || p.Partition >= b.topics[t].partitions {
				continue
			}
			if _, subscribes := b.place(i, t); !subscribes {
				continue
			}
			if was := b.was[t][p.Partition]; was == nobody || claims[was].generation < c.generation {
				b.was[t][p.Partition] = i
			}
		}
	}
	for t := range b.was {
		for p, m := range b.was[t] {
			if m != nobody {
				b.give(m, t, int32(p))
			}
		}
	}
}

// share gives free partitions away, those of the topics with the fewest subscribers first: the others have more choice.
func (b *balance) share() {
	order := make([]int, len(b.topics))
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(len(b.topics[x].subscribers), len(b.topics[y].subscribers))
	})
	for _, t := range order {
		if !slices.Contains(b.owner[t], nobody) {
			continue
		}
		least := byLoad{b.load, slices.Clone(b.topics[t].subscribers), false}
		heap.Init(&least)
		for p, m := range b.owner[t] {
			if m == nobody {
				b.give(least.members[0], t, int32(p))
				heap.Fix(&least, 0)
			}
		}
	}
}

// even follows chains from the fullest members; spare: of partitions that their owners do not claim. Whoever a search without success has reached is done: nothing can leave that circle, and nobody outside
// has more than those inside.
func (b *balance) even(spare bool) {
	s := search{balance: b, onlySpare: spare, done: make([]bool, len(b.members)), from: make([]step, len(b.members)), seen: make([]int, len(b.members)), seenTopic: make([]int, len(b.topics))}
	full := byLoad{load: b.load, most: true}
	for m := range b.members {
		full.members = append(full.members, m)
	}
	heap.Init(&full)
	for full.Len() > 0 {
		m := full.members[0]
		if s.done[m] || !s.relieve(m) {
			heap.Pop(&full)
			continue
		}
		heap.Init(&full)
	}
}

// search looks for chains, breadth first.
type search struct {
	*balance
	onlySpare bool
	done      []bool // members from which no chain is left
	from      []step // how a member was reached
	seen      []int  // members that the search of this number has reached
	seenTopic []int
	number    int
	queue     []int
}

type step struct{ member, topic int }

// relieve finds the shortest chain from a member to one that has at least two fewer, and moves a partition along each of its steps.
func (s *search) relieve(start int) bool {
	s.number++
	s.seen[start] = s.number
	s.queue = append(s.queue[:0], start)
	for i := 0; i < len(s.queue); i++ {
		m := s.queue[i]
		for k, t := range s.topicOf[m] {
			if len(s.held[m][k]) == 0 || s.onlySpare && s.spare[m][k] == 0 || s.seenTopic[t] == s.number {
				continue
			}
			s.seenTopic[t] = s.number
			if end := s.reach(m, t, s.load[start]-2); end != nobody {
				s.follow(start, end)
				return true
			}
		}
	}
	for _, m := range s.queue {
		s.done[m] = true
	}
	return false
}

// reach adds the subscribers of a topic, of which m has something, to the search. It returns the one with the least if that is no more than enough.
func (s *search) reach(m, t, enough int) int {
	least := nobody
	for _, to := range s.topics[t].subscribers {
		if s.done[to] || s.seen[to] == s.number {
			continue
		}
		s.seen[to], s.from[to] = s.number, step{m, t}
		s.queue = append(s.queue, to)
		if s.load[to] <= enough && (least == nobody || s.load[to] < s.load[least]) {
			least = to
		}
	}
	return least
}

// follow moves one partition along each step of the chain, from its end to its start.
func (s *search) follow(start, end int) {
	for to := end; to != start; {
		by := s.from[to]
		p := s.choose(by.member, by.topic, to)
		s.take(by.topic, p)
		s.give(to, by.topic, p)
		to = by.member
	}
}

// choose is which of its partitions of a topic a member gives to another: one that was the other's, else one that was not its own, else the last.
func (b *balance) choose(from, t, to int) int32 {
	k, _ := b.place(from, t)
	held := b.held[from][k]
	best := held[len(held)-1]
	for _, p := range held {
		switch b.was[t][p] {
		case to:
			return p
		case from:
		default:
			best = p
		}
	}
	return best
}

// home lets partitions go back to the members that claim them: where those have fewer than the owner, or in exchange for something that was not theirs.
// It says whether that helped any.
func (b *balance) home() (moved bool) {
	for t := range b.was {
		for p, m := range b.was[t] {
			owner := b.owner[t][p]
			if m == nobody || m == owner {
				continue
			}
			if b.load[m] >= b.load[owner] {
				u, q, ok := b.exchange(m, owner)
				if !ok {
					continue
				}
				b.take(u, q)
				b.give(owner, u, q)
			}
			b.take(t, int32(p))
			b.give(m, t, int32(p))
			moved = true
		}
	}
	return moved
}

// exchange finds a partition that m has, did not have, and other subscribes to.
func (b *balance) exchange(m, other int) (t int, p int32, ok bool) {
	for k, t := range b.topicOf[m] {
		if _, subscribes := b.place(other, t); !subscribes {
			continue
		}
		for _, p := range b.held[m][k] {
			if b.was[t][p] != m {
				return t, p, true
			}
		}
	}
	return 0, 0, false
}

func (b *balance) answer() map[string][]TopicPartition {
	answer := nothing(b.members)
	for t := range b.owner {
		for p, m := range b.owner[t] {
			id := b.members[m].ID
			answer[id] = append(answer[id], TopicPartition{b.topics[t].name, int32(p)})
		}
	}
	return answer
}

// byLoad is a heap of members, those with the least (or most) partitions on top; of equals the first.
type byLoad struct {
	load    []int
	members []int
	most    bool
}

func (h *byLoad) Len() int      { return len(h.members) }
func (h *byLoad) Swap(i, j int) { h.members[i], h.members[j] = h.members[j], h.members[i] }
func (h *byLoad) Push(x any)    { h.members = append(h.members, x.(int)) }

func (h *byLoad) Less(i, j int) bool {
	a, b := h.members[i], h.members[j]
	if h.load[a] != h.load[b] {
		return (h.load[a] < h.load[b]) != h.most
	}
	return a < b
}

func (h *byLoad) Pop() any {
	last := len(h.members) - 1
	m := h.members[last]
	h.members = h.members[:last]
	return m
}
