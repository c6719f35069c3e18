package broker

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/leatmq/leat/metadata"
	"github.com/leatmq/leat/netio"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/replication"
)

// Produce (0), versions 3-13. The loop reads the request in place, checks what can be checked without the log, and queues each batch on its
// partition's append worker; record bytes go from the frame to the page cache and nowhere else. The answer is completed by whoever makes the last
// partition's answer true: an append worker (acks 1), the advance of a high watermark (acks -1), nobody (acks 0: an error closes the connection).
//
// Version notes: topics by name up to v12, by id from v13; zstd needs v7; v8 answers record errors; v10 the leader when this node is not it.
//
// A partition that is named twice is appended once, with the last of its batches, and answered once. Null records get INVALID_RECORD.

// produceOp is a Produce request on its way. It is part of its request and reused with it.
type produceOp struct {
	b     *Broker
	r     *request
	frame *netio.Frame // record bytes lie here until the last append is done

	req   protocol.ProduceRequest // aliases the frame: not to be looked into once appends have started
	resp  protocol.ProduceResponse
	items []produceItem                  // one per partition of the answer; not resized while appends are in flight
	index map[*replication.Partition]int // of items, while there are many and they are being collected

	holders atomic.Int32 // appends that need the frame, and one while items are being started
	pending atomic.Int32 // answers that are missing, and one while items are being started
}

// produceItem is one partition's batch.
type produceItem struct {
	replication.Produce
	partition *replication.Partition // nil: code says why
	code      protocol.Code          // found before the append
	text      string
	topic     string // the topic's name where it is known, or as it was asked for
	id        [16]byte
	index     int32
	newTopic  bool // begins a topic of the answer
	malformed bool // not exactly one v2 batch by its header
}

// trim lets go of what an earlier request of unusual size has left.
func (op *produceOp) trim() {
	if cap(op.items) > maxKeptParts {
		op.items, op.index, op.resp = nil, nil, protocol.ProduceResponse{}
	}
}

func startProduce(b *Broker, r *request) {
	op := &r.produce
	op.b, op.r = b, r
	if err := op.req.Parse(r.header.Version, r.body); err != nil {
		b.refuse(r, err)
		return
	}
	op.frame = r.call.TakeFrame()
	op.collect()
	op.append()
}

// collect makes the list of items and refuses what needs no log to be refused.
func (op *produceOp) collect() {
	op.items = op.items[:0]
	clear(op.index)
	transactional, newTopic := false, false
	for it := op.req.Partitions(); it.Next(); {
		newTopic = newTopic || it.NewTopic
		partition := op.partitionOf(&it)
		item := op.item(partition)
		if item == nil {
			item = op.newItem(partition, &it)
			item.newTopic, newTopic = newTopic, false
		}
		item.Batch = it.Records
		if it.RecordsNull {
			item.Batch = nil
		}
		transactional = transactional || isTransactional(it.Records)
	}
	if transactional && !op.req.HasTransactionalID {
		for i := range op.items {
			op.items[i].refuse(protocol.TransactionalIDAuthorizationFailed, "a transactional batch needs a transactional id")
		}
		return
	}
	for i := range op.items {
		op.check(&op.items[i])
	}
}

func (op *produceOp) partitionOf(it *protocol.ProducePartitions) *replication.Partition {
	if op.r.header.Version >= 13 {
		return op.b.repl.PartitionByID(it.TopicID, it.Partition)
	}
	return op.b.repl.Partition(alias(it.Topic), it.Partition)
}

// item finds the item of a partition that the request has named before, nil if it has not.
func (op *produceOp) item(p *replication.Partition) *produceItem {
	if p == nil {
		return nil
	}
	if len(op.items) <= maxScanned {
		for i := range op.items {
			if op.items[i].partition == p {
				return &op.items[i]
			}
		}
		return nil
	}
	if len(op.index) == 0 {
		op.index = make(map[*replication.Partition]int, 4*maxScanned)
		for i := range op.items {
			op.index[op.items[i].partition] = i
		}
	}
	if i, ok := op.index[p]; ok {
		return &op.items[i]
	}
	op.index[p] = len(op.items)
	return nil
}

