package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

const dayMs = 86_400_000

// small returns a configuration with segments of about 10 batches of 1000 bytes.
func small(t testing.TB, change func(*config.Topic)) *config.Topic {
	cfg := *topicConfig(t, nil)
	cfg.SegmentBytes = 11_000
	if change != nil {
		change(&cfg)
	}
	return &cfg
}

func (f *fixture) logWith(topic string, cfg *config.Topic) *Log {
	f.t.Helper()
	l, err := f.e.Create(TopicPartition{Topic: topic}, testID, cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// fill appends n batches of 1000 bytes with timestamps from ts on and waits until they are flushed.
func (f *fixture) fill(l *Log, p *progress, n int, ts int64) {
	f.t.Helper()
	for range n {
		f.mustAppend(l, batchOf(ts, 1, 1000))
	}
	if err := p.await(l.EndOffset()); err != nil {
		f.t.Fatal(err)
	}
	f.settle()
}

func TestRetention(t *testing.T) {
	now := int64(testStartMs)
	// 25 records: segments 0..9, 10..19, 20..24, filled a day apart.
	for _, test := range []struct {
		name      string
		change    func(*config.Topic)
		ts        int64 // of the records; 0 = the broker's clock
		afterMs   int64 // from the last append to the check
		hw        int64
		wantStart int64
	}{
		{"nothing is old", nil, 0, dayMs, 25, 0},
		{"first segment is old", nil, 0, 5*dayMs + 1, 25, 10},
		{"two are old", nil, 0, 6*dayMs + 1, 25, 20},
		{"all are old: the active one, too", nil, 0, 7*dayMs + 1, 25, 25},
		{"never above the high watermark", nil, 0, 8 * dayMs, 15, 10},
		{"forever", func(c *config.Topic) { c.RetentionMs = -1 }, 0, 1000 * dayMs, 25, 0},
		{"B10: records from the future do not pin", func(c *config.Topic) { c.TimestampAfterMaxMs = config.NoLimit }, 2 * now, 8 * dayMs, 25, 25},
		{"nor are records from the past deleted", nil, 1000, dayMs, 25, 0},
		{"a record a little in the future counts", func(c *config.Topic) { c.TimestampAfterMaxMs = config.NoLimit }, now + 2*dayMs + 1_800_000, 7*dayMs + 1000, 25, 20},
		{"size", func(c *config.Topic) { c.RetentionBytes = 16_096 }, 0, 0, 25, 0},
		{"size, one too many", func(c *config.Topic) { c.RetentionBytes = 16_095 }, 0, 0, 25, 10},
		{"size, down to the active one", func(c *config.Topic) { c.RetentionBytes = 5_000 }, 0, 0, 25, 20},
		{"size 0 empties", func(c *config.Topic) { c.RetentionBytes = 0 }, 0, 0, 25, 25},
		{"compacted keeps everything", func(c *config.Topic) { c.Delete, c.Compact = false, true }, 0, 1000 * dayMs, 25, 0},
		{"compact,delete deletes", func(c *config.Topic) { c.Compact = true }, 0, 6*dayMs + 1, 25, 20},
		{"empty policy keeps everything", func(c *config.Topic) { c.Delete = false }, 0, 1000 * dayMs, 25, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			mem := vfs.NewMem(1)
			f := newFixture(t, mem)
			f.open()
			l := f.logWith("t", small(t, test.change))
			p := watchOnly(l, nil)
			for i, n := range []int{10, 10, 5} {
				if i > 0 {
					f.clock.advance(dayMs)
				}
				ts := test.ts
				if ts == 0 {
					ts = f.clock.Now()
				}
				for range n {
					f.mustAppend(l, batchOf(ts, 1, 1000))
				}
			}
			if err := p.await(25); err != nil {
				t.Fatal(err)
			}
			l.SetHighWatermark(test.hw)
			f.settle()
			f.e.Tick(f.clock.advance(test.afterMs))
			if l.Err() != nil {
				t.Fatal(l.Err())
			}
			if got := l.StartOffset(); got != test.wantStart {
				t.Fatalf("log start %d, want %d\n%s", got, test.wantStart, f.logs)
			}
			if first := l.segs.Load().list[0].Base(); first > test.wantStart {
				t.Fatalf("first segment %d", first)
			}
			f.readAll(l, test.wantStart, test.hw)
			if test.wantStart > 0 {
				if _, err := l.Read(test.wantStart-1, 100, test.hw, true); !errors.Is(err, ErrOffsetOutOfRange) {
					t.Fatalf("read below the start: %v", err)
				}
				if !strings.Contains(f.logs.String(), "why=") { // C14
					t.Fatal("no reason in the log")
				}
			}
			// C13: the same again changes nothing, and a restart neither.
			f.e.Tick(f.clock.advance(1))
			f.restart()
			l = f.log2("t")
			if l.StartOffset() != test.wantStart || l.EndOffset() != 25 {
				t.Fatalf("after a restart: %d..%d", l.StartOffset(), l.EndOffset())
			}
		})
	}
}

// Retention counts from the last append also after a restart: the time is kept on disk (R10).
func TestRetentionAfterRestart(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.logWith("t", small(t, nil))
	f.fill(l, watch(l), 25, testStartMs)
	f.clock.advance(6 * dayMs)
	f.restart()
	l = f.logWith("t", small(t, nil))
	watch(l)
	f.e.Tick(f.clock.advance(dayMs / 2))
	if l.StartOffset() != 0 {
		t.Fatalf("start %d: deleted too early", l.StartOffset())
	}
	f.e.Tick(f.clock.advance(dayMs))
	if l.StartOffset() != 25 {
		t.Fatalf("start %d: pinned", l.StartOffset())
	}
}

func TestDeletedSegmentsGoAfterTheDelay(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.logWith("t", small(t, func(c *config.Topic) { c.RetentionBytes = 5_000 }))
	f.fill(l, watch(l), 25, testStartMs)
	r, err := l.Read(0, 3000, 25, true)
	if err != nil {
		t.Fatal(err)
	}
	f.e.Tick(f.clock.advance(0))
	count := func() (n int) {
		f.settle()
		entries, err := mem.ReadDir("/data/t-0")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name, logSuffix+deletedSuffix) {
				n++
			}
		}
		return n
	}
	if n := count(); n != 2 {
		t.Fatalf("%d deleted segments", n)
	}
	f.e.Tick(f.clock.advance(61_000))
	if n := count(); n != 1 { // a reader holds the first
		t.Fatalf("%d deleted segments after the delay", n)
	}
	buf := make([]byte, r.N)
	if _, err := r.ReadAt(buf, 0); err != nil {
		t.Fatal(err)
	}
	r.Release()
	if n := count(); n != 0 {
		t.Fatalf("%d deleted segments after the last reader", n)
	}
}

