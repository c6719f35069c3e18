package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// ConsumerGroupHeartbeat (68), versions 0-1: all that a member of a consumer group (KIP-848) says: it joins, lives, has partitions, leaves; and hears what it
// shall have.
//
// Version notes: v1 regular expressions, and member ids that the client makes.

func startConsumerGroupHeartbeat(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.ConsumerGroupHeartbeatRequest](b, r)
	if !ok {
		return
	}
	client := r.client()
	b.groups.quick(req.Group, func(s *group.Shard, now int64, out *machine.Out) bool {
		return s.QuickConsumerHeartbeat(now, req, client, r, out)
	},
		func(s *group.Shard, now int64, out *machine.Out) { s.ConsumerHeartbeat(now, req, client, r, out) }, func(code protocol.Code) {
			resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
			resp.ErrorCode = int16(code)
			r.reply(resp)
		})
}
