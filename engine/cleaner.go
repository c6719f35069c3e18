package engine

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// cleaner compacts logs whose cleanup.policy has compact, one at a time, the dirtiest first. Its goroutine (StartBackground) looks for work every
// log.cleaner.backoff.ms.
//
// Up to where a log is compacted is kept in cleaner-offset-checkpoint, in Kafka's format, written after each round. Without it more is read again, nothing else.
//
// A log that cannot be compacted, whatever the reason, is tried again later, each time after twice as long and at the latest after retryMsMax; the others
// are not held up (C1, C2, R12).
type cleaner struct {
	// mu is held during a sweep. Taken before any other lock.
	mu   sync.Mutex
	e    *Engine
	keys keyMap
	pace pacer

	rounds, failures         atomic.Int64
	bytesRead, bytesLeft     atomic.Int64
	recordsKept, recordsGone atomic.Int64
}

// CleanerStats counts what the cleaner has done since the start.
type CleanerStats struct {
	Rounds, Failures         int64
	BytesRead, BytesLeft     int64 // of the segments that were compacted, before and after
	RecordsKept, RecordsGone int64
	Failing                  int64 // logs whose last round failed; they are tried again
}

// compaction is what a log knows about its compaction.
type compaction struct {
	end    atomic.Int64 // everything below was compacted
	status atomic.Pointer[CompactionStatus]
	swap   *swap // promised and not finished; under maint

	// Of the cleaner, under its mu.
	retryMs   int64 // not before
	failures  int   // in a row
	horizonMs int64 // the earliest delete horizon in what is compacted; 0: not known, -1: none
}

// CompactionStatus tells how the last round on a log went.
type CompactionStatus struct {
	AtMs     int64
	End      int64 // everything below is compacted
	Err      error // why it failed, nil if it did not
	Failures int   // rounds that failed in a row
	RetryMs  int64 // when it is tried again, after a failure
}

const (
	retryMsMin = 15_000
	retryMsMax = 600_000
)

// CleanerStats returns the cleaner's counters.
func (e *Engine) CleanerStats() CleanerStats {
	c := &e.cleaner
	failing := int64(0)
	for _, l := range e.Logs() {
		if s, ok := l.Compaction(); ok && s.Err != nil {
			failing++
		}
	}
	return CleanerStats{
		Rounds: c.rounds.Load(), Failures: c.failures.Load(), BytesRead: c.bytesRead.Load(), BytesLeft: c.bytesLeft.Load(),
		RecordsKept: c.recordsKept.Load(), RecordsGone: c.recordsGone.Load(), Failing: failing,
	}
}

// Compaction tells how the last round on the log went; false when there was none since the start.
func (l *Log) Compaction() (CompactionStatus, bool) {
	if s := l.compaction.status.Load(); s != nil {
		return *s, true
	}
	return CompactionStatus{}, false
}

// CompactedOffset returns the offset below which the log is compacted.
func (l *Log) CompactedOffset() int64 { return l.compaction.end.Load() }

// Clean compacts the logs whose turn it is at nowMs, each once.
func (e *Engine) Clean(nowMs int64) {
	c := &e.cleaner
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.closed() {
		return
	}
	c.begin(e)
	e.rollOverdue(nowMs)
	var turn []compactable
	for _, l := range e.Logs() {
		if w, ok := l.compactable(nowMs); ok {
			turn = append(turn, w)
		}
	}
	slices.SortFunc(turn, func(a, b compactable) int {
		return cmp.Or(cmp.Compare(b.ratio, a.ratio), compareTP(a.l.tp, b.l.tp))
	})
	for _, w := range turn {
		if c.stopping() {
			break
		}
		if e.noted(w) {
			c.compact(w, nowMs)
		}
	}
	c.keys.trim()
}

// noted tells whether a mark on disk has what the batches that may go say of their producers: a start needs the newest five of each, not only the last
// (producerstart.go). If not, marks are taken first; a log that cannot have one now is left for the next time.
func (e *Engine) noted(w compactable) bool {
	if w.l.durableMark() >= w.to {
		return true
	}
	e.tick.Lock()
	defer e.tick.Unlock()
	if err := w.l.dir.markLogs(); err != nil {
		e.log.Warn("a log is not compacted: what its producers did is not noted", "partition", w.l.tp.String(), "err", err)
	}
	return w.l.durableMark() >= w.to
}

func (c *cleaner) begin(e *Engine) {
	if c.e == nil {
		c.e = e
		c.pace = pacer{bytesPerSecond: e.o.Defaults.CleanerMaxBytesPerSecond, now: time.Now, wait: c.wait}
	}
}

// rollOverdue rolls active segments of compacted logs that max.compaction.lag.ms wants compacted.
func (e *Engine) rollOverdue(nowMs int64) {
	for _, l := range e.Logs() {
		if cfg := l.cfg.Load(); cfg.Compact && cfg.MaxCompactionLagMs < math.MaxInt64 {
			l.rollIfOld(nowMs)
		}
	}
}

