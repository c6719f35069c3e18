package metadata

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/record"
)

const (
	snapshotSuffix = ".checkpoint"
	tmpSuffix      = ".tmp"

	snapshotBatchBytes = 64 << 10 // a batch of a snapshot is closed when it reaches this size
	snapshotsKept      = 2        // the newest, and the one before in case the newest turns out to be damaged
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// snapshotID names a snapshot: the offset and the leader epoch of its image. Its file is "<offset>-<epoch>.checkpoint".
type snapshotID struct {
	offset int64
	epoch  int32
}

func (id snapshotID) file() string {
	return fmt.Sprintf("%020d-%010d%s", id.offset, id.epoch, snapshotSuffix)
}

func (id snapshotID) compare(other snapshotID) int {
	if id.offset != other.offset {
		return int(max(-1, min(1, id.offset-other.offset)))
	}
	return int(id.epoch) - int(other.epoch)
}

// parseSnapshotName is the inverse of file; false for any other name.
func parseSnapshotName(name string) (id snapshotID, ok bool) {
	if n, err := fmt.Sscanf(name, "%d-%d"+snapshotSuffix, &id.offset, &id.epoch); n != 2 || err != nil {
		return id, false
	}
	return id, id.offset >= 0 && id.epoch >= 0 && id.file() == name
}

// listSnapshots returns the snapshots of a directory, newest first, and removes what a crash left half written.
func listSnapshots(fsys vfs.FS, dir string) ([]snapshotID, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("metadata: list snapshots: %w", err)
	}
	var ids []snapshotID
	for _, e := range entries {
		if id, ok := parseSnapshotName(e.Name); ok {
			ids = append(ids, id)
		} else if strings.HasSuffix(e.Name, snapshotSuffix+tmpSuffix) {
			if err := fsys.Remove(filepath.Join(dir, e.Name)); err != nil {
				return nil, fmt.Errorf("metadata: remove a half written snapshot: %w", err)
			}
		}
	}
	slices.SortFunc(ids, func(a, b snapshotID) int { return b.compare(a) })
	return ids, nil
}

// imageRecords visits the records that make the image out of nothing.
func (i *Image) imageRecords(visit func(Record)) {
	for _, name := range sortedNames(i.features) {
		visit(FeatureLevel{Name: name, Level: i.features[name]})
	}
	if i.producerID > 0 {
		visit(ProducerIDs{Broker: -1, BrokerEpoch: -1, Next: i.producerID})
	}
	for _, b := range i.Brokers() {
		visit(BrokerRegistration{ID: b.ID, Epoch: b.Epoch, Incarnation: b.Incarnation, Rack: b.Rack, Listeners: b.Listeners, Fenced: b.Fenced})
	}
	for _, t := range i.Topics() {
		t.topicRecords(visit)
	}
	for _, name := range sortedNames(i.configs) {
		configsOf(BrokerResource, name, i.configs[name], visit)
	}
	for _, id := range i.ConfiguredGroups() {
		configsOf(GroupResource, id, i.GroupConfig(id), visit)
	}
}

func (t *Topic) topicRecords(visit func(Record)) {
	visit(TopicRecord{Name: t.Name, ID: t.ID, Internal: t.Internal})
	for n, p := range t.Partitions {
		visit(PartitionRecord{TopicID: t.ID, Partition: int32(n), Replicas: p.Replicas, ISR: p.ISR, ELR: p.ELR, Leader: p.Leader,
			LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch})
	}
	configsOf(TopicResource, t.Name, t.Config, visit)
}

func configsOf(kind ResourceType, name string, configs map[string]string, visit func(Record)) {
	for _, key := range sortedNames(configs) {
		visit(ConfigRecord{Resource: kind, Name: name, Key: key, Value: configs[key]})
	}
}

// writeSnapshot makes a durable snapshot of an image: written beside its name, synced, renamed, directory synced.
func writeSnapshot(fsys vfs.FS, dir string, image *Image, nowMs int64) (err error) {
	name := filepath.Join(dir, snapshotID{image.offset, image.epoch}.file())
	f, err := fsys.OpenFile(name+tmpSuffix, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("metadata: snapshot: %w", err)
	}
	w := snapshotWriter{file: f, nowMs: nowMs, epoch: image.epoch, builder: record.NewBuilder(record.Options{PartitionLeaderEpoch: image.epoch})}
	w.writeImage(image)
	if w.err == nil {
		w.err = f.Sync()
	}
	if err := errors.Join(w.err, f.Close()); err != nil {
		return fmt.Errorf("metadata: snapshot: %w", errors.Join(err, fsys.Remove(name+tmpSuffix)))
	}
	if err := fsys.Rename(name+tmpSuffix, name); err != nil {
		return fmt.Errorf("metadata: snapshot: %w", err)
	}
	if err := fsys.SyncDir(dir); err != nil {
		return fmt.Errorf("metadata: snapshot: %w", err)
	}
	return nil
}

