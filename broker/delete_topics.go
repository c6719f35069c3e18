package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// DeleteTopics (20), versions 1-6, by name and from v6 also by id. The topic is gone from metadata, durably, before the answer; its files go in
// the background after file.delete.delay.ms.

func handleDeleteTopics(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.DeleteTopicsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	ctx, cancel := b.timeout(req.TimeoutMillis)
	defer cancel()
	refs := topicRefs(req)
	results, err := b.meta.DeleteTopics(ctx, refs)
	if err != nil {
		results = results[:0]
		for _, ref := range refs {
			results = append(results, metadata.TopicResult{Name: ref.Name, ID: ref.ID, Err: asMetadataError(err)})
		}
	}
	for i := range results {
		resp.Topics = append(resp.Topics, deletedTopic(&results[i], req.Version))
	}
	return resp
}

func topicRefs(req *kmsg.DeleteTopicsRequest) []metadata.TopicRef {
	var refs []metadata.TopicRef
	for _, name := range req.TopicNames {
		refs = append(refs, metadata.TopicRef{Name: name})
	}
	for _, t := range req.Topics {
		ref := metadata.TopicRef{ID: t.TopicID}
		if t.Topic != nil {
			ref.Name = *t.Topic
		}
		refs = append(refs, ref)
	}
	return refs
}

func deletedTopic(res *metadata.TopicResult, version int16) kmsg.DeleteTopicsResponseTopic {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.TopicID = res.ID
	if res.Name != "" || version < 6 {
		t.Topic = &res.Name
	}
	if res.Err != nil {
		t.ErrorCode, t.ErrorMessage = int16(codeOf(res.Err)), message(res.Err)
		if protocol.Code(t.ErrorCode) == protocol.UnknownTopicID {
			t.Topic = nil
		}
	}
	return t
}
