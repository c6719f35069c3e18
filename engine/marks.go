package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

// marks is what a log knows about its marks (logstate.go). A mark is taken from the log as it is, becomes current when everything below it is flushed and
// its segment's entry in the directory is durable, and is then written. A truncation drops both.
type marks struct {
	mu      sync.Mutex
	taken   *mark
	gen     uint64 // flush generation when it was taken
	entries int64  // of the partition directory, likewise
	current *mark
	written int64 // the highest offset a file on disk may claim; 0 = none does
	durable int64 // the offset of the mark that the files on disk have; 0 = none
	base    *mark // the current one when all logs were written the last time
}

// takeMark notes the state of the log if it moved since the last time, and reports whether it did.
func (l *Log) takeMark() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed || l.Err() != nil {
		return false
	}
	segs := l.segs.Load()
	for _, h := range segs.list[:len(segs.list)-1] {
		if !h.sealed.Load() {
			return false
		}
	}
	active := segs.active()
	end := active.State()
	if end.NextOffset != l.logEnd.Load() {
		return false
	}
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	epochs := l.epochs.entries()
	if n := len(epochs); n > 0 && epochs[n-1].StartOffset >= end.NextOffset { // an epoch without a batch is forgotten by the next start
		epochs = epochs[:n-1]
	}
	if m := l.marks.current; m != nil && m.base == active.Base() && m.end.Size == end.Size && m.offset() == end.NextOffset && m.topicID == l.id &&
		slices.Equal(m.epochs, epochs) {
		l.marks.taken = nil
		return false
	}
	if !l.entries.durable() { // the segment is there for the next process only once it can be found
		l.dir.flusher.add(l)
	}
	l.marks.taken = &mark{topicID: l.id, base: active.Base(), end: end, epochs: epochs, producers: l.mu.producers.copyEntries()}
	l.marks.gen, l.marks.entries = l.flushGeneration(), l.entries.made.Load()
	return true
}

// adoptMark makes what was taken current if everything below it is flushed, and its segment can be found after a power cut.
func (l *Log) adoptMark() bool {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	m := l.marks.taken
	if m == nil || l.flushed.Load() < m.offset() || l.entries.synced.Load() < l.marks.entries || l.flushGeneration() != l.marks.gen {
		return false
	}
	l.marks.current, l.marks.taken = m, nil
	return true
}

func (l *Log) currentMark() *mark {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	return l.marks.current
}

// markedAt tells whether the current mark is about the end of the log.
func (l *Log) markedAt(end int64) bool {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	return l.marks.current != nil && l.marks.current.offset() == end
}

// keepMark is takeMark and adoptMark for a log that nobody writes to.
func (l *Log) keepMark() {
	l.takeMark()
	l.adoptMark()
}

// dropMarks forgets the marks after the flush generation was raised, and reports whether a file on disk may claim more than to.
func (l *Log) dropMarks(to int64) (claimed bool) {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	l.marks.taken, l.marks.current, l.marks.base, l.marks.durable = nil, nil, nil, 0
	return l.marks.written > to
}