// newItem adds an item. The topic's name is the log's own string: the one in the frame is gone before the answer is written.
func (op *produceOp) newItem(p *replication.Partition, it *protocol.ProducePartitions) *produceItem {
	if len(op.items) < cap(op.items) {
		op.items = op.items[:len(op.items)+1]
	} else {
		op.items = append(op.items, produceItem{})
	}
	item := &op.items[len(op.items)-1]
	item.partition, item.index, item.id, item.topic = p, it.Partition, it.TopicID, ""
	item.code, item.text = protocol.None, ""
	switch {
	case p != nil && p.Log() != nil:
		item.topic = p.Log().TP().Topic
	case op.r.header.Version < 13:
		item.topic = string(it.Topic)
	}
	return item
}

// alias is a string that shares the bytes of b: for a look-up, never to be kept.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func isTransactional(records []byte) bool {
	return len(records) >= record.HeaderSize && record.Batch(records).Magic() == 2 && record.Batch(records).IsTransactional()
}

func (it *produceItem) refuse(code protocol.Code, text string) {
	it.partition, it.code, it.text = nil, code, text
}

// check refuses an item in Kafka's order of checks; nothing is written for a refused one.
func (op *produceOp) check(it *produceItem) {
	version := op.r.header.Version
	switch {
	case it.partition == nil:
		it.code = op.unknown(it)
	case it.Batch == nil:
		it.refuse(protocol.InvalidRecord, "the request has no records for this partition")
	case version < 7 && len(it.Batch) >= record.HeaderSize && record.Batch(it.Batch).Magic() == 2 && record.Batch(it.Batch).Codec() == record.Zstd:
		it.refuse(protocol.UnsupportedCompressionType, "zstd needs Produce version 7 or newer")
	case op.req.Acks < -1 || op.req.Acks > 1:
		it.refuse(protocol.InvalidRequiredAcks, "acks must be -1, 0 or 1")
	case op.internal(it):
		it.refuse(protocol.InvalidTopicException, "only the broker writes to its internal topics")
	case isTransactional(it.Batch):
		it.refuse(protocol.InvalidTxnState, "this broker has no transactions yet")
	default:
		it.malformed = malformed(it.Batch)
		if err := it.partition.Check(-1); err != nil {
			it.refuse(codeOf(err), err.Error())
		}
	}
}

// adminClientID is the client id that may write to internal topics, as with Kafka: tools that copy or repair them.
const adminClientID = "__admin_client"

// internal tells whether an item is for a topic that only the broker writes.
func (op *produceOp) internal(it *produceItem) bool {
	return len(it.topic) > 2 && it.topic[:2] == "__" && metadata.IsInternal(it.topic) && op.r.header.ClientID != adminClientID
}

// malformed tells whether records are not exactly one v2 batch, as far as its header says.
func malformed(records []byte) bool {
	b, rest, err := record.Frame(records)
	if err != nil || b.Magic() != 2 {
		return true
	}
	_, _, err = record.Frame(rest)
	return err == nil
}

// unknown tells an id that nobody has from a partition that the topic does not have.
func (op *produceOp) unknown(it *produceItem) protocol.Code {
	if op.r.header.Version >= 13 && op.b.meta.Image().TopicByID(it.id) == nil {
		return protocol.UnknownTopicID
	}
	return protocol.UnknownTopicOrPartition
}

// append queues the batches.
func (op *produceOp) append() {
	appends := int32(0)
	for i := range op.items {
		if op.items[i].partition != nil {
			appends++
		}
	}
	op.holders.Store(1 + appends)
	op.pending.Store(1 + appends)
	op.r.conn.beginAppends()
	for i := range op.items {
		it := &op.items[i]
		if it.partition == nil {
			continue
		}
		it.Acks, it.TimeoutMs, it.Sink = op.req.Acks, op.req.TimeoutMs, op
		it.partition.Produce(&it.Produce)
	}
	op.Appended(nil)
	op.ProduceDone(nil)
}

