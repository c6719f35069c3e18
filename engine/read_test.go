package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

func TestReadLimits(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.logWith("t", small(t, func(c *config.Topic) { c.SegmentBytes = 5_500 })) // five batches each
	p := watch(l)
	for range 12 {
		f.mustAppend(l, batchOf(testStartMs, 2, 500)) // offsets 0-1, 2-3, ...
	}
	if err := p.await(24); err != nil {
		t.Fatal(err)
	}
	f.settle()
	size := len(f.readAll(l, 0, 2)[0])
	for _, test := range []struct {
		name         string
		offset       int64
		maxBytes     int
		upTo         int64
		minOne       bool
		want         int // bytes
		firstOffset  int64
		wantErr      error
		wantSegments int64
	}{
		{"one batch exactly", 0, size, 24, true, size, 0, nil, 0},
		{"in the middle of a batch", 3, size, 24, true, size, 2, nil, 0},
		{"the trailing batch is cut", 0, size + 10, 24, true, size + 10, 0, nil, 0},
		{"too small, but one at least", 0, 1, 24, true, size, 0, nil, 0},
		{"too small for one", 0, 10, 24, false, 0, 0, nil, 0},
		{"no bytes wanted", 0, 0, 24, false, 0, 0, nil, 0},
		{"no bytes wanted, one at least", 0, 0, 24, true, size, 0, nil, 0},
		{"not across segments", 0, 1 << 20, 24, true, 5 * size, 0, nil, 0},
		{"second segment", 10, 1 << 20, 24, true, 5 * size, 10, nil, 10},
		{"clamped to upTo", 10, 1 << 20, 14, true, 2 * size, 10, nil, 10},
		{"clamped in the middle of a batch", 10, 1 << 20, 13, true, size, 10, nil, 10},
		{"at upTo", 14, 1 << 20, 14, true, 0, 0, nil, 0},
		{"above upTo", 15, 1 << 20, 14, true, 0, 0, nil, 0},
		{"the batch of offset ends above upTo", 13, 1 << 20, 14, true, size, 12, nil, 10},
		{"the batch of offset is cut by upTo", 12, 1 << 20, 13, true, 0, 0, nil, 0},
		{"at the end", 24, 1 << 20, 24, true, 0, 0, nil, 0},
		{"above the end", 25, 1 << 20, 24, true, 0, 0, ErrOffsetOutOfRange, 0},
		{"negative", -1, 1 << 20, 24, true, 0, 0, ErrOffsetOutOfRange, 0},
		{"last segment", 20, 1 << 20, 24, true, 2 * size, 20, nil, 20},
	} {
		for _, again := range []string{"", " after a restart"} {
			t.Run(test.name+again, func(t *testing.T) {
				log := l
				if again != "" {
					f2 := newFixture(t, vfs.FS(f.fs.(*vfs.Mem).Crash(vfs.KeepAll)))
					f2.open()
					log = f2.log2("t")
				}
				r, err := log.Read(test.offset, test.maxBytes, test.upTo, test.minOne)
				if !errors.Is(err, test.wantErr) || r.N != test.want {
					t.Fatalf("%d bytes, %v, want %d, %v", r.N, err, test.want, test.wantErr)
				}
				if r.N == 0 {
					if r.Seg != nil {
						t.Fatal("an empty range holds a segment")
					}
					r.Release()
					return
				}
				buf := make([]byte, r.N)
				if _, err := r.ReadAt(buf, 0); err != nil {
					t.Fatal(err)
				}
				r.Release()
				if len(buf) >= 8 && record.Batch(buf).BaseOffset() != test.firstOffset {
					t.Fatalf("begins at %d", record.Batch(buf).BaseOffset())
				}
			})
		}
	}
}

func TestHot(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.logWith("t", small(t, nil))
	f.fill(l, watch(l), 25, testStartMs)
	if !l.Hot(24) || !l.Hot(25) {
		t.Error("the tail is not hot")
	}
	f.restart()
	l = f.log2("t")
	if l.Hot(0) {
		t.Error("a segment nobody has looked at since the start is hot")
	}
}

