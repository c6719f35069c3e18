package engine

import (
	"math"
	"time"

	"github.com/leatmq/leat/config"
)

// schedule tells when periodic work is due next, in ms of the broker clock.
type schedule struct {
	retention, expiry, checkpoint, highWatermark, lazyFlush, marks, idle int64
}

// Intervals that are not configurable.
const (
	expiryIntervalMs = 60_000
	lazyFlushMs      = 1_000
	marksMs          = 1_000
	tickInterval     = time.Second
	// checkpointStepDefault is how far a log's recovery point may stay behind while that saves work: a start after a crash reads so much per log
	// at most, besides what one checkpoint interval appends.
	checkpointStepDefault = 1 << 20
)

func (s *schedule) reset(now, checkpointMs int64) {
	s.retention, s.expiry, s.checkpoint, s.highWatermark, s.lazyFlush, s.marks = now, now+expiryIntervalMs, now+checkpointMs, now, now, now
	s.idle = now + idleMs
}

// due tells whether work scheduled at *at is due, and schedules it again. A clock that went back makes it due: else it would wait until the clock has come
// again to where it was.
func due(at *int64, now, intervalMs int64) bool {
	intervalMs = max(1, intervalMs)
	if now < *at && *at-now <= intervalMs {
		return false
	}
	*at = now + min(intervalMs, math.MaxInt64-max(now, 0))
	return true
}

// Tick does the periodic work that is due at now: retention, rolls by time, lazy flushes, checkpoints, expiry, delayed deletion.
func (e *Engine) Tick(now int64) {
	e.tick.Lock()
	defer e.tick.Unlock()
	if e.closed() {
		return
	}
	b := e.o.Defaults
	if due(&e.due.lazyFlush, now, lazyFlushMs) {
		e.flushLazily(now)
	}
	full := e.checkSpace()
	if full { // what may go should go now
		e.due.retention = min(e.due.retention, now+fullRetentionMs)
	}
	if due(&e.due.retention, now, b.RetentionCheckIntervalMs) {
		e.rollByTime(now)
		e.retain(now)
	}
	if due(&e.due.expiry, now, expiryIntervalMs) {
		e.expireProducers(now)
	}
	if due(&e.due.checkpoint, now, checkpointIntervalMs(b)) {
		e.checkpoint()
	}
	if due(&e.due.marks, now, marksMs) {
		e.markLogs()
	}
	if due(&e.due.highWatermark, now, b.HighWatermarkCheckpointMs) {
		e.checkpointHighWatermarks()
	}
	e.restIdle(due(&e.due.idle, now, idleMs))
	e.emptyTrash(now)
}

// checkSpace looks after the reserves and tells whether a directory is full.
func (e *Engine) checkSpace() (full bool) {
	for _, d := range e.dirs {
		if d.err() != nil {
			continue
		}
		if err := d.reserve.check(); err != nil {
			e.log.Warn("the reserve for a full disk was not made", "dir", d.path, "err", d.failed("make the reserve", err))
		}
		full = full || d.reserve.space() != spaceRoom
	}
	return full
}

// markLogs writes the state of the logs that moved.
func (e *Engine) markLogs() {
	for _, d := range e.dirs {
		if d.err() != nil {
			continue
		}
		if err := d.markLogs(); err != nil {
			e.log.Warn("writing the logs' state failed and is tried again", "dir", d.path, "err", err)
		}
	}
}

// checkpointIntervalMs is the shorter of the two configured intervals: the files are written together.
func checkpointIntervalMs(b *config.Broker) int64 {
	return min(b.RecoveryPointCheckpointMs, b.LogStartCheckpointMs)
}

// checkpointHighWatermarks writes the high watermarks of the directories in which one has moved.
func (e *Engine) checkpointHighWatermarks() {
	for _, d := range e.dirs {
		if d.err() != nil {
			continue
		}
		sum := int64(0)
		for _, l := range d.list() {
			sum += l.hw.Load()
		}
		if sum == d.writtenHW {
			continue
		}
		if err := d.writeCheckpoints(ckptHighWatermark); err != nil {
			e.log.Warn("writing high watermarks failed and is tried again", "dir", d.path, "err", err)
			continue
		}
		d.writtenHW = sum
	}
}

// StartBackground starts the goroutine that calls Tick about once a second, and the cleaner, until Close.
func (e *Engine) StartBackground() {
	if e.o.Defaults.CleanerEnable {
		e.life.ticker.Go(e.cleanLoop)
	}
	e.life.ticker.Go(func() {
		t := time.NewTicker(tickInterval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				e.Tick(e.o.Now())
			case <-e.life.hurry:
				e.tick.Lock()
				e.markLogs()
				e.tick.Unlock()
			case <-e.life.stop:
				return
			}
		}
	})
}

// flushLazily makes write caching topics durable when flush.ms is over.
func (e *Engine) flushLazily(now int64) {
	for _, l := range e.Logs() {
		cfg := l.cfg.Load()
		if !cfg.WriteCaching || l.flushed.Load() >= l.logEnd.Load() {
			continue
		}
		since := l.firstDirtyMs.Load()
		if since == 0 { // a round emptied the log while an append ran
			l.firstDirtyMs.CompareAndSwap(0, now)
			continue
		}
		if now-since >= cfg.FlushMs {
			l.flushAll()
		}
	}
}

// flushAll asks for everything the log has to be made durable.
func (l *Log) flushAll() {
	l.maint.Lock() // no truncation between looking at the end and asking for it
	defer l.maint.Unlock()
	if l.Err() == nil {
		l.requestFlush(l.logEnd.Load(), l.flushGeneration())
	}
}

