//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"
)

// groupConn is the connection of a member of a group: a blocking socket with at most one request on its way. Thousands of them are driven by one
// goroutine, which sends to all of them before it reads from the first.
type groupConn struct {
	fd   int
	next uint32 // correlation id
	open kmsg.Request
	buf  []byte
}

// groupPatience is how long an answer may take.
const groupPatience = 60 * time.Second

func newGroupConn(b testing.TB, addr string) *groupConn {
	b.Helper()
	c := &groupConn{fd: dialRaw(b, addr)}
	limit := unix.NsecToTimeval(groupPatience.Nanoseconds())
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		b.Fatal(err)
	}
	return c
}

// send sends a request whose version is set.
func (c *groupConn) send(b testing.TB, req kmsg.Request) {
	b.Helper()
	if c.open != nil {
		b.Fatalf("BUG: %T is not answered yet", c.open)
	}
	frame, corrAt := frameOf(req)
	binary.BigEndian.PutUint32(frame[corrAt:], c.next)
	c.open = req
	for len(frame) > 0 {
		n, err := unix.Write(c.fd, frame)
		if err != nil && err != unix.EINTR {
			b.Fatalf("%T: %v", req, err)
		}
		frame = frame[max(n, 0):]
	}
}

// receive reads the answer to the request that was sent last.
func (c *groupConn) receive(b testing.TB) kmsg.Response {
	b.Helper()
	var size [4]byte
	err := c.readFull(size[:])
	if err == nil {
		n := int(binary.BigEndian.Uint32(size[:]))
		c.buf = slices.Grow(c.buf[:0], n)[:n]
		err = c.readFull(c.buf)
	}
	if err == nil && binary.BigEndian.Uint32(c.buf) != c.next {
		err = fmt.Errorf("answer %d came when %d was due", binary.BigEndian.Uint32(c.buf), c.next)
	}
	if err != nil {
		b.Fatalf("the answer to %T: %v", c.open, err)
	}
	resp, err := parse(c.open, c.buf)
	if err != nil {
		b.Fatalf("the answer to %T: %v", c.open, err)
	}
	c.next++
	c.open = nil
	return resp
}

func (c *groupConn) readFull(p []byte) error {
	for len(p) > 0 {
		n, err := unix.Read(c.fd, p)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return fmt.Errorf("not there after %v", groupPatience)
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("the broker closed the connection")
		}
		p = p[max(n, 0):]
	}
	return nil
}

// call sends a request and reads the answer.
func (c *groupConn) call(b testing.TB, req kmsg.Request) kmsg.Response {
	b.Helper()
	c.send(b, req)
	return c.receive(b)
}

// awaitCoordinator asks for the coordinators of groups, which makes their topic, until all of them answer.
func awaitCoordinator(b testing.TB, addr string, groups []string) {
	b.Helper()
	c := newGroupConn(b, addr)
	for deadline := time.Now().Add(groupPatience); ; {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.Version, find.CoordinatorKeys = 4, groups
		code := int16(0)
		for _, a := range c.call(b, find).(*kmsg.FindCoordinatorResponse).Coordinators {
			code = max(code, a.ErrorCode)
		}
		if code == 0 {
			code = c.coordinatorsCode(b, groups)
		}
		if code == 0 {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("no coordinator after %v: code %d", groupPatience, code)
		}
	}
}

// coordinatorsCode asks each coordinator something that only one that is there can answer.
func (c *groupConn) coordinatorsCode(b testing.TB, groups []string) (code int16) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	for _, g := range groups {
		of := kmsg.NewOffsetFetchRequestGroup()
		of.Group, of.Topics = g, nil
		req.Groups = append(req.Groups, of)
	}
	for _, a := range c.call(b, req).(*kmsg.OffsetFetchResponse).Groups {
		code = max(code, a.ErrorCode)
	}
	return code
}

// partitionSet is partitions of topics, by topic name or id, to see that every one is had once.
type partitionSet[T comparable] map[T]map[int32]string

// add notes an owner, and fails when there is one.
func (s partitionSet[T]) add(b testing.TB, topic T, partitions []int32, owner string) {
	b.Helper()
	if s[topic] == nil {
		s[topic] = map[int32]string{}
	}
	for _, p := range partitions {
		if other := s[topic][p]; other != "" {
			b.Fatalf("partition %v-%d is of %s and of %s", topic, p, other, owner)
		}
		s[topic][p] = owner
	}
}

// whole says whether all partitions of all topics have an owner.
func (s partitionSet[T]) whole(topics, partitions int) bool {
	n := 0
	for _, of := range s {
		n += len(of)
	}
	return len(s) == topics && n == topics*partitions
}
