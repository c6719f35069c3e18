package engine

import (
	"sync"
	"sync/atomic"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/internal/invariant"
	"github.com/leatmq/leat/record"
	"github.com/leatmq/leat/segment"
)

// Log is one partition on disk. The package comment tells its states and who owns what.
type Log struct {
	e    *Engine
	dir  *logDir
	tp   TopicPartition
	id   [16]byte
	path string // the partition directory; deleted partitions have left it
	seed uint64 // of tp: spreads periodic work

	dirIndex int // in the directory's list; guarded by logDir.mu

	// worker runs all turns of this log; queue is filled by Enqueue and emptied by the worker.
	worker *worker
	queue  atomic.Pointer[Append]
	run    struct { // guarded by worker.mu
		queued bool
		next   *Log
	}
	pending struct { // owned by the worker's goroutine: taken from queue, oldest first
		head, tail *Append
	}

	cfg      atomic.Pointer[logConfig]
	observer atomic.Pointer[Observer]
	failed   atomic.Pointer[error]

	// maint serialises everything that changes which segments there are except a roll by the worker: sealing, retention, truncation,
	// recovery point, deletion. Taken before mu. May be held during I/O.
	maint sync.Mutex

	// mu is held by the worker for the append part of a turn, and by whoever else changes what a turn works on.
	mu struct {
		sync.Mutex
		producers *producerTable
		closed    bool // the segments are gone
	}
	// epochs is read without a lock and changed under mu.
	epochs      *epochCache
	latestEpoch atomic.Int32 // of epochs, -1 = none
	// maybeUnstable is false only when the producers have no unstable transaction; set and cleared under mu.
	maybeUnstable atomic.Bool
	epochsDirty   atomic.Bool // differs from the file
	epochsUnsure  atomic.Bool // may differ from the file
	epochsPending bool        // the latest epoch has no batch yet, and the file does not have it; under mu

	segs     atomic.Pointer[segmentList]
	logStart atomic.Int64
	logEnd   atomic.Int64
	hw       atomic.Int64
	flushed  atomic.Int64 // written under flush
	tail     tailCache
	// cuts counts the beginnings and the ends of truncations: odd, one is under way. A look-up beside one may have met the end of a file that was
	// shorter than it knew, or found bytes that are gone, and is done again.
	cuts atomic.Uint64

	flush struct {
		sync.Mutex
		gen    uint64 // grows when a truncation makes the targets of running rounds void
		target int64  // what the next round makes durable
	}
	flushQueued bool        // guarded by flusher.mu
	usesReserve atomic.Bool // appends may take the reserve of a full disk
	entries     dirEntries

	appendedBytes  atomic.Int64 // since open; to pace writeback, recovery point and lazy flushes
	writebackBytes atomic.Int64 // appendedBytes when writeback was last asked for
	firstDirtyMs   atomic.Int64 // when the oldest record that is not flushed was appended; 0 = nothing is

	promise struct { // guarded by maint, except recoveryPoint
		recoveryPoint  atomic.Int64 // what the checkpoint file may claim
		synced         atomic.Int64 // everything below was made durable for the log start; may be above flushed
		bytes          int64        // appendedBytes when it was last raised
		snapshotOffset int64        // of the newest producer snapshot on disk, -1 = none
	}
	leftovers  []int64 // base offsets of segment files below the log start that a start found; guarded by maint
	marks      marks
	compaction compaction
	gaps       atomic.Bool // offsets may be missing in the log's segments: it was compacted once

	damages struct { // met by readers
		sync.Mutex
		places map[string]bool // file:position
	}
}

// logConfig is a topic configuration with what is derived from it once.
type logConfig struct {
	*config.Topic
	rules   [3]record.Rules // by Origin
	segment *segment.Options
	sparse  *segment.Options // of segments that may have gaps in their offsets
}

// segmentOptions returns the options for a segment of the log.
func (l *Log) segmentOptions(cfg *logConfig) *segment.Options {
	if l.gaps.Load() {
		return cfg.sparse
	}
	return cfg.segment
}

// newLogConfig derives the rules and segment options of cfg for a log in the directory. Logs that were given the same cfg, such as all partitions of a
// topic, share the result.
func (d *logDir) newLogConfig(cfg *config.Topic) *logConfig {
	if last := d.lastConfig.Load(); last != nil && last.Topic == cfg {
		return last
	}
	c := d.deriveConfig(cfg)
	d.lastConfig.Store(c)
	return c
}

func (d *logDir) deriveConfig(cfg *config.Topic) *logConfig {
	c := &logConfig{Topic: cfg}
	r := record.Rules{
		MaxBatchBytes:   max(cfg.MaxMessageBytes, 1), // to a validator 0 is no limit; to a topic it is one that nothing meets
		Compacted:       cfg.Compact,
		BeforeMaxMs:     cfg.TimestampBeforeMaxMs,
		AfterMaxMs:      cfg.TimestampAfterMaxMs,
		CodecIsProducer: true,
		InflateLimit:    int64(cfg.MaxDecompressedMessageBytes),
		Origin:          record.Client,
	}
	if cfg.LogAppendTime {
		r.TimestampType = record.LogAppendTime
	}
	setCodec(&r, cfg)
	c.rules[FromClient] = r
	c.rules[FromLeader] = record.Rules{Origin: record.Replica, CodecIsProducer: true, InflateLimit: r.InflateLimit}
	c.rules[FromInternal] = record.Rules{Origin: record.Internal, CodecIsProducer: true, InflateLimit: r.InflateLimit}
	step := int64(0)
	if cfg.Preallocate {
		step = int64(cfg.SegmentBytes)
	}
	c.segment = &segment.Options{
		FS:                 d.e.o.FS,
		MaxBytes:           cfg.SegmentBytes,
		IndexIntervalBytes: cfg.IndexIntervalBytes,
		IndexMaxBytes:      cfg.SegmentIndexBytes,
		PreallocStep:       step,
		Dense:              !cfg.Compact,
		Now:                d.e.o.Now,
		Reap:               d.e.reap,
		Sparing:            func() bool { return d.reserve.space() == spaceTapped },
	}
	sparse := *c.segment
	sparse.Dense = false
	c.sparse = &sparse
	return c
}

