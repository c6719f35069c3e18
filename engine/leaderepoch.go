package engine

import "slices"

// noteEpoch records that a batch of epoch was appended at offset. l.mu is held; no work in the usual case that the epoch is the latest one.
func (l *Log) noteEpoch(epoch int32, offset int64) {
	if l.epochsPending {
		l.epochsPending = false
		l.epochsDirty.Store(true)
	}
	if epoch <= l.latestEpoch.Load() || epoch < 0 {
		return
	}
	if l.epochs.assign(epoch, offset) {
		l.epochsChangedLocked()
	}
}

// epochsChangedLocked notes that the cache differs from its file. The file follows before the recovery point passes the change: until then a
// recovery finds the epochs in the batches themselves.
func (l *Log) epochsChangedLocked() {
	latest, ok := l.epochs.latest()
	if !ok {
		latest = -1
	}
	l.latestEpoch.Store(latest)
	l.epochsDirty.Store(true)
}

// storeEpochs writes the epoch file when it is out of date. maint is held, or the log not yet visible.
func (l *Log) storeEpochs() error {
	if l.epochsUnsure.Swap(false) {
		if onDisk, err := loadEpochs(l.e.o.FS, l.path); err != nil || !slices.Equal(onDisk.entries(), l.epochs.entries()) {
			l.epochsDirty.Store(true)
		}
	}
	if !l.epochsDirty.Swap(false) {
		return nil
	}
	err := l.epochs.store(l.e.o.FS, l.path)
	if err != nil {
		l.epochsDirty.Store(true)
	}
	return err
}

// EndOffsetForEpoch returns the largest epoch at most epoch that the log has, and where it ends (the start of the next one, or the log end);
// -1, -1 when the log has none.
func (l *Log) EndOffsetForEpoch(epoch int32) (foundEpoch int32, endOffset int64) {
	return l.epochs.endOffsetFor(epoch, l.logEnd.Load())
}

// LatestEpoch returns the latest leader epoch in the log, -1 when there is none.
func (l *Log) LatestEpoch() int32 { return l.latestEpoch.Load() }

// EpochAt returns the leader epoch of the record at offset, -1 when unknown.
func (l *Log) EpochAt(offset int64) int32 { return l.epochs.epochAt(offset) }

// AssignEpochStart notes that epoch starts at offset; called when the node becomes leader. An epoch or offset below the latest is ignored.
func (l *Log) AssignEpochStart(epoch int32, offset int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.Err(); err != nil {
		return err
	}
	if epoch > l.latestEpoch.Load() && l.epochs.assign(epoch, offset) {
		// The next start forgets an epoch without batches, so the file need not have it before there is one: it would be a file per partition and start.
		dirty := l.epochsDirty.Load()
		l.epochsChangedLocked()
		if l.epochsPending = offset >= l.logEnd.Load(); l.epochsPending {
			l.epochsDirty.Store(dirty)
		}
	}
	return nil
}
