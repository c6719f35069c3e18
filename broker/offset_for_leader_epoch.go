package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// OffsetForLeaderEpoch (23), versions 2-4: where a leader epoch ends in this log, so that a client (or follower) finds out whether what it read
// still exists (KIP-101, KIP-320). An epoch the log does not have answers the largest one below it; none at all: -1, -1.

func handleOffsetForLeaderEpoch(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, -1, -1
			rp.ErrorCode = int16(b.endOfEpoch(t.Topic, &p, &rp))
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (b *Broker) endOfEpoch(topic string, q *kmsg.OffsetForLeaderEpochRequestTopicPartition, a *kmsg.OffsetForLeaderEpochResponseTopicPartition) protocol.Code {
	p := b.repl.Partition(topic, q.Partition)
	if p == nil {
		return protocol.UnknownTopicOrPartition
	}
	if err := p.Check(q.CurrentLeaderEpoch); err != nil {
		return codeOf(err)
	}
	a.LeaderEpoch, a.EndOffset = p.Log().EndOffsetForEpoch(q.LeaderEpoch)
	return protocol.None
}
