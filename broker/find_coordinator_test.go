package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// Every key gets its answer; a request with more keys than anyone has groups ends its connection instead of taking gigabytes (R14).
func TestFindCoordinator(t *testing.T) {
	n := start(t)
	c := n.dial()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.SetVersion(6)
	req.CoordinatorKeys = []string{"a", "b", "a"}
	resp := do[*kmsg.FindCoordinatorResponse](c, req)
	if len(resp.Coordinators) != 3 || resp.Coordinators[1].Key != "b" {
		t.Fatalf("%+v", resp)
	}
	for _, k := range resp.Coordinators {
		wantCode(t, k.ErrorCode, protocol.CoordinatorNotAvailable)
	}
	req.CoordinatorKeys = make([]string, maxCoordinatorKeys+1)
	c.send(req)
	c.wantClosed()
	n.dial().create("t", 1)
}
