package broker

import (
	"fmt"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// Every key gets its answer: groups have a coordinator at once, transactions have none yet. A request with more keys than anyone has groups ends its
// connection instead of taking gigabytes (R14).
func TestFindCoordinator(t *testing.T) {
	n := start(t, quickGroups...)
	c := n.dial()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.SetVersion(6)
	req.CoordinatorKeys = []string{"a", "b", "a"}
	resp := do[*kmsg.FindCoordinatorResponse](c, req)
	if len(resp.Coordinators) != 3 || resp.Coordinators[1].Key != "b" {
		t.Fatalf("%+v", resp)
	}
	for _, k := range resp.Coordinators {
		wantCode(t, k.ErrorCode, protocol.None)
		if addr := net.JoinHostPort(k.Host, fmt.Sprint(k.Port)); k.NodeID != 1 || addr != n.addr() {
			t.Fatalf("%+v", k)
		}
	}
	if topic := n.b.meta.Image().Topic(offsetsTopic); topic == nil || !topic.Internal || len(topic.Partitions) != 5 || topic.Config["cleanup.policy"] != "compact" {
		t.Fatalf("%+v", topic)
	}
	old := kmsg.NewPtrFindCoordinatorRequest()
	old.CoordinatorKey = "a"
	if resp := do[*kmsg.FindCoordinatorResponse](c, old); resp.ErrorCode != 0 || resp.NodeID != 1 {
		t.Fatalf("%+v", resp)
	}
	req.CoordinatorType = transactionCoordinator
	wantCode(t, do[*kmsg.FindCoordinatorResponse](c, req).Coordinators[0].ErrorCode, protocol.CoordinatorNotAvailable)
	req.CoordinatorKeys = make([]string, maxCoordinatorKeys+1)
	c.send(req)
	c.wantClosed()
	n.dial().create("t", 1)
}
