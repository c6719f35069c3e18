package client

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// question is what a broker is asked about one partition.
type question struct {
	p         *partition
	version   uint64
	epoch     int32 // of the leader
	timestamp int64 // ListOffsets
	last      int32 // OffsetForLeaderEpoch
}

// askSet is what one broker is asked.
type askSet struct{ locate, validate []question }

func asksOf(asks map[int32]*askSet, broker int32) *askSet {
	if asks[broker] == nil {
		asks[broker] = &askSet{}
	}
	return asks[broker]
}

func (a *askSet) add(p *partition) {
	q := question{p: p, version: p.version, epoch: p.leaderEpoch, timestamp: p.lookFor, last: p.next.epoch}
	if p.state == awaitLocate {
		a.locate = append(a.locate, q)
	} else {
		a.validate = append(a.validate, q)
	}
}

// askAllLocked sends the questions, each broker's by a goroutine that ends with the answer.
func (r *Consumer) askAllLocked(asks map[int32]*askSet, committed []*partition) {
	begin := func(qs []question, ask func()) {
		if len(qs) == 0 {
			return
		}
		for _, q := range qs {
			q.p.asked = true
		}
		r.running.Go(func() {
			ask()
			r.mu.Lock()
			for _, q := range qs {
				q.p.asked = false
			}
			r.wakeFetchersLocked()
			r.mu.Unlock()
			poke(r.work)
		})
	}
	for broker, a := range asks {
		begin(a.locate, func() { r.locate(broker, a.locate) })
		begin(a.validate, func() { r.validate(broker, a.validate) })
	}
	var qs []question
	for _, p := range committed {
		qs = append(qs, question{p: p, version: p.version})
	}
	begin(qs, func() { r.resume(qs) })
}

// locate finds positions by time or end.
func (r *Consumer) locate(broker int32, qs []question) {
	found, err := r.listOffsets(r.ctx, broker, qs)
	if err != nil {
		r.unanswered(qs, err)
		return
	}
	r.answers(qs, func(now time.Time, q question) { r.locatedLocked(now, q, found[q.p.tp]) })
}