// setCodec translates compression.type. An unknown name cannot come from package config and means "producer".
func setCodec(r *record.Rules, cfg *config.Topic) {
	levels := map[record.Codec]int{record.Gzip: cfg.GzipLevel, record.LZ4: cfg.LZ4Level, record.Zstd: cfg.ZstdLevel}
	name := cfg.CompressionType
	if name == "uncompressed" {
		name = "none"
	}
	if name == "" || name == "producer" {
		return
	}
	codec, err := record.ParseCodec(name)
	if err != nil {
		return
	}
	r.Codec, r.Level, r.CodecIsProducer = codec, levels[codec], false
}

// TP returns the partition's name.
func (l *Log) TP() TopicPartition { return l.tp }

// TopicID returns the id of the topic the log belongs to.
func (l *Log) TopicID() [16]byte { return l.id }

// Dir returns the log directory (one of Options.Dirs) the log lies in.
func (l *Log) Dir() string { return l.dir.path }

// StartOffset returns the log start offset: what is below it was deleted.
func (l *Log) StartOffset() int64 { return l.logStart.Load() }

// EndOffset returns the log end offset: the offset the next record gets.
func (l *Log) EndOffset() int64 { return l.logEnd.Load() }

// FlushedOffset returns the offset below which everything is on stable storage.
func (l *Log) FlushedOffset() int64 { return l.flushed.Load() }

// HighWatermark returns the offset below which consumers may read.
func (l *Log) HighWatermark() int64 { return l.hw.Load() }

// SetHighWatermark raises the high watermark; a lower value than the present one is ignored. hw is at most the log end.
func (l *Log) SetHighWatermark(hw int64) {
	if end := l.logEnd.Load(); hw > end { // asked first: the arguments of Must are allocated even when all is well
		invariant.Must(false, "%v: high watermark %d above the log end %d", l.tp, hw, end)
	}
	for {
		old := l.hw.Load()
		if hw <= old || l.hw.CompareAndSwap(old, hw) {
			return
		}
	}
}

// SetObserver sets who is told about progress; nil removes it. Progress from before the call is not repeated: read the offsets and Err
// afterwards.
func (l *Log) SetObserver(o Observer) {
	if o == nil {
		l.observer.Store(nil)
		return
	}
	l.observer.Store(&o)
}

func (l *Log) notifyAppended(logEnd int64) {
	if o := l.observer.Load(); o != nil {
		(*o).Appended(logEnd)
	}
}

func (l *Log) notifyFlushed(flushed int64) {
	if o := l.observer.Load(); o != nil {
		(*o).Flushed(flushed)
	}
}

// Err returns why the log takes no appends: its directory or itself failed, it was deleted or closed. nil when it works.
func (l *Log) Err() error {
	if p := l.failed.Load(); p != nil {
		return *p
	}
	return nil
}

// fail ends the log's working life. The first reason stays, and the observer hears it once.
func (l *Log) fail(err error) {
	if !l.failed.CompareAndSwap(nil, &err) {
		return
	}
	if o := l.observer.Load(); o != nil {
		(*o).Failed(err)
	}
}

// SetConfig makes cfg the log's configuration from the next append, roll or retention check on.
func (l *Log) SetConfig(cfg *config.Topic) {
	if old := l.cfg.Load(); old != nil && old.Topic == cfg {
		return
	}
	l.cfg.Store(l.dir.newLogConfig(cfg))
}

// Config returns the configuration in force.
func (l *Log) Config() *config.Topic { return l.cfg.Load().Topic }

// Size returns the bytes of all segments.
func (l *Log) Size() int64 {
	segs := l.segs.Load()
	if segs == nil {
		return 0
	}
	return segs.size()
}

// Producers describes the producers the log knows, in no order.
func (l *Log) Producers() []ProducerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []ProducerState
	if l.mu.producers != nil {
		l.mu.producers.each(func(p ProducerState) { all = append(all, p) })
	}
	return all
}

// FirstUnstableOffset returns the first offset of the oldest open transaction, or false.
//
// It takes no lock while there are no transactions: every read asks, and the worker holds the lock during its write.
func (l *Log) FirstUnstableOffset() (int64, bool) {
	if !l.maybeUnstable.Load() {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.producers == nil {
		return 0, false
	}
	l.mu.producers.replicatedTo(l.hw.Load())
	offset, ok := l.mu.producers.firstUnstableOffset()
	if !ok {
		l.maybeUnstable.Store(false)
	}
	return offset, ok
}
