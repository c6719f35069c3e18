package broker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// Every failure to listen says the address once and names a way out.
func TestListenErrors(t *testing.T) {
	for _, c := range []struct {
		cause error
		want  string
	}{
		{syscall.EADDRINUSE, "cannot listen on h:1: another process has the port: stop it, or choose another address with --listen HOST:PORT (listeners); port 0 takes a free one"},
		{syscall.EACCES, "this user may not have that port"},
		{syscall.EADDRNOTAVAIL, "this machine does not have that address"},
		{&net.DNSError{Err: "no such host", Name: "h"}, "the name h has no address (no such host): choose another"},
		{syscall.EAFNOSUPPORT, "cannot listen on h:1: " + syscall.EAFNOSUPPORT.Error() + ": choose another"},
	} {
		cause := c.cause
		if _, ok := cause.(syscall.Errno); ok {
			cause = os.NewSyscallError("bind", cause)
		}
		err := error(&listenError{"h:1", "--listen HOST:PORT (listeners)", fmt.Errorf("netio: listen address %q: %w", "h:1", &net.OpError{Op: "listen", Net: "tcp", Addr: &net.TCPAddr{Port: 1}, Err: cause})})
		if !strings.Contains(err.Error(), c.want) || strings.Count(err.Error(), "h:1") != 1 || strings.Contains(err.Error(), "netio") || !errors.Is(err, c.cause) {
			t.Errorf("%v; want %s", err, c.want)
		}
	}
	n := start(t)
	_, err := tryStart(t, n.fs, "listeners=PLAINTEXT://"+n.addr())
	if err == nil || strings.Count(err.Error(), n.addr()) != 1 || !strings.Contains(err.Error(), "stop it, or choose another") {
		t.Errorf("a port in use: %v", err)
	}
}
