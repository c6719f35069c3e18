package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/netio"
	"github.com/leatmq/leat/protocol"
)

// Metadata (3), versions 0-13: brokers, topics, partitions and their leaders. Topics by name, from v12 also by id. A topic that does not exist is
// created when the request and auto.create.topics.enable allow it (up to autoCreateTopicsMax at once); the answer comes when it takes appends, so the
// Produce that follows finds it.
//
// Version notes: v0 asks for everything with an empty list, v1+ with null; v4 may forbid creation; v10 answers topic ids; v10-11 with an id is
// INVALID_REQUEST; in v12+ a request that names ids and names is answered for the ids only.

func handleMetadata(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.MetadataRequest)
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.AuthorizedOperations, resp.ControllerID = operationsNotWanted, -1
	byID := slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != [16]byte{} })
	if byID && req.Version < 12 || !byID && slices.ContainsFunc(req.Topics, nameless) {
		refuseMetadata(req, resp)
		return resp
	}
	if !r.onLoop { // there nothing was missing a moment ago; what is now waits for the client's next request
		b.createMissing(req, byID)
	}
	image := b.meta.Image()
	b.describeBrokers(image, r.call.Conn, resp)
	cluster := b.engine.ClusterID()
	resp.ClusterID, resp.ControllerID = &cluster, b.nodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = clusterOperations
	}
	resp.Topics = b.describeTopics(image, req, byID)
	return resp
}

func nameless(t kmsg.MetadataRequestTopic) bool { return t.Topic == nil }

// refuseMetadata answers INVALID_REQUEST for every topic.
func refuseMetadata(req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse) {
	for _, t := range req.Topics {
		a := newMetadataTopic(req)
		a.Topic, a.TopicID, a.ErrorCode = t.Topic, t.TopicID, int16(protocol.InvalidRequest)
		resp.Topics = append(resp.Topics, a)
	}
}

// wantsAll tells whether a request asks for every topic.
func wantsAll(req *kmsg.MetadataRequest) bool {
	return req.Topics == nil || req.Version == 0 && len(req.Topics) == 0
}

// autoCreateTopicsMax is how many topics one request may make. Making one takes a few syncs of the disk and a request of thousands of unknown names would
// keep its client, and those whose changes wait behind it, past their time limits. 64 are made in a fraction of a second; the others are answered with
// UNKNOWN_TOPIC_OR_PARTITION, which makes clients ask again.
const autoCreateTopicsMax = 64

// missing returns the names that a request wants created, no more than one request may.
func (b *Broker) missing(req *kmsg.MetadataRequest, byID bool) []string {
	if byID || wantsAll(req) || req.Version >= 4 && !req.AllowAutoTopicCreation || !b.settings().AutoCreateTopics {
		return nil
	}
	var names []string
	image := b.meta.Image()
	for _, t := range req.Topics {
		if t.Topic != nil && image.Topic(*t.Topic) == nil && metadata.ValidateTopicName(*t.Topic) == nil {
			names = append(names, *t.Topic)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), autoCreateTopicsMax)]
}

// mayCreate tells, on the loop, that a request must run on a worker because it will create topics.
func mayCreate(b *Broker, r *request) bool {
	req := r.msg.(*kmsg.MetadataRequest)
	byID := slices.ContainsFunc(req.Topics, func(t kmsg.MetadataRequestTopic) bool { return t.TopicID != [16]byte{} })
	return len(b.missing(req, byID)) > 0
}

// createMissing creates what a request wants created. A failure shows in the answer: the topic is not there.
func (b *Broker) createMissing(req *kmsg.MetadataRequest, byID bool) {
	names := b.missing(req, byID)
	if len(names) == 0 {
		return
	}
	ctx, cancel := b.timeout(int32(maxChangeTimeout.Milliseconds()))
	defer cancel()
	change := metadata.CreateTopicsRequest{}
	for _, name := range names {
		change.Topics = append(change.Topics, metadata.TopicSpec{Name: name, Partitions: metadata.DefaultCount, ReplicationFactor: metadata.DefaultCount})
	}
	results, err := b.createTopics(ctx, change)
	if err != nil {
		b.log.Warn("topics could not be created automatically", "topics", names, "error", err)
	}
	for i := range results {
		if e := results[i].Err; e != nil && e.Kind != metadata.TopicExists {
			b.log.Warn("a topic could not be created automatically", "topic", results[i].Name, "error", e)
		}
	}
}

