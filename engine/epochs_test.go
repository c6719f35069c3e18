package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// epochsOf makes a cache of alternating epochs and start offsets.
func epochsOf(pairs ...int64) *epochCache {
	c := newEpochCache()
	for i := 0; i < len(pairs); i += 2 {
		c.assign(int32(pairs[i]), pairs[i+1])
	}
	return c
}

func epochText(c *epochCache) string {
	var parts []string
	for _, e := range c.entries() {
		parts = append(parts, fmt.Sprintf("%d@%d", e.Epoch, e.StartOffset))
	}
	return strings.Join(parts, " ")
}

func TestEpochAssign(t *testing.T) {
	c := newEpochCache()
	step := func(epoch int32, start int64, changed bool, want string) {
		t.Helper()
		if got := c.assign(epoch, start); got != changed || epochText(c) != want {
			t.Fatalf("assign(%d, %d) = %v: %s, want %s", epoch, start, got, epochText(c), want)
		}
	}
	step(2, 0, true, "2@0")
	step(2, 10, false, "2@0")     // more of the same epoch
	step(3, 10, true, "2@0 3@10") //
	step(7, 20, true, "2@0 3@10 7@20")
	step(7, 15, true, "2@0 3@10 7@15") // began earlier than thought
	step(8, 15, true, "2@0 3@10 8@15") // 7 had no batch
	step(5, 30, true, "2@0 3@10 5@30") // an older epoch from the leader: 8 was wrong
	step(6, 5, true, "2@0 6@5")        // starts before others
	step(1, 0, true, "1@0")
	if e, ok := c.latest(); e != 1 || !ok {
		t.Fatal(e, ok)
	}
	if e, ok := newEpochCache().latest(); e != noEpoch || ok {
		t.Fatal(e, ok)
	}
}

// B-C2, B-C3: the rules of KIP-101 and KIP-279.
func TestEpochEndOffset(t *testing.T) {
	c := epochsOf(2, 10, 4, 20, 7, 30)
	for asked, want := range map[int32][2]int64{
		-1: {-1, -1},
		0:  {0, 10}, // before what is known: the start of the first
		1:  {1, 10},
		2:  {2, 20},
		3:  {2, 20}, // nobody here has batches of 3
		4:  {4, 30},
		5:  {4, 30},
		6:  {4, 30},
		7:  {7, 100}, // the latest one ends at the log end
		8:  {-1, -1}, // and not the log end
	} {
		epoch, end := c.endOffsetFor(asked, 100)
		if int64(epoch) != want[0] || end != want[1] {
			t.Errorf("%d: got %d, %d, want %v", asked, epoch, end, want)
		}
	}
	if epoch, end := newEpochCache().endOffsetFor(0, 100); epoch != -1 || end != -1 {
		t.Errorf("empty: %d, %d", epoch, end)
	}
}

func TestEpochAt(t *testing.T) {
	c := epochsOf(2, 10, 4, 20)
	for offset, want := range map[int64]int32{0: -1, 9: -1, 10: 2, 19: 2, 20: 4, 1 << 40: 4} {
		if got := c.epochAt(offset); got != want {
			t.Errorf("epochAt(%d) = %d, want %d", offset, got, want)
		}
	}
}

func TestEpochTruncation(t *testing.T) {
	for to, want := range map[int64]string{31: "2@10 4@20 7@30", 30: "2@10 4@20", 21: "2@10 4@20", 20: "2@10", 10: "", 0: ""} {
		c := epochsOf(2, 10, 4, 20, 7, 30)
		before := epochText(c)
		if changed := c.truncateFromEnd(to); epochText(c) != want || changed != (want != before) {
			t.Errorf("truncateFromEnd(%d) = %v: %s, want %s", to, changed, epochText(c), want)
		}
	}
	for to, want := range map[int64]string{
		0: "2@10 4@20 7@30", 10: "2@10 4@20 7@30", 11: "2@11 4@20 7@30", 20: "4@20 7@30", 25: "4@25 7@30", 30: "7@30", 99: "7@99",
	} {
		c := epochsOf(2, 10, 4, 20, 7, 30)
		before := epochText(c)
		if changed := c.truncateFromStart(to); epochText(c) != want || changed != (want != before) {
			t.Errorf("truncateFromStart(%d) = %v: %s, want %s", to, changed, epochText(c), want)
		}
	}
	if c := newEpochCache(); c.truncateFromEnd(0) || c.truncateFromStart(5) {
		t.Error("an empty cache changed")
	}
}

func TestEpochReadersSeeWholeLists(t *testing.T) {
	c := epochsOf(1, 0, 2, 10)
	before := c.entries()
	c.assign(3, 20)
	c.truncateFromStart(15)
	c.truncateFromEnd(18)
	if fmt.Sprint(before) != "[{1 0} {2 10}]" || epochText(c) != "2@15" {
		t.Fatal(before, epochText(c))
	}
}

