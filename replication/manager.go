package replication

import (
	"log/slog"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/metadata"
)

// Options configure a Manager.
type Options struct {
	Engine   *engine.Engine
	Metadata *metadata.Manager
	Config   *config.Set
	NodeID   int32
	Now      func() int64
	Logger   *slog.Logger
}

// Manager keeps the partitions of this node as the metadata says.
type Manager struct{}

// New reconciles the logs on disk with the metadata and follows its changes from there.
func New(o Options) (*Manager, error) { panic("stub") }

// Partition returns a partition of this node by topic name; nil when it is not here. Lock-free.
func (m *Manager) Partition(topic string, p int32) *Partition { panic("stub") }

// PartitionByID returns a partition of this node by topic id; nil when it is not here. Lock-free.
func (m *Manager) PartitionByID(id [16]byte, p int32) *Partition { panic("stub") }

// Tick times out parked produces. Call it every 100 ms or so.
func (m *Manager) Tick(nowMs int64) { panic("stub") }

// Close fails everything parked. Call it after the listeners have stopped and before the engine is closed.
func (m *Manager) Close() { panic("stub") }
