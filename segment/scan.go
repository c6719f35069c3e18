package segment

import (
	"errors"
	"io"
	"sync"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// headers reads batch headers of a file, as many as there are in a chunk at a time. A header is valid until the next one is read.
type headers struct {
	f      vfs.File
	end    int64 // of what may be read
	from   int64 // chunk holds [from, from+have) of the file
	have   int
	chunk  *[headerChunkBytes]byte
	header record.Batch
}

var headerPool = sync.Pool{New: func() any { return new([headerChunkBytes]byte) }}

func newHeaders(f vfs.File, end int64) headers {
	return headers{f: f, end: end, chunk: headerPool.Get().(*[headerChunkBytes]byte)}
}

func (h *headers) close() {
	headerPool.Put(h.chunk)
	h.chunk, h.header = nil, nil
}

// at returns the header of the batch at pos and the batch's size. io.EOF at the end; record.ErrShort if less than the batch is left,
// record.ErrEnd for zeros, *record.Error for anything else that is no batch.
func (h *headers) at(pos int64) (b record.Batch, size int, err error) {
	if pos >= h.end {
		return nil, 0, io.EOF
	}
	if pos < h.from || pos+record.HeaderSize > h.from+int64(h.have) {
		if err := h.fill(pos); err != nil {
			return nil, 0, err
		}
	}
	b = record.Batch(h.chunk[pos-h.from : h.have])
	size, err = record.FrameSize(b)
	if err != nil {
		return nil, 0, err
	}
	if len(b) < record.HeaderSize || pos+int64(size) > h.end {
		return nil, 0, record.ErrShort
	}
	return b[:record.HeaderSize], size, nil
}

func (h *headers) fill(pos int64) error {
	n, err := readAtMost(h.f, h.chunk[:min(headerChunkBytes, h.end-pos)], pos)
	h.from, h.have = pos, n
	return err
}

// readAtMost reads p or up to the end of the file.
func readAtMost(f vfs.File, p []byte, pos int64) (int, error) {
	n, err := f.ReadAt(p, pos)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// batches reads whole batches of a file. A batch is valid until the next one is read.
type batches struct {
	f    vfs.File
	end  int64 // of what may be read
	buf  *[scanChunkBytes]byte
	from int64 // buf holds [from, from+have) of the file
	have int
	next int    // bytes to read at once the next time
	big  []byte // for one batch that does not fit buf
}

var scanPool = sync.Pool{New: func() any { return new([scanChunkBytes]byte) }}

func newBatches(f vfs.File, end int64) batches {
	return batches{f: f, end: end, buf: scanPool.Get().(*[scanChunkBytes]byte), next: scanChunkBytesMin}
}

func (r *batches) close() {
	scanPool.Put(r.buf)
	r.buf = nil
}

// at returns the whole batch at pos, framed, not checked. Errors as for headers.at.
func (r *batches) at(pos int64) (record.Batch, error) {
	if pos >= r.end {
		return nil, io.EOF
	}
	b, _, err := record.Frame(r.window(pos))
	if err != record.ErrShort {
		return b, err
	}
	if err := r.fill(pos); err != nil {
		return nil, err
	}
	b, _, err = record.Frame(r.window(pos))
	if err != record.ErrShort {
		return b, err
	}
	if size, err := record.FrameSize(r.window(pos)); err == nil && size <= scanChunkBytes && int64(r.have) < r.end-pos && size > r.have {
		r.next = max(r.next, size)
		if err := r.fill(pos); err != nil {
			return nil, err
		}
		b, _, err = record.Frame(r.window(pos))
		if err != record.ErrShort {
			return b, err
		}
	}
	return r.large(pos)
}

// window returns what is in memory from pos on.
func (r *batches) window(pos int64) []byte {
	if pos < r.from || pos >= r.from+int64(r.have) {
		return r.buf[:1] // too short for anything: fill
	}
	return r.buf[pos-r.from : r.have]
}

func (r *batches) fill(pos int64) error {
	n, err := readAtMost(r.f, r.buf[:min(int64(r.next), r.end-pos)], pos)
	r.from, r.have = pos, n
	r.next = min(2*r.next, scanChunkBytes)
	return err
}

// large reads a batch that is larger than the buffer; its length was checked against the file, so that memory is bounded by what is there.
func (r *batches) large(pos int64) (record.Batch, error) {
	size, err := record.FrameSize(r.window(pos))
	if err != nil {
		return nil, err
	}
	if pos+int64(size) > r.end {
		return nil, record.ErrShort
	}
	if cap(r.big) < size {
		r.big = make([]byte, size)
	}
	r.big = r.big[:size]
	n, err := readAtMost(r.f, r.big, pos)
	if err != nil {
		return nil, err
	}
	b, _, err := record.Frame(r.big[:n])
	return b, err
}

// notABatch tells errors about what the bytes are from errors of reading them.
func notABatch(err error) bool {
	var e *record.Error
	return errors.Is(err, record.ErrShort) || errors.Is(err, record.ErrEnd) || errors.As(err, &e)
}

func (s *Segment) corrupt(pos int64, err error) error {
	return &CorruptError{File: s.path(LogSuffix), Pos: pos, Msg: err.Error()}
}

// Batches calls fn for each batch in [from, to), both batch boundaries, after checking its checksum. b is valid during the call. An error of
// fn ends it. Anything but batches there is a *CorruptError.
func (s *Segment) Batches(from, to int64, fn func(b record.Batch, pos int64) error) error {
	if err := s.Load(); err != nil {
		return err
	}
	f, err := s.file()
	if err != nil {
		return err
	}
	r := newBatches(f, min(to, s.size.Load()))
	defer r.close()
	for pos := from; pos < r.end; {
		b, err := r.at(pos)
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			if notABatch(err) {
				err = s.corrupt(pos, err)
			}
			return err
		}
		if err := fn(b, pos); err != nil {
			return err
		}
		pos += int64(len(b))
	}
	return nil
}
