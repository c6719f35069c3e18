package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// Heartbeat (12), versions 0-4: a member of a group lives, and hears whether it must join again. While the group is being loaded every member lives.

func startHeartbeat(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.HeartbeatRequest](b, r)
	if !ok {
		return
	}
	refuse := func(code protocol.Code) {
		if code == protocol.CoordinatorLoadInProgress {
			code = protocol.None
		}
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ErrorCode = int16(code)
		r.reply(resp)
	}
	if req.Group == "" {
		refuse(protocol.InvalidGroupID)
		return
	}
	b.groups.quick(req.Group, func(s *group.Shard, now int64, out *machine.Out) bool { return s.QuickHeartbeat(now, req, r, out) },
		func(s *group.Shard, now int64, out *machine.Out) { s.Heartbeat(now, req, r, out) }, refuse)
}
