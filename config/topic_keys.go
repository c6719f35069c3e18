package config

import "math"

var compressionTypes = []string{"producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"}

// link is one place a topic key's default may come from: a broker key, and by how much its number is multiplied.
type link struct {
	broker string
	times  int64
}

// topicKey is a row of the topics' table. The default is the first link of the chain that has a value; without a chain it is Key.Default.
type topicKey struct {
	Key
	chain []link
	set   func(*Topic, value)
}

const (
	minuteMs = 60_000
	hourMs   = 3_600_000
)

func from(broker string) []link { return []link{{broker, 1}} }

// topicKeys is every topic key. Names, types, limits and defaults are Kafka 4.4's; write.caching is ours.
var topicKeys = []topicKey{
	{Key{Name: "cleanup.policy", Type: List, Values: []string{"compact", "delete"},
		Doc: "What happens to old data: delete removes segments by age and size, compact keeps the last record of each key; both may be given. Empty keeps everything."},
		from("log.cleanup.policy"), setCleanupPolicy},
	{Key{Name: "retention.ms", Type: Long, Min: -1, Max: anyLong,
		Doc: "With the delete policy: a segment is removed when its newest record is older; -1 keeps it forever."},
		[]link{{"log.retention.ms", 1}, {"log.retention.minutes", minuteMs}, {"log.retention.hours", hourMs}},
		func(t *Topic, v value) { t.RetentionMs = max(v.n, -1) }},
	{Key{Name: "retention.bytes", Type: Long, Min: math.MinInt64, Max: anyLong,
		Doc: "With the delete policy: the oldest segments of a partition are removed while it would still be at least this large; negative is no limit."},
		from("log.retention.bytes"), func(t *Topic, v value) { t.RetentionBytes = max(v.n, -1) }},
	{Key{Name: "segment.bytes", Type: Int, Min: 1 << 20, Max: anyInt,
		Doc: "The largest segment file. Retention and compaction work on whole segments."},
		from("log.segment.bytes"), func(t *Topic, v value) { t.SegmentBytes = int(v.n) }},
	{Key{Name: "segment.ms", Type: Long, Min: 1, Max: anyLong,
		Doc: "A new segment is begun after so long, even if the old one is not full."},
		[]link{{"log.roll.ms", 1}, {"log.roll.hours", hourMs}}, func(t *Topic, v value) { t.SegmentMs = v.n }},
	{Key{Name: "segment.jitter.ms", Type: Long, Max: anyLong,
		Doc: "At most so much is taken off segment.ms, by chance, so that not all partitions roll at once."},
		[]link{{"log.roll.jitter.ms", 1}, {"log.roll.jitter.hours", hourMs}}, func(t *Topic, v value) { t.SegmentJitterMs = v.n }},
	{Key{Name: "segment.index.bytes", Type: Int, Min: 4, Max: anyInt,
		Doc: "The largest index file of a segment; a full index begins a new segment."},
		from("log.index.size.max.bytes"), func(t *Topic, v value) { t.SegmentIndexBytes = int(v.n) }},
	{Key{Name: "index.interval.bytes", Type: Int, Max: anyInt,
		Doc: "About how many bytes of log lie between two index entries."},
		from("log.index.interval.bytes"), func(t *Topic, v value) { t.IndexIntervalBytes = int(v.n) }},
	{Key{Name: "preallocate", Type: Boolean,
		Doc: "Reserve a new segment's whole size on disk at once. Without it leat reserves in growing steps."},
		from("log.preallocate"), func(t *Topic, v value) { t.Preallocate = v.b }},
	{Key{Name: "file.delete.delay.ms", Type: Long, Max: anyLong,
		Doc: "Removed files stay on disk for so long."},
		from("log.segment.delete.delay.ms"), func(t *Topic, v value) { t.FileDeleteDelayMs = v.n }},
	{Key{Name: "max.message.bytes", Type: Int, Max: anyInt,
		Doc: "The largest batch, as compressed by the producer, with its first 12 bytes."},
		from("message.max.bytes"), func(t *Topic, v value) { t.MaxMessageBytes = int(v.n) }},
	{Key{Name: "max.decompressed.message.bytes", Type: Int, Min: 1, Max: math.MaxInt32 - 8,
		Doc: "What a batch may grow to when it is decompressed for checking; a larger one is refused."},
		from("max.decompressed.message.bytes"), func(t *Topic, v value) { t.MaxDecompressedMessageBytes = int(v.n) }},
	{Key{Name: "message.timestamp.type", Type: String, Values: []string{"CreateTime", "LogAppendTime"},
		Doc: "Whether records keep the producer's timestamp or get the broker's."},
		from("log.message.timestamp.type"), func(t *Topic, v value) { t.LogAppendTime = v.s == "LogAppendTime" }},
	{Key{Name: "message.timestamp.before.max.ms", Type: Long, Max: anyLong,
		Doc: "With CreateTime: a record may be at most so much older than the broker's clock."},
		from("log.message.timestamp.before.max.ms"), func(t *Topic, v value) { t.TimestampBeforeMaxMs = v.n }},
	{Key{Name: "message.timestamp.after.max.ms", Type: Long, Max: anyLong,
		Doc: "With CreateTime: a record may be at most so far ahead of the broker's clock."},
		from("log.message.timestamp.after.max.ms"), func(t *Topic, v value) { t.TimestampAfterMaxMs = v.n }},
	{Key{Name: "compression.type", Type: String, Values: compressionTypes,
		Doc: "How batches are compressed in the log. producer keeps them as they come, which costs the broker nothing; any other value makes it recompress what comes otherwise."},
		from("compression.type"), func(t *Topic, v value) { t.CompressionType = v.s }},
	{Key{Name: "compression.gzip.level", Type: Int, Min: -1, Max: 9, holes: []int64{0},
		Doc: "Level of compression.type=gzip, 1 to 9, or -1 for the library's default."},
		from("compression.gzip.level"), func(t *Topic, v value) { t.GzipLevel = int(v.n) }},
	{Key{Name: "compression.lz4.level", Type: Int, Min: 1, Max: 17,
		Doc: "Level of compression.type=lz4."},
		from("compression.lz4.level"), func(t *Topic, v value) { t.LZ4Level = int(v.n) }},
	{Key{Name: "compression.zstd.level", Type: Int, Min: -131072, Max: 22,
		Doc: "Level of compression.type=zstd."},
		from("compression.zstd.level"), func(t *Topic, v value) { t.ZstdLevel = int(v.n) }},
	{Key{Name: "min.insync.replicas", Type: Int, Min: 1, Max: anyInt,
		Doc: "acks=all needs so many replicas in sync, or the write is refused. More than there are replicas counts as all of them."},
		from("min.insync.replicas"), func(t *Topic, v value) { t.MinInsyncReplicas = int(v.n) }},
	{Key{Name: "unclean.leader.election.enable", Type: Boolean,
		Doc: "A replica that is not in sync may lead when no other can: available again, at the price of acknowledged records."},
		from("unclean.leader.election.enable"), func(t *Topic, v value) { t.UncleanLeaderElection = v.b }},
	{Key{Name: "min.cleanable.dirty.ratio", Type: Double, Max: 1,
		Doc: "With the compact policy: a log is compacted when at least this part of it is new."},
		from("log.cleaner.min.cleanable.ratio"), func(t *Topic, v value) { t.MinCleanableDirtyRatio = v.f }},
	{Key{Name: "delete.retention.ms", Type: Long, Max: anyLong,
		Doc: "With the compact policy: a tombstone (a key with a null value) is kept for so long, so that a reader starting over can see it."},
		from("log.cleaner.delete.retention.ms"), func(t *Topic, v value) { t.DeleteRetentionMs = v.n }},
	{Key{Name: "min.compaction.lag.ms", Type: Long, Max: anyLong,
		Doc: "With the compact policy: a record is not compacted away before it is so old."},
		from("log.cleaner.min.compaction.lag.ms"), func(t *Topic, v value) { t.MinCompactionLagMs = v.n }},
	{Key{Name: "max.compaction.lag.ms", Type: Long, Min: 1, Max: anyLong,
		Doc: "With the compact policy: a log is compacted at the latest when its oldest new record is so old."},
		from("log.cleaner.max.compaction.lag.ms"), func(t *Topic, v value) { t.MaxCompactionLagMs = v.n }},
	{Key{Name: "write.caching", Type: Boolean,
		Doc: "Acknowledge and show records before they are on stable storage. Faster, and a power failure may lose the newest ones. Not in Kafka, which always does."},
		from("log.write.caching"), func(t *Topic, v value) { t.WriteCaching = v.b }},
	{Key{Name: "flush.messages", Type: Long, Min: 1, Max: anyLong,
		Doc: "With write.caching: flush after so many records. Without it every acknowledged record is flushed anyway."},
		from("log.flush.interval.messages"), func(t *Topic, v value) { t.FlushMessages = v.n }},
	{Key{Name: "flush.ms", Type: Long, Max: anyLong,
		Doc: "With write.caching: flush after so long. Without it every acknowledged record is flushed anyway."},
		[]link{{"log.flush.interval.ms", 1}, {"log.flush.scheduler.interval.ms", 1}}, func(t *Topic, v value) { t.FlushMs = v.n }},
	{Key{Name: "leader.replication.throttled.replicas", Type: List,
		Doc: "Replicas whose leader side is throttled: PARTITION:BROKER,... or *. Kept, without effect so far."},
		nil, func(t *Topic, v value) { t.LeaderThrottledReplicas = v.list }},
	{Key{Name: "follower.replication.throttled.replicas", Type: List,
		Doc: "Replicas whose follower side is throttled: PARTITION:BROKER,... or *. Kept, without effect so far."},
		nil, func(t *Topic, v value) { t.FollowerThrottledReplicas = v.list }},
	{Key{Name: "errors.deadletterqueue.group.enable", Type: Boolean, Default: "false",
		Doc: "Share groups may use this topic as a dead letter queue. Kept, without effect so far."},
		nil, func(t *Topic, v value) { t.DeadLetterQueueEnable = v.b }},
	{Key{Name: "remote.storage.enable", Type: Boolean, Default: "false",
		Doc: "Tiered storage, which leat does not have: only false is accepted, as by a Kafka where it is not switched on."},
		nil, func(t *Topic, v value) { t.RemoteStorageEnable = v.b }},
	{Key{Name: "remote.log.copy.disable", Type: Boolean, Default: "false",
		Doc: "Kept, without effect: there is no tiered storage."},
		nil, func(t *Topic, v value) { t.RemoteLogCopyDisable = v.b }},
	{Key{Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false",
		Doc: "Kept, without effect: there is no tiered storage."},
		nil, func(t *Topic, v value) { t.RemoteLogDeleteOnDisable = v.b }},
	{Key{Name: "remote.copy.lag.ms", Type: Long, Min: -1, Max: anyLong,
		Doc: "Kept, without effect: there is no tiered storage."},
		from("log.remote.copy.lag.ms"), func(t *Topic, v value) { t.RemoteCopyLagMs = v.n }},
	{Key{Name: "remote.copy.lag.bytes", Type: Long, Min: -1, Max: anyLong,
		Doc: "Kept, without effect: there is no tiered storage."},
		from("log.remote.copy.lag.bytes"), func(t *Topic, v value) { t.RemoteCopyLagBytes = v.n }},
	{Key{Name: "local.retention.ms", Type: Long, Min: -2, Max: anyLong,
		Doc: "Kept, without effect: there is no tiered storage. -2 means retention.ms."},
		from("log.local.retention.ms"), func(t *Topic, v value) { t.LocalRetentionMs = v.n }},
	{Key{Name: "local.retention.bytes", Type: Long, Min: -2, Max: anyLong,
		Doc: "Kept, without effect: there is no tiered storage. -2 means retention.bytes."},
		from("log.local.retention.bytes"), func(t *Topic, v value) { t.LocalRetentionBytes = v.n }},
}

func setCleanupPolicy(t *Topic, v value) {
	for _, p := range v.list {
		t.Delete = t.Delete || p == "delete"
		t.Compact = t.Compact || p == "compact"
	}
}
