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

// viaKmsg is the same answer written by kmsg, with these records, frame and header included.
func viaKmsg(r *FetchResponse, records func(topic, partition int) []byte) []byte {
	k := kmsg.NewPtrFetchResponse()
	k.Version = r.Version
	k.ThrottleMillis, k.ErrorCode, k.SessionID = r.ThrottleMs, int16(r.ErrorCode), r.SessionID
	for ti, t := range r.Topics {
		kt := kmsg.NewFetchResponseTopic()
		kt.Topic, kt.TopicID = t.Name, t.ID
		for pi := range t.Partitions {
			kt.Partitions = append(kt.Partitions, partitionViaKmsg(&t.Partitions[pi], records(ti, pi)))
		}
		k.Topics = append(k.Topics, kt)
	}
	if r.Version >= 16 {
		for _, n := range r.Nodes {
			b := kmsg.NewFetchResponseBroker()
			b.NodeID, b.Host, b.Port = n.ID, n.Host, n.Port
			if n.HasRack {
				b.Rack = &n.Rack
			}
			k.Brokers = append(k.Brokers, b)
		}
	}
	return AppendResponse(nil, r.CorrelationID, k)
}

func partitionViaKmsg(p *FetchPartition, records []byte) kmsg.FetchResponseTopicPartition {
	k := kmsg.NewFetchResponseTopicPartition()
	k.Partition, k.ErrorCode = p.Index, int16(p.ErrorCode)
	k.HighWatermark, k.LastStableOffset, k.LogStartOffset = p.HighWatermark, p.LastStable, p.LogStart
	k.PreferredReadReplica, k.RecordBatches = p.PreferredReplica, records
	if !p.AbortedNull || len(p.Aborted) > 0 {
		k.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
	}
	for _, a := range p.Aborted {
		ka := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		ka.ProducerID, ka.FirstOffset = a.ProducerID, a.FirstOffset
		k.AbortedTransactions = append(k.AbortedTransactions, ka)
	}
	if p.DivergingEpoch != nil {
		k.DivergingEpoch.Epoch, k.DivergingEpoch.EndOffset = p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset
	}
	if p.CurrentLeader != nil {
		k.CurrentLeader.LeaderID, k.CurrentLeader.LeaderEpoch = p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch
	}
	return k
}

// assemble puts the records between the parts, as netio does.
func assemble(r *FetchResponse, parts [][]byte, records func(topic, partition int) []byte) []byte {
	var frame []byte
	next := 0
	for ti := range r.Topics {
		for pi := range r.Topics[ti].Partitions {
			if r.Topics[ti].Partitions[pi].RecordsLen > 0 {
				frame = append(frame, parts[next]...)
				frame = append(frame, records(ti, pi)...)
				next++
			}
		}
	}
	frame = append(frame, parts[next]...)
	if next+1 != len(parts) {
		panic(fmt.Sprintf("%d parts for %d ranges of records", len(parts), next))
	}
	return frame
}

func checkFetchEncoder(t *testing.T, e *FetchEncoder, r *FetchResponse) {
	t.Helper()
	records := func(ti, pi int) []byte {
		n := r.Topics[ti].Partitions[pi].RecordsLen
		if n < 0 {
			return nil
		}
		return bytes.Repeat([]byte{byte(1 + ti*7 + pi)}, n)
	}
	parts, total := e.Encode(r)
	got, want := assemble(r, parts, records), viaKmsg(r, records)
	if !bytes.Equal(got, want) {
		t.Fatalf("v%d:\n got %x\nwant %x", r.Version, got, want)
	}
	if total != len(want) || int(binary.BigEndian.Uint32(got)) != len(want)-4 {
		t.Fatalf("v%d: total %d, frame length %d, it is %d bytes", r.Version, total, binary.BigEndian.Uint32(got), len(want))
	}
}

