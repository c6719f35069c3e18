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
	acked atomic.Int64
	next  [partitions]atomic.Int64
	err   atomic.Pointer[error]
}

func (s *sink) ack(partition int32, offset int64, err error) {
	if s.next[partition].Add(1)-1 != offset || err != nil {
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

// drive sends for the time of a turn, through send, and counts what is acknowledged while it is measured.
func drive(w work, s *sink, send func(value []byte) error, flush func() error) error {
	all := values(w.size)
	begin := time.Now()
	measuring := false
	var before, n int64
	for ; n < w.maxRecords; n++ {
		if n%64 == 0 {
			now := time.Since(begin)
			if !measuring && now > w.warmup {
				measuring, before = true, s.acked.Load()
				w.meter.start()
			}
			if now > w.warmup+w.length {
				break
			}
		}
		if err := send(all[n%64]); err != nil {
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
	s := &sink{}
	done := func(d leat.Delivery, err error) { s.ack(d.Partition, d.Offset, err) }
	r := leat.Record{Topic: w.topic}
	return drive(w, s, func(value []byte) error {
		r.Value = value
		return p.Send(ctx, &r, done)
	}, func() error { return p.Flush(ctx) })
}

func franzProduce(ctx context.Context, w work) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.DefaultProduceTopic(w.topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer cl.Close()
	s := &sink{}
	done := func(r *kgo.Record, err error) { s.ack(r.Partition, r.Offset, err) }
	return drive(w, s, func(value []byte) error {
		cl.Produce(ctx, &kgo.Record{Value: value}, done)
		return nil
	}, func() error { return cl.Flush(ctx) })
}