func TestEpochFile(t *testing.T) {
	fsys := newSideDir(t)
	c, err := loadEpochs(fsys, sideDir)
	sideMust(t, err)
	if _, ok := c.latest(); ok {
		t.Fatal("a missing file has entries")
	}
	want := epochsOf(0, 0, 3, 150, 2147483647, 9223372036854775807)
	sideMust(t, want.store(fsys, sideDir))
	if got := sideRead(t, fsys, leaderEpochFileName); got != "0\n3\n0 0\n3 150\n2147483647 9223372036854775807\n" {
		t.Fatalf("wrote %q", got)
	}
	c, err = loadEpochs(fsys, sideDir)
	sideMust(t, err)
	if epochText(c) != epochText(want) {
		t.Fatal(epochText(c))
	}
	list, err := parseEpochs("f", kafkaFile(t, leaderEpochFileName))
	sideMust(t, err)
	if !slices.Equal(list, []epochEntry{{0, 0}}) || string(formatEpochs(list)) != string(kafkaFile(t, leaderEpochFileName)) {
		t.Fatalf("of Kafka: %v", list)
	}
}

// A23: nonsense is an error, and the caller rebuilds.
func TestEpochFileNonsense(t *testing.T) {
	for _, data := range []string{
		"0\n1\n-1 0\n", "0\n1\n0 -1\n", "0\n1\n2147483648 0\n", "0\n2\n1 0\n1 5\n", "0\n2\n2 0\n1 5\n", "0\n2\n1 5\n2 5\n", "0\n2\n1 5\n2 4\n", "0\n1\n0\n", "2\n0\n",
	} {
		if list, err := parseEpochs("f", []byte(data)); !isCorruptError(err) {
			t.Errorf("%q: %v, %v", data, list, err)
		}
		fsys := newSideDir(t)
		sidePut(t, fsys, leaderEpochFileName, []byte(data))
		if c, err := loadEpochs(fsys, sideDir); c != nil || !isCorruptError(err) {
			t.Errorf("%q: %v, %v", data, c, err)
		}
	}
	damaged([]byte("0\n3\n0 0\n3 150\n12 700\n"), func(bad []byte) {
		list, err := parseEpochs("f", bad)
		if err == nil && len(bad) > 0 {
			c := newEpochCache()
			c.replace(list)
			if len(list) != 3 {
				t.Errorf("%q read as %v", bad, list)
			}
		}
	})
}

// B-A4: the file is whole after a power cut at any moment, and once store has returned it is the new one.
func TestEpochFileCrash(t *testing.T) {
	old, next := epochsOf(1, 0), epochsOf(1, 0, 2, 10)
	store := func(c *epochCache) func(vfs.FS) error {
		return func(fsys vfs.FS) error { return c.store(fsys, sideDir) }
	}
	atEveryCrash(t, store(old), store(next), func(after vfs.FS, done bool) {
		c, err := loadEpochs(after, sideDir)
		if err != nil || epochText(c) != epochText(next) && (done || epochText(c) != epochText(old)) {
			t.Fatalf("done %v: %v", done, err)
		}
	})
}

// replica is a log of records for the test below.
type replica struct {
	records []epochEntry // StartOffset is the record's value: unique per record
	epochs  *epochCache
}

func (r *replica) append(rec epochEntry) {
	r.epochs.assign(rec.Epoch, int64(len(r.records)))
	r.records = append(r.records, rec)
}

func (r *replica) truncate(to int64) {
	r.records = r.records[:to]
	r.epochs.truncateFromEnd(to)
}

// follow truncates r to where it agrees with the leader, by asking for epochs only, as Kafka's followers do.
func (r *replica) follow(leader *replica) (questions int) {
	for {
		questions++
		epoch, ok := r.epochs.latest()
		if !ok {
			r.truncate(0)
			return questions
		}
		end := int64(len(r.records))
		found, leaderEnd := leader.epochs.endOffsetFor(epoch, int64(len(leader.records)))
		ownEpoch, ownEnd := r.epochs.endOffsetFor(found, end)
		if ownEpoch == found || ownEpoch == noEpoch {
			if ownEpoch == found {
				leaderEnd = min(leaderEnd, ownEnd)
			}
			r.truncate(min(leaderEnd, end))
			return questions
		}
		r.truncate(min(ownEnd, end))
	}
}

// B-C1, B-C2: whatever happened before, leadership changes with any replica as the next leader included, a follower that truncates by epochs ends
// up with a beginning of the leader's log.
func TestEpochTruncationConverges(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		replicas := make([]*replica, 3)
		for i := range replicas {
			replicas[i] = &replica{epochs: newEpochCache()}
		}
		value := int64(0)
		for epoch := range int32(12) {
			leader := replicas[rng.IntN(3)]
			leader.epochs.assign(epoch, int64(len(leader.records)))
			for range rng.IntN(4) {
				value++
				leader.append(epochEntry{epoch, value})
			}
			for _, r := range replicas {
				if r == leader || rng.IntN(2) == 0 {
					continue
				}
				r.follow(leader)
				n := len(r.records)
				if n > len(leader.records) || !slices.Equal(r.records, leader.records[:n]) {
					t.Fatalf("seed %d epoch %d: logs diverge:\n%v\n%v", seed, epoch, r.records, leader.records)
				}
				for _, rec := range leader.records[n : n+rng.IntN(len(leader.records)-n+1)] {
					r.append(rec)
				}
			}
		}
	}
}
