package client

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

const (
	commitByID = 10 // from this version on, OffsetCommit and OffsetFetch name topics by id only
	fetchGroup = 8  // from this version on, OffsetFetch asks for several groups
)

// Committed is what a group has committed of a partition.
type Committed struct {
	Offset      int64  // of the next record to be read
	LeaderEpoch int32  // of the record before it; -1: not known
	Metadata    string // whatever the one who committed it added
}

// identity is as whom a consumer commits.
type identity struct {
	member     string // "": as nobody in particular, with a group that has no members
	generation int32  // or member epoch; -1
	instance   *string
	outside    bool // it subscribes and is not in the group
}

// NoGroupError: what was called needs a group, and the consumer has none.
type NoGroupError struct{ Call string }

func (e *NoGroupError) Error() string {
	return e.Call + " needs a group, and this consumer has none: set ConsumerConfig.Group"
}

// Commit commits the positions of all partitions: what Poll has returned counts as done. It returns when the coordinator has them, and tries again until the context ends where that may help.
// Errors: *NoGroupError, *Error: where the member is not in the group any more, or in the middle of a rebalance, nothing is committed, and others may read the same records again.
func (r *Consumer) Commit(ctx context.Context) error {
	return r.CommitOffsets(ctx, r.positions())
}

// CommitAsync begins a commit of the positions of all partitions and returns. done (nil: nobody) gets the result, from another goroutine. Commits are done in the order in which they are
// called, each within RequestTimeout.
func (r *Consumer) CommitAsync(done func(error)) {
	offsets := r.positions()
	turn := r.commitTurn()
	ok := r.start(func() {
		ctx, cancel := context.WithTimeout(r.ctx, r.client.config.RequestTimeout)
		defer cancel()
		err := r.commitInTurn(ctx, turn, offsets)
		if done != nil {
			done(err)
		}
	})
	if !ok {
		turn.pass()
		if done != nil {
			done(ErrClosed)
		}
	}
}

// start runs something that Close waits for; false when the consumer is closed.
func (r *Consumer) start(run func()) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		return false
	}
	r.running.Go(run)
	return true
}

// CommitRecords commits these records, and with them all before them in their partitions, whatever else Poll has returned.
func (r *Consumer) CommitRecords(ctx context.Context, records ...Record) error {
	offsets := map[TopicPartition]Committed{}
	for i := range records {
		rec := &records[i]
		tp := TopicPartition{Topic: rec.Topic, Partition: rec.Partition}
		if have, ok := offsets[tp]; !ok || have.Offset <= rec.Offset {
			offsets[tp] = Committed{Offset: rec.Offset + 1, LeaderEpoch: rec.LeaderEpoch}
		}
	}
	return r.CommitOffsets(ctx, offsets)
}

// CommitOffsets commits offsets, of partitions that need not be assigned.
func (r *Consumer) CommitOffsets(ctx context.Context, offsets map[TopicPartition]Committed) error {
	return r.commitInTurn(ctx, r.commitTurn(), offsets)
}

// positions are what Commit commits.
func (r *Consumer) positions() map[TopicPartition]Committed {
	r.mu.Lock()
	defer r.mu.Unlock()
	offsets := make(map[TopicPartition]Committed, len(r.mu.order))
	for _, p := range r.mu.order {
		if p.positioned() {
			offsets[p.tp] = Committed{Offset: p.pos.offset, LeaderEpoch: p.pos.epoch}
		}
	}
	return offsets
}

// turn is a place in the queue of commits.
type turn struct {
	before <-chan struct{} // closed when it is this one's turn; nil: at once
	after  chan struct{}
}

// commitTurn takes the next place.
func (r *Consumer) commitTurn() *turn {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := &turn{before: r.mu.lastTurn, after: make(chan struct{})}
	r.mu.lastTurn = t.after
	return t
}

// pass leaves the queue, wherever in it the place is.
func (t *turn) pass() {
	if t.before == nil {
		close(t.after)
		return
	}
	select {
	case <-t.before:
		close(t.after)
	default:
		go func() { // ends with the commit before, which has an end
			<-t.before
			close(t.after)
		}()
	}
}

func (r *Consumer) commitInTurn(ctx context.Context, t *turn, offsets map[TopicPartition]Committed) error {
	defer t.pass()
	if r.config.Group == "" {
		return &NoGroupError{"Commit"}
	}
	if r.ctx.Err() != nil {
		return ErrClosed
	}
	if err := waitFor(ctx, t.before); err != nil {
		return err
	}
	if len(offsets) == 0 {
		return nil
	}
	return r.askGroup(ctx, func(ctx context.Context, conn *rpc.Conn) error { return r.tryCommit(ctx, conn, offsets) })
}

