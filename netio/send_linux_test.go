package netio

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A sendfile that sends less than it was asked to has filled the socket: that is told at once, without another system call to hear it.
func TestShortSendfileIsAFullSocket(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	const size = 8 << 20
	content := tempFile(t, pattern(size))
	c := &epollConn{fd: ends[0]}
	c.pipe.push(&Call{part: 1, resp: Response{Parts: []Part{{File: content, N: size}}}})
	if n, err := c.sendRange(4 << 10); n != 4<<10 || err != nil {
		t.Fatalf("a range that fits: %d bytes, %v", n, err)
	}
	c.pipe.head.off = 4 << 10
	n, err := c.sendRange(size)
	if n <= 0 || n >= size-4<<10 || err != unix.EAGAIN {
		t.Fatalf("a range that does not fit: %d bytes, %v", n, err)
	}
}
