package realdata

import (
	"bufio"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/leatmq/leat/interop/harness"
)

// filesPerRun bounds how many files one JVM looks at: command lines have a limit.
const filesPerRun = 200

// complaint matches what DumpLogSegments prints when it does not like something.
var complaint = regexp.MustCompile(`(?i)isvalid: false|mismatch|non-consecutive|corrupt|invalid|exception|could not|found timestamp|out of order|error|sanity check failed`)

// payloadLine is a line about a record or a batch: words in its printed content are no complaints. Only --print-data-log
// prints content, which this suite does not ask for.
var payloadLine = regexp.MustCompile(`isvalid: true`)

// inspect lets Kafka's DumpLogSegments read every log, index, snapshot and transaction index of a stopped broker's data
// directory: deep iteration over the logs, sanity check and comparison with the log for the indexes.
func inspect(t *testing.T, dir string) {
	t.Helper()
	files := dataFiles(t, dir)
	t.Logf("%d files to look at", len(files))
	var logs, indexes []string
	for _, f := range files {
		if filepath.Ext(f) == ".log" {
			logs = append(logs, f)
		} else {
			indexes = append(indexes, f)
		}
	}
	if len(logs) == 0 {
		t.Fatalf("no logs in %s", dir)
	}
	dump(t, logs, "--deep-iteration")
	dump(t, indexes)
	var offsetIndexes []string
	for _, f := range indexes {
		if filepath.Ext(f) == ".index" {
			offsetIndexes = append(offsetIndexes, f)
		}
	}
	dump(t, offsetIndexes, "--index-sanity-check")
}

// dataFiles lists the segment files below a directory. The metadata log is left out: its format is each broker's own.
func dataFiles(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), "__cluster_metadata") || strings.HasSuffix(d.Name(), "-delete")) {
			return filepath.SkipDir
		}
		if slices.Contains([]string{".log", ".index", ".timeindex", ".snapshot", ".txnindex"}, filepath.Ext(path)) {
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// dump runs DumpLogSegments over the files and fails the test for each complaint.
func dump(t *testing.T, files []string, args ...string) {
	t.Helper()
	for chunk := range slices.Chunk(files, filesPerRun) {
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := harness.ToolTo(limit, w, "org.apache.kafka.tools.DumpLogSegments", append(slices.Clone(args), "--files", strings.Join(chunk, ","))...)
			w.CloseWithError(err)
			done <- err
		}()
		scan(t, r)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

func scan(t *testing.T, r io.Reader) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 8<<20)
	file, complaints := "", 0
	for sc.Scan() {
		line := sc.Text()
		if strings.HasPrefix(line, "Dumping ") {
			file = line
		}
		if payloadLine.MatchString(line) || !complaint.MatchString(line) {
			continue
		}
		if complaints++; complaints <= 10 {
			t.Errorf("%s: %s", file, line)
		}
	}
	if err := sc.Err(); err != nil && err != io.EOF {
		t.Errorf("reading the dump: %v", err)
	}
	io.Copy(io.Discard, r)
}
