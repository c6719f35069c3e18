package client

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// sender sends the batches of the partitions that a broker leads. The one to nobody (-1) asks for leaders, and lets batches expire.
//
// Its goroutine sleeps until something is due: wakeAt is when it wakes by itself, and is never (any change wakes it) while it works. It blocks on making the connection and on writing.
type sender struct {
	producer *Producer
	broker   int32
	wake     chan struct{} // one place
	wakeAt   atomic.Int64
	flying   atomic.Int32 // requests

	mu struct {
		sync.Mutex
		parts []*part // replaced, never changed
	}
	// The goroutine's own.
	turn    int // where the next round begins, so that no partition waits for others for ever
	scratch []byte
}

func (s *sender) nudge() { poke(s.wake) }

func (s *sender) add(t *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.parts = append(slices.Clip(s.mu.parts), t)
}

func (s *sender) remove(t *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.parts = slices.DeleteFunc(slices.Clone(s.mu.parts), func(other *part) bool { return other == t })
}

func (s *sender) parts() []*part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.parts
}

// run is the sender's goroutine.
func (s *sender) run() {
	p := s.producer
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for p.ctx.Err() == nil {
		s.wakeAt.Store(never)
		at := s.work()
		s.wakeAt.Store(at)
		wait := time.Hour
		if at < never {
			wait = time.Duration(at - p.now())
		}
		if wait <= 0 {
			continue
		}
		timer.Reset(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-p.ctx.Done():
		}
	}
}

// work sends what is due, fails what is too old, and says when there is something to do next if nobody wakes it.
func (s *sender) work() (next int64) {
	p := s.producer
	for {
		parts, now := s.parts(), p.now()
		for _, t := range parts {
			if t.expireAt.Load() <= now {
				t.expire(now)
			}
		}
		mayExpire := earliest(parts, func(t *part) int64 { return t.expireAt.Load() })
		if int(s.flying.Load()) >= p.config.MaxInFlight || !p.config.NotIdempotent && p.id.Load() < 0 {
			return mayExpire // answers and the id wake it
		}
		due := earliest(parts, func(t *part) int64 { return t.sendAt.Load() })
		if due > now {
			return min(due, mayExpire)
		}
		if s.broker < 0 { // ask for a leader, again and again
			p.client.stale()
			s.blocked(parts, &Error{Code: protocol.LeaderNotAvailable, Where: "the partition"})
			continue
		}
		conn, err := s.connect(mayExpire)
		if err != nil {
			s.blocked(parts, err)
			if p.ctx.Err() != nil {
				return never
			}
			continue
		}
		s.send(conn, s.gather(parts, now))
	}
}

func earliest(parts []*part, at func(*part) int64) int64 {
	first := int64(never)
	for _, t := range parts {
		first = min(first, at(t))
	}
	return first
}

// connect is a connection to the broker. It takes no longer than until something expires.
func (s *sender) connect(until int64) (*rpc.Conn, error) {
	p := s.producer
	ctx := p.ctx
	if until < never {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Duration(until-p.now()), 0))
		defer cancel()
	}
	return p.client.broker(ctx, s.broker, p.purpose)
}

// blocked puts off what is due.
func (s *sender) blocked(parts []*part, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		err = &UnreachableError{Addr: "the leader", Err: err}
	}
	now := s.producer.now()
	for _, t := range parts {
		if t.sendAt.Load() <= now {
			t.blocked(err, now)
		}
	}
}

// gather takes the batches that are due, one of each partition, as many as a request may hold.
func (s *sender) gather(parts []*part, now int64) *produceRequest {
	p := s.producer
	r := &produceRequest{sender: s, deadline: math.MaxInt64}
	if s.turn++; s.turn >= len(parts) {
		s.turn = 0
	}
	size := 0
	for i := range parts {
		t := parts[(s.turn+i)%len(parts)]
		if t.sendAt.Load() > now {
			continue
		}
		b := t.take(now)
		if b == nil {
			continue
		}
		if b.data == nil {
			s.scratch = b.seal(s.scratch)
		}
		r.add(t, b)
		if size += len(b.data); size >= p.config.MaxRequestSize {
			break
		}
	}
	r.sort()
	return r
}

// send writes a request.
func (s *sender) send(conn *rpc.Conn, r *produceRequest) {
	if len(r.sent) == 0 {
		return
	}
	p := s.producer
	s.flying.Add(1)
	p.requests.Add(1)
	version, err := conn.Version(keyProduce, produceNewest)
	if err == nil && version < produceOldest {
		err = &UnsupportedError{Addr: conn.Addr(), Request: "Produce", Ours: produceOldest, Max: version, Known: true}
	}
	if err != nil {
		r.refuse(err)
		return
	}
	timeout := min(p.client.config.RequestTimeout, max(time.Duration(r.deadline-p.now()), time.Millisecond))
	raw := r.encode(version, p.config.Acks.wire(), timeout)
	r.conn, r.version = conn, version
	if p.config.Acks == AcksNone {
		r.sentOnly(conn.GoRaw(p.ctx, raw, timeout, nil))
		return
	}
	// The answer is taken in when writing has returned, too: until then, the batches' memory is in use.
	r.open.Store(2)
	if err := conn.GoRaw(p.ctx, raw, timeout, r.answered); err != nil {
		r.err = err
		r.open.Store(1)
	}
	r.settle()
}
