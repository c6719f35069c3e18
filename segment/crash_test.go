package segment

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// history is what a crash test knows about the segment at any moment.
type history struct {
	batches  []record.Batch // appended, the last group perhaps not entirely
	before   []record.Batch // during a truncation: what there was
	durable  int            // of batches, at least so many must come back
	recovery int64          // the recovery point, as a position
}

// allowed tells whether got may be what a crash left.
func (h *history) allowed(got []record.Batch) error {
	if len(got) < h.durable {
		return fmt.Errorf("%d batches came back, %d were durable", len(got), h.durable)
	}
	if isPrefix(got, h.batches) || isPrefix(got, h.before) {
		return nil
	}
	return fmt.Errorf("%d batches came back that were not appended so", len(got))
}

func isPrefix(got, of []record.Batch) bool {
	if len(got) > len(of) {
		return false
	}
	for i := range got {
		if string(got[i]) != string(of[i]) {
			return false
		}
	}
	return true
}

func size(batches []record.Batch) (n int64) {
	for _, b := range batches {
		n += int64(len(b))
	}
	return n
}

// crashWorkload does n random steps and calls at after each.
func crashWorkload(t *testing.T, s *Segment, h *history, rng *rand.Rand, steps int) {
	for range steps {
		switch rng.IntN(8) {
		case 0:
			must(t, s.Sync())
			h.durable = len(h.batches)
		case 1:
			must(t, s.Sync())
			h.durable = len(h.batches)
			must(t, s.SyncIndexes())
			h.recovery = s.Size()
		case 2:
			truncateSome(t, s, h, rng)
		default:
			appendSome(t, s, h, rng)
		}
	}
}

func appendSome(t *testing.T, s *Segment, h *history, rng *rand.Rand) {
	next := s.NextOffset()
	var group []record.Batch
	for range 1 + rng.IntN(4) {
		ts := 1_000_000 + next*10 + rng.Int64N(300)
		b := makeBatch(next, rng.IntN(900), ts, ts-rng.Int64N(50))
		group = append(group, b)
		next = b.NextOffset()
	}
	h.batches = append(h.batches[:len(h.batches):len(h.batches)], group...)
	appendBatches(t, s, group...)
}

func truncateSome(t *testing.T, s *Segment, h *history, rng *rand.Rand) {
	if len(h.batches) == 0 {
		return
	}
	n := max(0, len(h.batches)-1-rng.IntN(5))
	to := h.batches[n].BaseOffset()
	h.before = h.batches
	h.batches = h.batches[:n:n]
	// B-A9, B-C12: the promise is lowered first.
	h.durable = min(h.durable, n)
	h.recovery = min(h.recovery, size(h.batches))
	value[int64](t)(s.TruncateTo(to))
	h.before = nil
}

// TestCrashAnywhere cuts the power after every operation that changes the disk, in every mode, and restarts, appends, cuts the power and restarts
// again. R5, R1, A6, A7, A8, A15, A16, A17, A18, B-A8, B-A9, B-A13, B-B7: what was synced is there, what comes back is what was
// appended, and stays.
func TestCrashAnywhere(t *testing.T) {
	seeds, steps := 4, 50
	if testing.Short() || invariant.Enabled { // the race detector makes every byte slow
		seeds, steps = 1, 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { crashAnywhere(t, uint64(seed), steps) })
	}
}

