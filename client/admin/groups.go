package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// Listed is a group as ListGroups tells it.
type Listed struct {
	Group        string
	Type         string // "classic", "consumer", ...; "" when the broker does not say
	State        string // likewise
	ProtocolType string
	Coordinator  Broker
}

// ListGroups lists the groups of all brokers, by name.
func (c *Client) ListGroups(ctx context.Context) ([]Listed, error) {
	brokers, err := c.Brokers(ctx)
	if err != nil {
		return nil, err
	}
	all := []Listed{}
	for _, b := range brokers {
		var list []Listed
		if err := retry(ctx, func() (err error) { list, err = c.groupsOf(ctx, b); return err }); err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	slices.SortFunc(all, func(a, b Listed) int { return strings.Compare(a.Group, b.Group) })
	return all, nil
}

func (c *Client) groupsOf(ctx context.Context, b Broker) (all []Listed, err error) {
	resp, err := c.ask(ctx, b.Addr, kmsg.NewPtrListGroupsRequest(), -1)
	if err != nil {
		return nil, err
	}
	list := resp.(*kmsg.ListGroupsResponse)
	if err := rpc.ErrorOf(list.ErrorCode, nil, "the groups of broker "+b.String()); err != nil {
		return nil, err
	}
	for i := range list.Groups {
		g := &list.Groups[i]
		all = append(all, Listed{g.Group, strings.ToLower(g.GroupType), g.GroupState, g.ProtocolType, b})
	}
	return all, nil
}

// Group is a group as its coordinator describes it.
type Group struct {
	Group       string
	Type        string // "classic" or "consumer"
	State       string
	Protocol    string // what the members agreed on, or the assignor
	Epoch       int32  // of a consumer group; -1 otherwise
	Coordinator Broker
	Members     []Member
	Story       []byte // what leat remembers of the group, as JSON; nil when it was not asked for or the broker does not know of it
}

// Member is a member of a group.
type Member struct {
	ID, Instance     string // Instance is "" for a dynamic member
	ClientID, Host   string
	Assignment       []Partition // what it has
	AssignmentOpaque bool        // what it has is not told in a form that can be read
	Epoch            int32       // of a member of a consumer group; -1 otherwise
}

// Active reports whether the group has members, or is about to.
func (g *Group) Active() bool { return len(g.Members) > 0 || g.State != "Empty" && g.State != "Dead" }

// StoryTag is the tagged field of DescribeGroups that asks leat for the story of a group, and the one that has it in the answer. Other brokers do not know it.
const StoryTag = protocol.GroupStoryTag

// Story is what leat remembers of a group (coordinator/group.Story). Kinds of events that a newer broker knows stay as it calls them.
type Story struct {
	State   string   `json:"state"`
	SinceMs int64    `json:"sinceMs"` // -1: not known
	Waiting []string `json:"waiting"` // member ids
	UntilMs int64    `json:"untilMs"` // 0: it waits for nothing that ends
	Events  []Event  `json:"events"`  // the oldest first
}

// Event is something that happened to a group.
type Event struct {
	AtMs                         int64
	What, Member, Client, Reason string
}

// ReadStory reads Group.Story.
func ReadStory(text []byte) (*Story, error) {
	s := new(Story)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("the story of a group cannot be read: %w", err)
	}
	return s, nil
}

// ErrNoGroup is what a group that does not exist is described with.
var ErrNoGroup = errors.New("there is no such group")

// DescribeGroup describes a group of consumers of either type; with its story, when it is wanted and the broker is leat. ErrNoGroup when there is none.
func (c *Client) DescribeGroup(ctx context.Context, group string, story bool) (g *Group, err error) {
	err = c.atCoordinator(ctx, group, func(b Broker) error {
		g, err = c.describeClassic(ctx, b, group, story)
		if errors.Is(err, ErrNoGroup) {
			kept := g.Story
			if g, err = c.describeConsumer(ctx, b, group); err == nil {
				g.Story = kept
			}
		}
		return err
	})
	return g, err
}

