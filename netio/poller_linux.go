package netio

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller watches the descriptors of one loop with epoll(7), level-triggered, and runs tasks that other goroutines post.
//
// The loop does not block in epoll_wait. The epoll descriptor itself is in the Go runtime's poller: while nothing is ready the goroutine is parked like one that
// reads from a socket, and the thread does something else. A thread that blocked in a system call would keep its processor (in the sense of GOMAXPROCS) until the
// runtime's monitor takes it away, and a monitor that has something to take away runs every 20 us.
type poller struct {
	fd     int // the epoll descriptor; file owns it
	file   *os.File
	raw    syscall.RawConn
	look   func(uintptr) bool // asks epoll once; made once, for it would be an allocation each time
	events []unix.EpollEvent
	n      int // events that the last look found
	err    error

	tasks struct {
		sync.Mutex
		list, spare []task
		posted      bool // taskFd is readable, or about to be
	}
	taskFd int // an eventfd in epoll
}

type task struct {
	fn  func(any) error
	arg any
}

// errEnd returned by a task ends the poller's run.
var errEnd = errors.New("netio: the loop was told to end")

const (
	pollEventsMin = 128
	pollEventsMax = 1024

	readEvents  = unix.EPOLLIN | unix.EPOLLPRI
	writeEvents = unix.EPOLLOUT
)

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	p := &poller{fd: fd, taskFd: -1, events: make([]unix.EpollEvent, pollEventsMin)}
	p.look = p.lookOnce
	// Nobody reads from an epoll descriptor; nonblocking is what makes os.NewFile hand it to the runtime's poller.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p.file = os.NewFile(uintptr(fd), "epoll")
	p.raw, err = p.file.SyscallConn()
	if err == nil {
		p.taskFd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	}
	if err == nil {
		err = p.add(p.taskFd, readEvents|unix.EPOLLET)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("netio: %w", err)
	}
	return p, nil
}

// close gives the descriptors back. The caller has seen to it that nobody posts any more.
func (p *poller) close() {
	if p.taskFd >= 0 {
		unix.Close(p.taskFd)
	}
	p.file.Close()
}

func (p *poller) add(fd int, events uint32) error { return p.control(unix.EPOLL_CTL_ADD, fd, events) }
func (p *poller) mod(fd int, events uint32) error { return p.control(unix.EPOLL_CTL_MOD, fd, events) }
func (p *poller) remove(fd int) error             { return p.control(unix.EPOLL_CTL_DEL, fd, 0) }

func (p *poller) control(op, fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, op, fd, &unix.EpollEvent{Fd: int32(fd), Events: events}))
}

// post lets the loop run fn(arg), in the order of posting, between two looks at the descriptors. The caller sees to it that the poller is not closed.
func (p *poller) post(fn func(any) error, arg any) {
	p.tasks.Lock()
	defer p.tasks.Unlock()
	p.tasks.list = append(p.tasks.list, task{fn, arg})
	if !p.tasks.posted {
		p.tasks.posted = true
		unix.Write(p.taskFd, one)
	}
}

// run calls onEvent for each ready descriptor until a task returns errEnd (then it returns nil) or epoll fails. A descriptor may have been closed, and even
// reused, earlier in the same batch of events.
func (p *poller) run(onEvent func(fd int, events uint32)) error {
	for {
		if err := p.wait(); err != nil {
			return err
		}
		posted := false
		for i := range p.n {
			if ev := &p.events[i]; int(ev.Fd) == p.taskFd {
				posted = true
			} else {
				onEvent(int(ev.Fd), ev.Events)
			}
		}
		if posted && p.runTasks() {
			return nil
		}
		if p.n == len(p.events) && p.n < pollEventsMax {
			p.events = make([]unix.EpollEvent, 2*p.n)
		}
	}
}

// runTasks runs what was posted up to now and tells whether one of them was the end. What is posted meanwhile has its turn after the descriptors.
func (p *poller) runTasks() (end bool) {
	p.tasks.Lock()
	list := p.tasks.list
	p.tasks.list, p.tasks.posted = p.tasks.spare[:0], false
	p.tasks.Unlock()
	for i := range list {
		if list[i].fn(list[i].arg) == errEnd {
			end = true
		}
	}
	clear(list)
	p.tasks.spare = list
	return end
}

// wait parks until at least one descriptor is ready.
func (p *poller) wait() error {
	if err := p.raw.Read(p.look); err != nil {
		return err
	}
	return p.err
}

func (p *poller) lookOnce(fd uintptr) bool {
	// Does not block, so the scheduler need not know.
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	switch errno {
	case 0:
		p.n = int(n)
		return n > 0
	case unix.EINTR:
		p.n = 0
		return true
	}
	p.n, p.err = 0, os.NewSyscallError("epoll_pwait", errno)
	return true
}
