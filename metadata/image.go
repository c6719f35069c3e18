package metadata

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// Endpoint is one address a broker listens on.
type Endpoint struct {
	Name     string // listener name, e.g. PLAINTEXT
	Host     string // "" = whatever address the client reached us by
	Port     int32
	Security string // PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
}

// BrokerInfo is a registered broker. Immutable.
type BrokerInfo struct {
	ID          int32
	Epoch       int64    // offset of the registration record: grows with every registration
	Incarnation [16]byte // new for every start of the process
	Rack        string   // "" = none
	Listeners   []Endpoint
	Fenced      bool // registered, but must not lead: it has not caught up, or was lost sight of
}

// Topic is a topic with its partitions. Immutable: a change makes a new Topic, unchanged parts shared.
type Topic struct {
	Name       string
	ID         [16]byte
	Internal   bool
	Partitions []Partition       // index = partition number
	Config     map[string]string // overrides; nil when there are none
}

// Partition is who holds a partition and who leads it. Immutable, its slices included.
//
// Invariants: Replicas has no duplicates; ISR and ELR are disjoint subsets of Replicas; Leader is -1 or in ISR;
// LeaderEpoch and PartitionEpoch never go back while the topic id lives.
type Partition struct {
	Replicas []int32 // in order of preference: Replicas[0] is the preferred leader
	ISR      []int32
	ELR      []int32 // eligible leader replicas: left the ISR when it was below min.insync.replicas, hold everything acknowledged
	Leader   int32   // -1 = none

	LeaderEpoch    int32 // grows with every change of leader and every restart of it
	PartitionEpoch int32 // grows with every change
}

// Image is the whole cluster metadata at one offset of the metadata log. Immutable and safe for any use by any number of
// goroutines. Apply makes the next one, sharing whatever did not change.
type Image struct {
	offset int64 // every record below is in the image
	epoch  int32 // leader epoch of the last of them

	brokers    map[int32]*BrokerInfo
	configs    map[string]map[string]string      // broker configs; key "" = default of all brokers
	groups     shards[string, map[string]string] // configs of groups; none is empty
	features   map[string]int16
	producerID int64 // next id to hand out

	topics     shards[string, *Topic]
	byID       shards[[16]byte, *Topic]
	normalized shards[string, string] // name with '.' as '_' -> name: finds collisions
	partitions int

	sorted struct {
		once   sync.Once
		topics []*Topic
	}
}

// Empty returns the image before the first record.
func Empty() *Image { return &Image{epoch: -1} }

// Offset is the offset of the next record: the image holds everything below it.
func (i *Image) Offset() int64 { return i.offset }

// Epoch is the leader epoch of the newest record in the image; -1 when there is none.
func (i *Image) Epoch() int32 { return i.epoch }

// Topic returns the topic of a name; nil when there is none.
func (i *Image) Topic(name string) *Topic { t, _ := i.topics.get(name); return t }

// TopicByID returns the topic of an id; nil when there is none.
func (i *Image) TopicByID(id [16]byte) *Topic { t, _ := i.byID.get(id); return t }

// TopicCount and PartitionCount are the sizes of the cluster.
func (i *Image) TopicCount() int { return i.topics.n }

// PartitionCount is the number of partitions of all topics, replicas not counted.
func (i *Image) PartitionCount() int { return i.partitions }

// Topics returns all topics in order of name. The slice is shared: don't change it. The first call on an image sorts.
func (i *Image) Topics() []*Topic {
	i.sorted.once.Do(func() {
		all := make([]*Topic, 0, i.topics.n)
		i.topics.each(func(_ string, t *Topic) bool { all = append(all, t); return true })
		slices.SortFunc(all, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
		i.sorted.topics = all
	})
	return i.sorted.topics
}

// Broker returns a registered broker; nil when the id is not registered.
func (i *Image) Broker(id int32) *BrokerInfo { return i.brokers[id] }

// Brokers returns the registered brokers in order of id.
func (i *Image) Brokers() []*BrokerInfo {
	all := slices.Collect(maps.Values(i.brokers))
	slices.SortFunc(all, func(a, b *BrokerInfo) int { return int(a.ID) - int(b.ID) })
	return all
}

// BrokerConfig returns the dynamic configs of one broker, by the resource name Kafka uses: the decimal id, or "" for the
// default of all brokers. Don't change the map; nil when there are none.
func (i *Image) BrokerConfig(name string) map[string]string { return i.configs[name] }

// GroupConfig returns the configs of a group, which need not exist. Don't change the map; nil when there are none.
func (i *Image) GroupConfig(group string) map[string]string { c, _ := i.groups.get(group); return c }

// ConfiguredGroups returns the ids of the groups that have configs, in order.
func (i *Image) ConfiguredGroups() []string {
	ids := make([]string, 0, i.groups.n)
	i.groups.each(func(id string, _ map[string]string) bool { ids = append(ids, id); return true })
	slices.Sort(ids)
	return ids
}

// Features returns the finalised feature levels. Don't change the map.
func (i *Image) Features() map[string]int16 { return i.features }

// NextProducerID is the first producer id that was never given to a broker.
func (i *Image) NextProducerID() int64 { return i.producerID }

// Collision returns the existing topic whose name differs from name only in '.' and '_', "" when there is none.
func (i *Image) Collision(name string) string {
	other, ok := i.normalized.get(normalize(name))
	if !ok || other == name {
		return ""
	}
	return other
}

// normalize maps a name to what metric names make of it.
func normalize(name string) string { return strings.ReplaceAll(name, ".", "_") }
