package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/metadata"
)

// CreatePartitions (37), versions 0-3: a topic gets more partitions; the new ones take appends before the answer.

func handleCreatePartitions(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.CreatePartitionsRequest)
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	ctx, cancel := b.timeout(req.TimeoutMillis)
	defer cancel()
	change := metadata.CreatePartitionsRequest{ValidateOnly: req.ValidateOnly}
	for _, t := range req.Topics {
		spec := metadata.PartitionsSpec{Topic: t.Topic, Count: t.Count}
		if t.Assignment != nil { // an empty list is one that is too short
			spec.Assignment = [][]int32{}
		}
		for _, a := range t.Assignment {
			spec.Assignment = append(spec.Assignment, a.Replicas)
		}
		change.Topics = append(change.Topics, spec)
	}
	var results []metadata.TopicResult
	var err error
	if !req.ValidateOnly {
		err = b.room(len(req.Topics)) // how many are new, only the plan knows; those that exist are not counted twice
	}
	if err == nil {
		results, err = b.meta.CreatePartitions(ctx, change)
	}
	if err != nil {
		results = results[:0]
		for _, t := range req.Topics {
			results = append(results, metadata.TopicResult{Name: t.Topic, Err: asMetadataError(err)})
		}
	}
	answered := map[string]bool{} // a topic that is named twice is refused, and answered once
	for i := range results {
		if answered[results[i].Name] {
			continue
		}
		answered[results[i].Name] = true
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic = results[i].Name
		if e := results[i].Err; e != nil {
			t.ErrorCode, t.ErrorMessage = int16(codeOf(e)), message(e)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}