// askGroup asks the coordinator, again while that may help and the context lasts.
func (r *Consumer) askGroup(ctx context.Context, ask func(context.Context, *rpc.Conn) error) error {
	for tries := 1; ; tries++ {
		conn, err := r.client.coordinator(ctx, r.config.Group, r.commits)
		if err != nil {
			return err
		}
		who := r.identity()
		if err = ask(ctx, conn); err == nil {
			return nil
		}
		switch Code(err) {
		case protocol.NotCoordinator, protocol.CoordinatorNotAvailable, protocol.None:
			r.client.forgetCoordinator(r.config.Group)
		case protocol.UnknownTopicID, protocol.UnknownTopicOrPartition:
			r.client.stale()
		}
		if !r.passes(err, who) {
			return err
		}
		if ended := r.client.sleep(ctx, r.client.backoff(tries)); ended != nil {
			return giveUp(ended, err)
		}
	}
}

// passes says whether an error of the coordinator may go away by itself. One about the member does when the group is changing its generation, or has just done so.
func (r *Consumer) passes(err error, who identity) bool {
	switch Code(err) {
	case protocol.IllegalGeneration, protocol.RebalanceInProgress:
		return r.groupOf().unsettled(who)
	case protocol.StaleMemberEpoch: // the next heartbeat tells the new one
		return true
	}
	return Retriable(err)
}

