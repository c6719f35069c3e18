package broker

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

func metadataRequest(version int16, topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = version, true
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

// Gotcha 23: a topic is created by asking for it, and takes appends when the answer is there.
func TestAutoCreation(t *testing.T) {
	n := start(t, "num.partitions=2")
	c := n.dial()
	for i := range 20 {
		topic := fmt.Sprint("auto-", i)
		c.send(metadataRequest(9, topic))
		c.send(produceRequest(9, -1, topic, 1, plain("x"))) // ahead of the answer
		m := next[*kmsg.MetadataResponse](c)
		p := onlyProduced(t, next[*kmsg.ProduceResponse](c))
		wantCode(t, p.ErrorCode, protocol.None)
		if code := protocol.Code(m.Topics[0].ErrorCode); code == protocol.None && len(m.Topics[0].Partitions) != 2 {
			t.Fatalf("%+v", m.Topics[0])
		}
	}
	no := metadataRequest(9, "forbidden")
	no.AllowAutoTopicCreation = false
	wantCode(t, do[*kmsg.MetadataResponse](c, no).Topics[0].ErrorCode, protocol.UnknownTopicOrPartition)
	wantCode(t, do[*kmsg.MetadataResponse](c, metadataRequest(9, "bad name")).Topics[0].ErrorCode, protocol.InvalidTopicException)
	all := metadataRequest(9)
	all.Topics = nil
	if got := len(do[*kmsg.MetadataResponse](c, all).Topics); got != 20 {
		t.Fatalf("%d topics", got)
	}
	if got := len(do[*kmsg.MetadataResponse](c, metadataRequest(9)).Topics); got != 0 {
		t.Fatalf("%d topics for an empty list", got)
	}
	if got := len(do[*kmsg.MetadataResponse](c, metadataRequest(0)).Topics); got != 20 {
		t.Fatalf("%d topics for v0's empty list", got)
	}
	n = n.restart("auto.create.topics.enable=false")
	c = n.dial()
	wantCode(t, do[*kmsg.MetadataResponse](c, metadataRequest(9, "new")).Topics[0].ErrorCode, protocol.UnknownTopicOrPartition)
}

// One request makes no more topics than a client would wait for; it asks again for the rest.
func TestAutoCreationIsBounded(t *testing.T) {
	n := start(t)
	c := n.dial()
	const wanted = 2*autoCreateTopicsMax + 1
	var names []string
	for i := range wanted {
		names = append(names, fmt.Sprintf("many-%04d", i))
	}
	for _, made := range []int{autoCreateTopicsMax, 2 * autoCreateTopicsMax, wanted, wanted} {
		there := 0
		for _, topic := range do[*kmsg.MetadataResponse](c, metadataRequest(9, names...)).Topics {
			switch code := protocol.Code(topic.ErrorCode); {
			case code == protocol.None && len(topic.Partitions) == 1:
				there++
			case code != protocol.UnknownTopicOrPartition:
				t.Fatalf("%s: %s", *topic.Topic, code.Name())
			}
		}
		if there != made {
			t.Errorf("%d topics, want %d", there, made)
		}
	}
}

// Requests of one connection take effect in their order, sent ahead of each other: a topic is created, used, read back, deleted, and created anew.
func TestPipelinedTopicLife(t *testing.T) {
	n := start(t)
	c := n.dial()
	for i := range 20 {
		v := fmt.Sprint(i)
		c.send(createRequest(7, "t", 1))
		c.send(produceRequest(9, 1, "t", 0, plain(v)))
		c.send(produceRequest(9, 1, "t", 0, plain("more")))
		del := sample(protocol.KeyDeleteRecords, 2, [16]byte{}).(*kmsg.DeleteRecordsRequest)
		c.send(del)
		c.send(listRequest(5, "t", 0, -1))
		c.send(deleteRequest(6, "t"))
		c.send(produceRequest(9, 1, "t", 0, plain("late")))
		wantCode(t, next[*kmsg.CreateTopicsResponse](c).Topics[0].ErrorCode, protocol.None)
		for offset := range int64(2) {
			if p := onlyProduced(t, next[*kmsg.ProduceResponse](c)); p.ErrorCode != 0 || p.BaseOffset != offset {
				t.Fatalf("round %d: %+v", i, p)
			}
		}
		wantCode(t, next[*kmsg.DeleteRecordsResponse](c).Topics[0].Partitions[0].ErrorCode, protocol.None)
		wantCode(t, next[*kmsg.ListOffsetsResponse](c).Topics[0].Partitions[0].ErrorCode, protocol.None)
		wantCode(t, next[*kmsg.DeleteTopicsResponse](c).Topics[0].ErrorCode, protocol.None)
		wantCode(t, onlyProduced(t, next[*kmsg.ProduceResponse](c)).ErrorCode, protocol.UnknownTopicOrPartition)
	}
}

func TestCreateTopicsErrors(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("there", 1)
	for _, tc := range []struct {
		name   string
		change func(*kmsg.CreateTopicsRequestTopic)
		want   protocol.Code
	}{
		{"exists", func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "there" }, protocol.TopicAlreadyExists},
		{"empty name", func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "" }, protocol.InvalidTopicException},
		{"..", func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = ".." }, protocol.InvalidTopicException},
		{"slash", func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = "../../etc" }, protocol.InvalidTopicException},
		{"long", func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = strings.Repeat("x", 250) }, protocol.InvalidTopicException},
		{"no partitions", func(t *kmsg.CreateTopicsRequestTopic) { t.NumPartitions = 0 }, protocol.InvalidPartitions},
		{"too many replicas", func(t *kmsg.CreateTopicsRequestTopic) { t.ReplicationFactor = 2 }, protocol.InvalidReplicationFactor},
		{"unknown config", func(t *kmsg.CreateTopicsRequestTopic) {
			k := kmsg.NewCreateTopicsRequestTopicConfig()
			k.Name, k.Value = "no.such.key", ptr("1")
			t.Configs = append(t.Configs, k)
		}, protocol.InvalidConfig},
		{"bad config", func(t *kmsg.CreateTopicsRequestTopic) {
			k := kmsg.NewCreateTopicsRequestTopicConfig()
			k.Name, k.Value = "retention.ms", ptr("long")
			t.Configs = append(t.Configs, k)
		}, protocol.InvalidConfig},
	} {
		req := createRequest(7, "new", 1)
		tc.change(&req.Topics[0])
		got := do[*kmsg.CreateTopicsResponse](c, req).Topics[0]
		if protocol.Code(got.ErrorCode) != tc.want || text(got.ErrorMessage) == "" {
			t.Errorf("%s: %s (%s), want %s", tc.name, protocol.Code(got.ErrorCode).Name(), text(got.ErrorMessage), tc.want.Name())
		}
	}
	twice := createRequest(7, "new", 1)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	for _, r := range do[*kmsg.CreateTopicsResponse](c, twice).Topics {
		wantCode(t, r.ErrorCode, protocol.InvalidRequest)
	}
	valid := createRequest(7, "new", 1)
	valid.ValidateOnly = true
	wantCode(t, do[*kmsg.CreateTopicsResponse](c, valid).Topics[0].ErrorCode, protocol.None)
	wantCode(t, do[*kmsg.DeleteTopicsResponse](c, deleteRequest(5, "new")).Topics[0].ErrorCode, protocol.UnknownTopicOrPartition)
}

