package coordinator

import (
	"errors"
	"fmt"

	"github.com/leatmq/leat/coordinator/machine"
	"github.com/leatmq/leat/record"
)

// errStopped ends a load that nobody waits for any more.
var errStopped = errors.New("stopped")

// damage is a record that cannot be understood.
type damage struct {
	offset int64
	err    error
}

func (d *damage) Error() string { return fmt.Sprintf("the record at offset %d: %v", d.offset, d.err) }
func (d *damage) Unwrap() error { return d.err }

// load replays the log and hands the machine over, when all that the shards before have sent is in the log or has failed. A
// goroutine of its own.
func (s *shard[M]) load() {
	for b := s.before.Load(); b != nil; b = b.before.Load() {
		select {
		case <-b.quiet:
		case <-s.quit:
			return
		}
	}
	s.before.Store(nil)
	select {
	case s.rt.slots <- struct{}{}:
	case <-s.quit:
		return
	}
	defer func() { <-s.rt.slots }()
	began := s.rt.o.Now()
	m := s.rt.o.New(s.p)
	records, err := s.replay(m)
	switch {
	case errors.Is(err, errStopped):
	case err != nil:
		s.fail(err)
	default:
		s.rt.o.Logger.Debug("a partition is loaded", "topic", s.rt.o.Topic, "partition", s.p, "records", records, "ms", s.rt.o.Now()-began)
		s.begin(m)
	}
}

// replay reads what is in the log now: everything that was answered, for it was committed before.
func (s *shard[M]) replay(m machine.Machine) (records int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("BUG: the replay panicked: %v", p)
		}
	}()
	at, end := s.log.Bounds()
	all := false // everything below end is committed
	for at < end {
		if s.stopped() {
			return records, errStopped
		}
		b, err := s.log.Read(at)
		if err != nil {
			return records, fmt.Errorf("offset %d: %w", at, err)
		}
		if len(b) == 0 && all {
			return records, nil // compaction has left nothing up to the end
		}
		if len(b) == 0 {
			all = s.awaitCommitted(end - 1)
			continue
		}
		next, n, err := replayBatches(m, b, at)
		records += n
		if err != nil {
			return records, err
		}
		at = next
	}
	return records, nil
}

// awaitCommitted waits until more than offset is committed, or the shard is stopped. true: it was committed already.
func (s *shard[M]) awaitCommitted(offset int64) bool {
	woken := make(chan struct{})
	if !s.log.AwaitCommitted(offset, func() { close(woken) }) {
		return true
	}
	select {
	case <-woken:
	case <-s.quit:
	}
	return false
}

// replayBatches replays the whole batches of b from offset at on, and returns the offset behind them.
func replayBatches(m machine.Machine, b []byte, at int64) (next int64, records int, err error) {
	first := at
	for len(b) > 0 {
		batch, rest, err := record.Frame(b)
		if errors.Is(err, record.ErrShort) && at > first {
			break // the next read begins with it
		}
		if err == nil {
			err = batch.Check()
		}
		if err != nil {
			return at, records, &damage{at, err}
		}
		n, err := replayBatch(m, batch, first)
		records += n
		if err != nil {
			return at, records, err
		}
		at, b = batch.NextOffset(), rest
	}
	return at, records, nil
}

func replayBatch(m machine.Machine, batch record.Batch, from int64) (records int, err error) {
	if batch.IsControl() {
		return 0, nil
	}
	if batch.IsTransactional() {
		return 0, &damage{batch.BaseOffset(), errors.New("it is part of a transaction, which this version of leat cannot read")}
	}
	err = batch.Records(func(r *record.Record) error {
		offset := batch.BaseOffset() + int64(r.OffsetDelta)
		if offset < from {
			return nil
		}
		records++
		if err := m.Replay(offset, machine.Record{Key: r.Key, Value: r.Value}); err != nil {
			return &damage{offset, err}
		}
		return nil
	})
	var d *damage
	if err != nil && !errors.As(err, &d) {
		err = &damage{batch.BaseOffset(), err}
	}
	return records, err
}
