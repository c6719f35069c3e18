package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leatmq/leat/record"
)

// RecordTooLargeError: a record is larger than a request may be.
type RecordTooLargeError struct {
	Topic       string
	Size, Limit int // bytes
}

func (e *RecordTooLargeError) Error() string {
	return fmt.Sprintf("a record for %s takes up to %d bytes, more than the %d of MaxRequestSize", e.Topic, e.Size, e.Limit)
}

// Producer sends records. Its methods may be used by several goroutines.
//
// # Where a record goes
//
// Send chooses the partition and copies the record into the open batch there. A batch leaves when it is full, has waited for Linger, or when memory runs out or somebody flushes. Each broker has a
// sender (sender.go) with one connection, which puts the batches that are due into requests; what the broker says comes back to the partition's queue (queue.go), and from
// there, in order, to the functions that were given to Send.
//
// # Owners and locks
//
// part.mu guards a partition's queue: Send holds it while it copies, a sender while it takes batches, the connection's reading goroutine while it hands in answers. sender.mu guards its list of
// partitions, topicParts.mu the partitions of a topic, Producer.mu the topics. They are taken in the order Producer, topicParts, sender, part, bufferPool; functions of the user are called
// without any of them, but for TopicPartitioner.BatchClosed, with part.mu.
type Producer struct {
	client  *Client
	config  ProducerConfig
	rules   queueRules // but for the topic
	origin  time.Time  // of now
	purpose purpose
	pool    *bufferPool
	clock   *stampClock
	batches sync.Pool // of *batch

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	// requests are those on their way: begun by what is running, ended by answers.
	requests sync.WaitGroup
	ended    atomic.Pointer[error] // why nothing is taken any more
	id       atomic.Int64          // of an idempotent producer; record.NoProducerID: not known
	idError  atomic.Pointer[error] // why it is not known yet
	last     atomic.Pointer[topicParts]

	mu struct {
		sync.Mutex
		topics  map[string]*topicParts
		senders map[int32]*sender
		closed  bool
	}
}

// producers numbers them, so that each has connections of its own.
var producers atomic.Int64

// NewProducer makes a producer. It connects when the first record is sent. Errors: *ConfigError, ErrClosed.
func (c *Client) NewProducer(config ProducerConfig) (*Producer, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	p := &Producer{client: c, config: config, origin: time.Now(), clock: newStampClock(), purpose: purpose(fmt.Sprint("produce ", producers.Add(1)))}
	p.batches.New = func() any { return &batch{} }
	p.pool = newBufferPool(config.BufferMemory, config.BatchSize, p.hurry)
	p.rules = queueRules{linger: nanos(config.Linger), maxInFlight: config.MaxInFlight, idempotent: !config.NotIdempotent, backoff: func(n int) int64 { return nanos(c.backoff(n)) }}
	p.ctx, p.cancel = context.WithCancel(c.ctx)
	p.id.Store(record.NoProducerID)
	p.mu.topics, p.mu.senders = map[string]*topicParts{}, map[int32]*sender{}
	if err := c.join(p); err != nil {
		p.cancel()
		return nil, err
	}
	return p, nil
}

// now is the producer's clock, ns.
func (p *Producer) now() int64 { return nanos(time.Since(p.origin)) }

// Send copies a record into the batch of its partition; it may be used again at once. done, which may be nil, is called when the record's fate is known: exactly once when
// Send returns nil and never else, in the order of Send in each partition. It runs on a goroutine that others wait for, and must not block; a Send in it may find the
// memory used up that only its return would free.
//
// Send waits when the memory is used up and when the topic's partitions are not known yet, until the context or MaxBlock ends. Errors: *RecordTooLargeError, *UnknownTopicError,
// *BufferFullError, *FatalError, ErrClosed, and those of asking for metadata.
func (p *Producer) Send(ctx context.Context, r *Record, done func(Delivery, error)) error {
	part, err := p.partOf(ctx, r)
	if err != nil {
		return err
	}
	return part.send(ctx, r, done, false)
}

// SendSync is Send that waits for the record's fate, or for the end of the context, which says nothing about it. The record's batch does not linger.
func (p *Producer) SendSync(ctx context.Context, r *Record) (Delivery, error) {
	part, err := p.partOf(ctx, r)
	if err != nil {
		return Delivery{}, err
	}
	type fate struct {
		d   Delivery
		err error
	}
	told := make(chan fate, 1)
	if err := part.send(ctx, r, func(d Delivery, err error) { told <- fate{d, err} }, true); err != nil {
		return Delivery{}, err
	}
	select {
	case f := <-told:
		return f.d, f.err
	case <-ctx.Done():
		return Delivery{}, ctx.Err()
	}
}

// partOf chooses the partition of a record.
func (p *Producer) partOf(ctx context.Context, r *Record) (*part, error) {
	if err := p.ended.Load(); err != nil {
		return nil, *err
	}
	t := p.last.Load()
	if t == nil || t.name != r.Topic || t.unknown.Load() {
		var err error
		if t, err = p.topic(ctx, r.Topic); err != nil {
			return nil, err
		}
		p.last.Store(t)
	}
	table := t.table.Load()
	n := t.partitioner.Partition(r, table.view)
	if n < 0 || int(n) >= table.view.Count {
		return nil, fmt.Errorf("the partitioner chose partition %d of %s, which has %d", n, r.Topic, table.view.Count)
	}
	return table.parts[n], nil
}

// Flush sends everything that was given to Send before, without lingering, and waits for its fate, or for the end of the context.
func (p *Producer) Flush(ctx context.Context) error {
	f := newFlush()
	p.eachPart(func(part *part) { part.flush(f) })
	f.release()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close flushes and ends the producer: what the context left no time for fails with ErrClosed. Its error is that of the flush, or what ended the producer before.
func (p *Producer) Close(ctx context.Context) error {
	p.refuse(ErrClosed)
	err := p.Flush(ctx)
	if before := *p.ended.Load(); before != ErrClosed {
		err = before
	}
	p.shut()
	return err
}

// refuse lets Send fail from now on.
func (p *Producer) refuse(err error) { p.ended.CompareAndSwap(nil, &err) }

// fail ends the producer for a reason: nothing is sent any more.
func (p *Producer) fail(err error) {
	p.refuse(err)
	p.eachPart(func(part *part) { part.end(err) })
}

// shut ends the producer at once.
func (p *Producer) shut() {
	p.refuse(ErrClosed)
	p.mu.Lock()
	closed := p.mu.closed
	p.mu.closed = true
	p.mu.Unlock()
	p.cancel()
	if !closed {
		p.fail(ErrClosed)
		p.client.closeConns(p.purpose)
		p.client.leave(p)
		for _, t := range p.topics() {
			p.client.metadata.unwant(t.name)
		}
	}
	p.running.Wait()
	p.requests.Wait()
}

// hurry lets open batches leave: somebody waits for memory.
func (p *Producer) hurry() { p.eachPart((*part).hurry) }

func (p *Producer) topics() (all []*topicParts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.mu.topics {
		all = append(all, t)
	}
	return all
}

func (p *Producer) eachPart(do func(*part)) {
	for _, t := range p.topics() {
		for _, part := range t.table.Load().parts {
			do(part)
		}
	}
}

// flush waits for batches.
type flush struct {
	left atomic.Int64
	done chan struct{}
}

func newFlush() *flush {
	f := &flush{done: make(chan struct{})}
	f.left.Store(1)
	return f
}

func (f *flush) release() {
	if f.left.Add(-1) == 0 {
		close(f.done)
	}
}
