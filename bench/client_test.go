//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stream is one connection of the load generator, with a fixed number of requests in flight. Its user prepares the next request's frame in prepare and
// checks an answer in check; everything between is the same for produce and fetch.
type stream struct {
	fd       int
	inflight int // wanted
	frame    []byte
	corrAt   int // of the correlation id in frame

	sent, answered int32
	sentAt         []time.Time // of request n at n % inflight

	head    []byte // the first bytes of the answer that is being read; all of it when whole is set
	need    int    // bytes of head wanted before its rest is known
	rest    int    // bytes of the answer behind head that are not read yet
	inRest  bool
	whole   bool // read this answer into memory
	prepare func(s *stream, n int32)
	// check gets the head of answer n (4 bytes of size first) and how long the answer is in all.
	check func(s *stream, n int32, head []byte, size int) error
	// wants says that answer n must be read whole.
	wants func(n int32) bool
	// records and bytes of an answered request.
	records, bytes int
}

// dialRaw connects a blocking socket.
func dialRaw(b testing.TB, addr string) int {
	b.Helper()
	a, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		b.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(fd) })
	sa := &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}
	if err := unix.Connect(fd, sa); err != nil {
		b.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		b.Fatal(err)
	}
	return fd
}

// generator drives its streams from one thread.
type generator struct {
	epoll   int
	byFD    map[int32]*stream
	streams []*stream
	buf     []byte
}

func newGenerator(b *testing.B, streams []*stream) *generator {
	b.Helper()
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(ep) })
	g := &generator{epoll: ep, byFD: map[int32]*stream{}, streams: streams, buf: make([]byte, 2<<20)}
	for _, s := range streams {
		s.sentAt = make([]time.Time, s.inflight)
		s.head = make([]byte, 0, 4096)
		g.byFD[int32(s.fd)] = s
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(s.fd)}); err != nil {
			b.Fatal(err)
		}
	}
	return g
}

// run keeps the streams' requests in flight for d and then waits for the last answers.
func (g *generator) run(b *testing.B, d time.Duration) sample {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var s sample
	begin := time.Now()
	end := begin.Add(d)
	open := 0
	for _, st := range g.streams {
		for range st.inflight {
			if err := st.send(); err != nil {
				b.Fatal(err)
			}
			open++
		}
	}
	var events [64]unix.EpollEvent
	for open > 0 {
		n, err := unix.EpollWait(g.epoll, events[:], 20_000)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			b.Fatalf("no answer within 20 s, %d requests are open (%v)", open, err)
		}
		for _, e := range events[:n] {
			st := g.byFD[e.Fd]
			done, err := st.read(g.buf, &s)
			if err != nil {
				b.Fatal(err)
			}
			open -= done
			if done > 0 && time.Now().Before(end) {
				for range done {
					if err := st.send(); err != nil {
						b.Fatal(err)
					}
				}
				open += done
			}
		}
	}
	s.elapsed = time.Since(begin)
	return s
}

func (s *stream) send() error {
	if s.prepare != nil {
		s.prepare(s, s.sent)
	}
	binary.BigEndian.PutUint32(s.frame[s.corrAt:], uint32(s.sent))
	s.sentAt[int(s.sent)%s.inflight] = time.Now()
	s.sent++
	for b := s.frame; len(b) > 0; {
		n, err := unix.Write(s.fd, b)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("write: %w", err)
		}
		b = b[max(n, 0):]
	}
	return nil
}

const answerHead = 8 // size and correlation id

// read takes what the socket has, once, and returns how many answers that completed.
func (s *stream) read(buf []byte, sum *sample) (done int, err error) {
	if s.inRest && !s.whole { // nobody looks at these; they are copied all the same, as consumers do (see bench/load, discard)
		n, err := receive(s.fd, buf[:min(s.rest, len(buf))], 0)
		if err != nil || n == 0 {
			return 0, err
		}
		return s.took(n, sum)
	}
	want := buf
	if s.need > 0 && len(s.head) == 0 && s.wants != nil { // a long answer may follow: take its head only
		want = buf[:s.need]
	}
	n, err := receive(s.fd, want, 0)
	if err != nil {
		return 0, err
	}
	for b := want[:n]; len(b) > 0; {
		if s.inRest {
			k := min(s.rest, len(b))
			s.head = append(s.head, b[:k]...)
			b = b[k:]
			d, err := s.took(k, sum)
			if err != nil {
				return done, err
			}
			done += d
			continue
		}
		need := s.headNeed()
		k := min(need-len(s.head), len(b))
		s.head = append(s.head, b[:k]...)
		b = b[k:]
		if len(s.head) < need {
			continue
		}
		d, err := s.begin(sum)
		if err != nil {
			return done, err
		}
		done += d
	}
	return done, nil
}

// headNeed is how many bytes tell what follows.
func (s *stream) headNeed() int { return max(s.need, answerHead) }

// begin looks at the head of an answer.
func (s *stream) begin(sum *sample) (int, error) {
	size := 4 + int(binary.BigEndian.Uint32(s.head))
	if size < len(s.head) {
		return 0, fmt.Errorf("an answer of %d bytes", size)
	}
	if corr := int32(binary.BigEndian.Uint32(s.head[4:])); corr != s.answered {
		return 0, fmt.Errorf("answer %d came when %d was due", corr, s.answered)
	}
	s.rest, s.inRest = size-len(s.head), true
	s.whole = s.wants == nil || s.wants(s.answered)
	return s.took(0, sum)
}

// took notes k bytes of the rest, and finishes the answer when they were the last.
func (s *stream) took(k int, sum *sample) (int, error) {
	if s.rest -= k; s.rest > 0 {
		return 0, nil
	}
	size := 4 + int(binary.BigEndian.Uint32(s.head))
	if err := s.check(s, s.answered, s.head, size); err != nil {
		return 0, fmt.Errorf("answer %d: %w", s.answered, err)
	}
	sum.latencies = append(sum.latencies, int64(time.Since(s.sentAt[int(s.answered)%s.inflight])))
	sum.ops++
	sum.records += s.records
	sum.bytes += int64(s.bytes)
	s.answered++
	s.head, s.inRest = s.head[:0], false
	return 1, nil
}

// receive reads once without blocking; 0 bytes when there is nothing.
func receive(fd int, b []byte, flags int) (int, error) {
	n, _, err := unix.Recvfrom(fd, b, flags|unix.MSG_DONTWAIT)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("recv: %w", err)
	case n == 0:
		return 0, fmt.Errorf("the broker closed the connection")
	}
	return n, nil
}
