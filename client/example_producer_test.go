package client_test

import (
	"context"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/record"
)

// Many records: Send does not wait for the broker, and a function is told of each.
func ExampleProducer_Send() {
	c, err := client.New(client.Config{BootstrapServers: []string{"localhost:9092"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	p, err := c.NewProducer(client.ProducerConfig{Compression: record.Zstd})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	told := func(d client.Delivery, err error) { // one function for all, in the order of each partition
		if err != nil {
			log.Print(err)
		}
	}
	r := client.Record{Topic: "orders"}
	for i := range 100_000 {
		r.Key = strconv.AppendInt(r.Key[:0], int64(i%100), 10) // the record is copied, and may be used again
		r.Value = fmt.Appendf(r.Value[:0], "order %d", i)
		if err := p.Send(ctx, &r, told); err != nil {
			log.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil { // what is on its way is waited for
		log.Fatal(err)
	}
}

// One record, and where it went.
func ExampleProducer_SendSync() {
	c, err := client.New(client.Config{BootstrapServers: []string{"localhost:9092"}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	p, err := c.NewProducer(client.ProducerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	d, err := p.SendSync(context.Background(), &client.Record{
		Topic: "orders", Key: []byte("anna"), Value: []byte("two of them"), Headers: []client.Header{{Key: "source", Value: []byte("web")}},
	})
	if err != nil {
		log.Fatal(err, "; again later: ", client.Retriable(err))
	}
	fmt.Printf("partition %d, offset %d\n", d.Partition, d.Offset)
}

// Records go where a function says.
func ExamplePartitionFunc() {
	byLength := client.PartitionFunc(func(r *client.Record, partitions int) int32 { return int32(len(r.Value) % partitions) })
	_ = client.ProducerConfig{Partitioner: byLength}
}