// snapshotWriter writes records as batches, one behind the other, offsets counting from 0. The first error stays.
type snapshotWriter struct {
	file    vfs.File
	builder *record.Builder
	epoch   int32
	nowMs   int64
	buf     []byte
	pos     int64  // bytes written
	crc     uint32 // of them
	records int64  // in batches written
	err     error
}

func (w *snapshotWriter) writeImage(image *Image) {
	w.add(snapshotHeader{Offset: image.offset, Epoch: image.epoch, TimeMs: w.nowMs})
	image.imageRecords(w.add)
	w.flush()
	w.add(snapshotTrailer{Records: w.records - 1, CRC: w.crc})
	w.flush()
}

func (w *snapshotWriter) add(r Record) {
	w.buf = AppendRecord(w.buf[:0], r)
	w.builder.Append(w.nowMs, nil, w.buf, nil)
	if w.builder.Size() >= snapshotBatchBytes {
		w.flush()
	}
}

// flush writes the batch under construction.
func (w *snapshotWriter) flush() {
	if w.err != nil || w.builder.Count() == 0 {
		return
	}
	w.buf = w.builder.Build(w.buf[:0])
	if _, w.err = w.file.WriteAt(w.buf, w.pos); w.err != nil {
		return
	}
	w.crc = crc32.Update(w.crc, castagnoli, w.buf)
	w.pos += int64(len(w.buf))
	w.records += int64(w.builder.Count())
	w.builder.Reset(record.Options{PartitionLeaderEpoch: w.epoch, BaseOffset: w.records})
}

// readSnapshot reads a snapshot back. Any doubt is an error: a *FormatError when the file is damaged or newer.
func readSnapshot(fsys vfs.FS, dir string, id snapshotID) (*Image, error) {
	name := filepath.Join(dir, id.file())
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("metadata: snapshot: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("metadata: snapshot %s: %w", name, err)
	}
	r := snapshotReader{file: f, size: size, editor: newEditor(Empty())}
	if err := r.readAll(); err != nil {
		return nil, &FormatError{Where: "snapshot " + id.file(), Newer: errors.Is(err, errNewer), Msg: err.Error()}
	}
	if got := (snapshotID{r.header.Offset, r.header.Epoch}); got != id {
		return nil, &FormatError{Where: "snapshot " + id.file(), Msg: "it is the snapshot " + got.file()}
	}
	r.editor.next.offset, r.editor.next.epoch = id.offset, id.epoch
	image, _ := r.editor.finish()
	return image, nil
}

// snapshotReader replays the batches of a snapshot into an editor.
type snapshotReader struct {
	file    vfs.File
	size    int64
	pos     int64
	buf     []byte
	crc     uint32 // of the batches before the present one
	records int64  // header included
	header  snapshotHeader
	done    bool // the trailer was there
	editor  *editor
}

func (r *snapshotReader) readAll() error {
	for r.pos < r.size {
		b, err := r.next()
		if err != nil {
			return err
		}
		if r.done {
			return errors.New("something follows the trailer")
		}
		if err := b.Records(r.record); err != nil {
			return err
		}
		r.crc = crc32.Update(r.crc, castagnoli, b)
	}
	if !r.done {
		return errors.New("it has no trailer: it was not written to the end")
	}
	return nil
}

// next reads the next batch and checks its CRC.
func (r *snapshotReader) next() (record.Batch, error) {
	if err := r.fill(record.HeaderSize); err != nil {
		return nil, err
	}
	size := int64(record.LogOverhead) + int64(record.Batch(r.buf).BatchLength())
	if size < record.HeaderSize || size > batchBytesMax {
		return nil, fmt.Errorf("a batch of %d bytes at position %d", size, r.pos)
	}
	if err := r.fill(int(size)); err != nil {
		return nil, err
	}
	b, _, err := record.Frame(r.buf)
	if err == nil {
		err = b.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("damaged batch at position %d: %w", r.pos, err)
	}
	r.pos += size
	return b, nil
}

// fill reads n bytes at the position into buf.
func (r *snapshotReader) fill(n int) error {
	if int64(n) > r.size-r.pos {
		return io.ErrUnexpectedEOF
	}
	r.buf = slices.Grow(r.buf[:0], n)[:n]
	got, err := r.file.ReadAt(r.buf, r.pos)
	if got < n {
		return errors.Join(err, io.ErrUnexpectedEOF)
	}
	return nil
}

func (r *snapshotReader) record(raw *record.Record) error {
	rec, err := DecodeRecord(raw.Value)
	if err != nil {
		return err
	}
	first := r.records == 0
	r.records++
	switch rec := rec.(type) {
	case snapshotHeader:
		if !first {
			return errors.New("a second header")
		}
		r.header = rec
		return nil
	case snapshotTrailer:
		if first || r.done {
			return errors.New("a trailer out of place")
		}
		if rec.Records != r.records-2 || rec.CRC != r.crc {
			return errors.New("the trailer does not belong to what is before it")
		}
		r.done = true
		return nil
	}
	if first || r.done {
		return errors.New("a record out of place")
	}
	return r.editor.apply(rec)
}
