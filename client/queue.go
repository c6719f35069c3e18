package client

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// never is a time that does not come.
const never = math.MaxInt64

// DeliveryTimeoutError: the records of a batch were not acknowledged in time.
type DeliveryTimeoutError struct {
	Topic     string
	Partition int32
	Sent      bool  // they were sent, and may have been appended all the same
	Last      error // what the last attempt ended with; nil: there was none
}

func (e *DeliveryTimeoutError) Error() string {
	text := fmt.Sprintf("records for %s-%d were not acknowledged within the delivery timeout", e.Topic, e.Partition)
	if !e.Sent {
		text = fmt.Sprintf("records for %s-%d could not be sent within the delivery timeout", e.Topic, e.Partition)
	}
	if e.Last != nil {
		text += ": " + e.Last.Error()
	}
	return text
}
func (e *DeliveryTimeoutError) Unwrap() error { return e.Last }

// FatalError ends a producer: nothing can be sent any more without the danger that records are lost or doubled. Close it, find out what happened, and make another.
type FatalError struct{ Err error }

func (e *FatalError) Error() string { return "the producer cannot go on: " + e.Err.Error() }
func (e *FatalError) Unwrap() error { return e.Err }

// queueRules are the same for all partitions of a producer. Times are ns.
type queueRules struct {
	topic       string
	linger      int64
	maxInFlight int
	idempotent  bool
	backoff     func(n int) int64 // before retry n, from 1
}

// queue is the records of one partition, in order: batches that are sent or wait, and one that is open. It is a pure state machine: its owner holds the lock, tells the time
// (ns, any origin), sends what take returns and hands in what becomes of it.
//
// Order. Batches are in flight from the front on. When one fails in a way that a retry may mend, nothing is sent (halted) until all that are in flight have
// their answers; then all that are not appended are sent again, from the first on. Their owners are told in order: a finished batch waits for those before it.
//
// Window. A broker recognises the last five batches of a producer. So no new batch is sent when the fifth one before it is not acknowledged, even if those between are: its
// answer was lost, perhaps, and when it is sent again it must be recognised.
//
// Numbers. An idempotent producer's batch gets the next sequence number when it is first sent, and keeps it over retries: the broker knows it again. When a batch is given up
// that had a number (rejected, or timed out), there is a gap: the broker refuses those behind it. Then they are numbered from 0 in a new epoch of this partition, but not before
// the fate of each is known, or it would be there twice: one that may have been appended is sent again with its old number, and is either known to the broker
// (appended) or refused as out of order (not appended). The epoch is the partition's own: brokers keep it by partition.
//
// A broker that does not know the producer takes any number. So nothing follows the first batch of an epoch, or the first one after a long silence (the broker may have forgotten
// the producer), until it is acknowledged: if it failed and the second did not, it could never be sent again.
//
// Fatal is a batch that is refused as out of order though all before it are acknowledged: the broker has lost records. So is being fenced.
type queue struct {
	rules     *queueRules
	partition int32

	open   *batch
	sealed []*batch // from head on
	head   int

	flying   int  // batches in flight
	alone    bool // the one in flight, which nothing may follow before it is acknowledged
	halted   bool
	failures int // in a row
	retryAt  int64

	producerID int64
	epoch      int16
	nextSeq    int32
	gap        bool
	knownUntil int64 // the broker is taken to know the producer; 0: it does not

	fatal error // no more: everything fails with it
}

// where names the partition, for messages.
func (q *queue) where() string { return fmt.Sprintf("%s-%d", q.rules.topic, q.partition) }

// append adds a record to the open batch, if there is one with room.
func (q *queue) append(bound int, ms int64, r *Record, done func(Delivery, error)) bool {
	if q.open == nil || q.open.builder.Room() < bound {
		return false
	}
	q.open.add(ms, r, done)
	return true
}

// seal closes the open batch.
func (q *queue) seal() {
	if q.open != nil {
		q.sealed = append(q.sealed, q.open)
		q.open = nil
	}
}

// live are the sealed batches that are not yet told.
func (q *queue) live() []*batch { return q.sealed[q.head:] }

// firstWaiting is the batch to send next, if it may be sent.
func (q *queue) firstWaiting() *batch {
	for _, b := range q.live() {
		if b.state == waiting {
			return b
		}
	}
	return nil
}

// window is how many batches of a producer a broker recognises.
const window = 5

