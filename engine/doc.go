// Package engine keeps partition logs on disk: appends, group commit, reads, rolling, retention, truncation, recovery.
//
// It knows nothing of the protocol, of leaders and followers, or of what a high watermark means; package replication tells it.
//
// # Offsets of a log
//
//	logStart   what is below was deleted; only grows
//	hw         high watermark: consumers read below it. Raised by SetHighWatermark only, never lowered while the log is open
//	flushed    everything below is on stable storage on this node. Raised by flush rounds, lowered by Truncate only
//	logEnd     the next record's offset. Raised by appends, lowered by Truncate
//	recovery   (recovery point) everything below is on stable storage, and so is what is derived from it: finished segments, index entries,
//	point      leader epochs, a producer snapshot. A start after a crash trusts what is below without looking and scans what is above
//
//	logStart <= hw <= logEnd      flushed <= logEnd      recovery point <= flushed
//
// The recovery point is raised when all that is durable, and lowered, on disk too, before anything above the new value is cut.
//
// # States of a log
//
//	open       everything works
//	failed     its directory went offline, or it was found damaged. Appends, truncation, retention answer ErrStorage; what can be read is read
//	deleted    moved away: ErrDeleted. Readers that hold a Range keep it
//	closed     the engine is closed: ErrClosed
//
// A log leaves open once and never returns; Log.Err tells the reason, the Observer hears it.
//
// # States of a log directory
//
//	unlocked   not ours
//	locked     whose it is gets settled; until it is ours, .lock is all that is written (foreign.go)
//	loading    locked; the clean shutdown marker was read and durably removed (in this order, before anything else)
//	online     every log was loaded
//	offline    an operation failed that must not be retried (a sync) or that says the disk is broken. All its logs failed. Until the next start
//	           nothing is written to it: what is on stable storage stays as it was
//	closed     everything flushed and checkpointed, the marker written last, unlocked
//
// Running out of descriptors is no failure: the operation that met it answers an error or, if it is a flush round, waits; the next one is tried again. Nor
// is a full disk:
//
// # A full disk
//
// Each log directory keeps a reserve: the file .reserve, which only occupies space (log.dir.reserve.bytes). How a directory stands with its file system
// (reserve.state; the owner is reserve.mu, any operation's error and Tick move it):
//
//	room     nothing has found the disk full
//	full     something has, and the reserve is whole. Appends are tried, and fail if they need space; what fits into the part of a segment that was
//	         allocated ahead succeeds
//	tapped   full, and something that must go on found no space: a quarter of the reserve was given back to the file system, and another one when that
//	         was not enough. Appends that need space are refused without being tried, segments are not rolled for their age, nothing is allocated
//	         ahead: what is free is kept for what makes room
//
//	room -> full     an operation meets ENOSPC or EDQUOT
//	any  -> tapped   an operation under logDir.withReserve, or an append to a log with UseReserve (the metadata log), meets it. At a start: there is no
//	                 room for the reserve
//	any  -> room     Tick, each second: the file system says that there is room for what is missing of the reserve and as much again, and that can
//	                 indeed be allocated
//
// Under withReserve run: checkpoints, leader epochs, producer snapshots, the roll that lets the active segment expire, renames of what is deleted, the loading
// of a log, the clean marker, and the creation of a log, which the metadata has decided by then (Room is asked before that). While a directory is not in
// room, retention is checked every five seconds, and what is deleted goes at the next Tick without file.delete.delay.ms: readers hold what they read.
// Nothing of this needs a restart, and a start needs no space.
//
// An index that cannot grow gets sparser, and is never written beyond what is allocated: a full disk is no fault in mapped memory (A9, A11, B-A15).
//
// # What is durable when
//
//	a new log             directory, topic id, first segment and their entries: before Create returns
//	a batch               when FlushedOffset passes it. The flush round has then synced every segment from the old flushed offset on, and
//	                      the partition directory if a segment was added: a batch is never promised before the file it is in can be found
//	a new segment's       with the flush round of its first batch, before a mark is about it, before a clean stop is marked: a process that starts
//	entry                 takes the entries it finds for durable when one of the two says so, and else syncs the directory (entries.go)
//	log start             before the files below it go (retention), before DeleteRecords answers
//	what batches tell of  in a mark, before their files go: producers are known as long as they are active, their batches or not (producerstart.go)
//	their producers
//	high watermark        at checkpoints and at close; a start clamps it into the log
//	leader epochs,        before the recovery point passes them. A recovery finds the newer ones in the batches
//	producers, indexes
//	recovery point        checkpointed while running
//	the logs' state       (marks: end of the active segment, leader epochs, producers) about once a second, and more often under load, of what is
//	                      flushed (marks.go, logstate.go): a start after a crash reads only what was appended since, and no index
//	deletion of a log     before Delete returns
//
// After a crash, the start scans from the log's mark, or from the recovery point if there is no mark that fits. An active segment opened by its mark rests:
// no file of it is open until somebody reads or appends (package segment), and idle segments are put to rest again, so that open files and mappings are
// bounded by the partitions in use (idle.go).
//
// The first batch that is not valid ends the log; what follows, and later segments, are cut:
// nothing of it was promised. What the scan accepts is synced before anyone sees it, because it may be in the page cache only. If the log ends
// below its recovery point, bytes are missing that were promised: nothing is cut and the log fails (DamageError).
//
// A file that is derived (index, snapshot, leader epochs, checkpoint) and missing or wrong is rebuilt or counts as empty; it never stops a start.
//
// # Compaction
//
// A log whose cleanup.policy has compact keeps, of each key, the last record (KIP-58, KIP-534). How a log stands:
//
//	logStart .. CompactedOffset     compacted: each key once at most
//	        .. the dirty end        sealed segments, below the high watermark, the flushed offset and the first unstable offset, older than
//	                                min.compaction.lag.ms: dirty
//	        .. logEnd               not touched
//
// It is a log's turn when more than min.cleanable.dirty.ratio of what could be compacted is dirty, when max.compaction.lag.ms is over for the oldest dirty
// record (which also rolls the active segment), or when nothing is dirty and a delete horizon has passed. A round (compact.go): the keys of the dirty
// segments and their latest offsets go into a map of bounded memory (keymap.go); if it is full, the rest waits for the next round. Then all segments up to there
// are passed in order, survivors (survivors.go) decides what is left of each batch, and that takes the place of a group of segments, group by
// group (swap.go).
//
// What always holds:
//
//   - A record never changes its offset, timestamp or place; a batch neither its sequence numbers nor its codec. A batch of which everything stays is
//     copied byte for byte.
//   - For each key the latest record below the dirty end is there, or it was a tombstone and delete.retention.ms is over since no older record is left.
//   - The last batch of each producer that the log knows stays, if only as a header: its sequence can be found in the batches alone. The newest five are in a
//     mark on disk before any goes.
//   - A segment ends where the next one begins, before and after. Inside segments offsets may be missing, from the first compaction on for ever
//     (.leat-compacted).
//   - The active segment, and so everything a start reads, is never touched: marks, recovery point and flushed offset mean what they meant.
//   - A restart finds each group as it was or as it will be, whole. CompactedOffset may be behind after a crash: then more is read again.
//   - Readers are not waited for: what they hold they read to the end.
//
// A round of one log that fails leaves it as it was; it is tried again later, the others go on. Only what says that the disk cannot be relied on (a sync of a
// directory, an error while files change their names) takes the directory offline, as everywhere.
//
// # Who does what
//
//	append worker   (Options.Workers of them) turns: validate, assign offsets, write, publish, answer. A log is pinned to one worker
//	flusher         (one per directory, with up to 15 helpers) flush rounds
//	marks           are taken by the ticker: Log.mu for a moment each, then the files of the directory
//	background      (one) seals rolled segments, starts writeback, closes and unlinks segments
//	ticker          (one, StartBackground) Tick
//	cleaner         (one, StartBackground) compacts logs, one at a time, no faster than log.cleaner.io.max.bytes.per.second; Close ends its round
//	callers         Create, Delete, Truncate, DeleteRecords, Close do their I/O on the caller's goroutine; reads too
//
// # Appends
//
// Log.Enqueue pushes onto the log's queue; whoever finds it empty puts the log into its worker's run queue. A turn takes what is queued, up to
// turnBytesMax, and writes it with one pwritev, or one per segment if it rolls in between. Offsets are assigned by patching the batch in place. Producer
// state is changed as batches are placed, so that a batch is checked against the one before it in the same turn, and is rolled back when the write
// fails. Completers and the observer run after the locks are released, and only then is the log handed to the flusher: nobody hears that
// an offset is flushed before hearing that it exists. A steady state append allocates nothing.
//
// The new segment of a roll is made by the worker: with allocation in small steps that takes tens of microseconds, less than handing over one that
// was prepared. All that is slow about a roll (trimming, syncing, the producer snapshot) is the background's.
//
// # Flush rounds
//
// A round takes the dirty logs of the directory, syncs their files, raises the flushed offsets, tells the observers; the next one begins at
// once if something became dirty meanwhile. One to three files are synced in parallel; more with one syncfs when the directory has a file system
// of its own, or when little is dirty on the whole machine. What a round makes durable is each log's target as of the taking. A failed sync is final: the
// kernel may have dropped the pages, so a retry could succeed without the data. The directory goes offline and everything that waits fails.
//
// # Locks
//
// In this order; none is held while a Completer or Observer runs, except that Failed may come under maint:
//
//	cleaner.mu       one Clean at a time
//	Engine.tick      one Tick at a time
//	Engine.admin[i]  creation and deletion of the partitions that hash to i
//	Log.maint        which segments there are (but for the worker's roll), sealing, recovery point. Held during I/O; no request waits for it
//	                 but DeleteRecords and Truncate
//	Log.mu           what a turn works on: active segment, producers, epochs. Held by the worker during its write
//	logDir.writing   the checkpoint and log state files. Held during I/O
//	reserve.mu       the reserve. Held during I/O on that one file
//	logDir.mu, sharedSync.mu, Log.flush, worker.mu, flusher.mu, tailCache.mu, trash.mu, jobQueue.mu   leaves: no I/O,
//	                 nothing else taken
//
// Readers take no lock: the list of segments is an immutable snapshot behind an atomic pointer, each segment is reference counted, offsets are
// atomics. A reader that finds a segment gone loads the list again.
package engine
