package broker

import (
	"math"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/protocol"
)

// DescribeConfigs (32), versions 1-4: the effective configuration of topics, groups and this broker, where each value comes from (synonyms) and, from
// v3, type and documentation. The broker "" is the default of all brokers: only what was set for it is shown. Resources may be named again, as
// with Kafka, but not without end (maxRepeated): a short request must not have an answer without bounds.

// maxRepeated is how many resources of a request may have been named before in it; the others get INVALID_REQUEST.
const maxRepeated = 16

func handleDescribeConfigs(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.DescribeConfigsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	named, repeated := make(map[resource]bool, len(req.Resources)), 0
	for i := range req.Resources {
		q := &req.Resources[i]
		key := resource{q.ResourceType, q.ResourceName}
		if id, err := strconv.ParseInt(q.ResourceName, 10, 32); err == nil && q.ResourceType == kmsg.ConfigResourceTypeBroker {
			key.name = strconv.FormatInt(id, 10) // 01 and +1 are 1
		}
		again := named[key]
		named[key] = true
		if again {
			repeated++
		}
		values, code, text := []config.Value(nil), protocol.InvalidRequest, "the request names too many resources more than once"
		if !again || repeated <= maxRepeated {
			values, code, text = b.configValues(q)
		}
		values = slices.DeleteFunc(values, func(v config.Value) bool {
			return len(q.ConfigNames) > 0 && !slices.Contains(q.ConfigNames, v.Key.Name)
		})
		if name := tooLong(req, values); name != "" {
			values, code, text = nil, protocol.UnsupportedVersion, "the value of "+name+" is too long for this version of DescribeConfigs: ask with version 4"
		}
		text = short(text)
		a := kmsg.NewDescribeConfigsResponseResource()
		a.ResourceType, a.ResourceName = q.ResourceType, q.ResourceName
		a.ErrorCode = int16(code)
		a.ErrorMessage = &text // empty, not null, on success: what a Kafka broker does
		for j := range values {
			a.Configs = append(a.Configs, describedConfig(req, &values[j]))
		}
		resp.Resources = append(resp.Resources, a)
	}
	return resp
}

// tooLong returns the first key with a value that no string of the request's version can hold.
func tooLong(req *kmsg.DescribeConfigsRequest, values []config.Value) string {
	if req.IsFlexible() {
		return ""
	}
	for i := range values {
		longest := len(values[i].Value)
		for _, s := range values[i].Synonyms {
			longest = max(longest, len(s.Value))
		}
		if longest > math.MaxInt16 {
			return values[i].Key.Name
		}
	}
	return ""
}

func (b *Broker) configValues(q *kmsg.DescribeConfigsRequestResource) ([]config.Value, protocol.Code, string) {
	switch q.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		return b.topicConfigValues(q.ResourceName)
	case kmsg.ConfigResourceTypeBroker:
		return b.brokerConfigValues(q.ResourceName)
	case kmsg.ConfigResourceTypeGroupConfig:
		return b.groupConfigValues(q.ResourceName)
	default:
		return nil, protocol.InvalidRequest, noConfigsOf(q.ResourceType)
	}
}

func (b *Broker) topicConfigValues(name string) ([]config.Value, protocol.Code, string) {
	if err := metadata.ValidateTopicName(name); err != nil {
		return nil, protocol.InvalidTopicException, err.Error()
	}
	t := b.meta.Image().Topic(name)
	if t == nil {
		return nil, protocol.UnknownTopicOrPartition, ""
	}
	values, err := b.config.EffectiveTopic(t.Config)
	if err != nil {
		b.log.Error("a topic's configuration cannot be read back", "topic", name, "error", err)
		return nil, protocol.InvalidConfig, err.Error()
	}
	return values, protocol.None, ""
}

// groupConfigValues are the configs of a group, which need not exist.
func (b *Broker) groupConfigValues(id string) ([]config.Value, protocol.Code, string) {
	if id == "" {
		return nil, protocol.InvalidRequest, "a group resource needs the group's id"
	}
	return b.config.EffectiveGroup(b.meta.Image().GroupConfig(id)), protocol.None, ""
}

func (b *Broker) brokerConfigValues(name string) ([]config.Value, protocol.Code, string) {
	if name == "" {
		return slices.DeleteFunc(b.config.Effective(), func(v config.Value) bool { return !setFor(&v, config.DynamicDefault) }), protocol.None, ""
	}
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return nil, protocol.InvalidRequest, "a broker resource is named by its id, a number, not " + strconv.Quote(name)
	}
	if int32(id) != b.nodeID {
		return nil, protocol.InvalidRequest, "this is broker " + strconv.Itoa(int(b.nodeID)) + ": ask broker " + name + " for its configuration"
	}
	return b.config.Effective(), protocol.None, ""
}

// setFor tells whether a value is the one that a layer gives, and reduces it to that layer.
func setFor(v *config.Value, layer config.Source) bool {
	for _, s := range v.Synonyms {
		if s.Source == layer {
			v.Value, v.Source, v.Null = s.Value, layer, false
			v.Synonyms = []config.Synonym{s}
			return true
		}
	}
	return false
}

func describedConfig(req *kmsg.DescribeConfigsRequest, v *config.Value) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.IsSensitive, c.Source = v.Key.Name, v.Key.Sensitive, kmsg.ConfigSource(v.Source.KafkaCode())
	c.ReadOnly = v.Key.Scope == config.BrokerScope && !v.Key.Dynamic
	c.IsDefault = v.Source == config.Default
	c.ConfigType = kmsg.ConfigType(v.Key.Type)
	c.Value = shown(v.Key.Sensitive || v.Null, v.Value)
	if req.IncludeDocumentation {
		c.Documentation = &v.Key.Doc
	}
	if req.IncludeSynonyms {
		for _, s := range v.Synonyms {
			cs := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			cs.Name, cs.Source = s.Name, kmsg.ConfigSource(s.Source.KafkaCode())
			cs.Value = shown(v.Key.Sensitive, s.Value)
			c.ConfigSynonyms = append(c.ConfigSynonyms, cs)
		}
	}
	return c
}

func shown(hidden bool, value string) *string {
	if hidden {
		return nil
	}
	return &value
}
