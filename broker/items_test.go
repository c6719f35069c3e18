package broker

import (
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
)

// A partition that is named costs a hundred times its bytes until it is answered: R14, for all that a request says.
func TestRequestsNameNoMoreThanThereMayBe(t *testing.T) {
	n := start(t)
	offsets := func(partitions int) kmsg.Request {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version = 1
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = "t"
		for i := range partitions {
			topic.Partitions = append(topic.Partitions, kmsg.ListOffsetsRequestTopicPartition{Partition: int32(i), Timestamp: -1})
		}
		req.Topics = append(req.Topics, topic)
		return req
	}
	fetch := func(partitions int) kmsg.Request {
		req := fetchRequest(12, "t", 0, 0)
		topic := &req.Topics[0]
		for i := 1; i < partitions; i++ {
			topic.Partitions = append(topic.Partitions, topic.Partitions[0])
			topic.Partitions[i].Partition = int32(i)
		}
		return req
	}
	produce := func(partitions int) kmsg.Request {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks = 9, -1
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = "t"
		for i := range partitions {
			topic.Partitions = append(topic.Partitions, kmsg.ProduceRequestTopicPartition{Partition: int32(i)})
		}
		req.Topics = append(req.Topics, topic)
		return req
	}
	const topics = 1
	for _, request := range []func(int) kmsg.Request{offsets, fetch, produce} {
		c := n.dial()
		do[kmsg.Response](c, request(itemsMax-topics))
		c.send(request(itemsMax))
		c.wantClosed()
	}
	n.dial().create("there", 10) // more there are, more may be named
	for _, request := range []func(int) kmsg.Request{offsets, fetch, produce} {
		do[kmsg.Response](n.dial(), request(itemsMax+2*10-topics))
	}
}

// What waits is bounded too: without room a fetch is answered at once.
func TestParkedFetchesAreBounded(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	wait := func() *kmsg.FetchRequest {
		req := fetchRequest(12, "t", 0, 0)
		req.MaxWaitMillis = math.MaxInt32
		return req
	}
	n.b.parkedParts.take(parkedPartsMax)
	do[*kmsg.FetchResponse](c, wait())
	n.b.parkedParts.give(parkedPartsMax)
	c.send(wait())
	eventually(t, "the fetch to wait", func() bool { return n.b.parkedParts.n.Load() == 1 })
	n.dial().mustProduce("t", 0, plain("x"))
	if resp := next[*kmsg.FetchResponse](c); len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Error("no records")
	}
	if left := n.b.parkedParts.n.Load(); left != 0 {
		t.Errorf("%d left", left)
	}
}

// So is what is remembered for consumers. A session that would hold too much is over; the client begins anew and gets none.
func TestFetchSessionsAreBounded(t *testing.T) {
	s := newFetchSessions(10, randomInt32)
	targets := func(n int) []fetchTarget {
		list := make([]fetchTarget, n)
		for i := range list {
			list[i].key.index = int32(i)
		}
		return list
	}
	visit := func(*sessionPartition) {}
	a, b := s.create(false, 1, 0), s.create(false, 1, 0)
	if code, _ := a.advance(1, false, targets(5), nil, visit); code != protocol.None || s.total.Load() != 5 {
		t.Fatalf("%v, %d", code, s.total.Load())
	}
	if code, _ := a.advance(2, false, nil, []fetchKey{{index: 1}}, visit); code != protocol.None || s.total.Load() != 4 {
		t.Fatalf("%v, %d", code, s.total.Load())
	}
	if code, _ := b.advance(1, false, targets(sessionPartitionsMax), nil, visit); code != protocol.FetchSessionIDNotFound || s.total.Load() != 4 {
		t.Errorf("%v, %d", code, s.total.Load())
	}
	if s.create(false, sessionPartitionsMax-4, 0) == nil || s.create(false, sessionPartitionsMax-3, 0) != nil {
		t.Error("the room for a new session")
	}
	s.remove(a.id)
	if code, _ := a.advance(3, false, targets(5), nil, visit); code != protocol.FetchSessionIDNotFound || s.total.Load() != 0 {
		t.Errorf("a session that is over: %v, %d", code, s.total.Load())
	}
	a.fill(make([]fetchPart, 1))
	a.tell(make([]fetchPart, 1))
	if s.total.Load() != 0 {
		t.Errorf("%d left", s.total.Load())
	}
}

// What an unusual request took is not kept for the usual ones behind it.
func TestRequestsAreTrimmed(t *testing.T) {
	var r request
	r.fetch.parts, r.fetch.changes = make([]fetchPart, maxKeptParts+1), nil
	r.fetch.parking.waiters = append(r.fetch.parking.waiters, newFetchWaiter(&r.fetch))
	r.produce.items = make([]produceItem, maxKeptParts+1)
	r.fetch.trim()
	r.produce.trim()
	if r.fetch.parts != nil || r.fetch.parking.waiters != nil || r.produce.items != nil {
		t.Error("it is")
	}
	r.fetch.parts, r.produce.items = make([]fetchPart, maxKeptParts), make([]produceItem, maxKeptParts)
	r.fetch.trim()
	r.produce.trim()
	if r.fetch.parts == nil || r.produce.items == nil {
		t.Error("usual ones are not kept")
	}
}