func (b *Broker) describeBrokers(image *metadata.Image, conn netio.Conn, resp *kmsg.MetadataResponse) {
	for _, n := range image.Brokers() {
		if n.Fenced {
			continue
		}
		a := kmsg.NewMetadataResponseBroker()
		a.NodeID, a.Rack = n.ID, optional(n.Rack)
		a.Host, a.Port = b.address(n, conn)
		resp.Brokers = append(resp.Brokers, a)
	}
}

func (b *Broker) describeTopics(image *metadata.Image, req *kmsg.MetadataRequest, byID bool) []kmsg.MetadataResponseTopic {
	if wantsAll(req) {
		all := make([]kmsg.MetadataResponseTopic, 0, image.TopicCount())
		for _, t := range image.Topics() {
			all = append(all, b.describeTopic(image, req, t))
		}
		return all
	}
	answers := make([]kmsg.MetadataResponseTopic, 0, len(req.Topics))
	named, known := map[string]bool{}, map[[16]byte]bool{}
	for _, q := range req.Topics {
		if byID {
			if q.TopicID != [16]byte{} && !known[q.TopicID] {
				known[q.TopicID] = true
				answers = append(answers, b.describeTopicByID(image, req, q.TopicID))
			}
			continue
		}
		if !named[*q.Topic] {
			named[*q.Topic] = true
			answers = append(answers, b.describeTopicByName(image, req, *q.Topic))
		}
	}
	return answers
}

func (b *Broker) describeTopicByID(image *metadata.Image, req *kmsg.MetadataRequest, id [16]byte) kmsg.MetadataResponseTopic {
	if t := image.TopicByID(id); t != nil {
		return b.describeTopic(image, req, t)
	}
	a := newMetadataTopic(req)
	a.TopicID, a.ErrorCode = id, int16(protocol.UnknownTopicID)
	return a
}

func (b *Broker) describeTopicByName(image *metadata.Image, req *kmsg.MetadataRequest, name string) kmsg.MetadataResponseTopic {
	if t := image.Topic(name); t != nil {
		return b.describeTopic(image, req, t)
	}
	a := newMetadataTopic(req)
	a.Topic, a.ErrorCode = &name, int16(protocol.UnknownTopicOrPartition)
	if metadata.ValidateTopicName(name) != nil {
		a.ErrorCode = int16(protocol.InvalidTopicException)
	}
	return a
}

func newMetadataTopic(req *kmsg.MetadataRequest) kmsg.MetadataResponseTopic {
	a := kmsg.NewMetadataResponseTopic()
	a.AuthorizedOperations = operationsNotWanted
	a.Partitions = []kmsg.MetadataResponseTopicPartition{}
	if req.IncludeTopicAuthorizedOperations {
		a.AuthorizedOperations = topicOperations
	}
	return a
}

func (b *Broker) describeTopic(image *metadata.Image, req *kmsg.MetadataRequest, t *metadata.Topic) kmsg.MetadataResponseTopic {
	a := newMetadataTopic(req)
	a.Topic, a.TopicID, a.IsInternal = &t.Name, t.ID, t.Internal
	a.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(t.Partitions))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		d := kmsg.NewMetadataResponseTopicPartition()
		d.Partition, d.Leader, d.LeaderEpoch, d.Replicas, d.ISR = int32(i), p.Leader, p.LeaderEpoch, p.Replicas, p.ISR
		d.OfflineReplicas = b.offline(image, t, int32(i))
		// A leader that is not in the list of brokers would send clients to nobody (gotcha 13).
		if n := image.Broker(p.Leader); n == nil || n.Fenced {
			d.Leader, d.ErrorCode = -1, int16(protocol.LeaderNotAvailable)
		}
		a.Partitions = append(a.Partitions, d)
	}
	return a
}

// offline returns the replicas of a partition that cannot be reached: those of brokers that are fenced or unknown, and our own when its disk failed.
func (b *Broker) offline(image *metadata.Image, t *metadata.Topic, index int32) []int32 {
	var ids []int32
	for _, id := range t.Partitions[index].Replicas {
		n := image.Broker(id)
		down := n == nil || n.Fenced
		if id == b.nodeID {
			p := b.repl.PartitionByID(t.ID, index)
			down = down || p == nil || p.Log() == nil || p.Log().Err() != nil
		}
		if down {
			ids = append(ids, id)
		}
	}
	return ids
}
