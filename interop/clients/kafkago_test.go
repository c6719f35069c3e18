package clients

import (
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/leatmq/leat/interop/harness"
)

var kafkaGoCodecs = map[string]kafka.Compression{"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}

// byMessage sends a record to the partition that its first header names.
func byMessage(m kafka.Message, _ ...int) int {
	n, _ := strconv.Atoi(string(m.Headers[0].Value))
	return n
}

func kafkaGoProduce(t *testing.T, addr, topic string, ms []message, w *kafka.Writer) {
	t.Helper()
	w.Addr, w.Topic, w.Balancer, w.BatchTimeout = kafka.TCP(addr), topic, kafka.BalancerFunc(byMessage), 10*time.Millisecond
	defer w.Close()
	var out []kafka.Message
	for _, m := range ms {
		out = append(out, kafka.Message{Key: []byte(m.key), Value: []byte(m.value), Headers: []kafka.Header{{Key: "partition", Value: []byte(strconv.Itoa(int(m.partition)))}}})
	}
	must(t, "produce", w.WriteMessages(deadline(t), out...))
}

func kafkaGoConsume(t *testing.T, addr, topic string, want []message) []message {
	t.Helper()
	var got []message
	ctx := deadline(t)
	for p, ms := range byPartition(want) {
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{addr}, Topic: topic, Partition: int(p), MaxWait: 100 * time.Millisecond})
		for range ms {
			m, err := r.ReadMessage(ctx)
			must(t, "read", err)
			got = append(got, message{int32(m.Partition), string(m.Key), string(m.Value)})
		}
		must(t, "close", r.Close())
	}
	return got
}

func TestKafkaGo(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := newTopic(t, p, "kafka-go")
		var want []message
		for _, codec := range codecs {
			ms := messages(codec, perCodec)
			kafkaGoProduce(t, p.Addr, topic, ms, &kafka.Writer{Compression: kafkaGoCodecs[codec], RequiredAcks: kafka.RequireAll})
			want = append(want, ms...)
		}
		one := messages("acks 1", perCodec)
		kafkaGoProduce(t, p.Addr, topic, one, &kafka.Writer{RequiredAcks: kafka.RequireOne})
		want = append(want, one...)
		same(t, want, kafkaGoConsume(t, p.Addr, topic, want))
		codecsKept(t, p.Addr, topic, len(want))
	})
}

// TestKafkaGoConn uses the low-level connection, whose versions are fixed.
func TestKafkaGoConn(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := topicName("kafka-go-conn")
		conn, err := kafka.Dial("tcp", p.Addr)
		must(t, "dial", err)
		defer conn.Close()
		must(t, "create", conn.CreateTopics(kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}))
		awaitTopic(t, p, topic, partitions)
		parts, err := conn.ReadPartitions(topic)
		must(t, "partitions", err)
		equal(t, "partitions", len(parts), partitions)
		_, err = conn.Controller()
		must(t, "controller", err)
		_, err = conn.ApiVersions()
		must(t, "api versions", err)

		leader, err := kafka.DialLeader(deadline(t), "tcp", p.Addr, topic, 1)
		must(t, "dial leader", err)
		defer leader.Close()
		leader.SetDeadline(time.Now().Add(limit))
		_, err = leader.WriteMessages(kafka.Message{Key: []byte("a"), Value: []byte("b")}, kafka.Message{Key: []byte("c"), Value: []byte("d")})
		must(t, "write", err)
		first, last, err := leader.ReadOffsets()
		must(t, "offsets", err)
		equal(t, "first", first, 0)
		equal(t, "last", last, 2)
		_, err = leader.Seek(1, kafka.SeekAbsolute)
		must(t, "seek", err)
		m, err := leader.ReadMessage(1 << 20)
		must(t, "read", err)
		equal(t, "read", string(m.Value), "d")
		must(t, "delete", conn.DeleteTopics(topic))
	})
}

func TestKafkaGoAdmin(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		ctx := deadline(t)
		cl := &kafka.Client{Addr: kafka.TCP(p.Addr), Timeout: limit}
		topic := topicName("kafka-go-admin")
		created, err := cl.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 2, ReplicationFactor: 1}}})
		must(t, "create", err)
		must(t, "create", created.Errors[topic])
		awaitTopic(t, p, topic, 2)
		grown, err := cl.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: partitions}}})
		must(t, "grow", err)
		must(t, "grow", grown.Errors[topic])
		awaitTopic(t, p, topic, partitions)
		must(t, "metadata", harness.Poll(limit, func() error {
			meta, err := cl.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
			if err != nil {
				return err
			}
			return differs(len(meta.Topics[0].Partitions), partitions)
		}))
		altered, err := cl.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
			ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
			Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: "888888", ConfigOperation: kafka.ConfigOperationSet}},
		}}})
		must(t, "alter", err)
		must(t, "alter", altered.Resources[0].Error)
		must(t, "altered config", harness.Poll(limit, func() error {
			d, err := cl.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"}}}})
			if err != nil {
				return err
			}
			return differs(d.Resources[0].ConfigEntries[0].ConfigValue, "888888")
		}))
		offsets, err := cl.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(0), kafka.LastOffsetOf(1)}}})
		must(t, "offsets", err)
		equal(t, "offsets", len(offsets.Topics[topic]), 2)
		id, err := cl.InitProducerID(ctx, &kafka.InitProducerIDRequest{TransactionTimeoutMs: 1000})
		must(t, "producer id", err)
		must(t, "producer id", id.Error)
		deleted, err := cl.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		must(t, "delete", err)
		must(t, "delete", deleted.Errors[topic])
	})
}
