package differential

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ep is one partition of an OffsetForLeaderEpoch.
type ep struct {
	t              topic
	p              int32
	current, epoch int32
}

func epochOf(es ...ep) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	for i, e := range es {
		if i == 0 || es[i-1].t != e.t {
			t := kmsg.NewOffsetForLeaderEpochRequestTopic()
			t.Topic = e.t.name
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = e.p, e.current, e.epoch
		last := &req.Topics[len(req.Topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	return req
}

var listOffsetsScripts = []Script{
	{"ListOffsets/sentinels", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(5)...))
		s.cut(t, 0, 2)
		for _, ts := range []int64{-1, -2, -3, -4, -5, -6, -7, -100, math.MinInt64} {
			s.each(fmt.Sprintf("timestamp %d", ts), 1, 11, func(int16) kmsg.Request { return listOf(at(t, 0, ts)) })
		}
	}},
	{"ListOffsets/sentinels-when-empty", func(s *S) {
		t := s.create("t", 1)
		for _, ts := range []int64{-1, -2, -3, -4, -5, -6, 0, baseTime} {
			for _, v := range []int16{1, 6, 9, 11} {
				s.do(fmt.Sprintf("timestamp T%+d", ts), v, listOf(at(t, 0, ts)))
			}
		}
	}},
	{"ListOffsets/unknown", func(s *S) {
		t := s.create("t", 1)
		s.each("topic", 1, 11, func(int16) kmsg.Request { return listOf(latest(s.unknownTopic(), 0)) })
		s.each("partition", 1, 11, func(int16) kmsg.Request { return listOf(latest(t, 3), latest(t, -1), latest(t, 0)) })
		s.do("bad name", 6, listOf(latest(topic{name: "a b"}, 0)))
		s.do("empty name", 6, listOf(latest(topic{}, 0)))
	}},
	{"ListOffsets/by-time", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(5)...))
		s.put(t, 0, newBatch(recs(5)...).with(func(b *batch) { b.baseTs += 1000 }))
		for _, d := range []int64{-500, 0, 1, 9, 10, 39, 40, 41, 999, 1000, 1015, 1040, 1041, 5000} {
			s.do(fmt.Sprintf("T%+d", d), 1, listOf(at(t, 0, baseTime+d)))
			s.do(fmt.Sprintf("T%+d", d), 11, listOf(at(t, 0, baseTime+d)))
		}
		s.do("zero", 6, listOf(at(t, 0, 0)))
		s.do("largest", 6, listOf(at(t, 0, math.MaxInt64)))
	}},
	{"ListOffsets/by-time-in-compressed-batches", func(s *S) {
		t := s.create("t", 1)
		for c := int16(1); c <= 4; c++ {
			s.put(t, 0, newBatch(recs(10)...).codec(c).with(func(b *batch) { b.baseTs += int64(c) * 1000 }))
		}
		for _, d := range []int64{0, 1000, 1001, 1090, 1091, 2055, 3033, 4090, 4091} {
			s.do(fmt.Sprintf("T%+d", d), 6, listOf(at(t, 0, baseTime+d)))
		}
		s.do("max", 7, listOf(at(t, 0, -3)))
	}},
	{"ListOffsets/by-time-out-of-order", func(s *S) {
		t := s.create("t", 1)
		order := func(ts ...int64) *batch {
			var rs []rec
			for _, x := range ts {
				r := kv("k", "v")
				r.ts = x
				rs = append(rs, r)
			}
			return newBatch(rs...)
		}
		s.put(t, 0, order(500, 100, 300))
		s.put(t, 0, order(50, 900, 20))
		s.put(t, 0, order(0, 10, 800).codec(snappied))
		for _, d := range []int64{0, 1, 51, 101, 301, 501, 801, 900, 901} {
			s.do(fmt.Sprintf("T%+d", d), 6, listOf(at(t, 0, baseTime+d)))
		}
		s.do("max", 7, listOf(at(t, 0, -3)))
	}},
	{"ListOffsets/by-time-after-delete-records", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(5)...))
		s.put(t, 0, newBatch(recs(5)...).with(func(b *batch) { b.baseTs += 100 }))
		for _, cut := range []int64{2, 5, 7, 10} {
			s.cut(t, 0, cut)
			s.label = fmt.Sprintf("cut at %d ", cut)
			for _, d := range []int64{0, 25, 60, 125, 200} {
				s.do(fmt.Sprintf("T%+d", d), 6, listOf(at(t, 0, baseTime+d)))
			}
			s.do("max", 7, listOf(at(t, 0, -3)))
			s.do("earliest", 7, listOf(at(t, 0, -2)))
			s.do("latest", 7, listOf(at(t, 0, -1)))
			s.do("local", 8, listOf(at(t, 0, -4)))
		}
	}},
	{"ListOffsets/max-timestamp-ties", func(s *S) {
		t := s.create("t", 1)
		same := func(n int) *batch {
			b := newBatch(recs(n)...)
			for i := range b.recs {
				b.recs[i].ts = 7
			}
			return b
		}
		s.put(t, 0, same(3))
		s.put(t, 0, same(3).codec(gzipped))
		s.do("max", 7, listOf(at(t, 0, -3)))
		s.put(t, 0, newBatch(kv("k", "v")))
		s.do("max", 7, listOf(at(t, 0, -3)))
	}},
	{"ListOffsets/max-timestamp-last-in-batch", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(4)...))
		s.put(t, 0, newBatch(recs(2)...))
		s.do("max", 7, listOf(at(t, 0, -3)))
		s.put(t, 0, newBatch(recs(6)...).codec(zstded))
		s.do("max", 11, listOf(at(t, 0, -3)))
	}},
	{"ListOffsets/append-time", func(s *S) {
		t := s.create("t", 1, "message.timestamp.type", "LogAppendTime")
		s.put(t, 0, newBatch(recs(3)...))
		s.do("old", 6, listOf(at(t, 0, baseTime)))
		s.do("max", 7, listOf(at(t, 0, -3)))
		s.put(t, 0, newBatch(recs(3)...).codec(gzipped))
		s.do("old", 6, listOf(at(t, 0, 0)))
	}},
	{"ListOffsets/no-timestamps", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(kv("a", "b"), kv("c", "d")).with(func(b *batch) { b.baseTs = -1 }))
		for _, ts := range []int64{-1, -2, -3, 0, baseTime} {
			s.do(fmt.Sprintf("timestamp T%+d", ts), 7, listOf(at(t, 0, ts)))
		}
	}},
	{"ListOffsets/epochs", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(1)...))
		for _, e := range []int32{-1, 0, 1, 7, -2} {
			s.each(fmt.Sprintf("epoch %d", e), 4, 11, func(int16) kmsg.Request {
				return listOf(latest(t, 0).inEpoch(e), at(t, 0, -2).inEpoch(e))
			})
			s.do(fmt.Sprintf("epoch %d alone", e), 5, listOf(latest(t, 0).inEpoch(e)))
			s.do(fmt.Sprintf("epoch %d by time", e), 5, listOf(at(t, 0, baseTime).inEpoch(e)))
		}
	}},
	{"ListOffsets/duplicates", func(s *S) {
		t, u := s.create("t", 2), s.create("u", 1)
		s.put(t, 0, newBatch(recs(1)...))
		s.each("twice and another", 1, 11, func(int16) kmsg.Request {
			return listOf(latest(t, 0), at(t, 0, -2), latest(t, 1), latest(u, 0))
		})
		s.do("topic twice", 6, listOf(latest(t, 0), latest(u, 0), latest(t, 1)))
		s.do("partition twice over topic twice", 6, listOf(latest(t, 0), latest(u, 0), latest(t, 0)))
		s.do("unknown twice", 6, listOf(latest(s.unknownTopic(), 0), at(s.unknownTopic(), 0, -2)))
	}},
	{"ListOffsets/isolation", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(3)...))
		for _, level := range []int8{0, 1, 2, -1} {
			s.each(fmt.Sprintf("level %d", level), 2, 11, func(int16) kmsg.Request {
				req := listOf(latest(t, 0))
				req.IsolationLevel = level
				return req
			})
		}
	}},
	{"ListOffsets/as-replica", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(3)...))
		for _, id := range []int32{-2, -3, 1, 99} {
			req := listOf(latest(t, 0))
			req.ReplicaID = id
			s.do(fmt.Sprintf("replica %d", id), 6, req)
		}
	}},
	{"ListOffsets/nothing", func(s *S) {
		s.each("no topics", 1, 11, func(int16) kmsg.Request { return listOf() })
		t := s.create("t", 1)
		none := listOf(latest(t, 0))
		none.Topics[0].Partitions = nil
		s.do("no partitions", 6, none)
	}},
	{"ListOffsets/leader-epoch-of-answer", func(s *S) {
		t := s.create("t", 1)
		s.each("empty", 4, 11, func(int16) kmsg.Request { return listOf(latest(t, 0)) })
		s.put(t, 0, newBatch(recs(3)...))
		s.each("by time", 4, 11, func(int16) kmsg.Request { return listOf(at(t, 0, baseTime)) })
		s.each("none by time", 4, 11, func(int16) kmsg.Request { return listOf(at(t, 0, baseTime+999999)) })
	}},
}

