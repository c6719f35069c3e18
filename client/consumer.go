package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Consumer reads records: of partitions that it is told (Assign), or of topics, which it shares with the other members of its group (Subscribe). Its methods may
// be used by several goroutines; calls of Poll wait for one another.
//
// # Positions
//
// A partition has a position, the offset of the next record that Poll returns. It begins at the group's committed offset, or where OffsetReset says, and is moved by Poll and Seek. Fetching goes
// ahead of it, within BufferMemory. Where a leader is elected that has lost records, that is noticed by the leader epochs of what was read (KIP-320): the position goes back to where the
// logs part, or Poll says so (OffsetReset: ResetNone).
//
// # Goroutines
//
//	keeper    one: sees to it that partitions have leaders and positions
//	fetchers  one for each broker that leads a partition: one fetch at a time, in a session, on a connection of its own
//	member    one with a group: heartbeats, joining, committing (group.go)
//
// All end with Close. Records are decoded by Poll, in the caller's goroutine. mu guards all partitions; no I/O happens under it.
type Consumer struct {
	client  *Client
	config  ConsumerConfig
	fetches purpose // of connections for fetches
	grouped purpose // of the one to the coordinator that joins and beats
	commits purpose // of the one that commits: joining may wait long on the other

	open    context.Context // ends when Close begins
	closing context.CancelFunc
	memory  fetchMemory
	slab    []Record // of the last Poll, with ReuseMemory; held with polling

	ctx     context.Context // ends when Close has nothing more to say
	cancel  context.CancelFunc
	running sync.WaitGroup
	polling chan struct{} // one place: held by the Poll or Close at work
	news    chan struct{} // one place: there is something for Poll
	work    chan struct{} // one place: there is something for the keeper

	mu struct {
		sync.Mutex
		parts    map[TopicPartition]*partition
		order    []*partition // in the order in which they came
		version  uint64       // the last one given
		ready    []*chunk     // fetched, in the order in which it came
		fetchers map[int32]*fetcher
		leaving  [][]byte      // memory that may be looked at until the next Poll
		lastErr  error         // why brokers could not be asked, of late; nil when they could
		lastTurn chan struct{} // of the last commit; nil: there was none
		changed  chan struct{} // closed when a position or an error is there that was not
		closed   bool
		group    *group // nil: never subscribed
		member   membership
	}
}

// NewConsumer makes a consumer. It has no partitions yet, and asks nobody anything. Errors: *ConfigError, ErrClosed.
func (c *Client) NewConsumer(config ConsumerConfig) (*Consumer, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	if config.MaxWait >= c.config.RequestTimeout {
		return nil, &ConfigError{"MaxWait", fmt.Sprintf("is %v: it must be less than RequestTimeout (%v)", config.MaxWait, c.config.RequestTimeout)}
	}
	id := c.lastID.Add(1)
	r := &Consumer{
		client: c, config: config, fetches: purpose(fmt.Sprint("fetch ", id)), grouped: purpose(fmt.Sprint("group ", id)), commits: purpose(fmt.Sprint("commit ", id)),
		polling: make(chan struct{}, 1), news: make(chan struct{}, 1), work: make(chan struct{}, 1),
	}
	r.ctx, r.cancel = context.WithCancel(c.ctx)
	r.open, r.closing = context.WithCancel(r.ctx)
	r.mu.parts, r.mu.fetchers, r.mu.changed = map[TopicPartition]*partition{}, map[int32]*fetcher{}, make(chan struct{})
	r.memory.reuse = config.ReuseMemory
	if err := c.join(r); err != nil {
		return nil, err
	}
	c.conns.setMemory(r.fetches, r.memory.take)
	r.running.Go(r.keep)
	return r, nil
}

// shut ends the consumer at once: nothing is committed, nobody is told.
func (r *Consumer) shut() {
	r.cancel()
	r.running.Wait()
	r.assign(nil)
	r.client.conns.setMemory(r.fetches, nil)
	for _, p := range []purpose{r.fetches, r.grouped, r.commits} {
		r.client.closeConns(p)
	}
}