func TestDeleteRecords(t *testing.T) {
	mem := vfs.NewMem(1)
	f := newFixture(t, mem)
	f.open()
	l := f.logWith("t", small(t, nil))
	f.fill(l, watch(l), 25, testStartMs)
	for _, step := range []struct {
		upTo, want int64
		err        error
	}{{5, 5, nil}, {3, 5, nil}, {26, -1, ErrOffsetOutOfRange}, {-2, -1, ErrOffsetOutOfRange}, {12, 12, nil}} {
		got, err := l.DeleteRecords(step.upTo)
		if got != step.want || !errors.Is(err, step.err) {
			t.Fatalf("DeleteRecords(%d): %d, %v", step.upTo, got, err)
		}
	}
	// Durable before it is answered.
	f2 := newFixture(t, mem.Crash(vfs.LoseUnsynced))
	f2.open()
	if l := f2.log2("t"); l.StartOffset() != 12 || l.EndOffset() != 25 {
		t.Fatalf("after a crash: %d..%d", l.StartOffset(), l.EndOffset())
	}
	f.e.Tick(f.clock.advance(0)) // whatever the policy, what is below the start goes
	if first := l.segs.Load().list[0].Base(); first != 10 {
		t.Fatalf("first segment %d", first)
	}
	if got, err := l.DeleteRecords(-1); got != 25 || err != nil {
		t.Fatal(got, err)
	}
	f.mustAppend(l, batchOf(testStartMs, 1, 10))
	f.readAll(l, 25, 26)
	l.SetConfig(small(t, func(c *config.Topic) { c.Delete, c.Compact = false, true }))
	if _, err := l.DeleteRecords(26); !errors.Is(err, ErrPolicyViolation) {
		t.Fatal(err)
	}
}

func TestRollByTime(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.logWith("t", small(t, func(c *config.Topic) { c.SegmentMs = dayMs; c.RetentionMs = -1; c.TimestampAfterMaxMs = config.NoLimit }))
	p := watch(l)
	f.fill(l, p, 1, testStartMs)
	bases := func() string {
		var s []string
		for _, h := range l.segs.Load().list {
			s = append(s, fmt.Sprint(h.Base()))
		}
		return strings.Join(s, " ")
	}
	f.fill(l, p, 1, testStartMs+dayMs) // exactly segment.ms: not yet
	if got := bases(); got != "0" {
		t.Fatal(got)
	}
	f.fill(l, p, 1, testStartMs+dayMs+1) // record time
	if got := bases(); got != "0 2" {
		t.Fatal(got)
	}
	f.clock.advance(dayMs + 1) // broker time, met by an append
	f.fill(l, p, 1, testStartMs)
	if got := bases(); got != "0 2 3" {
		t.Fatal(got)
	}
	f.e.Tick(f.clock.advance(dayMs + 1)) // broker time, nobody appends
	if got := bases(); got != "0 2 3 4" {
		t.Fatal(got)
	}
	f.e.Tick(f.clock.advance(2 * dayMs)) // an empty segment is not rolled
	if got := bases(); got != "0 2 3 4" {
		t.Fatal(got)
	}
	f.fill(l, p, 2, testStartMs)
	f.readAll(l, 0, 6)
}

// R13, B-B5: an offset that does not fit the segment's 31 bits begins a new one.
func TestRollByOffsetSpan(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	l := f.log("t", nil)
	p := watch(l)
	at := func(offset int64) {
		t.Helper()
		if a := appendAs(l, replicaBatch(offset), FromLeader, 0); a.Err != nil {
			t.Fatal(a.Err)
		}
	}
	at(0)
	at(1<<31 - 2)
	at(1<<31 - 1)
	if n := len(l.segs.Load().list); n != 1 {
		t.Fatalf("%d segments", n)
	}
	at(1 << 31)
	at(1 << 40)
	if n := len(l.segs.Load().list); n != 3 {
		t.Fatalf("%d segments", n)
	}
	if err := p.await(1<<40 + 1); err != nil {
		t.Fatal(err)
	}
	f.settle()
	l.SetConfig(small(t, func(c *config.Topic) { c.Compact = true })) // gaps are legal there
	if got := f.readAll(l, 0, 1<<40+1); len(got) != 5 {
		t.Fatalf("%d batches", len(got))
	}
}

func TestRollWhenIndexIsFull(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	cfg := *topicConfig(t, nil)
	cfg.SegmentIndexBytes, cfg.IndexIntervalBytes = 120, 1
	l := f.logWith("t", &cfg)
	f.fill(l, watch(l), 100, testStartMs)
	if n := len(l.segs.Load().list); n < 5 {
		t.Fatalf("%d segments", n)
	}
	f.readAll(l, 0, 100)
}
