package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// ConsumerGroupDescribe (69), versions 0-1: epochs, members, assignments and targets of consumer groups (KIP-848). Other groups are GROUP_ID_NOT_FOUND.
//
// Version notes: v1 says of which protocol a member is.
//
// A group that is named twice is described once (R14).

func startConsumerGroupDescribe(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.ConsumerGroupDescribeRequest](b, r)
	if !ok {
		return
	}
	ids := once(req.Groups)
	resp := kmsg.NewPtrConsumerGroupDescribeResponse()
	resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(ids))
	all := newGather(len(ids), func() { r.reply(resp) })
	for i, id := range ids {
		a := &resp.Groups[i]
		done := ticket(func(body any) {
			*a = *body.(*kmsg.ConsumerGroupDescribeResponseGroup)
			if req.IncludeAuthorizedOperations && a.ErrorCode == 0 {
				a.AuthorizedOperations = groupOperations
			}
			all.one()
		})
		refuse := func(code protocol.Code) {
			refused := kmsg.NewConsumerGroupDescribeResponseGroup()
			refused.Group, refused.ErrorCode = id, int16(code)
			done(&refused)
		}
		if id == "" {
			refuse(protocol.InvalidGroupID)
			continue
		}
		b.groups.do(id, func(s *group.Shard, now int64, out *machine.Out) { s.ConsumerDescribe(now, id, done, out) }, refuse)
	}
	all.one()
}
