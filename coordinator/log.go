package coordinator

import (
	"errors"
	"fmt"
	"math"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/replication"
)

// Log is the log of a partition, as a shard sees it. One load and then one append are under way at a time.
type Log interface {
	// Bounds are the first offset and the end of the log as it is now.
	Bounds() (start, end int64)

	// Read returns committed batches, whole ones, from the one that contains offset on; none when nothing is committed there yet.
	// The bytes are valid until the next Read.
	Read(offset int64) ([]byte, error)

	// AwaitCommitted calls wake once when more than offset is committed, or when that will never be. false: it is so already.
	AwaitCommitted(offset int64, wake func()) bool

	// Append appends one batch and calls done once, when it is committed or failed. The batch belongs to the log until then.
	Append(batch []byte, done func(error))
}

// readBytes is how much is read at once.
const readBytes = 1 << 20

// partitionLog is the Log of a partition that this broker leads.
type partitionLog struct {
	p       *replication.Partition
	buf     []byte
	waiter  replication.Waiter
	wake    func()
	produce replication.Produce
	done    func(error)
}

// NewLog makes the Log of a partition.
func NewLog(p *replication.Partition) Log { return &partitionLog{p: p} }

func (l *partitionLog) Bounds() (start, end int64) { return l.p.LogStart(), l.p.LogEnd() }

func (l *partitionLog) Read(offset int64) ([]byte, error) {
	r, err := l.p.Read(offset, readBytes, true, false)
	if err != nil || r.N == 0 {
		return nil, err
	}
	checked, err := l.p.Log().Check(r.Range)
	if err != nil {
		return nil, err
	}
	defer checked.Release()
	if cap(l.buf) < checked.N {
		l.buf = make([]byte, checked.N)
	}
	b := l.buf[:checked.N]
	if _, err := checked.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("offset %d cannot be read: %w", offset, err)
	}
	return b, nil
}

// Wake implements replication.Waker.
func (l *partitionLog) Wake(*replication.Waiter) { l.wake() }

func (l *partitionLog) AwaitCommitted(offset int64, wake func()) bool {
	l.wake = wake
	l.waiter.Init(l)
	return l.p.Await(&l.waiter, offset)
}

// Append waits as long as it takes: an append that is given up might be in the log, and the machine would not know.
func (l *partitionLog) Append(batch []byte, done func(error)) {
	l.done = done
	l.produce = replication.Produce{Append: engine.Append{Batch: batch, Origin: engine.FromInternal}, Acks: -1, TimeoutMs: math.MaxInt32, Sink: l}
	l.p.Produce(&l.produce)
}

// Appended implements replication.ProduceSink.
func (l *partitionLog) Appended(*replication.Produce) {}

// ProduceDone implements replication.ProduceSink.
func (l *partitionLog) ProduceDone(r *replication.Produce) { l.done(r.Err) }

// moved says whether an error means that this broker does not lead the partition any more.
func moved(err error) bool {
	return errors.Is(err, replication.ErrNotLeader) || errors.Is(err, replication.ErrUnknownTopic) || errors.Is(err, replication.ErrFencedLeaderEpoch)
}
