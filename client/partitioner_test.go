package client

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// The hashes that the Java client's own tests name.
func TestMurmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("%s: %d, want %d", key, got, want)
		}
	}
}

// counting is a source of chance that counts upwards.
func counting() func(int) int {
	n := -1
	return func(m int) int { n++; return n % m }
}

func of(count int, writable ...int32) Partitions { return Partitions{count, writable} }

func TestKeyHash(t *testing.T) {
	p := KeyHash().Topic("a")
	for _, key := range []string{"", "a", "foobar"} {
		want := int32(murmur2([]byte(key))&0x7fffffff) % 7
		if got := p.Partition(&Record{Key: []byte(key)}, of(7, 1, 2)); got != want { // where it is written does not depend on leaders
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}

func TestSticky(t *testing.T) {
	p, r := keyHash{newSticky(counting())}, &Record{Value: []byte{1}}
	at := func(p2 Partitions, n int) (got []int32) {
		for range n {
			got = append(got, p.Partition(r, p2))
		}
		return got
	}
	four := of(4, 0, 1, 3)
	if got := at(four, 3); !slices.Equal(got, []int32{0, 0, 0}) {
		t.Errorf("at first %v", got)
	}
	p.BatchClosed(2) // not the one that is stuck to
	if got := at(four, 1); got[0] != 0 {
		t.Errorf("another's batch moved it: %v", got)
	}
	p.BatchClosed(0)
	p.BatchClosed(0)
	if got := at(four, 2); !slices.Equal(got, []int32{1, 1}) {
		t.Errorf("the next %v", got)
	}
	p.BatchClosed(1)
	if got := at(four, 1); got[0] != 3 {
		t.Errorf("then %v", got)
	}
	p.BatchClosed(3)
	if got := at(four, 1); got[0] != 0 {
		t.Errorf("again %v", got)
	}
	p.BatchClosed(0)
	if got := at(of(4, 0, 1), 1); got[0] != 1 { // chance said 0, where it was
		t.Errorf("the same partition again: %v", got)
	}
	if got := at(of(1, 0), 1); got[0] != 0 {
		t.Errorf("of one %v", got)
	}
	p.BatchClosed(0)
	if got := at(of(1, 0), 1); got[0] != 0 {
		t.Errorf("of one, again %v", got)
	}
	if got := at(of(9), 1); got[0] != 0 {
		t.Errorf("without leaders %v", got)
	}
}

func TestRandomFor(t *testing.T) {
	now := time.Unix(0, 0)
	p := keyHash{&randomFor{random: counting(), now: func() time.Time { return now }, length: time.Minute}}
	var got []int32
	for range 7 {
		got = append(got, p.Partition(&Record{}, of(3, 0, 1, 2)))
		p.BatchClosed(got[len(got)-1])
		now = now.Add(20 * time.Second)
	}
	if want := []int32{0, 0, 0, 1, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := p.Partition(&Record{}, of(1, 0)); got != 0 {
		t.Errorf("of one: %d", got)
	}
}

func TestOtherPartitioners(t *testing.T) {
	take := func(p Partitioner, ps Partitions, r *Record) (got []int32) {
		topic := p.Topic("a")
		for range 4 {
			got = append(got, topic.Partition(r, ps))
			topic.BatchClosed(0)
		}
		return got
	}
	keyed := &Record{Key: []byte("k"), Partition: 2}
	for _, tc := range []struct {
		p    Partitioner
		of   Partitions
		want []int32
	}{
		{RoundRobin(), of(3, 0, 1, 2), []int32{0, 1, 2, 0}},
		{RoundRobin(), of(3, 0, 2), []int32{0, 2, 0, 2}},
		{RoundRobin(), of(2), []int32{0, 1, 0, 1}},
		{ExplicitPartition(), of(3, 0), []int32{2, 2, 2, 2}},
		{PartitionFunc(func(r *Record, n int) int32 { return int32(n) - r.Partition }), of(3), []int32{1, 1, 1, 1}},
	} {
		if got := take(tc.p, tc.of, keyed); !slices.Equal(got, tc.want) {
			t.Errorf("%v, want %v", got, tc.want)
		}
	}
	for _, p := range []Partitioner{KeyHash(), KeyHashRandomFor(time.Hour)} { // the real sources of chance stay in range
		topic := p.Topic("a")
		for i := range 100 {
			n := topic.Partition(&Record{}, of(5, 1, 3))
			if n != 1 && n != 3 {
				t.Fatal(fmt.Sprint(i, ": ", n))
			}
			topic.BatchClosed(n)
		}
	}
}
