package broker

import (
	"encoding/json"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/group"
	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// DescribeGroups (15), versions 0-6: state, protocol, members and assignments of groups.
//
// Version notes: v3 authorized operations; v4 static members; up to v5 a group that does not exist is a dead one without an error, from v6 on it is
// GROUP_ID_NOT_FOUND.
//
// A group that is named twice is described once: a short request must not have an answer of gigabytes (R14).
//
// The tagged field protocol.GroupStoryTag in the request asks for what is remembered of the groups; `leat group explain` sends it. Each group that there is, of
// whatever type, then has its story as JSON (group.Story) in a field of the same number.

// groupOperations are the bits of authorized operations of a group without an authorizer.
const groupOperations = 1<<3 | 1<<6 | 1<<8 | 1<<10 | 1<<11 // READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS

func startDescribeGroups(b *Broker, r *request) {
	req, ok := groupRequest[*kmsg.DescribeGroupsRequest](b, r)
	if !ok {
		return
	}
	ids := once(req.Groups)
	resp := kmsg.NewPtrDescribeGroupsResponse()
	resp.Groups = make([]kmsg.DescribeGroupsResponseGroup, len(ids))
	stories := make([][]byte, len(ids))
	all := newGather(len(ids), func() {
		for i, story := range stories {
			if story != nil {
				resp.Groups[i].UnknownTags.Set(protocol.GroupStoryTag, story)
			}
		}
		r.reply(resp)
	})
	if wantsStories(req) {
		for i, id := range ids {
			b.tell(id, all, func(story []byte) { stories[i] = story })
		}
	}
	for i, id := range ids {
		a := &resp.Groups[i]
		done := ticket(func(body any) {
			*a = *body.(*kmsg.DescribeGroupsResponseGroup)
			describedGroup(req, a)
			all.one()
		})
		b.groups.do(id, func(s *group.Shard, now int64, out *machine.Out) { s.Describe(now, id, done, out) }, func(code protocol.Code) {
			refused := kmsg.NewDescribeGroupsResponseGroup()
			refused.Group, refused.ErrorCode = id, int16(code)
			done(&refused)
		})
	}
	all.one()
}

func wantsStories(req *kmsg.DescribeGroupsRequest) (wants bool) {
	req.UnknownTags.Each(func(tag uint32, _ []byte) { wants = wants || tag == protocol.GroupStoryTag })
	return wants
}

// tell hands over the story of a group, if there is one, as one more answer to wait for.
func (b *Broker) tell(id string, all *gather, got func(json []byte)) {
	all.more()
	done := ticket(func(body any) {
		if story := body.(*group.Story); story != nil {
			if text, err := json.Marshal(story); err == nil { // it always is
				got(text)
			}
		}
		all.one()
	})
	b.groups.do(id, func(s *group.Shard, now int64, out *machine.Out) { s.Explain(now, id, done, out) }, func(protocol.Code) { all.one() })
}

// once is the ids in the order in which they are named first.
func once(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	named := make([]string, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			named = append(named, id)
		}
	}
	return named
}

// describedGroup fits an answer to the version of the request.
func describedGroup(req *kmsg.DescribeGroupsRequest, a *kmsg.DescribeGroupsResponseGroup) {
	if protocol.Code(a.ErrorCode) == protocol.GroupIDNotFound {
		text := "Group " + a.Group + " not found."
		a.ErrorMessage = &text
		if req.Version < 6 {
			a.ErrorCode = int16(protocol.None)
		}
	}
	a.AuthorizedOperations = operationsNotWanted
	if req.IncludeAuthorizedOperations && a.ErrorCode == 0 {
		a.AuthorizedOperations = groupOperations
	}
}
