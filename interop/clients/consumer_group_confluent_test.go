//go:build cgo

package clients

import (
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/leatmq/leat/interop/harness"
)

// confluentMember consumes as a member until stop is called.
func confluentMember(t *testing.T, addr, group, topic, who string, r *readers) (stop func()) {
	t.Helper()
	consumer, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": addr, "group.id": group, "group.protocol": "consumer", "client.id": who,
		"auto.offset.reset": "earliest", "auto.commit.interval.ms": 200})
	must(t, "consumer", err)
	must(t, "subscribe", consumer.Subscribe(topic, nil))
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				_ = consumer.Close()
				return
			default:
			}
			if m, err := consumer.ReadMessage(100 * time.Millisecond); err == nil {
				r.read(who, m.TopicPartition.Partition, string(m.Value))
			}
		}
	}()
	return func() { close(quit); <-done }
}

func TestConfluentConsumerGroup(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic, group, r := newTopic(t, p, "confluent-848"), topicName("g848"), newReaders()
		first := messages("first", perCodec)
		confluentProduce(t, p.Addr, topic, first, nil)
		stopA := confluentMember(t, p.Addr, group, topic, "a", r)
		r.await(t, first)
		stopB := confluentMember(t, p.Addr, group, topic, "b", r)
		defer stopB()
		awaitConsumerGroup(t, p.Addr, group, 2)
		second := messages("second", perCodec)
		confluentProduce(t, p.Addr, topic, second, nil)
		r.await(t, append(first[:len(first):len(first)], second...))
		stopA()
		awaitConsumerGroup(t, p.Addr, group, 1)
	})
}
