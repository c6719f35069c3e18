package index

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// TestTailModel drives an index by random steps beside a slice: entries are found whether they wait in memory or are mapped, a sync makes all of
// them durable, and a truncation takes them from both places.
func TestTailModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 7))
		m := newMem(t)
		must(t, m.SyncDir("."))
		x := value[*Offset](t)(CreateOffset(m, "d/x", 10, 1<<16))
		must(t, m.SyncDir("d"))
		var want []OffsetEntry
		synced := 0
		for range 60 {
			switch rng.IntN(6) {
			case 0, 1:
				want = growOffsets(t, x, rng.IntN(2*tailEntries+2), rng.Uint64())
			case 2:
				want = growOffsets(t, x, tailEntries, rng.Uint64()) // exactly a tail
			case 3:
				must(t, x.Sync())
				synced = len(want)
			case 4:
				if n := rng.IntN(len(want) + 1); n < len(want) {
					must(t, x.TruncateTo(want[n].Offset))
					want, synced = want[:n], min(synced, n)
				}
			case 5:
				after := m.Crash(vfs.LoseUnsynced)
				y, _, err := OpenOffset(after, "d/x", 10, 1<<16)
				must(t, err)
				if got := entriesOf(t, y); len(got) < synced || !slices.Equal(got[:synced], want[:synced]) { // a truncation may be lost
					t.Fatalf("seed %d: %d entries after the cut, %d were synced", seed, len(got), synced)
				}
				must(t, y.Close())
			}
			checkOffsets(t, x, want)
		}
		must(t, x.Seal())
		checkOffsets(t, x, want)
		must(t, x.Close())
	}
}

// TestTailReaders: readers and a syncing goroutine beside the writer see entries that were appended, in order, and nothing else (B-B3).
func TestTailReaders(t *testing.T) {
	onEachFS(t, func(t *testing.T, fsys vfs.FS, dir string) {
		for round := range 4 {
			x := value[*Offset](t)(CreateOffset(fsys, filepath.Join(dir, "x"), 0, 1<<16))
			stop := make(chan struct{})
			var others sync.WaitGroup
			running := func() bool {
				select {
				case <-stop:
					return false
				default:
					return true
				}
			}
			for range 2 {
				others.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(round), 3))
					for running() {
						// Entry k is (10 k + 10, k + 1), whatever was truncated in between.
						target := rng.Int64N(6000)
						if e, found, err := x.Lookup(target); err != nil || found && (e.Offset > target || e.Offset != 10*int64(e.Position)) {
							t.Errorf("lookup of %d: %v %v %v", target, e, found, err)
							return
						}
						x.Warm(target)
					}
				})
			}
			others.Go(func() {
				for running() {
					if err := x.Sync(); err != nil {
						t.Error(err)
						return
					}
				}
			})
			grow := func(to int) {
				for k := x.Entries(); k < to; k++ {
					must(t, x.Append(10*int64(k)+10, int32(k+1)))
				}
			}
			for _, cut := range []int{30, 0, tailEntries, 130, 1} {
				grow(cut + 1 + round*13)
				must(t, x.TruncateTo(10*int64(cut)+10))
			}
			grow(300)
			must(t, x.Seal())
			close(stop)
			others.Wait()
			must(t, x.Close())
		}
	})
}
