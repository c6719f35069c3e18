package netio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// A request of the tests below: its kind, then the number that the answer repeats.
const (
	kindSync    = iota // completed inside OnRequest
	kindDelayed        // completed later, in any order
	kindNone           // no answer at all
	kindSmall          // header + range short enough to be read in line
	kindLong           // header + long range + trailer
	kindMixed          // header, empty parts, ranges of both sorts
	kindNoFd           // a long range of a file without descriptor
	kindCount
)

const testFileSize = 1 << 20

func request(kind byte, n uint32) []byte { return binary.BigEndian.AppendUint32([]byte{kind}, n) }

// scrambler answers requests, the asynchronous ones in random order from its own goroutine.
type scrambler struct {
	file    *file
	content []byte
	later   chan *Call
	done    sync.WaitGroup
}

func newScrambler(t *testing.T, seed uint64) *scrambler {
	content := pattern(testFileSize)
	s := &scrambler{file: tempFile(t, content), content: content, later: make(chan *Call, 4096)}
	s.done.Add(1)
	go s.run(rand.New(rand.NewPCG(seed, 1)))
	return s
}

// run keeps a bag of calls and completes a random one whenever no new one waits, or the bag is big.
func (s *scrambler) run(rng *rand.Rand) {
	defer s.done.Done()
	var bag []*Call
	for open := true; open || len(bag) > 0; {
		if len(bag) == 0 {
			c, ok := <-s.later
			if !ok {
				return
			}
			bag = append(bag, c)
		}
		select {
		case c, ok := <-s.later:
			if open = ok; ok {
				bag = append(bag, c)
			}
		default:
			i := rng.IntN(len(bag))
			c := bag[i]
			bag[i] = bag[len(bag)-1]
			bag = bag[:len(bag)-1]
			c.Complete(s.answer(c.Frame.B))
		}
	}
}

func (s *scrambler) OnRequest(c *Call) {
	if kind := c.Frame.B[0]; kind == kindSync || kind == kindNone && c.Frame.B[4]%2 == 0 {
		c.Complete(s.answer(c.Frame.B))
		return
	}
	s.later <- c
}

func (s *scrambler) OnClose(Conn, error) {}

// ranges says which parts of the file answer n consists of.
func ranges(kind byte, n uint32) [][2]int {
	off := int(n*7919) % (testFileSize / 2)
	switch kind {
	case kindSmall:
		return [][2]int{{off, 1 + int(n)%inlineLimit}}
	case kindLong, kindNoFd:
		return [][2]int{{off, inlineLimit + 1 + int(n*31)%(200<<10)}}
	case kindMixed:
		return [][2]int{{off, 100}, {0, 0}, {off + 5, 70 << 10}, {off + 9, 8192}, {off + 11, 8193}}
	}
	return nil
}

const inlineLimit = 8 << 10

func (s *scrambler) answer(req []byte) Response {
	kind, n := req[0], binary.BigEndian.Uint32(req[1:])
	if kind == kindNone {
		return Response{None: true}
	}
	r := Response{Buffer: NewFrame(64)}
	total := 5
	for _, x := range ranges(kind, n) {
		f := s.file.acquire()
		if kind == kindNoFd {
			f = &file{File: f.File, refs: f.refs, noFd: true}
		}
		r.Parts = append(r.Parts, Part{File: f, Off: int64(x[0]), N: x[1]}, Part{B: []byte("|")}, Part{})
		total += x[1] + 1
	}
	b := binary.BigEndian.AppendUint32(r.Buffer.B[:0], uint32(total))
	r.Body = append(b, req...)
	return r
}

func (s *scrambler) want(req []byte) []byte {
	b := bytes.Clone(req)
	for _, x := range ranges(req[0], binary.BigEndian.Uint32(req[1:])) {
		b = append(b, s.content[x[0]:x[0]+x[1]]...)
		b = append(b, '|')
	}
	return b
}

// Answers leave in the order of the requests, complete and unmixed, whatever completes first.
// B-H1: no byte of another answer or of a reused buffer may appear.
func TestOrder(t *testing.T) {
	forEachDriver(t, func(t *testing.T, d driver) {
		h := newScrambler(t, 1)
		s := start(t, d.options(Options{Handler: h, Loops: 2}))
		const conns, requests = 6, 300
		var wg sync.WaitGroup
		errs := make(chan error, 2*conns)
		for i := range conns {
			rng := rand.New(rand.NewPCG(uint64(i), 2))
			c := dial(t, d, s)
			var reqs [][]byte
			for n := range requests {
				reqs = append(reqs, request(byte(rng.IntN(kindCount)), uint32(i*requests+n)))
			}
			wg.Add(2)
			go func() { defer wg.Done(); errs <- sendInChunks(c, reqs, rng) }()
			go func() { defer wg.Done(); errs <- checkAnswers(c, h, reqs) }()
		}
		wg.Wait()
		// The last requests may be of the kind that nobody gets an answer to.
		eventually(t, "all answers to be counted as sent", func() bool {
			st := s.Stats()
			return st.Requests == conns*requests && st.InFlight == 0
		})
		close(h.later)
		h.done.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
		if n := h.file.refs.Load(); n != 0 {
			t.Errorf("%d file references left", n)
		}
		if st := s.Stats(); st.FrameBytes != 0 || st.QueuedBytes != 0 {
			t.Errorf("not released: %+v", st)
		}
	})
}

// sendInChunks writes the frames in pieces that do not respect their borders.
func sendInChunks(c *client, reqs [][]byte, rng *rand.Rand) error {
	var all []byte
	for _, r := range reqs {
		all = append(all, frameOf(r)...)
	}
	for len(all) > 0 {
		n := min(len(all), 1+rng.IntN(100))
		if _, err := c.Write(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

func checkAnswers(c *client, h *scrambler, reqs [][]byte) error {
	for i, req := range reqs {
		if req[0] == kindNone {
			continue
		}
		got, err := c.tryRecv()
		if err != nil {
			return fmt.Errorf("answer %d: %w", i, err)
		}
		if !bytes.Equal(got, h.want(req)) {
			return fmt.Errorf("answer %d of kind %d is wrong: %d bytes beginning %x", i, req[0], len(got), got[:min(len(got), 8)])
		}
	}
	return nil
}
