package record

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestCombineCRC(t *testing.T) {
	r := rand.NewChaCha8([32]byte{1})
	p := make([]byte, 1<<20)
	_, _ = r.Read(p)
	want := crc32.Checksum(p, castagnoli)
	for _, at := range []int{0, 1, 2, 7, 40, 61, 4096, 65537, 1<<19 + 3, 1<<20 - 1, 1 << 20} {
		if got := combineCRC(crc32.Checksum(p[:at], castagnoli), crc32.Checksum(p[at:], castagnoli), len(p)-at); got != want {
			t.Errorf("at %d: %08x, want %08x", at, got, want)
		}
	}
}

// A batch whose records are summed as they come has the checksum of its bytes, however they come.
func TestSumAsTheyCome(t *testing.T) {
	for _, n := range []int{1, 2, 100, 1000} {
		for _, size := range []int{1, 100, sumChunk - 20, 3*sumChunk + 1} {
			if n*size > 5<<20 {
				continue
			}
			w := NewBuilder(Options{})
			value := make([]byte, size)
			for i := range n {
				value[i%size]++
				w.Append(int64(i), nil, value, nil)
				if i == n/2 {
					w.SetBuffer(make([]byte, 0, 2*w.Size()))
				}
			}
			if b, _ := w.Seal(nil); b.Check() != nil {
				t.Errorf("%d records of %d: %v", n, size, b.Check())
			}
		}
	}
}
