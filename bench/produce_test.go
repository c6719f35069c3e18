//go:build linux

package bench

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// shape is a way to produce, as the comparison of peers names them.
type shape struct {
	name        string
	records     int // of a batch, one batch per request
	value       int // bytes of a record's value
	connections int // each with a partition of its own
	inflight    int // requests of a connection
}

var shapes = []shape{
	{"P64", 64, 1013, 4, 5},
	{"P16", 16, 1013, 4, 5},
	{"P1", 1, 1024, 16, 5},
	{"E16", 1, 100, 16, 1},
	{"E1", 1, 100, 1, 1},
}

// BenchmarkProduce produces through sockets with acks=all: an answer means that the batch is on stable storage. The floor is a server that reads the
// same frames, writes each connection's to a file of its own with pwritev, and answers after an fdatasync it shares with all who wait.
func BenchmarkProduce(b *testing.B) {
	for _, sh := range shapes {
		b.Run(sh.name, func(b *testing.B) { sh.bench(b) })
	}
}

func (sh shape) bench(b *testing.B) {
	broker := startChild(b, brokerSpec(scratch(b)))
	mustCreate(b, broker.addr, "bench", int32(sh.connections))
	answer := newProduceAnswer("bench")
	bare := startChild(b, childSpec{Role: "bare-produce", Dir: scratch(b), Answer: answer.size})
	own := newGenerator(b, sh.streams(b, broker.addr, &answer))
	floor := newGenerator(b, sh.streams(b, bare.addr, nil))
	own.run(b, 200*time.Millisecond)
	broker.profile("produce-" + sh.name)
	compare(b, fmt.Sprintf("produce %s", sh.name), "", func() sample { return broker.measure(func() sample { return own.run(b, *roundTime) }) },
		func() sample { return bare.measure(func() sample { return floor.run(b, *roundTime) }) })
}

// streams connects one stream per partition. Without an answer the server is the floor, whose answers say nothing.
func (sh shape) streams(b *testing.B, addr string, answer *produceAnswer) []*stream {
	var all []*stream
	for i := range sh.connections {
		batch := newBatch(sh.records, sh.value)
		s := &stream{fd: dialRaw(b, addr), inflight: sh.inflight, records: sh.records, bytes: len(batch)}
		s.frame, s.corrAt = frameOf(produceRequest("bench", int32(i), batch))
		s.check = func(*stream, int32, []byte, int) error { return nil }
		if answer != nil {
			s.check = answer.check
		}
		all = append(all, s)
	}
	return all
}

// check demands success and the offset that follows the last one.
func (a *produceAnswer) check(s *stream, n int32, head []byte, size int) error {
	if size != a.size {
		return fmt.Errorf("%d bytes, want %d", size, a.size)
	}
	if code := binary.BigEndian.Uint16(head[a.codeAt:]); code != 0 {
		return fmt.Errorf("error code %d", int16(code))
	}
	if offset := int64(binary.BigEndian.Uint64(head[a.offsetAt:])); offset != int64(n)*int64(s.records) {
		return fmt.Errorf("base offset %d, want %d", offset, int64(n)*int64(s.records))
	}
	return nil
}