func TestCreatePartitions(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	grow := func(count int32) protocol.Code {
		req := sample(protocol.KeyCreatePartitions, 3, [16]byte{}).(*kmsg.CreatePartitionsRequest)
		req.Topics[0].Count, req.ValidateOnly = count, false
		return protocol.Code(do[*kmsg.CreatePartitionsResponse](c, req).Topics[0].ErrorCode)
	}
	if code := grow(3); code != protocol.None {
		t.Fatal(code.Name())
	}
	c.mustProduce("t", 2, plain("x")) // the new ones take appends at once
	for count, want := range map[int32]protocol.Code{3: protocol.InvalidPartitions, 1: protocol.InvalidPartitions, 0: protocol.InvalidPartitions, -1: protocol.InvalidPartitions} {
		if code := grow(count); code != want {
			t.Errorf("%d: %s", count, code.Name())
		}
	}
	n = n.restart()
	wantValues(t, n.dial().readAll("t", 2), "0:x")
}

// Design decision 14: a client is told the address it reached us by, unless one is advertised.
func TestAddressing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("127.0.0.2 needs Linux")
	}
	told := func(n *node, host string) string {
		_, port, _ := net.SplitHostPort(n.addr())
		c := dialTo(t, net.JoinHostPort(host, port))
		m := do[*kmsg.MetadataResponse](c, metadataRequest(9))
		d := do[*kmsg.DescribeClusterResponse](c, sample(protocol.KeyDescribeCluster, 0, [16]byte{}))
		if len(m.Brokers) != 1 || len(d.Brokers) != 1 || m.Brokers[0].Host != d.Brokers[0].Host || m.Brokers[0].Port != d.Brokers[0].Port {
			t.Fatalf("%+v, %+v", m.Brokers, d.Brokers)
		}
		return strings.Replace(net.JoinHostPort(m.Brokers[0].Host, fmt.Sprint(m.Brokers[0].Port)), ":"+port, ":port", 1)
	}
	n := start(t, "listeners=PLAINTEXT://0.0.0.0:0")
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		if got := told(n, host); got != host+":port" {
			t.Errorf("reached by %s, told %s", host, got)
		}
	}
	n = start(t, "listeners=PLAINTEXT://0.0.0.0:0", "advertised.listeners=PLAINTEXT://example.test:1234")
	if got := told(n, "127.0.0.2"); got != "example.test:1234" {
		t.Errorf("told %s though another is advertised", got)
	}
	n = start(t, "listeners=PLAINTEXT://localhost:0")
	for _, a := range n.b.Addrs() {
		host, _, _ := net.SplitHostPort(a.String())
		if got := told(n, host); got != net.JoinHostPort(host, "port") {
			t.Errorf("reached by %s, told %s", host, got)
		}
	}
}
