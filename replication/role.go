package replication

import "slices"

// role is the pure core of a partition: who leads it, and up to where what is in its log is safe. No goroutine, clock, lock or
// log; the Partition feeds it and acts on what it says. Followers' progress comes in with their fetches; with one replica
// there is none.
//
// Invariants: hw never goes back; hw <= logEnd; on a durable topic hw <= flushed of every member of the ISR (except right
// after write.caching was switched off: then hw waits where it is until the flushed offset has come up to it).
type role struct {
	self    int32
	leading bool
	epoch   int32 // leader epoch; grows

	isr       []int32
	followers []progress // of every other replica, while leading

	logEnd  int64 // next offset to be written
	flushed int64 // below is on stable storage on this node
	hw      int64 // below is visible
	caching bool  // write.caching: the high watermark follows the log end instead of the flushed offset
}

// progress is what a leader knows of a follower. In a new epoch nothing is known until the follower has fetched in it.
type progress struct {
	id      int32
	logEnd  int64 // -1 = unknown
	flushed int64 // -1 = unknown
}

// becomeLeader starts leading in an epoch. It returns false when that epoch, or a later one, is known already.
func (r *role) becomeLeader(epoch int32, replicas, isr []int32) bool {
	if epoch < r.epoch || r.leading && epoch == r.epoch {
		return false
	}
	r.leading, r.epoch, r.isr, r.followers = true, epoch, isr, nil
	r.setReplicas(replicas)
	return true
}

// setReplicas changes who the followers are; what is known of those who stay stays known.
func (r *role) setReplicas(replicas []int32) {
	var followers []progress
	for _, id := range replicas {
		if id == r.self {
			continue
		}
		f := progress{id: id, logEnd: -1, flushed: -1}
		for _, known := range r.followers {
			if known.id == id {
				f = known
			}
		}
		followers = append(followers, f)
	}
	r.followers = followers
}

// becomeFollower stops leading. It returns false when that is not news.
func (r *role) becomeFollower(epoch int32) bool {
	if epoch < r.epoch || !r.leading && epoch == r.epoch {
		return false
	}
	r.leading, r.epoch, r.isr, r.followers = false, epoch, nil, nil
	return true
}

// The following return true when the high watermark moved.

// setISR changes the in-sync replicas within an epoch.
func (r *role) setISR(isr []int32) bool {
	r.isr = isr
	return r.advance()
}

// setCaching switches write.caching.
func (r *role) setCaching(caching bool) bool {
	r.caching = caching
	return r.advance()
}

// appended moves the log end.
func (r *role) appended(logEnd int64) bool {
	r.logEnd = max(r.logEnd, logEnd)
	return r.caching && r.advance()
}

// flushedTo moves the flushed offset of this node.
func (r *role) flushedTo(flushed int64) bool {
	r.flushed = max(r.flushed, flushed)
	r.logEnd = max(r.logEnd, flushed)
	return r.advance()
}

// fetched notes that a follower has everything below logEnd in its log, and below flushed on stable storage.
func (r *role) fetched(id int32, logEnd, flushed int64) bool {
	for n := range r.followers {
		if f := &r.followers[n]; f.id == id {
			f.logEnd, f.flushed = max(f.logEnd, logEnd), max(f.flushed, flushed)
			return r.advance()
		}
	}
	return false
}

// advance raises the high watermark to what every in-sync replica has.
func (r *role) advance() bool {
	if !r.leading || !slices.Contains(r.isr, r.self) {
		return false
	}
	safe := r.safe(r.logEnd, r.flushed)
	for n := range r.followers {
		if f := &r.followers[n]; slices.Contains(r.isr, f.id) {
			safe = min(safe, r.safe(f.logEnd, f.flushed))
		}
	}
	if safe <= r.hw {
		return false
	}
	r.hw = safe
	return true
}

// safe is how far a replica counts.
func (r *role) safe(logEnd, flushed int64) int64 {
	if r.caching {
		return logEnd
	}
	return flushed
}

// enough says whether acks=all may be taken: min.insync.replicas, clipped to the number of replicas as Kafka does.
func (r *role) enough(minISR int) bool {
	return len(r.isr) >= min(minISR, len(r.followers)+1)
}
