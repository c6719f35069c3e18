package engine

import "github.com/leatmq/leat/config"

// Log is one partition on disk.
type Log struct{}

// Enqueue hands a to the log's append worker. First in, first out per partition; any goroutine may call it and it never blocks. What is queued
// is bounded by the caller.
func (l *Log) Enqueue(a *Append) { panic("stub") }

// SetObserver sets who is told about progress; nil removes it. Progress from before the call is not repeated: read the offsets afterwards.
func (l *Log) SetObserver(o Observer) { panic("stub") }

// SetHighWatermark raises the high watermark; a lower value than the present one is ignored. hw is at most the log end.
func (l *Log) SetHighWatermark(hw int64) { panic("stub") }

// StartOffset returns the log start offset: what is below it was deleted.
func (l *Log) StartOffset() int64 { panic("stub") }

// EndOffset returns the log end offset: the offset the next record gets.
func (l *Log) EndOffset() int64 { panic("stub") }

// FlushedOffset returns the offset below which everything is on stable storage.
func (l *Log) FlushedOffset() int64 { panic("stub") }

// HighWatermark returns the offset below which consumers may read.
func (l *Log) HighWatermark() int64 { panic("stub") }

// SetConfig makes cfg the log's configuration from the next append, roll or retention check on.
func (l *Log) SetConfig(cfg *config.Topic) { panic("stub") }

// Config returns the configuration in force.
func (l *Log) Config() *config.Topic { panic("stub") }

// TopicID returns the id of the topic the log belongs to.
func (l *Log) TopicID() [16]byte { panic("stub") }

// TP returns the partition's name.
func (l *Log) TP() TopicPartition { panic("stub") }

// Size returns the bytes of all segments.
func (l *Log) Size() int64 { panic("stub") }

// Dir returns the log directory (one of Options.Dirs) the log lies in.
func (l *Log) Dir() string { panic("stub") }

// Err returns why the log takes no appends: its directory or itself failed, it was deleted or closed. nil when it works.
func (l *Log) Err() error { panic("stub") }

// EndOffsetForEpoch returns the largest epoch at most epoch that the log has, and where it ends (the start of the next one, or the log end);
// -1, -1 when the log has none.
func (l *Log) EndOffsetForEpoch(epoch int32) (foundEpoch int32, endOffset int64) { panic("stub") }

// LatestEpoch returns the latest leader epoch in the log, -1 when there is none.
func (l *Log) LatestEpoch() int32 { panic("stub") }

// EpochAt returns the leader epoch of the record at offset, -1 when unknown.
func (l *Log) EpochAt(offset int64) int32 { panic("stub") }

// AssignEpochStart notes that epoch starts at offset; called when the node becomes leader. An epoch or offset below the latest is ignored.
func (l *Log) AssignEpochStart(epoch int32, offset int64) error { panic("stub") }

// DeleteRecords raises the log start offset to upTo (-1: the high watermark) durably and returns it.
func (l *Log) DeleteRecords(upTo int64) (logStart int64, err error) { panic("stub") }

// Truncate cuts the log so that to becomes its end. The durable promise is lowered first (B-C12). ErrBelowHighWatermark below the high watermark.
func (l *Log) Truncate(to int64) error { panic("stub") }

// Producers describes the producers the log knows.
func (l *Log) Producers() []ProducerState { panic("stub") }

// FirstUnstableOffset returns the first offset of the oldest open transaction, or false.
func (l *Log) FirstUnstableOffset() (int64, bool) { panic("stub") }
