package client

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/leatmq/leat/record"
)

// Memory is used again when it is large enough, what lies idle is bounded, and what is larger than is trusted is not taken at once.
func TestFetchMemory(t *testing.T) {
	m := fetchMemory{reuse: true}
	if m.take(answerTrusted+1) != nil {
		t.Error("an answer of any size gets its memory")
	}
	a := m.take(1 << 20)
	m.give(a[1:]) // as it is behind an answer's header
	if b := m.take(1<<20 - 1); &b[0] != &a[1] {
		t.Error("memory is not used again")
	}
	if b := m.take(1 << 20); &b[0] == &a[0] {
		t.Error("memory is used twice")
	}
	for range 100 {
		m.give(make([]byte, 4<<20))
		m.give(make([]byte, 1000))
	}
	if m.mu.bytes > reuseKept || len(m.mu.free) != reuseKept>>22 {
		t.Errorf("%d bytes lie idle, in %d pieces", m.mu.bytes, len(m.mu.free))
	}
	off := fetchMemory{}
	c := off.take(1 << 20)
	off.give(c)
	if len(off.mu.free) != 0 {
		t.Error("memory that is the user's is taken back")
	}
}

// With ReuseMemory what Poll returned stays as it is until the next Poll, whatever is fetched meanwhile, and wherever one seeks (B-H1).
func TestConsumerReuseMemory(t *testing.T) {
	config := ConsumerConfig{OffsetReset: ResetEarliest, ReuseMemory: true, MaxPartitionBytes: 64 << 10, BufferMemory: 256 << 10}
	fakeConsumer(t, config, 2, func(r *fakeRig) {
		pad := bytes.Repeat([]byte{'x'}, 1000)
		for p := range int32(2) {
			log := &fakeLog{}
			for range 60 {
				w := record.NewBuilder(record.Options{BaseOffset: log.end(), PartitionLeaderEpoch: 1})
				for i := range 50 {
					w.Append(1000, fmt.Append(nil, p), append(fmt.Append(nil, log.end()+int64(i), " "), pad...), nil)
				}
				log.batches = append(log.batches, w.Bytes())
			}
			r.logs.mu.Lock()
			r.logs.logs[tp(p)] = log
			r.logs.mu.Unlock()
			if err := r.c.Seek(tp(p), At(0)); err != nil {
				r.t.Fatal(err)
			}
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for n := 0; n < 20_000; {
			rs, err := r.c.Poll(within(r.t, patience), 1+rng.IntN(300))
			if err != nil {
				r.t.Fatal(err)
			}
			if rng.IntN(20) == 0 {
				if err := r.c.Seek(tp(rs[0].Partition), At(rng.Int64N(2000))); err != nil {
					r.t.Fatal(err)
				}
			}
			synctest.Wait() // everything is fetched that may be
			for i := range rs {
				if want := fmt.Sprint(rs[i].Offset, " "); !bytes.HasPrefix(rs[i].Value, []byte(want)) || len(rs[i].Value) != len(want)+1000 || string(rs[i].Key) != fmt.Sprint(rs[i].Partition) {
					r.t.Fatalf("offset %d of partition %d holds %.20q, %q", rs[i].Offset, rs[i].Partition, rs[i].Value, rs[i].Key)
				}
			}
			n += len(rs)
			for p := range int32(2) {
				if at, err := r.c.Position(within(r.t, patience), tp(p)); err == nil && at >= 3000 {
					if err := r.c.Seek(tp(p), At(0)); err != nil {
						r.t.Fatal(err)
					}
				}
			}
		}
	})
}
