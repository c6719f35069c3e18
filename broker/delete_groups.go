package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// DeleteGroups (42), versions 0-3: groups without members go, with what they committed. A group that is named twice is answered once. v3 has messages.

func startDeleteGroups(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.DeleteGroupsRequest](b, r)
	if !ok {
		return
	}
	ids := once(req.Groups)
	resp := kmsg.NewPtrDeleteGroupsResponse()
	resp.Groups = make([]kmsg.DeleteGroupsResponseGroup, len(ids))
	all := newGather(len(ids), func() { r.reply(resp) })
	for i, id := range ids {
		a := &resp.Groups[i]
		*a = kmsg.NewDeleteGroupsResponseGroup()
		a.Group = id
		done := func(code protocol.Code) {
			a.ErrorCode, a.ErrorMessage = int16(code), deleteMessage(id, code)
			all.one()
		}
		b.groups.do(id, func(s *group.Shard, now int64, out *machine.Out) {
			s.Delete(now, id, ticket(func(body any) { done(body.(protocol.Code)) }), out)
		}, done)
	}
	all.one()
}

func deleteMessage(id string, code protocol.Code) *string {
	text := ""
	switch code {
	case protocol.None:
		return nil
	case protocol.GroupIDNotFound:
		text = "Group " + id + " not found."
	case protocol.NonEmptyGroup:
		text = "Group " + id + " has members."
	default:
		text = "Group " + id + " cannot be deleted now: " + code.Name() + "."
	}
	return &text
}
