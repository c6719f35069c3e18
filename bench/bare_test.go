//go:build linux

package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/leatmq/leat/internal/vfs"
)

// The floors that are servers. They know no protocol beyond the four bytes of a frame's size.

// bareConn is a connection of the bare produce server.
type bareConn struct {
	fd      int
	file    vfs.File
	pos     int64
	buf     []byte
	n       int // bytes in buf
	corrs   []uint32
	waiting []uint32 // answers due after the next sync
	dirty   bool     // is in bareProducer.dirty
}

// bareProducer reads and writes on one goroutine, syncs and answers on another.
type bareProducer struct {
	dir    string
	answer int
	epoll  int
	conns  map[int32]*bareConn
	bufs   [][]byte
	mu     struct {
		sync.Mutex
		dirty []*bareConn
	}
	wake *sync.Cond
}

const (
	bareBuffer   = 1 << 20
	bareAllocate = 256 << 20
)

// bareProduce is the floor of produce: frames are read, written with one pwritev per connection and turn, and answered with answer bytes of which only
// size and correlation id mean something, after an fdatasync of their file.
func bareProduce(ln *net.TCPListener, dir string, answer int) error {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	p := &bareProducer{dir: dir, answer: answer, epoll: ep, conns: map[int32]*bareConn{}}
	p.wake = sync.NewCond(&p.mu.Mutex)
	failed := make(chan error, 3)
	go func() { failed <- p.accept(ln) }()
	go func() { failed <- p.read() }()
	go func() { failed <- p.syncAndAnswer() }()
	return <-failed
}

func (p *bareProducer) accept(ln *net.TCPListener) error {
	for {
		conn, err := ln.AcceptTCP()
		if err != nil {
			return err
		}
		f, err := conn.File() // a descriptor of its own, blocking
		if err != nil {
			return err
		}
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			return err
		}
		f.Close()
		conn.Close()
		file, err := vfs.OS.OpenFile(filepath.Join(p.dir, fmt.Sprint(fd)), os.O_RDWR|os.O_CREATE, 0o644)
		if err == nil {
			err = file.Allocate(0, bareAllocate)
		}
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.conns[int32(fd)] = &bareConn{fd: fd, file: file, buf: make([]byte, bareBuffer)}
		p.mu.Unlock()
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
	}
}

func (p *bareProducer) read() error {
	var events [64]unix.EpollEvent
	for {
		n, err := unix.EpollWait(p.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			p.mu.Lock()
			c := p.conns[e.Fd]
			p.mu.Unlock()
			if err := p.readable(c); err != nil {
				return err
			}
		}
	}
}

// readable reads once and writes the whole frames there are.
func (p *bareProducer) readable(c *bareConn) error {
	n, err := receive(c.fd, c.buf[c.n:], 0)
	if err != nil { // the client is done
		return unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, c.fd, nil)
	}
	c.n += n
	used := 0
	c.corrs, p.bufs = c.corrs[:0], p.bufs[:0]
	for c.n-used >= 4 {
		size := 4 + int(binary.BigEndian.Uint32(c.buf[used:]))
		if c.n-used < size {
			break
		}
		c.corrs = append(c.corrs, binary.BigEndian.Uint32(c.buf[used+8:]))
		p.bufs = append(p.bufs, c.buf[used:used+size])
		used += size
	}
	if used == 0 {
		return nil
	}
	if c.pos+int64(used) > bareAllocate { // the next segment: over the old one
		c.pos = 0
		if err := c.file.Truncate(0); err != nil {
			return err
		}
		if err := c.file.Allocate(0, bareAllocate); err != nil {
			return err
		}
	}
	if _, err := c.file.WritevAt(p.bufs, c.pos); err != nil {
		return err
	}
	c.pos += int64(used)
	c.n = copy(c.buf, c.buf[used:c.n])
	p.mu.Lock()
	c.waiting = append(c.waiting, c.corrs...)
	if !c.dirty {
		c.dirty = true
		p.mu.dirty = append(p.mu.dirty, c)
		p.wake.Signal()
	}
	p.mu.Unlock()
	return nil
}

// syncAndAnswer takes the dirty connections, syncs their files side by side, and answers.
func (p *bareProducer) syncAndAnswer() error {
	for {
		p.mu.Lock()
		for len(p.mu.dirty) == 0 {
			p.wake.Wait()
		}
		round := p.mu.dirty
		p.mu.dirty = nil
		due := make([][]uint32, len(round))
		for i, c := range round {
			due[i], c.waiting, c.dirty = c.waiting, nil, false
		}
		p.mu.Unlock()
		errs := make([]error, len(round))
		var wg sync.WaitGroup
		for i, c := range round[1:] {
			wg.Go(func() { errs[i+1] = c.file.Sync() })
		}
		errs[0] = round[0].file.Sync()
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for i, c := range round {
			p.reply(c.fd, due[i])
		}
	}
}

// reply answers in one write; a client that is gone does not matter.
func (p *bareProducer) reply(fd int, corrs []uint32) {
	out := make([]byte, len(corrs)*p.answer)
	for i, corr := range corrs {
		binary.BigEndian.PutUint32(out[i*p.answer:], uint32(p.answer-4))
		binary.BigEndian.PutUint32(out[i*p.answer+4:], corr)
	}
	for len(out) > 0 {
		n, err := unix.Write(fd, out)
		if err != nil && err != unix.EINTR {
			return
		}
		out = out[max(n, 0):]
	}
}

// A request to the bare fetch server: size, correlation id, file, position, bytes. Its answer: size, correlation id, the bytes.
const bareFetchRequest = 4 + 4 + 4 + 8 + 4

// bareFetch is the floor of fetch: a thread per connection that sends ranges of files with sendfile, as they are asked for.
func bareFetch(ln *net.TCPListener, names []string) error {
	var files []int
	for _, name := range names {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", name, err)
		}
		files = append(files, fd)
	}
	for {
		conn, err := ln.AcceptTCP()
		if err != nil {
			return err
		}
		f, err := conn.File()
		if err != nil {
			return err
		}
		conn.Close()
		go func() {
			defer f.Close()
			if err := serveRanges(int(f.Fd()), files); err != nil && !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "bare fetch:", err)
			}
		}()
	}
}

func serveRanges(fd int, files []int) error {
	if err := unix.SetNonblock(fd, false); err != nil {
		return err
	}
	req, head := make([]byte, bareFetchRequest), make([]byte, answerHead)
	for {
		for n := 0; n < len(req); {
			k, err := unix.Read(fd, req[n:])
			if err != nil || k == 0 {
				return io.EOF
			}
			n += k
		}
		file := files[binary.BigEndian.Uint32(req[8:])]
		off, left := int64(binary.BigEndian.Uint64(req[12:])), int(binary.BigEndian.Uint32(req[20:]))
		binary.BigEndian.PutUint32(head, uint32(left+4))
		copy(head[4:], req[4:8])
		if err := unix.Send(fd, head, unix.MSG_MORE); err != nil {
			return err
		}
		for left > 0 {
			n, err := unix.Sendfile(fd, file, &off, left)
			if err != nil && err != unix.EINTR || n == 0 {
				return fmt.Errorf("sendfile: %d bytes, %w", n, err)
			}
			left -= n
		}
	}
}
