package client

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// BenchmarkSend sends records to a broker in this process. Allocations are of both.
func BenchmarkSend(b *testing.B) {
	for _, size := range []int{100, 1024} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := startLeat(b, vfs.NewMem(1), "log.retention.bytes=100000000", "log.segment.bytes=20000000", "log.retention.check.interval.ms=100")
			l.topic("a", 3)
			p := producer(b, l.client(), ProducerConfig{})
			var told atomic.Int64
			done := func(_ Delivery, err error) {
				if err != nil {
					b.Error(err)
				}
				told.Add(1)
			}
			r := &Record{Topic: "a", Value: make([]byte, size)}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			n := int64(0)
			for b.Loop() {
				if err := p.Send(b.Context(), r, done); err != nil {
					b.Fatal(err)
				}
				n++
			}
			if err := p.Flush(b.Context()); err != nil || told.Load() != n {
				b.Errorf("%v; told of %d of %d", err, told.Load(), n)
			}
		})
	}
}

// A record costs no allocation: what there is, is by batch and request.
func TestSendAllocates(t *testing.T) {
	f := newFakeCluster(t, 1)
	f.topic("a", 1)
	f.takesRecords()
	p := producer(t, f.client(), ProducerConfig{Linger: patience, BatchSize: 1 << 20})
	r, done := numbered("a", 1), func(Delivery, error) {}
	if _, err := p.SendSync(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	send := func() {
		if err := p.Send(t.Context(), r, done); err != nil {
			t.Fatal(err)
		}
	}
	for range 2000 {
		send()
	}
	if n := testing.AllocsPerRun(5000, send); n > 0 {
		t.Errorf("%v allocations of a record", n)
	}
}
