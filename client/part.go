package client

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/protocol"
	"github.com/leatmq/leat/record"
)

// part is a partition that records are sent to: its queue, and who sends for it.
type part struct {
	producer *Producer
	topic    *topicParts
	number   int32
	sender   atomic.Pointer[sender]
	// The queue's sendAt and expireAt, for the sender to look at without the lock.
	sendAt, expireAt atomic.Int64

	mu        sync.Mutex
	queue     queue    // guarded by mu
	telling   bool     // guarded by mu: somebody tells of finished batches, and will of those that follow
	told      []*flush // guarded by mu: those that wait for the batch that is told of now
	largest   int      // guarded by mu: bytes of a batch, before compression; BatchSize, unless the broker found that too large
	firstSize int      // guarded by mu: bytes of the last batches, which the next one has room for at once
}

func newPart(p *Producer, t *topicParts, number int32) *part {
	part := &part{producer: p, topic: t, number: number, largest: p.config.BatchSize}
	part.queue = queue{rules: &t.rules, partition: number, producerID: record.NoProducerID}
	part.note()
	return part
}

// note puts the queue's times where the sender looks, and wakes it when it sleeps longer. mu is held.
func (t *part) note() {
	send, expire := t.publish()
	if s := t.sender.Load(); s != nil && min(send, expire) < s.wakeAt.Load() {
		s.nudge()
	}
}

// publish puts the queue's times where the sender looks. mu is held.
func (t *part) publish() (send, expire int64) {
	send, expire = t.queue.sendAt(), t.queue.expireAt()
	t.sendAt.Store(send)
	t.expireAt.Store(expire)
	return send, expire
}

// closed follows when the open batch has been closed. mu is held.
func (t *part) closed(b *batch) {
	t.firstSize = max(b.builder.Size(), t.firstSize/2)
	t.topic.partitioner.BatchClosed(t.number)
}

// moveTo gives the partition to another sender. The topic's mu is held.
func (t *part) moveTo(s *sender) {
	old := t.sender.Load()
	if old == s {
		return
	}
	if old != nil {
		old.remove(t)
	}
	t.sender.Store(s)
	s.add(t)
	s.nudge()
}

// send adds a record. now: its batch does not linger.
func (t *part) send(ctx context.Context, r *Record, done func(Delivery, error), now bool) error {
	bound := recordBound(r)
	var ms int64
	if r.Timestamp.IsZero() {
		ms = t.producer.clock.now()
	} else {
		ms = r.Timestamp.UnixMilli()
	}
	t.mu.Lock()
	if t.queue.fatal != nil || !t.queue.append(bound, ms, r, done) {
		if err := t.sendSlowly(ctx, bound, ms, r, done); err != nil {
			t.mu.Unlock()
			return err
		}
	}
	if now && !t.queue.open.leave {
		t.queue.open.leave = true
		t.note()
	}
	t.mu.Unlock()
	return nil
}

// sendSlowly adds a record for which the open batch has no room: it gets a larger buffer, or another batch begins. mu is held, but while it waits.
func (t *part) sendSlowly(ctx context.Context, bound int, ms int64, r *Record, done func(Delivery, error)) error {
	p := t.producer
	need := record.HeaderSize + bound
	if need > p.config.MaxRequestSize {
		return &RecordTooLargeError{t.topic.name, need, p.config.MaxRequestSize}
	}
	for {
		if t.queue.fatal != nil {
			return t.queue.fatal
		}
		if t.queue.append(bound, ms, r, done) {
			return nil
		}
		if t.queue.open != nil && t.grow(bound) {
			continue
		}
		if b := t.queue.open; b != nil {
			t.queue.seal()
			t.closed(b)
			t.note()
		}
		size := max(need, min(t.firstSize, t.largest))
		buf := p.pool.try(size)
		if buf == nil && size > need {
			buf = p.pool.try(need)
		}
		if buf == nil {
			t.mu.Unlock()
			var err error
			buf, err = p.waitForMemory(ctx, size)
			t.mu.Lock()
			if err != nil {
				return err
			}
			if t.queue.open != nil || t.queue.fatal != nil { // others were here meanwhile
				p.pool.put(buf)
				continue
			}
		}
		t.begin(buf)
	}
}

// grow gives the open batch a larger buffer; false when it is as large as it may be, or there is no memory.
func (t *part) grow(bound int) bool {
	p, b := t.producer, t.queue.open
	size := b.builder.Size()
	if size+bound > t.largest {
		return false
	}
	buf := p.pool.try(max(size+bound, min(2*(size+b.builder.Room()), t.largest)))
	if buf == nil {
		return false
	}
	p.pool.put(b.builder.SetBuffer(buf))
	return true
}

// options are those of all batches, but for the producer's numbers.
func (p *Producer) options() record.Options {
	return record.Options{Codec: p.config.Compression, Level: p.config.CompressionLevel}
}

