package replication

import (
	"hash/maphash"
	"maps"
	"sync/atomic"
)

// table finds the partitions of a topic by a key of the topic. Readers take no lock: each of the shards is an immutable map
// behind an atomic pointer, and a change (one goroutine makes them all) replaces one shard.
type table[K comparable] struct {
	seed   maphash.Seed
	shards [tableShards]atomic.Pointer[map[K]*topicPartitions]
}

const tableShards = 256

// topicPartitions are a topic's partitions by number; nil where this node has none. Replaced as a whole when it grows.
type topicPartitions struct {
	list atomic.Pointer[[]*Partition]
}

func (t *table[K]) init() { t.seed = maphash.MakeSeed() }

func (t *table[K]) shard(k K) *atomic.Pointer[map[K]*topicPartitions] {
	return &t.shards[maphash.Comparable(t.seed, k)%tableShards]
}

// topic returns the topic's partitions, nil when this node has none of them.
func (t *table[K]) topic(k K) *topicPartitions {
	m := t.shard(k).Load()
	if m == nil {
		return nil
	}
	return (*m)[k]
}

// put adds or replaces a topic; nil removes it.
func (t *table[K]) put(k K, tp *topicPartitions) {
	s := t.shard(k)
	next := map[K]*topicPartitions{}
	if old := s.Load(); old != nil {
		maps.Copy(next, *old)
	}
	if tp == nil {
		delete(next, k)
	} else {
		next[k] = tp
	}
	s.Store(&next)
}

// get returns one partition; safe on a nil receiver.
func (tp *topicPartitions) get(n int32) *Partition {
	if tp == nil || n < 0 {
		return nil
	}
	list := tp.list.Load()
	if list == nil || int(n) >= len(*list) {
		return nil
	}
	return (*list)[n]
}

// all returns the list, holes included; safe on a nil receiver.
func (tp *topicPartitions) all() []*Partition {
	if tp == nil {
		return nil
	}
	if list := tp.list.Load(); list != nil {
		return *list
	}
	return nil
}
