package broker

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// DescribeTopicPartitions (75), version 0: topics in order of name, page by page. The answer holds at most the requested number of partitions
// (and no more than max.request.partition.size.limit); the cursor says where the next page begins.

func handleDescribeTopicPartitions(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.DescribeTopicPartitionsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	if c := req.Cursor; c != nil && (c.Partition < 0 || len(req.Topics) > 0 && !slices.ContainsFunc(req.Topics, func(t kmsg.DescribeTopicPartitionsRequestTopic) bool { return t.Topic == c.Topic })) {
		for _, t := range req.Topics {
			a := kmsg.NewDescribeTopicPartitionsResponseTopic()
			a.Topic, a.ErrorCode, a.AuthorizedOperations = &t.Topic, int16(protocol.InvalidRequest), operationsNotWanted
			resp.Topics = append(resp.Topics, a)
		}
		return resp
	}
	image := b.meta.Image()
	left := min(int(max(req.ResponsePartitionLimit, 1)), b.settings().MaxPartitionsPerAnswer)
	for _, name := range topicPage(image, req) {
		first := 0
		if req.Cursor != nil && req.Cursor.Topic == name {
			first = int(req.Cursor.Partition)
		}
		if left == 0 {
			resp.NextCursor = nextCursor(name, first)
			return resp
		}
		a, described := b.describeTopicPage(image, name, first, left)
		resp.Topics = append(resp.Topics, a)
		left -= described
		if t := image.Topic(name); t != nil && first+described < len(t.Partitions) {
			resp.NextCursor = nextCursor(name, first+described)
			return resp
		}
	}
	return resp
}

// describeTopicPage describes at most limit partitions of a topic, from first on, and returns how many.
func (b *Broker) describeTopicPage(image *metadata.Image, name string, first, limit int) (a kmsg.DescribeTopicPartitionsResponseTopic, described int) {
	a = kmsg.NewDescribeTopicPartitionsResponseTopic()
	a.Topic, a.AuthorizedOperations = &name, topicOperations
	t := image.Topic(name)
	if t == nil {
		a.ErrorCode = int16(protocol.UnknownTopicOrPartition)
		if metadata.ValidateTopicName(name) != nil {
			a.ErrorCode = int16(protocol.InvalidTopicException)
		}
		if name == "" {
			a.AuthorizedOperations = operationsNotWanted
		}
		return a, 0
	}
	a.TopicID, a.IsInternal = t.ID, t.Internal
	for i := first; i < len(t.Partitions) && described < limit; i++ {
		a.Partitions = append(a.Partitions, b.describePartition(image, t, int32(i)))
		described++
	}
	return a, described
}

// topicPage returns the names to answer, sorted, from the cursor on.
func topicPage(image *metadata.Image, req *kmsg.DescribeTopicPartitionsRequest) []string {
	var names []string
	for _, t := range req.Topics {
		names = append(names, t.Topic)
	}
	if len(req.Topics) == 0 {
		for _, t := range image.Topics() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if req.Cursor != nil {
		names = slices.DeleteFunc(names, func(n string) bool { return cmp.Less(n, req.Cursor.Topic) })
	}
	return names
}

func nextCursor(topic string, partition int) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, int32(partition)
	return &c
}

func (b *Broker) describePartition(image *metadata.Image, t *metadata.Topic, index int32) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	p := &t.Partitions[index]
	d := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	d.Partition, d.LeaderID, d.LeaderEpoch, d.Replicas, d.ISR = index, p.Leader, p.LeaderEpoch, p.Replicas, p.ISR
	d.EligibleLeaderReplicas, d.OfflineReplicas = p.ELR, b.offline(image, t, index)
	d.LastKnownELR = []int32{}
	if d.EligibleLeaderReplicas == nil {
		d.EligibleLeaderReplicas = []int32{}
	}
	if n := image.Broker(p.Leader); n == nil || n.Fenced {
		d.LeaderID, d.ErrorCode = -1, int16(protocol.LeaderNotAvailable)
	}
	return d
}
