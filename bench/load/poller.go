package load

import (
	"errors"
	"time"
)

// poller is the sockets of a run. It is used by one thread. Connections are numbers from 0 on.
type poller interface {
	dial(addr string) (conn int, err error)
	// wait calls ready for each connection that can be read or written, once at most, after no longer than d.
	wait(d time.Duration, ready func(conn int, readable, writable bool) error) error
	// recv reads what is there: 0 bytes when there is nothing, errClosed at the end.
	recv(conn int, b []byte) (int, error)
	// discard drops up to n bytes of what is there.
	discard(conn, n int) (int, error)
	// send writes what the socket takes.
	send(conn int, b []byte) (int, error)
	wantWrite(conn int, on bool) error
	close()
}

var errClosed = errors.New("the broker closed the connection")
