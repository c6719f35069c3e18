package group

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The table is a map with an order.
func TestOffsetTable(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		spread := []int32{10, 70, 3000, math.MaxInt32}[seed%4]
		var table offsetTable
		want := map[int32]committed{}
		for step := range 4000 {
			p := rnd.Int32N(spread)
			if spread == math.MaxInt32 { // few, far apart, up to the ends
				p = []int32{0, -1, 63, 64, math.MinInt32, math.MaxInt32, 1 << 20, -1 << 20}[rnd.IntN(8)] + rnd.Int32N(3)*(1<<28)
			}
			if rnd.IntN(3) > 0 && step%1000 < 900 {
				c := randomOffset(rnd, int64(step))
				table.put(p, &c)
				want[p] = c
			} else {
				table.remove(p)
				delete(want, p)
			}
			checkTable(t, &table, want, p)
		}
		for p := range want {
			table.remove(p)
		}
		checkTable(t, &table, nil, 0)
		if len(table.pages)+len(table.others) > 0 {
			t.Errorf("an empty table has %d pages and %d others", len(table.pages), len(table.others))
		}
	}
}

func randomOffset(rnd *rand.Rand, offset int64) committed {
	c := committed{offset: offset, leaderEpoch: rnd.Int32N(4) - 1, commitMs: offset * 2, expireMs: -1, topicID: [16]byte{1}}
	switch rnd.IntN(8) {
	case 0:
		c.metadata = "m"
	case 1:
		c.expireMs = offset * 3
	case 2:
		c.topicID = [16]byte{2}
	case 3:
		c.topicID = [16]byte{}
	}
	return c
}

func checkTable(t *testing.T, table *offsetTable, want map[int32]committed, p int32) {
	t.Helper()
	c, there := table.get(p)
	if w, ok := want[p]; there != ok || c != w || table.has(p) != ok {
		t.Fatalf("partition %d: %+v %v, not %+v %v", p, c, there, w, ok)
	}
	if table.count != len(want) {
		t.Fatalf("%d offsets, not %d", table.count, len(want))
	}
	if rand.IntN(50) > 0 && len(want) > 0 {
		return
	}
	var order []int32
	uniform := true
	for p, c := range table.all() {
		if c != want[p] {
			t.Fatalf("partition %d: %+v, not %+v", p, c, want[p])
		}
		order = append(order, p)
		uniform = uniform && c.topicID == table.id && c.expireMs < 0
	}
	if !slices.Equal(order, slices.Sorted(maps.Keys(want))) {
		t.Fatalf("the order %v", order)
	}
	if table.uniform() && !uniform {
		t.Fatal("a table of many ids says that it has one")
	}
}
