//go:build linux

package bench

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"
)

// bareAnswer is the floor of requests that need nothing but an answer: one thread that waits for frames, reads each with one read, and writes an answer of so many
// bytes, of which only size and correlation id mean something.
func bareAnswer(ln *net.TCPListener, answer int) error {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	failed := make(chan error, 2)
	go func() { failed <- bareAccept(ln, ep) }()
	go func() { failed <- bareEcho(ep, answer) }()
	return <-failed
}

func bareAccept(ln *net.TCPListener, ep int) error {
	for {
		conn, err := ln.AcceptTCP()
		if err != nil {
			return err
		}
		f, err := conn.File() // a descriptor of its own, blocking
		if err != nil {
			return err
		}
		conn.Close()
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			return err
		}
		f.Close()
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
	}
}

func bareEcho(ep, answer int) error {
	var events [64]unix.EpollEvent
	in, out := make([]byte, 64<<10), make([]byte, answer)
	binary.BigEndian.PutUint32(out, uint32(answer-4))
	for {
		n, err := unix.EpollWait(ep, events[:], -1)
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			got, err := unix.Read(int(e.Fd), in)
			if err != nil || got == 0 { // the client is gone
				unix.Close(int(e.Fd))
				continue
			}
			copy(out[4:], in[8:12])
			if _, err := unix.Write(int(e.Fd), out); err != nil {
				return err
			}
		}
	}
}
