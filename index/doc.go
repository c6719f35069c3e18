// Package index reads and writes the three kinds of index files beside a segment's data file. All integers are big endian.
//
//	%020d.index       8-byte entries    int32 offset - base, int32 position
//	%020d.timeindex  12-byte entries    int64 timestamp,     int32 offset - base
//	%020d.txnindex   34-byte entries    int16 version (0), int64 producer id, first offset, last offset, last stable offset
//
// An offset entry is (last offset of a batch, position of that batch); both columns strictly increase. The first batch of a segment never
// has an entry. A time entry is (the largest timestamp so far, last offset of the first batch holding it); both columns strictly increase,
// and the last slot is kept free for the roll, when the largest timestamp is added whatever the interval. A transaction entry is one
// aborted transaction.
//
// # Where an index ends
//
// An all-zero entry is no entry: it means "end". The number of entries is never derived from the length of the file: an index being
// written is longer than its entries (space is allocated ahead and reads as zeros) and a crash may leave it so. The one legal entry that
// would be all zero, timestamp 0 at offset base, is not written; nothing is lost by that, since a search from the base finds the record.
//
// # States
//
// An index is written by one goroutine and read by any number.
//
//	writable  mapped at its maximum size, allocated in steps inside the mapping. Nothing is mapped or allocated before the first entry,
//	          so an idle partition costs an empty file. An entry is put into a tail in memory first, then the count is published
//	          atomically; readers only touch entries below the count. When the tail is full (64 entries), and at Sync, Seal and TruncateTo,
//	          its entries are copied into the mapping: after the kernel wrote a page the next store to it is a page fault, which
//	          would be every entry where flushes are frequent. The mapping never moves. Space comes from
//	          fallocate, before it is touched: a full disk is an error of Append, not a fault.
//	sealed    not mapped at all. The first entry of each 4 KiB page is kept in memory (2 KiB for a full index of a 1 GiB segment) and a
//	          lookup reads one page: 0.6 us from the page cache and one disk access when cold, where a binary search over cold mapped
//	          pages costs twenty. An index of a single page is kept whole and its file closed. So mappings are bounded by
//	          the number of active segments and there is no cache of mappings to manage (vm.max_map_count).
//
// Seal turns the first into the second while readers go on: the view is swapped, readers of the old one are waited for (a lookup lasts
// nanoseconds), and only then it is unmapped. TruncateTo waits the same way before it zeroes the entries it drops.
//
// # What is durable when
//
// Nothing before Sync, which takes along what waits in the tail (Flush puts that into the mapping only: enough for the end of the process). An index is derived data: whoever finds it missing, damaged or contradicting the data file rebuilds it. The kernel
// may write index pages before the pages of the data file they point to, and in any order, so after an unclean stop
// entries above the durable recovery point mean nothing and those below it are good because Sync is called before the recovery point moves
// past them. OpenOffset and OpenTime keep the longest valid prefix; OpenSealed* refuse (CorruptError) what is not valid to the last byte.
//
// A rebuilt sealed index is made in memory and put in place by an atomic replace, so a half-written one is never read.
package index
