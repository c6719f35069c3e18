package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/client/assign"
)

// A member of a group reads until it is interrupted. What it has worked through is committed: by the next Poll every five seconds, when partitions change hands, and by Close.
func ExampleConsumer_Subscribe() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := client.New(client.Config{BootstrapServers: []string{"localhost:9092"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	consumer, err := c.NewConsumer(client.ConsumerConfig{
		Group:       "billing",
		Assignors:   []assign.Assignor{assign.CooperativeSticky},
		OffsetReset: client.ResetEarliest,
		OnRevoked:   func(gone []client.TopicPartition) { log.Printf("not ours any more: %v", gone) },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := consumer.Subscribe("orders", "returns"); err != nil {
		log.Fatal(err)
	}
	for ctx.Err() == nil {
		records, err := consumer.Poll(ctx, 0)
		if err != nil && ctx.Err() == nil {
			log.Print(err) // what concerns one partition or topic; the others go on
		}
		for _, r := range records {
			fmt.Printf("%s-%d@%d: %s\n", r.Topic, r.Partition, r.Offset, r.Value)
		}
	}
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := consumer.Close(closing); err != nil {
		log.Print(err)
	}
}

// Everything that is in a topic now, without a group: from the beginning to where the end was when it began.
func ExampleConsumer_Assign() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.New(client.Config{BootstrapServers: []string{"localhost:9092"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	consumer, err := c.NewConsumer(client.ConsumerConfig{OffsetReset: client.ResetEarliest})
	if err != nil {
		log.Fatal(err)
	}
	partitions, err := consumer.Partitions(ctx, "orders")
	if err != nil {
		log.Fatal(err)
	}
	begins, err := consumer.Offsets(ctx, client.Earliest, partitions...)
	if err != nil {
		log.Fatal(err)
	}
	ends, err := consumer.Offsets(ctx, client.Latest, partitions...)
	if err != nil {
		log.Fatal(err)
	}
	for p, end := range ends {
		if begins[p] == end {
			delete(ends, p) // it is empty
		}
	}
	if err := consumer.Assign(partitions...); err != nil {
		log.Fatal(err)
	}
	for len(ends) > 0 {
		records, err := consumer.Poll(ctx, 1000)
		if errors.Is(err, context.DeadlineExceeded) {
			log.Fatal("the end was not reached within a minute: ", err)
		}
		for _, r := range records {
			fmt.Printf("%s\n", r.Value)
		}
		for p, end := range ends {
			if at, err := consumer.Position(ctx, p); err == nil && at >= end {
				delete(ends, p)
			}
		}
	}
}
