package engine

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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

	OpenSegmentsMax     int   // segments with open files that the ticker leaves open; default from the process's limit of descriptors
	CheckpointStepBytes int64 // a log's recovery point is raised when so much was appended since; default 1 MiB. Tests have less
}

// DirStatus describes a log directory.
type DirStatus struct {
	Path  string
	ID    [16]byte  // directory.id
	Err   error     // why it is offline; nil when it works
	Full  bool      // an append or a deletion has found no space, and none has returned since
	Usage vfs.Usage // -1, -1: not known
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
type Engine struct {
	o         Options
	log       *slog.Logger
	clusterID string
	dirs      []*logDir
	workers   []*worker
	jobs      *jobQueue
	logs      sync.Map       // TopicPartition to *Log
	admin     [64]sync.Mutex // by partition: one Create or Delete of a partition at a time
	nextLog   atomic.Uint32  // pins new logs to workers in turn
	defaults  *config.Topic  // until Create brings the topic's own

	producerExpirationMs atomic.Int64

	trash   trash // deleted files and directories that wait for their delay
	cleaner cleaner
	due     schedule // of the periodic work
	rand    struct {
		sync.Mutex
		from io.Reader
	}

	life struct {
		sync.Mutex
		closed bool
		stop   chan struct{} // ends the ticker
		hurry  chan struct{} // the logs' state should be written now; capacity 1
		ticker sync.WaitGroup
	}
	tick sync.Mutex // one Tick at a time
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	if len(o.Dirs) == 0 {
		return o, errors.New("engine: no log directory given")
	}
	if o.FS == nil {
		o.FS = vfs.OS
	}
	if o.Defaults == nil {
		b, err := config.NewSet().Broker()
		if err != nil {
			return o, err
		}
		o.Defaults = b
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.CheckpointStepBytes <= 0 {
		o.CheckpointStepBytes = checkpointStepDefault
	}
	if o.OpenSegmentsMax <= 0 {
		o.OpenSegmentsMax = openSegmentsDefault()
	}
	switch o.SyncMethod {
	case "":
		o.SyncMethod = "auto"
	case "auto", "fdatasync", "syncfs":
	default:
		return o, fmt.Errorf("engine: unknown sync method %q: use auto, fdatasync or syncfs", o.SyncMethod)
	}
	return o, nil
}

// newID returns a random id.
func (e *Engine) newID() ([16]byte, error) {
	var id [16]byte
	e.rand.Lock()
	defer e.rand.Unlock()
	_, err := io.ReadFull(e.rand.from, id[:])
	return id, err
}

// ClusterID returns the id of the cluster the directories belong to.
func (e *Engine) ClusterID() string { return e.clusterID }

// NodeID returns the id of this node.
func (e *Engine) NodeID() int32 { return e.o.NodeID }

// Log returns the log of a partition, nil when there is none here. Safe on an event loop.
func (e *Engine) Log(tp TopicPartition) *Log {
	if l, ok := e.logs.Load(tp); ok {
		return l.(*Log)
	}
	return nil
}

// Logs returns all logs.
func (e *Engine) Logs() []*Log {
	var all []*Log
	for _, d := range e.dirs {
		all = append(all, d.list()...)
	}
	return all
}

// Dirs describes the log directories.
func (e *Engine) Dirs() []DirStatus {
	all := make([]DirStatus, 0, len(e.dirs))
	for _, d := range e.dirs {
		s := DirStatus{Path: d.path, ID: d.id, Err: d.err(), Full: d.reserve.space() != spaceRoom, Usage: vfs.Usage{Total: -1, Free: -1}, Logs: d.list()}
		if s.Err == nil {
			if usage, err := e.o.FS.Usage(d.path); err == nil {
				s.Usage = usage
			} else {
				e.log.Warn("the space of a log directory is not known", "dir", d.path, "err", err)
			}
		}
		all = append(all, s)
	}
	return all
}

// newLog returns a log that has no segments yet.
func (e *Engine) newLog(d *logDir, tp TopicPartition, cfg *config.Topic) *Log {
	h := fnv.New64a()
	h.Write([]byte(tp.String()))
	l := &Log{e: e, dir: d, tp: tp, path: partitionDir(d.path, tp), seed: h.Sum64()}
	l.worker = e.workers[int(e.nextLog.Add(1))%len(e.workers)]
	l.cfg.Store(d.newLogConfig(cfg))
	l.mu.producers = newProducerTable(e.o.Defaults.ProducerIDExpirationMs)
	l.maybeUnstable.Store(true)
	l.epochs = newEpochCache()
	l.latestEpoch.Store(-1)
	l.promise.snapshotOffset = -1
	return l
}

// adminLock returns the lock under which tp is created and deleted.
func (e *Engine) adminLock(tp TopicPartition) *sync.Mutex {
	h := fnv.New32a()
	h.Write([]byte(tp.String()))
	return &e.admin[h.Sum32()%uint32(len(e.admin))]
}
