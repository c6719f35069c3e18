package group

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/protocol"
)

// topicOffsets are a group's committed offsets of one topic.
type topicOffsets struct {
	name      string
	committed offsetTable
	writing   map[int32]int // offsets whose records are on their way: they are as good as there for what removes offsets
}

func isTooLarge(err error) bool { return errors.Is(err, machine.ErrTooLarge) }
func isMoved(err error) bool    { return errors.Is(err, machine.ErrUnloaded) }

// topic returns the offsets of a topic, made when there are none.
func (g *group) topic(name string) *topicOffsets {
	t := g.offsets[name]
	if t == nil {
		t = &topicOffsets{name: strings.Clone(name)}
		g.offsets[t.name] = t
	}
	return t
}

func (t *topicOffsets) beginWrite(partition int32) {
	if t.writing == nil {
		t.writing = map[int32]int{}
	}
	t.writing[partition]++
}

func (t *topicOffsets) endWrite(partition int32) {
	if t.writing[partition]--; t.writing[partition] == 0 {
		delete(t.writing, partition)
	}
}

// settle forgets a topic of which no offset is left.
func (g *group) settle(name string, t *topicOffsets) {
	if t.committed.count == 0 && len(t.writing) == 0 {
		delete(g.offsets, name)
	}
}

// replayOffset takes a record of a committed offset over.
func (s *Shard) replayOffset(r machine.Record) error {
	id, topic, partition, err := readOffsetKey(r.Key)
	if err != nil {
		return fmt.Errorf("the key of a committed offset cannot be read: %w", err)
	}
	if r.Value == nil {
		if g := s.groups[string(id)]; g != nil {
			s.removeOffset(g, string(topic), partition)
		}
		s.last.group, s.last.topic = nil, nil
		return nil
	}
	c, err := readOffsetValue(r.Value)
	if err != nil {
		return fmt.Errorf("the committed offset of group %q for %s-%d cannot be read: %w", id, topic, partition, err)
	}
	g := s.last.group
	if g == nil || g.id != string(id) {
		g = s.groups[string(id)]
		if g == nil {
			g = s.group(string(id))
		}
		s.last.group, s.last.topic = g, nil
	}
	t := s.last.topic
	if t == nil || t.name != string(topic) {
		if t = g.offsets[string(topic)]; t == nil {
			t = g.topic(string(topic))
		}
		s.last.topic = t
	}
	t.committed.put(partition, &c)
	return nil
}

// removeOffset forgets an offset. A group of which nothing is left then is there until expiry is looked for, as in Kafka.
func (s *Shard) removeOffset(g *group, topic string, partition int32) {
	t := g.offsets[topic]
	if t == nil {
		return
	}
	t.committed.remove(partition)
	g.settle(topic, t)
}

// commitOffset is one offset of an OffsetCommit.
type commitOffset struct {
	topic     string
	partition int32
	committed
}

// Commit is OffsetCommit, of partitions that exist. Names and, where they are known, ids of the topics are set.
func (s *Shard) Commit(nowMs int64, req *kmsg.OffsetCommitRequest, to machine.Ticket, out *machine.Out) {
	g, code := s.committable(req)
	if code != protocol.None {
		out.Answer(to, commitAnswer(req, func(int, int) protocol.Code { return code }))
		return
	}
	g.membership.committing(nowMs, req.MemberID)
	offsets, records, refused := s.commits(nowMs, g, req)
	answer := func(code protocol.Code) *kmsg.OffsetCommitResponse {
		return commitAnswer(req, func(t, p int) protocol.Code {
			if no, ok := refused[[2]int{t, p}]; ok {
				return no
			}
			return code
		})
	}
	if len(records) == 0 {
		out.Answer(to, answer(protocol.None))
		s.dropIfBare(g)
		return
	}
	for i := range offsets {
		g.topic(offsets[i].topic).beginWrite(offsets[i].partition)
	}
	g.writing++
	out.Write(records, func(_ int64, err error, out *machine.Out) {
		g.writing--
		var stale []topicPartition // committed for a topic that was deleted meanwhile
		for i := range offsets {
			o := &offsets[i]
			t := g.topic(o.topic)
			t.endWrite(o.partition)
			if err == nil {
				t.committed.put(o.partition, &o.committed)
				if o.stale(o.topic, s.o.Topics()) {
					stale = append(stale, topicPartition{o.topic, o.partition})
				}
			}
			g.settle(o.topic, t)
		}
		s.dropStale(g, stale, out)
		s.dropIfBare(g)
		out.Answer(to, answer(commitCode(err)))
	})
}

