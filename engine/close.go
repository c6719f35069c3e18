package engine

import (
	"context"
	"errors"
	"sync"
)

// closed tells whether Close has begun.
func (e *Engine) closed() bool {
	e.life.Lock()
	defer e.life.Unlock()
	return e.life.closed
}

// Close stops the engine. What is queued is appended, everything is flushed and checkpointed, and last of all each directory that was loaded in
// full and had no failure gets its clean shutdown marker (B-A6, B-A7). When ctx ends before the work is done, the rest is left to the recovery
// of the next start: the error says so and no further marker is written.
func (e *Engine) Close(ctx context.Context) error {
	e.life.Lock()
	if e.life.closed {
		e.life.Unlock()
		return ErrClosed
	}
	e.life.closed = true
	close(e.life.stop)
	e.life.Unlock()
	e.life.ticker.Wait()
	e.cleaner.mu.Lock() // a Clean or a Tick called by hand may still run
	defer e.cleaner.mu.Unlock()
	e.tick.Lock()
	defer e.tick.Unlock()
	for i := range e.admin { // and Creates and Deletes
		e.admin[i].Lock()
		defer e.admin[i].Unlock()
	}

	for _, w := range e.workers {
		w.stop()
	}
	for _, l := range e.Logs() {
		l.flushAll()
	}
	for _, d := range e.dirs {
		d.flusher.stop()
	}
	e.jobs.stop()
	var errs []error
	for _, d := range e.dirs {
		errs = append(errs, d.closeClean(ctx))
	}
	e.closeSegments()
	return errors.Join(append(errs, e.unlock())...)
}

// closeClean finishes the directory's logs and marks the stop as clean.
func (d *logDir) closeClean(ctx context.Context) error {
	if d.err() != nil {
		return nil // known since it happened
	}
	if err := d.closeLogs(ctx); err != nil {
		return err
	}
	for _, l := range d.list() {
		l.keepMark()
	}
	if err := d.writeCheckpoints(ckptAll); err != nil {
		return err
	}
	if !d.loaded {
		return nil
	}
	return d.withReserve(func() error { return putCleanMarker(d.e.o.FS, d.path, 0) })
}

// syncingThreads is how many logs are worked on at once where each waits for a few syncs, which a file system does together.
const syncingThreads = 32

// closeLogs finishes the logs, several at a time.
func (d *logDir) closeLogs(ctx context.Context) error {
	queue := make(chan *Log)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	logs := d.list()
	told := d.newAdvance("closing partitions", len(logs))
	for range max(syncingThreads, d.e.o.Defaults.RecoveryThreadsPerLogDir) {
		wg.Go(func() {
			for l := range queue {
				if err := l.finish(ctx); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
				}
				told.step()
			}
		})
	}
	for _, l := range logs {
		queue <- l
	}
	close(queue)
	wg.Wait()
	told.end()
	if len(errs) > 0 {
		return &closeError{d.path, len(logs), errs}
	}
	return nil
}

// finish makes everything about a log durable, so that the next start has nothing to look at. A log that has failed by itself (damage) keeps the
// directory from being marked clean: its state is not known.
func (l *Log) finish(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.maint.Lock()
	defer l.maint.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	l.retrySealing()
	end := l.logEnd.Load()
	if l.flushed.Load() != end || !l.entries.durable() {
		return &StorageError{Path: l.path, Op: "close", Err: errors.New("not everything was flushed")}
	}
	if l.appendedBytes.Load() == 0 && l.markedAt(end) && l.claimable() == end {
		return nil // the next start opens it as this one did; the recovery point stays where everything derived is durable
	}
	active := l.segs.Load().active()
	if l.appendedBytes.Load() > 0 {
		if err := active.Seal(l.e.o.Now()); err != nil {
			return err
		}
		if err := active.Sync(); err != nil {
			return err
		}
	}
	if l.promise.recoveryPoint.Load() < end || l.appendedBytes.Load() > 0 {
		if err := l.syncDerived(end); err != nil {
			return err
		}
	}
	if err := l.dir.withReserve(l.storeEpochs); err != nil {
		return err
	}
	if l.claimable() != end {
		return &StorageError{Path: l.path, Op: "close", Err: errors.New("not every segment was sealed")}
	}
	l.promise.recoveryPoint.Store(end)
	return nil
}

// closeSegments ends all logs and gives their segments and the trash back. Nothing uses them any more but readers, who hold references.
func (e *Engine) closeSegments() {
	for _, l := range e.Logs() {
		l.fail(ErrClosed)
		l.shut().release()
	}
	e.trash.mu.Lock()
	defer e.trash.mu.Unlock()
	for _, t := range e.trash.mu.segments {
		t.seg.Release()
	}
	e.trash.mu.segments = nil
}
