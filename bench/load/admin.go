package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/client"
	"github.com/leatmq/leat/client/admin"
	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

const (
	callLimit  = 60 * time.Second
	readyLimit = 2 * time.Minute // a thousand partitions on a busy machine
	maxAnswer  = 256 << 20
)

var connOptions = rpc.Options{ClientID: clientID, Timeout: callLimit, MaxAnswer: maxAnswer}

// call sends one request, in its version, over a connection of its own and reads the answer.
func call(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error) {
	conn, err := rpc.Dial(ctx, addr, connOptions)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Request(ctx, req, req.GetVersion())
}

// CheckVersions returns an error when the broker lacks a version that the generator needs.
func CheckVersions(ctx context.Context, addr string) error {
	conn, err := rpc.Dial(ctx, addr, connOptions)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, want := range []struct {
		name         string
		key, version int16
	}{{"Produce", 0, produceVersion}, {"Fetch", 1, fetchVersion}, {"ListOffsets", 2, 6}, {"Metadata", 3, 9}} {
		if !conn.Has(want.key, want.version) {
			return fmt.Errorf("%s does not speak %s version %d, which Kafka has since 2.7", addr, want.name, want.version)
		}
	}
	return nil
}

// CreateTopic makes a topic and waits until all its partitions answer. It returns false when the topic was there already.
func CreateTopic(ctx context.Context, addr, topic string, partitions int32, config map[string]string) (bool, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, int32(callLimit.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, -1
	for k, v := range config {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	resp, err := call(ctx, addr, req)
	if err != nil {
		return false, err
	}
	answers := resp.(*kmsg.CreateTopicsResponse).Topics
	if len(answers) != 1 {
		return false, fmt.Errorf("%d answers to the creation of a topic", len(answers))
	}
	err = rpc.ErrorOf(answers[0].ErrorCode, answers[0].ErrorMessage, "topic "+topic+" cannot be created")
	made := err == nil
	if !made && rpc.Code(err) != protocol.TopicAlreadyExists {
		return false, err
	}
	return made, awaitTopic(ctx, addr, topic)
}

// DeleteTopic deletes a topic; one that is not there is fine.
func DeleteTopic(ctx context.Context, addr, topic string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 5, int32(callLimit.Milliseconds())
	req.TopicNames = []string{topic}
	resp, err := call(ctx, addr, req)
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.DeleteTopicsResponse).Topics {
		err := rpc.ErrorOf(t.ErrorCode, t.ErrorMessage, "topic "+topic+" cannot be deleted")
		if err != nil && rpc.Code(err) != protocol.UnknownTopicOrPartition {
			return err
		}
	}
	return nil
}

// awaitTopic waits until every partition has a leader that answers: a new topic of Kafka needs up to a second for that.
func awaitTopic(ctx context.Context, addr, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		leaders, err := leadersOf(ctx, addr, topic)
		if err == nil {
			_, err = offsetsOf(ctx, addr, topic, len(leaders), admin.Latest)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s is not ready: %w", topic, errors.Join(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

// cluster is a client for a few questions; to be closed.
func cluster(addr string) (*admin.Client, error) {
	return admin.New(client.Config{BootstrapServers: []string{addr}, ClientID: clientID, RequestTimeout: callLimit})
}

// leadersOf returns the address of each partition's leader.
func leadersOf(ctx context.Context, addr, topic string) ([]string, error) {
	c, err := cluster(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	topics, err := c.Topics(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	t := topics[topic]
	if t.Err != nil {
		return nil, t.Err
	}
	if n := slices.Index(t.Leaders, ""); n >= 0 {
		return nil, fmt.Errorf("partition %s-%d has no leader", topic, n)
	}
	if len(t.Leaders) == 0 {
		return nil, fmt.Errorf("topic %s has no partitions", topic)
	}
	return t.Leaders, nil
}

// offsetsOf asks for the first (admin.Earliest) or next (admin.Latest) offset of each of n partitions.
func offsetsOf(ctx context.Context, addr, topic string, n int, which int64) ([]int64, error) {
	c, err := cluster(addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var partitions []admin.Partition
	for i := range n {
		partitions = append(partitions, admin.Partition{Topic: topic, Index: int32(i)})
	}
	all, err := c.Offsets(ctx, partitions, which)
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, n)
	for i, p := range partitions {
		if err := all[p].Err; err != nil {
			return nil, fmt.Errorf("offsets of topic %s: %w", topic, err)
		}
		offsets[i] = all[p].Offset
	}
	return offsets, nil
}

// Partitions returns how many partitions a topic has; 0 without error when there is no such topic.
func Partitions(ctx context.Context, addr, topic string) (int, error) {
	leaders, err := leadersOf(ctx, addr, topic)
	if rpc.Code(err) == protocol.UnknownTopicOrPartition {
		return 0, nil
	}
	return len(leaders), err
}
