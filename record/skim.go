package record

// skimmer passes over a record that is larger than the window, keeping nothing but what validation looks at. The first
// error sticks and makes the rest a no-op.
type skimmer struct {
	s     *stream
	index int32
	left  int // bytes of the record not yet passed
	err   error
}

// skimRecord takes the next record, of size bytes, off the stream. It sets of l what does not depend on where the bytes are.
func (s *stream) skimRecord(index int32, size int, l *layout) error {
	k := skimmer{s: s, index: index, left: size}
	k.varint() // the length, known already
	*l = layout{size: size, attributes: int8(k.byte()), timestampDelta: k.varint64(), offsetDelta: k.varint()}
	l.keyLen = int(k.skipBytes())
	l.valueLen = int(k.skipBytes())
	l.headerCount = k.varint()
	k.skipHeaders(l.headerCount)
	if k.err == nil && k.left != 0 {
		k.malformed()
	}
	return k.err
}

func (k *skimmer) skipHeaders(count int32) {
	if k.err == nil && (count < 0 || int(count) > k.left) {
		k.err = recordFault(k.index, faultHeaders)
	}
	for i := int32(0); i < count && k.err == nil; i++ {
		if k.skipBytes() < 0 {
			k.malformed() // a header's key must not be null
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
