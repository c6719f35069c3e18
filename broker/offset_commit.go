package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// OffsetCommit (8), versions 2-10: where a group is in its partitions. The answer comes when that is durable.
//
// Version notes: a retention time of its own up to v4; v6 leader epochs; v7 static members; v9 GROUP_ID_NOT_FOUND instead of ILLEGAL_GENERATION when there is no
// such group; v10 topics by id.
//
// Partitions that do not exist are refused here; the group hears of the others only.

func startOffsetCommit(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.OffsetCommitRequest](b, r)
	if !ok {
		return
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	known := make([]kmsg.OffsetCommitRequestTopic, 0, len(req.Topics))
	image := b.meta.Image()
	for i := range req.Topics {
		t := &req.Topics[i]
		good, refused := splitCommit(image, req.Version, t)
		if len(refused.Partitions) > 0 || len(t.Partitions) == 0 && good.Topic == "" { // what is asked about is named, whatever is asked
			resp.Topics = append(resp.Topics, refused)
		}
		if len(good.Partitions) > 0 {
			known = append(known, good)
		}
	}
	if len(known) == 0 {
		r.reply(resp)
		return
	}
	asked := *req
	asked.Topics = known
	answer := ticket(func(body any) {
		mergeCommits(resp, body.(*kmsg.OffsetCommitResponse), req.Version)
		r.reply(resp)
	})
	b.groups.do(req.Group, func(s *group.Shard, now int64, out *machine.Out) { s.Commit(now, &asked, answer, out) },
		func(code protocol.Code) { answer(group.RefuseCommit(&asked, code)) })
}

// splitCommit sorts the partitions of a topic into those that are there and those that are not.
func splitCommit(image *metadata.Image, version int16, t *kmsg.OffsetCommitRequestTopic) (good kmsg.OffsetCommitRequestTopic, refused kmsg.OffsetCommitResponseTopic) {
	refused = kmsg.NewOffsetCommitResponseTopic()
	refused.Topic, refused.TopicID = t.Topic, t.TopicID
	topic, missing := image.Topic(t.Topic), protocol.UnknownTopicOrPartition
	if version >= 10 {
		topic, missing = image.TopicByID(t.TopicID), protocol.UnknownTopicID
	}
	if topic != nil {
		missing = protocol.UnknownTopicOrPartition
		good = kmsg.NewOffsetCommitRequestTopic()
		good.Topic, good.TopicID = topic.Name, topic.ID
	}
	exists := func(p kmsg.OffsetCommitRequestTopicPartition) bool {
		return topic != nil && p.Partition >= 0 && int(p.Partition) < len(topic.Partitions)
	}
	if i := slices.IndexFunc(t.Partitions, func(p kmsg.OffsetCommitRequestTopicPartition) bool { return !exists(p) }); i < 0 {
		good.Partitions = t.Partitions // nearly always
		return good, refused
	}
	for _, p := range t.Partitions {
		if exists(p) {
			good.Partitions = append(good.Partitions, p)
			continue
		}
		a := kmsg.NewOffsetCommitResponseTopicPartition()
		a.Partition, a.ErrorCode = p.Partition, int16(missing)
		refused.Partitions = append(refused.Partitions, a)
	}
	return good, refused
}

// mergeCommits adds the group's answer to what was refused before: one entry for a topic.
func mergeCommits(resp, more *kmsg.OffsetCommitResponse, version int16) {
	if len(resp.Topics) == 0 {
		resp.Topics = more.Topics
		return
	}
	type key struct {
		name string
		id   [16]byte
	}
	keyOf := func(t *kmsg.OffsetCommitResponseTopic) key {
		if version >= 10 {
			return key{id: t.TopicID}
		}
		return key{name: t.Topic}
	}
	at := map[key]int{}
	for i := range resp.Topics {
		at[keyOf(&resp.Topics[i])] = i
	}
	for i := range more.Topics {
		t := &more.Topics[i]
		if n, ok := at[keyOf(t)]; ok {
			resp.Topics[n].Partitions = append(resp.Topics[n].Partitions, t.Partitions...)
		} else {
			resp.Topics = append(resp.Topics, *t)
		}
	}
}
