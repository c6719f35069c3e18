package engine

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/bits"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/leatmq/leat/internal/vfs"
)

// The text checkpoint files, Kafka's format, version 0. Every line ends with a newline, so a file that was cut off is recognised:
//
//	0                               version
//	2                               number of entries
//	orders 0 1500                   an entry: <topic> <partition> <offset>  (leader-epoch-checkpoint: <epoch> <start offset>)
//	orders 1 1498
//
// The files of offsets end with one entry more, for a topic that cannot be: "#crc32c 0 <checksum of the entries above>". To Kafka it is an entry of a partition
// that is not here. Without it a digit that became another digit would be believed, and a wrong log start deletes what is below. A file without
// the entry (Kafka's) is taken as it is.
//
// A file of no bytes has no entries: Kafka creates some checkpoint files that way. They are replaced as a whole (vfs.WriteFileAtomic).
const (
	checkpointVersion = "0"
	checksumTopic     = "#crc32c"

	// sideFileBytesMax bounds the side files held in memory: a million partitions with the longest names fit.
	sideFileBytesMax = 256 << 20
)

// CorruptError says that a side file is not what its format allows. Most of them can be rebuilt.
type CorruptError struct {
	Path string
	Line int // of a text file, from 1 on; 0 when the error is not about one line
	Msg  string
}

func (e *CorruptError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("file %s is corrupt, line %d: %s", e.Path, e.Line, e.Msg)
	}
	return fmt.Sprintf("file %s is corrupt: %s", e.Path, e.Msg)
}

// readSideFile reads a small file; a missing one is nil without an error, one that is too large a *CorruptError.
func readSideFile(fsys vfs.FS, path string) ([]byte, error) {
	data, err := vfs.ReadFile(fsys, path, sideFileBytesMax)
	var large *vfs.TooLargeError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.As(err, &large):
		return nil, &CorruptError{Path: path, Msg: large.Error()}
	case err != nil:
		return nil, err
	case data == nil:
		return []byte{}, nil
	}
	return data, nil
}

// parseCheckpoint calls entry with the fields of each entry, of which there must be fieldCount, separated by single spaces.
func parseCheckpoint(path string, data []byte, fieldCount int, entry func(fields []string) error) error {
	if len(data) == 0 {
		return nil
	}
	corrupt := func(line int, format string, args ...any) error {
		return &CorruptError{Path: path, Line: line, Msg: fmt.Sprintf(format, args...)}
	}
	if data[len(data)-1] != '\n' {
		return corrupt(0, "it ends within a line")
	}
	lines := strings.Split(string(data[:len(data)-1]), "\n")
	if lines[0] != checkpointVersion {
		return corrupt(1, "version %q is not known", shortText(lines[0]))
	}
	if len(lines) < 2 {
		return corrupt(0, "the number of entries is missing")
	}
	if count, err := strconv.Atoi(lines[1]); err != nil || count != len(lines)-2 {
		return corrupt(2, "says %q entries, there are %d", shortText(lines[1]), len(lines)-2)
	}
	for i, line := range lines[2:] {
		fields := strings.Split(line, " ")
		if len(fields) != fieldCount {
			return corrupt(i+3, "%q does not have %d fields", shortText(line), fieldCount)
		}
		if err := entry(fields); err != nil {
			return corrupt(i+3, "%q: %v", shortText(line), err)
		}
	}
	return nil
}

// shortText cuts s to what fits into an error message.
func shortText(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}

func parseOffset(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("not an offset")
	}
	return n, nil
}

// readOffsetCheckpoint reads a file of offsets per partition. A missing file is nil without an error, nonsense a *CorruptError.
func readOffsetCheckpoint(fsys vfs.FS, path string) (map[TopicPartition]int64, error) {
	data, err := readSideFile(fsys, path)
	if err != nil || data == nil {
		return nil, err
	}
	return parseOffsetCheckpoint(path, data)
}

