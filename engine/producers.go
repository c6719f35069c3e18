package engine

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/record"
)

// ErrCoordinatorFenced: a transaction marker comes from a coordinator that has been replaced. Matched with errors.Is.
var ErrCoordinatorFenced = errors.New("transaction coordinator fenced")

const (
	// producerWindow is how many batches of a producer are remembered. Kafka's clients have at most as many in flight, so any batch that a
	// client sends again is among them (B-E2).
	producerWindow = 5

	noSequence   = record.NoSequence
	noProducerID = record.NoProducerID
)

// batchMeta is one batch of a producer's window.
type batchMeta struct {
	lastSequence int32
	offsetDelta  int32 // last - base offset
	lastOffset   int64
	timestampMs  int64 // the batch's max timestamp
}

func (m batchMeta) baseOffset() int64 { return m.lastOffset - int64(m.offsetDelta) }

// baseSequence is the inverse of record.AddSequence.
func (m batchMeta) baseSequence() int32 {
	if m.lastSequence >= m.offsetDelta {
		return m.lastSequence - m.offsetDelta
	}
	return math.MaxInt32 - (m.offsetDelta - m.lastSequence) + 1
}

// producerEntry is what a partition knows about one producer.
type producerEntry struct {
	id               int64
	epoch            int16
	coordinatorEpoch int32  // of the last marker; -1 before the first
	lastTimestampMs  int64  // of the last batch, by its own account
	activeMs         int64  // broker time when it was last known to be active; 0 = never
	active           bool   // it has written since the last expiry check: activeMs is behind
	txnFirstOffset   int64  // the open transaction's first offset; noOffset when none is open
	savedIn          uint64 // the turn that has saved the entry

	// window holds the newest batches of epoch, oldest first, the first batches of them. A batch of another epoch empties it: a sequence
	// number means nothing without its epoch.
	window  [producerWindow]batchMeta
	batches int8
}

func newProducerEntry(id int64) producerEntry {
	return producerEntry{id: id, epoch: record.NoEpoch, coordinatorEpoch: noEpoch, lastTimestampMs: record.NoTimestamp, txnFirstOffset: noOffset}
}

// lastBatch returns the newest batch of the present epoch.
func (p *producerEntry) lastBatch() (batchMeta, bool) {
	if p.batches == 0 {
		return batchMeta{lastSequence: noSequence, lastOffset: noOffset}, false
	}
	return p.window[p.batches-1], true
}

func (p *producerEntry) lastSequence() int32 {
	last, _ := p.lastBatch()
	return last.lastSequence
}

// find returns the batch with exactly this epoch and these sequence numbers.
func (p *producerEntry) find(epoch int16, first, last int32) (batchMeta, bool) {
	if epoch != p.epoch {
		return batchMeta{}, false
	}
	for _, m := range p.window[:p.batches] {
		if m.lastSequence == last && m.baseSequence() == first {
			return m, true
		}
	}
	return batchMeta{}, false
}

func (p *producerEntry) setEpoch(epoch int16) {
	if p.epoch != epoch {
		p.epoch, p.batches = epoch, 0
	}
}

func (p *producerEntry) push(m batchMeta) {
	if p.batches == producerWindow {
		copy(p.window[:], p.window[1:])
		p.batches--
	}
	p.window[p.batches] = m
	p.batches++
}

// state returns what DescribeProducers shows.
func (p *producerEntry) state() ProducerState {
	return ProducerState{
		ProducerID:            p.id,
		Epoch:                 p.epoch,
		LastSequence:          p.lastSequence(),
		LastTimestampMs:       p.lastTimestampMs,
		CoordinatorEpoch:      p.coordinatorEpoch,
		CurrentTxnStartOffset: p.txnFirstOffset,
	}
}

// txnRange is a transaction that has ended: its first offset and that of its marker.
type txnRange struct {
	first, marker int64
}

