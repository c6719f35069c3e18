package client

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/leatmq/leat/internal/rpc"
	"github.com/leatmq/leat/protocol"
)

const (
	keyFetch          = 1
	fetchByID         = 13 // from this version on topics are named by id only
	sessionFarewell   = time.Second
	fetcherIdle       = time.Hour
	brokerSilentAgain = 100 * time.Millisecond
)

// fetcher fetches from one broker: one request at a time, of all partitions that are to be read there.
//
// A broker is not asked while one of these partitions has more than MaxPartitionBytes waiting for Poll, or all of them together more than their share of BufferMemory: a fetch without
// the partition that has most to give would make it wait for the others' next records.
type fetcher struct {
	r        *Consumer
	id       int32
	wake     chan struct{} // one place
	session  fetchSession
	asked    map[TopicPartition]askedFor // what the fetch on its way is for
	wants    []fetchWant
	fails    int
	refusals int    // of the session, in a row
	lease    *lease // of the answer that is being taken

	buffered int // bytes that are waiting for Poll; guarded by the consumer's mu
}

// askedFor is what a partition was when it was asked for.
type askedFor struct {
	p       *partition
	version uint64
	from    position
	replica bool
}

// fetcherLocked is the fetcher of a broker.
func (r *Consumer) fetcherLocked(id int32) *fetcher {
	f := r.mu.fetchers[id]
	if f == nil {
		f = &fetcher{r: r, id: id, wake: make(chan struct{}, 1), asked: map[TopicPartition]askedFor{}}
		r.mu.fetchers[id] = f
		r.running.Go(f.run)
	}
	return f
}

func (r *Consumer) wakeFetchersLocked() {
	for _, f := range r.mu.fetchers {
		poke(f.wake)
	}
}

// run is the fetcher's goroutine.
func (f *fetcher) run() {
	for f.r.ctx.Err() == nil {
		maxBytes, wait := f.plan(time.Now())
		if len(f.wants) == 0 {
			f.rest(wait)
			continue
		}
		begin := time.Now()
		resp, err := f.ask(maxBytes)
		if err != nil {
			f.failed(err)
			continue
		}
		if f.take(resp) == 0 && time.Since(begin) < f.r.config.MaxWait/2 {
			f.rest(f.r.client.backoff(1)) // a broker that has nothing should have waited: it is not to be asked as fast as it answers
		}
		f.throttle(time.Duration(resp.ThrottleMillis) * time.Millisecond)
	}
}

// throttle waits as long as the broker wants to be left alone (KIP-219).
func (f *fetcher) throttle(wait time.Duration) {
	_ = f.r.client.sleep(f.r.ctx, min(wait, f.r.client.config.RequestTimeout))
}

// rest waits for something to do.
func (f *fetcher) rest(wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-f.wake:
	case <-t.C:
	case <-f.r.ctx.Done():
	}
}

// plan makes wants and asked. Without wants there is nothing to ask for now; it may be otherwise after wait.
func (f *fetcher) plan(now time.Time) (maxBytes int, wait time.Duration) {
	r := f.r
	r.mu.Lock()
	defer r.mu.Unlock()
	f.wants = f.wants[:0]
	clear(f.asked)
	wait = fetcherIdle
	share := r.config.BufferMemory / max(len(r.mu.fetchers), 1)
	if f.buffered >= share {
		return 0, wait
	}
	for _, p := range r.mu.order {
		if p.state != fetching || p.paused || p.from(now) != f.id {
			continue
		}
		if p.buffered > r.config.MaxPartitionBytes {
			f.wants = f.wants[:0]
			return 0, wait
		}
		if p.notBefore.After(now) {
			wait = min(wait, p.notBefore.Sub(now))
			continue
		}
		spec := fetchSpec{topicID: p.topicID, offset: p.next.offset, leaderEpoch: p.leaderEpoch, lastEpoch: p.next.epoch, maxBytes: int32(r.config.MaxPartitionBytes)}
		f.wants = append(f.wants, fetchWant{p.tp, spec})
		f.asked[p.tp] = askedFor{p, p.version, p.next, p.replica == f.id}
	}
	return min(r.config.MaxBytes, share-f.buffered), wait
}

