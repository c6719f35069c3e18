package clients

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

func franzCodec(name string) kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[name]
}

// franzProduce produces with the given options and waits for all acknowledgements.
func franzProduce(t *testing.T, addr, topic string, ms []message, opts ...kgo.Opt) {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	must(t, "client", err)
	defer cl.Close()
	var rs []*kgo.Record
	for _, m := range ms {
		rs = append(rs, &kgo.Record{Partition: m.partition, Key: []byte(m.key), Value: []byte(m.value)})
	}
	must(t, "produce", cl.ProduceSync(deadline(t), rs...).FirstErr())
}

// franzConsume reads n records of a topic from the start.
func franzConsume(t *testing.T, addr, topic string, n int, opts ...kgo.Opt) (got []message) {
	t.Helper()
	franzEach(t, addr, topic, n, func(r *kgo.Record) {
		got = append(got, message{r.Partition, string(r.Key), string(r.Value)})
	}, opts...)
	return got
}

// franzEach calls fn for the first n records of a topic.
func franzEach(t *testing.T, addr, topic string, n int, fn func(*kgo.Record), opts ...kgo.Opt) {
	t.Helper()
	from := map[int32]kgo.Offset{}
	for p := range int32(partitions) {
		from[p] = kgo.NewOffset().AtStart()
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})}, opts...)...)
	must(t, "client", err)
	defer cl.Close()
	ctx := deadline(t)
	for read := 0; read < n; {
		fs := cl.PollFetches(ctx)
		must(t, "poll", fs.Err())
		read += fs.NumRecords()
		fs.EachRecord(fn)
	}
}

func TestFranz(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		topic := newTopic(t, p, "franz")
		var want []message
		for _, codec := range codecs {
			ms := messages(codec, perCodec)
			franzProduce(t, p.Addr, topic, ms, kgo.ProducerBatchCompression(franzCodec(codec)))
			want = append(want, ms...)
		}
		plain := messages("not idempotent", perCodec)
		franzProduce(t, p.Addr, topic, plain, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
		want = append(want, plain...)
		same(t, want, franzConsume(t, p.Addr, topic, len(want)))
		same(t, want, franzConsume(t, p.Addr, topic, len(want), kgo.FetchIsolationLevel(kgo.ReadCommitted())))
		same(t, want, franzConsume(t, p.Addr, topic, len(want), kgo.DisableFetchSessions()))
		codecsKept(t, p.Addr, topic, len(want))
	})
}

func TestFranzAdmin(t *testing.T) {
	harness.EachPeer(t, func(t *testing.T, p *harness.Peer) {
		ctx := deadline(t)
		cl := admin(t, p)
		topic := topicName("kadm")
		_, err := cl.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("777777")}, topic)
		must(t, "create", err)
		awaitTopic(t, p, topic, 2)
		_, err = cl.CreateTopic(ctx, 2, 1, nil, topic)
		if err == nil {
			t.Fatal("the topic was created twice")
		}
		topics, err := cl.ListTopics(ctx)
		must(t, "list", err)
		if !topics.Has(topic) {
			t.Fatal("the topic is not listed")
		}
		grown, err := cl.UpdatePartitions(ctx, partitions, topic)
		must(t, "grow", err)
		must(t, "grow", grown.Error())
		awaitTopic(t, p, topic, partitions)

		start := time.Now()
		franzProduce(t, p.Addr, topic, messages("admin", 30))
		after, err := cl.ListOffsetsAfterMilli(ctx, start.UnixMilli()-1000, topic)
		must(t, "offsets by time", err)
		must(t, "offsets by time", after.Error())
		equal(t, "offset by time", after[topic][0].Offset, 0)
		equal(t, "end", counts(t, p, topic)[1], 10)

		configs, err := cl.DescribeTopicConfigs(ctx, topic)
		must(t, "describe configs", err)
		rc, err := configs.On(topic, nil)
		must(t, "describe configs", err)
		equal(t, "retention.ms", configValue(rc.Configs, "retention.ms"), "777777")
		altered, err := cl.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("888888")}}, topic)
		must(t, "alter configs", err)
		must(t, "alter configs", altered[0].Err)
		must(t, "altered config", harness.Poll(limit, func() error {
			configs, err := cl.DescribeTopicConfigs(ctx, topic)
			if err != nil {
				return err
			}
			return differs(configValue(configs[0].Configs, "retention.ms"), "888888")
		}))
		brokers, err := cl.DescribeBrokerConfigs(ctx, 1)
		must(t, "describe broker configs", err)
		if len(brokers) != 1 || len(brokers[0].Configs) < 20 {
			t.Fatalf("broker configs: %d", len(brokers))
		}

		cut := kadm.Offsets{}
		cut.AddOffset(topic, 0, 4, -1)
		deleted, err := cl.DeleteRecords(ctx, cut)
		must(t, "delete records", err)
		must(t, "delete records", deleted.Error())
		starts, err := cl.ListStartOffsets(ctx, topic)
		must(t, "start offsets", err)
		equal(t, "start", starts[topic][0].Offset, 4)

		dirs, err := cl.DescribeAllLogDirs(ctx, kadm.TopicsSet{topic: {0: {}}})
		must(t, "log dirs", err)
		if size := dirs[1].Size(); size <= 0 {
			t.Fatalf("size of the log dirs: %d", size)
		}
		producers, err := cl.DescribeProducers(ctx, kadm.TopicsSet{topic: {0: {}}})
		must(t, "producers", err)
		if len(producers[topic].Partitions[0].ActiveProducers) != 1 {
			t.Fatalf("producers: %+v", producers[topic].Partitions[0])
		}
		req := kadm.OffsetForLeaderEpochRequest{}
		req.Add(topic, 0, 0)
		epochs, err := cl.OffsetForLeaderEpoch(ctx, req)
		must(t, "epochs", err)
		equal(t, "end of the epoch", epochs[topic][0].EndOffset, 10)

		gone, err := cl.DeleteTopics(ctx, topic)
		must(t, "delete", err)
		must(t, "delete", gone.Error())
		meta, err := cl.BrokerMetadata(ctx)
		must(t, "brokers", err)
		equal(t, "brokers", len(meta.Brokers), 1)
	})
}

func configValue(configs []kadm.Config, key string) string {
	for _, c := range configs {
		if c.Key == key && c.Value != nil {
			return *c.Value
		}
	}
	return ""
}
