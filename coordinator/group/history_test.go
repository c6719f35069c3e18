package group

import (
	"encoding/json"
	"fmt"
	"testing"
)

// The latest events are there in order, and as many rebalances before them as make ten; nothing grows with time.
func TestHistoryKeepsTenRebalances(t *testing.T) {
	var h history
	for i := range 40 {
		h.add(Event{AtMs: int64(i * 100), What: Rebalance, Reason: fmt.Sprint(i)})
		for j := range 20 {
			h.add(Event{AtMs: int64(i*100 + 1 + j), What: Joined})
		}
		var reasons []string
		last := int64(-1)
		for _, e := range h.events() {
			if e.AtMs <= last {
				t.Fatalf("after %d: %d comes behind %d", i, e.AtMs, last)
			}
			last = e.AtMs
			if e.What == Rebalance {
				reasons = append(reasons, e.Reason)
			}
		}
		if want := min(i+1, rebalancesMax); len(reasons) != want || reasons[0] != fmt.Sprint(i+1-want) {
			t.Fatalf("after %d: rebalances %v", i, reasons)
		}
	}
	if n := len(h.events()); n > historyMax+rebalancesMax {
		t.Errorf("%d events", n)
	}
}

func TestHistoryKeepsMoreRebalancesWhenNothingElseHappened(t *testing.T) {
	var h history
	for i := range 100 {
		h.add(Event{AtMs: int64(i), What: Rebalance})
	}
	all := h.events()
	if len(all) != historyMax || all[0].AtMs != 100-historyMax {
		t.Errorf("%d events from %d on", len(all), all[0].AtMs)
	}
}

func TestEventAsJSON(t *testing.T) {
	for w := Joined; int(w) < len(words); w++ {
		text, err := json.Marshal(Event{AtMs: 5, What: w})
		if want := fmt.Sprintf(`{"atMs":5,"what":%q}`, w); err != nil || string(text) != want {
			t.Errorf("%s, want %s (%v)", text, want, err)
		}
	}
}
