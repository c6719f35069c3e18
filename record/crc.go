package record

import "hash/crc32"

// CRC-32C of two parts from those of each: the checksum of a batch begins with header fields that are known last, while its records are summed as they come.
//
// A checksum is the remainder of the bytes, as a polynomial over GF(2), modulo Castagnoli's, with the bits reversed: bit 31 is x^0. Appending n bytes multiplies by x^(8n).

// castagnoliReversed is x^32's remainder, the polynomial without its highest term.
const castagnoliReversed = crc32.Castagnoli

// powers are x^(2^i) modulo the polynomial.
var powers = func() (p [32]uint32) {
	p[0] = 1 << 30 // x^1
	for i := range p[1:] {
		p[i+1] = multiplyMod(p[i], p[i])
	}
	return p
}()

// multiplyMod is a·b modulo the polynomial.
func multiplyMod(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			product ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ castagnoliReversed
		} else {
			b >>= 1
		}
	}
	return product
}

// combineCRC is the checksum of two parts, the second of which has n bytes.
func combineCRC(first, second uint32, n int) uint32 {
	for i := 3; n > 0; n, i = n>>1, i+1 {
		if n&1 != 0 {
			first = multiplyMod(powers[i&31], first)
		}
	}
	return first ^ second
}
