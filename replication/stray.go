package replication

import (
	"errors"
	"fmt"
	"slices"

	"github.com/leatmq/leat/engine"
	"github.com/leatmq/leat/metadata"
)

// setStraysAside looks at every log on disk before any is used. A log whose topic the metadata knows as removed is deleted:
// the stop came between the decision and the deletion. Any other log that the metadata does not place here is a stray. Nobody
// knows whether its topic is gone or the metadata has lost it, so it is never deleted (B-A11): its directory is renamed, which
// keeps it from retention and from a topic of the same name, and people are told. A mistake of this function must be
// visible, not fatal (B-A16). What cannot be renamed is out of the engine's sight all the same, and is found by the next start.
func (m *Manager) setStraysAside(image *metadata.Image) {
	for _, l := range m.o.Engine.Logs() {
		tp := l.TP()
		if tp.Topic == metadata.MetadataTopic || m.belongs(image, l) {
			continue
		}
		if m.o.Metadata.Removed(l.TopicID()) {
			if err := m.o.Engine.Delete(tp); err != nil {
				m.o.Logger.Error("a deleted partition could not be removed from disk", "partition", tp.String(), "error", err)
			}
			continue
		}
		path, err := m.o.Engine.SetAside(tp)
		if err != nil {
			m.o.Logger.Error("a partition on disk is not in the cluster metadata, and could not be set aside", "partition", tp.String(), "error", err)
			continue
		}
		m.o.Logger.Error("a partition on disk is not in the cluster metadata: it was set aside, nothing was deleted. "+
			"If the topic is gone for good, delete the directory", "partition", tp.String(), "topic_id", fmt.Sprintf("%x", l.TopicID()), "dir", path)
	}
}

// belongs says whether the metadata places this very log on this node. A log without an id was being created when the process
// ended, and belongs to the topic of its name.
func (m *Manager) belongs(image *metadata.Image, l *engine.Log) bool {
	tp := l.TP()
	t := image.Topic(tp.Topic)
	if t == nil || int(tp.Partition) >= len(t.Partitions) {
		return false
	}
	id := l.TopicID()
	return (engine.SameTopic(id, t.ID) || id == [16]byte{}) && slices.Contains(t.Partitions[tp.Partition].Replicas, m.o.NodeID)
}

// storageError makes err an engine.ErrStorage, if it is not one.
func storageError(err error) error {
	if errors.Is(err, engine.ErrStorage) {
		return err
	}
	return fmt.Errorf("%w: %w", engine.ErrStorage, err)
}
