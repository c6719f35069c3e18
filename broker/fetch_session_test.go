package broker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// sessionFetch is a request in a session, for partitions of topic "t" by name (v12) or id (v13).
type sessionFetch struct {
	c       *client
	version int16
	id      [16]byte
	session int32
	epoch   int32
}

func (s *sessionFetch) request(offsets map[int32]int64) *kmsg.FetchRequest {
	req := fetchRequest(s.version, "t", 0, 0)
	req.Topics = nil
	req.SessionID, req.SessionEpoch = s.session, s.epoch
	for p := range int32(20) {
		if offset, ok := offsets[p]; ok {
			addFetch(req, "t", s.id, p, offset)
		}
	}
	return req
}

// do sends and returns the partitions of the answer as "partition:records", in order.
func (s *sessionFetch) do(req *kmsg.FetchRequest) (string, *kmsg.FetchResponse) {
	s.c.t.Helper()
	resp := do[*kmsg.FetchResponse](s.c, req)
	var got []string
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			got = append(got, fmt.Sprintf("%d:%d", p.Partition, len(values(s.c.t, p.RecordBatches))))
		}
	}
	if resp.ErrorCode == 0 {
		s.session = resp.SessionID
		if s.epoch++; s.epoch < 0 {
			s.epoch = 1
		}
	}
	return strings.Join(got, " "), resp
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("answer %q, want %q", got, want)
	}
}

// KIP-227 on the wire: a full answer first, then only news; partitions may be changed and forgotten; what gave data goes to the back.
func TestFetchSession(t *testing.T) {
	for _, version := range []int16{7, 12, 13, 18} {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			n := start(t)
			c := n.dial()
			s := &sessionFetch{c: c, version: version, id: c.create("t", 3)}
			got, _ := s.do(s.request(map[int32]int64{0: 0, 1: 0, 2: 0}))
			want(t, got, "0:0 1:0 2:0")
			if s.session == 0 || n.b.sessions.count() != 1 {
				t.Fatalf("no session: %d", s.session)
			}
			got, _ = s.do(s.request(nil))
			want(t, got, "")
			c.mustProduce("t", 1, plain("x"))
			got, _ = s.do(s.request(nil))
			want(t, got, "1:1")
			got, _ = s.do(s.request(map[int32]int64{1: 1})) // read; nothing new
			want(t, got, "")
			c.mustProduce("t", 1, plain("y"))
			c.mustProduce("t", 2, plain("z"))
			got, _ = s.do(s.request(nil))
			want(t, got, "2:1 1:1") // 1 gave data last, so it is behind
			req := s.request(map[int32]int64{1: 2})
			f := kmsg.NewFetchRequestForgottenTopic()
			f.Topic, f.TopicID, f.Partitions = "t", s.id, []int32{2, 19}
			req.ForgottenTopics = append(req.ForgottenTopics, f)
			got, _ = s.do(req)
			want(t, got, "")
			c.mustProduce("t", 2, plain("z"))
			got, _ = s.do(s.request(nil))
			want(t, got, "")
			if _, code := c.deleteRecords("t", -1); code != protocol.None {
				t.Fatal(code)
			}
			got, _ = s.do(s.request(nil)) // partition 0: log start 0 -> 0, nothing new
			want(t, got, "")

			// Wrong epoch and unknown session: an error for the whole, and no change.
			good := *s
			s.epoch += 3
			_, resp := s.do(s.request(nil))
			wantCode(t, resp.ErrorCode, protocol.InvalidFetchSessionEpoch)
			*s = good
			s.session++
			_, resp = s.do(s.request(nil))
			wantCode(t, resp.ErrorCode, protocol.FetchSessionIDNotFound)
			if len(resp.Topics) != 0 {
				t.Fatalf("%+v", resp)
			}
			*s = good
			_, resp = s.do(s.request(nil))
			wantCode(t, resp.ErrorCode, protocol.None)
			// The end: epoch -1 closes it, and is a full request without a session.
			s.epoch = -1
			got, resp = s.do(s.request(map[int32]int64{1: 0}))
			want(t, got, "1:2")
			if resp.SessionID != 0 || n.b.sessions.count() != 0 {
				t.Fatalf("session %d, %d open", resp.SessionID, n.b.sessions.count())
			}
		})
	}
}

