package record

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The files in testdata are what Kafka 4.4.0 stored after a client had sent it fixtureLine(0), fixtureLine(1)... with each codec:
// the Java client of that version (headers source=java, n=1) and librdkafka 2.0.2 (headers source=librdkafka and an empty one).
const fixtureLines = 200

func fixtureLine(i int) (key, value string) {
	return fmt.Sprintf("key-%d", i), fmt.Sprintf("value %d ", i) + strings.Repeat("the quick brown fox jumps over the lazy dog ", 1+i%4)
}

func fixtures(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.bin")
	if err != nil || len(files) != 10 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	return files
}

func readFixture(t testing.TB, name string) []byte {
	t.Helper()
	p, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFixtures(t *testing.T) {
	for _, file := range fixtures(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			client, codec, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".bin"), "-")
			i := 0
			end, err := Walk(readFixture(t, file), func(pos int, b Batch) error {
				if b.Codec().String() != codec || b.BaseOffset() != int64(i) {
					t.Errorf("batch at %d: codec %s, base offset %d, want %s, %d", pos, b.Codec(), b.BaseOffset(), codec, i)
				}
				checkRevalidated(t, b)
				return b.Records(func(r *Record) error {
					checkFixtureRecord(t, client, i, r)
					i++
					return nil
				})
			})
			if err != nil || i != fixtureLines {
				t.Errorf("%d records, %d bytes, %v", i, end, err)
			}
		})
	}
}

func checkFixtureRecord(t *testing.T, client string, i int, r *Record) {
	t.Helper()
	key, value := fixtureLine(i)
	if string(r.Key) != key || string(r.Value) != value {
		t.Errorf("record %d is %q=%q, want %q=%q", i, r.Key, r.Value, key, value)
	}
	want := "source=java n=1 "
	if client == "librdkafka" {
		want = "source=librdkafka empty= "
	}
	var got strings.Builder
	for it := r.Headers(); ; {
		k, v, ok := it.Next()
		if !ok {
			break
		}
		fmt.Fprintf(&got, "%s=%s ", k, v)
	}
	if got.String() != want {
		t.Errorf("record %d has headers %q, want %q", i, got.String(), want)
	}
}

// checkRevalidated takes a batch back to what the client sent: validation accepts it and changes nothing.
func checkRevalidated(t *testing.T, stored Batch) {
	t.Helper()
	sent := Batch(slices.Clone(stored))
	sent.SetBaseOffset(0)
	sent.SetPartitionLeaderEpoch(-1)
	want := slices.Clone(sent)
	r := defaultRules()
	got, err := new(Validator).Validate(sent, &r, stored.MaxTimestamp())
	if err != nil || !bytes.Equal(got.Batch, want) {
		t.Errorf("validation: %v, changed: %v", err, !bytes.Equal(got.Batch, want))
	}
}
