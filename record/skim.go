package record

// skimmer passes over a record that is larger than the window, keeping nothing but what validation looks at. The first
// error sticks and makes the rest a no-op.
type skimmer struct {
	s     *stream
	index int32
	left  int // bytes of the record not yet passed
	err   error
}

// skimRecord takes the next record, of size bytes, off the stream. In r it sets the deltas, the attributes, and Key to nil or not.
func (s *stream) skimRecord(index int32, size int, r *Record) error {
	k := skimmer{s: s, index: index, left: size}
	k.varint() // the length, known already
	r.Size, r.Raw, r.Value, r.headers = size, nil, nil, nil
	r.Attributes = int8(k.byte())
	r.TimestampDelta = k.varint64()
	r.OffsetDelta = k.varint()
	r.Key = nil
	if k.skipBytes() >= 0 {
		r.Key = present
	}
	k.skipBytes()
	k.skipHeaders(r)
	if k.err == nil && k.left != 0 {
		k.err = recordFault(index, faultFields)
	}
	return k.err
}

// present stands for a key that is there but was not kept.
var present = []byte{}

func (k *skimmer) skipHeaders(r *Record) {
	r.HeaderCount = k.varint()
	if k.err == nil && (r.HeaderCount < 0 || int(r.HeaderCount) > k.left) {
		k.err = recordFault(k.index, faultHeaders)
	}
	for i := int32(0); i < r.HeaderCount && k.err == nil; i++ {
		if k.skipBytes() < 0 && k.err == nil {
			k.err = recordFault(k.index, faultFields) // a header's key must not be null
		}
		k.skipBytes()
	}
}

// peek brings up to n bytes of the record into the window.
func (k *skimmer) peek(n int) []byte {
	if k.err != nil {
		return nil
	}
	n = min(n, k.left)
	if k.s.fill(n) < n {
		k.err = k.s.ended(k.index)
		return nil
	}
	return k.s.window()[:n]
}

func (k *skimmer) take(n int) {
	k.s.take(n)
	k.left -= n
}

func (k *skimmer) byte() byte {
	p := k.peek(1)
	if len(p) == 0 {
		k.malformed()
		return 0
	}
	k.take(1)
	return p[0]
}

func (k *skimmer) varint() int32 {
	v, next := readVarint(k.peek(varintSizeMax), 0)
	if next < 0 {
		k.malformed()
		return 0
	}
	k.take(next)
	return v
}

func (k *skimmer) varint64() int64 {
	v, next := readVarint64(k.peek(varint64SizeMax), 0)
	if next < 0 {
		k.malformed()
		return 0
	}
	k.take(next)
	return v
}

// skipBytes passes over a length and as many bytes, and returns the length; negative is null.
func (k *skimmer) skipBytes() int32 {
	n := k.varint()
	if k.err != nil || n <= 0 {
		return n
	}
	if int(n) > k.left {
		k.malformed()
		return 0
	}
	if !k.s.skip(int(n)) {
		k.err = k.s.ended(k.index)
	}
	k.left -= int(n)
	return n
}

func (k *skimmer) malformed() {
	if k.err == nil {
		k.err = recordFault(k.index, faultFields)
	}
}
