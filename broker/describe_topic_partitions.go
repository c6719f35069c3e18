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
	image := b.meta.Image()
	names := topicPage(image, req)
	left := min(int(max(req.ResponsePartitionLimit, 1)), b.settings().MaxPartitionsPerAnswer)
	for _, name := range names {
		first := int32(0)
		if req.Cursor != nil && req.Cursor.Topic == name {
			first = max(req.Cursor.Partition, 0)
		}
		t := image.Topic(name)
		if left == 0 && t != nil {
			resp.NextCursor = nextCursor(name, first)
			return resp
		}
		a := kmsg.NewDescribeTopicPartitionsResponseTopic()
		a.Topic, a.AuthorizedOperations = &name, operationsNotWanted
		if t == nil {
			a.ErrorCode = int16(protocol.UnknownTopicOrPartition)
			if metadata.ValidateTopicName(name) != nil {
				a.ErrorCode = int16(protocol.InvalidTopicException)
			}
			resp.Topics = append(resp.Topics, a)
			continue
		}
		a.TopicID, a.IsInternal, a.AuthorizedOperations = t.ID, t.Internal, topicOperations
		for i := int(first); i < len(t.Partitions) && left > 0; i++ {
			a.Partitions = append(a.Partitions, b.describePartition(image, t, int32(i)))
			left--
			first = int32(i) + 1
		}
		resp.Topics = append(resp.Topics, a)
		if int(first) < len(t.Partitions) {
			resp.NextCursor = nextCursor(name, first)
			return resp
		}
	}
	return resp
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

func nextCursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
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
