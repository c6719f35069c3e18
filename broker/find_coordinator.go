package broker

import (
	"log/slog"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// FindCoordinator (10), versions 0-6: where the coordinator of a group or transactional id is. There are no coordinators yet; the API is listed
// because old librdkafka uses lz4 only with brokers that list it. Every key gets COORDINATOR_NOT_AVAILABLE, which clients retry.

// maxCoordinatorKeys bounds a request: an answer is tens of times as long as a key may be.
const maxCoordinatorKeys = 100_000

func handleFindCoordinator(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.FindCoordinatorRequest)
	if n := len(req.CoordinatorKeys); n > maxCoordinatorKeys {
		b.lines.Log(slog.LevelWarn, "connection closed: a FindCoordinator request has too many keys", "client", r.call.Conn.RemoteAddr(), "keys", n, "limit", maxCoordinatorKeys)
		return nil
	}
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	text := "this broker has no group or transaction coordinator"
	resp.NodeID, resp.Port = -1, -1
	if req.Version < 4 {
		resp.ErrorCode, resp.ErrorMessage = int16(protocol.CoordinatorNotAvailable), &text
		return resp
	}
	for _, key := range req.CoordinatorKeys {
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Port = key, -1, -1
		c.ErrorCode, c.ErrorMessage = int16(protocol.CoordinatorNotAvailable), &text
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp
}
