package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/metadata"
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
	answered := map[deletedKey]int{}
	for i := range results {
		if refs[i] == (metadata.TopicRef{}) && len(req.Topics) > 0 && req.Topics[i].Topic == nil {
			results[i].Err = &metadata.Error{Kind: metadata.InvalidRequest, Msg: "a topic is named by its name or its id"}
			resp.Topics = append(resp.Topics, refusedTopic(&results[i]))
			continue
		}
		t := deletedTopic(refs[i], &results[i])
		key := deletedKey{results[i].Name, results[i].ID}
		if at, twice := answered[key]; twice { // refused, and answered once: with what all of them said
			resp.Topics[at] = named(refs[i], &results[i], resp.Topics[at])
			continue
		}
		answered[key] = len(resp.Topics)
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// deletedKey is a topic as the metadata resolved it.
type deletedKey struct {
	name string
	id   [16]byte
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

// deletedTopic answers one topic. An error names the topic as the request did; a deleted topic has name and id.
func deletedTopic(ref metadata.TopicRef, res *metadata.TopicResult) kmsg.DeleteTopicsResponseTopic {
	if res.Err == nil {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID = &res.Name, res.ID
		return t
	}
	return named(ref, res, refusedTopic(res))
}

// refusedTopic answers an error, without naming the topic.
func refusedTopic(res *metadata.TopicResult) kmsg.DeleteTopicsResponseTopic {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.ErrorCode, t.ErrorMessage = int16(codeOf(res.Err)), message(res.Err)
	return t
}

// named adds to an answer how the request named the topic.
func named(ref metadata.TopicRef, res *metadata.TopicResult, t kmsg.DeleteTopicsResponseTopic) kmsg.DeleteTopicsResponseTopic {
	if ref.ID != [16]byte{} {
		t.TopicID = ref.ID
	}
	if ref.Name != "" || ref.ID == [16]byte{} {
		t.Topic = &res.Name
	}
	return t
}
