package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/leatmq/leat/client/admin"
	"github.com/leatmq/leat/record"
)

// ProduceLoad produces to all partitions of a topic, one batch per request.
type ProduceLoad struct {
	Addr, Topic string
	Connections int // connection c has the partitions p with p mod Connections = c, or partition c mod partitions when there are more connections
	InFlight    int // requests of a connection
	Records     int // of a batch
	Size        int // bytes of a record's value
	Rate        float64
	Acks        int16 // 1 or -1 (all)
	// Exclusive says that nobody else writes to the topic: then offsets must follow each other.
	Exclusive bool
	// Stamp writes into each batch when it was to be sent, for a tail.
	Stamp bool

	batchBytes int
	stampAt    int     // in a batch
	acked      []int64 // by partition: the offset behind the last acknowledged record
}

// BatchBytes is the size of each batch, once the load has run.
func (l *ProduceLoad) BatchBytes() int { return l.batchBytes }

// epoch is what stamps count from.
var epoch = time.Now()

type produceSource struct {
	load        *ProduceLoad
	topic       string
	partitions  []int32
	next        []int64 // by place in partitions
	shape       produceAnswer
	frameAt     int // of the partition
	batchAt     int
	batch       record.Batch // a view of the frame
	oncePerConn bool
}

func (l *ProduceLoad) check() error {
	switch {
	case l.Connections < 1 || l.InFlight < 1 || l.Records < 1 || l.Size < 0:
		return errors.New("a produce load needs connections, requests in flight and records")
	case l.Acks != 1 && l.Acks != -1:
		return errors.New("acks must be 1 or all: without an answer there is nothing to measure")
	case l.Stamp && l.Size < 8:
		return errors.New("records need 8 bytes for the time they were sent at")
	}
	return nil
}

func (l *ProduceLoad) open(ctx context.Context) ([]opened, *Result, error) {
	if err := l.check(); err != nil {
		return nil, nil, err
	}
	leaders, err := leadersOf(ctx, l.Addr, l.Topic)
	if err != nil {
		return nil, nil, err
	}
	if l.acked, err = offsetsOf(ctx, l.Addr, l.Topic, len(leaders), admin.Latest); err != nil {
		return nil, nil, err
	}
	result := &Result{Name: "produce"}
	var all []opened
	for c := range l.Connections {
		src := &produceSource{load: l, topic: l.Topic, partitions: partitionsOf(c, l.Connections, len(leaders)), shape: newProduceAnswer(l.Topic)}
		if src.partitions, err = sameLeader(src.partitions, leaders); err != nil {
			return nil, nil, err
		}
		for _, p := range src.partitions {
			src.next = append(src.next, l.acked[p])
		}
		src.oncePerConn = l.Connections <= len(leaders) // no other connection writes to these partitions
		batch, stampAt := newBatch(l.Records, l.Size, uint64(c))
		l.batchBytes, l.stampAt = len(batch), stampAt
		s := &stream{source: src, result: result, inflight: l.InFlight}
		s.frame, src.frameAt, src.batchAt = produceFrame(l.Topic, l.Acks, batch)
		src.batch = record.Batch(s.frame[src.batchAt : src.batchAt+len(batch)])
		if l.Rate > 0 {
			between := time.Duration(float64(time.Second) * float64(l.Records) / l.Rate)
			s.interval = between * time.Duration(l.Connections)
			s.offset = between * time.Duration(c)
		}
		all = append(all, opened{s, leaders[src.partitions[0]]})
	}
	return all, result, nil
}

// partitionsOf is the share of connection c of n.
func partitionsOf(c, n, partitions int) (mine []int32) {
	if n >= partitions {
		return []int32{int32(c % partitions)}
	}
	for p := c; p < partitions; p += n {
		mine = append(mine, int32(p))
	}
	return mine
}

func sameLeader(partitions []int32, leaders []string) ([]int32, error) {
	for _, p := range partitions {
		if leaders[p] != leaders[partitions[0]] {
			return nil, fmt.Errorf("partitions %d and %d have different leaders and cannot share a connection: give at least %d connections", partitions[0], p, len(leaders))
		}
	}
	return partitions, nil
}

func (p *produceSource) prepare(frame []byte, n uint32, intended time.Time) {
	if len(p.partitions) > 1 || n == 0 {
		binary.BigEndian.PutUint32(frame[p.frameAt:], uint32(p.partitions[int(n)%len(p.partitions)]))
	}
	if p.load.Stamp {
		binary.BigEndian.PutUint64(p.batch[p.load.stampAt:], uint64(intended.Sub(epoch)))
		p.batch.UpdateCRC()
	}
}

func (p *produceSource) headSize() int     { return 0 }
func (p *produceSource) whole(uint32) bool { return true }
func (p *produceSource) complete() bool    { return true }
func (p *produceSource) endless() bool     { return false }

func (p *produceSource) answer(n uint32, b []byte, _ int, _ time.Time) (d delivery, err error) {
	i := int(n) % len(p.partitions)
	partition := p.partitions[i]
	offset, err := p.shape.offset(b, p.topic, partition)
	if err != nil {
		return d, fmt.Errorf("produce to %s-%d: %w", p.topic, partition, err)
	}
	if offset < p.next[i] || p.load.Exclusive && p.oncePerConn && offset != p.next[i] {
		return d, fmt.Errorf("produce to %s-%d: base offset %d, want %d", p.topic, partition, offset, p.next[i])
	}
	p.next[i] = offset + int64(p.load.Records)
	p.load.acked[partition] = max(p.load.acked[partition], p.next[i])
	return delivery{records: int64(p.load.Records), bytes: int64(p.load.batchBytes)}, nil
}
