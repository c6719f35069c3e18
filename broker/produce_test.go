package broker

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// withCRC makes the checksum of a changed batch right again.
func withCRC(b []byte) []byte {
	record.Batch(b).UpdateCRC()
	return b
}

// changed applies a change to a batch, checksum included.
func changed(b []byte, change func(b []byte)) []byte {
	change(b)
	return withCRC(b)
}

func attributes(set int16) func([]byte) {
	return func(b []byte) {
		binary.BigEndian.PutUint16(b[21:], binary.BigEndian.Uint16(b[21:])|uint16(set))
	}
}

// stamped is a batch with one record of the given time.
func stamped(ts int64, key string) []byte {
	b := record.NewBuilder(record.Options{})
	b.Append(ts, []byte(key), []byte("v"), nil)
	return b.Bytes()
}

func keyless() []byte {
	b := record.NewBuilder(record.Options{})
	b.Append(nowMs(), []byte("k"), []byte("good"), nil)
	b.Append(nowMs(), nil, []byte("bad"), nil)
	return b.Bytes()
}

// Every reason to refuse a batch: its code, which log start the answer carries, how many record errors from v8 on, and a log that is as before.
func TestProduceErrors(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.create("now", 1, "message.timestamp.type=LogAppendTime")
	c.create("compacted", 1, "cleanup.policy=compact")
	c.create("small", 1, "max.message.bytes=200")
	c.create("segments", 1, "segment.bytes=1048576", "max.message.bytes=5000000")
	const unknown, real = int64(-1), int64(0)
	for _, tc := range []struct {
		name     string
		topic    string
		part     int32
		acks     int16
		version  int16
		records  []byte
		want     protocol.Code
		logStart int64
		records8 int // record errors
	}{
		{name: "unknown topic", topic: "nope", records: plain("x"), want: protocol.UnknownTopicOrPartition, logStart: unknown},
		{name: "unknown partition", topic: "t", part: 1, records: plain("x"), want: protocol.UnknownTopicOrPartition, logStart: unknown},
		{name: "negative partition", topic: "t", part: -1, records: plain("x"), want: protocol.UnknownTopicOrPartition, logStart: unknown},
		{name: "null records", topic: "t", records: nil, want: protocol.InvalidRecord, logStart: unknown},
		{name: "no bytes", topic: "t", records: []byte{}, want: protocol.InvalidRecord, logStart: unknown},
		{name: "truncated", topic: "t", records: plain("hello")[:64], want: protocol.InvalidRecord, logStart: unknown},
		{name: "header only", topic: "t", records: plain("hello")[:61], want: protocol.InvalidRecord, logStart: unknown},
		{name: "length too long", topic: "t", records: changed(plain("x"), func(b []byte) { b[11] += 9 }), want: protocol.InvalidRecord, logStart: unknown},
		{name: "two batches", topic: "t", records: append(plain("x"), plain("y")...), want: protocol.InvalidRecord, logStart: unknown},
		{name: "magic 0", topic: "t", records: changed(plain("x"), func(b []byte) { b[16] = 0 }), want: protocol.InvalidRecord, logStart: unknown},
		{name: "magic 1", topic: "t", records: changed(plain("x"), func(b []byte) { b[16] = 1 }), want: protocol.InvalidRecord, logStart: unknown},
		{name: "magic 3", topic: "t", records: changed(plain("x"), func(b []byte) { b[16] = 3 }), want: protocol.CorruptMessage, logStart: unknown},
		{name: "bad CRC", topic: "t", records: func() []byte { b := plain("x"); b[len(b)-2] ^= 1; return b }(), want: protocol.CorruptMessage, logStart: unknown},
		{name: "length 10", topic: "t", records: func() []byte { b := plain("x"); binary.BigEndian.PutUint32(b[8:], 10); return b }(), want: protocol.CorruptMessage, logStart: unknown},
		{name: "acks 2", topic: "t", acks: 2, records: plain("x"), want: protocol.InvalidRequiredAcks, logStart: unknown},
		{name: "acks -2", topic: "t", acks: -2, records: plain("x"), want: protocol.InvalidRequiredAcks, logStart: unknown},
		{name: "zstd at v6", topic: "t", version: 6, records: batch(record.Options{Codec: record.Zstd}, "x"), want: protocol.UnsupportedCompressionType, logStart: unknown},
		{name: "base offset", topic: "t", records: changed(plain("x"), func(b []byte) { b[7] = 1 }), want: protocol.InvalidRecord, logStart: real},
		{name: "producer id without sequence", topic: "t", records: sequenced(9, 0, -1, "x"), want: protocol.InvalidRecord, logStart: real},
		{name: "control batch", topic: "t", records: changed(plain("x"), attributes(1<<5)), want: protocol.InvalidRecord, logStart: real},
		{name: "transactional", topic: "t", records: changed(sequenced(9, 0, 0, "x"), attributes(1<<4)), want: protocol.TransactionalIDAuthorizationFailed, logStart: unknown},
		{name: "count too high", topic: "t", records: changed(plain("x"), func(b []byte) { b[60] = 2; b[26] = 1 }), want: protocol.InvalidRecord, logStart: real},
		{name: "count and last offset differ", topic: "t", records: changed(plain("x"), func(b []byte) { b[26] = 5 }), want: protocol.InvalidRecord, logStart: real},
		{name: "codec 5", topic: "t", records: changed(plain("x"), attributes(5)), want: protocol.UnknownServerError, logStart: real},
		{name: "does not inflate", topic: "t", records: changed(plain("x"), attributes(1)), want: protocol.UnknownServerError, logStart: real},
		{name: "from the future", topic: "t", records: stamped(nowMs()+2*3600_000, "k"), want: protocol.InvalidTimestamp, logStart: real, records8: 1},
		{name: "LogAppendTime by the client", topic: "now", records: changed(plain("x"), attributes(1<<3)), want: protocol.InvalidTimestamp, logStart: real, records8: 1},
		{name: "no key", topic: "compacted", records: keyless(), want: protocol.InvalidRecord, logStart: real, records8: 1},
		{name: "too large", topic: "small", records: plain(strings.Repeat("x", 200)), want: protocol.MessageTooLarge, logStart: unknown},
		{name: "larger than a segment", topic: "segments", records: plain(strings.Repeat("x", 600_000)), want: protocol.RecordListTooLarge, logStart: unknown},
	} {
		for _, version := range []int16{3, 5, 7, 8, 9, 12} {
			if tc.version != 0 && version != 7 {
				continue
			}
			if tc.version != 0 {
				version = tc.version
			}
			t.Run(fmt.Sprintf("%s v%d", tc.name, version), func(t *testing.T) {
				c.t = t
				acks := tc.acks
				if acks == 0 {
					acks = -1
				}
				// A batch is patched in place by nobody here: the client sends a copy.
				p := c.produceAt(version, acks, tc.topic, tc.part, tc.records)
				wantCode(t, p.ErrorCode, tc.want)
				if p.BaseOffset != -1 || p.LogAppendTime != -1 {
					t.Errorf("offset %d, log append time %d of a refused batch", p.BaseOffset, p.LogAppendTime)
				}
				if version >= 5 && p.LogStartOffset != tc.logStart {
					t.Errorf("log start %d, want %d", p.LogStartOffset, tc.logStart)
				}
				if version >= 8 && len(p.ErrorRecords) != tc.records8 {
					t.Errorf("record errors %+v, want %d", p.ErrorRecords, tc.records8)
				}
				if version >= 8 && text(p.ErrorMessage) == "" {
					t.Error("no message")
				}
			})
		}
	}
	c.t = t
	for _, topic := range []string{"t", "now", "compacted", "small", "segments"} {
		wantValues(t, c.readAll(topic, 0))
	}
}

