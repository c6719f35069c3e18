package fuzz

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/replication"
)

// world is what all clients together know: what they sent, what they were answered, what they were shown. It is the oracle. A clone of
// it, taken at the moment of a power cut, is what the disk of that moment has to keep.
type world struct {
	mu     sync.Mutex
	gen    int      // answers of an earlier start of the node don't count
	topics []*topic // every life of every topic, in order of creation
	pidEnd int64    // producer ids below were handed out
	config configs  // of the broker
	failed error    // the first thing that was wrong

	// faulty, when the disk may fail, tells whether it has: then requests may be answered with an error.
	faulty func() bool
	// hadFaults: batches that were answered with an error may have been stored all the same.
	hadFaults bool
}

// configs are the overrides of a resource.
type configs struct {
	acked map[string]string
	tried map[string]string // with the change in flight; nil when there is none
}

func (c configs) allows(got map[string]string) bool {
	return maps.Equal(c.acked, got) || c.tried != nil && maps.Equal(c.tried, got)
}

func (c *configs) set(key, value string) {
	c.tried = maps.Clone(c.acked)
	if c.tried == nil {
		c.tried = map[string]string{}
	}
	c.tried[key] = value
}

func (c *configs) answered() { c.acked, c.tried = c.tried, nil }

type topicState uint8

const (
	creating topicState = iota
	live
	deleting
	deleted
)

// topic is one life of a topic.
type topic struct {
	name   string
	id     [16]byte // zero while it is being created
	state  topicState
	kind   kind
	config configs
	tried  int32   // partitions, with the growth in flight
	parts  []*part // that were answered
}

// part is a partition.
type part struct {
	number   int32
	line     *timeline
	placed   int   // batches of line that were written; on the disk even when the process is killed
	shown    int64 // offsets below were visible to readers
	floor    int64 // the log start is at least this: a deletion was answered, or readers saw it
	ceil     int64 // ... and at most this: nobody asked for more
	epoch    int32 // leader epoch that was seen
	sent     int32 // batches
	sequence int32 // of the idempotent producer: its next
	inflight []*batch
	answered []*batch // the newest resendMax of the idempotent producer
}

// batch is a batch as a client sent it. Every record of every batch is different.
type batch struct {
	number     int32
	records    int32
	idempotent bool
	bytes      []byte
}

// placement is a batch at its offset.
type placement struct {
	base  int64
	batch *batch
}

// timeline is every batch that was appended to a partition, in order, without those a power cut took or a truncation cut. It only
// grows; a log that loses its end goes on with a new one. The content of a partition is at all times the beginning of its timeline.
type timeline struct{ batches []placement }

func (l *timeline) end() int64 {
	if len(l.batches) == 0 {
		return 0
	}
	p := l.batches[len(l.batches)-1]
	return p.base + int64(p.batch.records)
}

// find returns the index of the batch that contains an offset.
func (l *timeline) find(offset int64) int {
	return sort.Search(len(l.batches), func(i int) bool { return l.batches[i].base+int64(l.batches[i].batch.records) > offset })
}

// until returns the part of the timeline below an offset; false when it is inside a batch.
func (l *timeline) until(offset int64) (*timeline, bool) {
	n := l.find(offset)
	if n < len(l.batches) && l.batches[n].base != offset {
		return nil, false
	}
	return &timeline{batches: slices.Clone(l.batches[:n])}, n < len(l.batches) || offset == l.end()
}

// where returns the offset of a batch.
func (l *timeline) where(b *batch) (int64, bool) {
	for i := len(l.batches) - 1; i >= 0; i-- {
		if l.batches[i].batch == b {
			return l.batches[i].base, true
		}
	}
	return 0, false
}

// clone copies everything that changes. Timelines are shared: they only grow, and what is appended to one after the power cut is
// not on the disk, or was on its way.
func (w *world) clone() *world {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &world{pidEnd: w.pidEnd, config: w.config, hadFaults: w.hadFaults, topics: make([]*topic, len(w.topics))}
	for i, t := range w.topics {
		tc := *t
		tc.parts = make([]*part, len(t.parts))
		for n, p := range t.parts {
			pc := *p
			pc.inflight, pc.answered = slices.Clone(p.inflight), slices.Clone(p.answered)
			tc.parts[n] = &pc
		}
		c.topics[i] = &tc
	}
	return c
}

// forget drops what only a process that goes on can know: a power cut has taken what was written and not made durable.
func (w *world) forget() {
	for _, t := range w.topics {
		for _, p := range t.parts {
			p.placed = 0
		}
	}
}

func (w *world) fail(format string, args ...any) {
	if w.failed == nil {
		w.failed = fmt.Errorf(format, args...)
	}
}

func (w *world) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// alive returns the topics that can be used.
func (w *world) alive() []*topic {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*topic
	for _, t := range w.topics {
		if t.state == live {
			list = append(list, t)
		}
	}
	return list
}

// observe looks as a reader does: what is visible now must stay.
func (w *world) observe(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.topics {
		if t.state != live {
			continue
		}
		for _, p := range t.parts {
			if q := n.repl.PartitionByID(t.id, p.number); q != nil && q.Log() != nil {
				p.shown = max(p.shown, q.HighWatermark())
				p.epoch = max(p.epoch, q.LeaderEpoch())
			}
		}
	}
}