func randomFetchResponse(r *rand.Rand, version int16) *FetchResponse {
	resp := &FetchResponse{Version: version, CorrelationID: r.Int32(), ThrottleMs: r.Int32N(100), ErrorCode: Code(r.IntN(130)), SessionID: r.Int32()}
	lengths := []int{-1, 0, 1, 62, 126, 127, 128, 5000, 16382, 16383, 70000}
	for range r.IntN(4) {
		topic := FetchTopic{Name: strings.Repeat("n", r.IntN(130))}
		binary.BigEndian.PutUint64(topic.ID[:], r.Uint64())
		for range r.IntN(4) {
			p := FetchPartition{Index: r.Int32N(200), ErrorCode: Code(r.IntN(100) - 1), HighWatermark: r.Int64(), LastStable: r.Int64(), LogStart: r.Int64() - 1,
				AbortedNull: r.IntN(2) == 0, PreferredReplica: r.Int32N(3) - 1, RecordsLen: lengths[r.IntN(len(lengths))]}
			for range r.IntN(3) {
				p.Aborted = append(p.Aborted, AbortedTxn{r.Int64(), r.Int64()})
			}
			if r.IntN(3) == 0 {
				p.DivergingEpoch = &EpochEnd{r.Int32N(3) - 1, r.Int64N(3) - 1}
			}
			if r.IntN(3) == 0 {
				p.CurrentLeader = &LeaderHint{r.Int32N(3) - 1, r.Int32N(3) - 1}
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	resp.Nodes = randomNodes(r)
	return resp
}

func randomNodes(r *rand.Rand) []Node {
	var nodes []Node
	for range r.IntN(3) {
		nodes = append(nodes, Node{ID: r.Int32N(9), Host: strings.Repeat("h", r.IntN(140)), Port: r.Int32N(65536), Rack: strings.Repeat("r", r.IntN(130)), HasRack: r.IntN(2) == 0})
	}
	for i := range nodes {
		if !nodes[i].HasRack {
			nodes[i].Rack = ""
		}
	}
	return nodes
}

func TestFetchEncoderLikeKmsg(t *testing.T) {
	var e FetchEncoder
	for version := int16(4); version <= 18; version++ {
		checkFetchEncoder(t, &e, &FetchResponse{Version: version})
		one := FetchPartition{HighWatermark: 10, LastStable: 10, AbortedNull: true, PreferredReplica: -1}
		for _, n := range []int{-1, 0, 1, 100, 127, 128, 1 << 14, 1<<21 + 3} {
			p := one
			p.RecordsLen = n
			checkFetchEncoder(t, &e, &FetchResponse{Version: version, Topics: []FetchTopic{{Name: "topic", Partitions: []FetchPartition{p, one, p}}}})
		}
		r := newRand(uint64(version))
		for range 300 {
			checkFetchEncoder(t, &e, randomFetchResponse(r, version))
		}
	}
}

func TestFetchEncoderAllocations(t *testing.T) {
	r := &FetchResponse{Version: 18, Topics: []FetchTopic{{Partitions: make([]FetchPartition, 100)}}, Nodes: []Node{{ID: 1, Host: "localhost", Port: 9092}}}
	for i := range r.Topics[0].Partitions {
		r.Topics[0].Partitions[i] = FetchPartition{RecordsLen: 1000, AbortedNull: true, CurrentLeader: &LeaderHint{1, 2}}
	}
	var e FetchEncoder
	e.Encode(r)
	if n := testing.AllocsPerRun(100, func() { e.Encode(r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzFetchEncoder(f *testing.F) {
	for version := int16(4); version <= 18; version++ {
		f.Add(version, uint64(version))
	}
	f.Fuzz(func(t *testing.T, version int16, seed uint64) {
		version = 4 + int16(uint16(version)%15)
		checkFetchEncoder(t, new(FetchEncoder), randomFetchResponse(newRand(seed), version))
	})
}

func BenchmarkFetchEncoder100(b *testing.B) {
	r := &FetchResponse{Version: 16, Topics: []FetchTopic{{Partitions: make([]FetchPartition, 100)}}}
	for i := range r.Topics[0].Partitions {
		r.Topics[0].Partitions[i] = FetchPartition{Index: int32(i), RecordsLen: 16384, AbortedNull: true, PreferredReplica: -1}
	}
	var e FetchEncoder
	b.ReportAllocs()
	for b.Loop() {
		e.Encode(r)
	}
}