// Close ends the consumer: its partitions are given up (with a commit and OnRevoked), it leaves the group unless it is a static member, and what CommitAsync has begun is finished, within the context. Records that were not polled are dropped. The error is why something of this could not be done; the
// consumer is closed all the same.
func (r *Consumer) Close(ctx context.Context) error {
	if !r.closeOnce() {
		return ErrClosed
	}
	r.closing()
	r.polling <- struct{}{} // Poll returns soon, and never again begins
	r.mu.Lock()
	g, member := r.mu.group, r.mu.member
	r.mu.Unlock()
	err := g.close(ctx, member)
	r.mu.Lock()
	last := r.mu.lastTurn
	r.mu.Unlock()
	err = errors.Join(err, waitFor(ctx, last))
	r.cancel()
	r.running.Wait()
	r.client.closeConns(r.fetches) // with a fetch that waits: it must not be in the way of the end of its session
	r.sayFarewell(ctx)
	r.shut()
	r.client.leave(r)
	return err
}

// closeOnce says whether this is the first Close.
func (r *Consumer) closeOnce() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed || r.ctx.Err() != nil {
		return false
	}
	r.mu.closed = true
	return true
}

// waitFor waits until a channel is closed; nil is.
func waitFor(ctx context.Context, done <-chan struct{}) error {
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Assign makes partitions those of the consumer: what it had and has is left as it is, the rest is new or gone. It is not for consumers that Subscribe.
func (r *Consumer) Assign(partitions ...TopicPartition) error {
	for _, tp := range partitions {
		if tp.Topic == "" || tp.Partition < 0 {
			return &ConfigError{"Assign", fmt.Sprintf("is told of partition %q-%d: there is no such name or number", tp.Topic, tp.Partition)}
		}
	}
	if r.open.Err() != nil {
		return ErrClosed
	}
	if g := r.groupOf(); g != nil {
		if sub, _ := g.subscribed(); sub != nil || len(g.owned()) > 0 {
			return &ConfigError{"Assign", "is called on a consumer that subscribes: Unsubscribe first, and Poll, which gives up what it has"}
		}
	}
	r.assign(partitions)
	return nil
}

// assign replaces the set of partitions.
func (r *Consumer) assign(partitions []TopicPartition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep := make(map[TopicPartition]bool, len(partitions))
	for _, tp := range partitions {
		keep[tp] = true
	}
	for _, p := range r.mu.order {
		if !keep[p.tp] {
			r.dropLocked(p)
		}
	}
	r.mu.order = slices.DeleteFunc(r.mu.order, func(p *partition) bool { return p.gone })
	for _, tp := range partitions {
		if r.mu.parts[tp] == nil {
			r.addLocked(tp)
		}
	}
	poke(r.work)
	poke(r.news)
	r.changedLocked()
}

func (r *Consumer) addLocked(tp TopicPartition) {
	p := newPartition(tp, r.nextVersionLocked())
	r.mu.parts[tp] = p
	r.mu.order = append(r.mu.order, p)
	r.client.metadata.want(tp.Topic)
	if r.config.Group == "" {
		r.beginLocked(p)
	}
}

func (r *Consumer) dropLocked(p *partition) {
	p.gone = true
	delete(r.mu.parts, p.tp)
	r.forgetFetchedLocked(p)
	p.version = r.nextVersionLocked()
	r.client.metadata.unwant(p.tp.Topic)
}

func (r *Consumer) nextVersionLocked() uint64 {
	r.mu.version++
	return r.mu.version
}

// changedLocked wakes whoever waits for a position.
func (r *Consumer) changedLocked() {
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

// beginLocked gives a partition without a committed offset a place to begin.
func (r *Consumer) beginLocked(p *partition) {
	timestamp, orLast, ok := r.config.OffsetReset.target(time.Now())
	if !ok {
		r.failLocked(p, &NoOffsetError{p.tp})
		return
	}
	p.locate(r.nextVersionLocked(), timestamp, orLast)
}

// failLocked leaves a partition to the user.
func (r *Consumer) failLocked(p *partition, err error) {
	r.forgetFetchedLocked(p)
	p.fail(r.nextVersionLocked(), err)
	r.tellLocked()
}

// tellLocked is called when a partition has an error for the user.
func (r *Consumer) tellLocked() {
	poke(r.news)
	r.changedLocked()
}

// forgetFetchedLocked drops what was fetched of a partition and not handed out.
func (r *Consumer) forgetFetchedLocked(p *partition) {
	r.mu.ready = slices.DeleteFunc(r.mu.ready, func(k *chunk) bool {
		if k.p != p {
			return false
		}
		r.drainedLocked(k)
		return true
	})
}

// drainedLocked gives the memory of a chunk back.
func (r *Consumer) drainedLocked(k *chunk) {
	if k.p.version == k.version {
		k.p.drained(k.size)
	}
	k.by.buffered -= k.size
	r.leavingLocked(k)
	poke(k.by.wake)
}

// Assignment is the partitions of the consumer.
func (r *Consumer) Assignment() []TopicPartition {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]TopicPartition, 0, len(r.mu.order))
	for _, p := range r.mu.order {
		all = append(all, p.tp)
	}
	slices.SortFunc(all, TopicPartition.Compare)
	return all
}

