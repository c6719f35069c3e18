package client

import (
	"context"
	"slices"
)

// pollDefault is how many records Poll returns at most when it is not told.
const pollDefault = 500

// Poll returns records, at least one and at most most (0: 500), of one partition after the other in the order of their offsets. It waits until there are some, or the context
// ends: then the error is the context's, and says what went wrong last, if anything did. The records are the caller's: keys and values lie in the memory of the fetch that brought them, which lives
// for as long as any of them does (but see ConsumerConfig.ReuseMemory).
//
// An error that concerns a partition is returned once, by itself, and the others go on: *NoOffsetError, *OutOfRangeError, *TruncatedError and *CorruptError until Seek; *UnknownTopicError and *Error
// until the cluster answers otherwise. ErrClosed: the consumer is closed.
func (r *Consumer) Poll(ctx context.Context, most int) ([]Record, error) {
	if most <= 0 {
		most = pollDefault
	}
	select {
	case r.polling <- struct{}{}:
		defer func() { <-r.polling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-r.open.Done():
		return nil, ErrClosed
	}
	g := r.groupOf()
	g.polling(1)
	defer func() { g.polling(-1) }()
	for {
		if r.open.Err() != nil {
			return nil, ErrClosed
		}
		if err := r.attend(ctx, &g); err != nil {
			return nil, err
		}
		if records, err := r.drain(most); len(records) > 0 || err != nil {
			return records, err
		}
		select {
		case <-r.news:
		case <-ctx.Done():
			return nil, giveUp(ctx.Err(), r.trouble())
		case <-r.open.Done():
		}
	}
}

// attend does what the group wants; one that Subscribe has made meanwhile is polled from now on.
func (r *Consumer) attend(ctx context.Context, g **group) error {
	if *g == nil {
		if *g = r.groupOf(); *g != nil {
			(*g).polling(1)
		}
	}
	return (*g).attend(ctx)
}

// trouble is why there may be no records.
func (r *Consumer) trouble() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.mu.order {
		if p.err != nil {
			return p.err
		}
	}
	return r.mu.lastErr
}

// drain hands out what is fetched, or an error that the user has not heard of.
func (r *Consumer) drain(most int) (records []Record, err error) {
	if r.config.ReuseMemory {
		r.mu.Lock()
		r.leftLocked()
		r.mu.Unlock()
		defer func() { r.slab = records[:0] }()
		records = r.slab
	}
	for len(records) < most {
		k, room := r.nextChunk(most - len(records))
		if k == nil {
			break
		}
		if records == nil {
			records = make([]Record, 0, room)
		}
		had := len(records)
		records, err = k.read(records, most-had)
		if !r.took(k, err) {
			records = slices.Delete(records, had, len(records)) // somebody sought meanwhile
		}
	}
	if len(records) > 0 {
		return records, nil
	}
	return nil, r.untold()
}

// nextChunk is the first chunk that may be handed out, and about how many records there are, up to most.
func (r *Consumer) nextChunk(most int) (first *chunk, room int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.mu.ready {
		if k.p.paused {
			continue
		}
		if first == nil {
			first = k
		}
		if room += k.records; room >= most {
			return first, most
		}
	}
	return first, room
}

// took takes over how far a chunk was read. False: its records are not wanted any more.
func (r *Consumer) took(k *chunk, err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k.p.version != k.version {
		return false
	}
	k.p.consumed(k.next)
	switch {
	case err != nil:
		r.failLocked(k.p, &CorruptError{k.p.tp, k.next.offset, err})
	case k.done():
		i := slices.Index(r.mu.ready, k)
		r.mu.ready = slices.Delete(r.mu.ready, i, i+1)
		r.drainedLocked(k)
	}
	return true
}

// untold is an error of a partition that the user has not heard of.
func (r *Consumer) untold() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.mu.order {
		if p.err != nil && !p.told {
			p.told = true
			return p.err
		}
	}
	return nil
}
