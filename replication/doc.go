// Package replication is a partition's role on this node: who leads it, which of its records are safe, and who waits for that.
//
// # What is safe
//
// A batch goes through three states: appended (in the log, the log end has passed it), flushed (on stable storage on this
// node, the flushed offset has passed it) and committed (the high watermark has passed it). The high watermark is the least
// flushed offset of the in-sync replicas: what it has passed survives a power cut everywhere. Consumers read only below it,
// acks=all is answered only below it, and it never goes back. Topics with write.caching count the log end instead.
//
//	role.go       the pure core: inputs move offsets, the high watermark follows. No lock, clock or log
//	partition.go  the driver: engine callbacks and the metadata feed the role; its effects are acted on outside the lock
//	produce.go    a batch on its way in; parked.go keeps the acks=all ones in order of offset
//	waiter.go     fetches that wait for the high watermark
//	manager.go    which partitions are here: logs, configurations and roles as the metadata says; stray.go what must not be here
//
// # Leadership
//
// A partition is led here when the metadata says so and the broker is registered with this process's incarnation: what an
// earlier life was told counts for nothing. The registration raises the leader epoch of everything this broker leads, and the
// epoch's start is noted in the log before the first batch of it can be appended.
//
// # Who runs what
//
// Appended and AppendDone run on an append worker of the engine, Flushed on the flusher of the log's directory, changes of
// roles on the metadata manager's applier, Tick on the broker's timer. Each takes Partition.mu for a few steps and calls
// nobody under it; answers and wake-ups come after. Lock order: Partition.mu, then timers.mu. Lookups take no lock. There
// are no goroutines here.
//
// # What is durable when
//
// Nothing here is durable by itself: the log is the engine's, the assignment the metadata's. After a restart everything in
// the log is flushed (the engine sees to it before it shows a log), so a single replica's high watermark is its log end.
//
// A log on disk that the metadata does not know is set aside, never deleted, unless the metadata itself is known to have
// removed its topic. A partition that the metadata knows and whose log is gone stays out of service instead of beginning
// anew, empty.
package replication
