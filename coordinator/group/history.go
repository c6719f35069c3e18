package group

import "strings"

// historyMax bounds what is remembered of a group, rebalancesMax the rebalances in it that are remembered for longer, when much else happened since, and
// textMax the strings, which clients choose.
const (
	historyMax    = 48
	rebalancesMax = 10
	textMax       = 200
)

// Event is something that happened to a group. `leat group explain` tells them.
type Event struct {
	AtMs   int64  `json:"atMs"`
	What   What   `json:"what"`
	Member string `json:"member,omitempty"` // member id, where one member is concerned
	Client string `json:"client,omitempty"` // its client id and host
	Reason string `json:"reason,omitempty"`
}

// What is the kind of an Event.
type What uint8

// The kinds.
const (
	Joined    What = iota + 1 // a member came
	Replaced                  // a static member came back under a new member id
	Left                      // a member said that it leaves
	Expired                   // a member was not heard of for its session timeout
	Late                      // a member did not join again, did not sync, or did not give up its partitions, in time
	Rebalance                 // a rebalance began; of a consumer group: there is a new group epoch
	Completed                 // a rebalance ended: everybody has joined, the generation began
	Assigned                  // the leader's assignment is stored: the group is stable; of a consumer group: there is a new target
	Emptied                   // the last member is gone
	Loaded                    // this broker took the group over

	Converted    // the group changed between the classic and the consumer protocol
	NotConverted // it did not, although somebody wanted it to
)

// words are the names of the kinds, as they are written too.
var words = [...]string{"?", "joined", "replaced", "left", "expired", "late", "rebalance", "completed", "assigned", "emptied", "loaded", "converted", "not-converted"}

// String is the word for it.
func (w What) String() string {
	if int(w) >= len(words) {
		return words[0]
	}
	return words[w]
}

// MarshalText implements encoding.TextMarshaler.
func (w What) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// history is the latest events, and those of the latest rebalances that are older than these.
type history struct {
	latest     ring
	rebalances ring
}

func (h *history) add(e Event) {
	e.Member, e.Client, e.Reason = clip(e.Member), clip(e.Client), clip(e.Reason)
	if old, full := h.latest.put(e, historyMax); full && old.What == Rebalance {
		h.rebalances.put(old, rebalancesMax)
	}
}

// addOnce is add, unless the same has just happened: clients try again and again.
func (h *history) addOnce(e Event) {
	if last := h.latest.last(); last != nil && last.What == e.What && last.Member == clip(e.Member) && last.Reason == clip(e.Reason) {
		last.AtMs = e.AtMs
		return
	}
	h.add(e)
}

// events returns them, the oldest first.
func (h *history) events() []Event {
	all := h.latest.events()
	recent := 0
	for i := range all {
		if all[i].What == Rebalance {
			recent++
		}
	}
	older := h.rebalances.events()
	return append(older[max(len(older)-max(rebalancesMax-recent, 0), 0):], all...)
}

// ring is a number of events of which a new one takes the place of the oldest.
type ring struct {
	all  []Event
	next int
}

// put adds an event and returns the one that had to go.
func (r *ring) put(e Event, size int) (old Event, full bool) {
	if len(r.all) < size {
		r.all = append(r.all, e)
		return Event{}, false
	}
	old, r.all[r.next] = r.all[r.next], e
	r.next = (r.next + 1) % size
	return old, true
}

// last is the newest, nil for none.
func (r *ring) last() *Event {
	if len(r.all) == 0 {
		return nil
	}
	return &r.all[(r.next+len(r.all)-1)%len(r.all)]
}

func (r *ring) events() []Event {
	return append(append([]Event(nil), r.all[r.next:]...), r.all[:r.next]...)
}

// clip cuts a text of a client to what is remembered of it. The copy lets go of the request that the text came in.
func clip(s string) string {
	if len(s) > textMax {
		return s[:textMax] + "..."
	}
	return strings.Clone(s)
}
