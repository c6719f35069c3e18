package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
)

// Resource is what has a configuration: TopicResource, BrokerResource and GroupResource make one.
type Resource struct {
	kind kmsg.ConfigResourceType
	name string
}

// TopicResource is a topic.
func TopicResource(name string) Resource { return Resource{kmsg.ConfigResourceTypeTopic, name} }

// GroupResource is a group. It needs not exist to be configured.
func GroupResource(name string) Resource { return Resource{kmsg.ConfigResourceTypeGroupConfig, name} }

// BrokerResource is a broker; AllBrokers are the defaults of all of them.
func BrokerResource(id int32) Resource {
	if id == AllBrokers {
		return Resource{kmsg.ConfigResourceTypeBroker, ""}
	}
	return Resource{kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(id))}
}

// AllBrokers is the id for what brokers have in common.
const AllBrokers = -1

// kinds are what resources are called in messages.
var kinds = map[kmsg.ConfigResourceType]string{
	kmsg.ConfigResourceTypeTopic: "topic", kmsg.ConfigResourceTypeBroker: "broker", kmsg.ConfigResourceTypeGroupConfig: "group",
}

func (r Resource) String() string {
	if r.kind == kmsg.ConfigResourceTypeBroker && r.name == "" {
		return "all brokers"
	}
	return kinds[r.kind] + " " + r.name
}

// error reads the error code of an answer about the resource.
func (r Resource) error(code int16, message *string) error {
	if r.kind == kmsg.ConfigResourceTypeTopic {
		return topicError(code, message, r.name)
	}
	return rpc.ErrorOf(code, message, r.String())
}

// homeOf is who is asked about the resource, and to change it: only a broker knows its own configuration, and takes no changes of another's. "" is any.
func (c *Client) homeOf(ctx context.Context, r Resource) (string, error) {
	if r.kind != kmsg.ConfigResourceTypeBroker || r.name == "" {
		return "", nil
	}
	brokers, err := c.Brokers(ctx)
	if err != nil {
		return "", err
	}
	for _, b := range brokers {
		if strconv.Itoa(int(b.ID)) == r.name {
			return b.Addr, nil
		}
	}
	return "", fmt.Errorf("there is no %s", r)
}

// Config is a configuration key of a resource.
type Config struct {
	Name      string
	Value     *string // nil: none, or secret
	Set       bool    // for the resource itself; else it is what its broker or all brokers have, or the built-in default
	Sensitive bool
}

// Configs are the configuration keys of a resource, by name. ErrNoTopic when it is a topic that does not exist.
func (c *Client) Configs(ctx context.Context, of Resource) (all []Config, err error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = of.kind, of.name
	req.Resources = append(req.Resources, r)
	addr, err := c.homeOf(ctx, of)
	if err != nil {
		return nil, err
	}
	err = retry(ctx, func() error {
		resp, err := c.ask(ctx, addr, req, -1)
		if err != nil {
			return err
		}
		for i := range resp.(*kmsg.DescribeConfigsResponse).Resources {
			if a := &resp.(*kmsg.DescribeConfigsResponse).Resources[i]; a.ResourceName == of.name {
				all = configsOf(of, a, resp.GetVersion())
				return of.error(a.ErrorCode, a.ErrorMessage)
			}
		}
		return notTold(req, of.String())
	})
	return all, err
}

func configsOf(of Resource, r *kmsg.DescribeConfigsResponseResource, version int16) (all []Config) {
	for i := range r.Configs {
		c := &r.Configs[i]
		set := c.Source == sourceOf(of)
		if version == 0 {
			set = !c.IsDefault
		}
		all = append(all, Config{c.Name, c.Value, set, c.IsSensitive})
	}
	slices.SortFunc(all, func(a, b Config) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// sourceOf is where a value comes from that was set for the resource itself.
func sourceOf(r Resource) kmsg.ConfigSource {
	switch {
	case r.kind == kmsg.ConfigResourceTypeTopic:
		return kmsg.ConfigSourceDynamicTopicConfig
	case r.kind == kmsg.ConfigResourceTypeGroupConfig:
		return kmsg.ConfigSourceGroupConfig
	case r.name == "":
		return kmsg.ConfigSourceDynamicDefaultBrokerConfig
	}
	return kmsg.ConfigSourceDynamicBrokerConfig
}

// AlterConfigs sets and takes back (to the default) configuration keys of a resource, all or none, or only asks whether that could be done.
// ErrNoTopic when it is a topic that does not exist.
func (c *Client) AlterConfigs(ctx context.Context, of Resource, set map[string]string, reset []string, validateOnly bool) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validateOnly
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = of.kind, of.name
	for _, key := range slices.Sorted(maps.Keys(set)) {
		v := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		value := set[key]
		v.Name, v.Value, v.Op = key, &value, kmsg.IncrementalAlterConfigOpSet
		r.Configs = append(r.Configs, v)
	}
	for _, key := range reset {
		v := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		v.Name, v.Op = key, kmsg.IncrementalAlterConfigOpDelete
		r.Configs = append(r.Configs, v)
	}
	req.Resources = append(req.Resources, r)
	addr, err := c.homeOf(ctx, of)
	if err != nil {
		return err
	}
	return c.change(ctx, addr, req, func(resp kmsg.Response) error {
		for i := range resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
			if a := &resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[i]; a.ResourceName == of.name {
				return of.error(a.ErrorCode, a.ErrorMessage)
			}
		}
		return notTold(req, of.String())
	})
}

// LogDir is a directory of a broker in which partitions are.
type LogDir struct {
	Path          string
	Err           error // it is offline
	Total, Usable int64 // bytes of its file system; -1: the broker does not tell
	Sizes         map[Partition]int64
}

// LogDirs are the directories of a broker, with the sizes of these partitions; nil is all there are.
func (c *Client) LogDirs(ctx context.Context, b Broker, partitions []Partition) (all []LogDir, err error) {
	req := kmsg.NewPtrDescribeLogDirsRequest()
	byTopic := map[string][]int32{}
	for _, p := range partitions {
		byTopic[p.Topic] = append(byTopic[p.Topic], p.Index)
	}
	for _, name := range slices.Sorted(maps.Keys(byTopic)) {
		t := kmsg.NewDescribeLogDirsRequestTopic()
		t.Topic, t.Partitions = name, byTopic[name]
		req.Topics = append(req.Topics, t)
	}
	resp, err := c.ask(ctx, b.Addr, req, -1)
	if err != nil {
		return nil, err
	}
	if err := rpc.ErrorOf(resp.(*kmsg.DescribeLogDirsResponse).ErrorCode, nil, "broker "+b.String()); err != nil {
		return nil, err
	}
	for i := range resp.(*kmsg.DescribeLogDirsResponse).Dirs {
		d := &resp.(*kmsg.DescribeLogDirsResponse).Dirs[i]
		dir := LogDir{d.Dir, rpc.ErrorOf(d.ErrorCode, nil, d.Dir), -1, -1, map[Partition]int64{}}
		if resp.GetVersion() >= 4 {
			dir.Total, dir.Usable = d.TotalBytes, d.UsableBytes
		}
		for j := range d.Topics {
			for _, p := range d.Topics[j].Partitions {
				if !p.IsFuture {
					dir.Sizes[Partition{d.Topics[j].Topic, p.Partition}] = p.Size
				}
			}
		}
		all = append(all, dir)
	}
	return all, nil
}
