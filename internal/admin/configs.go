package admin

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
)

// Config is a configuration key of a topic.
type Config struct {
	Name      string
	Value     *string // nil: none, or secret
	Set       bool    // for the topic itself; else it is the broker's or the built-in default
	Sensitive bool
}

// TopicConfigs are the configuration keys of a topic, by name. ErrNoTopic when there is none.
func (c *Client) TopicConfigs(ctx context.Context, name string) (all []Config, err error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
	req.Resources = append(req.Resources, r)
	err = retry(ctx, func() error {
		resp, err := c.ask(ctx, "", req, -1)
		if err != nil {
			return err
		}
		for i := range resp.(*kmsg.DescribeConfigsResponse).Resources {
			if a := &resp.(*kmsg.DescribeConfigsResponse).Resources[i]; a.ResourceName == name {
				all = configsOf(a, resp.GetVersion())
				return topicError(a.ErrorCode, a.ErrorMessage, name)
			}
		}
		return notTold(req, name)
	})
	return all, err
}

func configsOf(r *kmsg.DescribeConfigsResponseResource, version int16) (all []Config) {
	for i := range r.Configs {
		c := &r.Configs[i]
		set := c.Source == kmsg.ConfigSourceDynamicTopicConfig
		if version == 0 {
			set = !c.IsDefault
		}
		all = append(all, Config{c.Name, c.Value, set, c.IsSensitive})
	}
	slices.SortFunc(all, func(a, b Config) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// AlterTopicConfigs sets and takes back (to the broker's default) configuration keys of a topic, all or none, or only asks whether that could be done.
// ErrNoTopic when there is none.
func (c *Client) AlterTopicConfigs(ctx context.Context, name string, set map[string]string, reset []string, validateOnly bool) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validateOnly
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, name
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
	return c.change(ctx, req, func(resp kmsg.Response) error {
		for i := range resp.(*kmsg.IncrementalAlterConfigsResponse).Resources {
			if a := &resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[i]; a.ResourceName == name {
				return topicError(a.ErrorCode, a.ErrorMessage, name)
			}
		}
		return notTold(req, name)
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
