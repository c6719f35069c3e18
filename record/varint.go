package record

// Zig-zag varints. A read takes the position and returns the next one, or -1 when the bytes end or the number has too many; a
// position of -1 stays -1, so a caller may read a row of them and look once. The fast paths are small enough to be inlined.

const (
	varintSizeMax   = 5
	varint64SizeMax = 10
)

func readVarint(p []byte, i int) (int32, int) {
	if uint(i) < uint(len(p)) && p[i] < 0x80 {
		return unzigzag(uint32(p[i])), i + 1
	}
	return readLongVarint(p, i)
}

func readLongVarint(p []byte, i int) (int32, int) {
	if i >= 0 && i+1 < len(p) && p[i+1] < 0x80 {
		return unzigzag(uint32(p[i]&0x7f) | uint32(p[i+1])<<7), i + 2
	}
	u, next := readUvarint(p, i, varintSizeMax)
	if u > 1<<32-1 {
		return 0, -1
	}
	return unzigzag(uint32(u)), next
}

func readVarint64(p []byte, i int) (int64, int) {
	if uint(i) < uint(len(p)) && p[i] < 0x80 {
		return unzigzag64(uint64(p[i])), i + 1
	}
	u, next := readUvarint(p, i, varint64SizeMax)
	return unzigzag64(u), next
}

// readUvarint reads at most sizeMax bytes.
func readUvarint(p []byte, i, sizeMax int) (uint64, int) {
	if i < 0 {
		return 0, -1
	}
	var u uint64
	for n := range sizeMax {
		if i+n >= len(p) {
			return 0, -1
		}
		c := p[i+n]
		if n == varint64SizeMax-1 && c > 1 {
			return 0, -1
		}
		u |= uint64(c&0x7f) << (7 * n)
		if c < 0x80 {
			return u, i + n + 1
		}
	}
	return 0, -1
}

func unzigzag(u uint32) int32   { return int32(u>>1) ^ -int32(u&1) }
func unzigzag64(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

func appendVarint(dst []byte, v int32) []byte { return appendVarint64(dst, int64(v)) }

func appendVarint64(dst []byte, v int64) []byte {
	u := uint64(v)<<1 ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// varintSize is the number of bytes appendVarint64 writes.
func varintSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}
