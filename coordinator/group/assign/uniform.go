package assign

import (
	"cmp"
	"slices"
)

// Uniform is the assignor "uniform".
func Uniform(members []Member) []Assignment {
	t := newTable(members)
	if len(members) == 0 || t.total == 0 {
		return make([]Assignment, len(members))
	}
	u := &uniform{table: t, members: members, owner: make([]int32, t.total), load: make([]int32, len(members))}
	u.same = sameTopics(members)
	for p := range u.owner {
		u.owner[p] = nobody
	}
	if u.same {
		u.homogeneous()
	} else {
		u.heterogeneous()
	}
	return t.assignments(members, u.owner)
}

// uniform is an assignment in the making.
type uniform struct {
	*table
	members []Member
	same    bool    // everybody subscribes to the same topics
	owner   []int32 // by number of the partition
	load    []int32 // partitions of a member
}

func (u *uniform) give(p, m int32) {
	u.owner[p] = m
	u.load[m]++
}

// held calls visit with the partitions that a member has and may keep.
func (u *uniform) held(m int32, visit func(p int32)) {
	for i := range u.members[m].Current {
		c := &u.members[m].Current[i]
		topic := u.find(c.Topic)
		if topic < 0 || !u.same && !u.subscribes(m, c.Topic) {
			continue
		}
		for _, n := range c.Partitions {
			if n < 0 || n >= u.topics[topic].Partitions {
				continue
			}
			if p := u.first[topic] + n; u.owner[p] == nobody {
				visit(p)
			}
		}
	}
}

func (u *uniform) subscribes(m int32, id TopicID) bool {
	_, ok := slices.BinarySearchFunc(u.members[m].Topics, id, func(topic Topic, id TopicID) int { return compareIDs(topic.ID, id) })
	return ok
}

// homogeneous: everybody gets least, and more members one on top. Who has more than least keeps one more, while there are any.
func (u *uniform) homogeneous() {
	n := int32(len(u.members))
	least, more := u.total/n, u.total%n
	for m := range n {
		quota, extra := least, more > 0
		u.held(m, func(p int32) {
			switch {
			case quota > 0:
				quota--
			case extra:
				extra = false
				more--
			default:
				return
			}
			u.give(p, m)
		})
	}
	// What is free goes round, so that one topic does not end up with one member. First everybody gets its least.
	free := u.free()
	for gave := true; gave; {
		gave = false
		for m := range n {
			if len(free) > 0 && u.load[m] < least {
				u.give(free[0], m)
				free, gave = free[1:], true
			}
		}
	}
	for m := range n {
		if len(free) > 0 && u.load[m] == least {
			u.give(free[0], m)
			free = free[1:]
		}
	}
	if len(free) > 0 {
		panic("BUG: partitions are left over")
	}
}

// free are the partitions that nobody has.
func (u *uniform) free() (free []int32) {
	for p, m := range u.owner {
		if m == nobody {
			free = append(free, int32(p))
		}
	}
	return free
}

// heterogeneous: everybody keeps what it has, what is free goes to who has the least, and then it is evened out.
func (u *uniform) heterogeneous() {
	for m := range u.members {
		u.held(int32(m), func(p int32) { u.give(p, int32(m)) })
	}
	order := make([]int32, len(u.members))
	for m := range order {
		order[m] = int32(m)
	}
	subscribers := u.subscribers(u.members, order)
	topics := make([]int, len(u.topics))
	for i := range topics {
		topics[i] = i
	}
	slices.SortStableFunc(topics, func(a, b int) int { return cmp.Compare(len(subscribers[a]), len(subscribers[b])) })
	for _, i := range topics {
		u.fill(i, subscribers[i])
	}
	for moved := true; moved; {
		moved = false
		for _, i := range topics {
			moved = u.even(i, subscribers[i]) || moved
		}
	}
}

// fill gives the free partitions of a topic out.
func (u *uniform) fill(topic int, who []int32) {
	for p := u.first[topic]; p < u.first[topic]+u.topics[topic].Partitions; p++ {
		if u.owner[p] == nobody {
			u.give(p, u.lightest(who))
		}
	}
}

func (u *uniform) lightest(who []int32) int32 {
	best := who[0]
	for _, m := range who[1:] {
		if u.load[m] < u.load[best] {
			best = m
		}
	}
	return best
}

// even moves partitions of a topic from its heaviest owner to its lightest subscriber, while that brings the two closer together.
// Every move makes the sum of the squares of all loads smaller: it ends.
func (u *uniform) even(topic int, who []int32) (moved bool) {
	partitions := u.owner[u.first[topic]:][:u.topics[topic].Partitions]
	for len(partitions) > 0 {
		heaviest := 0
		for p, m := range partitions {
			if u.load[m] >= u.load[partitions[heaviest]] {
				heaviest = p // of equals the last: what is moved is what was given last
			}
		}
		from, to := partitions[heaviest], u.lightest(who)
		if u.load[from]-u.load[to] < 2 {
			return moved
		}
		u.load[from]--
		u.give(u.first[topic]+int32(heaviest), to)
		moved = true
	}
	return moved
}
