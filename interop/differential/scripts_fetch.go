package differential

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill appends n one-record batches.
func (s *S) fill(t topic, p int32, n int) {
	for i := range n {
		s.put(t, p, newBatch(kv(fmt.Sprint(i), "value")).with(func(b *batch) { b.baseTs += int64(i) * 100 }))
	}
}

// batchSize is the size of a batch of fill.
var batchSize = int32(len(newBatch(kv("0", "value")).bytes()))

var fetchScripts = []Script{
	{"Fetch/all-versions", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(3)...))
		s.put(t, 0, newBatch(recs(2)...).codec(lz4d))
		s.each("fetch", 4, 18, func(int16) kmsg.Request { return fetchOf(from(t, 0, 0)) })
		s.each("from the second batch", 4, 18, func(int16) kmsg.Request { return fetchOf(from(t, 0, 3)) })
	}},
	{"Fetch/all-codecs", func(s *S) {
		t := s.create("t", 1)
		for c := int16(0); c <= 4; c++ {
			s.put(t, 0, newBatch(recs(10)...).codec(c))
		}
		s.each("fetch", 4, 18, func(int16) kmsg.Request { return fetchOf(from(t, 0, 0)) })
	}},
	{"Fetch/offsets", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(4)...))
		s.put(t, 0, newBatch(recs(4)...))
		for _, o := range []int64{0, 1, 3, 4, 7, 8, 9, 1000, -1, -2, -9223372036854775808, 9223372036854775807} {
			s.do(fmt.Sprintf("offset %d", o), 4, fetchOf(from(t, 0, o)))
			s.do(fmt.Sprintf("offset %d", o), 17, fetchOf(from(t, 0, o)))
		}
	}},
	{"Fetch/below-log-start", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(4)...))
		s.put(t, 0, newBatch(recs(4)...))
		s.cut(t, 0, 2)
		for _, o := range []int64{0, 1, 2, 3, 5} {
			s.each(fmt.Sprintf("offset %d", o), 11, 13, func(int16) kmsg.Request { return fetchOf(from(t, 0, o)) })
		}
		s.cut(t, 0, -1)
		for _, o := range []int64{2, 7, 8, 9} {
			s.do(fmt.Sprintf("all deleted, offset %d", o), 12, fetchOf(from(t, 0, o)))
		}
	}},
	{"Fetch/empty-partition", func(s *S) {
		t := s.create("t", 1)
		s.each("at 0", 4, 18, func(int16) kmsg.Request { return fetchOf(from(t, 0, 0)) })
		s.do("at 1", 12, fetchOf(from(t, 0, 1)))
	}},
	{"Fetch/unknown", func(s *S) {
		t := s.create("t", 1)
		for v := int16(4); v <= 18; v++ {
			s.do("topic", v, fetchOf(from(s.unknownTopic(), 0, 0)))
			s.do("partition", v, fetchOf(from(t, 5, 0)))
			s.do("negative partition", v, fetchOf(from(t, -1, 0)))
		}
		s.do("zero id", 13, fetchOf(from(topic{}, 0, 0)))
		s.do("empty name", 12, fetchOf(from(topic{}, 0, 0)))
		s.do("bad name", 11, fetchOf(from(topic{name: "a b"}, 0, 0)))
	}},
	{"Fetch/unknown-and-known", func(s *S) {
		t := s.create("t", 2)
		s.fill(t, 0, 2)
		for _, v := range []int16{4, 11, 12, 13, 18} {
			s.do("mixed", v, fetchOf(from(t, 0, 0), from(t, 9, 0), from(s.unknownTopic(), 0, 0), from(t, 1, 0)))
			s.do("mixed, committed", v, committed(fetchOf(from(t, 0, 0), from(t, 9, 0), from(s.unknownTopic(), 0, 0))))
		}
	}},
	{"Fetch/unknown-does-not-wait", func(s *S) {
		start := time.Now()
		s.do("unknown", 12, waiting(fetchOf(from(s.unknownTopic(), 0, 0)), 5000, 1))
		s.do("unknown id", 13, waiting(fetchOf(from(s.unknownTopic(), 0, 0)), 5000, 1))
		s.note("at once", fmt.Sprint(time.Since(start) < 4*time.Second))
	}},
	{"Fetch/out-of-range-does-not-wait", func(s *S) {
		t := s.create("t", 2)
		start := time.Now()
		s.do("beyond", 12, waiting(fetchOf(from(t, 0, 7), from(t, 1, 0)), 5000, 1))
		s.do("no partitions", 12, waiting(fetchOf(), 5000, 1))
		s.note("at once", fmt.Sprint(time.Since(start) < 4*time.Second))
	}},
	{"Fetch/waits-when-empty", func(s *S) {
		t := s.create("t", 1)
		start := time.Now()
		s.do("half a second", 12, waiting(fetchOf(from(t, 0, 0)), 500, 1))
		s.note("waited", fmt.Sprint(time.Since(start) >= 480*time.Millisecond))
	}},
	{"Fetch/empty-and-unknown-wait", func(s *S) {
		t := s.create("t", 1)
		start := time.Now()
		s.do("by name", 12, waiting(fetchOf(from(t, 0, 0), from(s.unknownTopic(), 0, 0)), 500, 1))
		s.do("by id", 13, waiting(fetchOf(from(t, 0, 0), from(s.unknownTopic(), 0, 0)), 500, 1))
		s.note("waited", fmt.Sprint(time.Since(start) >= 960*time.Millisecond))
	}},
	{"Fetch/woken-by-produce", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		start := time.Now()
		req := waiting(fetchOf(from(t, 0, 1)), 8000, 1)
		req.SetVersion(12)
		c := s.connected()
		c.write(c.request(req, header{key: 1, version: 12, flexible: true}))
		s.put(t, 0, newBatch(recs(2)...))
		s.receive(answerLimit, "fetch", req, c.corr)
		s.note("early", fmt.Sprint(time.Since(start) < 7*time.Second))
	}},
	{"Fetch/woken-by-enough-bytes-only", func(s *S) {
		t := s.create("t", 1)
		start := time.Now()
		req := waiting(fetchOf(from(t, 0, 0)), 8000, batchSize+1)
		req.SetVersion(12)
		c := s.connected()
		c.write(c.request(req, header{key: 1, version: 12, flexible: true}))
		s.fill(t, 0, 2)
		s.receive(answerLimit, "fetch", req, c.corr)
		s.note("early", fmt.Sprint(time.Since(start) < 7*time.Second))
	}},
	{"Fetch/min-bytes", func(s *S) {
		t := s.create("t", 2)
		s.fill(t, 0, 2)
		s.fill(t, 1, 1)
		start := time.Now()
		s.do("three batches", 12, waiting(fetchOf(from(t, 0, 0), from(t, 1, 0)), 5000, 3*batchSize))
		s.do("zero", 12, waiting(fetchOf(from(t, 0, 2)), 5000, 0))
		s.do("negative", 12, waiting(fetchOf(from(t, 0, 2)), 5000, -1))
		s.do("more than max", 12, sized(waiting(fetchOf(from(t, 0, 0)), 5000, 1<<30), batchSize))
		s.note("at once", fmt.Sprint(time.Since(start) < 4*time.Second))
		s.do("too much", 12, waiting(fetchOf(from(t, 0, 0)), 300, 1<<20))
	}},
	{"Fetch/max-wait-odd", func(s *S) {
		t := s.create("t", 1)
		s.do("zero", 12, waiting(fetchOf(from(t, 0, 0)), 0, 1))
		s.do("negative", 12, waiting(fetchOf(from(t, 0, 0)), -1, 1))
	}},
	{"Fetch/partition-max-bytes", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 4)
		for _, n := range []int32{0, 1, -1, batchSize - 1, batchSize, batchSize + 1, 2*batchSize - 1, 2 * batchSize, 3*batchSize + 7, 1 << 30} {
			for _, v := range []int16{4, 12, 17} {
				s.do(fmt.Sprintf("limit %d", n), v, fetchOf(from(t, 0, 0).limit(n)))
			}
			s.do(fmt.Sprintf("from 1, limit %d", n), 12, fetchOf(from(t, 0, 1).limit(n)))
		}
	}},
	{"Fetch/max-bytes", func(s *S) {
		t := s.create("t", 3)
		for p := range int32(3) {
			s.fill(t, p, 3)
		}
		for _, n := range []int32{0, 1, -1, batchSize, batchSize + 5, 2*batchSize + 1, 3 * batchSize, 4 * batchSize, 5*batchSize - 1, 100 * batchSize} {
			s.do(fmt.Sprintf("limit %d", n), 12, sized(fetchOf(from(t, 0, 0), from(t, 1, 0), from(t, 2, 0)), n))
			s.do(fmt.Sprintf("limit %d, two each", n), 12, sized(fetchOf(from(t, 0, 0).limit(2*batchSize), from(t, 1, 0).limit(2*batchSize)), n))
		}
	}},
	{"Fetch/first-batch-is-whole", func(s *S) {
		t := s.create("t", 3)
		big := newBatch(kv("k", strings.Repeat("v", 10000)))
		for p := range int32(3) {
			s.put(t, p, big)
			s.put(t, p, newBatch(recs(1)...))
		}
		s.do("first small limit", 12, fetchOf(from(t, 0, 0).limit(10), from(t, 1, 0).limit(10), from(t, 2, 0).limit(10)))
		s.do("second small limit", 12, fetchOf(from(t, 0, 0), from(t, 1, 0).limit(10), from(t, 2, 0)))
		s.do("small total", 12, sized(fetchOf(from(t, 0, 0), from(t, 1, 0)), 100))
		s.do("first is empty", 12, sized(fetchOf(from(t, 0, 2), from(t, 1, 0), from(t, 2, 0)), 100))
		s.do("first is unknown", 12, sized(fetchOf(from(t, 9, 2), from(t, 1, 0), from(t, 2, 0)), 100))
		s.do("first is out of range", 12, sized(fetchOf(from(t, 0, 9), from(t, 1, 0), from(t, 2, 0)), 100))
		s.do("limit 0", 12, fetchOf(from(t, 0, 0).limit(0), from(t, 1, 0).limit(0)))
	}},
	{"Fetch/partition-twice", func(s *S) {
		t, u := s.create("t", 2), s.create("u", 1)
		s.fill(t, 0, 3)
		s.fill(u, 0, 1)
		for _, v := range []int16{4, 11, 12, 13} {
			s.do("twice", v, fetchOf(from(t, 0, 0), from(t, 0, 2)))
			s.do("topic twice", v, fetchOf(from(t, 0, 0), from(u, 0, 0), from(t, 1, 0)))
		}
	}},
	{"Fetch/isolation", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 2)
		s.each("committed", 4, 18, func(int16) kmsg.Request { return committed(fetchOf(from(t, 0, 0))) })
		for _, level := range []int8{2, -1, 127} {
			req := fetchOf(from(t, 0, 0))
			req.IsolationLevel = level
			s.do(fmt.Sprintf("level %d", level), 12, req)
		}
		s.do("committed at the end", 12, committed(fetchOf(from(t, 0, 2))))
		s.do("committed out of range", 12, committed(fetchOf(from(t, 0, 5))))
		s.do("committed, unknown partition", 12, committed(fetchOf(from(t, 4, 5))))
	}},
	{"Fetch/leader-epochs", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 2)
		for _, e := range []int32{-1, 0, 1, 5, -2, 2147483647} {
			for _, v := range []int16{9, 11, 12, 13, 16, 18} {
				s.do(fmt.Sprintf("epoch %d", e), v, fetchOf(from(t, 0, 0).epochs(e, -1)))
			}
		}
	}},
	{"Fetch/last-fetched-epoch", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 2)
		for _, e := range []int32{-1, 0, 1, 5, -2} {
			for _, o := range []int64{0, 1, 2, 3, 100} {
				s.do(fmt.Sprintf("epoch %d at %d", e, o), 12, fetchOf(from(t, 0, o).epochs(-1, e)))
				s.do(fmt.Sprintf("epoch %d at %d", e, o), 17, fetchOf(from(t, 0, o).epochs(0, e)))
			}
		}
	}},
	{"Fetch/diverging-does-not-wait", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 2)
		start := time.Now()
		s.do("beyond the end", 12, waiting(fetchOf(from(t, 0, 50).epochs(-1, 0)), 5000, 1))
		s.note("at once", fmt.Sprint(time.Since(start) < 4*time.Second))
	}},
	{"Fetch/by-stale-id", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		s.drop(t)
		s.do("deleted, by id", 13, fetchOf(from(t, 0, 0)))
		s.do("deleted, by name", 12, fetchOf(from(t, 0, 0)))
		again := s.create("t", 1)
		s.fill(again, 0, 2)
		s.do("old id", 13, fetchOf(from(t, 0, 0)))
		s.do("new id", 13, fetchOf(from(again, 0, 0)))
		s.do("both", 18, fetchOf(from(t, 0, 0), from(again, 0, 0)))
	}},
	{"Fetch/log-start-offset-given", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 2)
		f := from(t, 0, 0)
		f.logStart = 5
		s.do("consumer", 12, fetchOf(f))
	}},
	{"Fetch/rack", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		req := fetchOf(from(t, 0, 0))
		req.Rack = "somewhere"
		s.do("with rack", 11, req)
		s.do("with rack", 18, req)
	}},
	{"Fetch/across-segments", func(s *S) {
		t := s.create("t", 1, "segment.bytes", "1048576")
		for i := range 5 {
			s.put(t, 0, newBatch(kv(fmt.Sprint(i), strings.Repeat("x", 400000))))
		}
		for o := range int64(6) {
			s.do(fmt.Sprintf("from %d", o), 12, fetchOf(from(t, 0, o).limit(2000000)))
		}
	}},
	{"Fetch/after-batch-cut-by-delete-records", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(10)...).codec(gzipped))
		s.cut(t, 0, 6)
		s.do("from log start", 12, fetchOf(from(t, 0, 6)))
		s.do("earliest", 4, listOf(at(t, 0, -2)))
	}},
	{"Fetch/as-replica", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		for _, id := range []int32{-2, 0, 1, 99} {
			req := fetchOf(from(t, 0, 0))
			req.ReplicaID = id
			s.do(fmt.Sprintf("replica %d", id), 12, req)
		}
	}},
}

