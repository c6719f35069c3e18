package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/replication"
)

// ListOffsets (2), versions 1-11: the offset of a timestamp, or of one of the negative sentinels. Timestamps are found at record granularity
// below the high watermark (read_uncommitted) or the last stable offset. Without tiered storage -4 is the log start and -5, -6 name nothing.

const (
	latestTimestamp       = -1
	earliestTimestamp     = -2
	maxTimestamp          = -3 // v7+
	earliestLocal         = -4 // v8+
	latestTiered          = -5 // v9+
	earliestPendingUpload = -6 // v11+
)

// sentinelVersion is the first version that knows a sentinel.
var sentinelVersion = map[int64]int16{
	latestTimestamp: 1, earliestTimestamp: 1, maxTimestamp: 7, earliestLocal: 8, latestTiered: 9, earliestPendingUpload: 11,
}

func handleListOffsets(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	var asked perPartition[[]kmsg.ListOffsetsRequestTopicPartition]
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			questions := asked.at(t.Topic, p.Partition)
			*questions = append(*questions, p)
		}
	}
	for _, t := range asked.topics {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = t.name
		for _, p := range t.partitions {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset, rp.Timestamp, rp.LeaderEpoch = p.index, -1, -1, -1
			if questions := *p.value; len(questions) > 1 {
				rp.ErrorCode = int16(protocol.InvalidRequest)
			} else {
				b.listOffset(req, t.name, &questions[0], &rp)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func (b *Broker) listOffset(req *kmsg.ListOffsetsRequest, topic string, q *kmsg.ListOffsetsRequestTopicPartition, a *kmsg.ListOffsetsResponseTopicPartition) {
	if first, ok := sentinelVersion[q.Timestamp]; q.Timestamp < 0 && (!ok || req.Version < first) {
		a.ErrorCode = int16(protocol.UnsupportedVersion)
		return
	}
	p := b.repl.Partition(topic, q.Partition)
	if p == nil {
		a.ErrorCode = int16(protocol.UnknownTopicOrPartition)
		return
	}
	if err := p.Check(q.CurrentLeaderEpoch); err != nil {
		a.ErrorCode = int16(codeOf(err))
		return
	}
	end := p.HighWatermark()
	if req.IsolationLevel == 1 {
		end = p.LastStable()
	}
	if err := lookupOffset(p, q.Timestamp, end, a); err != nil {
		a.ErrorCode = int16(codeOf(err))
	}
}

func lookupOffset(p *replication.Partition, ts, end int64, a *kmsg.ListOffsetsResponseTopicPartition) error {
	var (
		found bool
		err   error
	)
	switch ts {
	case latestTimestamp:
		a.Offset, a.LeaderEpoch = end, p.LeaderEpoch()
	case earliestTimestamp, earliestLocal:
		a.Offset = p.LogStart()
		a.LeaderEpoch = p.Log().EpochAt(a.Offset)
	case latestTiered, earliestPendingUpload:
	case maxTimestamp:
		a.Offset, a.Timestamp, a.LeaderEpoch, found, err = p.Log().MaxTimestampOffset(end)
		if !found {
			a.Offset, a.Timestamp, a.LeaderEpoch = -1, -1, -1
		}
	default:
		a.Offset, a.Timestamp, a.LeaderEpoch, found, err = p.Log().OffsetForTimestamp(ts, end)
		if !found {
			a.Offset, a.Timestamp, a.LeaderEpoch = -1, -1, -1
		}
	}
	return err
}
