package differential

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func initProducerOf(txn *string, timeoutMs int32, id int64, epoch int16) *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = txn, timeoutMs, id, epoch
	return req
}

const pid1 = madeUp + 1

// seq produces n records with a sequence at version 9.
func (s *S) seq(label string, t topic, p int32, pid int64, epoch int16, first int32, n int) {
	s.do(label, 9, produceOf(-1, on(t, p, newBatch(recs(n)...).producer(pid, epoch, first).bytes())))
}

var idempotenceScripts = []Script{
	{"InitProducerId/all-versions", func(s *S) {
		s.newProducer() // Kafka fetches its first block of ids lazily
		s.each("init", 0, 5, func(int16) kmsg.Request { return initProducerOf(nil, 60000, -1, -1) })
	}},
	{"InitProducerId/empty-transactional-id", func(s *S) {
		s.each("init", 0, 5, func(int16) kmsg.Request { return initProducerOf(ptr(""), 60000, -1, -1) })
	}},
	{"InitProducerId/with-id-and-epoch", func(s *S) {
		id := s.newProducer()
		for _, v := range []int16{3, 4, 5} {
			s.do("its own", v, initProducerOf(nil, 60000, id, 0))
			s.do("a foreign one", v, initProducerOf(nil, 60000, madeUp+9, 3))
			s.do("id without epoch", v, initProducerOf(nil, 60000, id, -1))
			s.do("epoch without id", v, initProducerOf(nil, 60000, -1, 4))
			s.do("last epoch", v, initProducerOf(nil, 60000, id, 32767))
		}
	}},
	{"InitProducerId/odd-timeouts", func(s *S) {
		s.newProducer()
		for _, ms := range []int32{0, -1, math.MaxInt32} {
			s.do(fmt.Sprintf("timeout %d", ms), 4, initProducerOf(nil, ms, -1, -1))
		}
	}},
	{"Idempotence/in-order", func(s *S) {
		t := s.create("t", 1)
		id := s.newProducer()
		for i := range int32(8) {
			s.seq(fmt.Sprintf("batch %d", i), t, 0, id, 0, i*2, 2)
		}
		s.look(t, 0)
	}},
	{"Idempotence/duplicates", func(s *S) {
		t := s.create("t", 1)
		s.seq("first", t, 0, pid1, 0, 0, 3)
		s.seq("again", t, 0, pid1, 0, 0, 3)
		s.each("again", 3, 13, func(int16) kmsg.Request {
			return produceOf(-1, on(t, 0, newBatch(recs(3)...).producer(pid1, 0, 0).bytes()))
		})
		s.seq("next", t, 0, pid1, 0, 3, 2)
		s.seq("first again", t, 0, pid1, 0, 0, 3)
		s.look(t, 0)
	}},
	{"Idempotence/duplicate-with-other-content", func(s *S) {
		t := s.create("t", 1)
		s.seq("first", t, 0, pid1, 0, 0, 3)
		s.do("other records", 9, produceOf(-1, on(t, 0, newBatch(kv("x", "y"), kv("z", "z"), kv("q", "r")).producer(pid1, 0, 0).bytes())))
		s.seq("fewer", t, 0, pid1, 0, 0, 2)
		s.seq("more", t, 0, pid1, 0, 0, 4)
		s.seq("inside", t, 0, pid1, 0, 1, 1)
		s.seq("overlapping", t, 0, pid1, 0, 2, 3)
		s.look(t, 0)
	}},
	{"Idempotence/window-of-five", func(s *S) {
		t := s.create("t", 1)
		for i := range int32(7) {
			s.seq(fmt.Sprintf("batch %d", i), t, 0, pid1, 0, i, 1)
		}
		for i := range int32(7) {
			s.seq(fmt.Sprintf("batch %d again", i), t, 0, pid1, 0, i, 1)
		}
		s.look(t, 0)
	}},
	{"Idempotence/gaps", func(s *S) {
		t := s.create("t", 1)
		s.seq("first", t, 0, pid1, 0, 0, 2)
		s.seq("one too far", t, 0, pid1, 0, 3, 1)
		s.each("far too far", 3, 13, func(int16) kmsg.Request {
			return produceOf(-1, on(t, 0, newBatch(recs(1)...).producer(pid1, 0, 100).bytes()))
		})
		s.seq("right", t, 0, pid1, 0, 2, 1)
		s.seq("too far with acks 1", t, 0, pid1, 0, 9, 1)
		s.silent("too far with acks 0", 9, produceOf(0, on(t, 0, newBatch(recs(1)...).producer(pid1, 0, 100).bytes())))
		s.look(t, 0)
	}},
	{"Idempotence/no-state-takes-any-sequence", func(s *S) {
		t := s.create("t", 2)
		s.seq("at 50", t, 0, pid1, 0, 50, 2)
		s.seq("next", t, 0, pid1, 0, 52, 2)
		s.seq("before", t, 0, pid1, 0, 0, 1)
		s.seq("other partition", t, 1, pid1, 4, 7, 1)
		s.look(t, 0)
	}},
	{"Idempotence/epochs", func(s *S) {
		t := s.create("t", 1)
		s.seq("epoch 1", t, 0, pid1, 1, 0, 1)
		s.seq("epoch 0", t, 0, pid1, 0, 1, 1)
		s.each("epoch 0", 3, 13, func(int16) kmsg.Request {
			return produceOf(-1, on(t, 0, newBatch(recs(1)...).producer(pid1, 0, 1).bytes()))
		})
		s.seq("epoch 2 at 1", t, 0, pid1, 2, 1, 1)
		s.seq("epoch 2 at 0", t, 0, pid1, 2, 0, 1)
		s.seq("epoch 1 again", t, 0, pid1, 1, 0, 1)
		s.seq("epoch 2 at 1", t, 0, pid1, 2, 1, 1)
		s.seq("epoch 32767", t, 0, pid1, 32767, 0, 1)
		s.seq("epoch 3", t, 0, pid1, 3, 0, 1)
		s.look(t, 0)
	}},
	{"Idempotence/negative-epoch", func(s *S) {
		t := s.create("t", 1)
		s.seq("no epoch", t, 0, pid1, -1, 0, 1)
		s.seq("epoch -5", t, 0, pid1, -5, 0, 1)
		s.look(t, 0)
	}},
	{"Idempotence/sequence-wraps", func(s *S) {
		t := s.create("t", 1)
		s.seq("last", t, 0, pid1, 0, math.MaxInt32, 1)
		s.seq("wrapped to 0", t, 0, pid1, 0, 0, 1)
		s.seq("next", t, 0, pid1, 0, 1, 1)
		s.seq("last again", t, 0, pid1, 0, math.MaxInt32, 1)
		s.look(t, 0)
	}},
	{"Idempotence/sequence-wraps-inside", func(s *S) {
		t := s.create("t", 1)
		s.seq("over the end", t, 0, pid1, 0, math.MaxInt32-1, 4)
		s.seq("again", t, 0, pid1, 0, math.MaxInt32-1, 4)
		s.seq("wrong", t, 0, pid1, 0, 3, 1)
		s.seq("next", t, 0, pid1, 0, 2, 1)
		s.look(t, 0)
	}},
	{"Idempotence/id-without-sequence", func(s *S) {
		t := s.create("t", 1)
		s.tryProduce(t, 0, newBatch(recs(1)...).producer(pid1, 0, -1).bytes())
		s.tryProduce(t, 0, newBatch(recs(1)...).producer(pid1, 0, -2).bytes())
		s.look(t, 0)
	}},
	{"Idempotence/sequence-without-id", func(s *S) {
		t := s.create("t", 1)
		s.tryProduce(t, 0, newBatch(recs(1)...).producer(-1, 3, 5).bytes())
		s.tryProduce(t, 0, newBatch(recs(1)...).producer(-1, -1, 5).bytes())
		s.tryProduce(t, 0, newBatch(recs(1)...).producer(-2, 0, 0).bytes())
		s.look(t, 0)
	}},
	{"Idempotence/two-producers", func(s *S) {
		t := s.create("t", 2)
		for i := range int32(3) {
			for p := range int32(2) {
				s.seq(fmt.Sprintf("a %d", i), t, p, pid1, 0, i, 1)
				s.seq(fmt.Sprintf("b %d", i), t, p, pid1+1, 0, i, 1)
			}
		}
		s.seq("a again", t, 0, pid1, 0, 1, 1)
		s.look(t, 0)
		s.look(t, 1)
	}},
	{"Idempotence/partition-twice", func(s *S) {
		t := s.create("t", 1)
		one, two := newBatch(recs(1)...).producer(pid1, 0, 0).bytes(), newBatch(recs(1)...).producer(pid1, 0, 1).bytes()
		s.do("both", 9, produceOf(-1, on(t, 0, one), on(t, 0, two)))
		s.look(t, 0)
	}},
	{"Idempotence/plain-between", func(s *S) {
		t := s.create("t", 1)
		s.seq("first", t, 0, pid1, 0, 0, 1)
		s.put(t, 0, newBatch(recs(3)...))
		s.seq("second", t, 0, pid1, 0, 1, 1)
		s.seq("first again", t, 0, pid1, 0, 0, 1)
		s.look(t, 0)
	}},
	{"Idempotence/rejected-batch-leaves-no-state", func(s *S) {
		t := s.create("t", 1, "cleanup.policy", "compact")
		s.do("no key", 9, produceOf(-1, on(t, 0, newBatch(val("x")).producer(pid1, 0, 0).bytes())))
		s.seq("any", t, 0, pid1, 0, 30, 1)
		s.do("no key", 9, produceOf(-1, on(t, 0, newBatch(val("x")).producer(pid1, 0, 31).bytes())))
		s.seq("next", t, 0, pid1, 0, 31, 1)
		s.look(t, 0)
	}},
	{"Idempotence/append-time-duplicates", func(s *S) {
		t := s.create("t", 1, "message.timestamp.type", "LogAppendTime")
		s.seq("first", t, 0, pid1, 0, 0, 2)
		s.seq("again", t, 0, pid1, 0, 0, 2)
		s.look(t, 0)
	}},
	{"Idempotence/compressed-duplicates", func(s *S) {
		t := s.create("t", 1, "compression.type", "lz4")
		b := newBatch(recs(5)...).producer(pid1, 0, 0).codec(gzipped).bytes()
		s.do("first", 9, produceOf(-1, on(t, 0, b)))
		s.do("again", 9, produceOf(-1, on(t, 0, b)))
		s.look(t, 0)
	}},
	{"Idempotence/after-delete-records", func(s *S) {
		t := s.create("t", 1)
		for i := range int32(3) {
			s.seq(fmt.Sprintf("batch %d", i), t, 0, pid1, 0, i, 1)
		}
		s.cut(t, 0, 3)
		s.seq("duplicate of a deleted one", t, 0, pid1, 0, 1, 1)
		s.seq("gap", t, 0, pid1, 0, 7, 1)
		s.seq("next", t, 0, pid1, 0, 3, 1)
		s.do("producers", 0, producersOf(t, 0))
	}},
	{"Idempotence/deleted-topic-forgets", func(s *S) {
		t := s.create("t", 1)
		s.seq("first", t, 0, pid1, 5, 10, 1)
		s.drop(t)
		t = s.create("t", 1)
		s.seq("epoch 0, sequence 77", t, 0, pid1, 0, 77, 1)
		s.look(t, 0)
	}},
	{"DescribeProducers/all", func(s *S) {
		t := s.create("t", 2)
		s.do("nobody", 0, producersOf(t, 0))
		s.seq("a", t, 0, pid1, 3, 0, 5)
		s.seq("b", t, 0, pid1+1, 0, 9, 1)
		s.seq("wrap", t, 0, pid1+2, 0, math.MaxInt32, 2)
		s.put(t, 0, newBatch(recs(2)...))
		s.do("three", 0, producersOf(t, 0))
		s.do("other partition", 0, producersOf(t, 1))
		s.do("both", 0, producersOf(t, 0, 1))
		s.do("twice", 0, producersOf(t, 0, 0))
		s.do("unknown partition", 0, producersOf(t, 0, 7))
		s.do("negative partition", 0, producersOf(t, -1))
		s.do("unknown topic", 0, producersOf(s.unknownTopic(), 0))
		s.do("no partitions", 0, producersOf(t))
		s.do("bad name", 0, producersOf(topic{name: "a b"}, 0))
		s.do("nothing", 0, kmsg.NewPtrDescribeProducersRequest())
	}},
}

func producersOf(t topic, ps ...int32) *kmsg.DescribeProducersRequest {
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = t.name, ps
	req.Topics = append(req.Topics, rt)
	return req
}