func TestProduceRecordErrorNamesTheRecord(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("compacted", 1, "cleanup.policy=compact")
	p := c.produce("compacted", 0, keyless())
	if len(p.ErrorRecords) != 1 || p.ErrorRecords[0].RelativeOffset != 1 || text(p.ErrorRecords[0].ErrorMessage) == "" {
		t.Fatalf("record errors %+v", p.ErrorRecords)
	}
	c.mustProduce("compacted", 0, plain("good"))
	wantValues(t, c.readAll("compacted", 0), "0:good")
}

func TestProduceStrayBytesAreDropped(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.mustProduce("t", 0, append(plain("a"), 1, 2, 3))
	c.mustProduce("t", 0, plain("b"))
	wantValues(t, c.readAll("t", 0), "0:a", "1:b")
}

// A partition named twice is appended once, with its last batch, and answered once; so it is when the topic is named twice.
func TestProducePartitionNamedTwice(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 3)
	req := produceRequest(9, -1, "t", 0, plain("first"))
	add := func(topic int, partition int32, records []byte) {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = partition, records
		req.Topics[topic].Partitions = append(req.Topics[topic].Partitions, p)
	}
	add(0, 2, plain("two"))
	add(0, 0, plain("second"))
	again := kmsg.NewProduceRequestTopic()
	again.Topic = "t"
	req.Topics = append(req.Topics, again)
	add(1, 0, plain("third"))
	add(1, 1, plain("one"))
	resp := do[*kmsg.ProduceResponse](c, req)
	var answered []string
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			answered = append(answered, fmt.Sprintf("%s-%d@%d:%d", topic.Topic, p.Partition, p.BaseOffset, p.ErrorCode))
		}
	}
	wantValues(t, answered, "t-0@0:0", "t-2@0:0", "t-1@0:0")
	wantValues(t, c.readAll("t", 0), "0:third")
	wantValues(t, c.readAll("t", 1), "0:one")
	wantValues(t, c.readAll("t", 2), "0:two")
}