// unsettled is how many batches there are from the first one that has no answer that counts to the last one that was sent.
func (q *queue) unsettled() int {
	first, last := -1, -2
	for i, b := range q.live() {
		if b.state != finished && first < 0 {
			first = i
		}
		if b.numbered {
			last = i
		} else if b.state == waiting {
			break
		}
	}
	if first < 0 {
		return 0
	}
	return max(last-first+1, 0)
}

// sendAt is when take has something; never while something else must happen first.
func (q *queue) sendAt() int64 {
	if q.fatal != nil || q.flying >= q.rules.maxInFlight || q.flying > 0 && (q.halted || q.gap || q.alone) {
		return never
	}
	b := q.firstWaiting()
	if b == nil && q.open == nil || q.rules.idempotent && (b == nil || !b.numbered) && q.unsettled() >= window {
		return never
	}
	if b != nil {
		return q.retryAt
	}
	at := q.open.created + q.rules.linger
	if q.open.leave {
		at = q.open.created
	}
	return max(at, q.retryAt)
}

// expireAt is when expire has something.
func (q *queue) expireAt() int64 {
	for _, b := range q.live() {
		switch b.state {
		case waiting:
			return b.deadline
		case inFlight:
			return never // it comes first, and has its answer, or its connection's end, in time
		}
	}
	if q.open != nil {
		return q.open.deadline
	}
	return never
}

// expire fails what is too old, in order. cause is why it was not sent, where no attempt says it better; it may be nil.
func (q *queue) expire(now int64, cause error) {
	if q.open != nil && q.open.deadline <= now {
		q.seal()
	}
	for _, b := range q.live() {
		if b.state == finished {
			continue
		}
		if b.state == inFlight || b.deadline > now {
			return
		}
		if b.err != nil {
			cause = b.err
		}
		q.abandon(b, &DeliveryTimeoutError{q.rules.topic, q.partition, b.unknown, cause})
	}
}

// abandon fails a batch whose number, if it has one, leaves a gap.
func (q *queue) abandon(b *batch, err error) {
	q.gap = q.gap || b.numbered
	b.finish(err)
}

// take is the next batch to send, which is in flight from now on; nil when there is none now. producerID is that of an idempotent producer.
func (q *queue) take(now, producerID int64) *batch {
	if q.sendAt() > now {
		return nil
	}
	if q.flying == 0 {
		q.halted = false
	}
	b := q.firstWaiting()
	if b == nil {
		b = q.open
		q.seal()
	}
	if q.gap {
		if b.numbered && b.unknown {
			return q.fly(b) // first its fate
		}
		if !q.renumber() {
			return nil
		}
	}
	if q.rules.idempotent {
		if !b.numbered {
			q.number(b, producerID)
		}
		q.alone = now >= q.knownUntil
	}
	return q.fly(b)
}

func (q *queue) fly(b *batch) *batch {
	b.state = inFlight
	q.flying++
	return b
}

// silence is how long a broker is taken to know a producer that says nothing; Kafka's own default is a day (producer.id.expiration.ms).
const silence = int64(10 * time.Minute)

// number gives a batch the next number.
func (q *queue) number(b *batch, producerID int64) {
	if q.producerID == record.NoProducerID {
		q.producerID = producerID
	}
	b.numbered, b.producerID, b.epoch, b.seq = true, q.producerID, q.epoch, q.nextSeq
	q.nextSeq = record.AddSequence(q.nextSeq, b.builder.Count())
	if b.data != nil {
		b.data.SetProducer(b.producerID, b.epoch, b.seq)
		b.data.UpdateCRC()
	}
}

// renumber begins a new epoch: nothing is in flight, and nothing that waits has been appended. False: there is no epoch left, and the producer has ended.
func (q *queue) renumber() bool {
	if q.epoch == math.MaxInt16 {
		q.end(&FatalError{fmt.Errorf("too many batches for %s were given up (%d)", q.where(), q.epoch)})
		return false
	}
	q.epoch++
	q.nextSeq, q.gap, q.knownUntil = 0, false, 0
	for _, b := range q.live() {
		if b.state == waiting {
			b.numbered, b.unknown = false, false
		}
	}
	return true
}

// answer is what becomes of a batch in flight.
type answer struct {
	kind     answerKind
	offset   int64
	appendMs int64
	err      error // of all kinds but appended
}

type answerKind uint8

const (
	appended        answerKind = iota
	retry                      // not now; it may have been appended or not
	outOfOrder                 // refused for its number
	unknownProducer            // not appended: the broker has forgotten the producer
	rejected                   // not appended, and never will be
	tooLarge                   // rejected, but parts of it might not be: replace comes first where it can be divided
	fatal                      // nothing will be appended any more
)

