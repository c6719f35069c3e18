//go:build cgo

package clients

import (
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func init() { groupClients["confluent-kafka-go"] = confluentJoin }

func confluentJoin(t *testing.T, addr, topic, group, member string, to *seen) func() {
	c, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": addr, "group.id": group, "client.id": member, "auto.offset.reset": "earliest",
		"enable.auto.commit": false, "partition.assignment.strategy": "cooperative-sticky", "reconnect.backoff.max.ms": 500})
	must(t, "consumer", err)
	must(t, "subscribe", c.SubscribeTopics([]string{topic}, nil))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
			}
			m, err := c.ReadMessage(100 * time.Millisecond)
			if err != nil {
				continue
			}
			to.add(member, m.TopicPartition.Partition, int64(m.TopicPartition.Offset), string(m.Value))
			_, _ = c.CommitMessage(m)
		}
	}()
	return func() {
		close(quit)
		<-done
		c.Close()
	}
}
