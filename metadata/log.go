package metadata

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/leatmq/leat/config"
	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/record"
)

// replicatedLog is the manager's door to its log. One node has engineLog; a consensus group will have another that
// replicates what is appended, reports as committed what a majority holds, and as lost what another leader replaced.
type replicatedLog interface {
	// bounds are the first offset of the log and the next one to be written.
	bounds() (start, end int64)
	// epoch is the leader epoch in which this process appends: higher than that of everything in the log (B-D1).
	epoch() int32
	// read visits the records from an offset on, in batches, up to the end. A batch may begin below from. Records are valid
	// during the visit.
	read(from int64, visit func(b record.Batch) error) error
	// append writes one batch at the end, in the log's epoch, and returns where. It may not be committed yet. On an error
	// nothing was written; only after errLogFull is it worth trying again. One caller at a time.
	append(batch []byte) (base int64, err error)
	// follow sets who is told, on some goroutine and without waiting, that everything below an offset is committed, or that
	// nothing will be any more. It tells the present state at once.
	follow(committed func(upTo int64), failed func(err error))
	// trim lets go of what lies below an offset.
	trim(upTo int64) error
	// close stops the notifications.
	close()
}

// errLogFull: no space for the batch now.
var errLogFull = errors.New("no space for the metadata log")

// batchBytesMax bounds one batch of the metadata log, written or read.
const batchBytesMax = 16 << 20

// engineLog is the metadata log of a single node: the partition __cluster_metadata-0 of the engine. Flushed is committed.
type engineLog struct {
	log         *engine.Log
	leaderEpoch int32
	written     chan struct{} // capacity 1: the append in flight is done
	one         engine.Append
	committed   func(upTo int64)
	failed      func(err error)
}

// openEngineLog opens or creates the log and begins a new leader epoch: the one after that of the last record. An epoch that
// left no record in the log may be used again; on one node nobody else can have seen it.
func openEngineLog(e *engine.Engine, broker *config.Broker) (*engineLog, error) {
	tp := engine.TopicPartition{Topic: MetadataTopic}
	if l := e.Log(tp); l != nil && l.TopicID() != ([16]byte{}) && !engine.SameTopic(l.TopicID(), MetadataTopicID) {
		return nil, &FormatError{Where: filepath.Join(l.Dir(), tp.String()), Msg: "its partition.metadata says that it is another topic's log",
			Fix: "restore this directory from a backup, or remove its partition.metadata if it is the metadata log all the same"}
	}
	l, err := e.Create(tp, MetadataTopicID, logConfig(broker))
	if err != nil {
		return nil, fmt.Errorf("metadata: cannot open the metadata log: %w", err)
	}
	if err := l.Err(); err != nil {
		return nil, fmt.Errorf("metadata: the metadata log cannot be used: %w", err)
	}
	l.UseReserve() // nothing can be deleted without a record of it
	g := &engineLog{log: l, leaderEpoch: l.LatestEpoch() + 1, written: make(chan struct{}, 1)}
	if err := l.AssignEpochStart(g.leaderEpoch, l.EndOffset()); err != nil {
		return nil, fmt.Errorf("metadata: cannot begin leader epoch %d of the metadata log: %w", g.leaderEpoch, err)
	}
	return g, nil
}

// logConfig is the topic configuration of the metadata log: nothing leaves it but by trim, and every append is flushed.
func logConfig(broker *config.Broker) *config.Topic {
	c := broker.TopicDefaults
	c.Delete, c.Compact = true, false // DeleteRecords needs "delete"; retention is off
	c.RetentionMs, c.RetentionBytes = -1, -1
	c.SegmentBytes = max(broker.MetadataSegmentBytes, batchBytesMax)
	c.SegmentMs, c.SegmentJitterMs = config.NoLimit, 0
	c.MaxMessageBytes, c.MaxDecompressedMessageBytes = batchBytesMax, batchBytesMax
	c.LogAppendTime, c.CompressionType = false, "producer"
	c.TimestampBeforeMaxMs, c.TimestampAfterMaxMs = config.NoLimit, config.NoLimit
	c.WriteCaching, c.FlushMessages, c.FlushMs = false, config.NoLimit, config.NoLimit
	c.MinInsyncReplicas = 1
	return &c
}

