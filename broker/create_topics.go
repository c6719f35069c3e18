package broker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// CreateTopics (19), versions 2-7. The answer comes when the topic is in the metadata log, durably, and its partitions take appends here: a
// Produce that follows at once finds them. v5 answers the effective configuration, v7 the topic id.

func handleCreateTopics(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.CreateTopicsRequest)
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	ctx, cancel := b.timeout(req.TimeoutMillis)
	defer cancel()
	specs := make([]metadata.TopicSpec, 0, len(req.Topics))
	for i := range req.Topics {
		specs = append(specs, topicSpec(&req.Topics[i]))
	}
	results, err := b.createTopics(ctx, metadata.CreateTopicsRequest{Topics: specs, ValidateOnly: req.ValidateOnly})
	if err != nil {
		results = failAll(specs, err)
	}
	answered := map[string]bool{} // a topic that is named twice is refused, and answered once
	for i := range results {
		if name := results[i].Name; !answered[name] {
			answered[name] = true
			resp.Topics = append(resp.Topics, b.createdTopic(&results[i], err))
		}
	}
	return resp
}

// createTopics makes topics if there is room for their partitions. A record in the metadata log cannot be taken back when the directories it asks for turn
// out not to fit, so a full disk is looked for before.
func (b *Broker) createTopics(ctx context.Context, change metadata.CreateTopicsRequest) ([]metadata.TopicResult, error) {
	partitions := 0
	for i := range change.Topics {
		t := &change.Topics[i]
		partitions += max(int(t.Partitions), len(t.Assignment), 1)
	}
	if !change.ValidateOnly {
		if err := b.room(partitions); err != nil {
			return nil, err
		}
	}
	return b.meta.CreateTopics(ctx, change)
}

const (
	newPartitionBytes = 16 << 10 // what a partition takes on disk before its first record: a directory and small files
	roomPartitionsMax = 10_000   // for more, which may be nonsense, no more room is asked
)

// room says whether new partitions find space on disk.
func (b *Broker) room(partitions int) error {
	if err := b.engine.Room(int64(min(partitions, roomPartitionsMax)) * newPartitionBytes); err != nil {
		return &metadata.Error{Kind: metadata.Unavailable, Msg: "No partition can be created: " + err.Error()}
	}
	return nil
}

func topicSpec(t *kmsg.CreateTopicsRequestTopic) metadata.TopicSpec {
	spec := metadata.TopicSpec{Name: t.Topic, Partitions: t.NumPartitions, ReplicationFactor: t.ReplicationFactor}
	for _, a := range t.ReplicaAssignment {
		spec.Assignment = append(spec.Assignment, metadata.ReplicaAssignment{Partition: a.Partition, Replicas: a.Replicas})
	}
	for _, c := range t.Configs {
		spec.Config = append(spec.Config, configEntry(c.Name, c.Value))
	}
	return spec
}

func configEntry(name string, value *string) metadata.ConfigEntry {
	if value == nil {
		return metadata.ConfigEntry{Name: name, Null: true}
	}
	return metadata.ConfigEntry{Name: name, Value: *value}
}

// failAll is what every topic of a request gets when the request as a whole failed.
func failAll(specs []metadata.TopicSpec, err error) []metadata.TopicResult {
	results := make([]metadata.TopicResult, 0, len(specs))
	for i := range specs {
		results = append(results, metadata.TopicResult{Name: specs[i].Name, Err: asMetadataError(err)})
	}
	return results
}

// asMetadataError makes any failure of a metadata call one that has a kind. A deadline that passed is Busy, which clients retry.
func asMetadataError(err error) *metadata.Error {
	if e, ok := err.(*metadata.Error); ok {
		return e
	}
	return &metadata.Error{Kind: metadata.Busy, Msg: "the metadata change was not committed in time: " + err.Error()}
}

func (b *Broker) createdTopic(res *metadata.TopicResult, whole error) kmsg.CreateTopicsResponseTopic {
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic = res.Name
	if res.Err != nil {
		t.ErrorCode, t.ErrorMessage = int16(codeOf(res.Err)), message(res.Err)
		t.NumPartitions, t.ReplicationFactor = -1, -1
		if whole == nil {
			t.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		}
		return t
	}
	t.TopicID, t.NumPartitions, t.ReplicationFactor = res.ID, res.Partitions, res.ReplicationFactor
	values, err := b.config.EffectiveTopic(res.Config)
	if err != nil {
		b.log.Error("a created topic's configuration cannot be read back", "topic", res.Name, "error", err)
		t.ConfigErrorCode = int16(protocol.UnknownServerError)
		return t
	}
	for i := range values {
		t.Configs = append(t.Configs, createdConfig(&values[i]))
	}
	return t
}

func createdConfig(v *config.Value) kmsg.CreateTopicsResponseTopicConfig {
	c := kmsg.NewCreateTopicsResponseTopicConfig()
	c.Name, c.Source, c.IsSensitive = v.Key.Name, v.Source.KafkaCode(), v.Key.Sensitive
	if !v.Null && !v.Key.Sensitive {
		c.Value = &v.Value
	}
	return c
}

// timeout bounds a metadata change by the request's own timeout, and by the broker's life.
func (b *Broker) timeout(timeoutMs int32) (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.ctx, min(max(time.Duration(timeoutMs)*time.Millisecond, minChangeTimeout), maxChangeTimeout))
}
