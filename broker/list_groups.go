package broker

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator"
	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// ListGroups (16), versions 0-5: every group whose coordinator is this broker. While some are being loaded the answer is COORDINATOR_LOAD_IN_PROGRESS: a list
// with holes would look like groups that are gone.
//
// Version notes: v4 states, also as a filter; v5 types, likewise. Filters do not look at case.

func startListGroups(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.ListGroupsRequest](b, r)
	if !ok {
		return
	}
	partitions := b.groups.runtime.Partitions()
	slices.Sort(partitions)
	lists := make([][]group.Listed, len(partitions))
	codes := make([]protocol.Code, len(partitions))
	all := newGather(len(partitions), func() { r.reply(listAnswer(req, lists, codes)) })
	for i, p := range partitions {
		done := ticket(func(body any) {
			lists[i] = body.([]group.Listed)
			all.one()
		})
		b.groups.runtime.Do(p, coordinator.Input[*group.Shard]{
			Run: func(s *group.Shard, now int64, out *machine.Out) { s.List(now, done, out) },
			Refuse: func(err error) {
				if codes[i] = codeOf(err); codes[i] == protocol.NotCoordinator {
					codes[i] = protocol.None // it is another broker's by now
				}
				all.one()
			},
		})
	}
	all.one()
}

func listAnswer(req *kmsg.ListGroupsRequest, lists [][]group.Listed, codes []protocol.Code) *kmsg.ListGroupsResponse {
	resp := kmsg.NewPtrListGroupsResponse()
	for _, code := range codes {
		if code != protocol.None {
			resp.ErrorCode = int16(code)
			return resp
		}
	}
	for _, list := range lists {
		for i := range list {
			g := &list[i]
			if !wanted(req.StatesFilter, g.State) || !wanted(req.TypesFilter, g.Type) {
				continue
			}
			a := kmsg.NewListGroupsResponseGroup()
			a.Group, a.ProtocolType, a.GroupState, a.GroupType = g.ID, g.Kind, g.State, g.Type
			resp.Groups = append(resp.Groups, a)
		}
	}
	return resp
}

// wanted says whether a filter lets a value pass; an empty one lets all.
func wanted(filter []string, value string) bool {
	return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}
