package metadata

import (
	"context"
	"log/slog"
	"math/rand/v2"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
)

// Options configure a Manager.
type Options struct {
	Engine    *engine.Engine // holds the metadata log
	NodeID    int32
	ClusterID string
	Config    *config.Set // defaults and validation of configs
	Now       func() int64
	Rand      *rand.Rand // placement, topic ids, incarnation; used by the manager alone
	Logger    *slog.Logger
	Features  map[string]int16 // finalised when the cluster is created; nil = DefaultFeatures()

	SnapshotRecords int64 // take a snapshot after so many records; 0 = 20,000
	SnapshotBytes   int64 // or so many bytes of log; 0 = 8 MiB
}

// Manager keeps the metadata of this node: the only one who appends to the metadata log, and who publishes images of it.
type Manager struct{}

// Open opens or creates the metadata log, loads the newest snapshot, replays what follows and starts the manager.
func Open(o Options) (*Manager, error) { panic("stub") }

// Close stops the manager. Proposals that were not answered get Unavailable. Call it before the engine's Close.
func (m *Manager) Close(ctx context.Context) error { panic("stub") }

// Image returns the newest committed image.
func (m *Manager) Image() *Image { panic("stub") }

// Incarnation is this start's id, random. A partition is led by this process only when the broker is registered with it.
func (m *Manager) Incarnation() [16]byte { panic("stub") }

// Subscribe calls fn at once, with an empty prev and everything in next as created, and then for every commit, in order and
// before the proposals of that commit are answered. fn runs on the manager's goroutine: it must not wait for a proposal.
func (m *Manager) Subscribe(fn func(prev, next *Image, d *Delta)) { panic("stub") }

// Propose queues a change. plan gets the newest image, proposals before it included, and returns the records that make the
// change, all or none of which are applied; none is fine. done gets nil when every record up to and including these is
// committed and every subscriber has seen it, else an *Error. Both run on goroutines of the manager and must not wait.
func (m *Manager) Propose(plan func(*Image) []Record, done func(err error)) { panic("stub") }

// CreateTopicsAsync creates topics. err is about the whole request (Unavailable, Busy, PolicyViolation); results are in the
// request's order. done runs on a goroutine of the manager and must not wait.
func (m *Manager) CreateTopicsAsync(r CreateTopicsRequest, done func([]TopicResult, error)) {
	panic("stub")
}

// CreateTopics is CreateTopicsAsync that waits; so are the others of this form. A context that ends does not undo the change.
func (m *Manager) CreateTopics(ctx context.Context, r CreateTopicsRequest) ([]TopicResult, error) {
	panic("stub")
}

// DeleteTopicsAsync deletes topics by name or id. Results carry both where known.
func (m *Manager) DeleteTopicsAsync(topics []TopicRef, done func([]TopicResult, error)) {
	panic("stub")
}

// DeleteTopics is DeleteTopicsAsync that waits.
func (m *Manager) DeleteTopics(ctx context.Context, topics []TopicRef) ([]TopicResult, error) {
	panic("stub")
}

// CreatePartitionsAsync grows topics.
func (m *Manager) CreatePartitionsAsync(r CreatePartitionsRequest, done func([]TopicResult, error)) {
	panic("stub")
}

// CreatePartitions is CreatePartitionsAsync that waits.
func (m *Manager) CreatePartitions(ctx context.Context, r CreatePartitionsRequest) ([]TopicResult, error) {
	panic("stub")
}

// AlterConfigsAsync changes configs, incrementally or by replacement.
func (m *Manager) AlterConfigsAsync(r AlterConfigsRequest, done func([]ConfigResult, error)) {
	panic("stub")
}

// AlterConfigs is AlterConfigsAsync that waits.
func (m *Manager) AlterConfigs(ctx context.Context, r AlterConfigsRequest) ([]ConfigResult, error) {
	panic("stub")
}

// RegisterBroker registers a broker and returns its epoch. The leader epoch of every partition it leads grows when the
// incarnation is new.
func (m *Manager) RegisterBroker(ctx context.Context, r Registration) (epoch int64, err error) {
	panic("stub")
}

// AllocateProducerIDsAsync takes a block of producer ids, durably.
func (m *Manager) AllocateProducerIDsAsync(done func(ProducerIDBlock, error)) { panic("stub") }

// AllocateProducerIDs is AllocateProducerIDsAsync that waits.
func (m *Manager) AllocateProducerIDs(ctx context.Context) (ProducerIDBlock, error) { panic("stub") }
