package broker

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/netio"
	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/replication"
)

// Fetch (1), versions 4-18. The loop finds, for each partition in request order, the bytes between the batch that holds the offset and the high
// watermark (or last stable offset) as a range of a segment file; the answer is header bytes and file ranges, and record bytes never pass through the
// broker's memory. What is not in memory (index or bytes) is looked up on a disk worker first. Not enough bytes: the request parks until a high
// watermark moves, an error or max_wait: see fetch_park.go.
//
// Byte limits: each partition gives at most min(its own limit, what is left of the request's); the first partition with data gives at least one whole
// batch, whatever the limits say.
//
// Version notes: sessions from v7, epochs from v9, divergence (KIP-320) from v12, topics by id from v13, addresses of leaders from v16.

// answerBytesMax bounds the records of an answer, for its size, headers included, is an int32.
const answerBytesMax = 1 << 30

// fetchTarget is what a client wants of one partition.
type fetchTarget struct {
	key              fetchKey
	offset           int64
	maxBytes         int32
	leaderEpoch      int32  // the client's belief; -1 = none
	lastFetchedEpoch int32  // -1 = none
	name             string // in a session: the topic that key.id was when it was first seen
}

// fetchPart is one partition of a request on its way to its answer.
type fetchPart struct {
	fetchTarget
	partition *replication.Partition

	code      protocol.Code
	hw        int64
	lso       int64
	logStart  int64
	data      engine.Range // holds a reference while N > 0
	diverging protocol.EpochEnd
	leader    protocol.LeaderHint // with the errors that mean "not here"
	noHint    bool                // the leader is here, but not for this kind of reader
	noNode    bool                // the partition is not on this node: does not end the wait
	silent    bool                // incremental answer: nothing new, leave it out
}

func (part *fetchPart) size() int      { return part.data.N }
func (part *fetchPart) diverges() bool { return part.diverging.Epoch >= 0 }

// release gives the part's segment back.
func (part *fetchPart) release() {
	if part.data.N > 0 {
		part.data.Release()
		part.data = engine.Range{}
	}
}

// fetchOp is a Fetch request on its way. It is part of its request and reused with it.
type fetchOp struct {
	b *Broker
	r *request

	req       kmsg.FetchRequest
	maxBytes  int
	minBytes  int
	committed bool // read_committed
	deadline  time.Time
	changes   []fetchTarget // what the request names
	parts     []fetchPart
	index     map[fetchKey]int // of parts, while there are many and they are being collected
	session   *fetchSession    // nil: none
	newOne    bool             // a full request: a session may be made for it
	partial   bool             // an incremental one: only news are answered

	parking fetchParking

	resp protocol.FetchResponse
	enc  protocol.FetchEncoder
	out  []netio.Part
}

// trim lets go of what an earlier request of unusual size has left. A waiter that is still to be woken knows its op and nothing else.
func (op *fetchOp) trim() {
	if cap(op.parts) > maxKeptParts || cap(op.changes) > maxKeptParts {
		op.parts, op.changes, op.index, op.parking.waiters, op.parking.on = nil, nil, nil, nil, nil
		op.resp, op.enc, op.out, op.req = protocol.FetchResponse{}, protocol.FetchEncoder{}, nil, kmsg.FetchRequest{}
	}
}

func startFetch(b *Broker, r *request) {
	op := &r.fetch
	op.b, op.r = b, r
	if err := op.decode(); err != nil {
		b.refuse(r, err)
		return
	}
	op.deadline = time.Now().Add(time.Duration(op.req.MaxWaitMillis) * time.Millisecond)
	if code := op.openSession(); code != protocol.None {
		op.fail(code)
		return
	}
	if len(op.parts) > maxKeptParts {
		op.attemptOnWorker() // others of the loop would wait
		return
	}
	op.attempt(true)
}

// decode reads the request.
func (op *fetchOp) decode() error {
	op.session, op.newOne, op.partial = nil, false, false
	op.req = kmsg.FetchRequest{}
	op.req.Default()
	op.req.SetVersion(op.r.header.Version)
	if err := protocol.DecodeInto(op.r.header, op.r.body, &op.req); err != nil {
		return err
	}
	op.committed = op.req.IsolationLevel == 1
	op.maxBytes = min(max(int(op.req.MaxBytes), 0), op.b.settings().FetchMaxBytes, answerBytesMax)
	op.minBytes = min(int(op.req.MinBytes), op.maxBytes)
	return nil
}

// openSession finds the request's session and from it the partitions that are to be answered.
func (op *fetchOp) openSession() protocol.Code {
	op.clearParts()
	version, req := op.r.header.Version, &op.req
	op.changes = op.changes[:0]
	for t := range req.Topics {
		topic := &req.Topics[t]
		for p := range topic.Partitions {
			f := target(version, topic, &topic.Partitions[p])
			f.name = op.topicName(&f)
			op.changes = append(op.changes, f)
		}
	}
	if version < 7 || req.SessionEpoch == initialEpoch || req.SessionEpoch == finalEpoch {
		if version >= 7 && req.SessionID != sessionless {
			op.b.sessions.remove(req.SessionID)
		}
		op.newOne = version >= 7 && req.SessionEpoch == initialEpoch
		for i := range op.changes {
			op.addTarget(&op.changes[i])
		}
		return protocol.None
	}
	return op.continueSession()
}