// Readers, an appender, retention and truncation above the high watermark at once; run with -race.
func TestConcurrentReaders(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.logWith("t", small(t, func(c *config.Topic) { c.RetentionBytes = 30_000; c.FileDeleteDelayMs = 0 }))
	p := watchOnly(l, nil)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			offset := int64(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				hw := l.HighWatermark()
				got, err := readBatches(l, offset, hw)
				if errors.Is(err, ErrOffsetOutOfRange) {
					offset = l.StartOffset()
					continue
				}
				if err != nil {
					t.Errorf("read from %d to %d: %v", offset, hw, err)
					return
				}
				if len(got) > 0 {
					offset = got[len(got)-1].NextOffset()
				}
			}
		})
	}
	for i := range 300 {
		f.mustAppend(l, batchOf(testStartMs, 1, 1000))
		if i%10 == 9 {
			if err := p.await(l.EndOffset()); err != nil {
				t.Fatal(err)
			}
			hw := l.EndOffset() - 3
			l.SetHighWatermark(hw)
			if err := l.Truncate(hw); err != nil {
				t.Fatal(err)
			}
			p.mu.Lock()
			p.flushed = hw
			p.mu.Unlock()
			f.e.Tick(f.clock.advance(1_000_000))
		}
	}
	close(stop)
	readers.Wait()
	if l.StartOffset() == 0 {
		t.Error("retention never ran")
	}
	f.settle()
}

// A look-up that a truncation overtakes finds a file that ends before it should. That is no damage, and nothing behind the bound is read: it is done again.
func TestReadBesideTruncation(t *testing.T) {
	for _, look := range []struct {
		name string
		fn   func(l *Log, hw int64) error
	}{
		{"read", func(l *Log, hw int64) error {
			r, err := l.Read(hw-1, 1<<20, hw, true)
			defer r.Release()
			if err == nil {
				_, err = r.ReadAt(make([]byte, r.N), 0)
			}
			if err == nil && r.Pos+int64(r.N) > l.Size() {
				err = fmt.Errorf("%d bytes from %d on, of %d", r.N, r.Pos, l.Size())
			}
			return err
		}},
		{"timestamp", func(l *Log, hw int64) error {
			_, _, _, _, err := l.OffsetForTimestamp(testStartMs+30, hw)
			return err
		}},
	} {
		fault := vfs.NewFault(vfs.NewMem(1))
		f := newFixture(t, fault)
		f.open()
		l := f.logWith("t", small(t, func(c *config.Topic) { c.SegmentBytes, c.IndexIntervalBytes = 1<<20, 1<<20 }))
		p := watchOnly(l, nil)
		for i := range int64(200) { // more than the short cuts to the tail know
			f.mustAppend(l, batchOf(testStartMs+i, 1, 100))
		}
		f.awaitFlushed(p, l)
		const hw = 50
		l.SetHighWatermark(hw)
		l.tail.clear()
		cut := make(chan error, 1)
		inj := fault.Inject(vfs.Injection{Match: func(op vfs.Op) bool { return op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, logSuffix) }, Nth: 1,
			Before: func(vfs.Op) { cut <- l.Truncate(hw) }})
		if err := look.fn(l, hw); err != nil {
			t.Errorf("%s: %v", look.name, err)
		}
		if inj.Hits() == 1 {
			if err := <-cut; err != nil {
				t.Errorf("%s: %v", look.name, err)
			}
		} else {
			t.Errorf("%s: nothing was read: the truncation came at no time", look.name)
		}
		if l.EndOffset() != hw || l.Damages() > 0 {
			t.Errorf("%s: end %d, damages %v", look.name, l.EndOffset(), l.Damages())
		}
		f.close()
	}
}

