package replication

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// reader follows a partition from the start with Read and Await, as a fetch does.
func follow(p *Partition, until int64) (seen int64, ok bool) {
	w := newWakes()
	var x Waiter
	x.Init(w)
	buf := make([]byte, 1<<20)
	for next := int64(0); next < until; {
		r, err := p.Read(next, len(buf), true, false)
		if err != nil {
			return seen, false
		}
		if r.N == 0 {
			if p.Await(&x, next) {
				<-w.c
			}
			continue
		}
		got, err := r.ReadAt(buf[:r.N], 0)
		r.Release()
		if got < r.N {
			return seen, err == nil
		}
		for rest := buf[:r.N]; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Frame(rest); err != nil {
				break // cut by the limit
			}
			if b.BaseOffset() > next {
				return seen, false // a hole
			}
			next, seen = b.NextOffset(), seen+int64(b.Count())
		}
	}
	return seen, true
}

// TestHammer: many producers and readers on two partitions, ticks and cancels between; every produce is answered once, every
// reader sees every record. Run it with -race.
func TestHammer(t *testing.T) {
	n := start(t, vfs.NewMem(1))
	defer n.stop()
	n.create("a", 1)
	n.create("cached", 1, "write.caching", "true")
	const producers, batches, records = 4, 60, 3
	var stop atomic.Bool
	var others, work sync.WaitGroup
	others.Go(func() {
		for !stop.Load() {
			n.m.Tick(1000)
		}
	})
	for _, topic := range []string{"a", "cached"} {
		p := n.m.Partition(topic, 0)
		others.Go(func() {
			w := newWakes()
			var x Waiter
			x.Init(w)
			for !stop.Load() {
				if p.Await(&x, p.HighWatermark()) && !p.Cancel(&x) {
					<-w.c
				}
			}
		})
		for who := range producers {
			work.Go(func() {
				for i := range batches {
					if err := produce(p, int16((who+i)%3-1), records).wait(); err != nil {
						t.Error(err)
					}
				}
			})
			work.Go(func() {
				if seen, ok := follow(p, producers*batches*records); !ok || seen != producers*batches*records {
					t.Errorf("%s: saw %d records, %v", topic, seen, ok)
				}
			})
		}
	}
	work.Wait()
	stop.Store(true)
	others.Wait()
}

// BenchmarkLookup finds one of 10,000 partitions; 0 allocations.
func BenchmarkLookup(b *testing.B) {
	var m Manager
	m.byName.init()
	m.byID.init()
	for i := range 10000 {
		tp := new(topicPartitions)
		tp.list.Store(&[]*Partition{{number: int32(i)}})
		m.byName.put(topicName(i), tp)
		m.byID.put(topicID(i), tp)
	}
	name, id := topicName(77), topicID(77)
	b.Run("name", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if m.Partition(name, 0).number != 77 {
				b.Fatal("the wrong one")
			}
		}
	})
	b.Run("id", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if m.PartitionByID(id, 0).number != 77 {
				b.Fatal("the wrong one")
			}
		}
	})
}

func topicName(i int) string {
	return "topic-" + string(rune('a'+i%26)) + string(rune('0'+i/26%10)) + string(rune(0x100+i))
}

func topicID(i int) [16]byte { return [16]byte{0: byte(i), 1: byte(i >> 8)} }
