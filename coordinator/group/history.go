package group

import "strings"

// historyMax bounds what is remembered of a group, and textMax the strings in it, which clients choose.
const (
	historyMax = 48
	textMax    = 200
)

// Event is something that happened to a group. `leat group explain` tells them.
type Event struct {
	AtMs   int64
	What   What
	Member string // member id, where one member is concerned
	Client string // its client id and host
	Reason string
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
)

// String is the word for it.
func (w What) String() string {
	return [...]string{"?", "joined", "replaced", "left", "expired", "late", "rebalance", "completed", "assigned", "emptied", "loaded"}[w]
}

// history is a ring of the latest events.
type history struct {
	ring []Event
	next int
}

func (h *history) add(e Event) {
	e.Member, e.Client, e.Reason = clip(e.Member), clip(e.Client), clip(e.Reason)
	if len(h.ring) < historyMax {
		h.ring = append(h.ring, e)
		return
	}
	h.ring[h.next] = e
	h.next = (h.next + 1) % historyMax
}

// events returns them, the oldest first.
func (h *history) events() []Event {
	return append(append([]Event(nil), h.ring[h.next:]...), h.ring[:h.next]...)
}

// clip cuts a text of a client to what is remembered of it. The copy lets go of the request that the text came in.
func clip(s string) string {
	if len(s) > textMax {
		return s[:textMax] + "..."
	}
	return strings.Clone(s)
}
