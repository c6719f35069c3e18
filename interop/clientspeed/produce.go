//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	leat "github.com/leatmq/leat/client"
)

const partitions = 3

func admin(addr string, do func(*kadm.Client) error) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return err
	}
	defer cl.Close()
	return do(kadm.NewClient(cl))
}

func createTopic(ctx context.Context, addr, topic string) error {
	return admin(addr, func(a *kadm.Client) error {
		_, err := a.CreateTopic(ctx, partitions, 1, nil, topic)
		return err
	})
}

func deleteTopic(ctx context.Context, addr, topic string) error {
	return admin(addr, func(a *kadm.Client) error {
		_, err := a.DeleteTopic(ctx, topic)
		return err
	})
}

// values are random values to take turns.
func values(size int) [][]byte {
	r := rand.NewChaCha8([32]byte{1})
	all := make([][]byte, 64)
	for i := range all {
		all[i] = make([]byte, size)
		_, _ = r.Read(all[i])
	}
	return all
}

// sink counts acknowledgements and checks their offsets: nobody else writes to the topic.
type sink struct {
	anyOrder bool // acknowledgements come in any order
	acked    atomic.Int64
	next     [partitions]atomic.Int64
	err      atomic.Pointer[error]
}

func (s *sink) ack(partition int32, offset int64, err error) {
	if err != nil || !s.anyOrder && s.next[partition].Add(1)-1 != offset {
		s.fail(partition, offset, err)
	}
	s.acked.Add(1)
}

func (s *sink) fail(partition int32, offset int64, err error) {
	if err == nil {
		err = fmt.Errorf("partition %d: a record got offset %d", partition, offset)
	}
	s.err.CompareAndSwap(nil, &err)
}

// send gives a record to a client; done is called when it is acknowledged.
type send func(value []byte, done func(partition int32, offset int64, err error)) error

// drive sends for the time of a turn and counts what is acknowledged while it is measured.
func drive(w work, send send, flush func() error) error {
	all, s := values(w.size), &sink{anyOrder: w.anyOrder}
	done := s.ack
	begin := time.Now()
	measuring := false
	var before, n int64
	for ; n < w.maxRecords; n++ {
		if n%64 == 0 || w.rate > 0 {
			now := time.Since(begin)
			if !measuring && now > w.warmup {
				measuring, before = true, s.acked.Load()
				w.meter.start()
			}
			if now > w.warmup+w.length {
				break
			}
			if w.rate > 0 {
				done = pace(w, s, begin.Add(time.Duration(float64(n)/w.rate*float64(time.Second))), measuring)
			}
		}
		if err := send(all[n%64], done); err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	w.meter.stop(s.acked.Load() - before)
	if err := s.err.Load(); err != nil {
		return *err
	}
	if s.acked.Load() != n {
		return fmt.Errorf("%d of %d records are acknowledged", s.acked.Load(), n)
	}
	return nil
}

// pace waits until a record is to be sent, and makes the function that measures how long it took.
func pace(w work, s *sink, at time.Time, measuring bool) func(int32, int64, error) {
	time.Sleep(time.Until(at))
	return func(partition int32, offset int64, err error) {
		if measuring {
			w.meter.mu.Lock()
			w.meter.latencies = append(w.meter.latencies, time.Since(at))
			w.meter.mu.Unlock()
		}
		s.ack(partition, offset, err)
	}
}

func leatProduce(ctx context.Context, w work) error {
	c, err := leat.New(leat.Config{BootstrapServers: []string{w.addr}})
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.NewProducer(leat.ProducerConfig{})
	if err != nil {
		return err
	}
	r := leat.Record{Topic: w.topic}
	var told func(int32, int64, error)
	same := func(d leat.Delivery, err error) { told(d.Partition, d.Offset, err) }
	return drive(w, func(value []byte, done func(int32, int64, error)) error {
		r.Value = value
		if w.rate > 0 { // each has a function of its own
			return p.Send(ctx, &r, func(d leat.Delivery, err error) { done(d.Partition, d.Offset, err) })
		}
		if told == nil {
			told = done
		}
		return p.Send(ctx, &r, same)
	}, func() error { return p.Flush(ctx) })
}

func franzProduce(ctx context.Context, w work) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.DefaultProduceTopic(w.topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	var told func(int32, int64, error)
	same := func(r *kgo.Record, err error) { told(r.Partition, r.Offset, err) }
	return drive(w, func(value []byte, done func(int32, int64, error)) error {
		if w.rate > 0 {
			cl.Produce(ctx, &kgo.Record{Value: value}, func(r *kgo.Record, err error) { done(r.Partition, r.Offset, err) })
			return nil
		}
		if told == nil {
			told = done
		}
		cl.Produce(ctx, &kgo.Record{Value: value}, same)
		return nil
	}, func() error { return cl.Flush(ctx) })
}