func (op *fetchOp) continueSession() protocol.Code {
	req := &op.req
	s := op.b.sessions.use(req.SessionID, op.b.steady())
	if s == nil {
		return protocol.FetchSessionIDNotFound
	}
	var forgotten []fetchKey
	for _, t := range req.ForgottenTopics {
		for _, index := range t.Partitions {
			forgotten = append(forgotten, fetchKey{t.Topic, t.TopicID, index})
		}
	}
	code, empty := s.advance(req.SessionEpoch, op.r.header.Version >= 13, op.changes, forgotten, func(p *sessionPartition) { op.addPart(p.fetchTarget) })
	switch {
	case code == protocol.FetchSessionIDNotFound:
		op.b.sessions.remove(s.id)
		return code
	case code != protocol.None:
		return code
	case empty:
		op.b.sessions.remove(s.id)
	default:
		op.session, op.partial = s, true
	}
	return protocol.None
}

func target(version int16, t *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition) fetchTarget {
	f := fetchTarget{key: fetchKey{t.Topic, t.TopicID, p.Partition}, offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes, leaderEpoch: -1, lastFetchedEpoch: -1}
	if version >= 9 {
		f.leaderEpoch = p.CurrentLeaderEpoch
	}
	if version >= 12 {
		f.lastFetchedEpoch = p.LastFetchedEpoch
	}
	return f
}

// addTarget adds a partition of a request without a session; named twice, the last one wins.
func (op *fetchOp) addTarget(t *fetchTarget) {
	if i := op.indexOf(&t.key); i >= 0 {
		op.parts[i].fetchTarget = *t
		return
	}
	op.addPart(*t)
	if op.index != nil {
		op.index[t.key] = len(op.parts) - 1
	}
}

// maxScanned is up to how many partitions of a request are searched one by one.
const maxScanned = 32

// indexOf finds the part of a partition, -1 if there is none.
func (op *fetchOp) indexOf(key *fetchKey) int {
	if len(op.parts) <= maxScanned {
		return slices.IndexFunc(op.parts, func(p fetchPart) bool { return p.key == *key })
	}
	if op.index == nil {
		op.index = make(map[fetchKey]int, 4*maxScanned)
		for i := range op.parts {
			op.index[op.parts[i].key] = i
		}
	}
	if i, ok := op.index[*key]; ok {
		return i
	}
	return -1
}

func (op *fetchOp) addPart(t fetchTarget) {
	op.parts = append(op.parts, fetchPart{fetchTarget: t})
}

func (op *fetchOp) clearParts() {
	clear(op.parts)
	op.parts = op.parts[:0]
	op.index = nil
}

// attempt reads every partition and answers, parks, or goes to a disk worker because it would have to wait for the disk.
func (op *fetchOp) attempt(onLoop bool) {
	for {
		switch op.read(onLoop) {
		case fetchReady:
			op.complete()
			return
		case fetchCold:
			op.releaseAll()
			op.attemptOnWorker()
			return
		case fetchShort:
			op.releaseAll()
			if op.park() {
				return
			}
		}
	}
}

func (op *fetchOp) attemptOnWorker() {
	if !op.b.disk.submit(func() { op.b.safely(op.r.call, func() { op.attempt(false) }) }) {
		op.fail(protocol.NotLeaderOrFollower)
	}
}

type fetchState uint8

const (
	fetchReady fetchState = iota // answer now
	fetchShort                   // not enough bytes yet
	fetchCold                    // would wait for the disk
)

func (op *fetchOp) read(onLoop bool) fetchState {
	total, here, failed, more := 0, 0, false, false
	for i := range op.parts {
		part := &op.parts[i]
		if onLoop && op.cold(part) {
			return fetchCold
		}
		op.readPart(part, min(int(part.maxBytes), op.maxBytes-total), total == 0)
		switch {
		case part.size() == 0:
		case !onLoop:
			op.fromDisk(part)
		case !part.data.Checked() || !part.data.Cached():
			return fetchCold
		}
		total += part.size()
		more = more || op.endsEarly(part)
		if !part.noNode {
			here++
		}
		failed = failed || part.code != protocol.None && !part.noNode || part.diverges()
	}
	if failed || more || here == 0 || total >= op.minBytes || op.over() || !op.b.parkedParts.take(len(op.parts)) {
		return fetchReady
	}
	return fetchShort
}

