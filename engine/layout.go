package engine

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Every name the engine gives to something on disk is made and read in this file. They are Kafka's.
//
//	<log dir>/
//	  .lock                               one process per log dir
//	  .reserve                            occupies space for the time the disk is full (reserve.go)
//	  .kafka_cleanshutdown                the last stop was clean (cleanmarker.go)
//	  meta.properties                     whose directory this is (metaproperties.go)
//	  recovery-point-offset-checkpoint    everything below is on stable storage (checkpoint.go)
//	  log-start-offset-checkpoint
//	  replication-offset-checkpoint       high watermarks
//	  cleaner-offset-checkpoint           up to where logs are compacted (cleaner.go)
//	  .leat-log-state  .leat-log-state-recent   the logs' state, so that a start reads little (logstate.go)
//	  <topic>-<partition>/
//	    %020d.log .index .timeindex .txnindex .snapshot    named by base offset; the snapshot by the offset it is taken at
//	    leader-epoch-checkpoint           (epochs.go)
//	    partition.metadata                the topic's id (checkpoint.go)
//	    .leat-compacted                   offsets may be missing in the segments (swap.go)
//	    *.cleaned *.swap                  compacted segments that are not in place yet (swap.go)
//	  <topic>-<partition>.<32 hex>-delete/                 a deleted partition whose files have not gone yet
const (
	lockFileName           = ".lock"
	reserveFileName        = ".reserve"
	cleanMarkerFileName    = ".kafka_cleanshutdown"
	metaPropertiesFileName = "meta.properties"

	recoveryPointFileName = "recovery-point-offset-checkpoint"
	logStartFileName      = "log-start-offset-checkpoint"
	highWatermarkFileName = "replication-offset-checkpoint"
	cleanerOffsetFileName = "cleaner-offset-checkpoint"

	leaderEpochFileName       = "leader-epoch-checkpoint"
	partitionMetadataFileName = "partition.metadata"

	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"
	deletedSuffix   = ".deleted" // behind a file's name: to be removed

	deletedDirSuffix = "-delete"

	// dirNameBytesMax is the longest name of a directory that common file systems take.
	dirNameBytesMax = 255

	// baseOffsetDigits pads the offset in a file name, so that names sort as offsets do.
	baseOffsetDigits = 20
)

// partitionDirName returns the directory of a partition, relative to its log dir.
func partitionDirName(tp TopicPartition) string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// parsePartitionDirName is the inverse of partitionDirName; false for every other name, also for one that only looks alike ("t-01").
func parsePartitionDirName(name string) (TopicPartition, bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 || isDeletedDirName(name) {
		return TopicPartition{}, false
	}
	return parsePartition(name[:dash], name[dash+1:])
}

// parsePartition makes a partition of its topic and number as they stand on disk; false when they cannot stand there so.
func parsePartition(topic, number string) (TopicPartition, bool) {
	p, err := strconv.ParseInt(number, 10, 32)
	if err != nil || p < 0 || strconv.FormatInt(p, 10) != number || !isTopicNameOnDisk(topic) {
		return TopicPartition{}, false
	}
	return TopicPartition{Topic: topic, Partition: int32(p)}, true
}

// isTopicNameOnDisk tells whether topic consists of the characters that topic names are made of. It keeps path separators and white
// space, which the checkpoint files use as separators, out.
func isTopicNameOnDisk(topic string) bool {
	for i := range len(topic) {
		c := topic[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return topic != "" && topic != "." && topic != ".." && len(topic) < dirNameBytesMax
}

// deletedDirName returns the name a partition's directory gets when the partition is deleted: "<topic>-<partition>.<32 hex>-delete", the
// topic cut so that the whole fits into dirNameBytesMax. uuid keeps two deletions of one name apart.
func deletedDirName(tp TopicPartition, uuid [16]byte) string {
	tail := fmt.Sprintf("-%d.%s%s", tp.Partition, hex.EncodeToString(uuid[:]), deletedDirSuffix)
	return tp.Topic[:min(len(tp.Topic), dirNameBytesMax-len(tail))] + tail
}

// isDeletedDirName tells whether name is one that deletedDirName makes.
func isDeletedDirName(name string) bool {
	head, ok := strings.CutSuffix(name, deletedDirSuffix)
	if !ok || len(name) > dirNameBytesMax {
		return false
	}
	dot := strings.LastIndexByte(head, '.')
	if dot < 0 {
		return false
	}
	id, err := hex.DecodeString(head[dot+1:])
	if err != nil || len(id) != 16 || strings.ToLower(head[dot+1:]) != head[dot+1:] {
		return false
	}
	dash := strings.LastIndexByte(head[:dot], '-')
	if dash <= 0 {
		return false
	}
	p, err := strconv.ParseInt(head[dash+1:dot], 10, 32)
	return err == nil && p >= 0 && strconv.FormatInt(p, 10) == head[dash+1:dot]
}

func logFileName(base int64) string       { return baseOffsetName(base, logSuffix) }
func indexFileName(base int64) string     { return baseOffsetName(base, indexSuffix) }
func timeIndexFileName(base int64) string { return baseOffsetName(base, timeIndexSuffix) }
func txnIndexFileName(base int64) string  { return baseOffsetName(base, txnIndexSuffix) }

// snapshotFileName names the producer snapshot that covers everything below offset.
func snapshotFileName(offset int64) string { return baseOffsetName(offset, snapshotSuffix) }

func baseOffsetName(offset int64, suffix string) string {
	return fmt.Sprintf("%0*d%s", baseOffsetDigits, offset, suffix)
}

// parseBaseOffset returns the offset in a file name that ends in suffix; false for every name that baseOffsetName does not make.
func parseBaseOffset(name, suffix string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != baseOffsetDigits || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil
}

// partitionDir returns the path of a partition's directory.
func partitionDir(logDir string, tp TopicPartition) string {
	return filepath.Join(logDir, partitionDirName(tp))
}
