package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// OffsetDelete (47), version 0: committed offsets of a group go, but for those of topics that its members subscribe to.

func startOffsetDelete(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.OffsetDeleteRequest](b, r)
	if !ok {
		return
	}
	resp := kmsg.NewPtrOffsetDeleteResponse()
	if req.Group == "" {
		resp.ErrorCode = int16(protocol.InvalidGroupID)
		r.reply(resp)
		return
	}
	asked := *req
	asked.Topics = nil
	image := b.meta.Image()
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := image.Topic(t.Topic)
		good, refused := kmsg.NewOffsetDeleteRequestTopic(), kmsg.NewOffsetDeleteResponseTopic()
		good.Topic, refused.Topic = t.Topic, t.Topic
		for _, p := range t.Partitions {
			if topic != nil && p.Partition >= 0 && int(p.Partition) < len(topic.Partitions) {
				good.Partitions = append(good.Partitions, p)
				continue
			}
			a := kmsg.NewOffsetDeleteResponseTopicPartition()
			a.Partition, a.ErrorCode = p.Partition, int16(protocol.UnknownTopicOrPartition)
			refused.Partitions = append(refused.Partitions, a)
		}
		if len(refused.Partitions) > 0 {
			resp.Topics = append(resp.Topics, refused)
		}
		if len(good.Partitions) > 0 {
			asked.Topics = append(asked.Topics, good)
		}
	}
	answer := ticket(func(body any) {
		a := body.(*kmsg.OffsetDeleteResponse)
		if a.ErrorCode == 0 {
			a.Topics = append(resp.Topics, a.Topics...)
		}
		r.reply(a)
	})
	b.groups.do(req.Group, func(s *group.Shard, now int64, out *machine.Out) { s.DeleteOffsets(now, &asked, answer, out) }, func(code protocol.Code) {
		a := kmsg.NewPtrOffsetDeleteResponse()
		a.ErrorCode = int16(code)
		answer(a)
	})
}
