package engine

import (
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
	"github.com/leatmq/leat/segment"
)

// Every kind of side file is read by its name, and damage is reported, not described.
func TestReadSideFile(t *testing.T) {
	good := map[string]struct {
		data  []byte
		holds string
	}{
		recoveryPointFileName:           {formatOffsetCheckpoint(map[TopicPartition]int64{{"t", 3}: 42}), "t 3 42"},
		highWatermarkFileName:           {formatOffsetCheckpoint(map[TopicPartition]int64{{"t", 0}: 7}), "t 0 7"},
		leaderEpochFileName:             {formatEpochs([]epochEntry{{Epoch: 5, StartOffset: 10}}), "epoch: 5 startOffset: 10"},
		partitionMetadataFileName:       {formatTopicID([16]byte{1}), "topic_id: AQ"},
		cleanMarkerFileName:             {formatCleanMarker(9), "brokerEpoch: 9"},
		logStateFileName:                {encodeLogState(map[TopicPartition]*mark{{"t", 3}: {end: segment.End{Size: 100, NextOffset: 42}}}), "partition: t-3 segment: 0 size: 100 nextOffset: 42"},
		"00000000000000000042.snapshot": {encodeSnapshot([]snapshotEntry{{producerID: 77, lastSequence: 4, txnFirstOffset: -1}}), "producerId: 77"},
	}
	for name, g := range good {
		fsys := vfs.NewMem(1)
		if !IsSideFile("/d/" + name) {
			t.Errorf("%s is not known as a side file", name)
		}
		if err := fsys.MkdirAll("/d", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := vfs.WriteFileAtomic(fsys, "/d/"+name, g.data); err != nil {
			t.Fatal(err)
		}
		f, err := ReadSideFile(fsys, "/d/"+name)
		if err != nil || !strings.Contains(strings.Join(f.Lines, "\n"), g.holds) {
			t.Errorf("%s: %v, %v; want a line with %q", name, f, err, g.holds)
		}
		if err := vfs.WriteFileAtomic(fsys, "/d/"+name, []byte("nonsense \x00")); err != nil {
			t.Fatal(err)
		}
		if f, err := ReadSideFile(fsys, "/d/"+name); err == nil {
			t.Errorf("%s: nonsense was read as %v", name, f)
		}
	}
	if _, err := ReadSideFile(vfs.NewMem(1), "/d/"+leaderEpochFileName); err == nil {
		t.Error("a missing file was read")
	}
	if IsSideFile("00000000000000000042.log") {
		t.Error("a data file is no side file")
	}
}
