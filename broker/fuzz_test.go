package broker

import (
	"encoding/binary"
	"testing"

	"github.com/leatmq/leat/protocol"
)

// FuzzRequest sends a frame that may be anything to a broker, over a real connection. The broker answers properly or ends the connection, and goes on
// serving others. Seeds: a valid request of each API at its first and last version.
func FuzzRequest(f *testing.F) {
	n := start(f, "network.loops=1", "append.workers=1")
	c := n.dial()
	id := c.create("t", 1)
	for i := range protocol.APIs {
		a := &protocol.APIs[i]
		f.Add(frame(sample(a.Key, a.Min, id), 1)[4:])
		f.Add(frame(sample(a.Key, a.Max, id), 1)[4:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 64<<10 || waits(body) {
			t.Skip()
		}
		hostile := &attacker{t: t, addr: n.addr()}
		defer hostile.close()
		hostile.try(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
		if p := n.b.servers[0].server.Stats().Panics; p != 0 {
			t.Fatalf("a handler panicked:\n%s", n.logs)
		}
		hostile.close()
		if !hostile.try(frame(sample(protocol.KeyMetadata, 12, id), 1)) {
			t.Fatal("the broker does not serve others any more")
		}
	})
}

// waits tells requests that may rightly take longer than a fuzz run has patience: a Fetch with a long max_wait.
func waits(body []byte) bool {
	var h protocol.Header
	rest, err := h.Parse(body)
	if err != nil || h.Key != protocol.KeyFetch {
		return false
	}
	at := 4 // the replica id, gone since v15
	if h.Version >= 15 {
		at = 0
	}
	return len(rest) >= at+4 && int32(binary.BigEndian.Uint32(rest[at:])) > 100
}
