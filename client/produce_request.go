package client

import (
	"cmp"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

// Versions of Produce that are spoken: from the first with batches of format 2 to the last with topic names.
const (
	keyProduce         int16 = 0
	produceOldest      int16 = 3
	produceNewest      int16 = 12
	produceFlexible    int16 = 9
	produceRecordError int16 = 8
	produceHint        int16 = 10
)

var errNoAnswerFor = errors.New("it says nothing about a partition it was sent records for")

// produceRequest is a request on its way.
type produceRequest struct {
	sender   *sender
	sent     []sentBatch
	deadline int64 // of the batch that expires first
	conn     *rpc.Conn
	version  int16

	open atomic.Int32 // how much is to come of: the end of writing, the answer. The last one takes the answer in
	body []byte
	err  error
}

type sentBatch struct {
	part *part
	b    *batch
	size int // bytes
	seen bool
}

func (r *produceRequest) add(t *part, b *batch) {
	r.sent = append(r.sent, sentBatch{part: t, b: b, size: len(b.data)})
	r.deadline = min(r.deadline, b.deadline)
}

// sort puts the partitions of a topic together.
func (r *produceRequest) sort() {
	slices.SortFunc(r.sent, func(a, b sentBatch) int {
		return cmp.Or(strings.Compare(a.part.topic.name, b.part.topic.name), cmp.Compare(a.part.number, b.part.number))
	})
}

// topicEnd is where the topic that begins at i ends.
func (r *produceRequest) topicEnd(i int) int {
	end := i + 1
	for end < len(r.sent) && r.sent[end].part.topic == r.sent[i].part.topic {
		end++
	}
	return end
}

// encode makes the request: transactional id (null), acks, timeout, then for each topic its name and partitions, for each partition its number and its batch. The batches are
// not copied.
func (r *produceRequest) encode(version, acks int16, timeout time.Duration) rpc.Raw {
	size, topics := 32, 0
	for i := 0; i < len(r.sent); i = r.topicEnd(i) {
		size += 16 + len(r.sent[i].part.topic.name)
		topics++
	}
	e := produceEncoder{flexible: version >= produceFlexible, b: make([]byte, 0, size+16*len(r.sent)), parts: make(net.Buffers, 0, 2*len(r.sent)+1)}
	if e.flexible {
		e.b = append(e.b, 0)
	} else {
		e.b = append(e.b, 0xff, 0xff)
	}
	e.b = binary.BigEndian.AppendUint16(e.b, uint16(acks))
	e.b = binary.BigEndian.AppendUint32(e.b, uint32(timeout.Milliseconds()))
	e.length(topics)
	for i := 0; i < len(r.sent); {
		end := r.topicEnd(i)
		e.name(r.sent[i].part.topic.name)
		e.length(end - i)
		for ; i < end; i++ {
			e.b = binary.BigEndian.AppendUint32(e.b, uint32(r.sent[i].part.number))
			e.length(len(r.sent[i].b.data))
			e.insert(r.sent[i].b.data)
			e.tags()
		}
		e.tags()
	}
	e.tags()
	e.insert(nil)
	return rpc.Raw{Key: keyProduce, Version: version, Flexible: e.flexible, Body: e.parts}
}

// produceEncoder writes the old and the compact encoding.
type produceEncoder struct {
	flexible bool
	b        []byte // grows; what is before from is in parts
	from     int
	parts    net.Buffers
}

func (e *produceEncoder) length(n int) {
	if e.flexible {
		e.b = binary.AppendUvarint(e.b, uint64(n)+1)
	} else {
		e.b = binary.BigEndian.AppendUint32(e.b, uint32(n))
	}
}

func (e *produceEncoder) name(s string) {
	if e.flexible {
		e.length(len(s))
	} else {
		e.b = binary.BigEndian.AppendUint16(e.b, uint16(len(s)))
	}
	e.b = append(e.b, s...)
}

func (e *produceEncoder) tags() {
	if e.flexible {
		e.b = append(e.b, 0)
	}
}

// insert puts bytes between what was written and what comes.
func (e *produceEncoder) insert(data []byte) {
	if e.from < len(e.b) {
		e.parts = append(e.parts, e.b[e.from:len(e.b):len(e.b)])
		e.from = len(e.b)
	}
	if len(data) > 0 {
		e.parts = append(e.parts, data)
	}
}

// answered gets the answer, on the connection's reading goroutine.
func (r *produceRequest) answered(body []byte, err error) {
	r.body, r.err = body, err
	r.settle()
}

// settle takes the answer in when writing has ended and the answer is there.
func (r *produceRequest) settle() {
	if r.open.Add(-1) == 0 {
		r.takeIn()
	}
}

// takeIn tells the partitions what became of their batches.
func (r *produceRequest) takeIn() {
	if r.err != nil {
		r.all(answer{kind: retry, err: r.err})
		return
	}
	resp := kmsg.ProduceResponse{Version: r.version}
	if err := resp.ReadFrom(r.body); err != nil {
		r.all(answer{kind: retry, err: r.conn.Unreadable(keyProduce, r.version, err)})
		return
	}
	moved := false
	now := r.sender.producer.now()
	for i := range resp.Topics {
		for j := range resp.Topics[i].Partitions {
			a := &resp.Topics[i].Partitions[j]
			s := r.find(resp.Topics[i].Topic, a.Partition)
			if s == nil || s.seen {
				continue
			}
			s.seen = true
			result := r.read(s, a)
			moved = r.move(s, a, &resp) || moved
			s.part.answered(s.b, result, now)
		}
	}
	for i := range r.sent {
		if s := &r.sent[i]; !s.seen {
			s.part.answered(s.b, answer{kind: retry, err: r.conn.Unreadable(keyProduce, r.version, errNoAnswerFor)}, now)
		}
	}
	r.landed(moved)
}

func (r *produceRequest) find(topic string, partition int32) *sentBatch {
	for i := range r.sent {
		if s := &r.sent[i]; s.part.number == partition && s.part.topic.name == topic {
			return s
		}
	}
	return nil
}

// read is what an answer says about a batch.
func (r *produceRequest) read(s *sentBatch, a *kmsg.ProduceResponseTopicPartition) answer {
	code := protocol.Code(a.ErrorCode)
	result := answer{kind: kindOf(code), offset: a.BaseOffset, appendMs: a.LogAppendTime}
	if result.kind == appended {
		return result
	}
	message := a.ErrorMessage
	if message == nil && len(a.ErrorRecords) > 0 {
		message = a.ErrorRecords[0].ErrorMessage
	}
	result.err = rpc.ErrorOf(a.ErrorCode, message, s.part.queue.where())
	return result
}

// move takes over where a partition has gone, and reports whether metadata is needed to know.
func (r *produceRequest) move(s *sentBatch, a *kmsg.ProduceResponseTopicPartition, resp *kmsg.ProduceResponse) bool {
	switch protocol.Code(a.ErrorCode) {
	case protocol.NotLeaderOrFollower, protocol.FencedLeaderEpoch, protocol.LeaderNotAvailable, protocol.UnknownTopicOrPartition, protocol.KafkaStorageError, protocol.ReplicaNotAvailable:
	default:
		return false
	}
	leader := a.CurrentLeader.LeaderID
	if r.version < produceHint || leader < 0 {
		return true
	}
	addrs := map[int32]string{}
	for _, b := range resp.Brokers {
		addrs[b.NodeID] = hostPort(b.Host, b.Port)
	}
	if _, known := r.sender.producer.client.metadata.current().addrs[leader]; !known && addrs[leader] == "" {
		return true
	}
	r.sender.producer.client.leaderHint(s.part.topic.name, a.Partition, leader, a.CurrentLeader.LeaderEpoch, addrs)
	return false
}

// all gives all batches the same answer.
func (r *produceRequest) all(a answer) {
	now := r.sender.producer.now()
	for _, s := range r.sent {
		s.part.answered(s.b, a, now)
	}
	r.landed(a.kind == retry)
}

// landed makes room for the next request.
func (r *produceRequest) landed(stale bool) {
	if stale {
		r.sender.producer.client.stale()
	}
	r.sender.flying.Add(-1)
	r.sender.nudge()
	r.sender.producer.requests.Done()
}

// refuse fails a request that cannot be made.
func (r *produceRequest) refuse(err error) { r.all(answer{kind: rejected, err: err}) }

// sentOnly is the end of a request that has no answer.
func (r *produceRequest) sentOnly(err error) {
	if err != nil {
		r.all(answer{kind: retry, err: err})
		return
	}
	r.all(answer{kind: appended, offset: -1, appendMs: -1})
}
