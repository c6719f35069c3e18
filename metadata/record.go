package metadata

// Record is one change of the metadata, the value of one record of the metadata log. The byte tables are in the package
// comment; codec.go reads and writes them.
type Record interface{ recordType() uint64 }

// NoOp changes nothing but the offset.
type NoOp struct{}

// FeatureLevel finalises a feature; Level 0 takes it away.
type FeatureLevel struct {
	Name  string
	Level int16
}

// BrokerRegistration registers a broker, or registers it again. When the incarnation is not the one registered before, the
// leader epoch of every partition the broker leads grows by one: whatever was said by its earlier life is old.
type BrokerRegistration struct {
	ID          int32
	Epoch       int64 // -1 = the offset of this record (in the log); snapshots say it
	Incarnation [16]byte
	Rack        string
	Listeners   []Endpoint
	Fenced      bool
}

// BrokerChange fences or unfences a broker.
type BrokerChange struct {
	ID     int32
	Epoch  int64 // of the registration that is changed
	Fenced bool
}

// TopicRecord creates a topic without partitions; its PartitionRecords follow.
type TopicRecord struct {
	Name     string
	ID       [16]byte
	Internal bool
}

// PartitionRecord creates the next partition of a topic.
type PartitionRecord struct {
	TopicID   [16]byte
	Partition int32
	Replicas  []int32
	ISR       []int32
	ELR       []int32
	Leader    int32

	LeaderEpoch    int32
	PartitionEpoch int32
}

// PartitionChange changes what it names; nil and NoChange leave things as they are. The partition epoch grows by one; naming a
// leader, even the same, makes the leader epoch grow by one.
type PartitionChange struct {
	TopicID   [16]byte
	Partition int32
	Replicas  []int32 // nil = unchanged
	ISR       []int32 // nil = unchanged; empty = nobody
	ELR       []int32 // nil = unchanged; empty = nobody
	Leader    int32   // NoChange = unchanged; -1 = nobody
}

// NoChange is PartitionChange.Leader when the leader stays and keeps its epoch.
const NoChange int32 = -2

// RemoveTopic removes a topic with its partitions and configs.
type RemoveTopic struct{ ID [16]byte }

// ConfigRecord sets or deletes one config of a resource.
type ConfigRecord struct {
	Resource ResourceType
	Name     string // topic name, which must exist; decimal broker id or ""
	Key      string
	Value    string
	Delete   bool
}

// ProducerIDs says that every producer id below Next is given away.
type ProducerIDs struct {
	Broker      int32 // who got the block; for people
	BrokerEpoch int64
	Next        int64
}

// snapshotHeader is the first record of a snapshot, and only there.
type snapshotHeader struct {
	Offset int64 // the image's offset
	Epoch  int32
	TimeMs int64
}

// snapshotTrailer is the last record of a snapshot, and only there: a snapshot without it is torn.
type snapshotTrailer struct {
	Records int64  // between header and trailer
	CRC     uint32 // CRC-32C of every byte before the batch that holds the trailer
}

// Types of records on disk. Numbers are never used again for something else.
const (
	typeNoOp               = 1
	typeFeatureLevel       = 2
	typeBrokerRegistration = 3
	typeBrokerChange       = 4
	typeTopic              = 5
	typePartition          = 6
	typePartitionChange    = 7
	typeRemoveTopic        = 8
	typeConfig             = 9
	typeProducerIDs        = 10
	typeSnapshotHeader     = 64
	typeSnapshotTrailer    = 65
)

func (NoOp) recordType() uint64               { return typeNoOp }
func (FeatureLevel) recordType() uint64       { return typeFeatureLevel }
func (BrokerRegistration) recordType() uint64 { return typeBrokerRegistration }
func (BrokerChange) recordType() uint64       { return typeBrokerChange }
func (TopicRecord) recordType() uint64        { return typeTopic }
func (PartitionRecord) recordType() uint64    { return typePartition }
func (PartitionChange) recordType() uint64    { return typePartitionChange }
func (RemoveTopic) recordType() uint64        { return typeRemoveTopic }
func (ConfigRecord) recordType() uint64       { return typeConfig }
func (ProducerIDs) recordType() uint64        { return typeProducerIDs }
func (snapshotHeader) recordType() uint64     { return typeSnapshotHeader }
func (snapshotTrailer) recordType() uint64    { return typeSnapshotTrailer }
