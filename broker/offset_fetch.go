package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// OffsetFetch (9), versions 1-10: where groups are in their partitions: those that are asked for, or all (null, v2+).
//
// Version notes: v1 has errors of partitions only; one group up to v7, many from v8 on; v5 leader epochs; v7 require_stable (nothing is ever unstable: there
// are no transactions); v9 member and epoch, which classic groups do not look at; v10 topics by id.

// offsetFetchMax bounds the metadata strings of one answer: a short request may name a partition often.
const offsetFetchMax = 64 << 20

func startOffsetFetch(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.OffsetFetchRequest](b, r)
	if !ok {
		return
	}
	asked := req.Groups
	if req.Version < 8 {
		asked = []kmsg.OffsetFetchRequestGroup{groupOfOldFetch(req)}
	}
	answers := make([]kmsg.OffsetFetchResponseGroup, len(asked))
	all := newGather(len(asked), func() { r.reply(fetchAnswer(req, answers)) })
	image, budget := b.meta.Image(), group.NewBudget(offsetFetchMax)
	for i := range asked {
		q, a := &asked[i], &answers[i]
		unknown := nameTopics(image, req.Version, q)
		done := ticket(func(body any) {
			*a = *body.(*kmsg.OffsetFetchResponseGroup)
			a.Topics = append(a.Topics, unknown...)
			all.one()
		})
		b.groups.do(q.Group, func(s *group.Shard, now int64, out *machine.Out) { s.Fetch(now, q, budget, done, out) },
			func(code protocol.Code) { done(group.RefuseFetch(q, code)) })
	}
	all.one()
}

// groupOfOldFetch is the one group that a request up to version 7 is about.
func groupOfOldFetch(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics == nil {
		return g
	}
	g.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(req.Topics))
	for i := range req.Topics {
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
		g.Topics = append(g.Topics, t)
	}
	return g
}

// nameTopics finds the names of topics that are asked for by id, and answers those that nobody has.
func nameTopics(image *metadata.Image, version int16, q *kmsg.OffsetFetchRequestGroup) (unknown []kmsg.OffsetFetchResponseGroupTopic) {
	if version < 10 || q.Topics == nil {
		return nil
	}
	known := make([]kmsg.OffsetFetchRequestGroupTopic, 0, len(q.Topics))
	for _, t := range q.Topics {
		if topic := image.TopicByID(t.TopicID); topic != nil {
			t.Topic = topic.Name
			known = append(known, t)
			continue
		}
		unknown = append(unknown, group.RefuseFetchTopic(&t, protocol.UnknownTopicID))
	}
	q.Topics = known
	return unknown
}

// fetchAnswer is the answer in the form of the request's version.
func fetchAnswer(req *kmsg.OffsetFetchRequest, answers []kmsg.OffsetFetchResponseGroup) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	if req.Version >= 8 {
		resp.Groups = answers
		return resp
	}
	resp.ErrorCode = answers[0].ErrorCode
	for i := range answers[0].Topics {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = answers[0].Topics[i].Topic
		for _, p := range answers[0].Topics[i].Partitions {
			a := kmsg.NewOffsetFetchResponseTopicPartition()
			a.Partition, a.Offset, a.LeaderEpoch, a.Metadata, a.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			t.Partitions = append(t.Partitions, a)
		}
		resp.Topics = append(resp.Topics, t)
	}
	if resp.ErrorCode != 0 && req.Version < 2 {
		resp.Topics = nil
		for i := range req.Topics {
			t := kmsg.NewOffsetFetchResponseTopic()
			t.Topic = req.Topics[i].Topic
			for _, p := range req.Topics[i].Partitions {
				a := kmsg.NewOffsetFetchResponseTopicPartition()
				empty := ""
				a.Partition, a.Offset, a.LeaderEpoch, a.Metadata, a.ErrorCode = p, -1, -1, &empty, resp.ErrorCode
				t.Partitions = append(t.Partitions, a)
			}
			resp.Topics = append(resp.Topics, t)
		}
	}
	return resp
}