// fromDisk reads the part into the page cache, so that the loop that sends it does not wait for the disk (R16), and proves what nobody has looked at since the
// start, before it is sent past our eyes.
func (op *fetchOp) fromDisk(part *fetchPart) {
	if !part.data.Cached() {
		warm(&part.data)
	}
	if !part.data.Checked() {
		data, err := part.partition.Log().Check(part.data)
		part.data = data
		if err != nil {
			part.code = codeOf(err)
		}
	}
}

// endsEarly tells that there is more to read behind the part's segment: waiting would not make this part longer.
func (op *fetchOp) endsEarly(part *fetchPart) bool {
	end := part.hw
	if op.committed {
		end = part.lso
	}
	return part.size() > 0 && part.data.Seg.NextOffset() < end
}

// cold tells that finding the part's bytes may need the disk.
func (op *fetchOp) cold(part *fetchPart) bool {
	part.partition = op.find(part)
	return part.partition != nil && part.partition.Log() != nil && !part.partition.Log().Hot(part.offset)
}

// over tells that the request must not wait (any longer).
func (op *fetchOp) over() bool {
	return op.req.MaxWaitMillis <= 0 || op.b.stopping.Load() || op.r.call.Canceled() || !time.Now().Before(op.deadline)
}

func (op *fetchOp) find(part *fetchPart) *replication.Partition {
	if op.r.header.Version >= 13 {
		return op.b.repl.PartitionByID(part.key.id, part.key.index)
	}
	return op.b.repl.Partition(part.key.topic, part.key.index)
}

func (op *fetchOp) readPart(part *fetchPart, limit int, minOne bool) {
	part.release()
	part.code, part.noNode, part.noHint, part.silent = protocol.None, false, false, false
	part.hw, part.lso, part.logStart = -1, -1, -1
	part.diverging = protocol.EpochEnd{Epoch: -1, EndOffset: -1}
	if part.partition = op.find(part); part.partition == nil {
		part.code, part.noNode = op.unknown(part), true
		return
	}
	if op.req.ReplicaID >= 0 || op.req.ReplicaState.ID >= 0 { // no follower is known to this node: one replica
		part.code, part.noHint = protocol.NotLeaderOrFollower, true
		return
	}
	if err := part.partition.Check(max(part.leaderEpoch, -1)); err != nil {
		part.code = codeOf(err)
		return
	}
	if part.lastFetchedEpoch >= 0 && op.diverged(part) {
		return
	}
	res, err := part.partition.Read(part.offset, limit, minOne, op.committed)
	if err != nil {
		part.code = codeOf(err)
		return
	}
	part.data, part.hw, part.lso, part.logStart = res.Range, res.HW, res.LSO, res.LogStart
}

// diverged compares the client's history with the log's (KIP-320): where they part, the client gets the end of its epoch here and no data.
func (op *fetchOp) diverged(part *fetchPart) bool {
	epoch, end := part.partition.Log().EndOffsetForEpoch(part.lastFetchedEpoch)
	if epoch < 0 || part.lastFetchedEpoch > part.partition.LeaderEpoch() {
		part.code = protocol.OffsetOutOfRange
		return true
	}
	if epoch == part.lastFetchedEpoch && end >= part.offset {
		return false
	}
	part.diverging = protocol.EpochEnd{Epoch: epoch, EndOffset: end}
	part.hw, part.lso, part.logStart = part.partition.HighWatermark(), part.partition.LastStable(), part.partition.LogStart()
	return true
}

// unknown is the code for a partition that is not on this node.
func (op *fetchOp) unknown(part *fetchPart) protocol.Code {
	image := op.b.meta.Image()
	switch {
	case op.r.header.Version < 13 || image.TopicByID(part.key.id) != nil:
		return protocol.UnknownTopicOrPartition
	case part.name == "":
		return protocol.UnknownTopicID
	case image.Topic(part.name) != nil: // the session knew the topic by this id: now the name has another one
		return protocol.InconsistentTopicID
	}
	return protocol.UnknownTopicOrPartition
}

// warm waits until a range is in the page cache, and has the disk begin with what a consumer wants next. All in small pieces and not far ahead: a device works
// off what it was given in order, so that what is read here is in front of the sync of every producer (docs/BENCHMARKS.md, mixed).
func warm(r *engine.Range) {
	r.NoReadAhead()
	r.Prefetch(0, min(warmBytes, r.N))
	buf := netio.NewFrame(warmBytes)
	defer buf.Release()
	for off := 0; off < r.N; off += len(buf.B) {
		if ahead := off + len(buf.B); ahead < r.N {
			r.Prefetch(ahead, min(warmBytes, r.N-ahead))
		}
		if _, err := r.ReadAt(buf.B[:min(len(buf.B), r.N-off)], int64(off)); err != nil {
			return // sending it will find the same error and close the connection
		}
	}
	r.Prefetch(r.N, warmNextBytes)
}

const (
	warmBytes     = 128 << 10 // a piece; one is read while the next is on its way
	warmNextBytes = 512 << 10
)

func (op *fetchOp) releaseAll() {
	for i := range op.parts {
		op.parts[i].release()
	}
}
