package segment

import (
	"math/rand/v2"
	"testing"

	"github.com/leatmq/leat/record"
)

// timed is a user record as the searches see it.
type timed struct{ offset, ts int64 }

func timedOf(t testing.TB, batches []record.Batch) (list []timed) {
	for _, b := range batches {
		if b.IsControl() {
			continue
		}
		must(t, b.Records(func(r *record.Record) error {
			ts := b.BaseTimestamp() + r.TimestampDelta
			if b.TimestampType() == record.LogAppendTime {
				ts = b.MaxTimestamp()
			}
			list = append(list, timed{b.BaseOffset() + int64(r.OffsetDelta), ts})
			return nil
		}))
	}
	return list
}

func firstFrom(list []timed, ts, from, upTo int64) (timed, bool) {
	for _, r := range list {
		if r.ts >= ts && r.offset >= from && r.offset < upTo {
			return r, true
		}
	}
	return timed{-1, -1}, false
}

func largest(list []timed, upTo int64) (timed, bool) {
	best, found := timed{-1, -1}, false
	for _, r := range list {
		if r.ts > best.ts && r.offset < upTo {
			best, found = r, true
		}
	}
	return best, found
}

// checkTimes compares searches by timestamp with a plain walk over all records.
func checkTimes(t testing.TB, s *Segment, batches []record.Batch) {
	t.Helper()
	list := timedOf(t, batches)
	rng := rand.New(rand.NewPCG(7, 7))
	end := s.NextOffset()
	check := func(ts, from, upTo int64) {
		t.Helper()
		want, wantFound := firstFrom(list, ts, from, upTo)
		offset, got, found, err := s.OffsetForTimestampFrom(ts, from, upTo)
		if offset != want.offset || got != want.ts || found != wantFound || err != nil {
			t.Fatalf("first record with timestamp >= %d in [%d, %d): %d %d %v %v, want %+v", ts, from, upTo, offset, got, found, err, want)
		}
	}
	check(0, s.Base(), end)
	check(1<<50, s.Base(), end)
	for range min(60, len(list)) {
		r := list[rng.IntN(len(list))]
		check(r.ts-1+rng.Int64N(3), s.Base(), end)
		b := batches[rng.IntN(len(batches))]
		check(r.ts, s.Base(), b.NextOffset())
		check(r.ts, b.BaseOffset()+rng.Int64N(2), end)
		for _, upTo := range []int64{b.NextOffset(), end, end + 1} {
			want, wantFound := largest(list, upTo)
			offset, ts, found, err := s.MaxTimestampOffset(upTo)
			if offset != want.offset || ts != want.ts || found != wantFound || err != nil {
				t.Fatalf("largest timestamp below %d: %d %d %v %v, want %+v", upTo, offset, ts, found, err, want)
			}
		}
	}
}

// TestTimestampSearch: B1, B2, B3, B4, B5, B6, B7, B8, R9: at record granularity, in batches of all codecs and both timestamp types, out of order, more than 2^32 ms
// apart, with control batches that do not count, bounded on both sides.
func TestTimestampSearch(t *testing.T) {
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := value[*Segment](t)(Create(testDir, 1000, testOptions(testMem(t, seed))))
		var want []record.Batch
		next := int64(1000)
		for range 200 {
			o := record.Options{BaseOffset: next, Codec: record.Codec(rng.IntN(5))}
			if rng.IntN(4) == 0 {
				o.TimestampType = record.LogAppendTime
			}
			var ts []int64
			for range 1 + rng.IntN(5) {
				ts = append(ts, 10_000+next*5+rng.Int64N(500)<<(rng.Int64N(2)*24))
			}
			if rng.IntN(8) == 0 {
				o.Control, o.Transactional, o.Codec = true, true, record.None
				ts = []int64{1 << 45}
			}
			b := makeBatchOf(o, rng.IntN(60), ts...)
			appendBatches(t, s, b)
			want = append(want, b)
			next = b.NextOffset()
		}
		checkTimes(t, s, want)
		must(t, s.Seal(1))
		checkTimes(t, s, want)
		s = reopen(t, s, true)
		checkTimes(t, s, want)
		must(t, s.o.FS.Remove(s.path(TimeIndexSuffix)))
		s = reopen(t, s, true)
		checkTimes(t, s, want)
		s = reopen(t, s, false)
		checkTimes(t, s, want)
		checkFiles(t, s.o.FS, testDir, 1000)
	}
}

// TestTimestampZero: the entry for timestamp 0 at the base offset would be all zeros (R1), so there is none, and it is found all the same.
func TestTimestampZero(t *testing.T) {
	s := value[*Segment](t)(Create(testDir, 1000, testOptions(testMem(t, 1))))
	want := []record.Batch{makeBatch(1000, 500, 0), makeBatch(1001, 500, 0), makeBatch(1002, 500, 0)}
	appendBatches(t, s, want...)
	check := func() {
		t.Helper()
		if ts, last, err := s.MaxTimestamp(); ts != 0 || last != 1000 || err != nil {
			t.Fatalf("%d %d %v", ts, last, err)
		}
		if s.times.Load().Entries() != 0 {
			t.Fatal("an all-zero entry")
		}
		checkTimes(t, s, want)
	}
	check()
	must(t, s.Seal(1))
	check()
	s = reopen(t, s, true)
	check()
	s = reopen(t, s, false)
	check()
	appendBatches(t, s, makeBatch(1003, 500, 5), makeBatch(1004, 500, 4))
	if ts, last, err := s.MaxTimestamp(); ts != 5 || last != 1003 || err != nil {
		t.Fatalf("%d %d %v", ts, last, err)
	}
}

// TestNoTimestamps: H7: records without timestamps are not found by any.
func TestNoTimestamps(t *testing.T) {
	s := value[*Segment](t)(Create(testDir, 0, testOptions(testMem(t, 1))))
	appendBatches(t, s, makeBatch(0, 500, -1), makeBatch(1, 500, -1), makeBatch(2, 500, -1))
	for range 2 {
		if ts, _, err := s.MaxTimestamp(); ts != -1 || err != nil {
			t.Fatalf("%d %v", ts, err)
		}
		if _, _, found, err := s.MaxTimestampOffset(10); found || err != nil {
			t.Fatal(found, err)
		}
		if _, _, found, err := s.OffsetForTimestamp(0, 10); found || err != nil {
			t.Fatal(found, err)
		}
		must(t, s.Seal(1))
		s = reopen(t, s, true)
	}
}