// markLogs takes marks of the logs that moved, waits until they are flushed where that is on its way, and writes the marks that changed since those of
// all logs were written.
func (d *logDir) markLogs() error {
	if err := d.err(); err != nil {
		return err
	}
	moved, changed := 0, false
	d.unmarked.bytes.Store(0)
	logs := d.list()
	for _, l := range logs {
		changed = l.adoptMark() || changed // what write caching topics flushed in their own time
		if l.takeMark() {
			moved++
		}
	}
	d.unmarked.limit.Store(max(unmarkedBytesMin, int64(moved)*unmarkedBytesEach))
	if moved > 0 {
		d.flusher.settle()
		for _, l := range logs {
			changed = l.adoptMark() || changed
		}
	}
	if !changed {
		return nil
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	return d.failed("write log state", d.writeRecentMarksLocked(logs))
}

// unmarked counts what was appended to the logs of a directory since marks were taken. Under load that is more than a start should read before a second is over.
type unmarked struct {
	bytes, limit atomic.Int64
}

const (
	unmarkedBytesMin  = 16 << 20
	unmarkedBytesEach = 24 << 10 // for each log that moved last time
)

// countUnmarked notes an append, and has marks taken before their time when there is much to mark.
func (d *logDir) countUnmarked(n int64) {
	if d.unmarked.bytes.Add(n) < max(unmarkedBytesMin, d.unmarked.limit.Load()) {
		return
	}
	d.unmarked.bytes.Store(0)
	select {
	case d.e.life.hurry <- struct{}{}:
	default:
	}
}

// writeAllMarksLocked writes the marks of all logs; then the other file says nothing that counts, and goes.
func (d *logDir) writeAllMarksLocked(logs []*Log) error {
	chosen := make(map[TopicPartition]*mark, len(logs))
	for _, l := range logs {
		l.marks.mu.Lock()
		l.marks.base = l.marks.current
		if m := l.marks.current; m != nil {
			chosen[l.tp] = m
			l.marks.written = max(l.marks.written, m.offset())
		}
		l.marks.mu.Unlock()
	}
	d.claim(chosen)
	err := d.withReserve(func() error { return writeLogState(d.e.o.FS, d.path, logStateFileName, chosen) })
	if err == nil {
		noteWritten(logs, chosen)
	}
	if err != nil || !d.recentState {
		return err
	}
	if err := removeLogState(d.e.o.FS, d.path, logStateRecentFileName); err != nil {
		return err
	}
	d.recentState = false
	return nil
}

func (d *logDir) writeRecentMarksLocked(logs []*Log) error {
	chosen := map[TopicPartition]*mark{}
	for _, l := range logs {
		l.marks.mu.Lock()
		if m := l.marks.current; m != nil && m != l.marks.base {
			chosen[l.tp] = m
			l.marks.written = max(l.marks.written, m.offset())
		}
		l.marks.mu.Unlock()
	}
	if len(chosen) == 0 {
		return nil
	}
	d.claim(chosen)
	d.recentState = true
	err := d.withReserve(func() error { return writeLogState(d.e.o.FS, d.path, logStateRecentFileName, chosen) })
	if err == nil {
		noteWritten(logs, chosen)
	}
	return err
}

// noteWritten remembers which marks are on disk, of those that still count.
func noteWritten(logs []*Log, chosen map[TopicPartition]*mark) {
	for _, l := range logs {
		m := chosen[l.tp]
		l.marks.mu.Lock()
		if m != nil && l.marks.current == m {
			l.marks.durable = m.offset()
		}
		l.marks.mu.Unlock()
	}
}

// durableMark is the offset of the log's mark on disk.
func (l *Log) durableMark() int64 {
	l.marks.mu.Lock()
	defer l.marks.mu.Unlock()
	return l.marks.durable
}

// claim remembers that files speak about these partitions.
func (d *logDir) claim(chosen map[TopicPartition]*mark) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for tp := range chosen {
		d.mu.claimed[tp] = true
	}
}

// readMarks reads both log state files. whole: the first is there, and nothing is wrong with either.
func (d *logDir) readMarks() (best map[TopicPartition]*mark, whole bool) {
	best, whole = map[TopicPartition]*mark{}, true
	for _, name := range []string{logStateFileName, logStateRecentFileName} {
		found, err := readLogState(d.e.o.FS, d.path, name)
		if err != nil {
			d.e.log.Warn("log state file is unusable: the start reads more and writes it again", "dir", d.path, "err", err)
		}
		whole = whole && err == nil && (found != nil || name == logStateRecentFileName)
		d.recentState = d.recentState || name == logStateRecentFileName
		for tp, m := range found {
			if b := best[tp]; b == nil || b.offset() <= m.offset() {
				best[tp] = m
			}
		}
	}
	d.claim(best)
	return best, whole
}