// producerTable is the idempotence and transaction state of one partition: per producer id the epoch, the newest batches and the open
// transaction. It is a function of the log's batches (and of the clock, which lets idle producers go): a snapshot of it and the batches behind
// the snapshot give it back.
//
// A leader asks check before it appends a batch and calls update once the batch has its offsets. Several batches that are written together are
// checked and updated one after the other, between begin and commit; when the write fails, rollback makes it all undone.
//
// It is not safe for concurrent use: the log guards it.
type producerTable struct {
	expirationMs int64
	entries      map[int64]*producerEntry

	// openTxns are the producers with an open transaction, in the order of its first offset.
	openTxns []*producerEntry
	// endedTxns have ended, but their markers may not be replicated yet: until then nobody may read what is behind their first offset
	// (B-E6). In the order of their markers.
	endedTxns []txnRange
	logStart  int64
	checkedMs int64 // broker time of the last expiry check; 0 = there has not been one

	undo struct {
		active    bool
		turn      uint64
		saved     []producerEntry // entries before their first change in the turn
		created   []int64         // producers that were not known
		endedTxns int             // how many of endedTxns there were
	}
}

// newProducerTable returns an empty table. Producers idle for expirationMs are forgotten (producer.id.expiration.ms).
func newProducerTable(expirationMs int64) *producerTable {
	return &producerTable{expirationMs: expirationMs, entries: map[int64]*producerEntry{}}
}

// len returns the number of producers.
func (t *producerTable) len() int { return len(t.entries) }

// each calls fn for every producer, in the order of their ids.
func (t *producerTable) each(fn func(ProducerState)) {
	for _, p := range t.sorted() {
		fn(p.state())
	}
}

func (t *producerTable) sorted() []*producerEntry {
	list := make([]*producerEntry, 0, len(t.entries))
	for _, p := range t.entries {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b *producerEntry) int { return cmp.Compare(a.id, b.id) })
	return list
}

// check tells whether a batch may be appended as the next one. A batch that was appended before and is still in its producer's window is not an
// error: isDup is true and dup has the offsets it got then. Batches without a producer id always pass.
//
// Errors: ErrInvalidProducerEpoch (the producer was fenced), ErrOutOfOrderSequence (a batch before this one is missing, or this is a duplicate too
// old to be remembered), ErrInvalidTxnState (not transactional although a transaction is open), ErrCoordinatorFenced (a marker of an old
// coordinator).
func (t *producerTable) check(b record.Batch) (dup batchMeta, isDup bool, err error) {
	id := b.ProducerID()
	if id < 0 {
		return batchMeta{}, false, nil
	}
	p := t.entries[id]
	if p == nil {
		return batchMeta{}, false, nil // whatever the sequence: the producer's older batches may have been deleted
	}
	if b.IsControl() {
		return batchMeta{}, false, p.checkMarker(b)
	}
	if dup, isDup = p.find(b.ProducerEpoch(), b.BaseSequence(), b.LastSequence()); isDup {
		return dup, true, nil
	}
	return batchMeta{}, false, p.checkNext(b)
}

func (p *producerEntry) checkNext(b record.Batch) error {
	epoch, first := b.ProducerEpoch(), b.BaseSequence()
	switch last := p.lastSequence(); {
	case epoch < p.epoch:
		return fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrInvalidProducerEpoch, p.id, p.epoch, epoch)
	case epoch > p.epoch && first != 0 && p.epoch != record.NoEpoch:
		return fmt.Errorf("%w: producer %d begins epoch %d with %d, not with 0", ErrOutOfOrderSequence, p.id, epoch, first)
	case epoch == p.epoch && !isNextSequence(last, first):
		return fmt.Errorf("%w: the last sequence number of producer %d is %d, the batch begins with %d", ErrOutOfOrderSequence, p.id, last, first)
	case p.txnFirstOffset != noOffset && !b.IsTransactional():
		return fmt.Errorf("%w: producer %d has a transaction open since offset %d, the batch is not part of it", ErrInvalidTxnState, p.id, p.txnFirstOffset)
	}
	return nil
}

