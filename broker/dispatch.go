package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/netio"
	"github.com/leatmq/leat/protocol"
)

// handler is how one API is answered: answer for requests that have their answer when it returns (nil closes the connection), start for those that
// complete the call themselves.
type handler struct {
	answer func(*Broker, *request) kmsg.Response
	start  func(*Broker, *request)
	worker func(*Broker, *request) bool // must it run on a worker? nil: never
}

func always(*Broker, *request) bool { return true }

// handlers is every API this broker answers; a test holds it against protocol.APIs.
var handlers = map[int16]handler{
	protocol.KeyProduce:                 {start: startProduce},
	protocol.KeyFetch:                   {start: startFetch},
	protocol.KeyListOffsets:             {answer: handleListOffsets, worker: always},
	protocol.KeyMetadata:                {answer: handleMetadata, worker: mayCreate},
	protocol.KeyOffsetCommit:            {start: startOffsetCommit},
	protocol.KeyOffsetFetch:             {start: startOffsetFetch},
	protocol.KeyFindCoordinator:         {answer: handleFindCoordinator, worker: mayCreateOffsets},
	protocol.KeyJoinGroup:               {start: startJoinGroup},
	protocol.KeyHeartbeat:               {start: startHeartbeat},
	protocol.KeyLeaveGroup:              {start: startLeaveGroup},
	protocol.KeySyncGroup:               {start: startSyncGroup},
	protocol.KeyDescribeGroups:          {start: startDescribeGroups},
	protocol.KeyListGroups:              {start: startListGroups},
	protocol.KeyDeleteGroups:            {start: startDeleteGroups},
	protocol.KeyOffsetDelete:            {start: startOffsetDelete},
	protocol.KeyConsumerGroupHeartbeat:  {start: startConsumerGroupHeartbeat},
	protocol.KeyConsumerGroupDescribe:   {start: startConsumerGroupDescribe},
	protocol.KeyAPIVersions:             {answer: handleAPIVersions},
	protocol.KeyCreateTopics:            {answer: handleCreateTopics, worker: always},
	protocol.KeyDeleteTopics:            {answer: handleDeleteTopics, worker: always},
	protocol.KeyDeleteRecords:           {answer: handleDeleteRecords, worker: always},
	protocol.KeyInitProducerID:          {answer: handleInitProducerID, worker: always},
	protocol.KeyOffsetForLeaderEpoch:    {answer: handleOffsetForLeaderEpoch},
	protocol.KeyDescribeConfigs:         {answer: handleDescribeConfigs, worker: always},
	protocol.KeyAlterConfigs:            {answer: handleAlterConfigs, worker: always},
	protocol.KeyDescribeLogDirs:         {answer: handleDescribeLogDirs, worker: always},
	protocol.KeyCreatePartitions:        {answer: handleCreatePartitions, worker: always},
	protocol.KeyIncrementalAlterConfigs: {answer: handleIncrementalAlterConfigs, worker: always},
	protocol.KeyDescribeCluster:         {answer: handleDescribeCluster},
	protocol.KeyDescribeProducers:       {answer: handleDescribeProducers, worker: always},
	protocol.KeyListConfigResources:     {answer: handleListConfigResources, worker: always},
	protocol.KeyDescribeTopicPartitions: {answer: handleDescribeTopicPartitions},
}

// request is one request on its way to its answer. It hangs on its Call (Call.User) and is reused with it: what it holds stays untouched until the
// answer has left, so answers are built in out.
type request struct {
	call   *netio.Call
	conn   *connection
	header protocol.Header
	body   []byte       // of the frame, behind the header
	msg    kmsg.Request // nil for Produce, which is read in place
	out    []byte       // the answer's bytes
	how    handler
	onLoop bool // it runs on the connection's loop: it must not wait

	produce produceOp
	fetch   fetchOp
}

// Of what a request took, this much at most is kept for the next one.
const (
	maxKeptBytes = 64 << 10 // of an answer
	maxKeptParts = 1 << 10  // partitions
)

// entrance is a listener's door into the broker: the handler of its server.
type entrance struct {
	b        *Broker
	listener int // index of Broker.servers
}

// OnRequest is netio's upcall, on the connection's loop.
func (e *entrance) OnRequest(call *netio.Call) {
	b := e.b
	r, _ := call.User.(*request)
	if r == nil {
		r = new(request)
		call.User = r
	}
	r.call = call
	r.conn = b.connection(call.Conn, e.listener)
	if err := b.decode(r); err != nil {
		b.refuse(r, err)
		return
	}
	if !r.conn.admit(b, r) {
		return // behind a request that runs on a worker
	}
	r.onLoop = true
	b.run(r)
}

