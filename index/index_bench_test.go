package index

import (
	"path/filepath"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// BenchmarkLookup searches the index of a full 1 GiB segment: 262,144 entries.
func BenchmarkLookup(b *testing.B) {
	const n = 1 << 18
	name := filepath.Join(b.TempDir(), "x.index")
	x := value[*Offset](b)(CreateOffset(vfs.OS, name, 0, n*OffsetEntrySize))
	for i := range int64(n) {
		must(b, x.Append(i*4+3, int32(i*4096+1)))
	}
	run := func(name string, target func(i int64) int64) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := int64(0)
			for b.Loop() {
				i++
				if _, _, err := x.Lookup(target(i)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	uniform := func(i int64) int64 { return i * 7919 * 31 % (n * 4) }
	run("mapped-tail", func(i int64) int64 { return n*4 - i%1000 })
	run("mapped-uniform", uniform)
	must(b, x.Seal())
	run("sealed-uniform", uniform)
}

func BenchmarkAppend(b *testing.B) {
	name := filepath.Join(b.TempDir(), "x.index")
	x := value[*Offset](b)(CreateOffset(vfs.OS, name, 0, 1<<23))
	b.ReportAllocs()
	i := int64(0)
	for b.Loop() {
		if x.Full() {
			b.StopTimer()
			must(b, x.Reset())
			i = 0
			b.StartTimer()
		}
		i++
		must(b, x.Append(i, int32(i)))
	}
}
