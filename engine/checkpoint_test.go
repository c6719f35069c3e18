package engine

import (
	"hash/crc32"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

func TestOffsetCheckpointGolden(t *testing.T) {
	m := map[TopicPartition]int64{{"b", 10}: 0, {"b", 2}: 9223372036854775807, {"a.x-y", 0}: 1500}
	want := "0\n4\na.x-y 0 1500\nb 2 9223372036854775807\nb 10 0\n#crc32c 0 CRC\n"
	want = strings.Replace(want, "CRC", strconv.Itoa(int(crc32.Checksum([]byte("a.x-y 0 1500\nb 2 9223372036854775807\nb 10 0\n"), castagnoli))), 1)
	if got := string(formatOffsetCheckpoint(m)); got != want {
		t.Fatalf("got %q", got)
	}
	if got := string(formatOffsetCheckpoint(nil)); got != "0\n1\n#crc32c 0 0\n" {
		t.Fatalf("got %q", got)
	}
}

func TestOffsetCheckpointRoundTrip(t *testing.T) {
	fsys := newSideDir(t)
	path := sideDir + "/" + recoveryPointFileName
	if m, err := readOffsetCheckpoint(fsys, path); m != nil || err != nil {
		t.Fatalf("missing file: %v, %v", m, err)
	}
	for _, want := range []map[TopicPartition]int64{{}, {{"t", 0}: 5}, {{"t", 0}: 6, {"u-1", 3}: 0}} {
		sideMust(t, writeOffsetCheckpoint(fsys, path, want))
		got, err := readOffsetCheckpoint(fsys, path)
		sideMust(t, err)
		if !maps.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	sidePut(t, fsys, recoveryPointFileName, nil)
	if m, err := readOffsetCheckpoint(fsys, path); m == nil || len(m) != 0 || err != nil {
		t.Fatalf("a file without bytes: %v, %v", m, err) // Kafka makes them
	}
}

func TestOffsetCheckpointOfKafka(t *testing.T) {
	data := kafkaFile(t, recoveryPointFileName)
	m, err := parseOffsetCheckpoint("f", data)
	sideMust(t, err)
	if len(m) != 19 {
		t.Fatalf("%d entries", len(m))
	}
	again, err := parseOffsetCheckpoint("f", formatOffsetCheckpoint(m))
	sideMust(t, err)
	if !maps.Equal(again, m) {
		t.Fatalf("written as %q", formatOffsetCheckpoint(m))
	}
}

// A23: nonsense is an error that names the place, never a panic or a wrong map.
func TestOffsetCheckpointNonsense(t *testing.T) {
	for data, want := range map[string]string{
		"0":                    "ends within a line",
		"1\n0\n":               "line 1: version \"1\"",
		"0\n":                  "number of entries is missing",
		"0\nx\n":               "line 2: says \"x\" entries",
		"0\n-1\n":              "line 2",
		"0\n2\nt 0 1\n":        "says \"2\" entries, there are 1",
		"0\n0\nt 0 1\n":        "there are 1",
		"0\n1\nt 0 12":         "ends within a line",
		"0\n1\nt 0\n":          "3 fields",
		"0\n1\nt 0 1 \n":       "3 fields",
		"0\n1\nt  0 1\n":       "3 fields",
		"0\n1\nt -1 1\n":       "not a partition",
		"0\n1\n 0 1\n":         "not a partition",
		"0\n1\nt 00 1\n":       "not a partition",
		"0\n1\nt 0 -1\n":       "not an offset",
		"0\n1\nt 0 1x\n":       "not an offset",
		"0\n2\nt 0 1\nt 0 2\n": "line 4: \"t 0 2\": the partition is listed twice",
		"\x00\x00\x00\n":       "version",
		"0\r\n0\r\n":           "version",
		"0\n1\n" + strings.Repeat("x", 200) + "\n": "...",
	} {
		m, err := parseOffsetCheckpoint("file", []byte(data))
		if m != nil || !isCorruptError(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "file file is corrupt") {
			t.Errorf("%q: %v, %v", data, m, err)
		}
	}
}

func TestOffsetCheckpointDamaged(t *testing.T) {
	want := map[TopicPartition]int64{{"orders", 0}: 1500, {"orders", 1}: 14}
	damaged(formatOffsetCheckpoint(want), func(bad []byte) {
		m, err := parseOffsetCheckpoint("f", bad)
		for tp := range m { // what the entry of the checksum may become
			if strings.HasSuffix(tp.Topic, "crc32c") {
				delete(m, tp)
			}
		}
		if err == nil && len(bad) > 0 && !maps.Equal(m, want) {
			t.Errorf("%q read as %v", bad, m)
		}
	})
}

func TestSideFileTooLarge(t *testing.T) {
	fsys := newSideDir(t)
	f, err := fsys.OpenFile(sideDir+"/x", 0x42, 0o644)
	sideMust(t, err)
	sideMust(t, f.Truncate(sideFileBytesMax+1))
	if _, err := readOffsetCheckpoint(fsys, sideDir+"/x"); !isCorruptError(err) {
		t.Fatal(err)
	}
}

func TestOffsetCheckpointCrash(t *testing.T) {
	path := sideDir + "/" + logStartFileName
	put := func(n int64) func(vfs.FS) error {
		return func(fsys vfs.FS) error {
			return writeOffsetCheckpoint(fsys, path, map[TopicPartition]int64{{"t", 0}: n})
		}
	}
	atEveryCrash(t, put(1), put(2), func(after vfs.FS, done bool) {
		m, err := readOffsetCheckpoint(after, path)
		if got := m[TopicPartition{"t", 0}]; err != nil || got != 2 && (done || got != 1) {
			t.Fatalf("done %v: %v, %v", done, m, err)
		}
	})
}

func TestTopicID(t *testing.T) {
	fsys := newSideDir(t)
	if id, err := readTopicID(fsys, sideDir); id != ([16]byte{}) || err != nil {
		t.Fatalf("missing file: %v, %v", id, err)
	}
	want := [16]byte{1, 2, 3, 15: 255}
	sideMust(t, writeTopicID(fsys, sideDir, want))
	if got := sideRead(t, fsys, partitionMetadataFileName); got != "version: 0\ntopic_id: AQIDAAAAAAAAAAAAAAAA_w" {
		t.Fatalf("wrote %q", got)
	}
	id, err := readTopicID(fsys, sideDir)
	if id != want || err != nil {
		t.Fatalf("got %v, %v", id, err)
	}
	data := kafkaFile(t, partitionMetadataFileName)
	id, err = parseTopicID("f", data)
	sideMust(t, err)
	if string(formatTopicID(id)) != string(data) {
		t.Fatalf("Kafka writes %q, leat %q", data, formatTopicID(id))
	}
}

func TestTopicIDNonsense(t *testing.T) {
	for _, data := range []string{
		"", "version: 0\ntopic_id: ", "version: 1\ntopic_id: AQIDAAAAAAAAAAAAAAAA_w", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
		"version: 0\ntopic_id: AQIDAAAAAAAAAAAAAAAA_w==", "version: 0\ntopic_id: AQIDAAAAAAAAAAAAAAAA/w", "version: 0\ntopic_id: AQIDAAAAAAAAAAAAAAAA_",
		"version: 0\ntopic_id: AQIDAAAAAAAAAAAAAAA\n_w", "version: 0\ntopic_id: AQIDAAAAAAAAAAAAAAAA_x",
	} {
		if id, err := parseTopicID("f", []byte(data)); !isCorruptError(err) || id != ([16]byte{}) {
			t.Errorf("%q: %v, %v", data, id, err)
		}
	}
	damaged(formatTopicID([16]byte{9, 8, 7}), func(bad []byte) {
		if id, err := parseTopicID("f", bad); err == nil && string(formatTopicID(id)) != string(bad) {
			t.Errorf("%q was read", bad)
		}
	})
}
