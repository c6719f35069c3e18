package broker

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/client/admin"
	"github.com/leatmq/leat/protocol"
)

// describeFrame is the answer to DescribeGroups as it is on the wire, its size and correlation id cut off.
func (c *client) describeFrame(version int16, tag uint32, groups ...string) (req *kmsg.DescribeGroupsRequest, answer []byte) {
	c.t.Helper()
	req = kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = version, groups
	if tag != 0 {
		req.UnknownTags.Set(tag, []byte("?"))
	}
	c.raw(frame(req, 7))
	b, err := c.readFrame()
	if err != nil {
		c.t.Fatal(err)
	}
	return req, b
}

// Whoever asks with leat's tagged field gets the stories; to everybody else the answer is the same to the byte.
func TestGroupStory(t *testing.T) {
	n := start(t, quickGroups...)
	c := n.dial()
	c.findGroup("g")
	member, generation := c.joinAlone("g")
	for version := int16(0); version <= 6; version++ {
		_, bare := c.describeFrame(version, 0, "g", "nope")
		_, other := c.describeFrame(version, protocol.GroupStoryTag+1, "g", "nope")
		if !bytes.Equal(bare, other) {
			t.Errorf("version %d: an unknown tagged field changes the answer", version)
		}
		req, told := c.describeFrame(version, protocol.GroupStoryTag, "g", "nope")
		resp, err := parseResponse(req, 7, told)
		if err != nil {
			t.Fatal(err)
		}
		d := resp.(*kmsg.DescribeGroupsResponse)
		if version < 5 {
			if !bytes.Equal(bare, told) {
				t.Errorf("version %d has no tagged fields and another answer", version)
			}
			continue
		}
		var story admin.Story
		d.Groups[0].UnknownTags.Each(func(tag uint32, text []byte) {
			if err := json.Unmarshal(text, &story); err != nil || tag != protocol.GroupStoryTag {
				t.Fatalf("tag %d: %v in %s", tag, err, text)
			}
		})
		if story.State != "Stable" || story.SinceMs <= 0 || len(story.Events) < 4 || story.Events[0].What != "joined" || story.Events[0].Member != member {
			t.Errorf("version %d: %+v", version, story)
		}
		if d.Groups[1].UnknownTags.Len() != 0 {
			t.Errorf("version %d: a group that is not there has a story", version)
		}
		d.Groups[0].UnknownTags = kmsg.Tags{}
		if without := protocol.AppendResponse(nil, 7, d)[4:]; !bytes.Equal(without, bare) {
			t.Errorf("version %d: without its story the answer is\n%x, want\n%x", version, without, bare)
		}
	}
	if hb := do[*kmsg.HeartbeatResponse](c, heartbeatRequest("g", member, generation)); hb.ErrorCode != 0 {
		t.Errorf("being asked about did not leave the group alone: %d", hb.ErrorCode)
	}
}
