//go:build linux && cgo

package main

import (
	"context"
	"fmt"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

// confluentConsume is librdkafka through its Go binding.
func confluentConsume(_ context.Context, w work) error {
	return rounds(w, func(o *order) error {
		c, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": w.addr, "group.id": w.topic, "enable.auto.commit": false, "auto.offset.reset": "earliest", "check.crcs": true})
		if err != nil {
			return err
		}
		defer c.Close()
		var all []kafka.TopicPartition
		for p := range int32(partitions) {
			all = append(all, kafka.TopicPartition{Topic: &w.topic, Partition: p, Offset: kafka.OffsetBeginning})
		}
		if err := c.Assign(all); err != nil {
			return err
		}
		for o.n < recordsOf(w.size) {
			switch e := c.Poll(1000).(type) {
			case *kafka.Message:
				if err := o.see(e.TopicPartition.Partition, int64(e.TopicPartition.Offset), e.Value); err != nil {
					return err
				}
			case kafka.Error:
				return fmt.Errorf("librdkafka: %w", e)
			}
		}
		return nil
	})
}
