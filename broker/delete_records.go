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
	var asked perPartition[int64] // a partition that is named twice counts with its last offset
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			*asked.at(t.Topic, p.Partition) = p.Offset
		}
	}
	for _, t := range asked.topics {
		rt := kmsg.NewDeleteRecordsResponseTopic()
		rt.Topic = t.name
		for _, p := range t.partitions {
			rp := kmsg.NewDeleteRecordsResponseTopicPartition()
			rp.Partition = p.index
			low, code := b.deleteRecords(t.name, p.index, *p.value)
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
