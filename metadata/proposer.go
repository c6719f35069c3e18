package metadata

import (
	"errors"
	"fmt"
	"sync"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/record"
)

// The way of a proposal: Propose puts it in the queue. The proposer (one goroutine) takes all that is queued, plans each
// against the image that the one before it left, and appends their records as one batch: a group. While that write runs, the
// next group gathers. The applier (another goroutine) takes a group when the log says that it is committed, publishes the
// images it made, calls the subscribers, and answers. Answers, refusals too, come in the order of proposals, for a refusal
// may rest on what an earlier proposal did.

// proposal is a queued change.
type proposal struct {
	plan func(*Image) []Record
	done func(error)
}

// step is a planned proposal. image is nil when it changed nothing.
type step struct {
	image *Image
	delta *Delta
	done  func(error)
	err   *Error // refused for itself
}

// group is the steps of one batch of the log, or of none when nothing was to be written.
type group struct {
	end   int64 // committed when everything below is
	bytes int   // of the log
	steps []step
}

// queue holds proposals for the proposer.
type queue struct {
	mu struct {
		sync.Mutex
		waiting []proposal
		stopped *Error // why nothing is taken any more
	}
	wake chan struct{} // capacity 1
	head *Image        // speculative: the log's end. The proposer's alone
}

func (q *queue) init(head *Image) {
	q.wake = make(chan struct{}, 1)
	q.head = head
}

func (q *queue) push(p proposal) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.mu.stopped != nil:
		return q.mu.stopped
	case len(q.mu.waiting) >= queuedProposalsMax:
		return errorf(Busy, "%d metadata changes are waiting already.", queuedProposalsMax)
	}
	q.mu.waiting = append(q.mu.waiting, p)
	wake(q.wake)
	return nil
}

// take removes everything queued; the error says that it must be refused.
func (q *queue) take() ([]proposal, *Error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.mu.waiting
	q.mu.waiting = nil
	return all, q.mu.stopped
}

// stop refuses what is queued and what will come.
func (q *queue) stop(why *Error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.stopped == nil {
		q.mu.stopped = why
	}
	wake(q.wake)
}

// wake sets a flag channel.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// runProposer is the proposer goroutine. It ends when the queue is stopped.
func (m *Manager) runProposer() {
	defer m.inflight.noMore()
	for range m.queue.wake {
		proposals, stopped := m.queue.take()
		if stopped != nil {
			for _, p := range proposals {
				p.done(stopped)
			}
			return
		}
		for len(proposals) > 0 {
			proposals = proposals[m.proposeGroup(proposals):]
		}
	}
}

// proposeGroup plans proposals until a batch is full, appends it, and returns how many it took.
func (m *Manager) proposeGroup(proposals []proposal) int {
	b := groupBuilder{m: m, head: m.queue.head, batch: record.NewBuilder(record.Options{BaseOffset: m.queue.head.offset}), nowMs: m.o.Now()}
	taken := 0
	for taken < len(proposals) && b.bytes < groupBytesTarget {
		b.add(proposals[taken])
		taken++
	}
	if err := b.append(); err != nil {
		b.refuse(err)
		return taken
	}
	m.queue.head = b.head
	m.inflight.push(group{end: b.head.offset, bytes: b.bytes, steps: b.steps})
	return taken
}

// groupBuilder plans proposals into one batch.
type groupBuilder struct {
	m     *Manager
	head  *Image // after the steps
	batch *record.Builder
	nowMs int64
	bytes int // about
	steps []step
}

func (b *groupBuilder) add(p proposal) {
	s := step{done: p.done}
	if records := p.plan(b.head); len(records) > 0 {
		s.err = b.stage(records, &s)
	}
	b.steps = append(b.steps, s)
}

// stage applies the records to the speculative head and puts them into the batch; both or neither.
func (b *groupBuilder) stage(records []Record, s *step) *Error {
	encoded, size, refused := encode(records)
	if refused != nil {
		return refused
	}
	next, delta, err := b.head.Apply(b.m.log.epoch(), records)
	if err != nil {
		b.m.o.Logger.Error("a metadata change does not fit the image it was planned for", "error", err)
		return errorf(KindUnknown, "The change does not fit the cluster's metadata: %v", err)
	}
	s.image, s.delta, b.head = next, delta, next
	for _, value := range encoded {
		b.batch.Append(b.nowMs, nil, value, nil)
	}
	b.bytes += size
	return nil
}

// append writes the batch to the log.
func (b *groupBuilder) append() *Error {
	if b.batch.Count() == 0 {
		return nil
	}
	base, err := b.m.log.append(b.batch.Bytes())
	if errors.Is(err, errLogFull) {
		b.m.o.Logger.Error("a metadata change found no space", "error", err)
		return errorf(Unavailable, "The change could not be stored: %v", err)
	}
	if err != nil {
		b.m.fail(fmt.Errorf("append: %w", err))
		return errorf(Unavailable, "The change could not be stored: %v", err)
	}
	invariant.Must(base == b.m.queue.head.offset, "the metadata log put a batch at offset %d, its end was %d", base, b.m.queue.head.offset)
	return nil
}

// refuse hands the steps over as refused: whoever planned on the lost records rests on nothing.
func (b *groupBuilder) refuse(err *Error) {
	for n := range b.steps {
		b.steps[n] = step{done: b.steps[n].done, err: err}
	}
	b.m.inflight.push(group{end: b.m.queue.head.offset, steps: b.steps})
}
