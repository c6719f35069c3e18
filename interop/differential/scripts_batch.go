package differential

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// shape is a script that produces one odd batch to a topic with one good batch and looks what became of it.
func shape(id string, build func() []byte, configs ...string) Script {
	return Script{"Produce/" + id, func(s *S) {
		t := s.create("t", 1, configs...)
		s.put(t, 0, newBatch(kv("good", "batch")))
		s.tryProduce(t, 0, build())
		s.look(t, 0)
	}}
}

// odd is shape for changes of a batch of three records.
func odd(id string, change func(b *batch), configs ...string) Script {
	return shape(id, func() []byte { return newBatch(recs(3)...).with(change).bytes() }, configs...)
}

// oddBoth is odd for an uncompressed and a gzipped batch.
func oddBoth(id string, change func(b *batch)) []Script {
	return []Script{
		odd(id, change),
		odd(id+"/compressed", func(b *batch) { change(b); b.codec(gzipped) }),
	}
}

func offsets(deltas ...int32) func(*batch) {
	return func(b *batch) {
		for i, d := range deltas {
			b.recs[i].off = &d
		}
	}
}

// edit changes the encoded records of a batch.
func edit(f func([]byte) []byte) func(*batch) {
	return func(b *batch) { b.payload = f(encodeRecords(b.recs)) }
}

