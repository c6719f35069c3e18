package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/pierrec/lz4/v4"
)

// DefaultInflateLimit bounds what a batch may inflate to where nobody says otherwise. Batches are at most a few MiB, and the
// best honest ratios (zeros) stay below it.
const DefaultInflateLimit = 128 << 20

// Decompress appends src, decompressed, to dst: at most limit bytes, else ErrInflate. Other errors are *Error: src is
// damaged, ends too early, or goes on after its end.
func Decompress(dst, src []byte, c Codec, limit int64) ([]byte, error) {
	if c == None {
		if int64(len(src)) > limit {
			return dst, ErrInflate
		}
		return append(dst, src...), nil
	}
	s, err := openStream(c, src, limit)
	if err != nil {
		return dst, err
	}
	defer s.close()
	return s.readAll(dst)
}

// inflater decodes one codec. open prepares for src, which must stay as it is until release.
type inflater interface {
	io.Reader
	open(src []byte, limit int64) error
	release()
}

var inflaters = [...]sync.Pool{
	Gzip:   {New: func() any { return new(gzipInflater) }},
	Snappy: {New: func() any { return new(snappyInflater) }},
	LZ4:    {New: func() any { return newLZ4Inflater() }},
	Zstd:   {New: func() any { return new(zstdInflater) }},
}

type gzipInflater struct {
	in bytes.Reader
	z  gzip.Reader
}

func (g *gzipInflater) open(src []byte, _ int64) error {
	g.in.Reset(src)
	return g.z.Reset(&g.in)
}

func (g *gzipInflater) Read(p []byte) (int, error) { return g.z.Read(p) }
func (g *gzipInflater) release()                   { g.in.Reset(nil) }

type lz4Inflater struct {
	in bytes.Reader
	z  *lz4.Reader
}

func newLZ4Inflater() *lz4Inflater { return &lz4Inflater{z: lz4.NewReader(nil)} }

func (l *lz4Inflater) open(src []byte, _ int64) error {
	size, err := lz4FrameSize(src)
	if err != nil {
		return err
	}
	if size < len(src) {
		return errLZ4Surplus
	}
	l.in.Reset(src)
	l.z.Reset(&l.in)
	return nil
}

func (l *lz4Inflater) Read(p []byte) (int, error) { return l.z.Read(p) }

func (l *lz4Inflater) release() { l.in.Reset(nil) }

// snappyInflater reads the framing of snappy-java, or one bare block.
type snappyInflater struct {
	src    []byte // framed blocks not yet decoded
	block  []byte // the buffer of the current block, kept
	unread []byte // of block
	limit  int64
}

// snappyBufferKept is the largest block buffer a pooled inflater keeps.
const snappyBufferKept = 1 << 20

var errSnappyRepeat = errors.New("copies with offset 0 are not in the snappy format")

func (s *snappyInflater) open(src []byte, limit int64) error {
	s.src, s.unread, s.limit = nil, nil, limit
	if !bytes.HasPrefix(src, []byte(xerialMagic)) {
		return s.decode(src)
	}
	if len(src) < xerialHeaderSize {
		return io.ErrUnexpectedEOF
	}
	s.src = src[xerialHeaderSize:] // its version numbers say nothing: every reader ignores them
	return nil
}

func (s *snappyInflater) Read(p []byte) (int, error) {
	for len(s.unread) == 0 {
		if len(s.src) == 0 {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.unread)
	s.unread = s.unread[n:]
	return n, nil
}

// next decodes the next framed block.
func (s *snappyInflater) next() error {
	if len(s.src) < 4 {
		return io.ErrUnexpectedEOF
	}
	n, rest := binary.BigEndian.Uint32(s.src), s.src[4:]
	if uint64(n) > uint64(len(rest)) {
		return io.ErrUnexpectedEOF
	}
	s.src = rest[n:]
	return s.decode(rest[:n])
}

func (s *snappyInflater) decode(in []byte) error {
	if err := s.checkBlock(in); err != nil {
		return err
	}
	block, err := s2.Decode(s.block[:cap(s.block)], in)
	if err != nil {
		return err
	}
	s.block, s.unread = block, block
	return nil
}

// checkBlock refuses a block before memory is allocated for it: one that is larger than allowed or than its bytes can make it, and
// one in the S2 dialect, which our decoder understands but consumers do not.
func (s *snappyInflater) checkBlock(in []byte) error {
	n, head := binary.Uvarint(in)
	if head <= 0 {
		return s2.ErrCorrupt
	}
	if n > uint64(max(s.limit, 0)) {
		return ErrInflate
	}
	return walkSnappy(in[head:], n)
}

// walkSnappy checks that the elements of a block are whole, are snappy's, and make n bytes.
func walkSnappy(p []byte, n uint64) error {
	var made uint64
	for len(p) > 0 {
		tag := p[0]
		used, length := 1, uint64(0)
		switch tag & 3 {
		case 0: // literal: the length is in the tag or in the 1..4 bytes after it
			used, length = snappyLiteral(p)
			if used == 0 || length > uint64(len(p)-used) {
				return s2.ErrCorrupt
			}
			used += int(length)
		case 1:
			if len(p) < 2 {
				return s2.ErrCorrupt
			}
			if tag&0xe0 == 0 && p[1] == 0 {
				return errSnappyRepeat
			}
			used, length = 2, 4+uint64(tag>>2&7)
		case 2:
			used, length = 3, 1+uint64(tag>>2)
		case 3:
			used, length = 5, 1+uint64(tag>>2)
		}
		if used > len(p) {
			return s2.ErrCorrupt
		}
		made += length
		p = p[used:]
	}
	if made != n {
		return s2.ErrCorrupt
	}
	return nil
}

// snappyLiteral returns the size of a literal's head and the literal's length; 0 when p is too short for the head.
func snappyLiteral(p []byte) (head int, length uint64) {
	x := uint64(p[0] >> 2)
	if x < 60 {
		return 1, x + 1
	}
	extra := int(x - 59)
	if len(p) < 1+extra {
		return 0, 0
	}
	x = 0
	for i := extra; i > 0; i-- {
		x = x<<8 | uint64(p[i])
	}
	return 1 + extra, x + 1
}

func (s *snappyInflater) release() {
	s.src, s.unread = nil, nil
	if cap(s.block) > snappyBufferKept {
		s.block = nil
	}
}
