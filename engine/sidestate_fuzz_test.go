package engine

import (
	"errors"
	"maps"
	"slices"
	"testing"
)

// Whatever a text side file holds: an error of the file's type, or something that is read back the same once written.
func FuzzSideFiles(f *testing.F) {
	for _, name := range []string{recoveryPointFileName, leaderEpochFileName, partitionMetadataFileName, metaPropertiesFileName} {
		f.Add(kafkaFile(f, name))
	}
	f.Add([]byte("0\n2\nt 0 1\nt 1 9223372036854775807\n"))
	f.Add([]byte("0\n2\n0 0\n5 17\n"))
	f.Add([]byte("version=0\nbroker.id=1\ncluster.id=\\u0041\\\n b"))
	f.Add(formatCleanMarker(3))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := parseOffsetCheckpoint("f", data); err != nil {
			mustBeCorrupt(t, err)
		} else if again, err := parseOffsetCheckpoint("f", formatOffsetCheckpoint(m)); err != nil || !maps.Equal(again, m) {
			t.Fatalf("checkpoint %v became %v, %v", m, again, err)
		}
		if list, err := parseEpochs("f", data); err != nil {
			mustBeCorrupt(t, err)
		} else if again, err := parseEpochs("f", formatEpochs(list)); err != nil || !slices.Equal(again, list) {
			t.Fatalf("epochs %v became %v, %v", list, again, err)
		}
		if id, err := parseTopicID("f", data); err != nil {
			mustBeCorrupt(t, err)
		} else if again, err := parseTopicID("f", formatTopicID(id)); err != nil || again != id {
			t.Fatalf("id %v became %v, %v", id, again, err)
		}
		var metaErr *MetaPropertiesError
		if m, err := parseMetaProperties("f", data); err != nil {
			if !errors.As(err, &metaErr) {
				t.Fatal(err)
			}
		} else if again, err := parseMetaProperties("f", formatMetaProperties(m)); err != nil || *again != *m {
			t.Fatalf("properties %+v became %+v, %v", m, again, err)
		}
		if epoch, ok := parseCleanMarker(data); ok {
			if again, ok := parseCleanMarker(formatCleanMarker(epoch)); !ok || again != epoch {
				t.Fatalf("epoch %d became %d, %v", epoch, again, ok)
			}
		}
		if tp, ok := parsePartitionDirName(string(data)); ok && partitionDirName(tp) != string(data) {
			t.Fatalf("directory %q became %q", data, partitionDirName(tp))
		}
		if offset, ok := parseBaseOffset(string(data), logSuffix); ok && logFileName(offset) != string(data) {
			t.Fatalf("file %q became %q", data, logFileName(offset))
		}
		isDeletedDirName(string(data))
	})
}

func mustBeCorrupt(t *testing.T, err error) {
	t.Helper()
	if !isCorruptError(err) {
		t.Fatal(err)
	}
}