var produceBatchScripts = concat(
	oddBoth("offset-deltas/swapped", offsets(1, 0, 2)),
	oddBoth("offset-deltas/equal", offsets(0, 0, 0)),
	oddBoth("offset-deltas/gapped", offsets(0, 5, 2)),
	oddBoth("offset-deltas/negative", offsets(-1, 0, 1)),
	oddBoth("count/too-high", func(b *batch) { b.count = ptr(int32(4)); b.lastDelta = ptr(int32(3)) }),
	oddBoth("count/too-low", func(b *batch) { b.count = ptr(int32(2)); b.lastDelta = ptr(int32(1)) }),
	oddBoth("count/not-last-delta", func(b *batch) { b.count = ptr(int32(4)) }),
	oddBoth("count/zero", func(b *batch) { b.count = ptr(int32(0)); b.lastDelta = ptr(int32(-1)) }),
	oddBoth("count/negative", func(b *batch) { b.count = ptr(int32(-1)); b.lastDelta = ptr(int32(-2)) }),
	oddBoth("count/last-delta-too-high", func(b *batch) { b.lastDelta = ptr(int32(10)) }),
	oddBoth("count/last-delta-negative", func(b *batch) { b.lastDelta = ptr(int32(-5)) }),
	oddBoth("count/huge", func(b *batch) { b.count = ptr(int32(2147483647)); b.lastDelta = ptr(int32(2147483646)) }),
	oddBoth("max-timestamp-wrong", func(b *batch) { b.maxTs = ptr(baseTime + 77777) }),
	oddBoth("max-timestamp-none", func(b *batch) { b.maxTs = ptr(int64(-1)) }),
	oddBoth("timestamps-descending", func(b *batch) { b.recs[0].ts, b.recs[1].ts, b.recs[2].ts = 90, 50, -30 }),
	oddBoth("record-attributes", func(b *batch) { b.recs[1].attrs = 0x55 }),
	oddBoth("record-headers", func(b *batch) { b.recs[1].headers = [][2]string{{"k", "v"}, {"k", ""}, {"", "x"}} }),
	oddBoth("record-nulls", func(b *batch) { b.recs[0].key, b.recs[1].val, b.recs[2] = nil, nil, rec{} }),
	oddBoth("records/cut-short", edit(func(p []byte) []byte { return p[:len(p)-3] })),
	oddBoth("records/empty", edit(func([]byte) []byte { return []byte{} })),
	oddBoth("records/garbage", edit(func(p []byte) []byte { return []byte(strings.Repeat("\xff", len(p))) })),
	oddBoth("records/bytes-behind", edit(func(p []byte) []byte { return append(p, 1, 2, 3) })),
	oddBoth("records/length-too-long", edit(func(p []byte) []byte { p[0] += 2; return p })),
	oddBoth("records/length-too-short", edit(func(p []byte) []byte { p[0] -= 2; return p })),
	oddBoth("records/length-negative", edit(func(p []byte) []byte { p[0] = 1; return p })),
	oddBoth("records/length-huge", edit(func(p []byte) []byte { return append([]byte{0xfe, 0xff, 0xff, 0xff, 0x0f}, p[1:]...) })),
	oddBoth("records/length-varint-overlong", edit(func(p []byte) []byte {
		return append([]byte{p[0] | 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, p[1:]...)
	})),
	oddBoth("records/key-length-too-long", edit(func(p []byte) []byte { p[4] = 120; return p })),
	oddBoth("records/key-length-negative", edit(func(p []byte) []byte { p[4] = 3; return p })),
	oddBoth("records/header-count-negative", edit(func(p []byte) []byte { p[p[0]/2] = 1; return p })),
	oddBoth("records/header-count-too-high", edit(func(p []byte) []byte { p[p[0]/2] = 2; return p })),
	oddBoth("records/header-key-null", func(b *batch) {
		b.recs = []rec{kv("a", "b"), kv("c", "d"), {key: ptr("e"), headers: [][2]string{{"h", "v"}}}}
		p := encodeRecords(b.recs)
		i := strings.LastIndex(string(p), "\x02h")
		p[i] = 1 // null
		b.payload = append(p[:i+1], p[i+2:]...)
	}),
	[]Script{
		odd("control-bit", func(b *batch) { b.attrs |= 0x20 }),
		odd("control-and-transactional", func(b *batch) { b.attrs |= 0x30; b.producer(madeUp+3, 0, 0) }),
		odd("delete-horizon-bit", func(b *batch) { b.attrs |= 0x40 }),
		odd("unused-attribute-bits", func(b *batch) { b.attrs |= 0x7f80 }),
		odd("base-offset", func(b *batch) { b.baseOffset = 7 }),
		odd("base-offset-negative", func(b *batch) { b.baseOffset = -1 }),
		odd("leader-epoch-set", func(b *batch) { b.epoch = 77 }),
		odd("base-timestamp-none", func(b *batch) { b.baseTs = -1 }),
		odd("bad-crc", func(b *batch) { b.badCRC = true }),
		odd("bad-crc/compressed", func(b *batch) { b.badCRC = true; b.codec(zstded) }),
		odd("magic-0", func(b *batch) { b.magic = 0 }),
		odd("magic-1", func(b *batch) { b.magic = 1 }),
		odd("magic-3", func(b *batch) { b.magic = 3 }),
		odd("magic-negative", func(b *batch) { b.magic = -1 }),
		odd("bytes-behind", func(b *batch) { b.tail = []byte{1, 2, 3} }),
		odd("twelve-bytes-behind", func(b *batch) { b.tail = make([]byte, 12) }),
		odd("zeros-behind", func(b *batch) { b.tail = make([]byte, 100) }),
		odd("length/too-long", func(b *batch) { b.length = ptr(int32(1000)) }),
		odd("length/one-too-long", func(b *batch) { b.length = ptr(int32(len(newBatch(recs(3)...).bytes()) - 12 + 1)) }),
		odd("length/one-too-short", func(b *batch) { b.length = ptr(int32(len(newBatch(recs(3)...).bytes()) - 12 - 1)) }),
		odd("length/zero", func(b *batch) { b.length = ptr(int32(0)) }),
		odd("length/ten", func(b *batch) { b.length = ptr(int32(10)) }),
		odd("length/fourteen", func(b *batch) { b.length = ptr(int32(14)) }),
		odd("length/header-only", func(b *batch) { b.length = ptr(int32(48)) }),
		odd("length/header-less-one", func(b *batch) { b.length = ptr(int32(47)) }),
		odd("length/negative", func(b *batch) { b.length = ptr(int32(-1)) }),
		odd("length/huge", func(b *batch) { b.length = ptr(int32(2147483647)) }),
		shape("two-batches", func() []byte {
			return append(newBatch(kv("a", "b")).bytes(), newBatch(kv("c", "d")).bytes()...)
		}),
		shape("cut-short", func() []byte { b := newBatch(recs(3)...).bytes(); return b[:len(b)-1] }),
		shape("cut-in-header", func() []byte { return newBatch(recs(3)...).bytes()[:40] }),
		shape("cut-in-overhead", func() []byte { return newBatch(recs(3)...).bytes()[:11] }),
		shape("cut-before-magic", func() []byte { return newBatch(recs(3)...).bytes()[:16] }),
		shape("cut-behind-magic", func() []byte { return newBatch(recs(3)...).bytes()[:17] }),
		shape("one-byte", func() []byte { return []byte{0} }),
		shape("zeros", func() []byte { return make([]byte, 100) }),
		shape("old-message-set", oldMessage),
		{"Produce/codecs", func(s *S) {
			t := s.create("t", 1)
			for c := int16(0); c <= 4; c++ {
				b := newBatch(recs(20)...).codec(c).bytes()
				s.each(codecNames[c], 3, 9, func(int16) kmsg.Request { return produceOf(-1, on(t, 0, b)) })
			}
			s.look(t, 0)
			s.do("old fetch", 4, fetchOf(from(t, 0, 0)))
			s.do("old fetch", 9, fetchOf(from(t, 0, 0)))
		}},
		{"Produce/codecs-unknown", func(s *S) {
			t := s.create("t", 1)
			for c := int16(5); c <= 7; c++ {
				s.label = fmt.Sprintf("codec %d ", c)
				s.tryProduce(t, 0, newBatch(recs(2)...).with(func(b *batch) { b.attrs = c; b.payload = []byte("abcdef") }).bytes())
			}
			s.label = ""
			s.look(t, 0)
		}},
		{"Produce/codecs-garbage", func(s *S) {
			t := s.create("t", 1)
			for c := int16(1); c <= 4; c++ {
				s.label = codecNames[c] + " "
				s.tryProduce(t, 0, newBatch(recs(2)...).with(func(b *batch) { b.attrs = c; b.payload = []byte("this is not compressed data") }).bytes())
				good := compress(int(c), encodeRecords(recs(2)))
				s.tryProduce(t, 0, newBatch(recs(2)...).with(func(b *batch) { b.attrs = c; b.payload = good[:len(good)/2] }).bytes())
				s.tryProduce(t, 0, newBatch(recs(2)...).with(func(b *batch) { b.attrs = c; b.payload = []byte{} }).bytes())
			}
			s.label = ""
			s.look(t, 0)
		}},
		{"Produce/snappy-without-frames", func(s *S) {
			t := s.create("t", 1)
			xerial := compress(snappied, encodeRecords(recs(2)))
			s.do("raw block", 9, produceOf(-1, on(t, 0, newBatch(recs(2)...).with(func(b *batch) { b.attrs = snappied; b.payload = xerial[20:] }).bytes())))
			s.look(t, 0)
		}},
		{"Produce/snappy-two-blocks", func(s *S) {
			t := s.create("t", 1)
			p := encodeRecords(recs(4))
			one, two := compress(snappied, p[:20]), compress(snappied, p[20:])
			s.do("blocks", 9, produceOf(-1, on(t, 0, newBatch(recs(4)...).with(func(b *batch) { b.attrs = snappied; b.payload = append(one, two[16:]...) }).bytes())))
			s.look(t, 0)
		}},
		{"Produce/compression-types", func(s *S) {
			for i, kind := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"} {
				t := s.create(fmt.Sprintf("t%d", i), 1, "compression.type", kind)
				s.label = kind + " "
				for c := int16(0); c <= 4; c++ {
					s.do(codecNames[c], 9, produceOf(-1, on(t, 0, newBatch(recs(30)...).codec(c).bytes())))
				}
				s.look(t, 0)
			}
		}},
		{"Produce/compression-types-odd-batches", func(s *S) {
			t := s.create("t", 1, "compression.type", "gzip")
			s.tryProduce(t, 0, newBatch(recs(3)...).with(offsets(1, 0, 2)).bytes())
			s.tryProduce(t, 0, newBatch(recs(3)...).with(offsets(0, 5, 9)).codec(lz4d).bytes())
			s.tryProduce(t, 0, newBatch(recs(3)...).producer(madeUp+1, 2, 3).codec(lz4d).bytes())
			s.tryProduce(t, 0, newBatch(recs(3)...).with(func(b *batch) { b.maxTs = ptr(baseTime + 77777); b.attrs |= 0x40 }).bytes())
			s.tryProduce(t, 0, newBatch(recs(3)...).with(func(b *batch) { b.recs[1].attrs = 7 }).bytes())
			s.look(t, 0)
		}},
		{"Produce/compression-level", func(s *S) {
			t := s.create("t", 1, "compression.type", "gzip", "compression.gzip.level", "9")
			s.do("plain", 9, produceOf(-1, on(t, 0, newBatch(recs(30)...).bytes())))
			s.look(t, 0)
		}},
		{"Produce/compression-and-append-time", func(s *S) {
			t := s.create("t", 1, "compression.type", "zstd", "message.timestamp.type", "LogAppendTime")
			s.do("plain", 9, produceOf(-1, on(t, 0, newBatch(recs(3)...).bytes())))
			s.do("zstd", 9, produceOf(-1, on(t, 0, newBatch(recs(3)...).codec(zstded).bytes())))
			s.look(t, 0)
		}},
		{"Produce/large-batch", func(s *S) {
			t := s.create("t", 1)
			s.do("900 kB", 9, produceOf(-1, on(t, 0, newBatch(kv("k", strings.Repeat("large", 180000))).bytes())))
			s.do("default limit", 9, produceOf(-1, on(t, 0, newBatch(kv("k", strings.Repeat("x", 1048588-61-12))).bytes())))
			s.do("default limit", 13, produceOf(-1, on(t, 0, newBatch(kv("k", strings.Repeat("x", 1048588))).bytes())))
			s.do("end", 4, listOf(latest(t, 0)))
		}},
	},
)

// oldMessage is a message set of magic 1 with one message.
func oldMessage() []byte {
	body := []byte{0, 0, 0, 0, 1, 0} // crc, magic, attributes
	body = binary.BigEndian.AppendUint64(body, uint64(baseTime))
	body = append(body, 0, 0, 0, 1, 'k', 0, 0, 0, 1, 'v')
	out := make([]byte, 8)
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
	return append(out, body...)
}

func concat(lists ...[]Script) []Script {
	var all []Script
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}
