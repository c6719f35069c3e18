package broker

import (
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// AlterConfigs (33), versions 0-2, replaces everything that was set on a resource; IncrementalAlterConfigs (44), versions 0-1, sets, deletes,
// appends to and subtracts from single keys. Both change topics, brokers and groups, durably, before the answer. A group
// need not exist, and its configs stay when it is deleted. A resource that is named twice gets
// INVALID_REQUEST each time; so does a kind of resource we do not have.

// configChange is one resource of either request and what became of it.
type configChange struct {
	kind   kmsg.ConfigResourceType
	name   string
	change metadata.ResourceConfig
	code   protocol.Code // not None: refused before the metadata was asked
	text   string
}

func handleAlterConfigs(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.AlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.AlterConfigsResponse)
	changes := make([]configChange, 0, len(req.Resources))
	for _, q := range req.Resources {
		c := configChange{kind: q.ResourceType, name: q.ResourceName}
		for _, k := range q.Configs {
			c.add(k.Name, metadata.OpSet, k.Value)
		}
		c.change.Replace = true
		changes = append(changes, c)
	}
	b.alterConfigs(changes, req.ValidateOnly)
	for i := range changes {
		a := kmsg.NewAlterConfigsResponseResource()
		a.ResourceType, a.ResourceName, a.ErrorCode, a.ErrorMessage = changes[i].answer()
		resp.Resources = append(resp.Resources, a)
	}
	return resp
}

func handleIncrementalAlterConfigs(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.IncrementalAlterConfigsRequest)
	resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	changes := make([]configChange, 0, len(req.Resources))
	for _, q := range req.Resources {
		c := configChange{kind: q.ResourceType, name: q.ResourceName}
		for _, k := range q.Configs {
			c.add(k.Name, metadata.ConfigOp(k.Op), k.Value)
		}
		changes = append(changes, c)
	}
	b.alterConfigs(changes, req.ValidateOnly)
	for i := range changes {
		a := kmsg.NewIncrementalAlterConfigsResponseResource()
		a.ResourceType, a.ResourceName, a.ErrorCode, a.ErrorMessage = changes[i].answer()
		resp.Resources = append(resp.Resources, a)
	}
	return resp
}

func (c *configChange) add(name string, op metadata.ConfigOp, value *string) {
	k := metadata.ConfigChange{Name: name, Op: op, Null: value == nil}
	if value != nil {
		k.Value = *value
	}
	c.change.Changes = append(c.change.Changes, k)
}

func (c *configChange) refuse(code protocol.Code, text string) { c.code, c.text = code, text }

func (c *configChange) answer() (kmsg.ConfigResourceType, string, int16, *string) {
	return c.kind, c.name, int16(c.code), optional(short(c.text))
}

// alterConfigs makes the changes and notes in each what became of it.
func (b *Broker) alterConfigs(changes []configChange, validateOnly bool) {
	b.checkResources(changes)
	req := metadata.AlterConfigsRequest{ValidateOnly: validateOnly}
	var asked []*configChange
	for i := range changes {
		if c := &changes[i]; c.code == protocol.None {
			c.change.Type, c.change.Name = metadata.ResourceType(c.kind), c.name
			req.Resources = append(req.Resources, c.change)
			asked = append(asked, c)
		}
	}
	if len(asked) == 0 {
		return
	}
	ctx, cancel := b.timeout(int32(maxChangeTimeout.Milliseconds()))
	defer cancel()
	results, err := b.meta.AlterConfigs(ctx, req)
	for i, c := range asked {
		switch {
		case err != nil:
			e := asMetadataError(err)
			c.refuse(codeOf(e), e.Msg)
		case results[i].Err != nil:
			c.refuse(codeOf(results[i].Err), results[i].Err.Msg)
		}
	}
}

// checkResources refuses what the metadata cannot be asked for.
func (b *Broker) checkResources(changes []configChange) {
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	count := map[resource]int{}
	for i := range changes {
		count[resource{changes[i].kind, changes[i].name}]++
	}
	for i := range changes {
		c := &changes[i]
		switch {
		case count[resource{c.kind, c.name}] > 1:
			c.refuse(protocol.InvalidRequest, "the request names this resource more than once")
		case c.kind == kmsg.ConfigResourceTypeBroker:
			b.checkBrokerResource(c)
		case c.kind == kmsg.ConfigResourceTypeTopic && c.name == "":
			c.refuse(protocol.InvalidRequest, "a topic resource needs the topic's name: there are no defaults of all topics but the broker's")
		case c.kind == kmsg.ConfigResourceTypeGroupConfig && c.name == "":
			c.refuse(protocol.InvalidRequest, "a group resource needs the group's id: the defaults of all groups are the broker's")
		case c.kind != kmsg.ConfigResourceTypeTopic && c.kind != kmsg.ConfigResourceTypeGroupConfig:
			c.refuse(protocol.InvalidRequest, noConfigsOf(c.kind))
		}
	}
}

func noConfigsOf(kind kmsg.ConfigResourceType) string {
	return "this broker has configurations of topics, brokers and groups, not of resource type " + strconv.Itoa(int(kind))
}

func (b *Broker) checkBrokerResource(c *configChange) {
	if c.name == "" {
		return
	}
	id, err := strconv.ParseInt(c.name, 10, 32)
	if err != nil || b.meta.Image().Broker(int32(id)) == nil {
		c.refuse(protocol.InvalidRequest, "there is no broker "+strconv.Quote(c.name)+": a broker resource is named by its id, or by the empty name for all brokers")
	}
}
