package client

import (
	"time"

	"github.com/leatmq/leat/record"
)

// Delivery is where a record went.
type Delivery struct {
	Topic     string
	Partition int32
	Offset    int64     // -1: the broker does not tell (acks 0)
	Appended  time.Time // by the broker's clock, where the topic has that for its timestamps (LogAppendTime); else zero
}

// recordOverhead is the most that a record takes in a batch beside its key, value and headers: three lengths, the number of headers and the two deltas as varints, and
// the attributes. headerOverhead is that of a header.
const (
	recordOverhead = 5*5 + 10 + 1
	headerOverhead = 2 * 5
)

// recordBound is at least the bytes of a record in a batch.
func recordBound(r *Record) int {
	n := recordOverhead + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += headerOverhead + len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

type batchState uint8

const (
	waiting  batchState = iota // sealed, to be sent
	inFlight                   // sent, not answered
	finished                   // its records' fate is known, or given up
)

// batch is records of one partition on their way. It belongs to its queue; while it is in flight, the bytes belong to the connection.
type batch struct {
	builder  record.Builder
	dones    []func(Delivery, error) // by record; empty: nobody waits for any
	flushes  []*flush                // those that wait for the batch
	created  int64                   // ns of the producer's clock
	deadline int64                   // likewise: when its records have failed
	leave    bool                    // it does not linger

	state      batchState
	data       record.Batch // made when it is first sent
	numbered   bool         // the next three are given
	producerID int64
	epoch      int16
	seq        int32
	unknown    bool // it was sent with these numbers, and may have been appended

	offset   int64 // of its first record, when it is finished without an error
	appendMs int64 // the broker's append time; -1: none
	err      error // why its records failed, or were not sent until now
}

// reset makes an empty batch of b, with a buffer.
func (b *batch) reset(buf []byte, o record.Options, created, deadline int64) {
	b.builder.ResetIn(buf, o)
	clear(b.dones)
	*b = batch{builder: b.builder, dones: b.dones[:0], created: created, deadline: deadline, offset: -1, appendMs: -1}
}

// add adds a record, for which there is room.
func (b *batch) add(ms int64, r *Record, done func(Delivery, error)) {
	b.builder.Append(ms, r.Key, r.Value, r.Headers)
	if done == nil && len(b.dones) == 0 {
		return
	}
	for n := int(b.builder.Count()) - 1; len(b.dones) < n; {
		b.dones = append(b.dones, nil)
	}
	b.dones = append(b.dones, done)
}

// finish decides the fate of the records.
func (b *batch) finish(err error) { b.state, b.err = finished, err }

// tell calls the functions of the records, in their order.
func (b *batch) tell(topic string, partition int32) {
	d := Delivery{Topic: topic, Partition: partition, Offset: -1}
	if b.err == nil && b.appendMs >= 0 {
		d.Appended = time.UnixMilli(b.appendMs)
	}
	for i, done := range b.dones {
		if done == nil {
			continue
		}
		if b.err == nil && b.offset >= 0 {
			d.Offset = b.offset + int64(i)
		}
		done(d, b.err)
	}
}

// seal makes the bytes of a batch that is numbered where it must be. scratch is memory to compress in, which is returned.
func (b *batch) seal(scratch []byte) []byte {
	if b.numbered {
		b.builder.SetProducer(b.producerID, b.epoch, b.seq)
	}
	b.data, scratch = b.builder.Seal(scratch)
	return scratch
}