// begin opens a batch.
func (t *part) begin(buf []byte) {
	p := t.producer
	b, now := p.batches.Get().(*batch), p.now()
	b.reset(buf, p.options(), now, now+nanos(p.config.DeliveryTimeout))
	t.queue.open = b
	t.note()
}

// waitForMemory waits for a buffer, as configured.
func (p *Producer) waitForMemory(ctx context.Context, n int) ([]byte, error) {
	if p.config.FailOnFullBuffer {
		return nil, &BufferFullError{p.config.BufferMemory, n}
	}
	outer := ctx
	ctx, cancel := p.block(ctx)
	defer cancel()
	buf, err := p.pool.wait(ctx, n)
	switch {
	case err == nil:
		return buf, nil
	case p.ctx.Err() != nil:
		return nil, ErrClosed
	case outer.Err() != nil:
		return nil, giveUp(outer.Err(), &BufferFullError{p.config.BufferMemory, n})
	}
	return nil, &BufferFullError{p.config.BufferMemory, n}
}

// flush lets the open batch leave, and f wait for all batches.
func (t *part) flush(f *flush) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.telling {
		f.left.Add(1)
		t.told = append(t.told, f)
	}
	wait := func(b *batch) {
		f.left.Add(1)
		b.flushes = append(b.flushes, f)
	}
	for _, b := range t.queue.live() {
		wait(b)
	}
	if b := t.queue.open; b != nil {
		wait(b)
		b.leave = true
		t.note()
	}
}

// hurry lets the open batch leave.
func (t *part) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queue.open != nil {
		t.queue.open.leave = true
		t.note()
	}
}

// end fails everything that is not in flight, now and from now on.
func (t *part) end(err error) {
	t.mu.Lock()
	t.queue.end(err)
	t.tell()
}

// take is the next batch to send. The sender, which asks, looks at the queue's times by itself.
func (t *part) take(now int64) *batch {
	t.mu.Lock()
	open := t.queue.open
	b := t.queue.take(now, t.producer.id.Load())
	if open != nil && t.queue.open == nil {
		t.closed(open)
	}
	t.publish()
	err := t.queue.fatal
	t.mu.Unlock()
	if b == nil && err != nil {
		t.ended(err)
	}
	return b
}

// ended ends the producer when the queue has ended for a reason of its own.
func (t *part) ended(err error) {
	if fatal, ok := errors.AsType[*FatalError](err); ok && t.producer.ended.Load() == nil {
		t.producer.client.config.Logger.Error("a producer has ended", "err", fatal)
		t.producer.fail(fatal)
	}
}

// expire fails what is too old.
func (t *part) expire(now int64) {
	t.mu.Lock()
	t.queue.expire(now, t.cause())
	t.tell()
}

// cause is why nothing is sent though it is due.
func (t *part) cause() error {
	if err := t.producer.idError.Load(); err != nil {
		return *err
	}
	if t.sender.Load().broker < 0 {
		return &Error{Code: protocol.LeaderNotAvailable, Where: t.queue.where()}
	}
	return nil
}

// blocked notes why nothing can be sent now.
func (t *part) blocked(err error, now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.blocked(err, now)
	t.note()
}

// answered hands in what became of a batch in flight.
func (t *part) answered(b *batch, a answer, now int64) {
	t.mu.Lock()
	if halves := []*batch(nil); a.kind == tooLarge {
		if halves = t.split(b); halves != nil {
			t.queue.replace(b, halves)
			t.drop(b)
			t.tell()
			return
		}
	}
	t.queue.answered(b, a, now)
	err := t.queue.fatal
	t.tell()
	if err != nil {
		t.ended(err)
	}
}

// tell tells of all batches at the front that are finished, in order, whoever finishes them meanwhile. It is called with mu held and returns without.
func (t *part) tell() {
	if t.telling {
		t.note()
		t.mu.Unlock()
		return
	}
	t.telling = true
	for b := t.queue.next(); b != nil; b = t.queue.next() {
		t.mu.Unlock()
		t.deliver(b)
		t.mu.Lock()
		for _, f := range t.told {
			f.release()
		}
		clear(t.told)
		t.told = t.told[:0]
	}
	t.telling = false
	t.note()
	t.mu.Unlock()
}

// deliver gives a finished batch's memory back, calls the functions of its records, and lets go of it.
func (t *part) deliver(b *batch) {
	p := t.producer
	count, buf := int(b.builder.Count()), b.builder.SetBuffer(nil)
	size := len(buf)
	p.pool.put(buf)
	b.data = nil
	b.tell(t.topic.name, t.number)
	if hook := p.client.config.Hooks.Delivered; hook != nil {
		hook(t.topic.name, t.number, count, size, time.Duration(p.now()-b.created), b.err)
	}
	for _, f := range b.flushes {
		f.release()
	}
	p.batches.Put(b)
}
