package protocol

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describe writes everything a Produce request says.
func describe(version int16, p *ProduceRequest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "id %v %q acks %d timeout %d\n", p.HasTransactionalID, p.TransactionalID, p.Acks, p.TimeoutMs)
	it := p.Partitions()
	for it.Next() {
		fmt.Fprintf(&b, "new %v topic %q %x partition %d records %v %x\n", it.NewTopic, it.Topic, it.TopicID, it.Partition, it.RecordsNull, it.Records)
	}
	return b.String()
}

func describeKmsg(k *kmsg.ProduceRequest) string {
	var b strings.Builder
	id := ""
	if k.TransactionID != nil {
		id = *k.TransactionID
	}
	fmt.Fprintf(&b, "id %v %q acks %d timeout %d\n", k.TransactionID != nil, id, k.Acks, k.TimeoutMillis)
	for _, t := range k.Topics {
		for i, p := range t.Partitions {
			fmt.Fprintf(&b, "new %v topic %q %x partition %d records %v %x\n", i == 0, t.Topic, t.TopicID, p.Partition, p.Records == nil, p.Records)
		}
	}
	return b.String()
}

func TestProduceRequestLikeKmsg(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		r := newRand(uint64(version))
		for range 200 {
			body := filledRequest(KeyProduce, version, r).AppendTo(nil)
			checkProduceRequest(t, version, body)
		}
	}
}

// checkProduceRequest compares the walk with kmsg, if both take the body for a request.
func checkProduceRequest(t *testing.T, version int16, body []byte) {
	t.Helper()
	var p ProduceRequest
	k := kmsg.NewPtrProduceRequest()
	k.Version = version
	err, kerr := p.Parse(version, body), k.ReadFrom(body)
	if (err == nil) != (kerr == nil) {
		t.Fatalf("v%d: %v, kmsg: %v; body %x", version, err, kerr, body)
	}
	if err != nil {
		return
	}
	if got, want := describe(version, &p), describeKmsg(k); got != want {
		t.Fatalf("v%d: got\n%swant\n%s", version, got, want)
	}
	partitions, bytes := 0, 0
	for _, topic := range k.Topics {
		for _, kp := range topic.Partitions {
			partitions++
			bytes += len(kp.Records)
		}
	}
	if p.TopicCount != len(k.Topics) || p.PartitionCount != partitions || p.RecordBytes != bytes {
		t.Fatalf("v%d: %d topics, %d partitions, %d bytes", version, p.TopicCount, p.PartitionCount, p.RecordBytes)
	}
}

// Topics without partitions, no topics, null arrays.
func TestProduceRequestEmpty(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		for _, counts := range [][]int{{}, {0}, {0, 0, 2}, {1, 0, 1}, {2, 0}} {
			k := kmsg.NewPtrProduceRequest()
			k.Version = version
			for i, n := range counts {
				topic := kmsg.NewProduceRequestTopic()
				topic.Topic = fmt.Sprint("topic", i)
				topic.TopicID[0] = byte(i)
				topic.Partitions = make([]kmsg.ProduceRequestTopicPartition, n)
				k.Topics = append(k.Topics, topic)
			}
			checkProduceRequest(t, version, k.AppendTo(nil))
		}
	}
}

func TestProduceRequestAllocations(t *testing.T) {
	for _, version := range []int16{3, 9, 13} {
		body := filledRequest(KeyProduce, version, newRand(5)).AppendTo(nil)
		var p ProduceRequest
		sum := 0
		if n := testing.AllocsPerRun(100, func() {
			if p.Parse(version, body) != nil {
				t.Fatal("not parsed")
			}
			for it := p.Partitions(); it.Next(); {
				sum += len(it.Records)
			}
		}); n != 0 {
			t.Errorf("v%d: %v allocations", version, n)
		}
	}
}

// Records must not grow into the bytes behind them.
func TestProduceRecordsAreClipped(t *testing.T) {
	body := filledRequest(KeyProduce, 9, newRand(5)).AppendTo(nil)
	var p ProduceRequest
	if err := p.Parse(9, body); err != nil {
		t.Fatal(err)
	}
	for it := p.Partitions(); it.Next(); {
		if cap(it.Records) != len(it.Records) {
			t.Errorf("capacity %d, length %d", cap(it.Records), len(it.Records))
		}
	}
}