// isNextSequence tells whether first follows last. Without a last one (a new epoch that began with a marker) it is 0.
func isNextSequence(last, first int32) bool {
	return int64(first) == int64(last)+1 || last == math.MaxInt32 && first == 0
}

func (p *producerEntry) checkMarker(b record.Batch) error {
	if epoch := b.ProducerEpoch(); epoch < p.epoch {
		return fmt.Errorf("%w: producer %d has epoch %d, the marker %d", ErrInvalidProducerEpoch, p.id, p.epoch, epoch)
	}
	if m, ok := endTxnMarker(b); ok && m.coordinatorEpoch < p.coordinatorEpoch {
		return fmt.Errorf("%w: the last marker of producer %d has coordinator epoch %d, this one %d", ErrCoordinatorFenced, p.id, p.coordinatorEpoch, m.coordinatorEpoch)
	}
	return nil
}

// update notes a batch that has its final offsets: appended after check, or read from the log. It does not check anything: what is in the log
// is true. It does not allocate for a known producer.
func (t *producerTable) update(b record.Batch) {
	id := b.ProducerID()
	if id < 0 {
		return
	}
	if b.IsControl() {
		t.updateMarker(id, b)
		return
	}
	p := t.change(id)
	p.setEpoch(b.ProducerEpoch())
	if b.BaseSequence() != noSequence {
		p.push(batchMeta{
			lastSequence: b.LastSequence(),
			offsetDelta:  b.LastOffsetDelta(),
			lastOffset:   b.LastOffset(),
			timestampMs:  b.MaxTimestamp(),
		})
	}
	p.lastTimestampMs, p.active = b.MaxTimestamp(), true
	if b.IsTransactional() && p.txnFirstOffset == noOffset {
		p.txnFirstOffset = b.BaseOffset()
		t.openTxns = append(t.openTxns, p)
	}
}

func (t *producerTable) updateMarker(id int64, b record.Batch) {
	m, ok := endTxnMarker(b)
	if !ok {
		return // compaction left the batch without its record, or it is a control batch of another kind
	}
	p := t.change(id)
	p.setEpoch(b.ProducerEpoch())
	p.coordinatorEpoch = m.coordinatorEpoch
	p.lastTimestampMs, p.active = m.timestampMs, true
	if p.txnFirstOffset == noOffset {
		return
	}
	if i := slices.Index(t.openTxns, p); i >= 0 {
		t.openTxns = slices.Delete(t.openTxns, i, i+1)
	}
	t.endedTxns = append(t.endedTxns, txnRange{first: p.txnFirstOffset, marker: b.BaseOffset()})
	p.txnFirstOffset = noOffset
}

// change returns the producer's entry, made when it is not known, for changing.
func (t *producerTable) change(id int64) *producerEntry {
	p := t.entries[id]
	if p == nil {
		p = new(producerEntry)
		*p = newProducerEntry(id)
		t.entries[id] = p
		if t.undo.active {
			t.undo.created = append(t.undo.created, id)
		}
	} else if t.undo.active && p.savedIn != t.undo.turn {
		t.undo.saved = append(t.undo.saved, *p)
	}
	p.savedIn = t.undo.turn
	return p
}

// begin starts a turn whose updates rollback can undo.
func (t *producerTable) begin() {
	invariant.Must(!t.undo.active, "a turn of the producer table is running")
	t.undo.active, t.undo.endedTxns = true, len(t.endedTxns)
	t.undo.turn++
}

// commit ends the turn; its updates stay.
func (t *producerTable) commit() {
	invariant.Must(t.undo.active, "no turn of the producer table is running")
	t.endTurn()
}

func (t *producerTable) endTurn() {
	t.undo.active = false
	t.undo.saved, t.undo.created = t.undo.saved[:0], t.undo.created[:0]
}

