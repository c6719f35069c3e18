package record

import "sync"

// Record is a view of one record; slices alias the batch or a buffer that is valid during the visit only.
type Record struct {
	Attributes     int8
	TimestampDelta int64  // ms after the batch's base timestamp
	OffsetDelta    int32  // after the batch's base offset
	Key, Value     []byte // nil is null, empty is not
	HeaderCount    int32
	Size           int    // bytes in the uncompressed batch, length field included
	Raw            []byte // these bytes
	headers        []byte
}

// KeyNull says whether the record has no key.
func (r *Record) KeyNull() bool { return r.Key == nil }

// ValueNull says whether the record is a tombstone.
func (r *Record) ValueNull() bool { return r.Value == nil }

// Headers iterates the record's headers.
func (r *Record) Headers() HeaderIter { return HeaderIter{rest: r.headers, left: r.HeaderCount} }

// HeaderIter walks headers without allocating.
type HeaderIter struct {
	rest []byte
	left int32
}

// Next returns the next header; value is nil when it is null.
func (it *HeaderIter) Next() (key, value []byte, ok bool) {
	if it.left <= 0 {
		return nil, nil, false
	}
	keyLen, keyAt := readLength(it.rest, 0)
	valueLen, valueAt := readLength(it.rest, after(keyLen, keyAt))
	if keyLen < 0 || valueAt < 0 {
		panic("BUG: record headers changed after they were parsed")
	}
	key, value = slice(it.rest, keyAt, keyLen), slice(it.rest, valueAt, valueLen)
	it.rest = it.rest[after(valueLen, valueAt):]
	it.left--
	return key, value, true
}

// fault is what is wrong with a record's bytes; empty when nothing is.
type fault string

const (
	faultLength  fault = "its length is negative or not a number"
	faultEnd     fault = "the batch ends before the record does"
	faultFields  fault = "its fields do not fill its length exactly"
	faultHeaders fault = "its header count is out of range"
)

// layout is where a record's fields lie, from the start of its length field. It holds no pointers, which is what makes the walk
// of validation cheap.
type layout struct {
	size           int // length field included
	timestampDelta int64
	offsetDelta    int32
	attributes     int8
	headerCount    int32
	keyAt, keyLen  int // keyLen is negative for null
	valueAt        int
	valueLen       int
	headersAt      int
}

func (l *layout) keyNull() bool { return l.keyLen < 0 }

// parse finds the fields of the record at the front of p.
func (l *layout) parse(p []byte) fault {
	length, i := readVarint(p, 0)
	if i < 0 {
		if len(p) < varintSizeMax {
			return faultEnd
		}
		return faultLength
	}
	if length < 0 {
		return faultLength
	}
	if int(length) > len(p)-i {
		return faultEnd
	}
	l.size = i + int(length)
	return l.parseFields(p[:l.size], i)
}

// parseFields reads the fields from position i to the end of p, where they must end.
func (l *layout) parseFields(p []byte, i int) fault {
	if i >= len(p) {
		return faultFields
	}
	l.attributes = int8(p[i])
	l.timestampDelta, i = readVarint64(p, i+1)
	l.offsetDelta, i = readVarint(p, i)
	l.keyLen, l.keyAt = readLength(p, i)
	l.valueLen, l.valueAt = readLength(p, after(l.keyLen, l.keyAt))
	l.headerCount, i = readVarint(p, after(l.valueLen, l.valueAt))
	if i < 0 {
		return faultFields
	}
	l.headersAt = i
	if l.headerCount != 0 {
		if l.headerCount < 0 || int(l.headerCount) > len(p)-i {
			return faultHeaders
		}
		i = skipHeaders(p, i, l.headerCount)
	}
	if i != len(p) {
		return faultFields
	}
	return ""
}

// readLength reads the length of bytes, negative for null, as in Kafka any negative one, and returns the position of the bytes;
// -1 when they would reach beyond p.
func readLength(p []byte, i int) (n, at int) {
	length, i := readVarint(p, i)
	n = int(length)
	if n > len(p)-i {
		return 0, -1
	}
	return n, i
}

// after is the position behind n bytes at position at.
func after(n, at int) int {
	if n > 0 && at >= 0 {
		return at + n
	}
	return at
}

// skipHeaders passes over headers, whose keys must not be null.
func skipHeaders(p []byte, i int, count int32) int {
	for range count {
		keyLen, at := readLength(p, i)
		if keyLen < 0 {
			return -1
		}
		valueLen, at := readLength(p, after(keyLen, at))
		if i = after(valueLen, at); i < 0 {
			return -1
		}
	}
	return i
}