// ask sends the fetch and waits for its answer.
func (f *fetcher) ask(maxBytes int) (*kmsg.FetchResponse, error) {
	r := f.r
	conn, err := r.client.broker(r.ctx, f.id, r.fetches)
	if err != nil {
		return nil, err
	}
	newest := kmsg.NewPtrFetchRequest().MaxVersion()
	byID := conn.Has(keyFetch, fetchByID)
	for i := range f.wants {
		byID = byID && f.wants[i].spec.topicID != [16]byte{}
	}
	if !byID {
		newest = fetchByID - 1
	}
	req := f.session.request(f.wants, byID)
	req.MinBytes, req.MaxWaitMillis, req.MaxBytes = int32(r.config.MinBytes), int32(r.config.MaxWait.Milliseconds()), int32(maxBytes)
	req.IsolationLevel, req.Rack = int8(r.config.IsolationLevel), r.config.Rack
	resp, body, err := f.exchange(conn, req, newest)
	if err != nil {
		f.session.lose()
		return nil, err
	}
	f.lease = &lease{body: body}
	return resp, nil
}

// exchange asks and waits. The body is the memory that the answer lies in.
func (f *fetcher) exchange(conn *rpc.Conn, req *kmsg.FetchRequest, newest int16) (*kmsg.FetchResponse, []byte, error) {
	version, err := conn.Version(keyFetch, newest)
	if err != nil {
		return nil, nil, err
	}
	type answer struct {
		body []byte
		err  error
	}
	got := make(chan answer, 1)
	req.Version = version
	raw := rpc.Raw{Key: keyFetch, Version: version, Flexible: req.IsFlexible(), Body: net.Buffers{req.AppendTo(nil)}}
	if err := conn.GoRaw(f.r.ctx, raw, 0, func(body []byte, err error) { got <- answer{body, err} }); err != nil {
		return nil, nil, err
	}
	select {
	case a := <-got:
		if a.err != nil {
			return nil, nil, a.err
		}
		resp := kmsg.NewPtrFetchResponse()
		resp.Version = version
		if err := resp.ReadFrom(a.body); err != nil {
			return nil, nil, conn.Unreadable(keyFetch, version, err)
		}
		return resp, a.body, nil
	case <-f.r.ctx.Done():
		return nil, nil, ErrClosed
	}
}

// failed is called when the broker could not be asked.
func (f *fetcher) failed(err error) {
	r := f.r
	if r.ctx.Err() != nil {
		return
	}
	f.fails++
	r.client.config.Logger.Debug("no fetch", "broker", f.id, "err", err)
	r.client.stale()
	r.mu.Lock()
	r.mu.lastErr = err
	for _, a := range f.asked {
		if a.replica {
			a.p.replica = -1
		}
		if !Retriable(err) && a.p.err == nil { // it will not get better by itself, though a changed broker may change it
			a.p.err = err
			r.tellLocked()
		}
	}
	r.mu.Unlock()
	poke(r.work)
	f.rest(r.client.backoff(f.fails))
}

// fetchedPart is one partition of an answer, with what there is to read in it.
type fetchedPart struct {
	askedFor
	answer *kmsg.FetchResponseTopicPartition
	chunk  *chunk
}

// take takes an answer over, and returns how many partitions it says something of that it was worth to answer for.
func (f *fetcher) take(resp *kmsg.FetchResponse) (worthy int) {
	if !f.session.answered(resp) {
		code := protocol.Code(resp.ErrorCode)
		if f.refusals++; f.refusals > 1 || code != protocol.FetchSessionIDNotFound && code != protocol.InvalidFetchSessionEpoch {
			f.failed(&Error{Code: code, Where: fmt.Sprintf("a fetch from broker %d", f.id)})
		}
		return 1
	}
	f.fails, f.refusals = 0, 0
	parts := f.look(resp)
	now := time.Now()
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	f.r.mu.lastErr = nil
	defer f.giveBackLocked()
	for _, part := range parts {
		if a := part.answer; part.chunk != nil || a.ErrorCode != 0 || a.PreferredReadReplica >= 0 || a.DivergingEpoch.EndOffset >= 0 {
			worthy++
		}
		if part.p.version == part.version && part.p.state == fetching { // or it was told to look elsewhere meanwhile
			f.one(now, part, resp)
		}
	}
	return worthy
}

