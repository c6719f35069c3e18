package broker

import (
	"context"
	"log/slog"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// InitProducerId (22), versions 0-5: a fresh producer id for an idempotent producer. Ids come from blocks that the metadata log hands out, so no
// id is ever given twice, whatever happens to this broker. A transactional id needs a transaction coordinator, which this broker does not have:
// COORDINATOR_NOT_AVAILABLE, the answer FindCoordinator gives for it too.

// producerIDs hands out ids from a block; the rest of a block is lost at a restart.
type producerIDs struct {
	allocate func(context.Context) (metadata.ProducerIDBlock, error)
	mu       struct {
		sync.Mutex // also held while a block is allocated: the others need the same block
		next, end  int64
	}
}

func (p *producerIDs) take(ctx context.Context) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.next == p.mu.end {
		block, err := p.allocate(ctx)
		if err != nil {
			return -1, err
		}
		p.mu.next, p.mu.end = block.First, block.First+int64(block.Count)
	}
	id := p.mu.next
	p.mu.next++
	return id, nil
}

func handleInitProducerID(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.InitProducerIDRequest)
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		resp.ErrorCode = int16(protocol.InvalidRequest)
		return resp
	}
	if id := req.TransactionalID; id != nil {
		resp.ErrorCode = int16(protocol.CoordinatorNotAvailable)
		if *id == "" {
			resp.ErrorCode = int16(protocol.InvalidRequest)
		}
		return resp
	}
	id, err := b.producerIDs.take(b.ctx)
	if err != nil {
		b.lines.Log(slog.LevelWarn, "no producer id could be allocated", "error", err)
		resp.ErrorCode = int16(protocol.CoordinatorNotAvailable) // retriable, whatever the reason
		return resp
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp
}
