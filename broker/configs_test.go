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