// Many partitions, in no order, some twice: found by the index instead of one by one.
func TestProduceManyPartitions(t *testing.T) {
	n := start(t)
	c := n.dial()
	const partitions = 100
	c.create("t", partitions)
	req := produceRequest(9, -1, "t", partitions-1, plain("early"))
	for i := partitions - 1; i >= 0; i-- {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), plain(fmt.Sprint("v", i))
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	}
	for round := range 2 { // the second finds the request's state used
		resp := do[*kmsg.ProduceResponse](c, req)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != partitions {
			t.Fatalf("%d partitions answered", len(resp.Topics[0].Partitions))
		}
		for _, p := range resp.Topics[0].Partitions {
			if p.ErrorCode != 0 || p.BaseOffset != int64(round) {
				t.Fatalf("%+v", p)
			}
		}
	}
	for i := range int32(partitions) {
		v := fmt.Sprint("v", i)
		wantValues(t, c.readAll("t", i), "0:"+v, "1:"+v)
	}
}

// One bad partition does not touch the others of its request.
func TestProducePartlyRefused(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 2)
	req := produceRequest(9, -1, "t", 0, plain("x"))
	bad := plain("y")
	bad[len(bad)-1] ^= 1
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = 1, bad
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, p)
	other := kmsg.NewProduceRequestTopic()
	other.Topic = "missing"
	other.Partitions = req.Topics[0].Partitions[:1]
	req.Topics = append(req.Topics, other)
	resp := do[*kmsg.ProduceResponse](c, req)
	wantCode(t, resp.Topics[0].Partitions[0].ErrorCode, protocol.None)
	wantCode(t, resp.Topics[0].Partitions[1].ErrorCode, protocol.CorruptMessage)
	wantCode(t, resp.Topics[1].Partitions[0].ErrorCode, protocol.UnknownTopicOrPartition)
	if resp.Topics[1].Topic != "missing" {
		t.Fatalf("topic %q", resp.Topics[1].Topic)
	}
}

// Gotcha 29: acks=0 is never answered; an error closes the connection.
func TestProduceAcksZero(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	for i := range 10 {
		c.send(produceRequest(9, 0, "t", 0, plain(fmt.Sprint(i))))
	}
	c.mustProduce("t", 0, plain("last")) // its answer is the first to come
	if got := c.readAll("t", 0); len(got) != 11 || got[10] != "10:last" {
		t.Fatalf("%v", got)
	}
	for name, bad := range map[string]*kmsg.ProduceRequest{
		"unknown topic": produceRequest(9, 0, "nope", 0, plain("x")),
		"bad batch":     produceRequest(9, 0, "t", 0, []byte("garbage")),
		"null records":  produceRequest(9, 0, "t", 0, nil),
	} {
		c := n.dial()
		c.send(bad)
		if !c.isClosed() {
			t.Errorf("%s: the connection is still open", name)
		}
	}
	wantCode(t, c.fetch("t", 0, 0).ErrorCode, protocol.None)
}

