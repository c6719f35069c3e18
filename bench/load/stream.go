package load

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// source is what a stream sends and how it reads the answers.
type source interface {
	// prepare puts request n into the stream's frame. intended is when it was to be sent.
	prepare(frame []byte, n uint32, intended time.Time)
	// headSize is how many bytes of an answer must be there before its rest may be dropped; 0 when answers are always read whole.
	headSize() int
	// whole says that answer n must be read whole.
	whole(n uint32) bool
	// answer checks answer n, of size bytes; b is all of it or its first headSize bytes.
	answer(n uint32, b []byte, size int, intended time.Time) (delivery, error)
	// complete says that nothing is missing any more; asked at the end of a run.
	complete() bool
	// endless says that the request that is open at the end may never be answered: nothing waits for it.
	endless() bool
}

// delivery is what an answer has brought.
type delivery struct {
	records int64
	bytes   int64
	// since is when latencies begin, one for each batch; none: one latency, that of the request. Valid until the next answer.
	since []time.Time
}

// stream is one connection with its requests in flight. Answers come in the order of requests.
type stream struct {
	source
	conn     int // the poller's
	result   *Result
	frame    []byte
	inflight int

	interval time.Duration // between requests; 0: as answers come
	offset   time.Duration // of the first request, so that connections take turns
	due      time.Time     // of the next request

	unsent    int // bytes of the frame that the socket did not take yet
	armed     bool
	sent      uint32
	answered  uint32
	intended  []time.Time // of request n at n % inflight
	body      []byte      // of the answer that is being read
	rest      int         // bytes of it that are not read yet, once its size is known
	sized     bool
	keep      bool
	firstHead [answerHead]byte
}

// mayFire says whether another request may be sent now.
func (s *stream) mayFire() bool { return s.unsent == 0 && int(s.sent-s.answered) < s.inflight }

// fire sends a request.
func (s *stream) fire(p poller, intended time.Time) error {
	s.prepare(s.frame, s.sent, intended)
	binary.BigEndian.PutUint32(s.frame[corrAt:], s.sent)
	s.intended[int(s.sent)%s.inflight] = intended
	s.sent++
	s.unsent = len(s.frame)
	return s.flush(p)
}

// flush gives the socket what it takes and asks to be called again when that is not all.
func (s *stream) flush(p poller) error {
	n, err := p.send(s.conn, s.frame[len(s.frame)-s.unsent:])
	if err != nil {
		return err
	}
	s.unsent -= n
	if more := s.unsent > 0; more != s.armed {
		s.armed = more
		return p.wantWrite(s.conn, more)
	}
	return nil
}

// read takes what the socket has, once. done is called for each answer that this completes.
func (s *stream) read(p poller, scratch []byte, done func(d delivery, intended time.Time)) error {
	if s.sized && s.rest > 0 {
		return s.readRest(p, done)
	}
	limit := len(scratch)
	if h := s.headSize(); h > 0 {
		limit = h - len(s.body) // no more than the head: the rest may be dropped
		if s.sized {
			panic("BUG: an answer with a size and nothing left to read")
		}
	}
	n, err := p.recv(s.conn, scratch[:limit])
	if err != nil {
		return err
	}
	for b := scratch[:n]; len(b) > 0; {
		if b, err = s.take(b); err != nil {
			return err
		}
		if s.sized && s.rest == 0 {
			if err := s.finish(done); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stream) readRest(p poller, done func(delivery, time.Time)) error {
	if s.keep {
		have := len(s.body)
		n, err := p.recv(s.conn, s.body[have:have+s.rest])
		if err != nil {
			return err
		}
		s.body, s.rest = s.body[:have+n], s.rest-n
	} else {
		n, err := p.discard(s.conn, s.rest)
		if err != nil {
			return err
		}
		s.rest -= n
	}
	if s.rest > 0 {
		return nil
	}
	return s.finish(done)
}

// take adds the beginning of b to the answer and returns what is left of b.
func (s *stream) take(b []byte) ([]byte, error) {
	want := answerHead - len(s.body)
	if s.sized {
		want = s.rest
	}
	k := min(want, len(b))
	s.body = append(s.body, b[:k]...)
	if s.sized {
		s.rest -= k
	} else if len(s.body) == answerHead {
		if err := s.size(); err != nil {
			return nil, err
		}
	}
	return b[k:], nil
}

// size reads the first bytes of an answer.
func (s *stream) size() error {
	size := 4 + int(binary.BigEndian.Uint32(s.body))
	if size < answerHead || size > maxAnswer {
		return fmt.Errorf("an answer of %d bytes", size)
	}
	if corr := binary.BigEndian.Uint32(s.body[4:]); corr != s.answered || s.answered == s.sent {
		return fmt.Errorf("the broker answered request %d when request %d was due", corr, s.answered)
	}
	copy(s.firstHead[:], s.body)
	s.sized, s.rest = true, size-answerHead
	s.keep = s.headSize() == 0 || s.whole(s.answered)
	if s.keep {
		s.body = slices.Grow(s.body, s.rest)
	}
	return nil
}

func (s *stream) finish(done func(delivery, time.Time)) error {
	size := 4 + int(binary.BigEndian.Uint32(s.firstHead[:]))
	intended := s.intended[int(s.answered)%s.inflight]
	d, err := s.answer(s.answered, s.body, size, intended)
	if err != nil {
		return err
	}
	s.answered++
	s.body, s.sized = s.body[:0], false
	done(d, intended)
	return nil
}
