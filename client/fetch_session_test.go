package client

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// sessionScript plays a session against a broker that keeps one.
type sessionScript struct {
	t *testing.T
	s fetchSession
}

func want(partition int32, offset int64) fetchWant {
	return fetchWant{TopicPartition{Topic: "t", Partition: partition}, fetchSpec{topicID: [16]byte{1}, offset: offset, leaderEpoch: 5, lastEpoch: 4, maxBytes: 100}}
}

// ask makes a request and says what it says: "id/epoch offsets-by-partition -forgotten".
func (p *sessionScript) ask(says string, wants ...fetchWant) {
	p.t.Helper()
	if got := sessionText(p.s.request(wants, true)); got != says {
		p.t.Errorf("the request is %q, want %q", got, says)
	}
}

func sessionText(req *kmsg.FetchRequest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d/%d", req.SessionID, req.SessionEpoch)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			fmt.Fprintf(&b, " %s-%d@%d", t.Topic, p.Partition, p.FetchOffset)
		}
	}
	var gone []string
	for _, t := range req.ForgottenTopics {
		for _, p := range t.Partitions {
			gone = append(gone, fmt.Sprintf(" -%s-%d(%d)", t.Topic, p, t.TopicID[0]))
		}
	}
	slices.Sort(gone)
	return b.String() + strings.Join(gone, "")
}

func (p *sessionScript) answer(ok bool, id int32, code protocol.Code) {
	p.t.Helper()
	resp := kmsg.NewPtrFetchResponse()
	resp.SessionID, resp.ErrorCode = id, int16(code)
	if got := p.s.answered(resp); got != ok {
		p.t.Errorf("taken: %v, want %v", got, ok)
	}
}

// A session names what is otherwise than the broker knows, and nothing else.
func TestFetchSessionIncremental(t *testing.T) {
	p := &sessionScript{t: t}
	p.ask("0/0 t-0@7 t-1@8", want(0, 7), want(1, 8))
	p.answer(true, 42, 0)
	p.ask("42/1", want(0, 7), want(1, 8))
	p.answer(true, 42, 0)
	p.ask("42/2 t-1@9 -t-0(1)", want(1, 9))
	p.answer(true, 42, 0)
	p.ask("42/3 t-0@7", want(0, 7), want(1, 9))
	p.answer(true, 42, 0)
	p.ask("42/4 -t-0(1) -t-1(1)")
	p.answer(true, 42, 0)

	again := want(0, 0)
	again.spec.topicID[0] = 2
	p.ask("42/5 t-0@0", again)
	p.answer(true, 42, 0)
	third := want(0, 0)
	third.spec.topicID[0] = 3 // the topic was made anew
	p.ask("42/6 t-0@0 -t-0(2)", third)
	if got := sessionText(p.s.farewell()); got != "42/-1" {
		t.Errorf("the farewell is %q", got)
	}
	if p.s.farewell() != nil {
		t.Error("a session ends twice")
	}
}

// A change of anything that a fetch says is said: the leader epoch, too (KAFKA-9338).
func TestFetchSessionSaysEveryChange(t *testing.T) {
	p := &sessionScript{t: t}
	w := want(0, 7)
	p.ask("0/0 t-0@7", w)
	p.answer(true, 1, 0)
	for _, change := range []func(*fetchSpec){
		func(s *fetchSpec) { s.leaderEpoch++ }, func(s *fetchSpec) { s.lastEpoch++ }, func(s *fetchSpec) { s.maxBytes++ },
	} {
		change(&w.spec)
		if req := p.s.request([]fetchWant{w}, true); len(req.Topics) != 1 {
			t.Errorf("nothing is said of %+v", w.spec)
		}
		p.answer(true, 1, 0)
	}
}

// Session errors heal: everything is named again (protocol.md 2.3, 15). A broker without room for sessions is asked the same way each time (14).
func TestFetchSessionHeals(t *testing.T) {
	p := &sessionScript{t: t}
	p.ask("0/0 t-0@7", want(0, 7))
	p.answer(true, 0, 0)
	p.ask("0/0 t-0@7", want(0, 7))
	p.answer(true, 42, 0)
	p.ask("42/1", want(0, 7))
	p.answer(false, 0, protocol.InvalidFetchSessionEpoch)
	p.ask("42/0 t-0@7", want(0, 7))
	p.answer(true, 43, 0)
	p.ask("43/1", want(0, 7))
	p.s.lose() // the connection broke
	p.ask("43/0 t-0@7", want(0, 7))
	p.answer(true, 44, 0)
	p.ask("44/1", want(0, 7))
	p.answer(false, 0, protocol.FetchSessionIDNotFound)
	p.ask("0/0 t-0@7", want(0, 7))
	p.answer(true, 45, 0)
	p.ask("45/1", want(0, 7))
	p.answer(false, 0, protocol.FetchSessionTopicIDError)
	if got := sessionText(p.s.request([]fetchWant{want(0, 7)}, false)); got != "45/0 t-0@7" {
		t.Errorf("topics by name: %q", got)
	}
	p.answer(true, 46, 0)
	if got := sessionText(p.s.request([]fetchWant{want(0, 7)}, true)); got != "46/0 t-0@7" {
		t.Errorf("topics by id again: %q", got)
	}
}

// The names of topics are known for as long as the broker may name them by id.
func TestFetchSessionNames(t *testing.T) {
	p := &sessionScript{t: t}
	for range 3 {
		p.s.request([]fetchWant{want(0, 7)}, true)
		p.answer(true, 0, 0)
		if got := p.s.names[[16]byte{1}]; got != "t" {
			t.Errorf("the name is %q", got)
		}
	}
	p.s.request([]fetchWant{want(0, 7)}, true)
	p.answer(true, 42, 0)
	p.s.request([]fetchWant{want(0, 7)}, true)
	p.answer(true, 42, 0)
	if got := p.s.names[[16]byte{1}]; got != "t" {
		t.Errorf("the name is %q", got)
	}
}

func TestFetchSessionEpochWraps(t *testing.T) {
	p := &sessionScript{t: t}
	p.ask("0/0 t-0@7", want(0, 7))
	p.answer(true, 42, 0)
	p.s.epoch = math.MaxInt32
	p.ask("42/2147483647", want(0, 7))
	p.answer(true, 42, 0)
	p.ask("42/1", want(0, 7))
}

func BenchmarkFetchSession(b *testing.B) {
	var s fetchSession
	wants := make([]fetchWant, 1000)
	for i := range wants {
		wants[i] = want(int32(i), 0)
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.SessionID = 1
	b.ReportAllocs()
	for b.Loop() {
		wants[0].spec.offset++
		s.request(wants, true)
		s.answered(resp)
	}
}
