package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
)

// Code is an error code of the protocol that came where none was expected.
type Code int16

// Error codes that mean something to the generator.
const (
	unknownTopic Code = 3
	topicExists  Code = 36
)

func (c Code) Error() string { return "the broker answered with error code " + strconv.Itoa(int(c)) }

func codeError(code int16) error {
	if code == 0 {
		return nil
	}
	return Code(code)
}

const (
	callLimit  = 60 * time.Second
	readyLimit = 2 * time.Minute // a thousand partitions on a busy machine
	maxAnswer  = 256 << 20
)

// call sends one request, in its version, over a connection of its own and reads the answer.
func call(ctx context.Context, addr string, req kmsg.Request) (kmsg.Response, error) {
	conn, err := rpc.Dial(ctx, addr, rpc.Options{ClientID: clientID, Timeout: callLimit, MaxAnswer: maxAnswer})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Request(ctx, req, req.GetVersion())
}

// CheckVersions returns an error when the broker lacks a version that the generator needs.
func CheckVersions(ctx context.Context, addr string) error {
	conn, err := rpc.Dial(ctx, addr, rpc.Options{ClientID: clientID, Timeout: callLimit})
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
	made := true
	if code := Code(answers[0].ErrorCode); code == topicExists {
		made = false
	} else if code != 0 {
		text := ""
		if answers[0].ErrorMessage != nil {
			text = ": " + *answers[0].ErrorMessage
		}
		return false, fmt.Errorf("topic %s cannot be created: %w%s", topic, code, text)
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
		if code := Code(t.ErrorCode); code != 0 && code != unknownTopic {
			return fmt.Errorf("topic %s cannot be deleted: %w", topic, code)
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
			_, err = offsetsOf(ctx, leaders, topic, latest)
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

// leadersOf returns the address of each partition's leader.
func leadersOf(ctx context.Context, addr, topic string) ([]string, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, false
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := call(ctx, addr, req)
	if err != nil {
		return nil, err
	}
	m := resp.(*kmsg.MetadataResponse)
	if len(m.Topics) != 1 {
		return nil, fmt.Errorf("metadata of %d topics instead of one", len(m.Topics))
	}
	if err := codeError(m.Topics[0].ErrorCode); err != nil {
		return nil, fmt.Errorf("topic %s: %w", topic, err)
	}
	brokers := map[int32]string{}
	for _, b := range m.Brokers {
		brokers[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	leaders := make([]string, len(m.Topics[0].Partitions))
	for _, p := range m.Topics[0].Partitions {
		leader, ok := brokers[p.Leader]
		if !ok || p.Partition < 0 || int(p.Partition) >= len(leaders) {
			return nil, fmt.Errorf("partition %s-%d has no leader", topic, p.Partition)
		}
		leaders[p.Partition] = leader
	}
	if slices.Contains(leaders, "") || len(leaders) == 0 {
		return nil, fmt.Errorf("topic %s: the metadata lacks partitions", topic)
	}
	return leaders, nil
}

// Timestamps with a meaning in ListOffsets.
const (
	latest   = -1
	earliest = -2
)

// offsetsOf asks the leaders for the first or next offset of each partition.
func offsetsOf(ctx context.Context, leaders []string, topic string, timestamp int64) ([]int64, error) {
	offsets := make([]int64, len(leaders))
	byLeader := map[string]*kmsg.ListOffsetsRequest{}
	for i, leader := range leaders {
		req := byLeader[leader]
		if req == nil {
			req = kmsg.NewPtrListOffsetsRequest()
			req.Version, req.ReplicaID = 6, -1
			t := kmsg.NewListOffsetsRequestTopic()
			t.Topic = topic
			req.Topics = append(req.Topics, t)
			byLeader[leader] = req
		}
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.Timestamp = int32(i), -1, timestamp
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	for leader, req := range byLeader {
		resp, err := call(ctx, leader, req)
		if err != nil {
			return nil, err
		}
		answers := resp.(*kmsg.ListOffsetsResponse).Topics
		if len(answers) != 1 || len(answers[0].Partitions) != len(req.Topics[0].Partitions) {
			return nil, fmt.Errorf("the offsets of topic %s are not complete", topic)
		}
		for _, p := range answers[0].Partitions {
			if err := codeError(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("offsets of %s-%d: %w", topic, p.Partition, err)
			}
			if p.Partition < 0 || int(p.Partition) >= len(offsets) {
				return nil, fmt.Errorf("offsets of %s-%d, which was not asked for", topic, p.Partition)
			}
			offsets[p.Partition] = p.Offset
		}
	}
	return offsets, nil
}

// Partitions returns how many partitions a topic has; 0 without error when there is no such topic.
func Partitions(ctx context.Context, addr, topic string) (int, error) {
	leaders, err := leadersOf(ctx, addr, topic)
	if code, ok := errors.AsType[Code](err); ok && code == unknownTopic {
		return 0, nil
	}
	return len(leaders), err
}