// giveBackLocked gives the memory of an answer back that nothing was taken from.
func (f *fetcher) giveBackLocked() {
	if f.lease.chunks == 0 {
		f.r.memory.give(f.lease.body)
	}
}

// look finds what is there to read in an answer.
func (f *fetcher) look(resp *kmsg.FetchResponse) []fetchedPart {
	parts := make([]fetchedPart, 0, len(f.asked))
	for i := range resp.Topics {
		t := &resp.Topics[i]
		tp := TopicPartition{Topic: t.Topic}
		if resp.Version >= fetchByID {
			tp.Topic = f.session.names[t.TopicID]
		}
		for j := range t.Partitions {
			answer := &t.Partitions[j]
			tp.Partition = answer.Partition
			a, ok := f.asked[tp]
			if !ok {
				continue
			}
			part := fetchedPart{askedFor: a, answer: answer}
			if answer.ErrorCode == 0 && len(answer.RecordBatches) > 0 {
				part.chunk = newChunk(a.p, f, a.version, a.from, answer.RecordBatches, answer.AbortedTransactions)
			}
			parts = append(parts, part)
		}
	}
	return parts
}

// one sees to one partition of an answer. mu is held.
func (f *fetcher) one(now time.Time, part fetchedPart, resp *kmsg.FetchResponse) {
	r, p, answer, k := f.r, part.p, part.answer, part.chunk
	if v := fetchVerdict(protocol.Code(answer.ErrorCode)); v != verdictTake {
		f.refused(now, v, part, resp)
		return
	}
	p.highWatermark, p.lastStable, p.logStart = answer.HighWatermark, answer.LastStableOffset, answer.LogStartOffset
	switch {
	case answer.DivergingEpoch.EndOffset >= 0 && answer.DivergingEpoch.Epoch >= 0:
		r.partedLocked(p, position{answer.DivergingEpoch.EndOffset, answer.DivergingEpoch.Epoch})
	case k == nil && answer.PreferredReadReplica >= 0 && resp.Version >= 11:
		p.replica, p.replicaTill = answer.PreferredReadReplica, now.Add(r.client.config.MetadataMaxAge)
		poke(r.fetcherLocked(p.replica).wake)
	case k != nil && k.end.offset <= part.from.offset:
		p.backOff(now, r.client.backoff)
		r.tellPartitionLocked(p, &CorruptError{p.tp, part.from.offset, errNoWholeBatch})
	case k != nil:
		k.lease = f.lease
		k.lease.chunks++
		p.fetched(k.end, k.size)
		if hook := r.client.config.Hooks.Fetched; hook != nil {
			hook(p.tp.Topic, p.tp.Partition, k.records, k.size)
		}
		f.buffered += k.size
		r.mu.ready = append(r.mu.ready, k)
		poke(r.news)
	default:
		p.fetched(part.from, 0)
	}
}

var errNoWholeBatch = errors.New("the broker sent no batch that is whole and goes beyond it")

// refused sees to a partition that has an error code. mu is held.
func (f *fetcher) refused(now time.Time, v verdict, part fetchedPart, resp *kmsg.FetchResponse) {
	r, p, answer := f.r, part.p, part.answer
	if part.replica { // the leader knows better, and knows another one if this one is gone
		p.replica = -1
		poke(r.fetcherLocked(p.leader).wake)
		return
	}
	err := rpc.ErrorOf(answer.ErrorCode, nil, fmt.Sprintf("%s-%d", p.tp.Topic, p.tp.Partition))
	switch v {
	case verdictMoved:
		p.backOff(now, r.client.backoff)
		r.hint(p.tp, answer, resp)
		r.client.stale()
	case verdictRange:
		r.outOfRangeLocked(now, p)
	case verdictRetry:
		p.backOff(now, r.client.backoff)
	case verdictCorrupt:
		r.failLocked(p, &CorruptError{p.tp, part.from.offset, err})
	default:
		p.backOff(now, r.client.backoff)
		r.tellPartitionLocked(p, err)
		r.client.stale()
	}
}

