package config

// NoLimit is Kafka's way to write "never" in a count or time: the largest int64.
const NoLimit = 1<<63 - 1

// Topic is the configuration of one topic, typed. A field carries the words of its key, units last; see the key's Doc for its meaning.
// A Topic is a value taken from a Set at one moment: read only, safe to share.
type Topic struct {
	Delete  bool // cleanup.policy has delete
	Compact bool // cleanup.policy has compact; neither: nothing is ever removed but by DeleteRecords

	RetentionMs    int64 // -1 = forever
	RetentionBytes int64 // per partition; -1 = no limit

	SegmentBytes       int
	SegmentMs          int64
	SegmentJitterMs    int64
	SegmentIndexBytes  int
	IndexIntervalBytes int
	Preallocate        bool
	FileDeleteDelayMs  int64

	MaxMessageBytes             int  // one batch as the producer compressed it, with its 12 bytes of offset and length
	MaxDecompressedMessageBytes int  // one batch after decompression
	LogAppendTime               bool // message.timestamp.type
	TimestampBeforeMaxMs        int64
	TimestampAfterMaxMs         int64

	CompressionType string // producer, uncompressed, gzip, snappy, lz4 or zstd
	GzipLevel       int    // -1 = the library's default
	LZ4Level        int
	ZstdLevel       int

	MinInsyncReplicas     int
	UncleanLeaderElection bool

	MinCleanableDirtyRatio float64
	DeleteRetentionMs      int64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64

	WriteCaching  bool  // ours: acknowledge before stable storage
	FlushMessages int64 // with WriteCaching: flush after so many records
	FlushMs       int64 // with WriteCaching: flush after so long

	// Accepted as Kafka accepts them when tiered storage is off; without effect.
	RemoteStorageEnable      bool
	RemoteLogCopyDisable     bool
	RemoteLogDeleteOnDisable bool
	RemoteCopyLagMs          int64
	RemoteCopyLagBytes       int64
	LocalRetentionMs         int64 // -2 = RetentionMs
	LocalRetentionBytes      int64 // -2 = RetentionBytes

	// Accepted and kept for the parts of a cluster that will use them.
	LeaderThrottledReplicas   []string
	FollowerThrottledReplicas []string
	DeadLetterQueueEnable     bool
}
