package client

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Partitions are those of a topic, as a partitioner sees them.
type Partitions struct {
	Count    int     // of all
	Writable []int32 // those that have a leader now; may be empty
}

// Partitioner chooses the partitions of records.
type Partitioner interface {
	// Topic makes the partitioner of a topic.
	Topic(topic string) TopicPartitioner
}

// TopicPartitioner chooses the partitions of a topic's records. It is used by several goroutines.
type TopicPartitioner interface {
	// Partition is a number from 0 to p.Count-1. p.Count is at least 1.
	Partition(r *Record, p Partitions) int32
	// BatchClosed says that a partition's batch takes no more records: it is full, or leaves. It must not use the producer.
	BatchClosed(partition int32)
}

// KeyHash is the default: records with a key go to murmur2(key) modulo the partitions, as in the Java client, so that equal keys of all clients meet. Records without a
// key stay with one partition until its batch is full or leaves, then go to another with a leader, chosen at random: full batches are the cheapest.
func KeyHash() Partitioner {
	return partitionerFunc(func(string) TopicPartitioner { return keyHash{newSticky(rand.IntN)} })
}

// KeyHashRandomFor is KeyHash, except that records without a key stay with a partition for a time, as clients did long ago with metadata.max.age.
func KeyHashRandomFor(d time.Duration) Partitioner {
	return partitionerFunc(func(string) TopicPartitioner { return keyHash{&randomFor{random: rand.IntN, now: time.Now, length: d}} })
}

// RoundRobin deals records out to the partitions in turn, whatever their key; those without a leader are passed over.
func RoundRobin() Partitioner {
	return partitionerFunc(func(string) TopicPartitioner { return &roundRobin{} })
}

// ExplicitPartition takes Record.Partition.
func ExplicitPartition() Partitioner {
	return PartitionFunc(func(r *Record, _ int) int32 { return r.Partition })
}

// PartitionFunc chooses by a function, which may be called by several goroutines. A number that is no partition's fails the record.
func PartitionFunc(choose func(r *Record, partitions int) int32) Partitioner {
	return partitionerFunc(func(string) TopicPartitioner { return choice(choose) })
}

type partitionerFunc func(topic string) TopicPartitioner

func (f partitionerFunc) Topic(topic string) TopicPartitioner { return f(topic) }

type choice func(r *Record, partitions int) int32

func (c choice) Partition(r *Record, p Partitions) int32 { return c(r, p.Count) }
func (c choice) BatchClosed(int32)                       {}

// keyHash hashes keys and leaves the rest to keyless.
type keyHash struct{ keyless TopicPartitioner }

func (k keyHash) Partition(r *Record, p Partitions) int32 {
	if r.Key == nil {
		return k.keyless.Partition(r, p)
	}
	return int32(murmur2(r.Key)&0x7fffffff) % int32(p.Count)
}

func (k keyHash) BatchClosed(partition int32) { k.keyless.BatchClosed(partition) }

// sticky stays with a partition until its batch is closed.
type sticky struct {
	random func(n int) int
	at     atomic.Int32 // the partition; ^p: chosen anew next time, and not p
}

func newSticky(random func(int) int) *sticky {
	s := &sticky{random: random}
	s.at.Store(-1 << 31)
	return s
}

func (s *sticky) Partition(_ *Record, p Partitions) int32 {
	at := s.at.Load()
	if at >= 0 && int(at) < p.Count {
		return at
	}
	next := choose(s.random, p, ^at)
	if !s.at.CompareAndSwap(at, next) { // somebody else has chosen
		if at = s.at.Load(); at >= 0 && int(at) < p.Count {
			return at
		}
	}
	return next
}

func (s *sticky) BatchClosed(partition int32) { s.at.CompareAndSwap(partition, ^partition) }

// choose is a partition at random: one with a leader where there are any, and another than last where there are several.
func choose(random func(int) int, p Partitions, last int32) int32 {
	if len(p.Writable) == 0 {
		return int32(random(p.Count))
	}
	i := random(len(p.Writable))
	if p.Writable[i] == last {
		i = (i + 1) % len(p.Writable)
	}
	return p.Writable[i]
}

// randomFor stays with a partition for a time.
type randomFor struct {
	random func(n int) int
	now    func() time.Time
	length time.Duration
	stay   atomic.Pointer[stay]
}

type stay struct {
	partition int32
	until     time.Time
}

func (s *randomFor) Partition(_ *Record, p Partitions) int32 {
	t, now := s.stay.Load(), s.now()
	if t == nil || !now.Before(t.until) || int(t.partition) >= p.Count {
		next := &stay{choose(s.random, p, -1), now.Add(s.length)}
		if s.stay.CompareAndSwap(t, next) {
			return next.partition
		}
		if t = s.stay.Load(); int(t.partition) >= p.Count {
			return next.partition
		}
	}
	return t.partition
}

func (s *randomFor) BatchClosed(int32) {}

type roundRobin struct{ n atomic.Uint32 }

func (s *roundRobin) Partition(_ *Record, p Partitions) int32 {
	n := s.n.Add(1) - 1
	if len(p.Writable) == 0 {
		return int32(n % uint32(p.Count))
	}
	return p.Writable[n%uint32(len(p.Writable))]
}

func (s *roundRobin) BatchClosed(int32) {}

// murmur2 is the hash by which the Java client places keys.
func murmur2(key []byte) uint32 {
	const m, seed = 0x5bd1e995, 0x9747b28c
	h := uint32(seed) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k = (k ^ k>>24) * m
		h = h*m ^ k
	}
	if len(key) > 0 {
		var tail [4]byte
		copy(tail[:], key)
		h = (h ^ binary.LittleEndian.Uint32(tail[:])) * m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}
