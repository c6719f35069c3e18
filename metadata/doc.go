// Package metadata is the one truth about the cluster: an immutable image, changed only by replaying a log of small records,
// and the controller that decides what goes into the log.
//
//	image.go, delta.go, apply.go    the image, what changed between two, how records change it
//	record.go, codec.go, batch.go   the records and their bytes
//	controller.go, plan_*.go, names.go, placement.go, election.go
//	                                the controller: pure, (image, request, rand) -> (records, answers)
//	manager.go, proposer.go, applier.go, api.go
//	                                the driver: proposals queue, are planned one after the other on the newest image, appended in
//	                                batches, and answered when committed
//	log.go                          the log: partition __cluster_metadata-0 of the engine, behind replicatedLog, which a consensus
//	                                group can implement too
//	history.go, snapshot.go, snapshotter.go
//	                                snapshots, and the start from snapshot and log
//
// # The order of things
//
// Propose -> plan on the speculative image (proposer goroutine) -> append -> commit (on one node: flushed) -> publish the
// image -> subscribers -> answer (applier goroutine). Commits, subscribers and answers come in the order of proposals. A
// refusal is answered in order too, since it may rest on a change before it. When an append finds no space the changes of
// that batch are refused and the next one is tried; when the log fails, everything in flight is refused and nothing changes
// until a restart. Lock order: subscribers.mu before any lock a subscriber takes; queue.mu, inflight.mu and snapshotter.mu are
// leaves.
//
// # What is durable when
//
// A change is answered when its batch is flushed. A snapshot is durable before the log's prefix is let go, and the prefix is
// kept from the older of two snapshots on. A start needs a snapshot that reads back without a doubt, or the log from offset
// 0, and every record after it; anything less is a refused start with a sentence that names the way out. It is never taken
// for "no such topic".
//
// # The log
//
// Values of records in v2 batches without key; one batch holds whole proposals, so that the batch's CRC makes each of them
// all or nothing. Compression none. A record, all versions 0:
//
//	uvarint type | uvarint version | fields
//
//	type  name                fields
//	   1  NoOp
//	   2  FeatureLevel        name string, level varint (int16; 0 takes it away)
//	   3  BrokerRegistration  id varint, epoch varint (-1: the record's offset), incarnation 16 bytes, rack string, fenced bool,
//	                          listeners array of (name string, host string, port varint, security string)
//	   4  BrokerChange        id varint, epoch varint, fenced bool
//	   5  Topic               name string, id 16 bytes, internal bool
//	   6  Partition           topic id 16 bytes, partition varint, replicas, isr, elr (arrays of varint), leader varint (-1 none),
//	                          leader epoch varint, partition epoch varint
//	   7  PartitionChange     topic id 16 bytes, partition varint, mask 1 byte, then what the mask names, in this order:
//	                          1 replicas, 2 isr, 4 elr (arrays of varint), 8 leader varint (-1 none)
//	   8  RemoveTopic         id 16 bytes
//	   9  Config              resource type 1 byte (2 topic, 4 broker, 32 group), resource name string, key string, delete bool, value string
//	  10  ProducerIDs         broker varint, broker epoch varint, next id varint
//	  64  SnapshotHeader      offset varint, epoch varint, time varint (ms since the Unix epoch); only in snapshots
//	  65  SnapshotTrailer     records varint, CRC 4 bytes big endian; only in snapshots
//
//	varint: zigzag, base 128, least group first, as encoding/binary; uvarint: the same without zigzag
//	string: uvarint length in bytes, then the bytes; array: uvarint count, then the items; bool: one byte, 0 or 1
//
// Bytes behind the last field are damage. A type or version that is not in this table was written by a newer leat and stops
// the start; so a change of the format is a new version of a type, and the type keeps reading the old one.
//
// # Snapshots
//
// "<offset, 20 digits>-<epoch, 10 digits>.checkpoint" in the directory of the log: every record below offset, as one image.
// v2 batches, offsets counted from 0: a SnapshotHeader, the records that make the image, and, in a batch of its own, a
// SnapshotTrailer with the number of records between and the CRC-32C of all bytes before its batch. The name, header,
// trailer and every batch's CRC must agree.
package metadata