func TestFetchSessionEpochWraps(t *testing.T) {
	n := start(t)
	c := n.dial()
	s := &sessionFetch{c: c, version: 12, id: c.create("t", 1)}
	s.do(s.request(map[int32]int64{0: 0}))
	f := n.b.sessions.use(s.session, nowMs())
	f.mu.Lock()
	f.epoch = largestEpoch
	f.mu.Unlock()
	for _, epoch := range []int32{largestEpoch, 1, 2} {
		s.epoch = epoch
		_, resp := s.do(s.request(nil))
		wantCode(t, resp.ErrorCode, protocol.None)
	}
}

// protocol.md 6: in a session by id a deleted topic is unknown by name's code, a recreated one inconsistent; versions 12 and 13 don't mix.
func TestFetchSessionIDs(t *testing.T) {
	n := start(t)
	c := n.dial()
	s := &sessionFetch{c: c, version: 13, id: c.create("t", 1)}
	s.do(s.request(map[int32]int64{0: 0}))
	mixed := *s
	mixed.version = 12
	_, resp := mixed.do(mixed.request(nil))
	wantCode(t, resp.ErrorCode, protocol.FetchSessionTopicIDError)
	c.delete("t")
	_, resp = s.do(s.request(nil))
	wantCode(t, resp.Topics[0].Partitions[0].ErrorCode, protocol.UnknownTopicOrPartition)
	c.create("t", 1)
	_, resp = s.do(s.request(nil))
	wantCode(t, resp.Topics[0].Partitions[0].ErrorCode, protocol.InconsistentTopicID)
}

// Gotcha 14: the cache is bounded; a client for whom there is no room gets no session, and an idle one makes room.
func TestFetchSessionEviction(t *testing.T) {
	s := newFetchSessions(2, randomInt32)
	a, b := s.create(false, 0, 1000), s.create(false, 0, 1001)
	if a == nil || b == nil || s.create(false, 0, 1002) != nil || s.count() != 2 {
		t.Fatal("the limit does not hold")
	}
	s.use(a.id, 2000)
	if c := s.create(false, 0, 1001+sessionIdleMs); c == nil || s.use(b.id, 0) != nil || s.use(a.id, 0) == nil {
		t.Fatal("the least recently used one stays")
	}
	none := newFetchSessions(0, randomInt32)
	if none.create(false, 0, 0) != nil {
		t.Fatal("a cache without slots")
	}
	n := start(t, "max.incremental.fetch.session.cache.slots=1")
	c := n.dial()
	c.create("t", 1)
	for i := range 3 {
		one := &sessionFetch{c: c, version: 12}
		one.do(one.request(map[int32]int64{0: 0}))
		if (one.session != 0) != (i == 0) {
			t.Fatalf("client %d has session %d", i, one.session)
		}
	}
}

// An error in a session is told each time, and its end as well.
func TestFetchSessionErrors(t *testing.T) {
	n := start(t)
	c := n.dial()
	s := &sessionFetch{c: c, version: 12}
	_, resp := s.do(s.request(map[int32]int64{0: 0}))
	wantCode(t, resp.Topics[0].Partitions[0].ErrorCode, protocol.UnknownTopicOrPartition)
	_, resp = s.do(s.request(nil))
	if len(resp.Topics) != 1 {
		t.Fatal("the error is not told again")
	}
	c.create("t", 1)
	got, resp := s.do(s.request(nil))
	want(t, got, "0:0")
	wantCode(t, resp.Topics[0].Partitions[0].ErrorCode, protocol.None)
}