func randomProduceResponse(r *rand.Rand, version int16) *ProduceResponse {
	resp := &ProduceResponse{Version: version, ThrottleMs: r.Int32N(10), Nodes: randomNodes(r)}
	for range r.IntN(4) {
		topic := ProduceTopic{Name: strings.Repeat("n", r.IntN(200))}
		binary.BigEndian.PutUint64(topic.ID[:], r.Uint64())
		for range r.IntN(4) {
			p := ProducePartition{Index: r.Int32N(9), ErrorCode: Code(r.IntN(130)), BaseOffset: r.Int64(), LogAppendTimeMs: r.Int64() - 1, LogStart: r.Int64(),
				ErrorMessage: strings.Repeat("m", r.IntN(3)*70)}
			for range r.IntN(3) {
				p.RecordErrors = append(p.RecordErrors, RecordError{r.Int32N(100), strings.Repeat("e", r.IntN(3)*100)})
			}
			if r.IntN(3) == 0 {
				p.CurrentLeader = &LeaderHint{r.Int32N(3) - 1, r.Int32N(3) - 1}
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

func checkProduceResponse(t *testing.T, r *ProduceResponse) {
	t.Helper()
	k := kmsg.NewPtrProduceResponse()
	k.Version, k.ThrottleMillis = r.Version, r.ThrottleMs
	for _, topic := range r.Topics {
		kt := kmsg.NewProduceResponseTopic()
		kt.Topic, kt.TopicID = topic.Name, topic.ID
		for _, p := range topic.Partitions {
			kp := kmsg.NewProduceResponseTopicPartition()
			kp.Partition, kp.ErrorCode, kp.BaseOffset, kp.LogAppendTime, kp.LogStartOffset = p.Index, int16(p.ErrorCode), p.BaseOffset, p.LogAppendTimeMs, p.LogStart
			if p.ErrorMessage != "" {
				kp.ErrorMessage = &p.ErrorMessage
			}
			for _, e := range p.RecordErrors {
				ke := kmsg.NewProduceResponseTopicPartitionErrorRecord()
				ke.RelativeOffset = e.Index
				if e.Message != "" {
					ke.ErrorMessage = &e.Message
				}
				kp.ErrorRecords = append(kp.ErrorRecords, ke)
			}
			if p.CurrentLeader != nil && r.Version >= 10 {
				kp.CurrentLeader.LeaderID, kp.CurrentLeader.LeaderEpoch = p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch
			}
			kt.Partitions = append(kt.Partitions, kp)
		}
		k.Topics = append(k.Topics, kt)
	}
	for _, n := range r.Nodes {
		if r.Version < 10 {
			break
		}
		b := kmsg.NewProduceResponseBroker()
		b.NodeID, b.Host, b.Port = n.ID, n.Host, n.Port
		if n.HasRack {
			b.Rack = &n.Rack
		}
		k.Brokers = append(k.Brokers, b)
	}
	got, want := AppendProduceResponse([]byte("x"), 77, r), AppendResponse([]byte("x"), 77, k)
	if !bytes.Equal(got, want) {
		t.Fatalf("v%d:\n got %x\nwant %x", r.Version, got, want)
	}
}

func TestProduceResponseLikeKmsg(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		r := newRand(uint64(version))
		for range 300 {
			checkProduceResponse(t, randomProduceResponse(r, version))
		}
	}
}

func TestProduceResponseAllocations(t *testing.T) {
	r := &ProduceResponse{Version: 12, Topics: []ProduceTopic{{Name: "topic", Partitions: make([]ProducePartition, 10)}}}
	buf := AppendProduceResponse(nil, 1, r)
	if n := testing.AllocsPerRun(100, func() { buf = AppendProduceResponse(buf[:0], 1, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzProduceRequest(f *testing.F) {
	for version := int16(3); version <= 13; version++ {
		f.Add(version, filledRequest(KeyProduce, version, newRand(1)).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 3 || version > 13 || len(body) > 1<<16 {
			return
		}
		checkProduceRequest(t, version, body)
	})
}

func FuzzProduceResponse(f *testing.F) {
	for version := int16(3); version <= 13; version++ {
		f.Add(version, uint64(version))
	}
	f.Fuzz(func(t *testing.T, version int16, seed uint64) {
		checkProduceResponse(t, randomProduceResponse(newRand(seed), 3+int16(uint16(version)%11)))
	})
}

func BenchmarkProduceRequest1(b *testing.B)   { benchmarkProduceRequest(b, 1) }
func BenchmarkProduceRequest100(b *testing.B) { benchmarkProduceRequest(b, 100) }

func benchmarkProduceRequest(b *testing.B, partitions int) {
	k := kmsg.NewPtrProduceRequest()
	k.Version = 12
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "topic"
	for i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = int32(i), make([]byte, 16384)
		topic.Partitions = append(topic.Partitions, p)
	}
	k.Topics = append(k.Topics, topic)
	body := k.AppendTo(nil)
	var p ProduceRequest
	b.ReportAllocs()
	for b.Loop() {
		if p.Parse(12, body) != nil {
			b.Fatal("not parsed")
		}
		for it := p.Partitions(); it.Next(); {
			_ = it.Records
		}
	}
}
