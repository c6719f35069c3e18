//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	leat "github.com/leatmq/leat/client"
)

// filled is how many bytes of records a topic has that is read.
const filled = 128 << 20

// fillTopic makes a topic full of records.
func fillTopic(ctx context.Context, w work) error {
	if err := createTopic(ctx, w.addr, w.topic); err != nil {
		return err
	}
	w.meter, w.warmup, w.length, w.maxRecords, w.rate = &meter{}, 0, time.Hour, recordsOf(w.size), 0
	return franzProduce(ctx, w)
}

func recordsOf(size int) int64 { return int64(filled / (size + 16)) }

// order checks what is read: every partition in order, without a gap.
type order struct {
	size int
	next [partitions]int64
	n    int64
}

func (o *order) see(partition int32, offset int64, value []byte) error {
	if o.next[partition] != offset || len(value) != o.size {
		return fmt.Errorf("partition %d: offset %d with %d bytes came, want %d with %d", partition, offset, len(value), o.next[partition], o.size)
	}
	o.next[partition]++
	o.n++
	return nil
}

// rounds reads the topic again and again for the time of a turn, each time with a new client, and at least once after the warm-up.
func rounds(w work, read func(o *order) error) error {
	begin, measuring, n := time.Now(), false, int64(0)
	for n == 0 || time.Since(begin) < w.warmup+w.length {
		if !measuring && time.Since(begin) >= w.warmup {
			measuring = true
			w.meter.start()
		}
		o := &order{size: w.size}
		if err := read(o); err != nil {
			return err
		}
		if measuring {
			n += o.n
		}
	}
	w.meter.stop(n)
	return nil
}

func leatConsume(ctx context.Context, w work) error { return leatRead(ctx, w, leat.ConsumerConfig{}) }

// leatConsumeReusing is done with what Poll has returned when it calls Poll again.
func leatConsumeReusing(ctx context.Context, w work) error {
	return leatRead(ctx, w, leat.ConsumerConfig{ReuseMemory: true})
}

func leatRead(ctx context.Context, w work, config leat.ConsumerConfig) error {
	config.OffsetReset = leat.ResetEarliest
	return rounds(w, func(o *order) error {
		c, err := leat.New(leat.Config{BootstrapServers: []string{w.addr}})
		if err != nil {
			return err
		}
		defer c.Close()
		r, err := c.NewConsumer(config)
		if err != nil {
			return err
		}
		var all []leat.TopicPartition
		for p := range int32(partitions) {
			all = append(all, leat.TopicPartition{Topic: w.topic, Partition: p})
		}
		if err := r.Assign(all...); err != nil {
			return err
		}
		for o.n < recordsOf(w.size) {
			rs, err := r.Poll(ctx, 0)
			if err != nil {
				return err
			}
			for i := range rs {
				if err := o.see(rs[i].Partition, rs[i].Offset, rs[i].Value); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func franzConsume(ctx context.Context, w work) error {
	return rounds(w, func(o *order) error {
		from := map[int32]kgo.Offset{}
		for p := range int32(partitions) {
			from[p] = kgo.NewOffset().AtStart()
		}
		cl, err := kgo.NewClient(kgo.SeedBrokers(w.addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{w.topic: from}))
		if err != nil {
			return err
		}
		defer cl.Close()
		for o.n < recordsOf(w.size) {
			fs := cl.PollFetches(ctx)
			if err := fs.Err(); err != nil {
				return err
			}
			for it := fs.RecordIter(); !it.Done(); {
				r := it.Next()
				if err := o.see(r.Partition, r.Offset, r.Value); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
