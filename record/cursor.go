package record

// Cursor walks the records of one batch that are uncompressed in memory. It is the form of Records for a consumer, which takes records a few at a
// time and keeps their bytes: nothing is pooled, and what Next returns aliases the payload for as long as that lives.
type Cursor struct {
	rest  []byte
	base  int64 // timestamp that deltas count from
	fixed bool  // every record has the timestamp base
	index int32
	count int32
}

// Cursor returns a cursor over the batch's records, which payload holds uncompressed: Payload itself when there is no codec.
func (b Batch) Cursor(payload []byte) Cursor {
	c := Cursor{rest: payload, base: b.BaseTimestamp(), count: b.Count()}
	if b.TimestampType() == LogAppendTime {
		c.base, c.fixed = b.MaxTimestamp(), true
	}
	return c
}

// Left is how many records Next has not returned, by the batch's word; never more than their bytes can hold.
func (c *Cursor) Left() int { return min(int(c.count-c.index), len(c.rest)/recordSizeMin) }

// Done says whether all records have been returned and no bytes remain.
func (c *Cursor) Done() bool { return c.index >= c.count && len(c.rest) == 0 }

// recordSizeMin is a record with nothing in it: its length, attributes, two deltas, two lengths and the count of headers.
const recordSizeMin = 7

// Fields is what a consumer gets of a record.
type Fields struct {
	OffsetDelta int32
	HeaderCount int32
	Timestamp   int64  // ms since the Unix epoch
	Key, Value  []byte // nil is null, empty is not
	headers     []byte
}

// Headers iterates the record's headers.
func (f *Fields) Headers() HeaderIter { return HeaderIter{rest: f.headers, left: f.HeaderCount} }

// Next sets f to the next record; false at the end. Errors are *Error.
func (c *Cursor) Next(f *Fields) (bool, error) {
	if c.index >= c.count {
		if len(c.rest) > 0 {
			return false, errSurplus
		}
		return false, nil
	}
	var l layout
	if bad := l.parse(c.rest); bad != "" {
		return false, recordFault(c.index, bad)
	}
	raw := c.rest[:l.size:l.size]
	f.OffsetDelta, f.HeaderCount, f.Timestamp = l.offsetDelta, l.headerCount, c.base
	if !c.fixed {
		f.Timestamp += l.timestampDelta
	}
	f.Key, f.Value, f.headers = slice(raw, l.keyAt, l.keyLen), slice(raw, l.valueAt, l.valueLen), nil
	if l.headerCount > 0 {
		f.headers = raw[l.headersAt:]
	}
	c.rest = c.rest[l.size:]
	c.index++
	return true, nil
}
