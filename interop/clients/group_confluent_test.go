//go:build cgo

package clients

import (
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

func init() { groupClients["confluent-kafka-go"] = confluentJoin }

func confluentJoin(t *testing.T, addr, topic, group, member string, to *seen) func() {
	return confluentConsumeGroup(t, &kafka.ConfigMap{"bootstrap.servers": addr, "group.id": group, "client.id": member, "auto.offset.reset": "earliest",
		"enable.auto.commit": false, "partition.assignment.strategy": "cooperative-sticky", "reconnect.backoff.max.ms": 500}, topic, member, to)
}

// confluentConsumeGroup consumes and commits each record, until leave is called.
func confluentConsumeGroup(t *testing.T, cfg *kafka.ConfigMap, topic, member string, to *seen) (leave func()) {
	t.Helper()
	c, err := kafka.NewConsumer(cfg)
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

func init() { migrants["confluent-kafka-go"] = confluentMigrant }

func confluentMigrant(t *testing.T, addr, topic, group, member, assignor string, to *seen) func() {
	cfg := kafka.ConfigMap{"bootstrap.servers": addr, "group.id": group, "client.id": member, "auto.offset.reset": "earliest", "enable.auto.commit": false,
		"reconnect.backoff.max.ms": 500}
	if assignor == "" {
		cfg["group.protocol"] = "consumer"
	} else {
		cfg["partition.assignment.strategy"], cfg["session.timeout.ms"], cfg["heartbeat.interval.ms"] = assignor, 6000, 500
	}
	return confluentConsumeGroup(t, &cfg, topic, member, to)
}
