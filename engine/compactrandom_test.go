package engine

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

func seedOf(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("LEAT_SEED"); s != "" {
		fmt.Sscan(s, &seed)
	}
	t.Logf("LEAT_SEED=%d", seed)
	return seed
}

// compactWorkload appends what a random program of producers does: idempotent, transactional and plain batches of keys, values and tombstones.
type compactWorkload struct {
	*fixture
	rng  *rand.Rand
	m    *compactModel
	seq  map[int64]int32
	open map[int64][]int64 // offsets of the open transaction of each transactional producer
}

func (w *compactWorkload) append(l *Log) {
	o := record.Options{Codec: record.Codec(w.rng.IntN(5))}
	id := int64(w.rng.IntN(8))
	if id >= 3 {
		o.Idempotent, o.ProducerID, o.BaseSequence = true, id, w.seq[id]
	}
	if id >= 6 {
		o.Transactional = true
		if len(w.open[id]) > 0 && w.rng.IntN(3) == 0 {
			w.endTransaction(l, id)
			return
		}
	}
	b := record.NewBuilder(o)
	n := 1 + w.rng.IntN(6)
	for range n {
		value := bytes.Repeat([]byte{byte('a' + w.rng.IntN(26))}, w.rng.IntN(120))
		if w.rng.IntN(4) == 0 {
			value = nil
		}
		b.Append(w.clock.Now()-int64(w.rng.IntN(2000)), fmt.Appendf(nil, "k%d", w.rng.IntN(30)), value, nil)
	}
	batch := record.Batch(b.Bytes())
	a := w.mustAppend(l, bytes.Clone(batch))
	w.m.add(a.BaseOffset, batch, id < 6)
	w.seq[id] += int32(n)
	if id >= 6 {
		for i := range n {
			w.open[id] = append(w.open[id], a.BaseOffset+int64(i))
		}
	}
}

func (w *compactWorkload) endTransaction(l *Log, id int64) {
	kind := uint16(w.rng.IntN(2))
	a := appendAs(l, markerBatch(id, 0, 0, w.clock.Now(), kind, 1), FromInternal, 0)
	if a.Err != nil {
		w.t.Fatal(a.Err)
	}
	w.m.end = a.BaseOffset + 1
	for _, offset := range w.open[id] {
		r := w.m.records[offset]
		r.visible = kind == markerCommit
		w.m.records[offset] = r
	}
	w.open[id] = nil
}

// A random log that is compacted at random points, restarted, crashed: what readers can make of it is the same as of the whole log.
func TestCompactMetamorphic(t *testing.T) {
	seed := seedOf(t)
	rounds := 12
	if testing.Short() {
		rounds = 3
	}
	for round := range rounds {
		mem := vfs.NewMem(seed + uint64(round))
		w := &compactWorkload{fixture: newFixture(t, mem), rng: rand.New(rand.NewPCG(seed, uint64(round))), m: newCompactModel(), seq: map[int64]int32{}, open: map[int64][]int64{}}
		if round%3 == 1 {
			w.tweak = func(o *Options) { o.Defaults.CleanerDedupeBufferBytes = 24 * 17 }
		}
		cfg := compactConfig(t, func(c *config.Topic) { c.DeleteRetentionMs = 3_000 })
		w.fixture.open()
		l := w.logWith("t", cfg)
		p := watch(l)
		for step := range 60 {
			for range w.rng.IntN(12) {
				w.append(l)
			}
			w.awaitFlushed(p, l)
			now := w.clock.advance(int64(w.rng.IntN(1500)))
			switch w.rng.IntN(6) {
			case 0, 1, 2:
				w.e.Clean(now)
			case 3:
				w.e.Tick(now)
			case 4:
				if w.rng.IntN(4) > 0 {
					continue
				}
				w.restart()
				l = w.logWith("t", cfg)
				p = watch(l)
			case 5:
				if w.rng.IntN(4) > 0 {
					continue
				}
				crashed := mem.Crash(vfs.CrashModes[w.rng.IntN(len(vfs.CrashModes))])
				w.kill()
				mem, w.fs = crashed, crashed
				w.fixture.open()
				l = w.logWith("t", cfg)
				p = watch(l)
			}
			if s := w.e.CleanerStats(); s.Failures > 0 {
				t.Fatalf("round %d, step %d: %+v\n%s", round, step, s, w.logs)
			}
			if err := w.checkVisible(l); err != nil {
				t.Fatalf("round %d, step %d: %v\n%s", round, step, err, w.logs)
			}
		}
		if err := checkSegments(w.fs, l); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		w.close()
	}
}

// checkVisible checks the log up to the first offset of an open transaction.
func (w *compactWorkload) checkVisible(l *Log) error {
	upTo := l.EndOffset()
	if first, ok := l.FirstUnstableOffset(); ok {
		upTo = first
	}
	if upTo == 0 {
		return nil
	}
	return w.m.check(l, upTo)
}
