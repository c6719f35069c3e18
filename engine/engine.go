package engine

import (
	"context"
	"io"
	"log/slog"
	"strconv"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/vfs"
)

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns Kafka's "topic-partition".
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// Options opens an engine. Only Dirs is mandatory.
type Options struct {
	FS         vfs.FS         // default vfs.OS
	Dirs       []string       // log directories, created when missing
	NodeID     int32          // must be the one the directories belong to
	ClusterID  string         // "" = the directories' own, or a new one when they are empty
	Defaults   *config.Broker // default: a fresh Set's broker. Topic defaults, checkpoint intervals, producer expiry
	Workers    int            // append workers; default GOMAXPROCS
	Now        func() int64   // broker clock, ms since the Unix epoch
	Rand       io.Reader      // source of new ids; default crypto/rand
	Logger     *slog.Logger   // default: discards
	SyncMethod string         // "auto" (default), "fdatasync" or "syncfs"
}

// DirStatus describes a log directory.
type DirStatus struct {
	Path  string
	ID    [16]byte // directory.id
	Err   error    // why it is offline; nil when it works
	Usage vfs.Usage
	Logs  []*Log
}

// Observer is told about the progress of one log. The methods are called on the log's append worker (Appended) or its directory's flusher
// (Flushed); Failed may come from either, at most once, and after it nothing else comes. They must not block and must not call Truncate,
// Delete or Close. Flushed(x) is never called before Appended(y) with y >= x has returned.
type Observer interface {
	Appended(logEnd int64)
	Flushed(flushed int64)
	Failed(err error)
}

// ProducerState is what a partition knows about one idempotent producer.
type ProducerState struct {
	ProducerID            int64
	Epoch                 int16
	LastSequence          int32 // -1 = none
	LastTimestampMs       int64
	CoordinatorEpoch      int32 // -1 = none
	CurrentTxnStartOffset int64 // -1 = no transaction open
}

// Engine owns the log directories of this node and all partition logs in them.
type Engine struct{}

// Open locks and loads the log directories. When it returns, everything a Log shows is on stable storage.
func Open(o Options) (*Engine, error) { panic("stub") }

// ClusterID returns the id of the cluster the directories belong to.
func (e *Engine) ClusterID() string { panic("stub") }

// NodeID returns the id of this node.
func (e *Engine) NodeID() int32 { panic("stub") }

// Create makes the log of a partition. It is idempotent for the same topic id; a log of another id under this name is a left-over of a
// deleted topic and is moved away (B-A18). cfg is the topic's configuration and replaces the one an existing log has.
func (e *Engine) Create(tp TopicPartition, id [16]byte, cfg *config.Topic) (*Log, error) {
	panic("stub")
}

// Log returns the log of a partition, nil when there is none here. Safe on an event loop.
func (e *Engine) Log(tp TopicPartition) *Log { panic("stub") }

// Logs returns all logs.
func (e *Engine) Logs() []*Log { panic("stub") }

// Delete removes a partition: its directory is renamed durably, the files go later in the background. A missing partition is no error.
func (e *Engine) Delete(tp TopicPartition) error { panic("stub") }

// Tick does the periodic work that is due at now: retention, rolls by time, lazy flushes, checkpoints, expiry, delayed deletion.
func (e *Engine) Tick(now int64) { panic("stub") }

// StartBackground starts the goroutine that calls Tick about once a second until Close.
func (e *Engine) StartBackground() { panic("stub") }

// Close stops the engine: flushes and checkpoints everything and writes the clean shutdown markers.
func (e *Engine) Close(ctx context.Context) error { panic("stub") }

// Dirs describes the log directories.
func (e *Engine) Dirs() []DirStatus { panic("stub") }
