//go:build linux && cgo

package main

import (
	"context"
	"errors"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func init() { clients = append(clients, client{"librdkafka", confluentProduce, confluentConsume}) }

// confluentProduce is librdkafka through its Go binding, with the defaults of the Java client: idempotent, 5 ms of linger.
func confluentProduce(ctx context.Context, w work) error {
	p, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": w.addr, "enable.idempotence": true, "linger.ms": 5})
	if err != nil {
		return err
	}
	w.anyOrder = true
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range p.Events() {
			if m, ok := e.(*kafka.Message); ok {
				m.Opaque.(func(int32, int64, error))(m.TopicPartition.Partition, int64(m.TopicPartition.Offset), m.TopicPartition.Error)
			}
		}
	}()
	err = drive(w, func(value []byte, done func(int32, int64, error)) error {
		m := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &w.topic, Partition: kafka.PartitionAny}, Value: value, Opaque: done}
		for {
			err := p.Produce(m, nil)
			if e, ok := errors.AsType[kafka.Error](err); ok && e.Code() == kafka.ErrQueueFull && ctx.Err() == nil {
				p.Flush(10)
				continue
			}
			return err
		}
	}, func() error {
		for p.Flush(1000) > 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	})
	p.Close()
	<-ended
	return err
}
