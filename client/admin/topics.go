package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// Errors of topics that a caller may want to live with.
var (
	ErrTopicExists = errors.New("the topic exists already")
	ErrNoTopic     = errors.New("there is no such topic")
)

// NewTopic is a topic to be made.
type NewTopic struct {
	Name              string
	Partitions        int32 // -1: as many as the broker's num.partitions
	ReplicationFactor int16 // -1: the broker's default.replication.factor
	Configs           map[string]string
}

// CreatedTopic is what became of a NewTopic. A broker older than Kafka 2.4 does not tell: the numbers are -1.
type CreatedTopic struct {
	ID                [16]byte // zero: the broker does not tell
	Partitions        int32
	ReplicationFactor int16
}

// CreateTopic makes a topic, or only asks whether that could be done. ErrTopicExists when there is one of that name.
func (c *Client) CreateTopic(ctx context.Context, t NewTopic, validateOnly bool) (made CreatedTopic, err error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.ValidateOnly, req.TimeoutMillis = validateOnly, timeoutOf(ctx)
	r := kmsg.NewCreateTopicsRequestTopic()
	r.Topic, r.NumPartitions, r.ReplicationFactor = t.Name, t.Partitions, t.ReplicationFactor
	for _, name := range slices.Sorted(maps.Keys(t.Configs)) {
		v := kmsg.NewCreateTopicsRequestTopicConfig()
		value := t.Configs[name]
		v.Name, v.Value = name, &value
		r.Configs = append(r.Configs, v)
	}
	req.Topics = append(req.Topics, r)
	err = c.change(ctx, "", req, func(resp kmsg.Response) error {
		for i := range resp.(*kmsg.CreateTopicsResponse).Topics {
			a := &resp.(*kmsg.CreateTopicsResponse).Topics[i]
			if a.Topic != t.Name {
				continue
			}
			if a.ErrorCode == int16(protocol.TopicAlreadyExists) {
				return ErrTopicExists
			}
			made = CreatedTopic{a.TopicID, a.NumPartitions, a.ReplicationFactor}
			return rpc.ErrorOf(a.ErrorCode, a.ErrorMessage, "topic "+t.Name)
		}
		return notTold(req, t.Name)
	})
	return made, err
}

// DeleteTopic deletes a topic with its data. ErrNoTopic when there is none.
func (c *Client) DeleteTopic(ctx context.Context, name string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = timeoutOf(ctx), []string{name}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	return c.change(ctx, "", req, func(resp kmsg.Response) error {
		for i := range resp.(*kmsg.DeleteTopicsResponse).Topics {
			if a := &resp.(*kmsg.DeleteTopicsResponse).Topics[i]; a.Topic != nil && *a.Topic == name {
				return topicError(a.ErrorCode, a.ErrorMessage, name)
			}
		}
		return notTold(req, name)
	})
}

// CreatePartitions makes a topic have count partitions. ErrNoTopic when there is none.
func (c *Client) CreatePartitions(ctx context.Context, name string, count int32) error {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = timeoutOf(ctx)
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = name, count
	req.Topics = append(req.Topics, t)
	return c.change(ctx, "", req, func(resp kmsg.Response) error {
		for i := range resp.(*kmsg.CreatePartitionsResponse).Topics {
			if a := &resp.(*kmsg.CreatePartitionsResponse).Topics[i]; a.Topic == name {
				return topicError(a.ErrorCode, a.ErrorMessage, name)
			}
		}
		return notTold(req, name)
	})
}

// TopicInfo is a topic as the cluster's metadata has it.
type TopicInfo struct {
	Name       string
	ID         [16]byte // zero: the broker does not tell
	Internal   bool
	Partitions []PartitionInfo // by number
}

// PartitionInfo is a partition as the cluster's metadata has it. Leader is -1 when there is none, LeaderEpoch when the broker does not tell.
type PartitionInfo struct {
	Index                  int32
	Leader, LeaderEpoch    int32
	Replicas, ISR, Offline []int32
}

// AllTopics are all topics, by name.
func (c *Client) AllTopics(ctx context.Context) ([]TopicInfo, error) {
	all, _, err := c.describeTopics(ctx, nil)
	return all, err
}

// DescribeTopics describes topics by name, in the order of the names. What cannot be described is in the map, ErrNoTopic for one that does not exist.
func (c *Client) DescribeTopics(ctx context.Context, names []string) ([]TopicInfo, map[string]error, error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	all, failed, err := c.describeTopics(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	at := map[string]int{}
	for i, name := range names {
		at[name] = i
		if failed[name] == nil && !slices.ContainsFunc(all, func(t TopicInfo) bool { return t.Name == name }) {
			failed[name] = ErrNoTopic
		}
	}
	slices.SortFunc(all, func(a, b TopicInfo) int { return cmp.Compare(at[a.Name], at[b.Name]) })
	return all, failed, nil
}

// describeTopics asks about topics; nil is all.
func (c *Client) describeTopics(ctx context.Context, names []string) (all []TopicInfo, failed map[string]error, err error) {
	m, err := c.metadata(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	failed = map[string]error{}
	for i := range m.Topics {
		t := &m.Topics[i]
		if t.Topic == nil {
			continue
		}
		if err := topicError(t.ErrorCode, nil, *t.Topic); err != nil {
			failed[*t.Topic] = err
			continue
		}
		all = append(all, topicInfo(t))
	}
	slices.SortFunc(all, func(a, b TopicInfo) int { return strings.Compare(a.Name, b.Name) })
	return all, failed, nil
}

func topicInfo(t *kmsg.MetadataResponseTopic) TopicInfo {
	info := TopicInfo{Name: *t.Topic, ID: t.TopicID, Internal: t.IsInternal}
	for i := range t.Partitions {
		p := &t.Partitions[i]
		info.Partitions = append(info.Partitions, PartitionInfo{p.Partition, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR, p.OfflineReplicas})
	}
	slices.SortFunc(info.Partitions, func(a, b PartitionInfo) int { return cmp.Compare(a.Index, b.Index) })
	return info
}

// change asks a broker to change something; "" is any. It is asked again when the broker says that it could not yet, and not when no answer came: nobody knows then
// whether it was done.
func (c *Client) change(ctx context.Context, addr string, req kmsg.Request, read func(kmsg.Response) error) error {
	var lost error
	err := retry(ctx, func() error {
		resp, err := c.ask(ctx, addr, req, -1)
		if _, ok := errors.AsType[*rpc.LostError](err); ok {
			lost = fmt.Errorf("%w; whether %s was done is not known", err, kmsg.NameForKey(req.Key()))
			return nil
		}
		if err != nil {
			return err
		}
		return read(resp)
	})
	if lost != nil {
		return lost
	}
	return err
}

func topicError(code int16, message *string, name string) error {
	if code == int16(protocol.UnknownTopicOrPartition) {
		return ErrNoTopic
	}
	return rpc.ErrorOf(code, message, "topic "+name)
}

// notTold is an answer that does not speak of what was asked.
func notTold(req kmsg.Request, name string) error {
	return fmt.Errorf("the answer to %s does not speak of %s", kmsg.NameForKey(req.Key()), name)
}

// timeoutOf is how long a broker may take: what is left, less a little for the way back.
func timeoutOf(ctx context.Context) int32 {
	d := rpc.DefaultTimeout
	if deadline, ok := ctx.Deadline(); ok {
		d = min(d, time.Until(deadline)*9/10)
	}
	return int32(max(d.Milliseconds(), 1))
}
