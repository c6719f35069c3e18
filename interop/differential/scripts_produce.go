package differential

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// look records what a partition holds and its offsets.
func (s *S) look(t topic, p int32) {
	s.do("read", 12, fetchOf(from(t, p, 0)))
	s.do("end", 4, listOf(latest(t, p)))
}

// tryProduce produces one batch in a version without and in one with record errors.
func (s *S) tryProduce(t topic, p int32, b []byte) {
	s.do("produce", 7, produceOf(-1, on(t, p, b)))
	s.do("produce", 9, produceOf(-1, on(t, p, b)))
}

var produceScripts = []Script{
	{"Produce/all-versions", func(s *S) {
		t := s.create("t", 1)
		s.each("produce", 3, 13, func(v int16) kmsg.Request {
			return produceOf(-1, on(t, 0, newBatch(recs(3)...).bytes()))
		})
		s.look(t, 0)
	}},
	{"Produce/acks", func(s *S) {
		t := s.create("t", 1)
		b := newBatch(kv("a", "b")).bytes()
		for _, acks := range []int16{1, -1, 2, -2, 100, 32767} {
			s.label = fmt.Sprintf("acks %d ", acks)
			s.do("produce", 3, produceOf(acks, on(t, 0, b)))
			s.do("produce", 8, produceOf(acks, on(t, 0, b)))
			s.do("produce", 13, produceOf(acks, on(t, 0, b)))
		}
		s.label = ""
		s.look(t, 0)
	}},
	{"Produce/acks-0", func(s *S) {
		t := s.create("t", 1)
		for _, v := range []int16{3, 7, 9, 12, 13} {
			s.silent("produce", v, produceOf(0, on(t, 0, newBatch(kv("a", "b")).bytes())))
		}
		s.awaitEnd(t, 0, 5)
		s.look(t, 0)
	}},
	{"Produce/acks-0-errors", func(s *S) {
		t := s.create("t", 1)
		bad := newBatch(kv("a", "b")).with(func(b *batch) { b.badCRC = true }).bytes()
		s.silent("unknown topic", 7, produceOf(0, on(s.unknownTopic(), 0, newBatch(kv("a", "b")).bytes())))
		s.silent("unknown id", 13, produceOf(0, on(s.unknownTopic(), 0, newBatch(kv("a", "b")).bytes())))
		s.silent("unknown partition", 7, produceOf(0, on(t, 9, newBatch(kv("a", "b")).bytes())))
		s.silent("bad crc", 9, produceOf(0, on(t, 0, bad)))
		s.silent("good and bad", 9, produceOf(0, on(t, 0, newBatch(kv("a", "b")).bytes()), on(t, 1, bad)))
		s.awaitEnd(t, 0, 1)
		s.look(t, 0)
	}},
	{"Produce/acks-0-no-topics", func(s *S) {
		s.silent("produce", 9, produceOf(0))
	}},
	{"Produce/unknown", func(s *S) {
		t := s.create("t", 1)
		b := newBatch(kv("a", "b")).bytes()
		for v := int16(3); v <= 13; v++ {
			s.do("topic", v, produceOf(-1, on(s.unknownTopic(), 0, b)))
			s.do("partition", v, produceOf(-1, on(t, 1, b)))
			s.do("negative partition", v, produceOf(-1, on(t, -1, b)))
		}
		s.do("zero id", 13, produceOf(-1, on(topic{name: "x"}, 0, b)))
	}},
	{"Produce/unknown-is-not-created", func(s *S) {
		s.do("produce", 9, produceOf(-1, on(s.unknownTopic(), 0, newBatch(kv("a", "b")).bytes())))
		s.do("metadata", 9, metadataOf(s.unknownTopic().name))
	}},
	{"Produce/invalid-topic-names", func(s *S) {
		b := newBatch(kv("a", "b")).bytes()
		for i, name := range badNames {
			s.label = fmt.Sprintf("name %d ", i)
			s.do("produce", 7, produceOf(-1, on(topic{name: name}, 0, b)))
			s.do("produce", 12, produceOf(-1, on(topic{name: name}, 0, b)))
		}
	}},
	{"Produce/several-partitions", func(s *S) {
		t, u := s.create("t", 3), s.create("u", 2)
		b := newBatch(recs(2)...).bytes()
		for _, v := range []int16{3, 9, 13} {
			s.do("all good", v, produceOf(-1, on(t, 0, b), on(t, 1, b), on(t, 2, b), on(u, 1, b)))
			s.do("some bad", v, produceOf(-1, on(t, 0, b), on(t, 5, b), on(s.unknownTopic(), 0, b), on(u, 0, b[:len(b)-1])))
		}
		s.look(t, 0)
		s.look(u, 1)
	}},
	{"Produce/partition-twice", func(s *S) {
		t := s.create("t", 1)
		a, b := newBatch(kv("a", "first")).bytes(), newBatch(kv("b", "second")).bytes()
		for _, v := range []int16{7, 9, 13} {
			s.do("produce", v, produceOf(-1, on(t, 0, a), on(t, 0, b)))
		}
		s.look(t, 0)
	}},
	{"Produce/topic-twice", func(s *S) {
		t, u := s.create("t", 2), s.create("u", 1)
		a := newBatch(kv("a", "b")).bytes()
		s.do("produce", 9, produceOf(-1, on(t, 0, a), on(u, 0, a), on(t, 1, a)))
		s.do("produce", 13, produceOf(-1, on(t, 0, a), on(u, 0, a), on(t, 1, a)))
	}},
	{"Produce/nothing", func(s *S) {
		t := s.create("t", 1)
		for _, v := range []int16{3, 7, 9, 13} {
			s.do("no topics", v, produceOf(-1))
			none := produceOf(-1, on(t, 0, nil))
			none.Topics[0].Partitions = nil
			s.do("no partitions", v, none)
		}
	}},
	{"Produce/null-records", func(s *S) {
		t := s.create("t", 1)
		s.doWithin(1500*time.Millisecond, "produce", 9, produceOf(-1, on(t, 0, nil)))
	}},
	{"Produce/no-records", func(s *S) {
		t := s.create("t", 1)
		s.do("produce", 7, produceOf(-1, on(t, 0, []byte{})))
		s.do("produce", 9, produceOf(-1, on(t, 0, []byte{})))
		s.do("with good", 9, produceOf(-1, on(t, 0, []byte{}), on(t, 1, newBatch(kv("a", "b")).bytes())))
	}},
	{"Produce/transactional-id", func(s *S) {
		t := s.create("t", 1)
		for _, v := range []int16{3, 9, 12} {
			req := produceOf(-1, on(t, 0, newBatch(kv("a", "b")).producer(madeUp+1, 0, 0).with(func(b *batch) { b.attrs |= 0x10 }).bytes()))
			s.do("transactional batch, no id", v, req)
			plain := produceOf(-1, on(t, 0, newBatch(kv("a", "b")).bytes()))
			plain.TransactionID = ptr("txn")
			s.do("plain batch with id", v, plain)
		}
		s.look(t, 0)
	}},
	{"Produce/transactional-among-plain", func(s *S) {
		t := s.create("t", 2)
		txn := newBatch(kv("a", "b")).producer(madeUp+1, 0, 0).with(func(b *batch) { b.attrs |= 0x10 }).bytes()
		s.do("produce", 9, produceOf(-1, on(t, 0, newBatch(kv("a", "b")).bytes()), on(t, 1, txn)))
		s.do("unknown topic too", 9, produceOf(-1, on(s.unknownTopic(), 0, newBatch(kv("a", "b")).bytes()), on(t, 1, txn)))
		s.look(t, 0)
	}},
	{"Produce/max-message-bytes", func(s *S) {
		b := newBatch(kv("key", strings.Repeat("v", 500))).bytes()
		t := s.create("t", 1, "max.message.bytes", fmt.Sprint(len(b)))
		s.do("exactly", 9, produceOf(-1, on(t, 0, b)))
		s.tryProduce(t, 0, newBatch(kv("key", strings.Repeat("v", 501))).bytes())
		s.setConfig(t, "max.message.bytes", fmt.Sprint(len(b)-1))
		s.do("one too many", 9, produceOf(-1, on(t, 0, b)))
		s.do("one too many", 13, produceOf(-1, on(t, 0, b)))
		s.look(t, 0)
	}},
	{"Produce/max-message-bytes-compressed", func(s *S) {
		plain := newBatch(kv("key", strings.Repeat("v", 5000)))
		t := s.create("t", 1, "max.message.bytes", "1000")
		s.do("plain", 9, produceOf(-1, on(t, 0, plain.bytes())))
		s.do("gzip", 9, produceOf(-1, on(t, 0, plain.codec(gzipped).bytes())))
		s.setConfig(t, "compression.type", "uncompressed")
		s.do("gzip to be unpacked", 9, produceOf(-1, on(t, 0, plain.codec(gzipped).bytes())))
		s.look(t, 0)
	}},
	{"Produce/larger-than-segment", func(s *S) {
		t := s.create("t", 1, "segment.bytes", "1048576", "max.message.bytes", "3000000")
		s.do("two MiB", 9, produceOf(-1, on(t, 0, newBatch(kv("k", strings.Repeat("v", 2<<20))).bytes())))
		s.do("small", 9, produceOf(-1, on(t, 0, newBatch(kv("k", "v")).bytes())))
		s.look(t, 0)
	}},
	{"Produce/max-message-bytes-0", func(s *S) {
		t := s.create("t", 1, "max.message.bytes", "0")
		s.do("produce", 9, produceOf(-1, on(t, 0, newBatch(kv("k", "v")).bytes())))
	}},
	{"Produce/compacted-needs-keys", func(s *S) {
		t := s.create("t", 1, "cleanup.policy", "compact")
		s.do("keyed", 9, produceOf(-1, on(t, 0, newBatch(recs(2)...).bytes())))
		s.tryProduce(t, 0, newBatch(val("no key")).bytes())
		s.tryProduce(t, 0, newBatch(kv("a", "b"), val("no key"), kv("c", "d"), val("none")).bytes())
		s.tryProduce(t, 0, newBatch(kv("a", "b"), val("no key")).codec(gzipped).bytes())
		s.tryProduce(t, 0, newBatch(rec{key: ptr(""), val: ptr("empty key")}).bytes())
		s.tryProduce(t, 0, newBatch(rec{key: ptr("tombstone")}).bytes())
		s.look(t, 0)
	}},
	{"Produce/compacted-and-deleted-needs-keys", func(s *S) {
		t := s.create("t", 1, "cleanup.policy", "compact,delete")
		s.tryProduce(t, 0, newBatch(val("no key"), kv("a", "b")).codec(zstded).bytes())
		s.look(t, 0)
	}},
	{"Produce/timestamps-too-old-or-new", func(s *S) {
		t := s.create("t", 1, "message.timestamp.before.max.ms", "86400000", "message.timestamp.after.max.ms", "3600000")
		day := int64(86400000)
		for i, d := range []int64{0, -day, -10 * day, 2 * day, -baseTime - 1, -baseTime} {
			s.label = fmt.Sprintf("shift %d ", i)
			s.tryProduce(t, 0, newBatch(kv("a", "b"), rec{ts: d, key: ptr("c"), val: ptr("d")}).bytes())
			s.tryProduce(t, 0, newBatch(kv("a", "b"), rec{ts: d, key: ptr("c"), val: ptr("d")}).codec(lz4d).bytes())
		}
		s.label = ""
		s.do("end", 4, listOf(latest(t, 0)))
	}},
	{"Produce/timestamps-default-limits", func(s *S) {
		t := s.create("t", 1)
		s.tryProduce(t, 0, newBatch(rec{ts: 4*3600e3 + 3600e3 + 60e3, key: ptr("future"), val: ptr("d")}).bytes())
		s.do("no timestamp", 9, produceOf(-1, on(t, 0, newBatch(kv("a", "b")).with(func(b *batch) { b.baseTs = -1 }).bytes())))
		s.do("negative", 9, produceOf(-1, on(t, 0, newBatch(kv("a", "b")).with(func(b *batch) { b.baseTs = -5 }).bytes())))
		s.do("zero", 9, produceOf(-1, on(t, 0, newBatch(kv("a", "b")).with(func(b *batch) { b.baseTs = 0 }).bytes())))
		s.look(t, 0)
	}},
	{"Produce/many-record-errors", func(s *S) {
		t := s.create("t", 1, "cleanup.policy", "compact", "message.timestamp.after.max.ms", "1000")
		var rs []rec
		for i := range 20 {
			r := val(fmt.Sprint(i))
			if i%3 == 0 {
				r.ts = 100 * 3600e3
			}
			rs = append(rs, r)
		}
		s.tryProduce(t, 0, newBatch(rs...).bytes())
		s.tryProduce(t, 0, newBatch(rs...).codec(gzipped).bytes())
		rs[1].ts = 100 * 3600e3
		s.tryProduce(t, 0, newBatch(rs[1:]...).bytes())
	}},
	{"Produce/log-append-time", func(s *S) {
		t := s.create("t", 1, "message.timestamp.type", "LogAppendTime")
		s.each("produce", 3, 13, func(v int16) kmsg.Request { return produceOf(-1, on(t, 0, newBatch(recs(2)...).bytes())) })
		for c := int16(1); c <= 4; c++ {
			s.do(codecNames[c], 9, produceOf(-1, on(t, 0, newBatch(recs(2)...).codec(c).bytes())))
		}
		s.do("years old", 9, produceOf(-1, on(t, 0, newBatch(kv("a", "b")).with(func(b *batch) { b.baseTs = 1000 }).bytes())))
		s.tryProduce(t, 0, newBatch(kv("a", "b")).with(func(b *batch) { b.attrs |= 8 }).bytes())
		s.look(t, 0)
	}},
	{"Produce/log-append-time-bit-on-create-time", func(s *S) {
		t := s.create("t", 1)
		s.tryProduce(t, 0, newBatch(recs(2)...).with(func(b *batch) { b.attrs |= 8 }).bytes())
		s.tryProduce(t, 0, newBatch(recs(2)...).codec(gzipped).with(func(b *batch) { b.attrs |= 8 }).bytes())
		s.look(t, 0)
	}},
	{"Produce/timestamp-type-changed", func(s *S) {
		t := s.create("t", 1)
		s.do("create time", 9, produceOf(-1, on(t, 0, newBatch(recs(2)...).bytes())))
		s.setConfig(t, "message.timestamp.type", "LogAppendTime")
		s.do("append time", 9, produceOf(-1, on(t, 0, newBatch(recs(2)...).bytes())))
		s.setConfig(t, "message.timestamp.type", "CreateTime")
		s.do("create time again", 9, produceOf(-1, on(t, 0, newBatch(recs(2)...).bytes())))
		s.look(t, 0)
	}},
	{"Produce/min-insync-replicas", func(s *S) {
		t := s.create("t", 1, "min.insync.replicas", "2")
		for _, acks := range []int16{0, 1, -1} {
			if acks == 0 {
				s.silent("acks 0", 9, produceOf(0, on(t, 0, newBatch(kv("a", "b")).bytes())))
				continue
			}
			s.do(fmt.Sprintf("acks %d", acks), 9, produceOf(acks, on(t, 0, newBatch(kv("a", "b")).bytes())))
		}
		s.awaitEnd(t, 0, 3)
		s.look(t, 0)
	}},
	{"Produce/timeout-0", func(s *S) {
		t := s.create("t", 1)
		req := produceOf(1, on(t, 0, newBatch(kv("a", "b")).bytes()))
		req.TimeoutMillis = 0
		s.do("acks 1", 9, req)
		req.TimeoutMillis = -5
		s.do("acks 1, negative", 9, req)
	}},
	{"Produce/deleted-topic", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(kv("a", "b")))
		s.drop(t)
		b := newBatch(kv("a", "b")).bytes()
		s.do("by name", 9, produceOf(-1, on(t, 0, b)))
		s.do("by id", 13, produceOf(-1, on(t, 0, b)))
		again := s.create("t", 1)
		s.do("old id", 13, produceOf(-1, on(t, 0, b)))
		s.do("new id", 13, produceOf(-1, on(again, 0, b)))
		s.look(again, 0)
	}},
	{"Produce/log-start-offset", func(s *S) {
		t := s.create("t", 1)
		s.put(t, 0, newBatch(recs(5)...))
		s.cut(t, 0, 3)
		b := newBatch(kv("a", "b"))
		s.do("good", 9, produceOf(-1, on(t, 0, b.bytes())))
		s.do("bad crc", 9, produceOf(-1, on(t, 0, newBatch(kv("a", "b")).with(func(b *batch) { b.badCRC = true }).bytes())))
		s.do("bad shape", 9, produceOf(-1, on(t, 0, newBatch(kv("a", "b")).with(func(b *batch) { b.baseOffset = 7 }).bytes())))
		s.do("bad count", 9, produceOf(-1, on(t, 0, newBatch(kv("a", "b")).with(func(b *batch) { b.count = ptr(int32(2)) }).bytes())))
	}},
}