// dir is where the snapshots lie: beside the segments.
func (g *engineLog) dir() string { return filepath.Join(g.log.Dir(), g.log.TP().String()) }

func (g *engineLog) bounds() (start, end int64) { return g.log.StartOffset(), g.log.EndOffset() }
func (g *engineLog) epoch() int32               { return g.leaderEpoch }

func (g *engineLog) append(batch []byte) (int64, error) {
	g.one = engine.Append{Batch: batch, Origin: engine.FromInternal, LeaderEpoch: g.leaderEpoch, Done: g}
	g.log.Enqueue(&g.one)
	<-g.written
	if errors.Is(g.one.Err, engine.ErrDiskFull) {
		return 0, fmt.Errorf("%w: %w", errLogFull, g.one.Err)
	}
	return g.one.BaseOffset, g.one.Err
}

// AppendDone implements engine.Completer.
func (g *engineLog) AppendDone(*engine.Append) { g.written <- struct{}{} }

func (g *engineLog) follow(committed func(int64), failed func(error)) {
	g.committed, g.failed = committed, failed
	g.log.SetObserver(g)
	g.Flushed(g.log.FlushedOffset())
	if err := g.log.Err(); err != nil {
		failed(err)
	}
}

// Appended implements engine.Observer: what is only written is not committed.
func (g *engineLog) Appended(int64) {}

// Flushed implements engine.Observer.
func (g *engineLog) Flushed(flushed int64) {
	g.log.SetHighWatermark(flushed)
	g.committed(flushed)
}

// Failed implements engine.Observer.
func (g *engineLog) Failed(err error) { g.failed(err) }

func (g *engineLog) trim(upTo int64) error {
	_, err := g.log.DeleteRecords(upTo)
	return err
}

func (g *engineLog) close() { g.log.SetObserver(nil) }

// readChunkBytes is how much of the log is read at once; a larger batch is read alone.
const readChunkBytes = 1 << 20

func (g *engineLog) read(from int64, visit func(b record.Batch) error) error {
	end := g.log.EndOffset()
	var buf []byte
	for from < end {
		chunk, err := g.readChunk(buf, from, end)
		if err != nil {
			return err
		}
		buf = chunk
		next, err := visitBatches(chunk, visit)
		if err != nil {
			return err
		}
		if next <= from {
			return &FormatError{Where: logPlace(from), Msg: "the log goes on, but no batch can be read here",
				Fix: "restore " + MetadataTopic + "-0 from a backup"}
		}
		from = next
	}
	return nil
}

// readChunk reads bytes from the batch that contains an offset on, at least one batch, into buf or a larger one.
func (g *engineLog) readChunk(buf []byte, from, end int64) ([]byte, error) {
	r, err := g.log.Read(from, readChunkBytes, end, true)
	if err != nil {
		return nil, fmt.Errorf("metadata: read the log at offset %d: %w", from, err)
	}
	defer r.Release()
	if cap(buf) < r.N {
		buf = make([]byte, r.N)
	}
	buf = buf[:r.N]
	if n, err := r.ReadAt(buf, 0); n < r.N {
		return nil, fmt.Errorf("metadata: read the log at offset %d: %w", from, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return buf, nil
}

// visitBatches visits the whole batches of chunk and returns the offset after the last one; -1 when there is none. A batch
// cut by the chunk's end is not visited. A batch that is there but damaged is an error, never the end (B-D6).
func visitBatches(chunk []byte, visit func(b record.Batch) error) (next int64, err error) {
	next = -1
	for {
		b, rest, err := record.Frame(chunk)
		if errors.Is(err, io.EOF) || errors.Is(err, record.ErrShort) {
			return next, nil
		}
		if err == nil {
			err = b.Check()
		}
		if err != nil {
			return next, &FormatError{Where: logPlace(next), Msg: "damaged batch: " + err.Error(), Fix: "restore " + MetadataTopic + "-0 from a backup"}
		}
		if err := visit(b); err != nil {
			return next, err
		}
		next, chunk = b.NextOffset(), rest
	}
}

func logPlace(offset int64) string {
	if offset < 0 {
		return MetadataTopic + "-0"
	}
	return fmt.Sprintf("%s-0, offset %d", MetadataTopic, offset)
}
