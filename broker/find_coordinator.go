package broker

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// FindCoordinator (10), versions 0-6: which broker runs the coordinator of a group or of a transactional id. The topic of the groups is made when somebody
// asks for the first time; the answer comes when it is there. There is no coordinator of transactions yet: COORDINATOR_NOT_AVAILABLE, which clients retry.
//
// Version notes: v0 groups only; v1 types of keys; v4 many keys; v6 share groups.

// maxCoordinatorKeys bounds a request: an answer is tens of times as long as a key may be.
const maxCoordinatorKeys = 100_000

// The types of keys.
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2 // v6+
)

func handleFindCoordinator(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.FindCoordinatorRequest)
	if n := len(req.CoordinatorKeys); n > maxCoordinatorKeys {
		b.lines.Log(slog.LevelWarn, "connection closed: a FindCoordinator request has too many keys", "client", r.call.Conn.RemoteAddr(), "keys", n, "limit", maxCoordinatorKeys)
		return nil
	}
	if mayCreateOffsets(b, r) {
		b.groups.createOffsetsTopic()
	}
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if req.Version < 4 {
		c := b.findCoordinator(r, req, req.CoordinatorKey)
		if c.ErrorCode == 0 { // Kafka's word for it
			*c.ErrorMessage = "NONE"
		}
		resp.ErrorCode, resp.ErrorMessage, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.ErrorMessage, c.NodeID, c.Host, c.Port
		return resp
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, b.findCoordinator(r, req, key))
	}
	return resp
}

// mayCreateOffsets tells that somebody looks for the coordinator of a group and there is no topic for them yet.
func mayCreateOffsets(b *Broker, r *request) bool {
	req := r.msg.(*kmsg.FindCoordinatorRequest)
	return req.CoordinatorType == groupCoordinator && (req.Version < 4 || len(req.CoordinatorKeys) > 0) && b.meta.Image().Topic(offsetsTopic) == nil
}

func (b *Broker) findCoordinator(r *request, req *kmsg.FindCoordinatorRequest, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port = key, -1, -1
	refuse := func(code protocol.Code, text string) kmsg.FindCoordinatorResponseCoordinator {
		c.ErrorCode, c.ErrorMessage = int16(code), &text
		return c
	}
	switch {
	case req.CoordinatorType == transactionCoordinator:
		return refuse(protocol.CoordinatorNotAvailable, "this broker has no transaction coordinator")
	case req.CoordinatorType != groupCoordinator:
		return refuse(protocol.InvalidRequest, "there is no coordinator for this type of key")
	}
	n := b.coordinatorOf(key)
	if n == nil {
		return refuse(protocol.CoordinatorNotAvailable, "the coordinator is not available now")
	}
	text := ""
	c.NodeID, c.ErrorMessage = n.ID, &text
	c.Host, c.Port = b.address(n, r.call.Conn)
	return c
}

// coordinatorOf is the broker that leads the partition of a group; nil when there is none.
func (b *Broker) coordinatorOf(group string) *metadata.BrokerInfo {
	image := b.meta.Image()
	topic := image.Topic(offsetsTopic)
	if topic == nil {
		return nil
	}
	n := image.Broker(topic.Partitions[partitionFor(group, int32(len(topic.Partitions)))].Leader)
	if n == nil || n.Fenced {
		return nil
	}
	return n
}