// hint passes on whom the broker takes for the leader (KIP-951).
func (r *Consumer) hint(tp TopicPartition, answer *kmsg.FetchResponseTopicPartition, resp *kmsg.FetchResponse) {
	leader := answer.CurrentLeader
	if leader.LeaderID < 0 || resp.Version < 16 {
		return
	}
	addrs := map[int32]string{}
	for i := range resp.Brokers {
		b := &resp.Brokers[i]
		addrs[b.NodeID] = hostPort(b.Host, b.Port)
	}
	r.client.leaderHint(tp.Topic, tp.Partition, leader.LeaderID, leader.LeaderEpoch, addrs)
}

// tellPartitionLocked notes an error for the user. One that he knows already is not told again.
func (r *Consumer) tellPartitionLocked(p *partition, err error) {
	if p.err != nil && p.err.Error() == err.Error() {
		return
	}
	p.err, p.told = err, false
	r.tellLocked()
}

// outOfRangeLocked: the offset of the next fetch is not in the log.
func (r *Consumer) outOfRangeLocked(now time.Time, p *partition) {
	if p.buffered > 0 {
		p.backOff(now, r.client.backoff) // the user first gets what there is
		return
	}
	timestamp, orLast, ok := r.config.OffsetReset.target(now)
	if !ok {
		r.failLocked(p, &OutOfRangeError{p.tp, p.next.offset})
		return
	}
	r.client.config.Logger.Warn("an offset is not in the log (its records were deleted, or it is beyond the end): going on where the reset policy says",
		"topic", p.tp.Topic, "partition", p.tp.Partition, "offset", p.next.offset, "policy", r.config.OffsetReset.String())
	r.resetHook(p.tp, p.next.offset)
	p.locate(r.nextVersionLocked(), timestamp, orLast)
	poke(r.work)
}

// partedLocked: the log parts from what was read, at an offset (-1: nobody knows where).
func (r *Consumer) partedLocked(p *partition, parts position) {
	at := p.pos
	r.forgetFetchedLocked(p)
	switch {
	case parts.offset >= at.offset: // only what was fetched ahead is another
		p.set(r.nextVersionLocked(), position{at.offset, min(at.epoch, parts.epoch)}, false)
	case r.config.OffsetReset.kind == resetNone:
		r.failLocked(p, &TruncatedError{p.tp, at.offset, parts.offset})
		return
	case parts.offset < 0:
		r.warnTruncated(p.tp, at.offset, parts.offset)
		r.beginLocked(p)
	default:
		r.warnTruncated(p.tp, at.offset, parts.offset)
		p.set(r.nextVersionLocked(), parts, false)
	}
	r.wakeFetchersLocked()
	poke(r.work)
}

func (r *Consumer) resetHook(tp TopicPartition, from int64) {
	if hook := r.client.config.Hooks.Reset; hook != nil {
		hook(tp.Topic, tp.Partition, from)
	}
}

func (r *Consumer) warnTruncated(tp TopicPartition, read, common int64) {
	r.resetHook(tp, read)
	r.client.config.Logger.Warn("a partition lost records that were read: a leader without them was elected", "topic", tp.Topic, "partition", tp.Partition, "read", read, "common", common)
}

// sayFarewell ends the fetch sessions at the brokers, as far as that is quick.
func (r *Consumer) sayFarewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, sessionFarewell)
	defer cancel()
	r.mu.Lock()
	fetchers := maps.Clone(r.mu.fetchers)
	r.mu.Unlock()
	for id, f := range fetchers {
		req := f.session.farewell()
		if req == nil {
			continue
		}
		if addr, ok := r.client.metadata.current().addrs[id]; ok {
			if conn := r.client.conns.live(general, []string{addr}); conn != nil {
				_, _ = conn.Request(ctx, req, -1)
			}
		}
	}
}
