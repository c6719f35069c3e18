package broker

import (
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What Kafka's numbers mean is kept where netio has other words for them.
func TestNetworkOptions(t *testing.T) {
	const longest = math.MaxInt64 / 1_000_000 * time.Millisecond
	cfg, err := testConfig(t, "queued.max.request.bytes=-1", "max.connections=0", "max.connections.per.ip=0", "connections.max.idle.ms=-1").Broker()
	if err != nil {
		t.Fatal(err)
	}
	if o := networkOptions(cfg); o.FrameBytesLimit != math.MaxInt64 || o.MaxConnections >= 0 || o.MaxPerIP >= 0 || o.IdleTimeout >= 0 {
		t.Errorf("%+v", o)
	}
	for ms, want := range map[int64]time.Duration{0: time.Millisecond, 1: time.Millisecond, 18446744073710: longest, math.MaxInt64: longest} {
		cfg.ConnectionsMaxIdleMs = ms
		if o := networkOptions(cfg); o.IdleTimeout != want {
			t.Errorf("%d ms: %v", ms, o.IdleTimeout)
		}
	}
}

// Kafka's default of queued.max.request.bytes stands in many a server.properties.
func TestNoLimitOfRequestBytes(t *testing.T) {
	n := start(t, "queued.max.request.bytes=-1")
	do[*kmsg.ApiVersionsResponse](n.dial(), kmsg.NewPtrApiVersionsRequest())
}

// max.connections is the broker's limit, not each listener's.
func TestConnectionsOfAllListeners(t *testing.T) {
	n := start(t, "listeners=A://127.0.0.1:0,B://127.0.0.1:0", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT", "max.connections=1")
	first := dialTo(t, n.b.Addrs()[0].String())
	do[*kmsg.ApiVersionsResponse](first, kmsg.NewPtrApiVersionsRequest())
	second := dialTo(t, n.b.Addrs()[1].String())
	if _, err := second.readFrame(); err == nil {
		t.Error("a second connection was taken")
	}
}
