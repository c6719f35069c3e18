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
	key, i := readBytes(it.rest, 0)
	value, i = readBytes(it.rest, i)
	if i < 0 {
		panic("BUG: record headers changed after they were parsed")
	}
	it.rest = it.rest[i:]
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

// parseRecord makes r a view of the record at the front of p.
func parseRecord(p []byte, r *Record) fault {
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
	r.Size = i + int(length)
	r.Raw = p[:r.Size:r.Size]
	return parseFields(r.Raw, i, r)
}

// parseFields reads the fields from position i to the end of p, where they must end.
func parseFields(p []byte, i int, r *Record) fault {
	if i >= len(p) {
		return faultFields
	}
	r.Attributes = int8(p[i])
	r.TimestampDelta, i = readVarint64(p, i+1)
	r.OffsetDelta, i = readVarint(p, i)
	r.Key, i = readBytes(p, i)
	r.Value, i = readBytes(p, i)
	r.HeaderCount, i = readVarint(p, i)
	if i < 0 {
		return faultFields
	}
	if r.HeaderCount < 0 || int(r.HeaderCount) > len(p)-i {
		return faultHeaders
	}
	r.headers = p[i:]
	for range r.HeaderCount {
		if i = skipHeader(p, i); i < 0 {
			return faultFields
		}
	}
	if i != len(p) {
		return faultFields
	}
	return ""
}

// readBytes reads a length and as many bytes; any negative length is null, as in Kafka.
func readBytes(p []byte, i int) ([]byte, int) {
	n, i := readVarint(p, i)
	if i < 0 || n < 0 {
		return nil, i
	}
	if int(n) > len(p)-i {
		return nil, -1
	}
	end := i + int(n)
	return p[i:end:end], end
}

// skipHeader passes over a header, whose key must not be null.
func skipHeader(p []byte, i int) int {
	key, i := readBytes(p, i)
	if key == nil {
		return -1
	}
	_, i = readBytes(p, i)
	return i
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
	return s.bringRecord(index, size, r)
}

// bringRecord is nextRecord for a record whose size is known.
func (s *stream) bringRecord(index int32, size int, r *Record) error {
	if s.fill(size) < size {
		return s.ended(index)
	}
	if f := parseRecord(s.window(), r); f != "" {
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
