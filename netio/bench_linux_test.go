package netio

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	benchRange  = 256 << 10
	benchRanges = 4
)

// BenchmarkFetchVsSendfile compares a fetch of 4 ranges of 256 KiB with headers between them, asked through a server, with a
// bare loop that sends the same range by sendfile to a client that also asks for each. The two take turns, so that both see
// the same machine. "ratio" is server time / bare time: 1.0 is the goal.
func BenchmarkFetchVsSendfile(b *testing.B) {
	content := tempFile(b, pattern(benchRange*benchRanges))
	served := newFetchServer(b, content)
	bare := newBareSendfile(b, content)
	b.SetBytes(benchRange * benchRanges)
	var server, loop time.Duration
	for b.Loop() {
		t0 := time.Now()
		served.fetch(b)
		t1 := time.Now()
		bare.fetch(b)
		server += t1.Sub(t0)
		loop += time.Since(t1)
	}
	b.ReportMetric(float64(server)/float64(loop), "ratio")
	b.ReportMetric(float64(server.Microseconds())/float64(b.N), "server-us/op")
	b.ReportMetric(float64(loop.Microseconds())/float64(b.N), "bare-us/op")
}

// fetcher asks with 5 bytes and throws away total bytes (MSG_TRUNC: the kernel does not copy them).
type fetcher struct {
	fd    int
	total int
}

func (f *fetcher) fetch(b *testing.B) {
	if _, err := unix.Write(f.fd, []byte{0, 0, 0, 1, 'f'}); err != nil {
		b.Fatal(err)
	}
	for n := 0; n < f.total; {
		k, err := discard(f.fd, f.total-n)
		if err != nil || k == 0 {
			b.Fatal(k, err)
		}
		n += k
	}
}

var discardBuffer [1 << 20]byte

func discard(fd, n int) (int, error) {
	for {
		k, _, err := unix.Recvfrom(fd, discardBuffer[:min(n, len(discardBuffer))], unix.MSG_TRUNC)
		if err != unix.EINTR {
			return k, err
		}
	}
}

const benchHeader = 32

func newFetchServer(b *testing.B, content *file) *fetcher {
	header := make([]byte, benchHeader)
	total := (benchHeader + benchRange) * benchRanges
	binary.BigEndian.PutUint32(header, uint32(total-4))
	h := newTestHandler(func(c *Call) {
		parts, _ := c.User.([]Part)
		if parts == nil {
			parts = make([]Part, 2*benchRanges)
			c.User = parts
		}
		for i := range benchRanges {
			parts[2*i] = Part{B: header}
			parts[2*i+1] = Part{File: content, Off: int64(i * benchRange), N: benchRange}
		}
		c.Complete(Response{Parts: parts})
	})
	s := start(b, Options{Handler: h, Driver: "epoll", Loops: 1})
	fd := rawDial(b, s.Addr().(*net.TCPAddr).Port)
	b.Cleanup(func() { unix.Close(fd) })
	return &fetcher{fd: fd, total: total}
}

// newBareSendfile is the least that can be done: wait for the request, sendfile the whole content, repeat.
func newBareSendfile(b *testing.B, content *file) *fetcher {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	fd := rawDial(b, ln.Addr().(*net.TCPAddr).Port)
	conn, err := ln.Accept()
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); bareSendfile(conn.(*net.TCPConn), int(content.File.Fd())) }()
	b.Cleanup(func() {
		unix.Close(fd)
		<-done
	})
	return &fetcher{fd: fd, total: benchRange * benchRanges}
}

func bareSendfile(conn *net.TCPConn, file int) {
	defer conn.Close()
	sc, _ := conn.SyscallConn()
	req := make([]byte, 5)
	for {
		if _, err := io.ReadFull(conn, req); err != nil {
			return
		}
		off := int64(0)
		sc.Write(func(fd uintptr) bool {
			for off < benchRange*benchRanges {
				_, err := unix.Sendfile(int(fd), file, &off, benchRange*benchRanges-int(off))
				if err != nil && err != unix.EINTR {
					return err != unix.EAGAIN
				}
			}
			return true
		})
	}
}
