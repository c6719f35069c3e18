package realdata

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	partitions   = 8
	fullSizeMB   = 100     // at this size and above the console consumer reads every partition of every topic
	maxFileBytes = 2 << 20 // of one source file
)

// input is the real text: per partition the lines of whole source files, each line one record, in the form in which
// kcat reads and the console consumer prints them: key, tab, value, newline.
type input struct {
	parts [partitions][]byte
	count [partitions]int // records
	files [partitions]string
	bytes int
}

// sizeMB is the wanted size of the input: LEAT_INTEROP_SIZE, or 10 under -short, or the full size.
func sizeMB(t *testing.T) int {
	if v := os.Getenv("LEAT_INTEROP_SIZE"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			t.Fatalf("LEAT_INTEROP_SIZE=%s: want a number of MB", v)
		}
		return n
	}
	if testing.Short() {
		return 10
	}
	return fullSizeMB
}

// makeInput collects text from the Go tree, the module cache and, where those are not enough, Debian's package lists.
func makeInput(t *testing.T, megabytes int) *input {
	t.Helper()
	in := &input{}
	want := megabytes << 20
	n := 0
	for _, root := range roots(t) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || in.bytes >= want {
				return fs.SkipAll
			}
			if !d.Type().IsRegular() || !isText(path) {
				return nil
			}
			if info, err := d.Info(); err != nil || info.Size() > maxFileBytes {
				return nil
			}
			rel, _ := filepath.Rel(root, path)
			in.add(t, n%partitions, rel, path)
			n++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if in.bytes < want {
		t.Fatalf("this machine has only %d bytes of text", in.bytes)
	}
	dir := t.TempDir()
	for p := range in.parts {
		in.files[p] = filepath.Join(dir, fmt.Sprint(p))
		if err := os.WriteFile(in.files[p], in.parts[p], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

func roots(t *testing.T) []string {
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(out))
	return append(dirs, "/var/lib/apt/lists", "/usr/share")
}

func isText(path string) bool {
	switch filepath.Ext(path) {
	case ".go", ".s", ".md", ".txt", ".c", ".h", ".json", ".yaml", ".html", ".js", ".py", "":
		return true
	}
	return strings.HasSuffix(path, "_Packages")
}

// add appends the lines of a file; binary ones (a NUL byte in the first block) are left out.
func (in *input) add(t *testing.T, p int, name, path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return
	}
	name = strings.ReplaceAll(name, "\t", " ")
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, maxFileBytes+1)
	for line := 1; sc.Scan(); line++ {
		before := len(in.parts[p])
		in.parts[p] = fmt.Appendf(in.parts[p], "%s:%d\t%s\n", name, line, sc.Bytes())
		in.count[p]++
		in.bytes += len(in.parts[p]) - before
	}
}

// fileFrom writes the records of a partition from the n-th on to a file.
func (in *input) fileFrom(t *testing.T, p, n int) string {
	t.Helper()
	rest := in.parts[p]
	for range n {
		_, _, rest = nextRecord(rest)
	}
	name := filepath.Join(t.TempDir(), fmt.Sprint(p))
	if err := os.WriteFile(name, rest, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// records is the number of records over all partitions.
func (in *input) records() int {
	n := 0
	for _, c := range in.count {
		n += c
	}
	return n
}

// each calls fn for every record of a partition.
func (in *input) each(p int, fn func(key, value []byte)) {
	for rest := in.parts[p]; len(rest) > 0; {
		var key, value []byte
		key, value, rest = nextRecord(rest)
		fn(key, value)
	}
}

func nextRecord(b []byte) (key, value, rest []byte) {
	line, rest, _ := bytes.Cut(b, []byte("\n"))
	key, value, _ = bytes.Cut(line, []byte("\t"))
	return key, value, rest
}

// checker compares records with a partition of the input as they come.
type checker struct {
	in   *input
	rest [partitions][]byte
	n    [partitions]int
}

func newChecker(in *input) *checker {
	c := &checker{in: in}
	c.rest = in.parts
	return c
}

// next checks one record; it must be the one that follows in its partition.
func (c *checker) next(p int32, key, value []byte) error {
	if len(c.rest[p]) == 0 {
		return fmt.Errorf("partition %d: record %d (%.80q) behind the last one", p, c.n[p], key)
	}
	k, v, rest := nextRecord(c.rest[p])
	if !bytes.Equal(k, key) || !bytes.Equal(v, value) {
		return fmt.Errorf("partition %d, record %d: %.80q %.80q, want %.80q %.80q", p, c.n[p], key, value, k, v)
	}
	c.rest[p] = rest
	c.n[p]++
	return nil
}
