package broker

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// ListConfigResources (74), versions 0-1: what has configurations: every topic and broker, and the groups that have configs of their own. v0 asks for client
// metrics subscriptions, which are not there; v1 for types, none meaning all. Loggers of brokers are not listed: their levels cannot be asked for here.

func handleListConfigResources(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.ListConfigResourcesRequest)
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	if req.Version == 0 {
		return resp
	}
	known := []kmsg.ConfigResourceType{kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeBrokerLogger,
		kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeTopic}
	for _, kind := range req.ResourceTypes {
		if !slices.Contains(known, kmsg.ConfigResourceType(kind)) {
			resp.ErrorCode = int16(protocol.UnsupportedVersion)
			return resp
		}
	}
	for _, kind := range known {
		if len(req.ResourceTypes) > 0 && !slices.Contains(req.ResourceTypes, int8(kind)) {
			continue
		}
		for _, name := range b.configResources(kind) {
			a := kmsg.NewListConfigResourcesResponseConfigResource()
			a.Type, a.Name = int8(kind), name
			resp.ConfigResources = append(resp.ConfigResources, a)
		}
	}
	return resp
}

// configResources is the names of a kind of resource.
func (b *Broker) configResources(kind kmsg.ConfigResourceType) (names []string) {
	image := b.meta.Image()
	switch kind {
	case kmsg.ConfigResourceTypeGroupConfig:
		names = image.ConfiguredGroups()
	case kmsg.ConfigResourceTypeBroker:
		for _, n := range image.Brokers() {
			names = append(names, strconv.Itoa(int(n.ID)))
		}
	case kmsg.ConfigResourceTypeTopic:
		for _, t := range image.Topics() {
			names = append(names, t.Name)
		}
	}
	return names
}