// listOffsets asks a broker for offsets by time or end. Every question has an answer.
func (r *Consumer) listOffsets(ctx context.Context, broker int32, qs []question) (map[TopicPartition]*kmsg.ListOffsetsResponseTopicPartition, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, int8(r.config.IsolationLevel)
	req.TimeoutMillis = int32(r.client.config.RequestTimeout.Milliseconds())
	for topic, of := range byTopic(qs) {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		for _, q := range of {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.Timestamp = q.p.tp.Partition, q.epoch, q.timestamp
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := r.askBroker(ctx, broker, req)
	if err != nil {
		return nil, err
	}
	found := map[TopicPartition]*kmsg.ListOffsetsResponseTopicPartition{}
	for _, q := range qs {
		found[q.p.tp] = &kmsg.ListOffsetsResponseTopicPartition{ErrorCode: int16(protocol.UnknownServerError)}
	}
	for _, t := range resp.(*kmsg.ListOffsetsResponse).Topics {
		for i := range t.Partitions {
			found[TopicPartition{Topic: t.Topic, Partition: t.Partitions[i].Partition}] = &t.Partitions[i]
		}
	}
	return found, nil
}

func byTopic(qs []question) map[string][]question {
	by := map[string][]question{}
	for _, q := range qs {
		by[q.p.tp.Topic] = append(by[q.p.tp.Topic], q)
	}
	return by
}

// locatedLocked takes over what was found for a partition.
func (r *Consumer) locatedLocked(now time.Time, q question, a *kmsg.ListOffsetsResponseTopicPartition) {
	switch {
	case a.ErrorCode != 0:
		r.refusedLocked(now, q.p, a.ErrorCode)
	case a.Offset >= 0:
		q.p.set(r.nextVersionLocked(), position{a.Offset, a.LeaderEpoch}, false)
	case q.p.orLast:
		q.p.locate(r.nextVersionLocked(), timestampLatest, false)
	default:
		r.refusedLocked(now, q.p, int16(protocol.UnknownServerError))
	}
}

// validate asks where the records end of the epochs that were read last.
func (r *Consumer) validate(broker int32, qs []question) {
	found, err := r.epochEnds(broker, qs)
	if _, cannot := errors.AsType[*UnsupportedError](err); cannot {
		r.answers(qs, func(_ time.Time, q question) { q.p.state = fetching })
		return
	}
	if err != nil {
		r.unanswered(qs, err)
		return
	}
	r.answers(qs, func(now time.Time, q question) {
		a := found[q.p.tp]
		if a.ErrorCode != 0 {
			r.refusedLocked(now, q.p, a.ErrorCode)
		} else if parts, same := q.p.validated(a.LeaderEpoch, a.EndOffset); !same {
			r.partedLocked(q.p, parts)
		}
	})
}

// epochEnds asks a broker where epochs end. Every question has an answer.
func (r *Consumer) epochEnds(broker int32, qs []question) (map[TopicPartition]*kmsg.OffsetForLeaderEpochResponseTopicPartition, error) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	for topic, of := range byTopic(qs) {
		t := kmsg.NewOffsetForLeaderEpochRequestTopic()
		t.Topic = topic
		for _, q := range of {
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = q.p.tp.Partition, q.epoch, q.last
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	resp, err := r.askBroker(r.ctx, broker, req)
	if err != nil {
		return nil, err
	}
	found := map[TopicPartition]*kmsg.OffsetForLeaderEpochResponseTopicPartition{}
	for _, q := range qs {
		found[q.p.tp] = &kmsg.OffsetForLeaderEpochResponseTopicPartition{ErrorCode: int16(protocol.UnknownServerError)}
	}
	for _, t := range resp.(*kmsg.OffsetForLeaderEpochResponse).Topics {
		for i := range t.Partitions {
			found[TopicPartition{Topic: t.Topic, Partition: t.Partitions[i].Partition}] = &t.Partitions[i]
		}
	}
	return found, nil
}

// askBroker asks on the general connection to a broker: fetches wait long on theirs.
func (r *Consumer) askBroker(ctx context.Context, broker int32, req kmsg.Request) (kmsg.Response, error) {
	conn, err := r.client.broker(ctx, broker, general)
	if err != nil {
		return nil, err
	}
	return r.client.request(ctx, conn, req)
}

// answers takes answers over, unless the partition has been told to look elsewhere since it was asked for.
func (r *Consumer) answers(qs []question, take func(now time.Time, q question)) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range qs {
		if q.p.version == q.version {
			take(now, q)
		}
	}
	r.changedLocked()
}

// unanswered puts the partitions off whose question failed.
func (r *Consumer) unanswered(qs []question, err error) {
	if r.ctx.Err() != nil {
		return
	}
	r.client.config.Logger.Debug("no positions", "err", err)
	r.client.stale()
	r.answers(qs, func(now time.Time, q question) {
		q.p.backOff(now, r.client.backoff)
		if !Retriable(err) {
			r.tellPartitionLocked(q.p, err)
		}
	})
	r.mu.Lock()
	r.mu.lastErr = err
	r.mu.Unlock()
}

// refusedLocked sees to the error code of a question about a position.
func (r *Consumer) refusedLocked(now time.Time, p *partition, code int16) {
	switch fetchVerdict(protocol.Code(code)) {
	case verdictMoved:
		p.backOff(now, r.client.backoff)
		r.client.stale()
	case verdictTell, verdictCorrupt, verdictRange:
		p.backOff(now, r.client.backoff)
		r.tellPartitionLocked(p, codeError(code, p.tp))
		r.client.stale()
	default:
		p.backOff(now, r.client.backoff)
	}
}

// Offsets finds the offset of a place (Earliest, Latest, AtTime) in partitions, assigned or not; the end, where no record is as late as a time. While a partition has no
// leader, it is asked for again, until the context ends. Errors: *UnknownTopicError, *Error and those of connections.
func (r *Consumer) Offsets(ctx context.Context, at Offset, partitions ...TopicPartition) (map[TopicPartition]int64, error) {
	found := make(map[TopicPartition]int64, len(partitions))
	if at.at >= 0 {
		for _, tp := range partitions {
			found[tp] = at.at
		}
		return found, nil
	}
	for tries := 1; ; tries++ {
		err := r.offsets(ctx, at, partitions, found)
		if err == nil {
			return found, nil
		}
		if !Retriable(err) && fetchVerdict(Code(err)) != verdictMoved {
			return nil, err
		}
		r.client.stale()
		if ended := r.client.sleep(ctx, r.client.backoff(tries)); ended != nil {
			return nil, giveUp(ended, err)
		}
	}
}

// offsets asks for those that have not been found, once.
func (r *Consumer) offsets(ctx context.Context, at Offset, partitions []TopicPartition, found map[TopicPartition]int64) error {
	by := map[int32][]question{}
	asked := make(map[TopicPartition]bool, len(partitions))
	for _, tp := range partitions {
		if _, ok := found[tp]; ok || asked[tp] {
			continue
		}
		asked[tp] = true
		info, err := r.client.leader(ctx, tp.Topic, tp.Partition)
		if err != nil {
			return err
		}
		by[info.leader] = append(by[info.leader], question{p: newPartition(tp, 0), epoch: info.epoch, timestamp: at.timestamp})
	}
	var last error
	for broker, qs := range by {
		answers, err := r.listOffsets(ctx, broker, qs)
		if err != nil {
			last = err
			continue
		}
		for _, q := range qs {
			switch a := answers[q.p.tp]; {
			case a.ErrorCode != 0:
				last = codeError(a.ErrorCode, q.p.tp)
			case a.Offset >= 0:
				found[q.p.tp] = a.Offset
			default: // no record is as late
				if err := r.offsets(ctx, Latest, []TopicPartition{q.p.tp}, found); err != nil {
					last = err
				}
			}
		}
	}
	return last
}

// Partitions are those of a topic.
func (r *Consumer) Partitions(ctx context.Context, topic string) ([]TopicPartition, error) {
	t, err := r.client.topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	all := make([]TopicPartition, len(t.partitions))
	for i := range all {
		all[i] = TopicPartition{Topic: topic, Partition: int32(i)}
	}
	return all, nil
}
