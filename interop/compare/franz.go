//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/bench/load"
)

const franzValue = 1024

// franzValues are random values to take turns.
func franzValues() [][]byte {
	r := rand.NewChaCha8([32]byte{1})
	values := make([][]byte, 256)
	for i := range values {
		values[i] = make([]byte, franzValue)
		r.Read(values[i])
	}
	return values
}

// franzSink counts acknowledgements and checks that offsets of a partition grow without gaps: nobody else writes to the topic.
type franzSink struct {
	sync.Mutex
	counting bool
	records  int64
	latency  load.Histogram
	next     map[int32]int64
	err      error
}

func (s *franzSink) acked(r *kgo.Record, err error, intended time.Time) {
	now := time.Now()
	s.Lock()
	defer s.Unlock()
	if err == nil {
		if want, ok := s.next[r.Partition]; ok && want != r.Offset {
			err = fmt.Errorf("partition %d: a record got offset %d, want %d", r.Partition, r.Offset, want)
		}
		s.next[r.Partition] = r.Offset + 1
	}
	if err != nil && s.err == nil {
		s.err = err
	}
	if s.counting {
		s.records++
		s.latency.Record(now.Sub(intended))
	}
}

func (s *franzSink) failed() error {
	s.Lock()
	defer s.Unlock()
	return s.err
}

// count begins or ends the count and returns it.
func (s *franzSink) count(on bool) int64 {
	s.Lock()
	defer s.Unlock()
	s.counting = on
	return s.records
}

// franzProduce produces with the client as it is by default (idempotent), without compression. rate 0: as fast as it goes.
func franzProduce(ctx context.Context, t turn, linger time.Duration, rate float64) (sample, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(t.addr), kgo.DefaultProduceTopic(t.topic), kgo.ProducerLinger(linger), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return sample{}, err
	}
	defer cl.Close()
	values, sink := franzValues(), &franzSink{next: map[int32]int64{}}
	send := func(n int, intended time.Time) {
		cl.Produce(ctx, &kgo.Record{Value: values[n%len(values)]}, func(r *kgo.Record, err error) { sink.acked(r, err, intended) })
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Value: values[0]}).FirstErr(); err != nil { // the connection, the producer id
		return sample{}, err
	}
	begin := time.Now()
	measure, end := begin.Add(t.warmup), begin.Add(t.warmup+t.length)
	var cpu time.Duration
	measuring := false
	for n := 0; ; n++ {
		now := time.Now()
		intended := now
		if rate > 0 {
			intended = begin.Add(time.Duration(float64(n) / rate * float64(time.Second)))
			if d := intended.Sub(now); d > 0 {
				time.Sleep(d)
			}
		}
		if !measuring && intended.After(measure) {
			if cpu, err = load.ProcessCPU(t.pid); err != nil {
				return sample{}, err
			}
			measuring = true
			sink.count(true)
			measure = time.Now()
		}
		if intended.After(end) || ctx.Err() != nil || t.maxBytes > 0 && int64(n)*franzValue > t.maxBytes {
			break
		}
		send(n, intended)
	}
	records, seconds := sink.count(false), time.Since(measure).Seconds()
	after, err := load.ProcessCPU(t.pid)
	if err == nil {
		err = errors.Join(cl.Flush(ctx), sink.failed())
	}
	if err != nil || records == 0 {
		return sample{}, fmt.Errorf("franz-go produced %d records: %w", records, err)
	}
	s := sample{Seconds: seconds, Records: float64(records), Bytes: float64(records) * franzValue, CPU: (after - cpu).Seconds()}
	if rate > 0 {
		s.latencies(&sink.latency)
	}
	return s, nil
}

// franzConsume reads the whole topic again and again until the turn is over; records is how many there are in it.
func franzConsume(ctx context.Context, t turn, partitions int, records int64) (s sample, err error) {
	before, err := load.ProcessCPU(t.pid)
	if err != nil {
		return s, err
	}
	for s.Seconds < t.length.Seconds() {
		seconds, bytes, err := franzPass(ctx, t, partitions, records)
		if err != nil {
			return s, err
		}
		s.Seconds += seconds
		s.Bytes += bytes
		s.Records += float64(records)
	}
	after, err := load.ProcessCPU(t.pid)
	s.CPU = (after - before).Seconds()
	return s, err
}

// franzPass reads the topic once and checks that no offset is missing; the client checks the CRC.
func franzPass(ctx context.Context, t turn, partitions int, records int64) (seconds, bytes float64, err error) {
	from, next := map[int32]kgo.Offset{}, make([]int64, partitions)
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(t.addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.topic: from}))
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	begin := time.Now()
	for read := int64(0); read < records; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return 0, 0, err
		}
		fs.EachRecord(func(r *kgo.Record) {
			if next[r.Partition] != r.Offset {
				err = fmt.Errorf("partition %d: offset %d, want %d", r.Partition, r.Offset, next[r.Partition])
			}
			next[r.Partition]++
			bytes += float64(len(r.Value))
			read++
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return time.Since(begin).Seconds(), bytes, nil
}
