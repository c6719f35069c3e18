//go:build linux

package bench

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"testing"

	"github.com/leatmq/leat/index"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

const (
	indexEntries = 262_144 // a segment of 1 GiB with an entry per 4 KiB
	lookups      = 1 << 20 // of one turn
)

// BenchmarkIndexLookup looks up random offsets in a full offset index. The floor is a binary search in a slice.
func BenchmarkIndexLookup(b *testing.B) {
	x, offsets := fullIndex(b)
	order := rand.New(rand.NewPCG(1, 2))
	targets := make([]int64, 1<<16)
	for i := range targets {
		targets[i] = order.Int64N(offsets[len(offsets)-1])
	}
	compare(b, "offset index look-up, 262,144 entries", "", func() sample {
		return timed(lookups, lookups, lookups*8, func() {
			for i := range lookups {
				e, found, err := x.Lookup(targets[i%len(targets)])
				if err != nil || found && e.Offset > targets[i%len(targets)] {
					b.Fatal(e, err)
				}
			}
		})
	}, func() sample {
		return timed(lookups, lookups, lookups*8, func() {
			for i := range lookups {
				target := targets[i%len(targets)]
				n := sort.Search(len(offsets), func(k int) bool { return offsets[k] > target })
				if n > 0 && offsets[n-1] > target {
					b.Fatal(n)
				}
			}
		})
	})
}

func fullIndex(b *testing.B) (*index.Offset, []int64) {
	b.Helper()
	x, err := index.CreateOffset(vfs.OS, filepath.Join(scratch(b), "00000000000000000000.index"), 0, indexEntries*8)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { x.Close() })
	offsets := make([]int64, indexEntries)
	for i := range offsets {
		offsets[i] = int64(i+1) * 4
		if err := x.Append(offsets[i], int32(i*4096)); err != nil {
			b.Fatal(err)
		}
	}
	return x, offsets
}

// BenchmarkValidate validates batches as the broker does for every produced one. The floor is their CRC alone.
func BenchmarkValidate(b *testing.B) {
	for _, shape := range []struct {
		name    string
		records int
		value   int
	}{{"16x1KiB", 16, 1013}, {"64x1KiB", 64, 1013}, {"1x100B", 1, 100}, {"1000x10B", 1000, 10}} {
		b.Run(shape.name, func(b *testing.B) { benchValidate(b, shape.name, newBatch(shape.records, shape.value)) })
	}
}

func benchValidate(b *testing.B, name string, batch record.Batch) {
	rules := &record.Rules{MaxBatchBytes: 1 << 20, BeforeMaxMs: 1 << 60, AfterMaxMs: 3_600_000, CodecIsProducer: true}
	table := crc32.MakeTable(crc32.Castagnoli)
	count, now := int(batch.Count()), batch.MaxTimestamp()
	n := 64 << 20 / (len(batch) + 4000)
	var v record.Validator
	compare(b, fmt.Sprintf("validation of %s", name), "", func() sample {
		return timed(n, n*count, int64(n*len(batch)), func() {
			for range n {
				if _, err := v.Validate(batch, rules, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}, func() sample {
		return timed(n, n*count, int64(n*len(batch)), func() {
			for range n {
				if crc32.Checksum(batch[21:], table) != batch.CRC() {
					b.Fatal("wrong checksum")
				}
			}
		})
	})
}
