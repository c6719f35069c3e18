package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// SyncGroup (14), versions 0-5: the leader of a group brings what everybody is assigned, the others get theirs. The answer comes when that is durable.
//
// Version notes: v3 static members; v5 names the protocol: it must, and it must be the group's.

func startSyncGroup(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.SyncGroupRequest](b, r)
	if !ok {
		return
	}
	refuse := func(code protocol.Code) {
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode = int16(code)
		r.reply(resp)
	}
	switch {
	case req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil):
		refuse(protocol.InconsistentGroupProtocol)
		return
	case req.Group == "":
		refuse(protocol.InvalidGroupID)
		return
	}
	b.groups.do(req.Group, func(s *group.Shard, now int64, out *machine.Out) { s.Sync(now, req, r, out) }, refuse)
}
