package client

import (
	"fmt"
	"time"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// keep is the keeper: it sees to it that every partition has a leader and a position, or an error that says why not.
func (r *Consumer) keep() {
	unknown := map[string]int{} // topic: how many answers in a row did not know it
	var seen *cluster
	for {
		cl := r.client.metadata.current()
		wait := r.tend(cl, cl != seen, unknown)
		seen = cl
		t := time.NewTimer(wait)
		select {
		case <-r.work:
		case <-cl.next:
		case <-t.C:
		case <-r.ctx.Done():
			t.Stop()
			return
		}
		t.Stop()
	}
}

// tend looks after all partitions, and returns when it has to be called again, at the latest.
func (r *Consumer) tend(cl *cluster, isNew bool, unknown map[string]int) time.Duration {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if isNew {
		r.heardLocked(cl, unknown)
	}
	wait, lost := fetcherIdle, false
	asks := map[int32]*askSet{}
	var committed []*partition
	for _, p := range r.mu.order {
		led := r.meetLocked(now, cl, p, unknown)
		switch {
		case p.asked || p.state == stuck:
		case p.notBefore.After(now):
			wait = min(wait, p.notBefore.Sub(now))
		case !led:
			p.backOff(now, r.client.backoff)
			wait, lost = min(wait, p.notBefore.Sub(now)), true
		case p.state == fetching:
			r.fetcherLocked(p.leader)
		case p.state == awaitCommitted:
			committed = append(committed, p)
		default:
			asksOf(asks, p.leader).add(p)
		}
	}
	r.askAllLocked(asks, committed)
	if lost {
		r.client.stale()
	}
	if isNew {
		r.wakeFetchersLocked()
	}
	return wait
}

// heardLocked notes what a new snapshot says of the topics at large.
func (r *Consumer) heardLocked(cl *cluster, unknown map[string]int) {
	if cl.err != nil {
		r.mu.lastErr = cl.err
		return
	}
	for name := range unknown {
		if t := cl.topics[name]; t != nil && t.err == nil {
			delete(unknown, name)
		}
	}
	counted := map[string]bool{}
	for _, p := range r.mu.order {
		if t := cl.topics[p.tp.Topic]; t != nil && Code(t.err) == protocol.UnknownTopicOrPartition && !counted[p.tp.Topic] {
			counted[p.tp.Topic] = true
			unknown[p.tp.Topic]++
		}
	}
}

// meetLocked tells a partition what the snapshot says of it. False: it has no leader, the cluster must be asked again.
func (r *Consumer) meetLocked(now time.Time, cl *cluster, p *partition, unknown map[string]int) bool {
	t := cl.topics[p.tp.Topic]
	if err := whyNotLed(t, p.tp, unknown[p.tp.Topic] >= unknownTries, r.client.servers()); err != nil || t == nil || t.err != nil {
		if err != nil {
			r.tellPartitionLocked(p, err)
		}
		p.leader = -1
		return false
	}
	if p.topicID != t.id {
		r.recreatedLocked(p, t.id)
	}
	if p.state != stuck && Code(p.err) == protocol.UnknownTopicOrPartition {
		p.err, p.told = nil, false
	}
	info := t.partitions[p.tp.Partition]
	p.led(info.leader, info.epoch)
	return info.leader >= 0
}

// whyNotLed is what the user is to know of a topic's metadata; nil for what may pass.
func whyNotLed(t *topicInfo, tp TopicPartition, doubtless bool, servers string) error {
	switch {
	case t == nil:
		return nil
	case Code(t.err) == protocol.UnknownTopicOrPartition:
		if doubtless {
			return &UnknownTopicError{tp.Topic, servers}
		}
		return nil
	case t.err != nil:
		if Retriable(t.err) {
			return nil
		}
		return t.err
	case int(tp.Partition) >= len(t.partitions):
		return &Error{Code: protocol.UnknownTopicOrPartition, Where: fmt.Sprintf("%s-%d", tp.Topic, tp.Partition),
			Message: fmt.Sprintf("the topic has %d partitions", len(t.partitions))}
	}
	return nil
}

// recreatedLocked: a topic of that name was deleted and made anew. Offsets of the old one mean nothing in it (B-F5): it is read from its beginning.
func (r *Consumer) recreatedLocked(p *partition, id [16]byte) {
	before, at := p.topicID, p.pos.offset
	p.topicID = id
	if before == [16]byte{} || id == [16]byte{} {
		return
	}
	p.leaderEpoch = -1
	if !p.positioned() {
		return
	}
	r.forgetFetchedLocked(p)
	if r.config.OffsetReset.kind == resetNone {
		r.failLocked(p, &TruncatedError{p.tp, at, -1})
		return
	}
	r.resetHook(p.tp, at)
	r.client.config.Logger.Warn("a topic was deleted and made anew: it is read from its beginning", "topic", p.tp.Topic, "partition", p.tp.Partition, "offset", at)
	p.locate(r.nextVersionLocked(), timestampEarliest, false)
}

// codeError is the error of a partition's code.
func codeError(code int16, tp TopicPartition) error {
	return rpc.ErrorOf(code, nil, fmt.Sprintf("%s-%d", tp.Topic, tp.Partition))
}