var fetchSessionScripts = []Script{
	{"FetchSession/create-and-continue", func(s *S) {
		for _, v := range []int16{7, 11, 12, 13, 18} {
			s.label = fmt.Sprintf("in v%d: ", v)
			t := s.create(fmt.Sprintf("t%d", v), 2)
			s.fill(t, 0, 2)
			id := s.open(v, fetchOf(from(t, 0, 0), from(t, 1, 0)))
			s.do("nothing new", v, session(fetchOf(from(t, 0, 2)), id, 1))
			s.fill(t, 1, 1)
			s.do("partition 1 has news", v, session(fetchOf(), id, 2))
			s.do("still there", v, session(fetchOf(), id, 3))
			s.do("moved on", v, session(fetchOf(from(t, 1, 1)), id, 4))
			s.do("rewound", v, session(fetchOf(from(t, 0, 1)), id, 5))
			s.do("closed", v, session(fetchOf(), id, -1))
			s.do("after close", v, session(fetchOf(), id, 6))
		}
	}},
	{"FetchSession/sessionless", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		s.each("epoch -1", 7, 18, func(int16) kmsg.Request { return session(fetchOf(from(t, 0, 0)), 0, -1) })
	}},
	{"FetchSession/unknown-id", func(s *S) {
		t := s.create("t", 1)
		for _, v := range []int16{7, 12, 13, 18} {
			s.do("next epoch", v, session(fetchOf(from(t, 0, 0)), 12345, 1))
			s.do("close", v, session(fetchOf(from(t, 0, 0)), 12345, -1))
			s.do("full with an id", v, session(fetchOf(from(t, 0, 0)), 12345, 0))
			s.do("negative id", v, session(fetchOf(from(t, 0, 0)), -7, 1))
			s.do("id 0, epoch 1", v, session(fetchOf(from(t, 0, 0)), 0, 1))
			s.do("id 0, epoch -5", v, session(fetchOf(from(t, 0, 0)), 0, -5))
		}
	}},
	{"FetchSession/wrong-epoch", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		for _, v := range []int16{7, 12, 18} {
			id := s.open(v, fetchOf(from(t, 0, 0)))
			s.do("epoch 2 before 1", v, session(fetchOf(), id, 2))
			s.do("epoch 1", v, session(fetchOf(), id, 1))
			s.do("epoch 1 again", v, session(fetchOf(), id, 1))
			s.do("epoch 2", v, session(fetchOf(), id, 2))
			s.do("epoch -7", v, session(fetchOf(), id, -7))
		}
	}},
	{"FetchSession/replaced", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		id := s.open(12, fetchOf(from(t, 0, 0)))
		resp := s.do("full request with the old id", 12, session(fetchOf(from(t, 0, 0)), id, 0))
		if r, ok := resp.(*kmsg.FetchResponse); ok {
			s.note("another id", fmt.Sprint(r.SessionID != id))
			s.do("new one", 12, session(fetchOf(), r.SessionID, 1))
		}
		s.do("old one", 12, session(fetchOf(), id, 1))
	}},
	{"FetchSession/forget", func(s *S) {
		for _, v := range []int16{7, 12, 13} {
			s.label = fmt.Sprintf("in v%d: ", v)
			t := s.create(fmt.Sprintf("t%d", v), 3)
			for p := range int32(3) {
				s.fill(t, p, 1)
			}
			id := s.open(v, fetchOf(from(t, 0, 0), from(t, 1, 0), from(t, 2, 0)))
			s.do("forget 1", v, session(fetchOf(), id, 1, from(t, 1, 0)))
			s.do("forget it again", v, session(fetchOf(), id, 2, from(t, 1, 0)))
			s.do("forget and add", v, session(fetchOf(from(t, 0, 0)), id, 3, from(t, 0, 0)))
			s.do("forget unknown", v, session(fetchOf(), id, 4, from(s.unknownTopic(), 0, 0)))
			s.do("forget all", v, session(fetchOf(), id, 5, from(t, 0, 0), from(t, 1, 0), from(t, 2, 0)))
			s.do("after all", v, session(fetchOf(), id, 6))
		}
	}},
	{"FetchSession/empty-full-request", func(s *S) {
		for _, v := range []int16{7, 12, 13} {
			s.do("open with nothing", v, session(fetchOf(), 0, 0))
		}
	}},
	{"FetchSession/adds-unknown", func(s *S) {
		for _, v := range []int16{7, 12, 13} {
			s.label = fmt.Sprintf("in v%d: ", v)
			t := s.create(fmt.Sprintf("t%d", v), 1)
			s.fill(t, 0, 1)
			id := s.open(v, fetchOf(from(t, 0, 1)))
			s.do("unknown topic", v, session(fetchOf(from(s.unknownTopic(), 0, 0)), id, 1))
			s.do("again", v, session(fetchOf(), id, 2))
			s.do("unknown partition", v, session(fetchOf(from(t, 7, 0)), id, 3))
			s.do("again", v, session(fetchOf(), id, 4))
		}
	}},
	{"FetchSession/unknown-from-the-start", func(s *S) {
		for _, v := range []int16{7, 12, 13} {
			s.label = fmt.Sprintf("in v%d: ", v)
			id := s.open(v, fetchOf(from(s.unknownTopic(), 0, 0)))
			s.do("again", v, session(fetchOf(), id, 1))
		}
	}},
	{"FetchSession/deleted-topic", func(s *S) {
		for _, v := range []int16{12, 13} {
			s.label = fmt.Sprintf("in v%d: ", v)
			t := s.create(fmt.Sprintf("t%d", v), 1)
			keep := s.create(fmt.Sprintf("keep%d", v), 1)
			s.fill(t, 0, 1)
			id := s.open(v, fetchOf(from(t, 0, 0), from(keep, 0, 0)))
			s.drop(t)
			s.do("deleted", v, session(fetchOf(), id, 1))
			again := s.create(fmt.Sprintf("t%d", v), 1)
			s.fill(again, 0, 1)
			s.do("created again", v, session(fetchOf(), id, 2))
			s.do("new id added", v, session(fetchOf(from(again, 0, 0)), id, 3))
		}
	}},
	{"FetchSession/versions-mixed", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		id := s.open(12, fetchOf(from(t, 0, 0)))
		s.do("opened by name, goes on by id", 13, session(fetchOf(from(t, 0, 1)), id, 1))
		id = s.open(13, fetchOf(from(t, 0, 0)))
		s.do("opened by id, goes on by name", 12, session(fetchOf(from(t, 0, 1)), id, 1))
		id = s.open(7, fetchOf(from(t, 0, 0)))
		s.do("opened in v7, goes on in v11", 11, session(fetchOf(from(t, 0, 1)), id, 1))
	}},
	{"FetchSession/errors-are-repeated", func(s *S) {
		t := s.create("t", 2)
		id := s.open(12, fetchOf(from(t, 0, 9), from(t, 1, 0)))
		s.do("again", 12, session(fetchOf(), id, 1))
		s.do("mended", 12, session(fetchOf(from(t, 0, 0)), id, 2))
		s.do("again", 12, session(fetchOf(), id, 3))
	}},
	{"FetchSession/log-start-and-end-moves-are-news", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 4)
		id := s.open(12, fetchOf(from(t, 0, 4)))
		s.do("nothing", 12, session(fetchOf(), id, 1))
		s.cut(t, 0, 2)
		s.do("log start moved", 12, session(fetchOf(), id, 2))
		s.do("nothing", 12, session(fetchOf(), id, 3))
	}},
	{"FetchSession/epochs-are-kept", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		id := s.open(12, fetchOf(from(t, 0, 1).epochs(0, -1)))
		s.do("nothing", 12, session(fetchOf(), id, 1))
		s.do("future epoch", 12, session(fetchOf(from(t, 0, 1).epochs(9, -1)), id, 2))
		s.do("again", 12, session(fetchOf(), id, 3))
	}},
	{"FetchSession/from-another-connection", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		id := s.open(12, fetchOf(from(t, 0, 0)))
		s.hangUp()
		s.do("goes on", 12, session(fetchOf(), id, 1))
	}},
	{"FetchSession/waits", func(s *S) {
		t := s.create("t", 1)
		s.fill(t, 0, 1)
		id := s.open(12, fetchOf(from(t, 0, 1)))
		start := time.Now()
		s.do("nothing new", 12, session(waiting(fetchOf(), 400, 1), id, 1))
		s.note("waited", fmt.Sprint(time.Since(start) >= 380*time.Millisecond))
	}},
}

// open records a full fetch that opens a session and returns the session id.
func (s *S) open(v int16, req *kmsg.FetchRequest) int32 {
	resp, ok := s.do("open", v, session(req, 0, 0)).(*kmsg.FetchResponse)
	if !ok {
		return 0
	}
	return resp.SessionID
}