// makeBatch makes the next batch of a partition, to be sent: records that name themselves, with values of a length by chance.
func (w *world) makeBatch(t *topic, p *part, rng *rand.Rand, nowMs int64, idempotent bool) *batch {
	w.mu.Lock() // the power may fail at any time: then the batch is one that was not answered, or there never was one
	defer w.mu.Unlock()
	b := &batch{number: p.sent, records: 1 + rng.Int32N(4), idempotent: idempotent}
	p.sent++
	o := record.Options{}
	if idempotent {
		o.Idempotent, o.ProducerID, o.BaseSequence = true, 7_000_000+int64(p.number), p.sequence
		p.sequence += b.records
	}
	if rng.IntN(3) == 0 {
		o.Codec = record.Codec(1 + rng.IntN(4))
	}
	builder := record.NewBuilder(o)
	for i := range b.records {
		value := fmt.Appendf(nil, "%s/%x/%d/%d/%d:", t.name, t.id[:4], p.number, b.number, i)
		filler := make([]byte, rng.IntN(300))
		for j := range filler {
			filler[j] = byte(rng.Uint32())
		}
		builder.Append(nowMs-rng.Int64N(1000), []byte("key"), append(value, filler...), nil)
	}
	b.bytes = builder.Bytes()
	p.inflight = append(p.inflight, b)
	return b
}

// call is a produce request for one batch.
type call struct {
	replication.Produce
	w    *world
	gen  int
	t    *topic
	p    *part
	b    *batch
	done chan struct{}
	may  bool // fail: the node is being stopped, or a fault is injected
}

// send produces a batch of the partition.
func (w *world) send(n *node, t *topic, p *part, b *batch, acks int16) *call {
	w.mu.Lock()
	c := &call{w: w, gen: w.gen, t: t, p: p, b: b, done: make(chan struct{})}
	w.mu.Unlock()
	c.Sink, c.Acks, c.TimeoutMs, c.Batch = c, acks, 1<<30, bytes.Clone(b.bytes)
	q := n.repl.PartitionByID(t.id, p.number)
	if q == nil {
		c.Err = replication.ErrUnknownTopic
		c.ProduceDone(&c.Produce)
		return c
	}
	q.Produce(&c.Produce)
	return c
}

// Appended implements replication.ProduceSink: the batch has its place.
func (c *call) Appended(r *replication.Produce) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.gen != c.w.gen || r.Err != nil {
		return
	}
	line := c.p.line
	if r.Duplicate {
		if base, ok := line.where(c.b); !ok || base != r.BaseOffset {
			c.w.fail("%s-%d: batch %d is called a duplicate of offset %d; it is at %d (%v)", c.t.name, c.p.number, c.b.number, r.BaseOffset, base, ok)
		}
		return
	}
	if base, ok := line.where(c.b); ok {
		c.w.fail("%s-%d: batch %d was appended twice, at offsets %d and %d", c.t.name, c.p.number, c.b.number, base, r.BaseOffset)
	}
	if r.BaseOffset != line.end() || r.LastOffset != r.BaseOffset+int64(c.b.records)-1 {
		c.w.fail("%s-%d: batch %d got offsets %d to %d, the log ended at %d", c.t.name, c.p.number, c.b.number, r.BaseOffset, r.LastOffset, line.end())
	}
	line.batches = append(line.batches, placement{r.BaseOffset, c.b})
	c.p.placed = len(line.batches)
}

// ProduceDone implements replication.ProduceSink: the batch was answered.
func (c *call) ProduceDone(r *replication.Produce) {
	defer close(c.done)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.gen != c.w.gen {
		return
	}
	if r.Err != nil {
		if !c.may && !(c.w.faulty != nil && c.w.faulty()) {
			c.w.fail("%s-%d: produce of batch %d: %v; %s", c.t.name, c.p.number, c.b.number, r.Err, c.p)
		}
		return
	}
	if i := slices.Index(c.p.inflight, c.b); i >= 0 {
		c.p.inflight = slices.Delete(c.p.inflight, i, i+1)
	}
	if c.Acks == -1 {
		c.p.shown = max(c.p.shown, r.LastOffset+1)
	}
	if c.b.idempotent {
		c.p.answer(c.b)
	}
}

// unanswered counts the batches of the partition's idempotent producer that were sent and not answered.
func (w *world) unanswered(p *part) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range p.inflight {
		if b.idempotent {
			n++
		}
	}
	return n
}

// String describes a partition for a failure.
func (p *part) String() string {
	var s strings.Builder
	fmt.Fprintf(&s, "shown %d, log start %d to %d, written", p.shown, p.floor, p.ceil)
	describe := func(b *batch) {
		if b.idempotent {
			fmt.Fprintf(&s, " (sequence %d)", record.Batch(b.bytes).BaseSequence())
		}
	}
	for _, at := range p.line.batches[max(0, len(p.line.batches)-8):] {
		fmt.Fprintf(&s, " %d:%d", at.base, at.batch.number)
		describe(at.batch)
	}
	s.WriteString(", not answered")
	for _, b := range p.inflight {
		fmt.Fprintf(&s, " %d", b.number)
		describe(b)
	}
	return s.String()
}

// answer notes an answered batch of the idempotent producer; one that was sent again keeps its place.
func (p *part) answer(b *batch) {
	if slices.Contains(p.answered, b) {
		return
	}
	p.answered = append(p.answered, b)
	p.answered = p.answered[max(0, len(p.answered)-resendMax):]
}