func parseOffsetCheckpoint(path string, data []byte) (map[TopicPartition]int64, error) {
	m := map[TopicPartition]int64{}
	sum, sealed := crc32.New(castagnoli), false
	err := parseCheckpoint(path, data, 3, func(fields []string) error {
		if sealed {
			return errors.New("it is behind the checksum")
		}
		if fields[0] == checksumTopic {
			sealed = true
			if fields[1] != "0" || fields[2] != strconv.FormatUint(uint64(sum.Sum32()), 10) {
				return errors.New("the checksum is not that of the entries")
			}
			return nil
		}
		fmt.Fprintf(sum, "%s %s %s\n", fields[0], fields[1], fields[2])
		tp, ok := parsePartition(fields[0], fields[1])
		if !ok {
			return errors.New("not a partition")
		}
		if _, twice := m[tp]; twice {
			return errors.New("the partition is listed twice")
		}
		offset, err := parseOffset(fields[2])
		m[tp] = offset
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// writeOffsetCheckpoint replaces the file by the offsets of m. It is durable when it returns nil.
func writeOffsetCheckpoint(fsys vfs.FS, path string, m map[TopicPartition]int64) error {
	return vfs.WriteFileAtomic(fsys, path, formatOffsetCheckpoint(m))
}

func formatOffsetCheckpoint(m map[TopicPartition]int64) []byte {
	tps := make([]TopicPartition, 0, len(m))
	for tp := range m {
		tps = append(tps, tp)
	}
	slices.SortFunc(tps, compareTP)
	out := make([]byte, 0, 64*(len(m)+1))
	out = fmt.Appendf(out, "%s\n%d\n", checkpointVersion, len(m)+1)
	entries := len(out)
	for _, tp := range tps {
		out = append(out, tp.Topic...)
		out = append(out, ' ')
		out = strconv.AppendInt(out, int64(tp.Partition), 10)
		out = append(out, ' ')
		out = strconv.AppendInt(out, m[tp], 10)
		out = append(out, '\n')
	}
	return fmt.Appendf(out, "%s 0 %d\n", checksumTopic, crc32.Checksum(out[entries:], castagnoli))
}

func compareTP(a, b TopicPartition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// partition.metadata ties a partition's directory to its topic:
//
//	version: 0
//	topic_id: <22 characters of base64url>       no newline behind it
const (
	partitionMetadataPrefix = "version: 0\ntopic_id: "
	topicIDChars            = 22
)

// readTopicID reads the topic id of the partition in dir. A missing file is a zero id without an error, nonsense a *CorruptError.
func readTopicID(fsys vfs.FS, dir string) (id [16]byte, err error) {
	path := filepath.Join(dir, partitionMetadataFileName)
	data, err := readSideFile(fsys, path)
	if err != nil || data == nil {
		return id, err
	}
	return parseTopicID(path, data)
}

func parseTopicID(path string, data []byte) (id [16]byte, err error) {
	text, ok := bytes.CutPrefix(bytes.TrimSuffix(data, []byte("\n")), []byte(partitionMetadataPrefix))
	if !ok {
		return id, &CorruptError{Path: path, Msg: fmt.Sprintf("%q does not begin with %q", shortText(string(data)), partitionMetadataPrefix)}
	}
	id, ok = parseUUID(string(text))
	if !ok || id == ([16]byte{}) {
		return [16]byte{}, &CorruptError{Path: path, Line: 2, Msg: fmt.Sprintf("%q is not a topic id", shortText(string(text)))}
	}
	return id, nil
}

// writeTopicID writes the topic id of the partition in dir. It is durable when it returns nil.
func writeTopicID(fsys vfs.FS, dir string, id [16]byte) error {
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, partitionMetadataFileName), formatTopicID(id))
}

func formatTopicID(id [16]byte) []byte { return []byte(partitionMetadataPrefix + formatUUID(id)) }

// topicIDBitsMax is in how many bits an id may differ from the one it should be and still count as that one, damaged: one character of the file is at
// most six. Ids are random, so two different ones are never that close.
const topicIDBitsMax = 6

// SameTopic tells whether the id found on disk is want, though perhaps damaged: partition.metadata has no checksum, and a flipped bit in it must not make
// the data below it another topic's.
func SameTopic(found, want [16]byte) bool {
	n := 0
	for i := range found {
		n += bits.OnesCount8(found[i] ^ want[i])
	}
	return n <= topicIDBitsMax
}

// formatUUID and parseUUID are how Kafka writes uuids: base64url without padding.
func formatUUID(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func parseUUID(s string) (id [16]byte, ok bool) {
	if len(s) != topicIDChars {
		return id, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != len(id) { // the decoder skips newlines
		return id, false
	}
	return [16]byte(raw), true
}
