package segment

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// TestKafkaFiles: testdata/kafka-4.4 is the start of a segment written by an Apache Kafka 4.4.0 broker with its defaults. From the data file alone we
// make the same index files, by appending, recovering and rebuilding, and its own files are good as they are.
func TestKafkaFiles(t *testing.T) {
	const base = 24626
	golden := func(suffix string) []byte {
		return value[[]byte](t)(os.ReadFile(filepath.Join("testdata", "kafka-4.4", FileName(base, suffix))))
	}
	log := golden(LogSuffix)
	options := func() *Options {
		return &Options{FS: testMem(t, 1), MaxBytes: 1 << 30, IndexIntervalBytes: 4096, IndexMaxBytes: 10 << 20}
	}
	put := func(o *Options, suffixes ...string) {
		for _, suffix := range suffixes {
			must(t, vfs.WriteFileAtomic(o.FS, filepath.Join(testDir, FileName(base, suffix)), golden(suffix)))
		}
	}
	same := func(how string, s *Segment) {
		t.Helper()
		must(t, s.Load())
		if s.Size() != int64(len(log)) {
			t.Errorf("%s: %d bytes, want %d", how, s.Size(), len(log))
		}
		for _, suffix := range []string{IndexSuffix, TimeIndexSuffix} {
			got := value[[]byte](t)(vfs.ReadFile(s.o.FS, s.path(suffix), 1<<24))
			want := golden(suffix)
			// Sealing adds the largest timestamp, which Kafka's segment went on without.
			if !bytes.HasPrefix(got, want) || len(got) > len(want)+12 {
				t.Errorf("%s: %s is not Kafka's", how, suffix)
			}
		}
		checkFiles(t, s.o.FS, testDir, base)
		checkLookups(t, s, contents(t, s))
	}

	o := options()
	put(o, suffixes[:3]...)
	same("as it is", value[*Segment](t)(Open(testDir, base, o, true)))

	o = options()
	put(o, LogSuffix)
	same("rebuilt", value[*Segment](t)(Open(testDir, base, o, true)))

	o = options()
	put(o, LogSuffix)
	recovered := value[*Segment](t)(Open(testDir, base, o, false))
	value[RecoverResult](t)(recovered.Recover(0, nil))
	batches := contents(t, recovered)
	must(t, recovered.Seal(1))
	same("recovered", recovered)

	appended := value[*Segment](t)(Create(testDir, base, options()))
	appendBatches(t, appended, batches[:3]...)
	appendBatches(t, appended, batches[3:]...)
	must(t, appended.Seal(1))
	same("appended", appended)
}
