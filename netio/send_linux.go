package netio

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// writeBudget is how much one connection may send before others get their turn.
	writeBudget = 2 << 20
	// inlineRange is up to which length a file range is read and sent together with the bytes around it: one system call
	// less. Longer ranges are cheaper by sendfile.
	inlineRange = 8 << 10
	maxIovecs   = 64
)

// sender is a loop's scratch for one sendmsg.
type sender struct {
	iovecs  [maxIovecs]unix.Iovec
	count   int
	bytes   int
	used    int // bytes of loop.scratch in use
	message unix.Msghdr
}

func (s *sender) reset() {
	clear(s.iovecs[:s.count])
	s.count, s.bytes, s.used = 0, 0, 0
}

func (s *sender) add(b []byte) {
	v := &s.iovecs[s.count]
	v.Base = &b[0]
	v.SetLen(len(b))
	s.count++
	s.bytes += len(b)
}

// send sends what was added. It returns EAGAIN as an error like any other.
func (s *sender) send(fd int) (int, error) {
	s.message.Iov = &s.iovecs[0]
	s.message.SetIovlen(s.count)
	for {
		n, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&s.message)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// flush sends completed answers in order until there is none, the socket is full or the budget is used.
func (c *epollConn) flush() {
	c.blocked = false
	for budget := writeBudget; !c.isClosed(); {
		if !c.popSent() || !c.pipe.sendable() {
			return
		}
		if budget <= 0 {
			c.blocked = true // epoll will call again after the others
			return
		}
		n, err := c.sendSome(budget)
		if n > 0 {
			budget -= n
			c.sent(n)
		}
		if errors.Is(err, unix.EAGAIN) {
			c.blocked = true
			return
		} else if err != nil {
			c.close(err)
		}
	}
}

// popSent removes the calls whose answers are out. False: that ended the connection.
func (c *epollConn) popSent() bool {
	for c.pipe.sendable() {
		call := c.pipe.head
		if !skipEmpty(call) {
			return true
		}
		c.pipe.pop()
		c.srv.popped(call)
		last := call.resp.Close
		c.srv.finish(call)
		if last {
			c.finishClose(ErrClosed)
			return false
		}
	}
	return true
}

// skipEmpty moves the cursor past pieces without bytes; true at the end of the response.
func skipEmpty(call *Call) bool {
	for ; call.part < call.pieces(); call.part++ {
		if _, _, _, n := call.piece(call.part); n > 0 {
			return false
		}
		call.releasePiece(call.part)
	}
	return true
}

// sent moves the cursor n bytes on, over as many answers as that is.
func (c *epollConn) sent(n int) {
	c.srv.bytesOut.Add(int64(n))
	c.loop.active(c)
	call := c.pipe.head
	for n > 0 {
		if call.part == call.pieces() {
			call = call.next
			continue
		}
		_, _, _, size := call.piece(call.part)
		k := min(n, size-call.off)
		call.off += k
		n -= k
		if call.off == size {
			call.releasePiece(call.part)
			call.part++
			call.off = 0
		}
	}
}

// sendSome sends once: the bytes at hand, small file ranges among them; or, when a long range comes first, part of that.
func (c *epollConn) sendSome(budget int) (int, error) {
	s := &c.loop.out
	defer s.reset()
	if err := c.gather(budget); err != nil {
		return 0, err
	}
	if s.count == 0 {
		return c.sendRange(budget)
	}
	n, err := s.send(c.fd)
	if err != nil {
		return 0, sendError(err)
	}
	if n < s.bytes {
		return n, unix.EAGAIN // a short send means that the socket is full
	}
	return n, nil
}

func sendError(err error) error {
	if err == unix.EAGAIN {
		return err
	}
	return os.NewSyscallError("send", err)
}

// gather collects bytes from the cursor on, up to the budget, the first long range or the first answer not yet there.
func (c *epollConn) gather(budget int) error {
	s := &c.loop.out
	for call := c.pipe.head; call != nil && call.done; call = call.next {
		off := call.off
		for i := call.part; i < call.pieces(); i++ {
			if s.count == maxIovecs || s.bytes >= budget {
				return nil
			}
			b, file, fileOff, n := call.piece(i)
			if file != nil {
				if n-off > min(inlineRange, len(c.loop.scratch)-s.used) {
					return nil
				}
				var err error
				if b, err = c.inline(file, fileOff+int64(off), n-off); err != nil {
					return err
				}
			} else {
				b = b[off:]
			}
			if len(b) > 0 {
				s.add(b)
			}
			off = 0
		}
		if call.resp.Close {
			return nil
		}
	}
	return nil
}

// inline reads a small range into the loop's scratch. If the socket does not take it, it is read again later: nothing is
// held in memory for a slow peer.
func (c *epollConn) inline(file FileRef, off int64, n int) ([]byte, error) {
	s := &c.loop.out
	b := c.loop.scratch[s.used : s.used+n]
	if err := readRange(file, b, off); err != nil {
		return nil, err
	}
	s.used += n
	return b, nil
}

// sendRange sends from the long range at the cursor.
func (c *epollConn) sendRange(budget int) (int, error) {
	call := c.pipe.head
	_, file, off, size := call.piece(call.part)
	off += int64(call.off)
	left := min(size-call.off, budget)
	fd, ok := file.Fd()
	if !ok {
		return c.copyRange(file, off, min(left, len(c.loop.scratch)))
	}
	for {
		n, err := unix.Sendfile(c.fd, int(fd), &off, left)
		switch {
		case err == unix.EINTR:
			continue
		case n > 0 && n < left:
			return n, unix.EAGAIN // the socket is full; another try would only fill and empty the kernel's pipe
		case n > 0:
			return n, nil
		case err == unix.EINVAL || err == unix.ENOSYS: // a file system without splice
			return c.copyRange(file, off, min(left, len(c.loop.scratch)))
		case err != nil:
			return 0, sendfileError(err)
		}
		return 0, ErrShortFile
	}
}

func sendfileError(err error) error {
	if err == unix.EAGAIN {
		return err
	}
	return os.NewSyscallError("sendfile", err)
}

// copyRange is sendRange for a file without a descriptor, or one that sendfile does not take.
func (c *epollConn) copyRange(file FileRef, off int64, n int) (int, error) {
	b, err := c.inline(file, off, n)
	if err != nil {
		return 0, err
	}
	c.loop.out.add(b)
	sent, err := c.loop.out.send(c.fd)
	if err != nil {
		return 0, sendError(err)
	}
	return sent, nil
}
