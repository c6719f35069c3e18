package broker

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// DescribeCluster (60), versions 0-2: the brokers, the cluster's id and who decides. Endpoint type 2 (controllers) is for controller listeners.

// The bits of "authorized operations" without an authorizer: every operation that exists for the resource.
const (
	clusterOperations   = 1<<5 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12
	topicOperations     = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	operationsNotWanted = -1 << 31
)

func handleDescribeCluster(b *Broker, r *request) kmsg.Response {
	req := r.msg.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ClusterAuthorizedOperations, resp.ControllerID = operationsNotWanted, -1
	resp.EndpointType = 1
	if req.Version >= 1 && req.EndpointType != 1 {
		code, text := protocol.UnsupportedEndpointType, "unknown endpoint type: only brokers (1) are described"
		if req.EndpointType == 2 {
			code, text = protocol.MismatchedEndpointType, "this is a broker's listener, not a controller's: ask for brokers (1)"
		}
		resp.ErrorCode, resp.ErrorMessage = int16(code), &text
		return resp
	}
	resp.ClusterID, resp.ControllerID = b.engine.ClusterID(), b.nodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	for _, n := range b.meta.Image().Brokers() {
		if n.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		e := kmsg.NewDescribeClusterResponseBroker()
		e.NodeID, e.Rack, e.IsFenced = n.ID, optional(n.Rack), n.Fenced
		e.Host, e.Port = b.address(n, r.call.Conn)
		resp.Brokers = append(resp.Brokers, e)
	}
	return resp
}

// optional is null for the empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
