package netio

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller watches the descriptors of one loop with epoll(7), level-triggered, and runs tasks that other goroutines post.
//
// Before it blocks it looks once more, after it has let other goroutines run: what a loop does is often answered by them at once. To have the epoll descriptor watched by
// the Go runtime's poller, and the goroutine parked, was tried: docs/ARCHITECTURE.md.
type poller struct {
	fd     int // the epoll descriptor
	events []unix.EpollEvent

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
	p.taskFd, err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
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
	unix.Close(p.fd)
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
		n, err := p.wait()
		if err != nil {
			return err
		}
		posted := false
		for i := range n {
			if ev := &p.events[i]; int(ev.Fd) == p.taskFd {
				posted = true
			} else {
				onEvent(int(ev.Fd), ev.Events)
			}
		}
		if posted && p.runTasks() {
			return nil
		}
		if n == len(p.events) && n < pollEventsMax {
			p.events = make([]unix.EpollEvent, 2*n)
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

// wait returns how many descriptors are ready, at least one.
func (p *poller) wait() (n int, err error) {
	if n, err = p.look(); n > 0 || err != nil {
		return n, err
	}
	runtime.Gosched()
	for {
		n, err = unix.EpollWait(p.fd, p.events, -1)
		switch {
		case n > 0:
			return n, nil
		case err != nil && err != unix.EINTR:
			return 0, os.NewSyscallError("epoll_wait", err)
		}
	}
}

// look does not block, so the scheduler need not know of the system call.
func (p *poller) look() (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])), uintptr(len(p.events)), 0, 0, 0)
	if errno != 0 && errno != unix.EINTR {
		return 0, os.NewSyscallError("epoll_pwait", errno)
	}
	if errno != 0 {
		return 0, nil
	}
	return int(n), nil
}