// OnClose is netio's upcall when a connection is gone.
func (e *entrance) OnClose(c netio.Conn, err error) {
	b := e.b
	b.logClosed(c, err)
	conn, _ := c.Data().(*connection)
	if conn == nil {
		return // it asked nothing
	}
	b.conns.remove(conn)
	conn.wakeParked()
}

// logClosed tells why a connection was closed, where an operator can do something about it.
func (b *Broker) logClosed(c netio.Conn, err error) {
	message := ""
	if _, ok := errors.AsType[*netio.FrameError](err); ok {
		message = "connection closed: this is not a Kafka client, or socket.request.max.bytes is too small for it"
	} else if slow, ok := errors.AsType[*netio.SlowFrameError](err); ok {
		message = "connection closed: its request arrives too slowly"
		if slow.Shortage {
			message = "connection closed: the memory for requests (queued.max.request.bytes) is used up"
		}
	} else {
		return
	}
	b.lines.Log(slog.LevelWarn, message, "client", c.RemoteAddr(), "error", err)
}

// decode reads header and body of the frame. Produce and Fetch bodies are read by their handlers.
func (b *Broker) decode(r *request) (err error) {
	r.msg, r.onLoop = nil, false
	if cap(r.out) > maxKeptBytes {
		r.out = nil
	}
	r.produce.trim()
	r.fetch.trim()
	r.out = r.out[:0]
	if r.body, err = r.header.Parse(r.call.Frame.B); err != nil {
		return err
	}
	if err := b.checkItems(r); err != nil {
		return err
	}
	r.how = handlers[r.header.Key]
	if r.how.start != nil {
		return nil
	}
	r.msg, err = protocol.Decode(r.header, r.body)
	return err
}

// itemsMax is how many partitions, topics and the like a request may name beside twice the partitions there are: each costs about a kilobyte until it is
// answered, known or not, and a request of 100 MiB has room for millions.
const itemsMax = 100_000

func (b *Broker) checkItems(r *request) error {
	if len(r.body) <= itemsMax {
		return nil
	}
	limit := itemsMax + 2*b.meta.Image().PartitionCount()
	if n := protocol.Items(r.header, r.body); n > limit {
		return &protocol.MalformedError{Key: r.header.Key, Version: r.header.Version, Msg: fmt.Sprintf("it names %d things, %d are allowed with the partitions there are", n, limit)}
	}
	return nil
}

// refuse ends the connection of a request that cannot be read. An ApiVersions request of an unknown version alone is answered: v0, with our range.
func (b *Broker) refuse(r *request, err error) {
	if e, ok := errors.AsType[*protocol.UnsupportedError](err); ok && e.Key == protocol.KeyAPIVersions {
		r.out = protocol.AppendResponse(r.out, e.CorrelationID, protocol.UnsupportedAPIVersions())
		r.call.Complete(netio.Response{Body: r.out})
		return
	}
	b.lines.Log(slog.LevelInfo, "connection closed: a request could not be read", "client", r.call.Conn.RemoteAddr(), "client.id", r.header.ClientID, "error", err)
	r.call.Complete(netio.Response{None: true, Close: true})
}

// needsWorker tells whether the request may wait or write.
func (r *request) needsWorker(b *Broker) bool { return r.how.worker != nil && r.how.worker(b, r) }

// run answers a request where it belongs. It is called on the loop, or on the worker that the connection's earlier request ran on.
func (b *Broker) run(r *request) {
	if r.how.start != nil {
		r.how.start(b, r)
		return
	}
	if resp := r.how.answer(b, r); resp != nil {
		r.reply(resp)
		return
	}
	r.call.Complete(netio.Response{None: true, Close: true})
}

// submit hands a request to a worker, which then runs those of its connection that come meanwhile.
func (b *Broker) submit(r *request) {
	if !b.requests.submit(func() { b.runOnWorker(r) }) {
		r.call.Complete(netio.Response{None: true, Close: true}) // the broker has stopped
	}
}

func (b *Broker) runOnWorker(r *request) {
	conn := r.conn
	for r != nil {
		b.safely(r.call, func() { b.run(r) })
		r = conn.nextWaiting(b)
	}
}

// safely closes the connection of a request whose handling panics on a worker, as netio does on the loop.
func (b *Broker) safely(call *netio.Call, handle func()) {
	defer func() {
		if p := recover(); p != nil {
			b.lines.Log(slog.LevelError, "BUG: a request handler panicked; its connection is closed", "client", call.Conn.RemoteAddr(), "panic", p, "stack", string(debug.Stack()))
			call.Complete(netio.Response{None: true, Close: true})
		}
	}()
	handle()
}

// reply completes the call with a message.
func (r *request) reply(resp kmsg.Response) {
	resp.SetVersion(r.header.Version)
	r.out = protocol.AppendResponse(r.out, r.header.CorrelationID, resp)
	r.call.Complete(netio.Response{Body: r.out})
}
