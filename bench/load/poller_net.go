package load

import (
	"errors"
	"io"
	"net"
	"time"
)

// netPoller has a goroutine for each connection that reads ahead one chunk. Writes block. It works everywhere and is tested everywhere.
type netPoller struct {
	conns  []*netConn
	chunks chan netChunk
	over   chan struct{} // closed at the end
}

type netConn struct {
	conn  net.Conn
	chunk []byte // not used up yet
	err   error
	next  chan struct{} // asks for the next chunk
}

type netChunk struct {
	conn int
	data []byte
	err  error
}

func newNetPoller() *netPoller {
	return &netPoller{chunks: make(chan netChunk), over: make(chan struct{})}
}

func (p *netPoller) dial(addr string) (int, error) {
	conn, err := net.DialTimeout("tcp", addr, callLimit)
	if err != nil {
		return 0, err
	}
	c := &netConn{conn: conn, next: make(chan struct{}, 1)}
	n := len(p.conns)
	p.conns = append(p.conns, c)
	go c.readAll(n, p)
	return n, nil
}

func (c *netConn) readAll(n int, p *netPoller) {
	buf := make([]byte, 256<<10)
	for {
		k, err := c.conn.Read(buf)
		select {
		case p.chunks <- netChunk{n, buf[:k], err}:
		case <-p.over:
			return
		}
		if err != nil {
			return
		}
		select {
		case <-c.next:
		case <-p.over:
			return
		}
	}
}

func (p *netPoller) wait(d time.Duration, ready func(conn int, readable, writable bool) error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case c := <-p.chunks:
		conn := p.conns[c.conn]
		conn.chunk, conn.err = c.data, c.err
		for len(conn.chunk) > 0 || conn.err != nil {
			if err := ready(c.conn, true, false); err != nil {
				return err
			}
		}
		conn.next <- struct{}{}
		return nil
	}
}

func (p *netPoller) recv(conn int, b []byte) (int, error) {
	c := p.conns[conn]
	n := copy(b, c.chunk)
	c.chunk = c.chunk[n:]
	if n == 0 && c.err != nil {
		if errors.Is(c.err, io.EOF) {
			return 0, errClosed
		}
		return 0, c.err
	}
	return n, nil
}

func (p *netPoller) discard(conn, n int) (int, error) {
	c := p.conns[conn]
	n = min(n, len(c.chunk))
	c.chunk = c.chunk[n:]
	if n == 0 && c.err != nil {
		return 0, c.err
	}
	return n, nil
}

func (p *netPoller) send(conn int, b []byte) (int, error) { return p.conns[conn].conn.Write(b) }

func (p *netPoller) wantWrite(int, bool) error { return nil }

func (p *netPoller) close() {
	close(p.over)
	for _, c := range p.conns {
		c.conn.Close()
	}
}