// rollback ends the turn and makes its updates undone.
func (t *producerTable) rollback() {
	invariant.Must(t.undo.active, "no turn of the producer table is running")
	for _, saved := range t.undo.saved {
		*t.entries[saved.id] = saved
	}
	for _, id := range t.undo.created {
		delete(t.entries, id)
	}
	t.endedTxns = t.endedTxns[:t.undo.endedTxns]
	t.rebuildOpenTxns()
	t.endTurn()
}

func (t *producerTable) rebuildOpenTxns() {
	clear(t.openTxns)
	t.openTxns = t.openTxns[:0]
	for _, p := range t.entries {
		if p.txnFirstOffset != noOffset {
			t.openTxns = append(t.openTxns, p)
		}
	}
	slices.SortFunc(t.openTxns, func(a, b *producerEntry) int { return cmp.Compare(a.txnFirstOffset, b.txnFirstOffset) })
}

// expire forgets the producers that have neither written for expirationMs nor have a transaction open.
//
// Idle time is counted on the broker's clock, from the first call after the producer's last batch: with the batches' own timestamps, a
// producer that writes old data would be forgotten while it writes (B-E9).
func (t *producerTable) expire(nowMs int64) {
	invariant.Must(!t.undo.active, "producers expire within a turn")
	t.checkedMs = nowMs
	for id, p := range t.entries {
		switch {
		case p.active || p.activeMs > nowMs: // or the clock was set back
			p.active, p.activeMs = false, nowMs
		case p.txnFirstOffset == noOffset && nowMs-p.activeMs >= t.expirationMs:
			delete(t.entries, id)
		}
	}
}

// removeBelow notes the new log start. As in Kafka, producers stay although their batches are gone; they leave by expire.
func (t *producerTable) removeBelow(logStart int64) {
	t.logStart = max(t.logStart, logStart)
	t.replicatedTo(logStart)
}

// replicatedTo notes the high watermark: transactions whose markers are below it no longer hold back firstUnstableOffset.
func (t *producerTable) replicatedTo(highWatermark int64) {
	invariant.Must(!t.undo.active, "the high watermark moves within a turn")
	n := 0
	for n < len(t.endedTxns) && t.endedTxns[n].marker < highWatermark {
		n++
	}
	t.endedTxns = slices.Delete(t.endedTxns, 0, n)
}

// unstable tells whether firstUnstableOffset may find one.
func (t *producerTable) unstable() bool { return len(t.openTxns)+len(t.endedTxns) > 0 }

// firstUnstableOffset returns the first offset of the transactions that are open, or whose end is not replicated; false when there is none.
// Readers of committed data stop there (exclusive, B-E3).
func (t *producerTable) firstUnstableOffset() (offset int64, ok bool) {
	if len(t.openTxns) > 0 {
		offset, ok = t.openTxns[0].txnFirstOffset, true
	}
	for _, txn := range t.endedTxns {
		if !ok || txn.first < offset {
			offset, ok = txn.first, true
		}
	}
	if ok {
		offset = max(offset, t.logStart)
	}
	return offset, ok
}

// snapshot returns the table's content for a snapshot file, in the order of the ids. The timestamp of an entry is that of the producer's last
// batch, or the broker time of its last activity when that is later: it decides how long the producer is remembered after a restart.
func (t *producerTable) snapshot() []snapshotEntry {
	invariant.Must(len(t.undo.saved)+len(t.undo.created) == 0, "snapshot of producers whose batches may not be in the log")
	list := make([]snapshotEntry, 0, len(t.entries))
	for _, p := range t.sorted() {
		last, _ := p.lastBatch()
		list = append(list, snapshotEntry{
			producerID:       p.id,
			epoch:            p.epoch,
			lastSequence:     last.lastSequence,
			lastOffset:       last.lastOffset,
			offsetDelta:      last.offsetDelta,
			timestampMs:      max(p.lastTimestampMs, t.lastActiveMs(p)),
			coordinatorEpoch: p.coordinatorEpoch,
			txnFirstOffset:   p.txnFirstOffset,
		})
	}
	return list
}