// describeClassic returns a Group also with ErrNoGroup: the story of a group of another type is in it.
func (c *Client) describeClassic(ctx context.Context, b Broker, group string, story bool) (*Group, error) {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	if story {
		req.UnknownTags.Set(StoryTag, nil)
	}
	resp, err := c.ask(ctx, b.Addr, req, -1)
	if err != nil {
		return nil, err
	}
	d := resp.(*kmsg.DescribeGroupsResponse)
	if len(d.Groups) != 1 {
		return nil, rpc.ErrorOf(int16(protocol.UnknownServerError), nil, "group "+group)
	}
	a := &d.Groups[0]
	g := &Group{Group: group, Type: "classic", State: a.State, Protocol: a.Protocol, Epoch: -1, Coordinator: b}
	a.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == StoryTag {
			g.Story = value
		}
	})
	// Before version 6 a group that does not exist is a dead one.
	if protocol.Code(a.ErrorCode) == protocol.GroupIDNotFound || a.ErrorCode == 0 && a.State == "Dead" {
		return g, ErrNoGroup
	}
	for i := range a.Members {
		g.Members = append(g.Members, classicMember(&a.Members[i], a.ProtocolType))
	}
	return g, rpc.ErrorOf(a.ErrorCode, a.ErrorMessage, "group "+group)
}

func classicMember(m *kmsg.DescribeGroupsResponseGroupMember, protocolType string) Member {
	out := Member{ID: m.MemberID, ClientID: m.ClientID, Host: host(m.ClientHost), Epoch: -1}
	if m.InstanceID != nil {
		out.Instance = *m.InstanceID
	}
	if len(m.MemberAssignment) == 0 {
		return out
	}
	var a kmsg.ConsumerMemberAssignment
	if protocolType != "consumer" || a.ReadFrom(m.MemberAssignment) != nil {
		out.AssignmentOpaque = true
		return out
	}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			out.Assignment = append(out.Assignment, Partition{t.Topic, p})
		}
	}
	slices.SortFunc(out.Assignment, ComparePartitions)
	return out
}

// host is a host without the slash that Java puts before an address.
func host(s string) string { return strings.TrimPrefix(s, "/") }

func (c *Client) describeConsumer(ctx context.Context, b Broker, group string) (*Group, error) {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := c.ask(ctx, b.Addr, req, -1)
	if _, ok := errors.AsType[*rpc.UnsupportedError](err); ok {
		return nil, ErrNoGroup // a broker without such groups
	}
	if err != nil {
		return nil, err
	}
	d := resp.(*kmsg.ConsumerGroupDescribeResponse)
	if len(d.Groups) != 1 {
		return nil, rpc.ErrorOf(int16(protocol.UnknownServerError), nil, "group "+group)
	}
	a := &d.Groups[0]
	switch protocol.Code(a.ErrorCode) {
	case protocol.GroupIDNotFound, protocol.UnsupportedVersion:
		return nil, ErrNoGroup
	}
	g := &Group{Group: group, Type: "consumer", State: a.State, Protocol: a.AssignorName, Epoch: a.Epoch, Coordinator: b}
	for i := range a.Members {
		g.Members = append(g.Members, consumerMember(&a.Members[i]))
	}
	return g, rpc.ErrorOf(a.ErrorCode, a.ErrorMessage, "group "+group)
}

func consumerMember(m *kmsg.ConsumerGroupDescribeResponseGroupMember) Member {
	out := Member{ID: m.MemberID, ClientID: m.ClientID, Host: host(m.ClientHost), Epoch: m.MemberEpoch}
	if m.InstanceID != nil {
		out.Instance = *m.InstanceID
	}
	for _, t := range m.Assignment.TopicPartitions {
		for _, p := range t.Partitions {
			out.Assignment = append(out.Assignment, Partition{t.Topic, p})
		}
	}
	slices.SortFunc(out.Assignment, ComparePartitions)
	return out
}

// DeleteGroup deletes a group with its offsets.
func (c *Client) DeleteGroup(ctx context.Context, group string) error {
	return c.atCoordinator(ctx, group, func(b Broker) error {
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{group}
		resp, err := c.ask(ctx, b.Addr, req, -1)
		if err != nil {
			return err
		}
		d := resp.(*kmsg.DeleteGroupsResponse)
		if len(d.Groups) != 1 {
			return rpc.ErrorOf(int16(protocol.UnknownServerError), nil, "group "+group)
		}
		if protocol.Code(d.Groups[0].ErrorCode) == protocol.GroupIDNotFound {
			return ErrNoGroup
		}
		return rpc.ErrorOf(d.Groups[0].ErrorCode, d.Groups[0].ErrorMessage, "group "+group)
	})
}
