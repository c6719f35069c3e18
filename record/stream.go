package record

import (
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const (
	// windowSize is what a walk over compressed records sees at once.
	windowSize = 64 << 10
	// windowKept is the largest window a pooled stream keeps after a visit to a large record.
	windowKept = 1 << 20
	// inflateLimitMax keeps sums of a limit and a buffer size from overflowing.
	inflateLimitMax = 1 << 62
)

// stream is a window over decompressed bytes. buf[r:w] has been decoded and not yet taken.
type stream struct {
	codec Codec
	in    inflater
	buf   []byte
	r, w  int
	left  int64 // bytes that in may still produce; negative when it has produced too many
	err   error // why in produces no more: io.EOF at a clean end
}

var streams = sync.Pool{New: func() any { return &stream{buf: make([]byte, windowSize)} }}

// openStream begins to decompress src, which must not change before close.
func openStream(c Codec, src []byte, limit int64) (*stream, error) {
	if c == None || c > Zstd {
		return nil, errorf(Unknown, "unknown codec %d", uint8(c))
	}
	s := streams.Get().(*stream)
	s.codec, s.in = c, inflaters[c].Get().(inflater)
	s.r, s.w, s.left, s.err = 0, 0, min(limit, inflateLimitMax), nil
	if err := s.in.open(src, limit); err != nil {
		s.close()
		return nil, inflateError(c, err)
	}
	return s, nil
}

func (s *stream) close() {
	s.in.release()
	inflaters[s.codec].Put(s.in)
	s.in = nil
	if len(s.buf) > windowKept {
		s.buf = make([]byte, windowSize)
	}
	streams.Put(s)
}

// inflateError gives a codec's error its meaning. Data that stops too early is Kafka's unknown error like any other damage.
func inflateError(c Codec, err error) error {
	switch {
	case errors.Is(err, ErrInflate), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return ErrInflate
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errorf(Unknown, "%s data ends too early", c)
	}
	return errorf(Unknown, "%s data does not decompress: %v", c, err)
}

// fill decodes until n bytes are in the window, growing it as bytes arrive, or until there are no more. It returns how
// many there are, up to all of the window.
func (s *stream) fill(n int) int {
	for s.w-s.r < n && s.err == nil {
		if s.w == len(s.buf) {
			s.makeRoom()
		}
		s.read()
	}
	return s.w - s.r
}

// makeRoom moves what is not yet taken to the front, and doubles the window when that is all of it.
func (s *stream) makeRoom() {
	if s.r == 0 {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
		return
	}
	s.w = copy(s.buf, s.buf[s.r:s.w])
	s.r = 0
}

// read decodes once into the room behind w. One byte more than allowed is asked for, to tell "at the limit" from "beyond".
func (s *stream) read() {
	const emptyReadsMax = 100
	room := s.buf[s.w:]
	room = room[:min(int64(len(room)), s.left+1)]
	for range emptyReadsMax {
		n, err := s.in.Read(room)
		s.w += n
		s.left -= int64(n)
		switch {
		case s.left < 0:
			s.err = ErrInflate
		case err == io.EOF:
			s.err = io.EOF
		case err != nil:
			s.err = inflateError(s.codec, err)
		}
		if n > 0 || s.err != nil {
			return
		}
	}
	s.err = inflateError(s.codec, io.ErrNoProgress)
}

// window is what has been decoded and not taken.
func (s *stream) window() []byte { return s.buf[s.r:s.w] }

// take drops n bytes of the window.
func (s *stream) take(n int) { s.r += n }

// skip drops n bytes of the stream, without holding them. False: there were not that many.
func (s *stream) skip(n int) bool {
	for n > 0 {
		have := s.fill(1)
		if have == 0 {
			return false
		}
		have = min(have, n)
		s.take(have)
		n -= have
	}
	return true
}

// failure is why the stream ended before it should have: nil when it just ended.
func (s *stream) failure() error {
	if s.err == io.EOF {
		return nil
	}
	return s.err
}

// readAll appends the rest of the stream to dst.
func (s *stream) readAll(dst []byte) ([]byte, error) {
	for {
		if s.fill(1) == 0 {
			return dst, s.failure()
		}
		if err := s.failure(); err != nil && errors.Is(err, ErrInflate) {
			return dst, err
		}
		p := s.window()
		dst = append(slices.Grow(dst, len(p)), p...)
		s.take(len(p))
	}
}