// rollByTime rolls active segments that are older than segment.ms, so that retention may come to them though nobody appends.
func (e *Engine) rollByTime(now int64) {
	for _, l := range e.Logs() {
		l.rollIfOld(now)
	}
}

func (l *Log) rollIfOld(now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed || l.Err() != nil {
		return
	}
	cfg := l.cfg.Load()
	active := l.segs.Load().active()
	if active.Size() == 0 || l.dir.reserve.space() == spaceTapped || !l.rollIsDue(active, cfg, -1, now) {
		return
	}
	if err := l.rollLocked(cfg, l.logEnd.Load(), now); err != nil {
		l.rollError(err)
	}
}

// rollError notes that a roll nobody waits for failed.
func (l *Log) rollError(err error) {
	err = l.dir.failed("roll", err)
	l.e.log.Warn("rolling a segment failed", "partition", l.tp.String(), "err", err)
}

// SetProducerIDExpirationMs changes producer.id.expiration.ms.
func (e *Engine) SetProducerIDExpirationMs(ms int64) { e.producerExpirationMs.Store(ms) }

// expireProducers forgets producers that were idle for too long.
func (e *Engine) expireProducers(now int64) {
	for _, l := range e.Logs() {
		l.mu.Lock()
		if !l.mu.closed {
			l.mu.producers.expirationMs = e.producerExpirationMs.Load()
			l.mu.producers.expire(now)
		}
		l.mu.Unlock()
	}
}

// checkpoint raises the recovery points as far as everything below them is durable, and writes the checkpoint files.
func (e *Engine) checkpoint() {
	for _, d := range e.dirs {
		if d.err() != nil {
			continue
		}
		for _, l := range d.list() {
			l.raiseRecoveryPoint(false)
		}
		if err := d.writeCheckpoints(ckptAll); err != nil {
			e.log.Warn("writing checkpoints failed and is tried again", "dir", d.path, "err", err)
		}
	}
}

// raiseRecoveryPoint makes durable what is derived from the log, as far as the data itself is, and then claims it. Without force a log that grew
// little is left for later. The order is: sealed segments are finished, indexes, leader epochs and producer snapshot are durable, then the claim.
func (l *Log) raiseRecoveryPoint(force bool) {
	l.maint.Lock()
	defer l.maint.Unlock()
	if l.Err() != nil {
		return
	}
	if l.cfg.Load().WriteCaching {
		l.requestFlush(l.logEnd.Load(), l.flushGeneration()) // bounds what a power cut takes, and the next recovery
	}
	l.retrySealing()
	point := l.claimable()
	bytes := l.appendedBytes.Load()
	if point <= l.promise.recoveryPoint.Load() || !force && bytes-l.promise.bytes < l.e.o.CheckpointStepBytes {
		return
	}
	if err := l.syncDerived(point); err != nil {
		err = l.dir.failed("checkpoint", err)
		l.e.log.Warn("the recovery point stays", "partition", l.tp.String(), "err", err)
		return
	}
	l.promise.bytes = bytes
	l.promise.recoveryPoint.Store(point)
}

// retrySealing finishes segments whose seal failed for want of space.
func (l *Log) retrySealing() {
	segs := l.segs.Load()
	for _, h := range segs.list[:len(segs.list)-1] {
		if !h.sealed.Load() && h.Base() < l.flushed.Load() {
			l.sealLocked(h)
		}
	}
}

// claimable returns how far the recovery point may go: to the flushed offset, but not past the end of a segment that is not finished.
func (l *Log) claimable() int64 {
	point := l.flushed.Load()
	segs := l.segs.Load()
	for _, h := range segs.list[:len(segs.list)-1] {
		if !h.sealed.Load() {
			return min(point, h.Base())
		}
	}
	return point
}

// syncDerived makes durable what a start after a crash would otherwise rebuild from the data below point.
func (l *Log) syncDerived(point int64) error {
	if err := l.segs.Load().active().SyncIndexes(); err != nil {
		return l.dir.syncFailed("sync indexes", err)
	}
	return l.dir.withReserve(func() error {
		if err := l.storeEpochs(); err != nil {
			return err
		}
		return l.snapshotProducers(point)
	})
}

// snapshotProducers writes the producer state at the log end, which is at least point, unless a snapshot at or above point is there.
func (l *Log) snapshotProducers(point int64) error {
	if l.promise.snapshotOffset >= point {
		return nil
	}
	l.mu.Lock()
	offset := l.logEnd.Load()
	state := l.mu.producers.snapshot()
	l.mu.Unlock()
	if err := writeSnapshot(l.e.o.FS, l.path, offset, state); err != nil {
		return err
	}
	l.dropSnapshots(offset)
	l.promise.snapshotOffset = offset
	return nil
}

// dropSnapshots removes producer snapshots that nothing needs once the one at newest is there: kept are it, its predecessor (newest may be above what
// survives a crash) and those at the start of a segment, which a truncation begins from.
func (l *Log) dropSnapshots(newest int64) {
	offsets, err := listSnapshots(l.e.o.FS, l.path)
	if err != nil {
		return // the next time
	}
	bases := map[int64]bool{newest: true, l.promise.snapshotOffset: true}
	for _, h := range l.segs.Load().list {
		bases[h.Base()] = true
	}
	for _, offset := range offsets {
		if !bases[offset] {
			l.removeSnapshot(offset)
		}
	}
}