func crashAnywhere(t *testing.T, seed uint64, steps int) {
	m := testMem(t, seed)
	o := testOptions(m)
	s := value[*Segment](t)(Create(testDir, 1000, o))
	must(t, m.SyncDir(testDir))
	h := &history{}
	crashes := 0
	m.OnOp = func(op vfs.Op) {
		for _, mode := range vfs.CrashModes {
			crashes++
			what := fmt.Sprintf("crash %d, %v after %v", crashes, mode, op)
			afterCrash(t, what, m.Crash(mode), h, seed+uint64(crashes))
			if t.Failed() {
				t.FailNow()
			}
		}
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	crashWorkload(t, s, h, rng, steps)
	must(t, s.Sync())
	h.durable = len(h.batches)
	must(t, s.Seal(5000))
	must(t, s.Sync())
	m.OnOp = nil
	s.Release()
	if crashes < 5*steps {
		t.Fatalf("only %d crashes", crashes)
	}
}

// afterCrash restarts twice.
func afterCrash(t *testing.T, what string, disk *vfs.Mem, h *history, seed uint64) {
	o := testOptions(disk)
	s, err := Open(testDir, 1000, o, false)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got := recoverAll(t, what, s, h.recovery)
	if err := h.allowed(got); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	checkAfterRecovery(t, what, s, got)

	// What recovery accepted is durable (B-A8), and a second one changes nothing (A8).
	s, err = Open(testDir, 1000, testOptions(disk.Crash(vfs.LoseUnsynced)), false)
	if err != nil {
		t.Fatalf("%s, second restart: %v", what, err)
	}
	second := recoverAll(t, what, s, h.recovery)
	if len(second) != len(got) || !isPrefix(second, got) {
		t.Fatalf("%s: %d batches after the second recovery, %d after the first", what, len(second), len(got))
	}

	// A6: append, crash, restart.
	after := &history{batches: got, durable: len(got), recovery: h.recovery}
	rng := rand.New(rand.NewPCG(seed, 9))
	appendSome(t, s, after, rng)
	must(t, s.Sync())
	after.durable = len(after.batches)
	appendSome(t, s, after, rng)
	mode := vfs.CrashModes[rng.IntN(len(vfs.CrashModes))]
	again := s.o.FS.(*vfs.Mem).Crash(mode)
	s, err = Open(testDir, 1000, testOptions(again), false)
	if err != nil {
		t.Fatalf("%s, third restart: %v", what, err)
	}
	third := recoverAll(t, what, s, h.recovery)
	if err := after.allowed(third); err != nil {
		t.Fatalf("%s, appended, %v: %v", what, mode, err)
	}
	checkAfterRecovery(t, what, s, third)
}

func recoverAll(t *testing.T, what string, s *Segment, from int64) []record.Batch {
	t.Helper()
	visited := 0
	result, err := s.Recover(from, func(b record.Batch, pos int64) error {
		if pos < from {
			t.Fatalf("%s: visited position %d before %d", what, pos, from)
		}
		visited++
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	got := contents(t, s)
	if result.Size != size(got) || result.NextOffset != s.NextOffset() || visited > len(got) {
		t.Fatalf("%s: %+v, %d visited", what, result, visited)
	}
	return got
}

func checkAfterRecovery(t *testing.T, what string, s *Segment, want []record.Batch) {
	t.Helper()
	checkLookups(t, s, want)
	must(t, VerifySegment(s.o.FS, testDir, 1000, false, func(p Problem) error {
		if !p.Harmless() {
			t.Errorf("%s: %v", what, p)
		}
		return nil
	}))
	ts, last := int64(-1), int64(1000)
	for _, b := range want {
		if b.MaxTimestamp() > ts {
			ts, last = b.MaxTimestamp(), b.LastOffset()
		}
	}
	if gotTs, gotLast, err := s.MaxTimestamp(); gotTs != ts || gotLast != last || err != nil {
		t.Errorf("%s: max timestamp %d at %d, %v; want %d at %d", what, gotTs, gotLast, err, ts, last)
	}
}

// TestCrashOfSealed: B-B1, B-B2, A1, A2, A3, R2, R6: whatever a power cut leaves of the indexes of a segment that was being sealed, and of
// its cut, the segment reads right.
func TestCrashOfSealed(t *testing.T) {
	for seed := range uint64(20) {
		m := testMem(t, seed)
		s := value[*Segment](t)(Create(testDir, 1000, testOptions(m)))
		must(t, m.SyncDir(testDir))
		want := fill(t, s, 60, seed)
		must(t, s.Sync())
		must(t, s.Seal(5000))
		for _, mode := range vfs.CrashModes {
			disk := m.Crash(mode)
			s := value[*Segment](t)(Open(testDir, 1000, testOptions(disk), true))
			must(t, s.Load())
			checkAfterRecovery(t, fmt.Sprintf("seed %d, %v", seed, mode), s, want)
			s = reopen(t, s, true)
			checkAfterRecovery(t, fmt.Sprintf("seed %d, %v, again", seed, mode), s, want)
		}
	}
}