// Gotcha 9: from v13 topics are named by id; the id of a topic that was deleted is unknown though its name exists again.
func TestProduceByID(t *testing.T) {
	n := start(t)
	c := n.dial()
	id := c.create("t", 1)
	by := func(id [16]byte, partition int32) produced {
		req := produceRequest(13, -1, "", partition, plain("x"))
		req.Topics[0].TopicID = id
		resp := do[*kmsg.ProduceResponse](c, req)
		if resp.Topics[0].TopicID != id {
			t.Fatalf("answer for id %x", resp.Topics[0].TopicID)
		}
		return onlyProduced(t, resp)
	}
	wantCode(t, by(id, 0).ErrorCode, protocol.None)
	wantCode(t, by(id, 7).ErrorCode, protocol.UnknownTopicOrPartition)
	wantCode(t, by([16]byte{1}, 0).ErrorCode, protocol.UnknownTopicID)
	wantCode(t, by([16]byte{}, 0).ErrorCode, protocol.UnknownTopicID)
	c.delete("t")
	wantCode(t, by(id, 0).ErrorCode, protocol.UnknownTopicID)
	fresh := c.create("t", 1)
	if fresh == id {
		t.Fatal("the new topic has the old id")
	}
	wantCode(t, by(id, 0).ErrorCode, protocol.UnknownTopicID)
	wantCode(t, by(fresh, 0).ErrorCode, protocol.None)
	wantValues(t, c.readAll("t", 0), "0:x")
}

func TestProduceLogAppendTime(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("now", 1, "message.timestamp.type=LogAppendTime")
	c.create("t", 1)
	before := nowMs()
	p := c.produce("now", 0, stamped(1000, "k"))
	if p.LogAppendTime < before || p.LogAppendTime > nowMs() {
		t.Fatalf("log append time %d", p.LogAppendTime)
	}
	b := record.Batch(c.fetch("now", 0, 0).RecordBatches)
	if b.TimestampType() != record.LogAppendTime || b.MaxTimestamp() != p.LogAppendTime || b.Check() != nil {
		t.Fatalf("stored with type %v, max timestamp %d, %v", b.TimestampType(), b.MaxTimestamp(), b.Check())
	}
	// On a CreateTime topic the client's bit is cleared, and the maximum is corrected.
	bad := changed(stamped(nowMs(), "k"), attributes(1<<3))
	if p := c.produce("t", 0, bad); p.ErrorCode != 0 || p.LogAppendTime != -1 {
		t.Fatalf("%+v", p)
	}
	if b := record.Batch(c.fetch("t", 0, 0).RecordBatches); b.TimestampType() != record.CreateTime || b.Check() != nil {
		t.Fatalf("stored with type %v, %v", b.TimestampType(), b.Check())
	}
}

func TestProduceRecompresses(t *testing.T) {
	n := start(t)
	c := n.dial()
	for _, want := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
		target := want.String()
		if want == record.None {
			target = "uncompressed"
		}
		c.create(target, 1, "compression.type="+target)
		for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.LZ4, record.Zstd} {
			c.mustProduce(target, 0, batch(record.Options{Codec: codec}, "a", "b"))
		}
		p := c.fetch(target, 0, 0)
		rest := p.RecordBatches
		for len(rest) > 0 {
			b, r, err := record.Frame(rest)
			if err != nil || b.Codec() != want {
				t.Fatalf("%s: stored with codec %v, %v", target, b.Codec(), err)
			}
			rest = r
		}
		if got := values(t, p.RecordBatches); len(got) != 10 || got[9] != "9:b" {
			t.Fatalf("%s: %v", target, got)
		}
	}
}

