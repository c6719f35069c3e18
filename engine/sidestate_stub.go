package engine

// Signatures of the side state, being made real one by one.

import (
	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

// CorruptError says that a side file holds nonsense.
type CorruptError struct{ Path, Msg string }

func (e *CorruptError) Error() string { return "file " + e.Path + " is corrupt: " + e.Msg }

func readOffsetCheckpoint(fsys vfs.FS, path string) (map[TopicPartition]int64, error)  { panic("stub") }
func writeOffsetCheckpoint(fsys vfs.FS, path string, m map[TopicPartition]int64) error { panic("stub") }
func readTopicID(fsys vfs.FS, dir string) (id [16]byte, err error)                     { panic("stub") } // missing => zero id, nil
func writeTopicID(fsys vfs.FS, dir string, id [16]byte) error                          { panic("stub") }

type epochEntry struct {
	Epoch       int32
	StartOffset int64
}

// readers lock-free (immutable slice behind an atomic pointer), one writer at a time
type epochCache struct{}

func newEpochCache() *epochCache                                           { panic("stub") }
func loadEpochs(fsys vfs.FS, dir string) (*epochCache, error)              { panic("stub") } // missing => empty, nil
func (c *epochCache) store(fsys vfs.FS, dir string) error                  { panic("stub") }
func (c *epochCache) assign(epoch int32, startOffset int64) (changed bool) { panic("stub") }
func (c *epochCache) latest() (epoch int32, ok bool)                       { panic("stub") }
func (c *epochCache) endOffsetFor(epoch int32, logEnd int64) (foundEpoch int32, endOffset int64) {
	panic("stub")
}
func (c *epochCache) epochAt(offset int64) int32                { panic("stub") } // -1 none
func (c *epochCache) truncateFromEnd(to int64) (changed bool)   { panic("stub") }
func (c *epochCache) truncateFromStart(to int64) (changed bool) { panic("stub") }
func (c *epochCache) entries() []epochEntry                     { panic("stub") }

// batchMeta is one batch of a producer's window.
type batchMeta struct {
	lastSequence int32
	offsetDelta  int32
	lastOffset   int64
	timestampMs  int64 // the batch's max timestamp
}

func (m batchMeta) baseOffset() int64 { return m.lastOffset - int64(m.offsetDelta) }

// not safe for concurrent use: the Log guards it
type producerTable struct{}

func newProducerTable(expirationMs int64) *producerTable                             { panic("stub") }
func (t *producerTable) check(b record.Batch) (dup batchMeta, isDup bool, err error) { panic("stub") }
func (t *producerTable) update(b record.Batch)                                       { panic("stub") }
func (t *producerTable) begin()                                                      { panic("stub") }
func (t *producerTable) commit()                                                     { panic("stub") }
func (t *producerTable) rollback()                                                   { panic("stub") }
func (t *producerTable) expire(nowMs int64)                                          { panic("stub") }
func (t *producerTable) removeBelow(logStart int64)                                  { panic("stub") }
func (t *producerTable) replicatedTo(highWatermark int64)                            { panic("stub") } // completed txns below no longer hold back firstUnstableOffset
func (t *producerTable) len() int                                                    { panic("stub") }
func (t *producerTable) each(fn func(ProducerState))                                 { panic("stub") }
func (t *producerTable) firstUnstableOffset() (offset int64, ok bool)                { panic("stub") }
func (t *producerTable) snapshot() []snapshotEntry                                   { panic("stub") }
func (t *producerTable) restore(entries []snapshotEntry)                             { panic("stub") } // replaces all

type snapshotEntry struct{}

type loadedSnapshot struct {
	entries []snapshotEntry
	offset  int64   // -1: none
	skipped []error // one per corrupt or unreadable snapshot
}

func encodeSnapshot(entries []snapshotEntry) []byte       { panic("stub") }
func decodeSnapshot(data []byte) ([]snapshotEntry, error) { panic("stub") }
func writeSnapshot(fsys vfs.FS, dir string, offset int64, entries []snapshotEntry) error {
	panic("stub")
}
func loadNewestSnapshot(fsys vfs.FS, dir string, maxOffset int64) (loadedSnapshot, error) {
	panic("stub")
}                                                                      // newest usable with offset <= maxOffset
func listSnapshots(fsys vfs.FS, dir string) ([]int64, error)           { panic("stub") }
func removeSnapshotsAbove(fsys vfs.FS, dir string, offset int64) error { panic("stub") } // those > offset
func removeSnapshotsBelow(fsys vfs.FS, dir string, offset int64) error { panic("stub") } // those < offset

type metaProperties struct {
	ClusterID   string
	NodeID      int32
	DirectoryID [16]byte
}

func readMetaProperties(fsys vfs.FS, dir string) (*metaProperties, error)         { panic("stub") } // missing => nil, nil; else *MetaPropertiesError
func writeMetaProperties(fsys vfs.FS, dir string, m *metaProperties) error        { panic("stub") }
func (m *metaProperties) check(dir, wantClusterID string, wantNodeID int32) error { panic("stub") } // "" and -1: not checked

// *MetaPropertiesError{Path, Kind, Msg}: MetaUnreadable, MetaNewerVersion, MetaForeignCluster, MetaForeignNode

func takeCleanMarker(fsys vfs.FS, dir string) (clean bool, brokerEpoch int64, err error) {
	panic("stub")
}                                                                     // read, remove, SyncDir
func putCleanMarker(fsys vfs.FS, dir string, brokerEpoch int64) error { panic("stub") }

// MetaPropertiesError is a log directory that must not be used.
type MetaPropertiesError struct{ Path, Msg string }

func (e *MetaPropertiesError) Error() string { return e.Path + ": " + e.Msg }