func TestTruncate(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.logWith("t", small(t, nil))
	p := watchOnly(l, nil)
	for i := range int32(25) {
		b := buildBatch(record.Options{Idempotent: true, ProducerID: 4, BaseSequence: i}, testStartMs, 1, 1000)
		if a := appendAs(l, b, FromClient, i/10); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	if err := p.await(25); err != nil {
		t.Fatal(err)
	}
	f.settle()
	l.SetHighWatermark(5)
	if err := l.Truncate(4); !errors.Is(err, ErrBelowHighWatermark) { // B-D2
		t.Fatal(err)
	}
	if err := l.Truncate(30); err != nil || l.EndOffset() != 25 {
		t.Fatal(err)
	}
	for _, to := range []int64{22, 20, 13, 10, 5} { // inside a segment, between two (B-B4), inside a sealed one
		if err := l.Truncate(to); err != nil {
			t.Fatal(to, err)
		}
		if l.EndOffset() != to || l.FlushedOffset() != to || len(f.readAll(l, 0, to)) != int(to) {
			t.Fatalf("to %d: end %d flushed %d", to, l.EndOffset(), l.FlushedOffset())
		}
		if want := int32(to-1) / 10; l.LatestEpoch() != want {
			t.Fatalf("to %d: epoch %d", to, l.LatestEpoch())
		}
		// The producer is where it was then: the next sequence is accepted, and cut again.
		next := buildBatch(record.Options{Idempotent: true, ProducerID: 4, BaseSequence: int32(to)}, testStartMs, 1, 1000)
		if a := appendAs(l, next, FromClient, l.LatestEpoch()); a.Err != nil || a.Duplicate || a.BaseOffset != to {
			t.Fatalf("to %d: %+v", to, a)
		}
		for l.FlushedOffset() < to+1 {
			f.settle()
		}
	}
	f.restart()
	l = f.log2("t")
	if l.EndOffset() != 6 || len(f.readAll(l, 0, 6)) != 6 {
		t.Fatalf("end %d", l.EndOffset())
	}
}

func TestOffsetForTimestamp(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.logWith("t", small(t, func(c *config.Topic) { c.SegmentBytes = 900; c.TimestampAfterMaxMs = config.NoLimit }))
	p := watch(l)
	// Six batches of three records: timestamps 100,101,102 ... in several segments, one batch out of order, one compressed.
	for i, ts := range []int64{100, 200, 150, 300, 400, 50} {
		o := record.Options{}
		if i == 3 {
			o.Codec = record.Gzip // B2: inside compressed batches, too
		}
		f.mustAppend(l, buildBatch(o, testStartMs+ts, 3, 100))
	}
	if err := p.await(18); err != nil {
		t.Fatal(err)
	}
	f.settle()
	if n := len(l.segs.Load().list); n < 3 {
		t.Fatalf("%d segments", n)
	}
	check := func(l *Log) {
		t.Helper()
		for _, test := range []struct {
			ts, upTo, want, wantTs int64
		}{
			{0, 18, 0, 100}, {100, 18, 0, 100}, {101, 18, 1, 101}, {103, 18, 3, 200}, {202, 18, 5, 202}, {203, 18, 9, 300}, {301, 18, 10, 301},
			{303, 18, 12, 400}, {402, 18, 14, 402}, {403, 18, -1, 0}, {400, 12, -1, 0}, {302, 12, 11, 302},
		} {
			offset, ts, epoch, found, err := l.OffsetForTimestamp(testStartMs+test.ts, test.upTo)
			if err != nil || found != (test.want >= 0) || offset != test.want || found && (ts != testStartMs+test.wantTs || epoch != 0) {
				t.Errorf("first at or after %d below %d: offset %d, ts %d, epoch %d, %v, %v", test.ts, test.upTo, offset, ts-testStartMs, epoch, found, err)
			}
		}
		for _, test := range []struct{ upTo, want, wantTs int64 }{{18, 14, 402}, {12, 11, 302}, {9, 5, 202}} { // B1
			offset, ts, _, found, err := l.MaxTimestampOffset(test.upTo)
			if err != nil || !found || offset != test.want || ts != testStartMs+test.wantTs {
				t.Errorf("largest below %d: offset %d, ts %d, %v, %v", test.upTo, offset, ts-testStartMs, found, err)
			}
		}
	}
	check(l)
	f.restart()
	check(f.log2("t"))
	l = f.log2("t")
	l.SetHighWatermark(18)
	if _, err := l.DeleteRecords(5); err != nil {
		t.Fatal(err)
	}
	if offset, _, _, _, err := l.OffsetForTimestamp(testStartMs, 18); offset != 5 || err != nil {
		t.Errorf("below the log start: %d, %v", offset, err)
	}
}
