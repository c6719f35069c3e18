package realdata

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/leatmq/leat/interop/harness"
)

// How many files one JVM looks at: command lines have a limit, and so has the time of one run. Deep iteration prints a line a record.
const (
	filesPerRun = 40
	logsPerRun  = 8
)

// complaint matches what DumpLogSegments prints when it does not like something.
var complaint = regexp.MustCompile(`(?i)isvalid: false|mismatch|non-consecutive|corrupt|invalid|exception|could not|found timestamp|out of order|error|sanity check failed`)

// payloadLine is a line about a record or a batch: words in its printed content are no complaints. Only --print-data-log
// prints content, which this suite does not ask for.
var payloadLine = regexp.MustCompile(`isvalid: true`)

// inspect fails the test for every complaint about a stopped broker's files.
func inspect(t *testing.T, dir string) {
	t.Helper()
	for _, c := range complaints(t, dir) {
		t.Error(c)
	}
}

// complaints lets Kafka's DumpLogSegments read every log, index, snapshot and transaction index of a stopped broker's data
// directory: deep iteration over the logs, sanity check and comparison with the log for the indexes. It returns what the
// tool said against them.
func complaints(t *testing.T, dir string) []string {
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
	out := dump(t, logs, logsPerRun, "--deep-iteration")
	out = append(out, dump(t, indexes, filesPerRun)...)
	var offsetIndexes []string
	for _, f := range indexes {
		if filepath.Ext(f) == ".index" {
			offsetIndexes = append(offsetIndexes, f)
		}
	}
	return append(out, dump(t, offsetIndexes, filesPerRun, "--index-sanity-check")...)
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

// dump runs DumpLogSegments over the files, some at a time. A run that ends with an error is a complaint too.
func dump(t *testing.T, files []string, atATime int, args ...string) (out []string) {
	t.Helper()
	for chunk := range slices.Chunk(files, atATime) {
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := harness.ToolTo(limit, w, "org.apache.kafka.tools.DumpLogSegments", append(slices.Clone(args), "--files", strings.Join(chunk, ","))...)
			w.CloseWithError(err)
			done <- err
		}()
		found, dumped := scan(r)
		out = append(out, found...)
		if err := <-done; err != nil {
			out = append(out, err.Error())
		} else if dumped != len(chunk) && !slices.Contains(args, "--index-sanity-check") {
			out = append(out, fmt.Sprintf("%d files were dumped, want %d", dumped, len(chunk)))
		}
	}
	return out
}

// scan returns the complaints in a dump, at most ten, and the number of files that it names.
func scan(r io.Reader) (out []string, dumped int) {
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 8<<20)
	file := ""
	for sc.Scan() {
		line := sc.Text()
		if strings.HasPrefix(line, "Dumping ") {
			file = line
			dumped++
		}
		if payloadLine.MatchString(line) || !complaint.MatchString(line) {
			continue
		}
		if len(out) < 10 {
			out = append(out, file+": "+line)
		}
	}
	io.Copy(io.Discard, r)
	return out, dumped
}

// TestInspectComplains shows that the inspection sees damage: one flipped byte in a log, one in an index.
func TestInspectComplains(t *testing.T) {
	harness.Need(t, "java", "mvn", "bash")
	if !slices.Contains(harness.Kinds(), harness.LeatKind) {
		t.Skip("LEAT_INTEROP_PEERS leaves leat out")
	}
	p := harness.StartLeat(t)
	topic := newTopic(t, p, "damaged")
	franzProduce(t, p, topic, makeInput(t, 1), nil, kgo.ProducerBatchMaxBytes(2000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(p.DataDir(), topic+"-0")
	if c := complaints(t, dir); len(c) > 0 {
		t.Fatalf("complaints about sound files: %q", c)
	}
	for _, name := range []string{"00000000000000000000.index", "00000000000000000000.log"} {
		flip(t, filepath.Join(dir, name), 7)
		if len(complaints(t, dir)) == 0 {
			t.Errorf("no complaint about a damaged %s", name)
		}
		flip(t, filepath.Join(dir, name), 7)
	}
}

// flip inverts the lowest bit of one byte in the middle of a file, counted from an 8-byte boundary.
func flip(t *testing.T, name string, n int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) < 64 {
		t.Fatalf("%s has only %d bytes", name, len(b))
	}
	b[len(b)/16*8+n] ^= 1
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