// commitCode is writeCode of an OffsetCommit.
func commitCode(err error) protocol.Code {
	switch {
	case err == nil:
		return protocol.None
	case isTooLarge(err):
		return protocol.InvalidCommitOffsetSize
	}
	return writeCode(err)
}

// committable finds the group of a commit. One without a generation makes a simple group.
func (s *Shard) committable(req *kmsg.OffsetCommitRequest) (*group, protocol.Code) {
	g := s.groups[req.Group]
	if g == nil {
		switch {
		case req.Generation < 0:
			g = s.group(req.Group)
		case req.Version >= 9:
			return nil, protocol.GroupIDNotFound
		default:
			return nil, protocol.IllegalGeneration
		}
	}
	code := g.membership.checkCommit(req)
	if code != protocol.None {
		s.dropIfBare(g)
	}
	return g, code
}

// commits makes the records of a commit. What is refused of it is told by place: topic and partition in the request.
func (s *Shard) commits(nowMs int64, g *group, req *kmsg.OffsetCommitRequest) (offsets []commitOffset, records []machine.Record, refused map[[2]int]protocol.Code) {
	most, topics := s.config().OffsetMetadataMaxBytes, s.o.Topics()
	expireMs := int64(-1)
	if req.Version >= 2 && req.Version <= 4 && req.RetentionTimeMillis >= 0 {
		expireMs = nowMs + req.RetentionTimeMillis
	}
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	offsets, records = make([]commitOffset, 0, n), make([]machine.Record, 0, n)
	for i := range req.Topics {
		t := &req.Topics[i]
		buf := make([]byte, 0, len(t.Partitions)*(offsetKeyBytes(g.id, t.Topic)+emptyV4Bytes)) // of keys and values; with metadata it grows
		id, _ := topics.TopicID(t.Topic)
		if t.TopicID != [16]byte{} {
			id = t.TopicID
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			no := g.membership.checkCommitOf(req, id, p.Partition)
			if no == protocol.None && tooLong(p, most) {
				no = protocol.OffsetMetadataTooLarge
			}
			if no != protocol.None {
				if refused == nil {
					refused = map[[2]int]protocol.Code{}
				}
				refused[[2]int{i, j}] = no
				continue
			}
			o := commitOffset{t.Topic, p.Partition, committed{offset: p.Offset, leaderEpoch: p.LeaderEpoch, commitMs: nowMs, expireMs: expireMs, topicID: id}}
			if p.Metadata != nil {
				o.metadata = *p.Metadata
			}
			offsets = append(offsets, o)
			at := len(buf)
			buf = appendOffsetKey(buf, g.id, t.Topic, p.Partition)
			keyEnd := len(buf)
			buf = appendOffsetValue(buf, &o.committed)
			records = append(records, machine.Record{Key: buf[at:keyEnd:keyEnd], Value: buf[keyEnd:len(buf):len(buf)]})
		}
	}
	return offsets, records, refused
}

// tooLong counts as Kafka does: units of UTF-16, as Java has them.
func tooLong(p *kmsg.OffsetCommitRequestTopicPartition, most int) bool {
	if p.Metadata == nil || len(*p.Metadata) <= most {
		return false
	}
	n := 0
	for _, c := range *p.Metadata {
		n += utf16.RuneLen(c)
	}
	return n > most
}

// commitAnswer answers every partition of a commit.
func commitAnswer(req *kmsg.OffsetCommitRequest, code func(topic, partition int) protocol.Code) *kmsg.OffsetCommitResponse {
	r := kmsg.NewPtrOffsetCommitResponse()
	r.Topics = make([]kmsg.OffsetCommitResponseTopic, 0, len(req.Topics))
	for i := range req.Topics {
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		t.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, 0, len(req.Topics[i].Partitions))
		for j := range req.Topics[i].Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = req.Topics[i].Partitions[j].Partition, int16(code(i, j))
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// noOffset is the answer for a partition without a committed offset.
func noOffset(partition int32) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	empty := ""
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, -1, -1, &empty
	return p
}

