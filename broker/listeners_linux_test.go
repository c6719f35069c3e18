package broker

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/vfs"
)

// Listeners may have one port on several addresses of the machine: a client is told the address of the listener it came by.
func TestListenersOfOnePort(t *testing.T) {
	var n *node
	var err error
	for attempt := 0; ; attempt++ {
		probe, lerr := net.Listen("tcp", "127.0.0.1:0")
		if lerr != nil {
			t.Fatal(lerr)
		}
		port := probe.Addr().(*net.TCPAddr).Port
		probe.Close()
		n, err = tryStart(t, vfs.NewMem(1), fmt.Sprintf("listeners=IN://127.0.0.1:%d,OUT://127.0.0.2:%[1]d", port),
			"advertised.listeners=IN://in.test:1,OUT://out.test:2", "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT")
		if attempt == 10 || !errors.Is(err, syscall.EADDRINUSE) { // somebody took the port meanwhile
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"in.test:1", "out.test:2"} {
		c := dialTo(t, n.b.Addrs()[i].String())
		m := do[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest())
		if got := fmt.Sprintf("%s:%d", m.Brokers[0].Host, m.Brokers[0].Port); got != want {
			t.Errorf("by %v: told %s, want %s", n.b.Addrs()[i], got, want)
		}
	}
}