// kindOf reads an error code.
func kindOf(code protocol.Code) answerKind {
	switch code {
	case protocol.None, protocol.DuplicateSequenceNumber:
		return appended
	case protocol.OutOfOrderSequenceNumber:
		return outOfOrder
	case protocol.UnknownProducerID:
		return unknownProducer
	case protocol.MessageTooLarge, protocol.RecordListTooLarge:
		return tooLarge
	case protocol.InvalidProducerEpoch, protocol.ProducerFenced:
		return fatal
	}
	if code.Retriable() {
		return retry
	}
	return rejected
}

// answered takes in what became of a batch that was in flight.
func (q *queue) answered(b *batch, a answer, now int64) {
	q.flying--
	if !b.numbered && (a.kind == outOfOrder || a.kind == unknownProducer || a.kind == fatal) {
		a.kind = rejected // it has no number that could be wrong
	}
	if a.kind == tooLarge {
		a.kind = rejected
	}
	if a.kind != appended && a.kind != rejected && q.fatal != nil {
		b.finish(q.fatal)
		return
	}
	switch a.kind {
	case appended:
		q.failures, q.alone, q.knownUntil = 0, false, now+silence
		b.offset, b.appendMs = a.offset, a.appendMs
		b.finish(nil)
	case retry:
		b.unknown = true
		q.again(b, a.err)
		q.pause(now)
	case outOfOrder:
		if q.isFirst(b) && !q.gap {
			b.finish(a.err) // replaced by the end's
			q.end(&FatalError{fmt.Errorf("%s refuses records behind those that it has acknowledged, and so has lost some: %w", q.where(), a.err)})
			b.err = q.fatal
			return
		}
		b.unknown = false
		q.again(b, a.err)
	case unknownProducer:
		b.unknown = false
		q.gap = true
		q.again(b, a.err)
		q.pause(now)
	case rejected:
		q.abandon(b, a.err)
		q.halted = q.halted || b.numbered
	case fatal:
		q.end(&FatalError{fmt.Errorf("another producer with its id has written to %s: %w", q.where(), a.err)})
		b.finish(q.fatal)
	}
}

// replace puts others in the place of a batch in flight that was rejected: they have its records.
func (q *queue) replace(b *batch, others []*batch) {
	q.flying--
	q.halted, q.gap = true, q.gap || b.numbered
	i := q.head + slices.Index(q.live(), b)
	q.sealed = slices.Replace(q.sealed, i, i+1, others...)
	if q.fatal != nil {
		q.end(q.fatal)
	}
}

// again makes a batch wait for another attempt.
func (q *queue) again(b *batch, err error) {
	b.state, b.err, q.halted = waiting, err, true
}

// pause puts off the next attempt, once for all batches that fail together.
func (q *queue) pause(now int64) {
	if now >= q.retryAt {
		q.failures++
		q.retryAt = now + q.rules.backoff(q.failures)
	}
}

// blocked notes why nothing can be sent now, and puts it off.
func (q *queue) blocked(err error, now int64) {
	b := q.firstWaiting()
	if b == nil {
		b = q.open
	}
	if b != nil {
		b.err = err
		q.pause(now)
	}
}

// isFirst: all batches before b are acknowledged.
func (q *queue) isFirst(b *batch) bool {
	for _, other := range q.live() {
		if other == b {
			return true
		}
		if other.state != finished || other.err != nil {
			return false
		}
	}
	return true
}

// end fails everything that is not in flight, now and from now on.
func (q *queue) end(err error) {
	if q.fatal == nil {
		q.fatal = err
	}
	q.seal()
	for _, b := range q.live() {
		if b.state == waiting {
			b.finish(q.fatal)
		}
	}
}

// next takes away the first batch when it is finished.
func (q *queue) next() *batch {
	if q.head == len(q.sealed) || q.sealed[q.head].state != finished {
		return nil
	}
	b := q.sealed[q.head]
	q.sealed[q.head] = nil
	if q.head++; q.head == len(q.sealed) {
		q.sealed, q.head = q.sealed[:0], 0
	} else if q.head >= 32 && 2*q.head >= len(q.sealed) {
		n := copy(q.sealed, q.sealed[q.head:])
		clear(q.sealed[n:])
		q.sealed, q.head = q.sealed[:n], 0
	}
	return b
}

// nanos is a duration in ns.
func nanos(d time.Duration) int64 { return int64(d) }
