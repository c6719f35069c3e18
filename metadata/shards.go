package metadata

import "hash/maphash"

// shards is an immutable map cut in 1024 ordinary maps. A copy that changes one key shares the others, so that a change in
// an image of 100,000 topics copies the table (8 KiB) and some 100 entries, not 100,000 (BenchmarkApplyOne100k).
// The zero value is empty.
type shards[K comparable, V any] struct {
	maps *[shardCount]map[K]V
	n    int
}

const shardCount = 1024

// shardSeed is fixed within a process: shard numbers never leave it.
var shardSeed = maphash.MakeSeed()

func shardOf[K comparable](k K) int { return int(maphash.Comparable(shardSeed, k) % shardCount) }

func (s shards[K, V]) get(k K) (V, bool) {
	if s.maps == nil {
		var none V
		return none, false
	}
	v, ok := s.maps[shardOf(k)][k]
	return v, ok
}

// each calls fn for every entry, in no order, until fn returns false.
func (s shards[K, V]) each(fn func(K, V) bool) {
	if s.maps == nil {
		return
	}
	for _, m := range s.maps {
		for k, v := range m {
			if !fn(k, v) {
				return
			}
		}
	}
}

// shardsEditor makes a changed copy of a shards. A shard is cloned at its first change, later changes are in place; so a
// replay of many records through one editor costs what filling a map costs.
type shardsEditor[K comparable, V any] struct {
	shards[K, V]
	owned *[shardCount]bool
}

func (s shards[K, V]) edit() shardsEditor[K, V] { return shardsEditor[K, V]{shards: s} }

func (e *shardsEditor[K, V]) own(i int) map[K]V {
	if e.owned == nil {
		e.owned = new([shardCount]bool)
		table := new([shardCount]map[K]V)
		if e.maps != nil {
			*table = *e.maps
		}
		e.maps = table
	}
	if !e.owned[i] {
		e.maps[i] = cloneMap(e.maps[i])
		e.owned[i] = true
	}
	return e.maps[i]
}

func (e *shardsEditor[K, V]) put(k K, v V) {
	m := e.own(shardOf(k))
	before := len(m)
	m[k] = v
	e.n += len(m) - before
}

func (e *shardsEditor[K, V]) remove(k K) {
	if _, ok := e.get(k); !ok {
		return
	}
	delete(e.own(shardOf(k)), k)
	e.n--
}

// freeze ends the editing: what was returned is never changed again.
func (e *shardsEditor[K, V]) freeze() shards[K, V] {
	e.owned = nil
	return e.shards
}