// view makes r the record at the front of p whose layout is l.
func (l *layout) view(p []byte, r *Record) {
	raw := p[:l.size:l.size]
	*r = Record{
		Attributes: l.attributes, TimestampDelta: l.timestampDelta, OffsetDelta: l.offsetDelta, HeaderCount: l.headerCount,
		Key: slice(raw, l.keyAt, l.keyLen), Value: slice(raw, l.valueAt, l.valueLen),
		Size: l.size, Raw: raw, headers: raw[l.headersAt:],
	}
}

func slice(p []byte, at, n int) []byte {
	if n < 0 {
		return nil
	}
	return p[at : at+n : at+n]
}

// parseRecord makes r a view of the record at the front of p.
func parseRecord(p []byte, r *Record) fault {
	var l layout
	if f := l.parse(p); f != "" {
		return f
	}
	l.view(p, r)
	return ""
}

var visits = sync.Pool{New: func() any { return new(Record) }}

// Records calls fn for every record, decompressing up to DefaultInflateLimit. The record is a view: it and its slices are valid
// until fn returns. An error of fn ends the walk and is returned; others are *Error or ErrInflate.
func (b Batch) Records(fn func(*Record) error) error { return b.RecordsLimit(DefaultInflateLimit, fn) }

// RecordsLimit is Records with a limit on what the records may inflate to, in bytes.
func (b Batch) RecordsLimit(inflateLimit int64, fn func(*Record) error) error {
	r := visits.Get().(*Record)
	defer func() {
		*r = Record{}
		visits.Put(r)
	}()
	if b.Codec() == None {
		return b.plainRecords(r, fn)
	}
	s, err := openStream(b.Codec(), b.Payload(), inflateLimit)
	if err != nil {
		return err
	}
	defer s.close()
	return b.streamRecords(s, r, fn)
}

func (b Batch) plainRecords(r *Record, fn func(*Record) error) error {
	p := b.Payload()
	for i := range b.Count() {
		if f := parseRecord(p, r); f != "" {
			return recordFault(i, f)
		}
		if err := fn(r); err != nil {
			return err
		}
		p = p[r.Size:]
	}
	if len(p) > 0 {
		return errSurplus
	}
	return nil
}

func (b Batch) streamRecords(s *stream, r *Record, fn func(*Record) error) error {
	for i := range b.Count() {
		if err := s.nextRecord(i, r); err != nil {
			return err
		}
		if err := fn(r); err != nil {
			return err
		}
		s.take(r.Size)
	}
	return s.end()
}

// nextRecord makes r a view of the next record, all of which it brings into the window.
func (s *stream) nextRecord(index int32, r *Record) error {
	size, err := s.recordSize(index)
	if err != nil {
		return err
	}
	var l layout
	if err := s.bringRecord(index, size, &l); err != nil {
		return err
	}
	l.view(s.window(), r)
	return nil
}

// bringRecord brings the next record, of size bytes, into the window and finds its fields.
func (s *stream) bringRecord(index int32, size int, l *layout) error {
	if s.fill(size) < size {
		return s.ended(index)
	}
	if f := l.parse(s.window()); f != "" {
		return recordFault(index, f)
	}
	return nil
}

// recordSize is the size of the next record, length field included.
func (s *stream) recordSize(index int32) (int, error) {
	have := s.fill(varintSizeMax)
	length, i := readVarint(s.window(), 0)
	switch {
	case i < 0 && have < varintSizeMax:
		return 0, s.ended(index)
	case i < 0 || length < 0:
		return 0, recordFault(index, faultLength)
	case int64(length) > s.left+int64(s.w-s.r):
		return 0, ErrInflate // refused by its word, before any of it is buffered
	}
	return i + int(length), nil
}

// end checks that nothing follows the last record.
func (s *stream) end() error {
	if s.fill(1) > 0 {
		return errSurplus
	}
	return s.failure()
}

// ended is the error for a stream that ends within a record.
func (s *stream) ended(index int32) error {
	if err := s.failure(); err != nil {
		return err
	}
	return recordFault(index, faultEnd)
}

var errSurplus error = &Error{Kind: InvalidRecord, Msg: "bytes remain after the declared number of records"}

func recordFault(index int32, f fault) error {
	return errorf(InvalidRecord, "record %d is malformed: %s", index, string(f))
}
