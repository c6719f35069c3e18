package engine

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatmq/leat/internal/vfs"
)

// The functions of this file read the small files of a log directory offline, for tools. They change nothing.

// SideFile is what a small file holds, in lines for people.
type SideFile struct {
	Kind  string // what the file is
	Lines []string
}

// IsSideFile tells whether a file of this name is one that ReadSideFile reads.
func IsSideFile(name string) bool { return sideFileReader(filepath.Base(name)) != nil }

// ReadSideFile reads a checkpoint, a producer snapshot, noted log states, partition.metadata, meta.properties or the clean shutdown marker by its name. An error is one
// of reading, or says what is wrong with the file (*CorruptError, *MetaPropertiesError).
func ReadSideFile(fsys vfs.FS, path string) (SideFile, error) {
	read := sideFileReader(filepath.Base(path))
	if read == nil {
		return SideFile{}, fmt.Errorf("%s is not a file that a log directory has", path)
	}
	data, err := readSideFile(fsys, path)
	if err != nil {
		return SideFile{}, err
	}
	if data == nil {
		return SideFile{}, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return read(path, data)
}

func sideFileReader(base string) func(path string, data []byte) (SideFile, error) {
	switch base {
	case recoveryPointFileName, logStartFileName, highWatermarkFileName, cleanerOffsetFileName:
		return describeOffsets
	case leaderEpochFileName:
		return describeEpochs
	case partitionMetadataFileName:
		return describeTopicID
	case metaPropertiesFileName:
		return describeMetaProperties
	case cleanMarkerFileName:
		return describeCleanMarker
	case logStateFileName, logStateRecentFileName:
		return describeLogState
	case compactedFileName:
		return describeCompacted
	}
	if _, ok := parseBaseOffset(base, snapshotSuffix); ok {
		return describeSnapshot
	}
	return nil
}

func describeCompacted(path string, data []byte) (SideFile, error) {
	f := SideFile{Kind: "compacted once"}
	if !bytes.Equal(data, compactedFileContent) {
		return f, &CorruptError{Path: path, Msg: fmt.Sprintf("%q is not what is written there; it counts all the same", shortText(string(data)))}
	}
	return f, nil
}

func describeOffsets(path string, data []byte) (SideFile, error) {
	f := SideFile{Kind: "offset checkpoint"}
	if _, err := parseOffsetCheckpoint(path, data); err != nil {
		return f, err
	}
	if len(data) > 0 {
		f.Lines = strings.Split(strings.TrimSpace(string(data)), "\n")[2:]
	}
	return f, nil
}

func describeEpochs(path string, data []byte) (SideFile, error) {
	f := SideFile{Kind: "leader epochs"}
	entries, err := parseEpochs(path, data)
	for _, e := range entries {
		f.Lines = append(f.Lines, fmt.Sprintf("epoch: %d startOffset: %d", e.Epoch, e.StartOffset))
	}
	return f, err
}

func describeTopicID(path string, data []byte) (SideFile, error) {
	id, err := parseTopicID(path, data)
	return SideFile{Kind: "topic id", Lines: []string{"topic_id: " + formatUUID(id)}}, err
}

func describeMetaProperties(path string, data []byte) (SideFile, error) {
	f := SideFile{Kind: "identity of the log directory"}
	if _, err := parseMetaProperties(path, data); err != nil {
		return f, err
	}
	f.Lines = strings.Split(strings.TrimSpace(string(data)), "\n")
	return f, nil
}

func describeCleanMarker(path string, data []byte) (SideFile, error) {
	epoch, ok := parseCleanMarker(data)
	if !ok {
		return SideFile{Kind: "clean shutdown marker"}, &CorruptError{Path: path, Msg: "it is no clean shutdown marker; the next start will check the logs"}
	}
	return SideFile{Kind: "clean shutdown marker", Lines: []string{fmt.Sprintf("brokerEpoch: %d", epoch)}}, nil
}

func describeSnapshot(path string, data []byte) (SideFile, error) {
	f := SideFile{Kind: "producer state"}
	entries, err := decodeSnapshot(data)
	if err != nil {
		return f, &CorruptError{Path: path, Msg: err.Error()}
	}
	for i := range entries {
		e := &entries[i]
		f.Lines = append(f.Lines, fmt.Sprintf("producerId: %d producerEpoch: %d lastSequence: %d lastOffset: %d offsetDelta: %d timestamp: %d coordinatorEpoch: %d currentTxnFirstOffset: %d",
			e.producerID, e.epoch, e.lastSequence, e.lastOffset, e.offsetDelta, e.timestampMs, e.coordinatorEpoch, e.txnFirstOffset))
	}
	return f, nil
}

func describeLogState(path string, data []byte) (SideFile, error) {
	f := SideFile{Kind: "noted log states"}
	marks, err := decodeLogState(data)
	if err != nil {
		return f, &CorruptError{Path: path, Msg: err.Error() + "; the next start will look at the logs themselves"}
	}
	for _, tp := range slices.SortedFunc(maps.Keys(marks), compareTP) {
		m := marks[tp]
		f.Lines = append(f.Lines, fmt.Sprintf("partition: %s segment: %d size: %d nextOffset: %d epochs: %d producers: %d",
			tp, m.base, m.end.Size, m.end.NextOffset, len(m.epochs), len(m.producers)))
	}
	return f, nil
}