func (t *producerTable) lastActiveMs(p *producerEntry) int64 {
	if p.active {
		return max(p.activeMs, t.checkedMs)
	}
	return p.activeMs
}

// restore replaces the table's content by that of a snapshot. Only the newest batch of each producer is known then.
func (t *producerTable) restore(list []snapshotEntry) {
	invariant.Must(!t.undo.active, "the producer table is restored within a turn")
	t.entries = make(map[int64]*producerEntry, len(list))
	t.endedTxns = nil
	for _, s := range list {
		p := newProducerEntry(s.producerID)
		p.epoch, p.coordinatorEpoch, p.txnFirstOffset = s.epoch, s.coordinatorEpoch, s.txnFirstOffset
		p.lastTimestampMs, p.activeMs = s.timestampMs, max(0, s.timestampMs)
		if s.lastOffset != noOffset {
			p.push(batchMeta{lastSequence: s.lastSequence, offsetDelta: s.offsetDelta, lastOffset: s.lastOffset, timestampMs: s.timestampMs})
		}
		t.entries[p.id] = &p
	}
	t.rebuildOpenTxns()
}

// widen adds to each producer's window the batches below end that before remembers of it and t, rebuilt from a snapshot, does not.
func (t *producerTable) widen(before *producerTable, end int64) {
	for id, p := range t.entries {
		old := before.entries[id]
		if old == nil || old.epoch != p.epoch {
			continue
		}
		n := int8(0)
		for n < old.batches && old.window[n].lastOffset < end {
			n++
		}
		if last, ok := p.lastBatch(); ok && n > p.batches && old.window[n-1].lastOffset == last.lastOffset {
			p.window, p.batches = old.window, n
		}
	}
}

// copyEntries returns all entries, in the order of the ids.
func (t *producerTable) copyEntries() []producerEntry {
	if len(t.entries) == 0 {
		return nil
	}
	list := make([]producerEntry, 0, len(t.entries))
	for _, p := range t.sorted() {
		e := *p
		e.activeMs, e.active, e.savedIn = t.lastActiveMs(p), false, 0
		list = append(list, e)
	}
	return list
}

// restoreEntries replaces the table's content by what copyEntries returned.
func (t *producerTable) restoreEntries(list []producerEntry) {
	invariant.Must(!t.undo.active, "the producer table is restored within a turn")
	t.entries = make(map[int64]*producerEntry, len(list))
	t.endedTxns = nil
	for i := range list {
		p := list[i]
		p.activeMs = max(0, p.activeMs, p.lastTimestampMs)
		t.entries[p.id] = &p
	}
	t.rebuildOpenTxns()
}

// marker is the record of a control batch that ends a transaction.
type marker struct {
	coordinatorEpoch int32
	timestampMs      int64
}

// Control record formats. Key: version i16, type i16. Value of an end marker: version i16, coordinator epoch i32. Later versions append fields.
const (
	markerKeySize   = 4
	markerValueSize = 6
	markerAbort     = 0
	markerCommit    = 1
)

// endTxnMarker returns the marker in a control batch; false when there is none: the batch is of another kind or empty.
func endTxnMarker(b record.Batch) (m marker, ok bool) {
	if len(b) < b.SizeInBytes() || b.Count() == 0 {
		return marker{}, false
	}
	err := b.Records(func(r *record.Record) error {
		if len(r.Key) < markerKeySize || len(r.Value) < markerValueSize || ok {
			return nil
		}
		kind := binary.BigEndian.Uint16(r.Key[2:])
		ok = kind == markerAbort || kind == markerCommit
		m = marker{
			coordinatorEpoch: int32(binary.BigEndian.Uint32(r.Value[2:])),
			timestampMs:      b.BaseTimestamp() + r.TimestampDelta,
		}
		return nil
	})
	return m, ok && err == nil
}