// tryCommit commits once.
func (r *Consumer) tryCommit(ctx context.Context, conn *rpc.Conn, offsets map[TopicPartition]Committed) error {
	who := r.identity()
	if who.outside { // a group without members would take it from anybody
		return &Error{Code: protocol.UnknownMemberID, Where: "group " + r.config.Group, Message: "the consumer is not in its group now: what it has read, others may read again"}
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation, req.InstanceID = r.config.Group, who.member, who.generation, who.instance
	req.RetentionTimeMillis = -1
	ids, byID := r.topicIDs(offsets)
	at := map[string]int{}
	for tp, o := range offsets {
		i, ok := at[tp.Topic]
		if !ok {
			i = len(req.Topics)
			at[tp.Topic] = i
			t := kmsg.NewOffsetCommitRequestTopic()
			t.Topic, t.TopicID = tp.Topic, ids[tp.Topic]
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = tp.Partition, o.Offset, o.LeaderEpoch, kmsg.StringPtr(o.Metadata)
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	resp, err := conn.Request(ctx, req, byIDOr(byID, commitByID))
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			if err := rpc.ErrorOf(p.ErrorCode, nil, fmt.Sprintf("a commit of group %s", r.config.Group)); err != nil {
				return err
			}
		}
	}
	return nil
}

// byIDOr is the newest version to ask in, where versions from first on name topics by id.
func byIDOr(byID bool, first int16) int16 {
	if byID {
		return -1
	}
	return first - 1
}

// topicIDs are the ids of topics; false when not all of them are known.
func (r *Consumer) topicIDs(offsets map[TopicPartition]Committed) (ids map[string][16]byte, all bool) {
	topics := r.client.metadata.current().topics
	ids, all = map[string][16]byte{}, true
	for tp := range offsets {
		if t := topics[tp.Topic]; t != nil {
			ids[tp.Topic] = t.id
		}
		all = all && ids[tp.Topic] != [16]byte{}
	}
	return ids, all
}

// Committed finds what the group has committed of partitions; one of which nothing is committed is not in the answer.
func (r *Consumer) Committed(ctx context.Context, partitions ...TopicPartition) (map[TopicPartition]Committed, error) {
	if r.config.Group == "" {
		return nil, &NoGroupError{"Committed"}
	}
	wanted := make(map[TopicPartition]Committed, len(partitions))
	for _, tp := range partitions {
		wanted[tp] = Committed{}
	}
	var found map[TopicPartition]committedAnswer
	err := r.askGroup(ctx, func(ctx context.Context, conn *rpc.Conn) (err error) {
		found, err = r.tryCommitted(ctx, conn, wanted)
		for tp, a := range found {
			if err == nil {
				err = codeError(a.code, tp)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	committed := map[TopicPartition]Committed{}
	for tp, a := range found {
		if a.Offset >= 0 {
			committed[tp] = a.Committed
		}
	}
	return committed, nil
}

// committedAnswer is what a coordinator answers about one partition.
type committedAnswer struct {
	Committed
	code int16
}

// tryCommitted asks once.
func (r *Consumer) tryCommitted(ctx context.Context, conn *rpc.Conn, wanted map[TopicPartition]Committed) (map[TopicPartition]committedAnswer, error) {
	who := r.identity()
	ids, byID := r.topicIDs(wanted)
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberEpoch = r.config.Group, -1
	if who.member != "" && r.config.Protocol == ConsumerProtocol {
		g.MemberID, g.MemberEpoch = &who.member, who.generation
	}
	req.Group, req.RequireStable = r.config.Group, true
	names := map[[16]byte]string{}
	partitions := map[string][]int32{}
	for tp := range wanted {
		partitions[tp.Topic] = append(partitions[tp.Topic], tp.Partition)
	}
	for name, ps := range partitions {
		names[ids[name]] = name
		t := kmsg.NewOffsetFetchRequestGroupTopic()
		t.Topic, t.TopicID, t.Partitions = name, ids[name], ps
		g.Topics = append(g.Topics, t)
		old := kmsg.NewOffsetFetchRequestTopic()
		old.Topic, old.Partitions = name, ps
		req.Topics = append(req.Topics, old)
	}
	req.Groups = append(req.Groups, g)
	resp, err := conn.Request(ctx, req, byIDOr(byID, commitByID))
	if err != nil {
		return nil, err
	}
	return readCommitted(resp.(*kmsg.OffsetFetchResponse), names, "group "+r.config.Group)
}

// readCommitted reads an answer of any version.
func readCommitted(resp *kmsg.OffsetFetchResponse, names map[[16]byte]string, where string) (map[TopicPartition]committedAnswer, error) {
	found := map[TopicPartition]committedAnswer{}
	take := func(topic string, partition int32, offset int64, epoch int32, metadata *string, code int16) {
		a := committedAnswer{Committed{Offset: offset, LeaderEpoch: epoch}, code}
		if metadata != nil {
			a.Metadata = *metadata
		}
		found[TopicPartition{Topic: topic, Partition: partition}] = a
	}
	if resp.Version < fetchGroup {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				take(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode)
			}
		}
		return found, rpc.ErrorOf(resp.ErrorCode, nil, where)
	}
	for _, g := range resp.Groups {
		for _, t := range g.Topics {
			name := t.Topic
			if resp.Version >= commitByID {
				name = names[t.TopicID]
			}
			for _, p := range t.Partitions {
				take(name, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode)
			}
		}
		if err := rpc.ErrorOf(g.ErrorCode, nil, where); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// resume gives partitions the positions that the group has committed.
func (r *Consumer) resume(qs []question) {
	wanted := make(map[TopicPartition]Committed, len(qs))
	for _, q := range qs {
		wanted[q.p.tp] = Committed{}
	}
	conn, err := r.client.coordinator(r.ctx, r.config.Group, r.commits)
	var found map[TopicPartition]committedAnswer
	if err == nil {
		found, err = r.tryCommitted(r.ctx, conn, wanted)
	}
	if err != nil {
		r.unresumed(qs, err)
		return
	}
	r.answers(qs, func(now time.Time, q question) {
		switch a, ok := found[q.p.tp]; {
		case !ok:
			r.refusedLocked(now, q.p, int16(protocol.UnknownServerError))
		case a.code != 0:
			r.refusedLocked(now, q.p, a.code)
		case a.Offset < 0:
			r.beginLocked(q.p)
		default:
			q.p.set(r.nextVersionLocked(), position{a.Offset, a.LeaderEpoch}, true)
		}
	})
}

// unresumed puts the partitions off, when the coordinator could not be asked or refused. That the member is not what it was will be found out by its heartbeat.
func (r *Consumer) unresumed(qs []question, err error) {
	switch Code(err) {
	case protocol.NotCoordinator, protocol.CoordinatorNotAvailable, protocol.None:
		r.client.forgetCoordinator(r.config.Group)
	case protocol.StaleMemberEpoch, protocol.UnknownMemberID, protocol.IllegalGeneration, protocol.FencedMemberEpoch:
		r.answers(qs, func(now time.Time, q question) { q.p.backOff(now, r.client.backoff) })
		return
	}
	r.unanswered(qs, err)
}
