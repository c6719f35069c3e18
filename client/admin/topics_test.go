package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// The newest and the oldest versions of everything about topics.
var topicAPIs = []map[int16]int16{{3: 13, 19: 7, 20: 6, 37: 3, 32: 4, 44: 1, 35: 5}, {3: 1, 19: 2, 20: 1, 37: 0, 32: 1, 44: 0, 35: 1}}

func ptr[T any](v T) *T { return &v }

// topicBroker has the topic "t", and refuses most else in the way a broker does. In the beginning it is no controller.
func topicBroker(t *testing.T, newest map[int16]int16) *Client {
	asked := map[int16]bool{}
	yet := func(req kmsg.Request) int16 {
		if !asked[req.Key()] {
			asked[req.Key()] = true
			return int16(protocol.NotController)
		}
		return 0
	}
	known := func(name string) int16 {
		if name == "t" {
			return 0
		}
		return int16(protocol.UnknownTopicOrPartition)
	}
	return testClient(t, newBroker(t, newest, func(req kmsg.Request) kmsg.Response {
		switch r := req.(type) {
		case *kmsg.CreateTopicsRequest:
			resp := kmsg.NewPtrCreateTopicsResponse()
			a := kmsg.NewCreateTopicsResponseTopic()
			a.Topic, a.TopicID, a.NumPartitions, a.ReplicationFactor = r.Topics[0].Topic, [16]byte{1}, 3, 2
			switch {
			case yet(req) != 0:
				a.ErrorCode = int16(protocol.NotController)
			case a.Topic == "t":
				a.ErrorCode = int16(protocol.TopicAlreadyExists)
			case len(r.Topics[0].Configs) > 0:
				a.ErrorCode, a.ErrorMessage = int16(protocol.InvalidConfig), ptr(fmt.Sprint(r.Topics[0].Configs[0].Name, "=", *r.Topics[0].Configs[0].Value))
			}
			resp.Topics = append(resp.Topics, a)
			return resp
		case *kmsg.DeleteTopicsRequest:
			resp := kmsg.NewPtrDeleteTopicsResponse()
			a := kmsg.NewDeleteTopicsResponseTopic()
			if len(r.TopicNames) > 0 {
				a.Topic = &r.TopicNames[0]
			} else {
				a.Topic = r.Topics[0].Topic
			}
			a.ErrorCode = known(*a.Topic)
			resp.Topics = append(resp.Topics, a)
			return resp
		case *kmsg.CreatePartitionsRequest:
			resp := kmsg.NewPtrCreatePartitionsResponse()
			a := kmsg.NewCreatePartitionsResponseTopic()
			a.Topic, a.ErrorCode = r.Topics[0].Topic, known(r.Topics[0].Topic)
			if a.ErrorCode == 0 && r.Topics[0].Count < 3 {
				a.ErrorCode = int16(protocol.InvalidPartitions)
			}
			resp.Topics = append(resp.Topics, a)
			return resp
		case *kmsg.IncrementalAlterConfigsRequest:
			resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
			a := kmsg.NewIncrementalAlterConfigsResponseResource()
			a.ResourceType, a.ResourceName, a.ErrorCode = r.Resources[0].ResourceType, r.Resources[0].ResourceName, known(r.Resources[0].ResourceName)
			if fmt.Sprint(r.Resources[0].Configs[0].Op, r.Resources[0].Configs[1].Op) != "SET DELETE" {
				a.ErrorCode = int16(protocol.InvalidRequest)
			}
			resp.Resources = append(resp.Resources, a)
			return resp
		case *kmsg.DescribeConfigsRequest:
			resp := kmsg.NewPtrDescribeConfigsResponse()
			a := kmsg.NewDescribeConfigsResponseResource()
			a.ResourceType, a.ResourceName, a.ErrorCode = r.Resources[0].ResourceType, r.Resources[0].ResourceName, known(r.Resources[0].ResourceName)
			a.Configs = []kmsg.DescribeConfigsResponseResourceConfig{
				{Name: "z.set", Value: ptr("1"), Source: kmsg.ConfigSourceDynamicTopicConfig},
				{Name: "a.default", Value: ptr("2"), Source: kmsg.ConfigSourceDefaultConfig, IsDefault: true},
			}
			resp.Resources = append(resp.Resources, a)
			return resp
		case *kmsg.DescribeLogDirsRequest:
			resp := kmsg.NewPtrDescribeLogDirsResponse()
			d := kmsg.NewDescribeLogDirsResponseDir()
			d.Dir, d.TotalBytes, d.UsableBytes = "/data", 100, 40
			if len(r.Topics) > 0 { // of other topics
				resp.Dirs = append(resp.Dirs, d)
				return resp
			}
			d.Topics = []kmsg.DescribeLogDirsResponseDirTopic{{Topic: "t", Partitions: []kmsg.DescribeLogDirsResponseDirTopicPartition{{Partition: 1, Size: 7}, {Partition: 0, Size: 9, IsFuture: true}}}}
			resp.Dirs = append(resp.Dirs, d)
			return resp
		}
		return nil
	}).addr())
}

