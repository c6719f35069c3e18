package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func alterRequest(version int16, kind kmsg.ConfigResourceType, name string, op kmsg.IncrementalAlterConfigOp, key, value string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = version
	q := kmsg.NewIncrementalAlterConfigsRequestResource()
	q.ResourceType, q.ResourceName = kind, name
	k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	k.Name, k.Op, k.Value = key, op, &value
	q.Configs = append(q.Configs, k)
	req.Resources = append(req.Resources, q)
	return req
}

// describe returns one key of a resource.
func (c *client) describe(kind kmsg.ConfigResourceType, name, key string) kmsg.DescribeConfigsResponseResourceConfig {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms = 4, true
	q := kmsg.NewDescribeConfigsRequestResource()
	q.ResourceType, q.ResourceName, q.ConfigNames = kind, name, []string{key}
	req.Resources = append(req.Resources, q)
	r := do[*kmsg.DescribeConfigsResponse](c, req).Resources[0]
	if r.ErrorCode != 0 || len(r.Configs) != 1 {
		c.t.Fatalf("describe %s of %q: %+v", key, name, r)
	}
	return r.Configs[0]
}
