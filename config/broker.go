package config

// Broker is the broker's own configuration, typed. A field carries the words of its key, units last; see the key's Doc for its meaning.
// A Broker is a value taken from a Set at one moment: read only, safe to share.
type Broker struct {
	NodeID  int32  // node.id
	Rack    string // broker.rack; "" = none
	LogDirs []string

	Listeners           []Listener
	AdvertisedListeners []Listener // empty: every client is told the address it reached us by

	// Network.
	NetworkDriver            string // auto, epoll or net
	NetworkLoops             int    // 0 = chosen from the CPU count
	SocketRequestMaxBytes    int    // largest frame once a connection may send requests
	QueuedMaxRequestBytes    int64  // bytes of requests read and not yet answered, all connections
	MaxConnections           int
	MaxConnectionsPerIP      int
	ConnectionsMaxIdleMs     int64
	ConnectionMaxInFlight    int // requests of one connection read and not yet answered
	RequestWorkers           int // 0 = chosen from the CPU count; requests that may wait or write metadata
	DiskWorkers              int // 0 = chosen from the CPU count; cold reads
	AppendWorkers            int // 0 = chosen from the CPU count; partition appends
	RecoveryThreadsPerLogDir int
	MetricsListener          string // host:port of the metrics; "" = none

	// Topics.
	AutoCreateTopics         bool
	DeleteTopics             bool
	NumPartitions            int32
	DefaultReplicationFactor int16
	TopicDefaults            Topic // what a topic without overrides has

	// Reading.
	FetchMaxBytes          int
	FetchSessionCacheSlots int
	MaxPartitionsPerAnswer int // max.request.partition.size.limit

	// The log.
	LogSyncMethod                 string // auto, fdatasync or syncfs
	LogDirReserveBytes            int64  // -1 = chosen from the size of the file system
	RetentionCheckIntervalMs      int64
	RecoveryPointCheckpointMs     int64 // log.flush.offset.checkpoint.interval.ms
	LogStartCheckpointMs          int64 // log.flush.start.offset.checkpoint.interval.ms
	HighWatermarkCheckpointMs     int64
	ProducerIDExpirationMs        int64
	CleanerEnable                 bool
	CleanerBackoffMs              int64   // between looks for work
	CleanerDedupeBufferBytes      int64   // the most memory for the keys of one round
	CleanerMaxBytesPerSecond      float64 // read and written
	MetadataSnapshotMaxNewBytes   int64   // metadata.log.max.record.bytes.between.snapshots
	MetadataSnapshotMaxIntervalMs int64
	MetadataSegmentBytes          int

	// Groups.
	GroupInitialRebalanceDelayMs int32
	GroupMinSessionTimeoutMs     int32
	GroupMaxSessionTimeoutMs     int32
	GroupMaxSize                 int

	GroupConsumerSessionTimeoutMs     int32
	GroupConsumerHeartbeatIntervalMs  int32
	GroupConsumerAssignmentIntervalMs int32
	GroupConsumerRegexRefreshMs       int64
	GroupConsumerMaxSize              int
	GroupConsumerAssignors            []string
	GroupConsumerMigrationPolicy      string

	OffsetsTopicPartitions          int32
	OffsetsTopicReplicationFactor   int16
	OffsetsTopicSegmentBytes        int
	OffsetsRetentionMs              int64
	OffsetsRetentionCheckIntervalMs int64
	OffsetMetadataMaxBytes          int
}