// Topics are made, changed and deleted in the oldest and the newest versions; what a broker cannot do yet is asked again.
func TestTopicChanges(t *testing.T) {
	for _, newest := range topicAPIs {
		c, ctx := topicBroker(t, newest), t.Context()
		made, err := c.CreateTopic(ctx, NewTopic{Name: "new", Partitions: -1, ReplicationFactor: -1}, false)
		want := CreatedTopic{[16]byte{1}, 3, 2}
		if newest[19] < 5 {
			want = CreatedTopic{Partitions: -1, ReplicationFactor: -1}
		}
		if err != nil || made != want {
			t.Errorf("%+v, %v", made, err)
		}
		if _, err := c.CreateTopic(ctx, NewTopic{Name: "t"}, false); err != ErrTopicExists {
			t.Error(err)
		}
		_, err = c.CreateTopic(ctx, NewTopic{Name: "new", Configs: map[string]string{"b": "2", "a": "1"}}, false)
		if err == nil || !strings.Contains(err.Error(), "INVALID_CONFIG") || !strings.Contains(err.Error(), "a=1") {
			t.Error(err)
		}
		for name, want := range map[string]error{"t": nil, "u": ErrNoTopic} {
			if err := c.DeleteTopic(ctx, name); err != want {
				t.Errorf("delete %s: %v", name, err)
			}
			if err := c.CreatePartitions(ctx, name, 3); err != want {
				t.Errorf("partitions of %s: %v", name, err)
			}
			if err := c.AlterConfigs(ctx, TopicResource(name), map[string]string{"b": "2"}, []string{"a"}, false); err != want {
				t.Errorf("configs of %s: %v", name, err)
			}
			configs, err := c.Configs(ctx, TopicResource(name))
			if err != want || err == nil && (len(configs) != 2 || configs[0].Name != "a.default" || configs[0].Set || !configs[1].Set || *configs[1].Value != "1") {
				t.Errorf("configs of %s: %+v, %v", name, configs, err)
			}
		}
		if err := c.CreatePartitions(ctx, "t", 2); err == nil || !strings.Contains(err.Error(), "INVALID_PARTITIONS") {
			t.Error(err)
		}
	}
}

// Topics, the cluster and its directories are described as far as the broker tells.
func TestDescribeTopics(t *testing.T) {
	for _, newest := range topicAPIs {
		c, ctx := topicBroker(t, newest), t.Context()
		topics, failed, err := c.DescribeTopics(ctx, []string{"z", "missing", "a"})
		if err != nil || len(topics) != 2 || topics[0].Name != "z" || topics[1].Name != "a" || !errors.Is(failed["missing"], ErrNoTopic) {
			t.Fatalf("%+v, %v, %v", topics, failed, err)
		}
		if p := topics[0].Partitions; len(p) != 3 || p[0].Leader != 7 || p[2].Leader != -1 {
			t.Errorf("%+v", p)
		}
		if topics, failed, err := c.DescribeTopics(ctx, nil); topics != nil || failed != nil || err != nil {
			t.Errorf("none were asked for: %v, %v, %v", topics, failed, err)
		}
		cluster, err := c.Cluster(ctx)
		if err != nil || len(cluster.Brokers) != 1 || cluster.Brokers[0].ID != 7 {
			t.Fatalf("%+v, %v", cluster, err)
		}
		dirs, err := c.LogDirs(ctx, cluster.Brokers[0], nil)
		if err != nil || len(dirs) != 1 || len(dirs[0].Sizes) != 1 || dirs[0].Sizes[Partition{"t", 1}] != 7 {
			t.Fatalf("%+v, %v", dirs, err)
		}
		if dirs, err := c.LogDirs(ctx, cluster.Brokers[0], []Partition{{"u", 3}}); err != nil || len(dirs) != 1 || len(dirs[0].Sizes) != 0 {
			t.Errorf("of a partition that is not there: %+v, %v", dirs, err)
		}
		if want := map[bool]int64{true: 100, false: -1}[newest[35] >= 4]; dirs[0].Total != want {
			t.Errorf("%+v", dirs[0])
		}
	}
}

