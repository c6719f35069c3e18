package segment

import (
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// BenchmarkCreate is what a roll costs the append worker: the files of the next segment, not yet synced.
func BenchmarkCreate(b *testing.B) {
	dir := b.TempDir()
	o := &Options{FS: vfs.OS, MaxBytes: 1 << 30, IndexIntervalBytes: 4096, IndexMaxBytes: 10 << 20, Now: func() int64 { return 0 }}
	var base int64
	b.ReportAllocs()
	for b.Loop() {
		s, err := Create(dir, base, o)
		if err != nil {
			b.Fatal(err)
		}
		base++
		b.StopTimer()
		s.Release()
		if err := s.Destroy(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
