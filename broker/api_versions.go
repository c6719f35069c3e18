package broker

import (
	"regexp"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// ApiVersions (18), versions 0-5: what this broker can do. The list is the table protocol.APIs. Version 5 (KIP-1242) names the cluster and node
// the client thinks it talks to. An unknown version gets a v0 answer with UNSUPPORTED_VERSION: see dispatch.

var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func handleAPIVersions(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.ApiVersionsRequest)
	if code := b.checkAPIVersions(req); code != protocol.None {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode = int16(code)
		return resp
	}
	return protocol.APIVersions(req.Version, protocol.Features, b.meta.Image().Offset())
}

func (b *Broker) checkAPIVersions(req *kmsg.ApiVersionsRequest) protocol.Code {
	if req.Version < 3 {
		return protocol.None
	}
	if !softwareName.MatchString(req.ClientSoftwareName) || !softwareName.MatchString(req.ClientSoftwareVersion) {
		return protocol.InvalidRequest
	}
	if req.Version < 5 {
		return protocol.None
	}
	if (req.ClusterID == nil) != (req.NodeID == -1) {
		return protocol.InvalidRequest
	}
	if req.ClusterID != nil && (*req.ClusterID != b.engine.ClusterID() || req.NodeID != b.nodeID) {
		return protocol.RebootstrapRequired
	}
	return protocol.None
}
