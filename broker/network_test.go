package broker

import (
	"context"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/netio"
	"github.com/leatmq/leat/protocol"
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

// A time limit that is over is one for the connections: what follows takes as long as it needs, and nothing is wrong with that.
func TestCloseAfterItsTime(t *testing.T) {
	n := start(t)
	n.dial().create("t", 1)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	n.closed = true
	if err := n.b.Close(over); err != nil {
		t.Error(err)
	}
	n.gone()
}

// stubConn is a connection that has nothing but what the broker keeps with it.
type stubConn struct {
	netio.Conn
	data any
}

func (c *stubConn) Data() any                 { return c.data }
func (c *stubConn) LocalAddr() netip.AddrPort { return netip.AddrPort{} }

// A topic may go between the look that lets a Metadata request run on the loop and its answer: nothing is created there, for the loop would wait for the disk.
func TestMetadataOnTheLoopCreatesNothing(t *testing.T) {
	n := start(t)
	ask := func(onLoop bool) protocol.Code {
		req := metadataRequest(9, "gone")
		req.AllowAutoTopicCreation = true
		r := &request{call: &netio.Call{Conn: &stubConn{}}, msg: req, onLoop: onLoop}
		return protocol.Code(handleMetadata(n.b, r).(*kmsg.MetadataResponse).Topics[0].ErrorCode)
	}
	if code := ask(true); code != protocol.UnknownTopicOrPartition {
		t.Errorf("on the loop: %v", code)
	}
	if code := ask(false); code != protocol.None {
		t.Errorf("on a worker: %v", code)
	}
}

// The size of an answer is an int32, whatever fetch.max.bytes says.
func TestFetchAnswerFitsItsSize(t *testing.T) {
	n := start(t, "fetch.max.bytes=2147483647")
	r := new(request)
	r.fetch.b, r.fetch.r = n.b, r
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes = 4, math.MaxInt32
	r.header.Key, r.header.Version, r.body = protocol.KeyFetch, 4, req.AppendTo(nil)
	if err := r.fetch.decode(); err != nil || r.fetch.maxBytes > answerBytesMax {
		t.Errorf("%d bytes, %v", r.fetch.maxBytes, err)
	}
}