// RefuseCommit answers every partition of a commit with an error.
func RefuseCommit(req *kmsg.OffsetCommitRequest, code protocol.Code) *kmsg.OffsetCommitResponse {
	return commitAnswer(req, func(int, int) protocol.Code { return code })
}

// RefuseFetch answers an OffsetFetch of a group with an error.
func RefuseFetch(req *kmsg.OffsetFetchRequestGroup, code protocol.Code) *kmsg.OffsetFetchResponseGroup {
	r := kmsg.NewOffsetFetchResponseGroup()
	r.Group, r.ErrorCode = req.Group, int16(code)
	return &r
}

// RefuseFetchTopic answers the partitions of a topic in an OffsetFetch with an error.
func RefuseFetchTopic(q *kmsg.OffsetFetchRequestGroupTopic, code protocol.Code) kmsg.OffsetFetchResponseGroupTopic {
	t := kmsg.NewOffsetFetchResponseGroupTopic()
	t.Topic, t.TopicID = q.Topic, q.TopicID
	for _, n := range q.Partitions {
		p := noOffset(n)
		p.ErrorCode = int16(code)
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

// Budget bounds what the answers to one request may hold, over several groups. Safe for concurrent use.
type Budget struct{ left atomic.Int64 }

// NewBudget makes a budget of so many bytes.
func NewBudget(bytes int64) *Budget {
	b := new(Budget)
	b.left.Store(bytes)
	return b
}

func (b *Budget) take(n int) bool { return n == 0 || b.left.Add(int64(-n)) >= 0 }

// Fetch is OffsetFetch of one group: of named topics (with their ids, where they are known), or of all when Topics is nil. It
// shows what is committed; commits that came before and are on their way are waited for, so that a client reads what it wrote.
func (s *Shard) Fetch(nowMs int64, req *kmsg.OffsetFetchRequestGroup, budget *Budget, to machine.Ticket, out *machine.Out) {
	if g := s.groups[req.Group]; g != nil && g.writing > 0 {
		out.Write(nil, func(_ int64, _ error, out *machine.Out) { s.fetch(req, budget, to, out) })
		return
	}
	s.fetch(req, budget, to, out)
}

func (s *Shard) fetch(req *kmsg.OffsetFetchRequestGroup, budget *Budget, to machine.Ticket, out *machine.Out) {
	r := kmsg.NewOffsetFetchResponseGroup()
	r.Group, r.Topics = req.Group, []kmsg.OffsetFetchResponseGroupTopic{}
	g, topics := s.groups[req.Group], s.o.Topics()
	if g != nil {
		if code := g.membership.checkFetch(req); code != protocol.None {
			out.Answer(to, RefuseFetch(req, code))
			return
		}
	}
	if req.Topics == nil {
		if g != nil {
			r.Topics = g.allOffsets(topics, budget)
		}
		out.Answer(to, &r)
		return
	}
	for i := range req.Topics {
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic, t.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		var offsets *topicOffsets
		if g != nil {
			offsets = g.offsets[t.Topic]
		}
		for _, n := range req.Topics[i].Partitions {
			t.Partitions = append(t.Partitions, offsets.answer(n, t.Topic, topics, budget))
		}
		r.Topics = append(r.Topics, t)
	}
	out.Answer(to, &r)
}

// answer is the committed offset of a partition. One that was committed for an earlier topic of the same name is none.
func (t *topicOffsets) answer(partition int32, topic string, topics Topics, budget *Budget) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := noOffset(partition)
	if t == nil {
		return p
	}
	c, ok := t.committed.get(partition)
	if !ok || c.stale(topic, topics) {
		return p
	}
	metadata := c.metadata
	if !budget.take(len(metadata)) { // nobody has so much, but who asks for the same again and again
		p.ErrorCode = int16(protocol.InvalidRequest)
		return p
	}
	p.Offset, p.LeaderEpoch, p.Metadata = c.offset, c.leaderEpoch, &metadata
	return p
}

// stale says whether the offset is of a topic that was deleted.
func (c *committed) stale(topic string, topics Topics) bool {
	if c.topicID == [16]byte{} {
		return false
	}
	id, ok := topics.TopicID(topic)
	return !ok || id != c.topicID
}

// allOffsets answers with everything that is committed, in order of topic and partition.
func (g *group) allOffsets(topics Topics, budget *Budget) []kmsg.OffsetFetchResponseGroupTopic {
	all := []kmsg.OffsetFetchResponseGroupTopic{}
	for _, name := range slices.Sorted(maps.Keys(g.offsets)) {
		offsets := g.offsets[name]
		t := kmsg.NewOffsetFetchResponseGroupTopic()
		t.Topic = name
		t.TopicID, _ = topics.TopicID(name)
		for n, c := range offsets.committed.all() {
			if !c.stale(name, topics) {
				t.Partitions = append(t.Partitions, offsets.answer(n, name, topics, budget))
			}
		}
		if len(t.Partitions) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// DeleteOffsets is OffsetDelete.
func (s *Shard) DeleteOffsets(_ int64, req *kmsg.OffsetDeleteRequest, to machine.Ticket, out *machine.Out) {
	r := kmsg.NewPtrOffsetDeleteResponse()
	g := s.groups[req.Group]
	switch {
	case g == nil:
		r.ErrorCode = int16(protocol.GroupIDNotFound)
	case !g.membership.isEmpty() && g.membership.kind() != consumerProtocol:
		r.ErrorCode = int16(protocol.NonEmptyGroup)
	}
	if r.ErrorCode != 0 {
		out.Answer(to, r)
		return
	}
	var gone []topicPartition
	for i := range req.Topics {
		t := kmsg.NewOffsetDeleteResponseTopic()
		t.Topic = req.Topics[i].Topic
		inUse := g.membership.subscribes(t.Topic)
		for _, q := range req.Topics[i].Partitions {
			p := kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition = q.Partition
			if inUse {
				p.ErrorCode = int16(protocol.GroupSubscribedToTopic)
			} else if g.has(t.Topic, q.Partition) {
				gone = append(gone, topicPartition{t.Topic, q.Partition})
			}
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	s.tombstones(g, gone, nil, out, func(err error, out *machine.Out) {
		if err != nil {
			r = kmsg.NewPtrOffsetDeleteResponse()
			r.ErrorCode = int16(writeCode(err))
		}
		out.Answer(to, r)
	})
}

type topicPartition struct {
	topic     string
	partition int32
}

// has says whether there is an offset, or will be.
func (g *group) has(topic string, partition int32) bool {
	t := g.offsets[topic]
	if t == nil {
		return false
	}
	return t.committed.has(partition) || t.writing[partition] > 0
}

// partitions are all partitions with an offset, or with one on its way, in order.
func (g *group) partitions() []topicPartition {
	var all []topicPartition
	for _, name := range slices.Sorted(maps.Keys(g.offsets)) {
		t := g.offsets[name]
		for n := range t.committed.all() {
			all = append(all, topicPartition{name, n})
		}
		for _, n := range slices.Sorted(maps.Keys(t.writing)) {
			if !t.committed.has(n) {
				all = append(all, topicPartition{name, n})
			}
		}
	}
	return all
}

// tombstones removes offsets, and the records of more behind them. What is removed in memory is what was there when the
// tombstone went into the log: an offset that is committed behind it stays.
func (s *Shard) tombstones(g *group, gone []topicPartition, more []machine.Record, out *machine.Out, done func(err error, out *machine.Out)) {
	if len(gone)+len(more) == 0 {
		done(nil, out)
		return
	}
	records := make([]machine.Record, 0, len(gone)+len(more))
	for _, tp := range gone {
		records = append(records, machine.Record{Key: offsetKey(g.id, tp.topic, tp.partition)})
	}
	g.writing++
	out.WriteSplit(append(records, more...), func(_ int64, err error, out *machine.Out) {
		g.writing--
		if err == nil {
			for _, tp := range gone {
				s.removeOffset(g, tp.topic, tp.partition)
			}
		}
		done(err, out)
	})
}
