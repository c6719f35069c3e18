package netio

import "time"

const (
	// netWriteBuffer is where answers are put together; pieces of half that size and more are written as they are.
	netWriteBuffer = 64 << 10
	// netWriteBatch is how many answers are sent without looking at the state of the connection.
	netWriteBatch = 64
	// lingerTime and lingerBytes bound the wait for the peer of a connection that ends after an answer, see goodbye.
	lingerTime  = 50 * time.Millisecond
	lingerBytes = 256 << 10
)

// write is the writer goroutine.
func (c *netConn) write() {
	defer c.exit()
	var batch [netWriteBatch]*Call
	for {
		calls := c.takeBatch(batch[:0])
		if len(calls) == 0 {
			return
		}
		last := calls[len(calls)-1].resp.Close
		err := c.writeBatch(calls)
		c.retire(calls)
		clear(batch[:])
		if err != nil {
			c.fail(err)
			return
		}
		if last {
			c.goodbye(ErrClosed)
			return
		}
	}
}

// takeBatch waits for completed answers and appends them to calls; none: the connection has ended. They stay in the
// pipeline until they are sent, for they count.
func (c *netConn) takeBatch(calls []*Call) []*Call {
	c.mu.Lock()
	for c.mu.reason == nil && !c.mu.pipe.sendable() {
		if c.mu.pipe.head == nil && c.mu.inputEnded != nil {
			why := c.mu.inputEnded
			c.mu.Unlock()
			c.goodbye(why)
			return nil
		}
		c.hasWork.Wait()
	}
	defer c.mu.Unlock()
	if c.mu.reason != nil {
		return nil
	}
	for call := c.mu.pipe.head; call != nil && call.done && len(calls) < cap(calls); call = call.next {
		calls = append(calls, call)
		if call.resp.Close {
			break
		}
	}
	return calls
}

// retire removes sent answers from the pipeline and releases what they hold.
func (c *netConn) retire(calls []*Call) {
	c.mu.Lock()
	for range calls {
		c.srv.popped(c.mu.pipe.pop())
	}
	c.mayGo.Signal()
	c.mu.Unlock()
	for _, call := range calls {
		c.srv.finish(call)
	}
}

// goodbye ends the connection after its last answer. Closing a socket with unread bytes resets it, which may destroy the
// answer on its way; so say first that nothing more comes, and read for a moment.
func (c *netConn) goodbye(reason error) {
	if c.tls != nil {
		c.tls.CloseWrite()
	}
	socket := c.socket()
	if s, ok := socket.(interface{ CloseWrite() error }); ok && s.CloseWrite() == nil {
		socket.SetReadDeadline(time.Now().Add(lingerTime))
		discard := make([]byte, netReadBuffer)
		for n := 0; n < lingerBytes; {
			k, err := socket.Read(discard)
			if err != nil {
				break
			}
			n += k
		}
	}
	c.fail(reason)
}

// writeBatch sends answers, gathering small pieces.
func (c *netConn) writeBatch(calls []*Call) error {
	if len(calls) == 1 && calls[0].pieces() == 1 {
		return c.writeBytes(calls[0].resp.Body)
	}
	buffer := NewFrame(netWriteBuffer)
	defer buffer.Release()
	w := netWriter{conn: c, buf: buffer.B}
	for _, call := range calls {
		if err := w.putCall(call); err != nil {
			return err
		}
	}
	return w.flush()
}

func (c *netConn) writeBytes(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := c.nc.Write(b)
	c.active(&c.srv.bytesOut, n)
	return err
}

// netWriter gathers pieces in buf[:n].
type netWriter struct {
	conn *netConn
	buf  []byte
	n    int
}

func (w *netWriter) flush() error {
	n := w.n
	w.n = 0
	return w.conn.writeBytes(w.buf[:n])
}

func (w *netWriter) putCall(call *Call) error {
	for i := range call.pieces() {
		b, file, off, n := call.piece(i)
		var err error
		if file != nil {
			err = w.putRange(file, off, n)
		} else {
			err = w.putBytes(b)
		}
		if err != nil {
			return err
		}
		call.releasePiece(i)
	}
	return nil
}

func (w *netWriter) putBytes(b []byte) error {
	if w.n+len(b) > len(w.buf) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(b) >= len(w.buf)/2 {
		if err := w.flush(); err != nil {
			return err
		}
		return w.conn.writeBytes(b)
	}
	w.n += copy(w.buf[w.n:], b)
	return nil
}

func (w *netWriter) putRange(file FileRef, off int64, n int) error {
	for n > 0 {
		if w.n == len(w.buf) {
			if err := w.flush(); err != nil {
				return err
			}
		}
		k := min(n, len(w.buf)-w.n)
		if err := readRange(file, w.buf[w.n:w.n+k], off); err != nil {
			return err
		}
		w.n += k
		off += int64(k)
		n -= k
	}
	return nil
}