// compact runs one round on a log.
func (c *cleaner) compact(w compactable, nowMs int64) {
	l := w.l
	r := &compactRound{c: c, l: l, cfg: l.cfg.Load(), nowMs: nowMs, from: w.from, to: w.to}
	started := c.pace.now()
	end, err := r.run()
	took := c.pace.now().Sub(started)
	c.bytesRead.Add(r.bytesIn)
	c.bytesLeft.Add(r.bytesOut)
	c.recordsKept.Add(r.s.kept)
	c.recordsGone.Add(r.s.dropped)
	switch {
	case errors.Is(err, errStopping), errors.Is(err, errMoved):
		return
	case err != nil && errors.Is(l.Err(), ErrClosed): // its files have gone meanwhile
		return
	case err != nil:
		c.failed(l, nowMs, err)
		return
	}
	c.rounds.Add(1)
	c.succeeded(l, nowMs, end, r.s.horizonMs)
	l.e.log.Info("log compacted", "partition", l.tp.String(), "from", r.from, "to", end, "bytes", r.bytesIn, "bytesLeft", r.bytesOut,
		"records", r.s.kept+r.s.dropped, "recordsLeft", r.s.kept, "ms", took.Milliseconds())
	if err := l.dir.writeCheckpoints(ckptCompacted); err != nil {
		l.e.log.Warn("writing up to where logs are compacted failed and is tried again", "dir", l.dir.path, "err", err)
	}
}

func (c *cleaner) succeeded(l *Log, nowMs, end, horizonMs int64) {
	p := &l.compaction
	p.failures, p.retryMs, p.horizonMs = 0, 0, -1
	if horizonMs > 0 {
		p.horizonMs = horizonMs
	}
	p.end.Store(end)
	p.status.Store(&CompactionStatus{AtMs: nowMs, End: end})
}

func (c *cleaner) failed(l *Log, nowMs int64, err error) {
	p := &l.compaction
	c.failures.Add(1)
	delay := min(int64(retryMsMin)<<min(p.failures, 10), retryMsMax)
	p.failures++
	p.retryMs = nowMs + delay
	p.status.Store(&CompactionStatus{AtMs: nowMs, End: p.end.Load(), Err: err, Failures: p.failures, RetryMs: p.retryMs})
	l.e.log.Warn("compacting a log failed and is tried again", "partition", l.tp.String(), "inMs", delay, "failures", p.failures, "err", err)
}

// writeCompactedLocked writes cleaner-offset-checkpoint if it changed.
func (d *logDir) writeCompactedLocked(logs []*Log) error {
	m := map[TopicPartition]int64{}
	for _, l := range logs {
		if end := l.compaction.end.Load(); end > 0 {
			m[l.tp] = end
		}
	}
	if maps.Equal(m, d.writtenCompacted) {
		return nil
	}
	err := d.withReserve(func() error { return writeOffsetCheckpoint(d.e.o.FS, filepath.Join(d.path, cleanerOffsetFileName), m) })
	if err == nil {
		d.writtenCompacted = m
	}
	return err
}

// moved notes that n bytes were read or written: it waits if that was too fast, and tells when to stop.
func (c *cleaner) moved(n int) error {
	if c.stopping() || c.pace.spend(n) {
		return errStopping
	}
	return nil
}

func (c *cleaner) stopping() bool {
	select {
	case <-c.e.life.stop:
		return true
	default:
		return false
	}
}

// wait waits for d, or until the engine stops.
func (c *cleaner) wait(d time.Duration) (stopped bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-c.e.life.stop:
		return true
	}
}

// cleanLoop is the cleaner's goroutine.
func (e *Engine) cleanLoop() {
	t := time.NewTicker(time.Duration(max(1, e.o.Defaults.CleanerBackoffMs)) * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			e.Clean(e.o.Now())
		case <-e.life.stop:
			return
		}
	}
}

// pacer keeps the bytes moved per second below a limit (log.cleaner.io.max.bytes.per.second).
type pacer struct {
	bytesPerSecond float64
	now            func() time.Time
	wait           func(time.Duration) (stopped bool)
	due            time.Time // when the bytes moved so far would have been moved at the limit
}

// Waits shorter than paceStep are put together.
const paceStep = 10 * time.Millisecond

// spend notes n bytes and waits until they are due.
func (p *pacer) spend(n int) (stopped bool) {
	cost := float64(n) / p.bytesPerSecond * float64(time.Second)
	if cost < 1e-3 { // no limit
		return false
	}
	now := p.now()
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(min(cost, float64(math.MaxInt64/2))))
	if ahead := p.due.Sub(now); ahead >= paceStep {
		return p.wait(ahead)
	}
	return false
}
