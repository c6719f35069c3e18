package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// LeaveGroup (13), versions 0-5: members leave a group, or are taken out of it by an administrator.
//
// Version notes: one member up to v2, its error is that of the answer; from v3 on many, each with an error of its own; v5 reasons.

func startLeaveGroup(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.LeaveGroupRequest](b, r)
	if !ok {
		return
	}
	refuse := func(code protocol.Code) {
		resp := kmsg.NewPtrLeaveGroupResponse()
		resp.ErrorCode = int16(code)
		r.reply(resp)
	}
	if req.Group == "" {
		refuse(protocol.InvalidGroupID)
		return
	}
	b.groups.do(req.Group, func(s *group.Shard, now int64, out *machine.Out) { s.Leave(now, req, r, out) }, refuse)
}
