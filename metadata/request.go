package metadata

// DefaultCount is -1: "the broker's default" in TopicSpec.Partitions and TopicSpec.ReplicationFactor.
const DefaultCount = -1

// ConfigEntry is one config of a request.
type ConfigEntry struct {
	Name  string
	Value string
	Null  bool // the value was null
}

// ReplicaAssignment is a manual placement of one partition.
type ReplicaAssignment struct {
	Partition int32
	Replicas  []int32
}

// TopicSpec asks for one topic.
type TopicSpec struct {
	Name              string
	Partitions        int32 // -1 = num.partitions
	ReplicationFactor int16 // -1 = default.replication.factor
	Assignment        []ReplicaAssignment
	Config            []ConfigEntry
}

// TopicResult answers one TopicSpec (or one topic of DeleteTopics, CreatePartitions).
type TopicResult struct {
	Name              string
	ID                [16]byte
	Err               *Error // nil = done
	Partitions        int32
	ReplicationFactor int16
	Config            map[string]string // overrides the topic got
}

// CreateTopicsRequest creates several topics; each succeeds or fails alone.
type CreateTopicsRequest struct {
	Topics       []TopicSpec
	ValidateOnly bool
}

// TopicRef names a topic by id or by name: exactly one of them.
type TopicRef struct {
	Name string
	ID   [16]byte // zero = by name
}

// PartitionsSpec asks that a topic has Count partitions.
type PartitionsSpec struct {
	Topic      string
	Count      int32
	Assignment [][]int32 // replicas of each new partition; nil = we place them
}

// CreatePartitionsRequest grows several topics; each succeeds or fails alone.
type CreatePartitionsRequest struct {
	Topics       []PartitionsSpec
	ValidateOnly bool
}

// ResourceType is a kind of thing that has configs, with Kafka's numbers.
type ResourceType int8

// The resources whose configs the metadata log keeps.
const (
	TopicResource  ResourceType = 2
	BrokerResource ResourceType = 4
	GroupResource  ResourceType = 32 // of groups that may exist or not
)

// ConfigOp is an operation of IncrementalAlterConfigs, with Kafka's numbers.
type ConfigOp int8

// The operations.
const (
	OpSet      ConfigOp = 0
	OpDelete   ConfigOp = 1
	OpAppend   ConfigOp = 2
	OpSubtract ConfigOp = 3
)

// ConfigChange is one operation on one key.
type ConfigChange struct {
	Name  string
	Op    ConfigOp
	Value string
	Null  bool
}

// ResourceConfig is the change of one resource.
type ResourceConfig struct {
	Type    ResourceType
	Name    string // topic name; decimal broker id or "" for all brokers; group id
	Changes []ConfigChange
	Replace bool // AlterConfigs: what is not named is removed; every Op counts as OpSet
}

// AlterConfigsRequest changes configs of several resources; each succeeds or fails alone.
type AlterConfigsRequest struct {
	Resources    []ResourceConfig
	ValidateOnly bool
}

// ConfigResult answers one ResourceConfig.
type ConfigResult struct {
	Type ResourceType
	Name string
	Err  *Error // nil = done
}

// Registration announces a broker.
type Registration struct {
	ID          int32
	Incarnation [16]byte // zero = the manager's own (Manager.Incarnation)
	Rack        string
	Listeners   []Endpoint
	Fenced      bool
}

// ProducerIDBlock is a range of producer ids that nobody else gets: [First, First+Count).
type ProducerIDBlock struct {
	First int64
	Count int32
}

// ProducerIDBlockSize is how many ids one AllocateProducerIDs takes.
const ProducerIDBlockSize = 1000
