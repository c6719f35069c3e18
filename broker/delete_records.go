package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// DeleteRecords (21), versions 0-2: raise the log start offset, to the high watermark for -1. The new start is durable before the answer, which
// carries it as the low watermark. A topic whose cleanup.policy has no "delete" refuses (POLICY_VIOLATION).

func handleDeleteRecords(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.DeleteRecordsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewDeleteRecordsResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewDeleteRecordsResponseTopicPartition()
			rp.Partition = p.Partition
			low, code := b.deleteRecords(t.Topic, p.Partition, p.Offset)
			rp.LowWatermark, rp.ErrorCode = low, int16(code)
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (b *Broker) deleteRecords(topic string, index int32, offset int64) (int64, protocol.Code) {
	p := b.repl.Partition(topic, index)
	if p == nil {
		return -1, protocol.UnknownTopicOrPartition
	}
	if err := p.Check(-1); err != nil {
		return -1, codeOf(err)
	}
	if offset < -1 {
		return -1, protocol.OffsetOutOfRange
	}
	low, err := p.Log().DeleteRecords(offset)
	if err != nil {
		return -1, codeOf(err)
	}
	return low, protocol.None
}
