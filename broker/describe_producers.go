package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/replication"
)

// DescribeProducers (61), version 0: the idempotent producers a partition remembers.

func handleDescribeProducers(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.DescribeProducersRequest)
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	var asked perPartition[struct{}] // a partition that is named twice is answered once
	for _, t := range req.Topics {
		for _, index := range t.Partitions {
			asked.at(t.Topic, index)
		}
	}
	for _, t := range asked.topics {
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = t.name
		for _, p := range t.partitions {
			rt.Partitions = append(rt.Partitions, b.describeProducers(t.name, p.index))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (b *Broker) describeProducers(topic string, index int32) kmsg.DescribeProducersResponseTopicPartition {
	a := kmsg.NewDescribeProducersResponseTopicPartition()
	a.Partition = index
	if err := metadata.ValidateTopicName(topic); err != nil {
		a.ErrorCode, a.ErrorMessage = int16(codeOf(err)), message(err)
		return a
	}
	p := b.repl.Partition(topic, index)
	if p == nil {
		a.ErrorCode, a.ErrorMessage = int16(protocol.UnknownTopicOrPartition), message(replication.ErrUnknownTopic)
		return a
	}
	if err := p.Check(-1); err != nil {
		a.ErrorCode, a.ErrorMessage = int16(codeOf(err)), message(err)
		return a
	}
	for _, s := range p.Log().Producers() {
		d := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		d.ProducerID, d.ProducerEpoch, d.LastSequence = s.ProducerID, int32(s.Epoch), s.LastSequence
		d.LastTimestamp, d.CoordinatorEpoch, d.CurrentTxnStartOffset = s.LastTimestampMs, s.CoordinatorEpoch, s.CurrentTxnStartOffset
		a.ActiveProducers = append(a.ActiveProducers, d)
	}
	return a
}
