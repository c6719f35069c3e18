package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// JoinGroup (11), versions 0-9: become a member of a group, or say again that one is. The answer comes when the others have joined too.
//
// Version notes: v0 has no rebalance timeout (the session timeout counts); up to v3 a member without an id is taken in at once, from v4 on it is sent its id
// first; v5 static members; v9 tells a static leader that came back not to assign.

func startJoinGroup(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.JoinGroupRequest](b, r)
	if !ok {
		return
	}
	refuse := func(code protocol.Code) {
		resp := kmsg.NewPtrJoinGroupResponse()
		resp.MemberID, resp.ErrorCode = req.MemberID, int16(code)
		r.reply(resp)
	}
	if req.Group == "" {
		refuse(protocol.InvalidGroupID)
		return
	}
	client := r.client()
	b.groups.do(req.Group, func(s *group.Shard, now int64, out *machine.Out) { s.Join(now, req, client, r, out) }, refuse)
}
