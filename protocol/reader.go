package protocol

import "encoding/binary"

// reader walks over the primitive types of the protocol. It never allocates and never panics: past the end, or at an impossible length, bad is
// set and everything reads as zero. Returned slices alias the input.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() {
	r.bad = true
	r.b = nil
}

// span takes n bytes.
func (r *reader) span(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.fail()
		return nil
	}
	s := r.b[:n:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) int16() int16 {
	if s := r.span(2); s != nil {
		return int16(binary.BigEndian.Uint16(s))
	}
	return 0
}

func (r *reader) int32() int32 {
	if s := r.span(4); s != nil {
		return int32(binary.BigEndian.Uint32(s))
	}
	return 0
}

// uvarint reads an unsigned varint of at most 32 bits.
func (r *reader) uvarint() uint32 {
	if len(r.b) > 0 && r.b[0] < 0x80 {
		v := r.b[0]
		r.b = r.b[1:]
		return uint32(v)
	}
	return r.longUvarint()
}

func (r *reader) longUvarint() uint32 {
	var v uint64
	for i := 0; i < len(r.b) && i < 5; i++ {
		c := r.b[i]
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if v > 1<<32-1 {
				break
			}
			r.b = r.b[i+1:]
			return uint32(v)
		}
	}
	r.fail()
	return 0
}

// shortString reads a nullable string with a 2-byte length; every negative length is null.
func (r *reader) shortString() (s []byte, null bool) {
	n := r.int16()
	if n < 0 {
		return nil, true
	}
	return r.span(int(n)), false
}

// compact reads a compact length: the length plus one, 0 for null (-1 here).
func (r *reader) compact() int {
	return int(r.uvarint()) - 1
}

// str reads a nullable string, compact or not.
func (r *reader) str(flexible bool) (s []byte, null bool) {
	if !flexible {
		return r.shortString()
	}
	n := r.compact()
	if n < 0 {
		return nil, true
	}
	return r.span(n), false
}

// bytes reads nullable bytes, compact or not.
func (r *reader) bytes(flexible bool) (s []byte, null bool) {
	n := 0
	if flexible {
		n = r.compact()
	} else {
		n = int(r.int32())
	}
	if n < 0 {
		return nil, true
	}
	return r.span(n), false
}

// arrayLen reads the length of an array, compact or not; negative is null. As in Kafka a compact length is an int32 that may wrap. A length that
// the bytes left cannot hold is bad: every element has at least one byte.
func (r *reader) arrayLen(flexible bool) int {
	n := 0
	if flexible {
		n = int(int32(r.uvarint()) - 1)
	} else {
		n = int(r.int32())
	}
	if n > len(r.b) {
		r.fail()
		return 0
	}
	return n
}

// skipTags passes over tagged fields, known or not, in any order. It returns their number and the bytes in them.
func (r *reader) skipTags() (n, size int) {
	if len(r.b) > 0 && r.b[0] == 0 {
		r.b = r.b[1:]
		return 0, 0
	}
	return r.skipSomeTags()
}

func (r *reader) skipSomeTags() (n, size int) {
	count := r.uvarint()
	for ; count > 0 && !r.bad; count-- {
		r.uvarint() // the tag
		size += len(r.span(int(r.uvarint())))
		n++
	}
	return n, size
}
