//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// beater sends the heartbeats of many members, each every interval at its own time or when the last one is answered, from one goroutine. All frames of a member are the same but for the
// correlation id, and all answers must say that nothing has changed.
type beater struct {
	epoll    int
	interval time.Duration
	conns    []*beatingConn // in the order of their times
	byFD     map[int32]*beatingConn
	sent     int
	answered int
	buf      []byte
}

// beatingConn is the connection of one member.
type beatingConn struct {
	*groupConn
	phase   time.Duration // of its beats within the interval
	frame   []byte
	waiting bool
}

// beat is a member with its heartbeat.
type beat struct {
	conn *groupConn
	req  kmsg.Request
}

func newBeater(b testing.TB, interval time.Duration, beats []beat) *beater {
	b.Helper()
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { unix.Close(ep) })
	g := &beater{epoll: ep, interval: interval, byFD: map[int32]*beatingConn{}, buf: make([]byte, 64<<10)}
	phases := randomPhases(len(beats), interval)
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(beats)) // members of one group do not beat one after the other
	for i, k := range order {
		c := &beatingConn{groupConn: beats[k].conn, phase: phases[i]}
		c.frame, _ = frameOf(beats[k].req)
		g.conns = append(g.conns, c)
		g.byFD[int32(c.fd)] = c
		if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(c.fd)}); err != nil {
			b.Fatal(err)
		}
	}
	return g
}

// randomPhases are n times within an interval, in order: members begin whenever they begin.
func randomPhases(n int, interval time.Duration) []time.Duration {
	rnd := rand.New(rand.NewPCG(3, 4))
	gaps, sum := make([]float64, n), 0.0
	for i := range gaps {
		gaps[i] = rnd.ExpFloat64()
		sum += gaps[i]
	}
	phases, at := make([]time.Duration, n), 0.0
	for i, gap := range gaps {
		phases[i] = time.Duration(at / sum * float64(interval))
		at += gap
	}
	return phases
}

// run beats for so many intervals, and reads the last answers. check looks at one.
func (g *beater) run(b testing.TB, intervals int, check func(c *groupConn, answer []byte) error) {
	b.Helper()
	begin, first := time.Now(), g.sent
	total := intervals * len(g.conns)
	var events [256]unix.EpollEvent
	for g.answered < first+total {
		wait := groupPatience
		if n := g.sent - first; n < total {
			c := g.conns[n%len(g.conns)]
			if wait = time.Until(begin.Add(time.Duration(n/len(g.conns))*g.interval + c.phase)); c.waiting {
				wait = groupPatience
			}
			if wait <= 0 {
				if err := g.send(c); err != nil {
					b.Fatal(err)
				}
				continue
			}
		}
		n, err := g.wait(events[:], wait)
		if err != nil && err != unix.EINTR {
			b.Fatal(err)
		}
		if n == 0 && wait == groupPatience && err == nil {
			b.Fatalf("%d heartbeats are not answered", g.sent-g.answered)
		}
		for _, e := range events[:max(n, 0)] {
			if err := g.receive(g.byFD[e.Fd], check); err != nil {
				b.Fatal(err)
			}
		}
	}
	for wait := time.Until(begin.Add(time.Duration(intervals) * g.interval)); wait > 0; wait = 0 {
		time.Sleep(wait) // the interval is over for the measure of CPU, too
	}
}

func (g *beater) send(c *beatingConn) error {
	binary.BigEndian.PutUint32(c.frame[8:], c.next)
	if n, err := unix.Write(c.fd, c.frame); err != nil || n < len(c.frame) {
		return fmt.Errorf("a heartbeat could not be sent: %d bytes, %v", n, err)
	}
	c.waiting = true
	g.sent++
	return nil
}

// receive reads an answer, which is short enough to come at once.
func (g *beater) receive(c *beatingConn, check func(*groupConn, []byte) error) error {
	n, err := unix.Read(c.fd, g.buf)
	switch {
	case err != nil:
		return err
	case n < answerHead || n != 4+int(binary.BigEndian.Uint32(g.buf)) || binary.BigEndian.Uint32(g.buf[4:]) != c.next || !c.waiting:
		return fmt.Errorf("no answer to a heartbeat: %x", g.buf[:n])
	}
	c.waiting = false
	c.next++
	g.answered++
	return check(c.groupConn, g.buf[4:n])
}

// wait waits for answers, or until it is time; its clock is finer than that of epoll_wait.
func (g *beater) wait(events []unix.EpollEvent, limit time.Duration) (int, error) {
	t := unix.NsecToTimespec(limit.Nanoseconds())
	if n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(g.epoll), Events: unix.POLLIN}}, &t, nil); n <= 0 {
		return 0, err
	}
	return unix.EpollWait(g.epoll, events, 0)
}
