//go:build cgo

package clients

import (
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/leatmq/leat/interop/harness"
)

func confluentProduce(t *testing.T, addr, topic string, ms []message, more kafka.ConfigMap) {
	t.Helper()
	c := kafka.ConfigMap{"bootstrap.servers": addr, "linger.ms": 5}
	for k, v := range more {
		c[k] = v
	}
	producer, err := kafka.NewProducer(&c)
	must(t, "producer", err)
	defer producer.Close()
	acks := make(chan kafka.Event, len(ms))
	for _, m := range ms {
		must(t, "produce", producer.Produce(&kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &topic, Partition: m.partition}, Key: []byte(m.key), Value: []byte(m.value),
		}, acks))
	}
	ctx := deadline(t)
	for range ms {
		select {
		case e := <-acks:
			must(t, "delivery", e.(*kafka.Message).TopicPartition.Error)
		case <-ctx.Done():
			t.Fatal("deliveries are missing")
		}
	}
}

func confluentConsume(t *testing.T, addr, topic string, want []message) []message {
	t.Helper()
	consumer, err := kafka.NewConsumer(&kafka.ConfigMap{"bootstrap.servers": addr, "group.id": "none", "enable.auto.commit": false, "fetch.wait.max.ms": 100})
	must(t, "consumer", err)
	defer consumer.Close()
	var parts []kafka.TopicPartition
	for p := range int32(partitions) {
		parts = append(parts, kafka.TopicPartition{Topic: &topic, Partition: p, Offset: kafka.OffsetBeginning})
	}
	must(t, "assign", consumer.Assign(parts))
	var got []message
	for deadline := time.Now().Add(limit); len(got) < len(want); {
		if time.Now().After(deadline) {
			t.Fatalf("%d records came, want %d", len(got), len(want))
		}
		switch e := consumer.Poll(100).(type) {
		case *kafka.Message:
			got = append(got, message{e.TopicPartition.Partition, string(e.Key), string(e.Value)})
		case kafka.Error:
			if e.IsFatal() {
				t.Fatal(e)
			}
		}
	}
	return got
}

func TestConfluent(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := newTopic(t, p, "confluent")
		var want []message
		for _, idempotent := range []bool{true, false} {
			for _, codec := range codecs {
				ms := messages(codec, perCodec)
				confluentProduce(t, p.Addr, topic, ms, kafka.ConfigMap{"compression.codec": codec, "enable.idempotence": idempotent})
				want = append(want, ms...)
			}
		}
		same(t, want, confluentConsume(t, p.Addr, topic, want))
		codecsKept(t, p.Addr, topic, len(want))
	})
}

func TestConfluentAdmin(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		ctx := deadline(t)
		a, err := kafka.NewAdminClient(&kafka.ConfigMap{"bootstrap.servers": p.Addr})
		must(t, "admin", err)
		defer a.Close()
		topic := topicName("confluent-admin")
		created, err := a.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1, Config: map[string]string{"retention.ms": "777777"}}})
		must(t, "create", err)
		equal(t, "create", created[0].Error.Code(), kafka.ErrNoError)
		awaitTopic(t, p, topic, 2)
		created, err = a.CreateTopics(ctx, []kafka.TopicSpecification{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}})
		must(t, "create again", err)
		equal(t, "create again", created[0].Error.Code(), kafka.ErrTopicAlreadyExists)
		grown, err := a.CreatePartitions(ctx, []kafka.PartitionsSpecification{{Topic: topic, IncreaseTo: partitions}})
		must(t, "grow", err)
		equal(t, "grow", grown[0].Error.Code(), kafka.ErrNoError)
		awaitTopic(t, p, topic, partitions)
		meta, err := a.GetMetadata(&topic, false, 10000)
		must(t, "metadata", err)
		equal(t, "partitions", len(meta.Topics[topic].Partitions), partitions)
		described, err := a.DescribeTopics(ctx, kafka.NewTopicCollectionOfTopicNames([]string{topic}))
		must(t, "describe topics", err)
		equal(t, "described partitions", len(described.TopicDescriptions[0].Partitions), partitions)
		cluster, err := a.DescribeCluster(ctx)
		must(t, "cluster", err)
		equal(t, "nodes", len(cluster.Nodes), 1)

		resource := kafka.ConfigResource{Type: kafka.ResourceTopic, Name: topic}
		altered := resource
		altered.Config = []kafka.ConfigEntry{{Name: "retention.ms", Value: "888888", IncrementalOperation: kafka.AlterConfigOpTypeSet}}
		changed, err := a.IncrementalAlterConfigs(ctx, []kafka.ConfigResource{altered})
		must(t, "incremental alter", err)
		equal(t, "incremental alter", changed[0].Error.Code(), kafka.ErrNoError)
		must(t, "altered config", harness.Poll(limit, func() error {
			got, err := a.DescribeConfigs(ctx, []kafka.ConfigResource{resource})
			if err != nil {
				return err
			}
			return differs(got[0].Config["retention.ms"].Value, "888888")
		}))
		changed, err = a.AlterConfigs(ctx, []kafka.ConfigResource{{Type: kafka.ResourceTopic, Name: topic, Config: []kafka.ConfigEntry{{Name: "retention.ms", Value: "999999"}}}})
		must(t, "alter", err)
		equal(t, "alter", changed[0].Error.Code(), kafka.ErrNoError)

		confluentProduce(t, p.Addr, topic, messages("admin", 30), nil)
		first := kafka.TopicPartition{Topic: &topic, Partition: 0}
		cut := first
		cut.Offset = 4
		deleted, err := a.DeleteRecords(ctx, []kafka.TopicPartition{cut})
		must(t, "delete records", err)
		must(t, "delete records", deleted.DeleteRecordsResults[0].TopicPartition.Error)
		for spec, want := range map[kafka.OffsetSpec]kafka.Offset{kafka.EarliestOffsetSpec: 4, kafka.LatestOffsetSpec: 10} {
			offsets, err := a.ListOffsets(ctx, map[kafka.TopicPartition]kafka.OffsetSpec{first: spec})
			must(t, "offsets", err)
			for _, o := range offsets.ResultInfos {
				equal(t, "offsets", o.Error.Code(), kafka.ErrNoError)
				equal(t, "offset", o.Offset, want)
			}
		}
		gone, err := a.DeleteTopics(ctx, []string{topic})
		must(t, "delete", err)
		equal(t, "delete", gone[0].Error.Code(), kafka.ErrNoError)
	})
}
