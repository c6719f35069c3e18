// Package segment is one data file of a partition log with its indexes: append, read, recover, seal.
//
// # Files
//
//	%020d.log        record batches (package record) back to back; the name is the base offset, no batch in it has a lower offset
//	%020d.index      offset index      \
//	%020d.timeindex  time index         > package index, derived from the data file
//	%020d.txnindex   aborted transactions, created with the first one
//	*.deleted        the above, waiting to be removed
//	*.cleaned        the above, being written by a compaction (Cleaned)
//	*.swap           the above, written and about to take the place of the segments they were made of
//
// # Where a segment ends
//
// The end is the end of the last valid batch, never the length of the file: space is allocated ahead in growing steps (64 KiB, doubling up to
// 64 MiB) and reads as zeros, and a crash may leave anything behind the last synced byte. Seal cuts the file to its end, so a sealed segment
// normally has no tail; when it has one (power was lost before the cut was durable) Load finds out and Size shrinks to the truth.
//
// # States
//
//	resting   active, or sealed, with no file open (rest.go): how an idle partition's segments are. What needs a file wakes it
//	active    made by Create, or by Open(sealed=false): one writer appends, truncates, seals
//	unclean   Open(sealed=false) found something behind the last valid batch: Append answers ErrNotRecovered until Recover ran
//	sealed    read only. Opened from disk nothing is read until it is needed: a start costs one stat per segment
//	failed    a failed append could not be undone, so nobody knows what is behind the end: Append answers ErrFailed, reading goes on
//	deleted   files renamed; readers that hold a reference go on reading, the last one removes the files
//
// # Append and what readers see
//
// The writer writes all batches with one pwritev at the end, then adds index entries, then publishes size and next offset. Readers take no
// lock: below the published size nothing changes (except by TruncateTo, which cuts only what no reader may ask for: it is
// above the high watermark). A failed or short write leaves the end where it was and cuts off what was written.
//
// Index entries follow Kafka's rule, so its tools agree: before each batch but the first of a segment, when more than IndexIntervalBytes were
// appended since the last entry, (last offset, position) of that batch is added to the offset index and the running maximum of the
// timestamps to the time index. Control batches do not raise that maximum: they are not user data, and their time is the broker's. Index
// entries are a help, not the truth: a lookup proves the entry against the batch header it points to, and goes on without the index if they
// disagree. A full disk that stops an index from growing does not fail the append; the index just gets sparser.
//
// # What is durable when
//
// Data: when Sync returned nil. A failed Sync is final, all later ones return the same error. Recover syncs what it accepted before it
// returns. Indexes: when SyncIndexes returned nil; the log calls it before it moves its recovery point past them. The time of the last
// append is the modification time of the data file, which Seal sets.
//
// # Lifetime
//
// The owner holds one reference from Create or Open on. Acquire takes one more unless the count is already zero; the last Release closes
// the files, and removes them when the segment is deleted.
package segment