// Seek moves the position of a partition. What was fetched of it is dropped. Errors: *NotAssignedError.
func (r *Consumer) Seek(tp TopicPartition, to Offset) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.mu.parts[tp]
	if p == nil {
		return &NotAssignedError{tp}
	}
	r.forgetFetchedLocked(p)
	if to.at >= 0 {
		p.set(r.nextVersionLocked(), position{to.at, to.epoch}, true)
	} else {
		p.locate(r.nextVersionLocked(), to.timestamp, to.timestamp >= 0)
	}
	r.wakeFetchersLocked()
	poke(r.work)
	r.changedLocked()
	return nil
}

// Pause stops partitions from being fetched and polled until Resume. What is fetched already is kept. Errors: *NotAssignedError.
func (r *Consumer) Pause(partitions ...TopicPartition) error { return r.pause(true, partitions) }

// Resume ends Pause.
func (r *Consumer) Resume(partitions ...TopicPartition) error { return r.pause(false, partitions) }

func (r *Consumer) pause(paused bool, partitions []TopicPartition) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, tp := range partitions {
		if r.mu.parts[tp] == nil {
			return &NotAssignedError{tp}
		}
	}
	for _, tp := range partitions {
		r.mu.parts[tp].paused = paused
	}
	r.wakeFetchersLocked()
	poke(r.news)
	return nil
}

// Position is the offset of the next record that Poll returns of a partition. It waits until there is one. Errors: *NotAssignedError, what keeps the partition
// from having a position, ErrClosed, and that of the context.
func (r *Consumer) Position(ctx context.Context, tp TopicPartition) (int64, error) {
	for {
		r.mu.Lock()
		p, changed := r.mu.parts[tp], r.mu.changed
		if p == nil {
			r.mu.Unlock()
			return 0, &NotAssignedError{tp}
		}
		at, ok, err, last := p.pos.offset, p.positioned(), p.err, r.mu.lastErr
		r.mu.Unlock()
		switch {
		case ok:
			return at, nil
		case err != nil:
			return 0, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, giveUp(ctx.Err(), last)
		case <-r.open.Done():
			return 0, ErrClosed
		}
	}
}

// Lag is how many offsets a partition's position is behind its end, as the last fetch told: the high watermark, or for ReadCommitted the last stable offset. False while that is not
// known.
func (r *Consumer) Lag(tp TopicPartition) (int64, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.mu.parts[tp]
	if p == nil || !p.positioned() {
		return 0, false
	}
	end := p.highWatermark
	if r.config.IsolationLevel == ReadCommitted {
		end = p.lastStable
	}
	return max(end-p.pos.offset, 0), end >= 0
}

// poke fills the one place of a channel.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