// Whether a change was made is not known when the connection ends before the answer: it is not asked for twice.
func TestLostChange(t *testing.T) {
	var asked atomic.Int32
	b := newBroker(t, topicAPIs[0], func(req kmsg.Request) kmsg.Response {
		if _, ok := req.(*kmsg.DeleteTopicsRequest); ok {
			asked.Add(1)
		}
		return nil
	})
	err := testClient(t, b.addr()).DeleteTopic(t.Context(), "t")
	if err == nil || !strings.Contains(err.Error(), "not known") || asked.Load() != 1 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}

// A broker is asked itself about its configuration, and to change it; what all brokers have in common, any may be asked.
func TestBrokerConfigsAreAskedOfThatBroker(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	newest := map[int16]int16{3: 13, 32: 4, 44: 1}
	record := func(who, what, name string) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, who+" "+what+" "+name)
	}
	answer := func(who string) func(req kmsg.Request) kmsg.Response {
		return func(req kmsg.Request) kmsg.Response {
			switch r := req.(type) {
			case *kmsg.DescribeConfigsRequest:
				record(who, "describe", r.Resources[0].ResourceName)
				resp := kmsg.NewPtrDescribeConfigsResponse()
				a := kmsg.NewDescribeConfigsResponseResource()
				a.ResourceType, a.ResourceName = r.Resources[0].ResourceType, r.Resources[0].ResourceName
				resp.Resources = append(resp.Resources, a)
				return resp
			case *kmsg.IncrementalAlterConfigsRequest:
				record(who, "alter", r.Resources[0].ResourceName)
				resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
				a := kmsg.NewIncrementalAlterConfigsResponseResource()
				a.ResourceType, a.ResourceName = r.Resources[0].ResourceType, r.Resources[0].ResourceName
				resp.Resources = append(resp.Resources, a)
				return resp
			}
			return nil
		}
	}
	other := newBroker(t, newest, answer("8"))
	answerHome := answer("7")
	var home atomic.Pointer[broker]
	home.Store(newBroker(t, newest, func(req kmsg.Request) kmsg.Response {
		m, ok := req.(*kmsg.MetadataRequest)
		if !ok {
			return answerHome(req)
		}
		resp := home.Load().metadata(m)
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = 8, other.host, other.port
		resp.Brokers = append(resp.Brokers, b)
		return resp
	}))
	c := testClient(t, home.Load().addr())
	for _, r := range []Resource{BrokerResource(8), BrokerResource(AllBrokers), GroupResource("g")} {
		if err := c.AlterConfigs(t.Context(), r, map[string]string{"k": "v"}, nil, false); err != nil {
			t.Error(err)
		}
		if _, err := c.Configs(t.Context(), r); err != nil {
			t.Error(err)
		}
	}
	if err := c.AlterConfigs(t.Context(), BrokerResource(9), map[string]string{"k": "v"}, nil, false); err == nil {
		t.Error("a broker that is not there was configured")
	}
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"8 alter 8", "8 describe 8", "7 alter ", "7 describe ", "7 alter g", "7 describe g"}; !slices.Equal(asked, want) {
		t.Errorf("%q, want %q", asked, want)
	}
}
