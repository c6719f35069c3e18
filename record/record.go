package record

// Record is a view of one record; slices alias the batch or a buffer that is valid during the visit only.
type Record struct {
	Attributes     int8
	TimestampDelta int64
	OffsetDelta    int32
	Key, Value     []byte // nil is null, empty is not
	HeaderCount    int32
	Size           int    // bytes in the (uncompressed) batch, length field included
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
func (it *HeaderIter) Next() (key, value []byte, ok bool) { panic("stub") }

// Records calls fn for every record. The record is a view: it and its slices are valid until fn returns.
func (b Batch) Records(fn func(*Record) error) error { panic("stub") }
