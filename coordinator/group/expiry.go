package group

import (
	"time"

	"github.com/leatmq/leat/coordinator/machine"
)

// noticeMs is how long before its offsets expire an idle group is announced in the log: a day, a weekday at least for most.
const noticeMs = 24 * 60 * 60 * 1000

// expire removes offsets whose retention is over, and groups of which nothing is left. Offsets of a group with members stay
// while the members subscribe to their topic; those of an idle group go together, counted from when it became idle.
func (s *Shard) expire(nowMs int64, out *machine.Out) {
	for _, id := range s.sorted() {
		s.expireGroup(nowMs, s.groups[id], out)
	}
	s.timers.set(&s.expiry, nowMs+s.config().OffsetsCheckIntervalMs)
}

func (s *Shard) expireGroup(nowMs int64, g *group, out *machine.Out) {
	if g.writing > 0 {
		return // what is being committed is not old; the next time will do (B-F1)
	}
	due, left, earliest := s.due(nowMs, g)
	if g.membership.isEmpty() {
		s.announce(nowMs, g, earliest, out)
	}
	var group []machine.Record
	if left == 0 && g.membership.idle() && g.stored {
		group = g.membership.tombstones()
	}
	if len(due) > 0 {
		out.Info("committed offsets expired", "group", g.id, "offsets", len(due), "left", left)
	}
	s.deleteGroup(g, due, group, out, func(err error, out *machine.Out) {
		if err != nil {
			out.Warn("expired offsets could not be removed; it is tried again", "group", g.id, "error", err)
		}
	})
}

// due are the offsets of a group that have expired; left is how many have not, and earliest when the first of those will, of them that have no time of their own.
func (s *Shard) due(nowMs int64, g *group) (due []topicPartition, left int, earliest int64) {
	retentionMs := s.config().OffsetsRetentionMs
	earliest = machine.Never
	for name, t := range g.offsets {
		inUse := !g.membership.isEmpty() && g.membership.subscribes(name)
		for n, c := range t.committed.all() {
			at, ok := expiresAt(g, &c, retentionMs)
			switch {
			case !ok || inUse:
				left++
			case at <= nowMs:
				due = append(due, topicPartition{name, n})
			default:
				left++
				if c.expireMs < 0 {
					earliest = min(earliest, at)
				}
			}
		}
	}
	sortPartitions(due)
	return due, left, earliest
}

// expiresAt is the time at which an offset expires; ok is false while it does not.
func expiresAt(g *group, c *committed, retentionMs int64) (ms int64, ok bool) {
	base, ok := g.membership.expiryBase(c)
	if c.expireMs >= 0 {
		return c.expireMs, ok
	}
	return base + retentionMs, ok
}

// announce says a day ahead that a group will lose offsets: after that its consumers would begin somewhere else (G13).
func (s *Shard) announce(nowMs int64, g *group, earliest int64, out *machine.Out) {
	if earliest-nowMs > noticeMs {
		g.announced = false // what was announced did not happen: the group was used again
		return
	}
	if g.announced || s.config().OffsetsRetentionMs <= noticeMs {
		return
	}
	g.announced = true
	out.Warn("the committed offsets of an idle group expire soon (offsets.retention.minutes), unless one of its consumers comes back",
		"group", g.id, "at", time.UnixMilli(earliest).UTC().Format(time.RFC3339))
}

// deleteGroup writes tombstones for offsets, and for the membership if tombstone is not empty.
func (s *Shard) deleteGroup(g *group, gone []topicPartition, tombstone []machine.Record, out *machine.Out, done func(err error, out *machine.Out)) {
	if len(tombstone) > 0 {
		g.stored = false
	}
	s.tombstones(g, gone, tombstone, out, func(err error, out *machine.Out) {
		switch {
		case len(tombstone) == 0:
		case err != nil:
			g.stored = true
		case g.membership.idle() && !g.stored: // nobody has joined while the tombstone was on its way
			g.membership = newClassic(s, g)
		}
		s.dropIfBare(g)
		done(err, out)
	})
}

// TopicsDeleted removes the offsets of topics that are gone. A topic of the same name that came after keeps its own (B-F5).
func (s *Shard) TopicsDeleted(names []string, out *machine.Out) {
	for _, id := range s.sorted() {
		g := s.groups[id]
		var gone []topicPartition
		for _, name := range names {
			gone = append(gone, s.staleOffsets(g, name, true)...)
		}
		s.dropStale(g, gone, out)
	}
}

// dropDeletedTopics does the same for topics that were deleted before the shard was loaded.
func (s *Shard) dropDeletedTopics(_ int64, out *machine.Out) {
	for _, id := range s.sorted() {
		g := s.groups[id]
		var gone []topicPartition
		for name := range g.offsets {
			gone = append(gone, s.staleOffsets(g, name, false)...)
		}
		s.dropStale(g, gone, out)
	}
}

// staleOffsets are the offsets of a topic that is not there any more: those whose topic id says so, and if the topic is known to
// have been deleted just now, those that have none. What is on its way is looked at when it is committed.
func (s *Shard) staleOffsets(g *group, name string, deleted bool) (stale []topicPartition) {
	t := g.offsets[name]
	if t == nil {
		return nil
	}
	now, there := s.o.Topics().TopicID(name)
	gone := func(id [16]byte) bool {
		if id == [16]byte{} {
			return deleted
		}
		return !there || id != now
	}
	if t.committed.uniform() && !gone(t.committed.id) {
		return nil
	}
	for n, c := range t.committed.all() {
		if t.writing[n] == 0 && gone(c.topicID) {
			stale = append(stale, topicPartition{name, n})
		}
	}
	return stale
}

func (s *Shard) dropStale(g *group, gone []topicPartition, out *machine.Out) {
	if len(gone) == 0 {
		return
	}
	sortPartitions(gone)
	out.Info("committed offsets of deleted topics are removed", "group", g.id, "offsets", len(gone))
	s.tombstones(g, gone, nil, out, func(err error, out *machine.Out) {
		if err != nil {
			out.Warn("offsets of a deleted topic could not be removed; the next start tries again", "group", g.id, "error", err)
		}
	})
}
