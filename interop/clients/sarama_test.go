package clients

import (
	"testing"

	"github.com/IBM/sarama"

	"github.com/leatmq/leat/interop/harness"
)

var saramaCodecs = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy, "lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

func saramaConfig(version sarama.KafkaVersion) *sarama.Config {
	c := sarama.NewConfig()
	c.Version = version
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.RequiredAcks = sarama.WaitForAll
	return c
}

func saramaProduce(t *testing.T, addr, topic string, ms []message, c *sarama.Config) {
	t.Helper()
	producer, err := sarama.NewSyncProducer([]string{addr}, c)
	must(t, "producer", err)
	defer producer.Close()
	var batch []*sarama.ProducerMessage
	for _, m := range ms {
		batch = append(batch, &sarama.ProducerMessage{Topic: topic, Partition: m.partition, Key: sarama.StringEncoder(m.key), Value: sarama.StringEncoder(m.value)})
	}
	must(t, "produce", producer.SendMessages(batch))
}

func saramaConsume(t *testing.T, addr, topic string, want []message, c *sarama.Config) []message {
	t.Helper()
	consumer, err := sarama.NewConsumer([]string{addr}, c)
	must(t, "consumer", err)
	defer consumer.Close()
	ctx := deadline(t)
	var got []message
	for p, ms := range byPartition(want) {
		pc, err := consumer.ConsumePartition(topic, p, sarama.OffsetOldest)
		must(t, "consume", err)
		for range ms {
			select {
			case m := <-pc.Messages():
				got = append(got, message{m.Partition, string(m.Key), string(m.Value)})
			case <-ctx.Done():
				t.Fatalf("partition %d: %d records came", p, len(got))
			}
		}
		must(t, "close", pc.Close())
	}
	return got
}

func TestSarama(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		for _, version := range []sarama.KafkaVersion{sarama.DefaultVersion, sarama.MaxVersion} {
			t.Run(version.String(), func(t *testing.T) {
				topic := newTopic(t, p, "sarama")
				var want []message
				for _, codec := range codecs {
					ms := messages(codec, perCodec)
					c := saramaConfig(version)
					c.Producer.Compression = saramaCodecs[codec]
					saramaProduce(t, p.Addr, topic, ms, c)
					want = append(want, ms...)
				}
				c := saramaConfig(version)
				c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
				ms := messages("idempotent", perCodec)
				saramaProduce(t, p.Addr, topic, ms, c)
				want = append(want, ms...)
				same(t, want, saramaConsume(t, p.Addr, topic, want, saramaConfig(version)))
				codecsKept(t, p.Addr, topic, len(want))
			})
		}
	})
}

func TestSaramaAdmin(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		a, err := sarama.NewClusterAdmin([]string{p.Addr}, saramaConfig(sarama.MaxVersion))
		must(t, "admin", err)
		defer a.Close()
		topic := topicName("sarama-admin")
		value := "777777"
		must(t, "create", a.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &value}}, false))
		awaitTopic(t, p, topic, 2)
		topics, err := a.ListTopics()
		must(t, "list", err)
		equal(t, "partitions", topics[topic].NumPartitions, 2)
		must(t, "grow", a.CreatePartitions(topic, partitions, nil, false))
		awaitTopic(t, p, topic, partitions)
		meta, err := a.DescribeTopics([]string{topic})
		must(t, "describe", err)
		equal(t, "described partitions", len(meta[0].Partitions), partitions)
		saramaProduce(t, p.Addr, topic, messages("admin", 30), saramaConfig(sarama.MaxVersion))
		must(t, "delete records", a.DeleteRecords(topic, map[int32]int64{0: 4}))
		value = "888888"
		must(t, "incremental alter", a.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}}, false))
		must(t, "altered config", harness.Poll(limit, func() error {
			results, err := a.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}}}, sarama.DescribeConfigsOptions{})
			if err != nil {
				return err
			}
			return differs(results[0].Configs[0].Value, "888888")
		}))
		must(t, "alter", a.AlterConfig(sarama.TopicResource, topic, map[string]*string{"segment.bytes": ptr("2000000")}, false))
		dirs, err := a.DescribeLogDirs([]int32{1})
		must(t, "log dirs", err)
		if len(dirs[1]) == 0 {
			t.Fatal("no log dirs")
		}
		brokers, _, err := a.DescribeCluster()
		must(t, "cluster", err)
		equal(t, "brokers", len(brokers), 1)
		must(t, "delete", a.DeleteTopic(topic))
	})
}

func ptr[T any](v T) *T { return &v }
