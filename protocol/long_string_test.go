package protocol

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A string that a 2-byte length cannot say is no string, compact or not: it would break whatever holds it after the request, records first of all.
func TestStringsAreShort(t *testing.T) {
	for n, ok := range map[int]bool{1<<15 - 1: true, 1 << 15: false, 40_000: false, 1 << 16: false} {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID = 1, strings.Repeat("g", n), "m"
		_, err := Decode(Header{Key: req.Key(), Version: req.Version}, req.AppendTo(nil))
		if (err == nil) != ok {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
