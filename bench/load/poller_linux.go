package load

import (
	"errors"
	"net"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epoll is level-triggered. Requests with a timetable need waits shorter than a millisecond: epoll_pwait2 and a small timer slack.
type epoll struct {
	fd     int
	fds    []int // by connection
	events [128]unix.EpollEvent
	coarse bool // no epoll_pwait2 here
	drop   []byte
}

func newPoller() (poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0) // of this thread, in ns; without it waits are up to 50 us late
	return &epoll{fd: fd}, nil
}

func (p *epoll) close() {
	for _, fd := range p.fds {
		unix.Close(fd)
	}
	unix.Close(p.fd)
}

func (p *epoll) dial(addr string) (int, error) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return 0, err
	}
	family, sa := unix.AF_INET6, unix.Sockaddr(nil)
	if ip := a.IP.To4(); ip != nil {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(ip)}
	} else {
		sa = &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	conn := len(p.fds)
	err = unix.Connect(fd, sa)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err == nil {
		err = unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(conn)})
	}
	if err != nil {
		unix.Close(fd)
		return 0, err
	}
	p.fds = append(p.fds, fd)
	return conn, nil
}

func (p *epoll) wait(d time.Duration, ready func(conn int, readable, writable bool) error) error {
	n, err := p.pwait(d)
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range p.events[:n] {
		if err := ready(int(e.Fd), e.Events&^unix.EPOLLOUT != 0, e.Events&unix.EPOLLOUT != 0); err != nil {
			return err
		}
	}
	return nil
}

func (p *epoll) pwait(d time.Duration) (int, error) {
	if !p.coarse {
		ts := unix.NsecToTimespec(int64(d))
		n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events)), uintptr(len(p.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
		if errno == 0 {
			return int(n), nil
		}
		if errno != unix.ENOSYS {
			return 0, errno
		}
		p.coarse = true
	}
	return unix.EpollWait(p.fd, p.events[:], int((d+time.Millisecond-1)/time.Millisecond))
}

func (p *epoll) recv(conn int, b []byte) (int, error) { return p.receive(conn, b, 0) }

// discard copies the bytes to where nobody looks at them, as a consumer would copy them. MSG_TRUNC, which copies nothing, makes the kernel give back the pages of
// a file that sendfile put on the wire one by one: no consumer does that, and a broker that uses sendfile then looks half as fast as one that copies.
func (p *epoll) discard(conn, n int) (int, error) {
	if p.drop == nil {
		p.drop = make([]byte, dropBytes)
	}
	return p.receive(conn, p.drop[:min(n, dropBytes)], 0)
}

// dropBytes fit the cache of a processor.
const dropBytes = 256 << 10

func (p *epoll) receive(conn int, b []byte, flags int) (int, error) {
	n, _, err := unix.Recvfrom(p.fds[conn], b, flags)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, errClosed
	}
	return n, nil
}

func (p *epoll) send(conn int, b []byte) (int, error) {
	n, err := unix.Write(p.fds[conn], b)
	if err == unix.EAGAIN || err == unix.EINTR {
		return 0, nil
	}
	return max(n, 0), err
}

func (p *epoll) wantWrite(conn int, on bool) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(conn)}
	if on {
		e.Events |= unix.EPOLLOUT
	}
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, p.fds[conn], &e)
}