// protocol.md 3.1 and 6: what a producer with an id may and may not send (B-E2, B-E13, gotchas 16 and 17).
func TestProduceIdempotence(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	c.create("wrap", 1)
	type step struct {
		name   string
		topic  string
		pid    int64
		epoch  int16
		seq    int32
		values int
		want   protocol.Code
		offset int64
	}
	for _, s := range []step{
		{"H8: any first sequence", "t", 5, 0, 17, 1, protocol.None, 0},
		{"next", "t", 5, 0, 18, 2, protocol.None, 1},
		{"duplicate of the last", "t", 5, 0, 18, 2, protocol.None, 1},
		{"duplicate of the first", "t", 5, 0, 17, 1, protocol.None, 0},
		{"gap", "t", 5, 0, 21, 1, protocol.OutOfOrderSequenceNumber, -1},
		{"overlap that is no duplicate", "t", 5, 0, 18, 1, protocol.OutOfOrderSequenceNumber, -1},
		{"third", "t", 5, 0, 20, 1, protocol.None, 3},
		{"fourth", "t", 5, 0, 21, 1, protocol.None, 4},
		{"fifth", "t", 5, 0, 22, 1, protocol.None, 5},
		{"duplicate of the oldest of five", "t", 5, 0, 17, 1, protocol.None, 0},
		{"sixth", "t", 5, 0, 23, 1, protocol.None, 6},
		{"duplicate older than the window", "t", 5, 0, 17, 1, protocol.OutOfOrderSequenceNumber, -1},
		{"other producer", "t", 6, 3, 0, 1, protocol.None, 7},
		{"older epoch", "t", 6, 2, 1, 1, protocol.InvalidProducerEpoch, -1},
		{"new epoch not at 0", "t", 6, 4, 1, 1, protocol.OutOfOrderSequenceNumber, -1},
		{"new epoch", "t", 6, 4, 0, 1, protocol.None, 8},
		{"before the wrap", "wrap", 5, 0, 2147483646, 1, protocol.None, 0},
		{"over the wrap", "wrap", 5, 0, 2147483647, 3, protocol.None, 1},
		{"duplicate over the wrap", "wrap", 5, 0, 2147483647, 3, protocol.None, 1},
		{"after the wrap", "wrap", 5, 0, 2, 1, protocol.None, 4},
	} {
		v := make([]string, s.values)
		for i := range v {
			v[i] = "x"
		}
		p := c.produce(s.topic, 0, sequenced(s.pid, s.epoch, s.seq, v...))
		if protocol.Code(p.ErrorCode) != s.want || p.BaseOffset != s.offset {
			t.Fatalf("%s: %s at %d, want %s at %d", s.name, protocol.Code(p.ErrorCode).Name(), p.BaseOffset, s.want.Name(), s.offset)
		}
		if s.want == protocol.OutOfOrderSequenceNumber && p.LogStartOffset != 0 {
			t.Fatalf("%s: log start %d", s.name, p.LogStartOffset)
		}
	}
	if got := c.readAll("t", 0); len(got) != 9 {
		t.Fatalf("the log has %v", got)
	}
	resp := do[*kmsg.DescribeProducersResponse](c, sample(protocol.KeyDescribeProducers, 0, [16]byte{}))
	producers := map[int64]int32{}
	for _, p := range resp.Topics[0].Partitions[0].ActiveProducers {
		producers[p.ProducerID] = p.LastSequence
	}
	if len(producers) != 2 || producers[5] != 23 || producers[6] != 0 {
		t.Fatalf("producers %v", producers)
	}
}

// A duplicate that arrives together with its original, ahead of any answer, is appended once.
func TestProduceDuplicatesInFlight(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1)
	const rounds = 50
	for i := range int32(rounds) {
		for range 3 {
			c.send(produceRequest(9, -1, "t", 0, sequenced(1, 0, i, "v")))
		}
	}
	for i := range int64(rounds) {
		for range 3 {
			if p := onlyProduced(t, next[*kmsg.ProduceResponse](c)); p.ErrorCode != 0 || p.BaseOffset != i {
				t.Fatalf("%+v, want offset %d", p, i)
			}
		}
	}
	if got := c.readAll("t", 0); len(got) != rounds {
		t.Fatalf("%d records", len(got))
	}
}

func TestInitProducerID(t *testing.T) {
	n := start(t)
	c := n.dial()
	seen := map[int64]bool{}
	for range 2500 { // more than two blocks
		c.send(sample(protocol.KeyInitProducerID, 4, [16]byte{}))
		r := next[*kmsg.InitProducerIDResponse](c)
		if r.ErrorCode != 0 || r.ProducerEpoch != 0 || r.ProducerID < 0 || seen[r.ProducerID] {
			t.Fatalf("%+v", r)
		}
		seen[r.ProducerID] = true
	}
	for _, tc := range []struct {
		id    *string
		pid   int64
		epoch int16
		want  protocol.Code
	}{
		{ptr("tx"), -1, -1, protocol.CoordinatorNotAvailable},
		{ptr(""), -1, -1, protocol.InvalidRequest},
		{nil, 5, -1, protocol.InvalidRequest},
		{nil, -1, 5, protocol.InvalidRequest},
	} {
		req := sample(protocol.KeyInitProducerID, 4, [16]byte{}).(*kmsg.InitProducerIDRequest)
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = tc.id, tc.pid, tc.epoch
		r := do[*kmsg.InitProducerIDResponse](c, req)
		wantCode(t, r.ErrorCode, tc.want)
		if r.ProducerID != -1 || r.ProducerEpoch != -1 {
			t.Fatalf("%+v", r)
		}
	}
}

// Minimum in-sync replicas above what there can be is clipped to it, as Kafka does.
func TestProduceMinInsyncReplicasIsClipped(t *testing.T) {
	n := start(t)
	c := n.dial()
	c.create("t", 1, "min.insync.replicas=2")
	c.mustProduce("t", 0, plain("x"))
}
