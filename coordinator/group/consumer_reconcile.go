package group

import (
	"bytes"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group/assign"
)

// reconciling is one step of a member towards its target. What it gives up it first stops to use; only when the member says that
// it does not have it any more does it count as free, and only what is free goes to somebody else. So no partition ever has two
// owners, whatever gets lost on the way.
//
//	stable      the member has its target
//	unrevoked   it keeps its epoch until its heartbeat does not show any more what it must give up; if that takes longer than its
//	            rebalance timeout it is fenced
//	unreleased  it has the epoch of the target and waits for what others must give up
type reconciling struct {
	member  string
	cur     *current
	epoch   int32 // of the target
	target  assign.Assignment
	changed bool                                  // the member subscribes to something else since its last heartbeat
	wants   func(topic assign.TopicID) bool       // the member subscribes to it, and it exists
	owner   func(p ownedPartition) (owner string) // "" for nobody
	has     []kmsg.ConsumerGroupHeartbeatRequestTopic
	said    bool // the member said what it has
}

// next is where the member stands after the step; the same when there is nothing to do.
func (r *reconciling) next() *current {
	switch r.cur.state {
	case memberStable:
		switch {
		case r.cur.epoch != r.epoch:
			return r.towards(r.cur.epoch)
		case r.changed:
			return r.drop()
		}
		return r.cur
	case memberUnrevoked:
		if r.stillHas(r.cur.revoking) {
			if r.changed {
				return r.drop()
			}
			return r.cur
		}
		return r.towards(r.cur.epoch)
	case memberUnreleased:
		return r.towards(r.cur.epoch)
	default: // of another version: from what it may use to its target
		return r.towards(r.epoch)
	}
}

// stillHas says whether the member may still use some of the partitions. One that does not say what it has, may.
func (r *reconciling) stillHas(o owned) bool {
	if !r.said {
		return len(o.Assignment) > 0
	}
	for i := range r.has {
		of := o.Of(r.has[i].TopicID)
		for _, p := range r.has[i].Partitions {
			if _, ok := slices.BinarySearch(of, p); ok {
				return true
			}
		}
	}
	return false
}

// drop takes away what the member does not subscribe to any more, without a look at the target.
func (r *reconciling) drop() *current {
	next := *r.cur
	next.assigned, next.revoking = owned{}, owned{}
	all := map[ownedPartition]int32{} // what must be given up, and since when it is there
	for i := range r.cur.revoking.Assignment {
		p := &r.cur.revoking.Assignment[i]
		for n, partition := range p.Partitions {
			all[ownedPartition{p.Topic, partition}] = r.cur.revoking.epochs[i][n]
		}
	}
	before := len(all)
	for i := range r.cur.assigned.Assignment {
		p := &r.cur.assigned.Assignment[i]
		for n, partition := range p.Partitions {
			if r.wants(p.Topic) {
				next.assigned.add(p.Topic, partition, r.cur.assigned.epochs[i][n])
			} else {
				all[ownedPartition{p.Topic, partition}] = r.cur.assigned.epochs[i][n]
			}
		}
	}
	if len(all) == before {
		return r.cur
	}
	next.revoking = ownedOf(all)
	if !r.stillHas(next.revoking) {
		next.revoking = owned{}
		return &next
	}
	next.state = memberUnrevoked
	return &next
}

func ownedOf(all map[ownedPartition]int32) (o owned) {
	topics := map[assign.TopicID][]int32{}
	for p := range all {
		topics[p.topic] = append(topics[p.topic], p.partition)
	}
	for _, id := range sortedIDs(topics) {
		slices.Sort(topics[id])
		for _, p := range topics[id] {
			o.add(id, p, all[ownedPartition{id, p}])
		}
	}
	return o
}

// towards brings the member, at an epoch, towards its target.
func (r *reconciling) towards(epoch int32) *current {
	var keep, give, get owned
	waits := false
	visitBoth(r.cur.assigned, r.target, func(topic assign.TopicID, has owned, target []int32) {
		if !r.wants(topic) {
			target = nil
		}
		if len(has.Assignment) > 0 {
			for n, p := range has.Assignment[0].Partitions {
				if _, ok := slices.BinarySearch(target, p); ok {
					keep.add(topic, p, has.epochs[0][n])
				} else {
					give.add(topic, p, has.epochs[0][n])
				}
			}
		}
		for _, p := range target {
			if len(has.Assignment) > 0 && has.Has(topic, p) {
				continue
			}
			if who := r.owner(ownedPartition{topic, p}); who != "" && who != r.member {
				waits = true
				continue
			}
			get.add(topic, p, r.epoch)
		}
	})
	next := &current{previous: r.cur.epoch, epoch: r.epoch, state: memberStable}
	switch {
	case r.stillHas(give):
		next.epoch, next.state, next.assigned, next.revoking = epoch, memberUnrevoked, keep, give
	default:
		next.assigned = merge(keep, get)
		if waits {
			next.state = memberUnreleased
		}
	}
	if next.equal(r.cur) {
		return r.cur
	}
	return next
}

// visitBoth visits the topics of both in order of their ids.
func visitBoth(has owned, target assign.Assignment, visit func(topic assign.TopicID, has owned, target []int32)) {
	i, j := 0, 0
	for i < len(has.Assignment) || j < len(target) {
		order := -1
		switch {
		case i == len(has.Assignment):
			order = 1
		case j < len(target):
			order = bytes.Compare(has.Assignment[i].Topic[:], target[j].Topic[:])
		}
		var of owned
		var want []int32
		topic := assign.TopicID{}
		if order <= 0 {
			of, topic = owned{has.Assignment[i : i+1], has.epochs[i : i+1]}, has.Assignment[i].Topic
			i++
		}
		if order >= 0 {
			want, topic = target[j].Partitions, target[j].Topic
			j++
		}
		visit(topic, of, want)
	}
}

// merge is both together; no partition is in both.
func merge(a, b owned) owned {
	if len(b.Assignment) == 0 {
		return a
	}
	all := map[ownedPartition]int32{}
	for _, o := range []owned{a, b} {
		for i := range o.Assignment {
			for n, p := range o.Assignment[i].Partitions {
				all[ownedPartition{o.Assignment[i].Topic, p}] = o.epochs[i][n]
			}
		}
	}
	return ownedOf(all)
}
