package load

import (
	"testing"
	"time"
)

// stub is a source whose answers are one record each.
type stub struct{}

func (stub) prepare([]byte, uint32, time.Time) {}
func (stub) headSize() int                     { return 0 }
func (stub) whole(uint32) bool                 { return true }
func (stub) complete() bool                    { return true }
func (stub) endless() bool                     { return false }
func (stub) answer(uint32, []byte, int, time.Time) (delivery, error) {
	return delivery{records: 1, bytes: 100}, nil
}

// memory is a poller that takes everything, or so many bytes at a time, and hands out what the test puts in.
type memory struct {
	poller
	room int // of the next send; -1: any
	in   []byte
	want bool
}

func (m *memory) send(_ int, b []byte) (int, error) {
	if m.room < 0 {
		return len(b), nil
	}
	n := min(m.room, len(b))
	m.room -= n
	return n, nil
}

func (m *memory) recv(_ int, b []byte) (int, error) {
	n := copy(b, m.in)
	m.in = m.in[n:]
	return n, nil
}

func (m *memory) wantWrite(_ int, on bool) error { m.want = on; return nil }

func answerTo(corr byte) []byte { return []byte{0, 0, 0, 5, 0, 0, 0, corr, 0} }

// A broker that stalls is charged for the requests that it kept from being sent.
func TestLatencyCountsFromTheIntendedTime(t *testing.T) {
	m := &memory{room: -1}
	res := &Result{}
	s := &stream{source: stub{}, result: res, inflight: 1, interval: time.Millisecond, frame: make([]byte, 20), intended: make([]time.Time, 1)}
	r := &runner{poller: m, streams: []*stream{s}, paced: []*stream{s}, results: []*Result{res}, phase: measuring, scratch: make([]byte, 64)}
	begin := time.Unix(1000, 0)
	s.due = begin
	answer := func(at time.Duration) {
		t.Helper()
		m.in = answerTo(byte(s.answered))
		now := begin.Add(at)
		if err := s.read(m, r.scratch, func(d delivery, intended time.Time) { r.count(s, d, intended, now) }); err != nil {
			t.Fatal(err)
		}
		if err := r.refill(s, now); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.firePaced(begin); err != nil || s.sent != 1 {
		t.Fatalf("%d requests were sent, want 1 (%v)", s.sent, err)
	}
	// The broker stalls for 100 ms and then answers at once. Requests 1 to 100 were due meanwhile.
	for i := range 101 {
		answer(100*time.Millisecond + time.Duration(i)*10*time.Microsecond)
	}
	if res.Latency.Count() != 101 || res.Latency.Max() != 100*time.Millisecond {
		t.Fatalf("%d latencies, the greatest %v", res.Latency.Count(), res.Latency.Max())
	}
	if p50 := res.Latency.Quantile(0.5); p50 < 49*time.Millisecond || p50 > 52*time.Millisecond {
		t.Errorf("p50 %v, want about 50 ms: that of the requests which could not be sent", p50)
	}
	if res.Late != 99 { // of those due at 1 ms to 99 ms and sent at 100 ms and later, the last is late by 1.99 ms
		t.Errorf("%d late requests, want 99", res.Late)
	}
	if s.due.Sub(begin) != 102*time.Millisecond && s.due.Sub(begin) != 101*time.Millisecond {
		t.Errorf("the next request is due at %v: the timetable has moved", s.due.Sub(begin))
	}
}

// Without a rate a latency begins when its request is sent.
func TestLatencyWithoutARate(t *testing.T) {
	m := &memory{room: -1}
	res := &Result{}
	s := &stream{source: stub{}, result: res, inflight: 3, frame: make([]byte, 20), intended: make([]time.Time, 3)}
	r := &runner{poller: m, phase: measuring, scratch: make([]byte, 64)}
	begin := time.Unix(1000, 0)
	if err := r.refill(s, begin); err != nil || s.sent != 3 {
		t.Fatalf("%d requests in flight, want 3 (%v)", s.sent, err)
	}
	m.in = append(answerTo(0), answerTo(1)...)
	now := begin.Add(7 * time.Millisecond)
	if err := s.read(m, r.scratch, func(d delivery, intended time.Time) { r.count(s, d, intended, now) }); err != nil {
		t.Fatal(err)
	}
	if s.answered != 2 || res.Latency.Max() != 7*time.Millisecond || res.Requests != 2 || res.Records != 2 || res.Bytes != 200 {
		t.Fatalf("%d answers, %+v, max %v", s.answered, res, res.Latency.Max())
	}
}

func TestASocketThatIsFull(t *testing.T) {
	m := &memory{room: 7}
	s := &stream{source: stub{}, result: &Result{}, inflight: 2, frame: make([]byte, 20), intended: make([]time.Time, 2)}
	r := &runner{poller: m, phase: measuring, streams: []*stream{s}, scratch: make([]byte, 64)}
	if err := r.refill(s, time.Unix(1000, 0)); err != nil || s.sent != 1 || s.unsent != 13 || !m.want {
		t.Fatalf("sent %d, unsent %d, waits for room: %v (%v)", s.sent, s.unsent, m.want, err)
	}
	m.room = -1
	if err := r.ready(0, false, true); err != nil || s.sent != 2 || s.unsent != 0 || m.want {
		t.Fatalf("sent %d, unsent %d, waits for room: %v (%v)", s.sent, s.unsent, m.want, err)
	}
}

func TestAnswersOutOfOrderAreRefused(t *testing.T) {
	m := &memory{room: -1}
	s := &stream{source: stub{}, result: &Result{}, inflight: 2, frame: make([]byte, 20), intended: make([]time.Time, 2)}
	r := &runner{poller: m, phase: measuring, scratch: make([]byte, 64)}
	if err := r.refill(s, time.Unix(1000, 0)); err != nil {
		t.Fatal(err)
	}
	m.in = answerTo(1)
	if err := s.read(m, r.scratch, func(delivery, time.Time) {}); err == nil {
		t.Fatal("an answer to the second request was taken for the first")
	}
}
