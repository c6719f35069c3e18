package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// Every mutating operation of a small workload fails once, with each kind of error. Whatever the workload is told, nothing that was acknowledged may
// be missing when the disk works again, and a full disk must not have taken the directory offline for good.
func TestFaultSweep(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 7
	}
	for _, fault := range []struct {
		name   string
		err    error
		short  int64
		sticky bool // it does not get better
	}{
		{"full disk", syscall.ENOSPC, 0, false}, {"short write on a full disk", syscall.ENOSPC, 100, false}, {"disk stays full", syscall.ENOSPC, 0, true},
		{"I/O error", syscall.EIO, 0, false}, {"dead disk", syscall.EIO, 0, true},
	} {
		t.Run(fault.name, func(t *testing.T) {
			for n := 1; ; n += stride {
				mem := vfs.NewMem(uint64(n))
				f := vfs.NewFault(mem)
				in := f.Inject(vfs.Injection{Match: vfs.Mutating, Nth: n, Err: fault.err, Short: fault.short, Sticky: fault.sticky})
				acked := faultyWorkload(t, f)
				if in.Hits() == 0 {
					t.Logf("%d operations", n-1)
					return
				}
				if err := checkAcked(t, mem.Crash(vfs.LoseUnsynced), acked); err != nil {
					t.Fatalf("operation %d failed: %v", n, err)
				}
			}
		})
	}
}

// faultyWorkload returns the batches that were acknowledged, by offset. It goes on after errors.
func faultyWorkload(t *testing.T, fsys vfs.FS) map[int64][]byte {
	acked := map[int64][]byte{}
	f := newFixture(t, fsys)
	for round := range 2 {
		if _, err := f.tryOpen(); err != nil {
			continue
		}
		l, err := f.e.Create(TopicPartition{Topic: "t"}, testID, crashConfig(t))
		if err != nil {
			_ = f.e.Close(context.Background())
			continue
		}
		p := watch(l)
		for i := range 12 {
			a := appendBatch(l, batchOf(testStartMs, 1, 300+10*i))
			if a.Err == nil && p.await(a.LastOffset+1) == nil {
				acked[a.BaseOffset] = bytes.Clone(a.Batch)
			}
			if i == 6 {
				f.settle()
				f.e.Tick(f.clock.advance(100_000))
			}
		}
		f.settle()
		if round == 0 {
			_, _ = l.DeleteRecords(2)
		}
		f.e.Tick(f.clock.advance(400_000))
		_ = f.e.Close(context.Background())
	}
	return acked
}

// checkAcked opens the disk and looks for the batches, but for those below the log start.
func checkAcked(t *testing.T, disk *vfs.Mem, acked map[int64][]byte) error {
	f := newFixture(t, disk)
	if _, err := f.tryOpen(); err != nil {
		return err
	}
	defer f.e.Close(context.Background())
	l := f.e.Log(TopicPartition{Topic: "t"})
	if l == nil {
		if len(acked) > 0 {
			return errors.New("the log is gone")
		}
		return nil
	}
	if l.Err() != nil {
		return l.Err()
	}
	batches, err := readBatches(l, l.StartOffset(), l.EndOffset())
	if err != nil {
		return err
	}
	for offset, want := range acked {
		i := slices.IndexFunc(batches, func(b record.Batch) bool { return b.BaseOffset() == offset })
		if offset >= l.StartOffset() && (i < 0 || !bytes.Equal(batches[i], want)) {
			return fmt.Errorf("acknowledged batch %d of %d..%d is missing\n%s", offset, l.StartOffset(), l.EndOffset(), f.logs)
		}
	}
	return nil
}

// One list of operations, run with different options and restarts: what a reader sees must not depend on them.
func TestMetamorphic(t *testing.T) {
	for seed := range uint64(8) {
		var want string
		for variant := range 6 {
			got := metamorphicRun(t, seed, variant)
			if variant == 0 {
				want = got
			} else if got != want {
				t.Fatalf("seed %d, variant %d:\n%s\nwant:\n%s", seed, variant, got, want)
			}
		}
	}
}

func metamorphicRun(t *testing.T, seed uint64, variant int) string {
	f := newFixture(t, vfs.NewMem(seed))
	f.tweak = func(o *Options) {
		o.Workers = 1 + variant%3
		o.SyncMethod = []string{"auto", "fdatasync", "syncfs"}[variant%3]
	}
	cfg := small(t, func(c *config.Topic) {
		c.SegmentBytes = []int{2_000, 5_000, 1 << 20}[variant%3]
		c.IndexIntervalBytes = 1 + 700*variant
		c.RetentionMs = -1
		c.WriteCaching = variant == 4
	})
	ops := rand.New(rand.NewPCG(seed, 1))
	extra := rand.New(rand.NewPCG(seed, uint64(variant))) // decides what must not matter
	f.open()
	l := f.logWith("t", cfg)
	var out bytes.Buffer
	for range 120 {
		switch op := ops.IntN(10); {
		case op < 6:
			records, size := 1+ops.IntN(4), 20+ops.IntN(300)
			a := appendBatch(l, buildBatch(record.Options{Codec: record.Codec(ops.IntN(2))}, testStartMs+int64(ops.IntN(1000)), records, size))
			fmt.Fprintln(&out, "append", a.BaseOffset, a.LastOffset, a.Err)
		case op < 7:
			to := l.StartOffset() + int64(ops.IntN(int(l.EndOffset()-l.StartOffset())+1))
			err := l.Truncate(to)
			fmt.Fprintln(&out, "truncate", to, err, l.EndOffset() <= to+3)
		case op < 8:
			ts := testStartMs + int64(ops.IntN(1100))
			offset, found, _, ok, err := l.OffsetForTimestamp(ts, l.EndOffset())
			fmt.Fprintln(&out, "timestamp", offset, found, ok, err)
		default:
			from := l.StartOffset() + int64(ops.IntN(int(l.EndOffset()-l.StartOffset())+1))
			batches, err := readBatches(l, from, l.EndOffset())
			fmt.Fprintln(&out, "read", from, len(batches), err)
			for _, b := range batches {
				fmt.Fprintln(&out, b.BaseOffset(), b.CRC())
			}
		}
		switch extra.IntN(15) {
		case 0:
			f.restart()
			l = f.logWith("t", cfg)
		case 1:
			if !cfg.WriteCaching {
				for l.FlushedOffset() < l.EndOffset() {
					f.settle()
				}
			}
			f.kill() // the page cache survives a killed process
			f.open()
			l = f.logWith("t", cfg)
		case 2:
			f.e.Tick(f.clock.advance(61_000))
		}
	}
	return out.String()
}