// settle waits until what was dirty when it was called is flushed, or has failed.
func (f *flusher) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.stopped || len(f.mu.dirty) == 0 && !f.mu.busy {
		return
	}
	rounds := uint64(1)
	if f.mu.busy && len(f.mu.dirty) > 0 {
		rounds = 2
	}
	for until := f.mu.rounds + rounds; f.mu.rounds < until && !f.mu.stopped; {
		f.rounds.Wait()
	}
}

// openMarked opens the active segment, the last of bases, by the log's mark, and scans what was appended behind it. ok is false when that is not possible
// and the log has to be opened the long way: there is no mark, it is about another segment, or something does not fit it.
func (r *loader) openMarked(bases []int64) (ok bool, err error) {
	l, m := r.l, r.mark
	last := len(bases) - 1
	if m == nil || bases[last] != m.base {
		return false, nil
	}
	opts := l.segmentOptions(l.cfg.Load())
	s, ok, err := segment.OpenResting(l.path, m.base, opts, m.end)
	l.mu.producers.restoreEntries(m.producers)
	epochs := newEpochCache()
	epochs.replace(m.epochs)
	if err == nil && !ok && !r.clean {
		s, ok, err = r.recoverTail(epochs)
	}
	if err != nil || !ok || s.NextOffset() < r.promised {
		if s != nil {
			s.Release()
		}
		l.mu.producers = newProducerTable(l.e.o.Defaults.ProducerIDExpirationMs)
		return false, err
	}
	for _, base := range bases[:last] {
		h, err := r.openSegment(base, true)
		if err != nil {
			s.Release()
			r.release()
			return false, err
		}
		r.list = append(r.list, h)
	}
	r.list = append(r.list, &handle{Segment: s, createdMs: l.e.o.Now()})
	l.epochs = epochs
	l.segs.Store(&segmentList{r.list})
	r.opened = true
	return true, nil
}

// recoverTail scans what was appended behind the mark.
func (r *loader) recoverTail(epochs *epochCache) (*segment.Segment, bool, error) {
	l, m := r.l, r.mark
	s, res, ok, err := segment.RecoverTail(l.path, m.base, l.segmentOptions(l.cfg.Load()), m.end, r.promised, func(b record.Batch) {
		l.mu.producers.update(b)
		if latest, known := epochs.latest(); b.PartitionLeaderEpoch() >= 0 && (!known || b.PartitionLeaderEpoch() > latest) {
			epochs.assign(b.PartitionLeaderEpoch(), b.BaseOffset())
		}
	})
	if ok {
		r.tellCut(m.base, &res)
	}
	return s, ok, err
}

// restoreMarked is restoreSideState for a log that was opened by its mark: leader epochs and producers are there already.
func (r *loader) restoreMarked(start, end int64) error {
	l := r.l
	l.epochs.truncateFromEnd(end)
	changed := l.epochs.truncateFromStart(start)
	l.epochsChangedLocked()
	l.epochsDirty.Store(changed)
	l.epochsUnsure.Store(r.checkpointed < end)
	for _, offset := range r.snapshots {
		if offset <= end {
			l.promise.snapshotOffset = max(l.promise.snapshotOffset, offset)
		}
	}
	l.mu.producers.removeBelow(start)
	if n := len(r.snapshots); n > 0 && r.snapshots[n-1] > end { // a later log of these offsets must not find it, also not after a power cut
		return removeSnapshotsAbove(l.e.o.FS, l.path, end)
	}
	return nil
}

// useMark takes the log's mark into account if it is about this very log: what it says is durable need not be scanned, and is promised. It is used also when
// the recovery point is ahead of it, as it is for a moment at every checkpoint: it stays true, and it remembers more of each producer than a snapshot
// does, without which a batch that is sent again would be refused instead of recognised.
func (r *loader) useMark(m *mark) {
	if m == nil || m.topicID != r.l.id {
		return
	}
	r.promised = max(r.promised, m.offset())
	r.l.marks.current, r.l.marks.written, r.l.marks.durable = m, m.offset(), m.offset()
	r.producers = m
	r.mark, r.checkpointed, r.recoveryPoint = m, r.recoveryPoint, max(r.recoveryPoint, m.offset())
}
