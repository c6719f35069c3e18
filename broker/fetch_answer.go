package broker

import (
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/netio"
	"github.com/leatmq/leat/protocol"
)

// complete answers with what was read.
func (op *fetchOp) complete() {
	op.resp.ErrorCode, op.resp.SessionID = protocol.None, sessionless
	switch {
	case op.partial:
		op.session.tell(op.parts)
		op.resp.SessionID = op.session.id
	case op.newOne:
		if s := op.b.sessions.create(op.r.header.Version >= 13, len(op.parts), op.b.steady()); s != nil {
			s.fill(op.parts)
			op.resp.SessionID = s.id
		}
	}
	op.send()
}

// fail answers the request as a whole with an error and no partitions.
func (op *fetchOp) fail(code protocol.Code) {
	op.releaseAll()
	op.clearParts()
	op.resp.ErrorCode, op.resp.SessionID = code, sessionless
	op.send()
}

// send encodes the headers around the ranges, whose references netio takes over.
func (op *fetchOp) send() {
	op.resp.Version, op.resp.CorrelationID = op.r.header.Version, op.r.header.CorrelationID
	op.describe()
	headers, _ := op.enc.Encode(&op.resp)
	op.out = op.out[:0]
	next := 1
	for i := range op.parts {
		part := &op.parts[i]
		if part.size() == 0 {
			continue
		}
		op.out = append(op.out, netio.Part{File: part.data.Seg, Off: part.data.Pos, N: part.data.N}, netio.Part{B: headers[next]})
		part.data = engine.Range{}
		next++
	}
	op.clearParts()
	op.r.call.Complete(netio.Response{Body: headers[0], Parts: op.out})
}

// describe fills the response from the parts; partitions of a topic that follow each other share its entry.
func (op *fetchOp) describe() {
	op.resp.Nodes = op.resp.Nodes[:0]
	topics := op.resp.Topics[:0]
	var last *fetchKey
	for i := range op.parts {
		part := &op.parts[i]
		if part.silent {
			continue
		}
		if last == nil || last.topic != part.key.topic || last.id != part.key.id {
			topics = grow(topics)
			t := &topics[len(topics)-1]
			t.Name, t.ID, t.Partitions = part.key.topic, part.key.id, t.Partitions[:0]
			last = &part.key
		}
		t := &topics[len(topics)-1]
		t.Partitions = append(t.Partitions, op.partition(part))
	}
	op.resp.Topics = topics
}

// grow lengthens a slice by one, keeping what its spare elements own.
func grow(topics []protocol.FetchTopic) []protocol.FetchTopic {
	if len(topics) < cap(topics) {
		return topics[:len(topics)+1]
	}
	return append(topics, protocol.FetchTopic{})
}

// abortedNull tells whether the list of aborted transactions is null rather than empty: Kafka's choice is empty for a partition that nobody knows, and for
// a successful answer to read_committed.
func (op *fetchOp) abortedNull(part *fetchPart) bool {
	if part.noNode {
		return part.code == protocol.InconsistentTopicID
	}
	return !op.committed || part.code != protocol.None
}

func (op *fetchOp) partition(part *fetchPart) protocol.FetchPartition {
	a := protocol.FetchPartition{
		Index: part.key.index, ErrorCode: part.code, HighWatermark: part.hw, LastStable: part.lso, LogStart: part.logStart,
		AbortedNull: op.abortedNull(part), PreferredReplica: -1, RecordsLen: part.size(),
	}
	if part.diverges() {
		a.DivergingEpoch = &part.diverging
	}
	if part.code == protocol.NotLeaderOrFollower && !part.noHint || part.code == protocol.FencedLeaderEpoch {
		part.leader = op.b.leaderHint(part.name, part.key.index)
		a.CurrentLeader = &part.leader
		op.addNode(part.leader.LeaderID)
	}
	return a
}

// topicName is the topic of a target by the metadata of now, "" if there is none.
func (op *fetchOp) topicName(t *fetchTarget) string {
	if op.r.header.Version < 13 {
		return t.key.topic
	}
	if t := op.b.meta.Image().TopicByID(t.key.id); t != nil {
		return t.Name
	}
	return ""
}

func (op *fetchOp) addNode(id int32) {
	for i := range op.resp.Nodes {
		if op.resp.Nodes[i].ID == id {
			return
		}
	}
	if n := op.b.node(id, op.r.call.Conn); n.ID >= 0 {
		op.resp.Nodes = append(op.resp.Nodes, n)
	}
}