var epochScripts = []Script{
	{"OffsetForLeaderEpoch/epochs", func(s *S) {
		t := s.create("t", 1)
		s.do("empty", 4, epochOf(ep{t, 0, -1, 0}))
		s.put(t, 0, newBatch(recs(3)...))
		for _, e := range []int32{0, 1, 5, -1, -2, math.MaxInt32} {
			s.each(fmt.Sprintf("epoch %d", e), 2, 4, func(int16) kmsg.Request { return epochOf(ep{t, 0, -1, e}) })
		}
	}},
	{"OffsetForLeaderEpoch/current-epochs", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(3)...))
		for _, e := range []int32{-1, 0, 1, 9, -2} {
			s.each(fmt.Sprintf("current %d", e), 2, 4, func(int16) kmsg.Request { return epochOf(ep{t, 0, e, 0}) })
		}
	}},
	{"OffsetForLeaderEpoch/unknown", func(s *S) {
		t := s.create("t", 1)
		s.each("topic", 2, 4, func(int16) kmsg.Request { return epochOf(ep{s.unknownTopic(), 0, -1, 0}) })
		s.each("partition", 2, 4, func(int16) kmsg.Request { return epochOf(ep{t, 4, -1, 0}, ep{t, 0, -1, 0}, ep{t, -1, 0, 0}) })
		s.do("nothing", 4, epochOf())
		s.do("bad name", 4, epochOf(ep{topic{name: "a b"}, 0, -1, 0}))
	}},
	{"OffsetForLeaderEpoch/after-delete-records", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(3)...))
		s.cut(t, 0, 2)
		s.do("epoch 0", 4, epochOf(ep{t, 0, -1, 0}))
		s.cut(t, 0, 3)
		s.do("epoch 0, nothing left", 4, epochOf(ep{t, 0, -1, 0}))
		s.do("epoch 1", 4, epochOf(ep{t, 0, -1, 1}))
	}},
	{"OffsetForLeaderEpoch/duplicates", func(s *S) {
		t, u := s.create("t", 1), s.create("u", 1)
		s.do("twice", 4, epochOf(ep{t, 0, -1, 0}, ep{t, 0, -1, 9}))
		s.do("topic twice", 4, epochOf(ep{t, 0, -1, 0}, ep{u, 0, -1, 0}, ep{t, 0, -1, 1}))
	}},
	{"OffsetForLeaderEpoch/as-replica", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(3)...))
		for _, id := range []int32{-2, 0, 1, 99} {
			req := epochOf(ep{t, 0, -1, 0})
			req.ReplicaID = id
			s.do(fmt.Sprintf("replica %d", id), 4, req)
		}
	}},
}