// Appended is replication's upcall: one batch's bytes are not needed any more. After the last one nothing may point into the frame.
func (op *produceOp) Appended(*replication.Produce) {
	if op.holders.Add(-1) > 0 {
		return
	}
	for i := range op.items {
		op.items[i].Batch = nil
	}
	op.req = protocol.ProduceRequest{Acks: op.req.Acks}
	op.r.body = nil
	frame := op.frame
	op.frame = nil
	frame.Release()
	op.r.conn.endAppends(op.b)
}

// ProduceDone is replication's upcall: one partition's answer is ready. The last one completes the call.
func (op *produceOp) ProduceDone(*replication.Produce) {
	if op.pending.Add(-1) == 0 {
		op.complete()
	}
}

func (op *produceOp) complete() {
	r := op.r
	if op.req.Acks == 0 {
		r.call.Complete(netio.Response{None: true, Close: op.failed()})
		return
	}
	op.answer()
	r.out = protocol.AppendProduceResponse(r.out, r.header.CorrelationID, &op.resp)
	r.call.Complete(netio.Response{Body: r.out})
}

// failed tells, for acks 0, that the client can only learn of an error by losing its connection.
func (op *produceOp) failed() bool {
	for i := range op.items {
		if it := &op.items[i]; it.partition == nil || it.Err != nil {
			return true
		}
	}
	return false
}

// answer fills the response from the items.
func (op *produceOp) answer() {
	op.resp.Version, op.resp.Topics, op.resp.Nodes = op.r.header.Version, op.resp.Topics[:0], op.resp.Nodes[:0]
	var topic *protocol.ProduceTopic
	for i := range op.items {
		it := &op.items[i]
		if it.newTopic {
			topic = op.nextTopic()
			topic.Name, topic.ID, topic.Partitions = it.topic, it.id, topic.Partitions[:0]
		}
		topic.Partitions = append(topic.Partitions, op.partition(it))
	}
}

// nextTopic lengthens the response's list of topics by one, keeping the room that a former topic had.
func (op *produceOp) nextTopic() *protocol.ProduceTopic {
	if n := len(op.resp.Topics); n < cap(op.resp.Topics) {
		op.resp.Topics = op.resp.Topics[:n+1]
	} else {
		op.resp.Topics = append(op.resp.Topics, protocol.ProduceTopic{})
	}
	return &op.resp.Topics[len(op.resp.Topics)-1]
}

func (op *produceOp) partition(it *produceItem) protocol.ProducePartition {
	a := protocol.ProducePartition{Index: it.index, BaseOffset: -1, LogAppendTimeMs: -1, LogStart: -1}
	switch {
	case it.partition == nil:
		a.ErrorCode, a.ErrorMessage = it.code, it.text
	case it.Err == nil:
		a.BaseOffset, a.LogAppendTimeMs, a.LogStart = it.BaseOffset, it.LogAppendTimeMs, it.LogStartOffset
	default:
		op.fillFailure(it, &a)
	}
	if a.ErrorCode == protocol.NotLeaderOrFollower {
		hint := op.b.leaderHint(it.topic, it.index)
		a.CurrentLeader = &hint
		op.addNode(hint.LeaderID)
	}
	return a
}

// fillFailure answers a batch that the log refused. Which errors carry the log start offset is Kafka's choice.
func (op *produceOp) fillFailure(it *produceItem, a *protocol.ProducePartition) {
	a.ErrorCode, a.ErrorMessage = codeOf(it.Err), it.Err.Error()
	switch a.ErrorCode {
	case protocol.InvalidTimestamp, protocol.OutOfOrderSequenceNumber, protocol.InvalidProducerEpoch, protocol.UnknownServerError:
		a.LogStart = it.partition.LogStart()
	case protocol.InvalidRecord:
		if !it.malformed {
			a.LogStart = it.partition.LogStart()
		}
	}
	if e, ok := errors.AsType[*record.Error](it.Err); ok {
		for _, re := range e.Records {
			a.RecordErrors = append(a.RecordErrors, protocol.RecordError{Index: re.Index, Message: re.Msg})
		}
	}
}

func (op *produceOp) addNode(id int32) {
	for i := range op.resp.Nodes {
		if op.resp.Nodes[i].ID == id {
			return
		}
	}
	if n := op.b.node(id, op.r.call.Conn); n.ID >= 0 {
		op.resp.Nodes = append(op.resp.Nodes, n)
	}
}
