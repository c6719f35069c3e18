package engine

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// names lists a directory of the fixture.
func (f *fixture) names(dir string) []string {
	f.t.Helper()
	entries, err := f.fs.ReadDir(dir)
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func (f *fixture) mkdir(path string) {
	f.t.Helper()
	if err := f.fs.MkdirAll(path, 0o755); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) file(path, text string) {
	f.t.Helper()
	f.mkdir(filepath.Dir(path))
	if err := vfs.WriteFileAtomic(f.fs, path, []byte(text)); err != nil {
		f.t.Fatal(err)
	}
}

// mustRefuse opens the engine, which must fail with a MetaPropertiesError that says all the words.
func (f *fixture) mustRefuse(words ...string) {
	f.t.Helper()
	_, err := f.tryOpen()
	var meta *MetaPropertiesError
	if !errors.As(err, &meta) || meta.Kind != MetaMissing {
		f.t.Fatalf("open: %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			f.t.Errorf("the error does not say %q: %v", w, err)
		}
	}
}

// A directory that has partitions and no meta.properties is not begun anew: nobody may guess whose data it is.
func TestOpenWithoutMetaProperties(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.open()
	f.mustAppend(f.log("t", nil), batchOf(testStartMs, 3, 100))
	id := f.e.ClusterID()
	f.close()
	path := filepath.Join("/data", metaPropertiesFileName)
	meta, err := vfs.ReadFile(f.fs, path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.fs.Remove(path); err != nil {
		t.Fatal(err)
	}
	before := f.names("/data")
	f.mustRefuse("/data/meta.properties", "t-0", "restore it", "version=1", "cluster.id=", "node.id=1", "--data-dir")
	if after := f.names("/data"); !slices.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
	f.file(path, string(meta))
	f.open()
	if f.e.ClusterID() != id || f.log("t", nil).EndOffset() != 3 {
		t.Errorf("restored: cluster %s, was %s; log end %d", f.e.ClusterID(), id, f.log("t", nil).EndOffset())
	}
}

// What another log directory of the broker knows is in the message, and following it by hand is enough.
func TestOpenWithoutOneMetaProperties(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.dirs = []string{"/a", "/b"}
	f.open()
	f.log("t", nil)
	f.log("u", nil)
	id := f.e.ClusterID()
	f.close()
	path := filepath.Join("/b", metaPropertiesFileName)
	if err := f.fs.Remove(path); err != nil {
		t.Fatal(err)
	}
	f.mustRefuse(path, "cluster.id="+id, "node.id=1")
	f.dirs = []string{"/b", "/a"}
	f.mustRefuse(path, "cluster.id="+id, "node.id=1")
	f.file(path, "version=1\ncluster.id="+id+"\nnode.id=1\n")
	f.open()
	if got := len(f.e.Logs()); got != 2 {
		t.Errorf("%d logs", got)
	}
}

// A directory that is somebody else's is left exactly as it was.
func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	for _, name := range []string{"foo-0", "__cluster_metadata-0", "t-1." + strings.Repeat("0", 32) + "-delete", "t-1." + strings.Repeat("0", 32) + "-stray"} {
		f := newFixture(t, vfs.NewMem(1))
		f.file("/data/"+name+"/letter.txt", "dear reader")
		f.mustRefuse(name)
		if got := f.names("/data"); !slices.Equal(got, []string{name}) {
			t.Errorf("%s: now there is %v", name, got)
		}
		if got := f.names("/data/" + name); !slices.Equal(got, []string{"letter.txt"}) {
			t.Errorf("%s: now there is %v in it", name, got)
		}
	}
}

// Also when a second directory is the reason: the first one, new, gets no identity, and a lock file that was there stays.
func TestForeignSecondDirectory(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.dirs = []string{"/new", "/foreign"}
	f.mkdir("/new")
	f.file("/foreign/foo-0/letter.txt", "dear reader")
	f.file("/foreign/.lock", "pid 1 somewhere\n")
	f.mustRefuse("/foreign/meta.properties", "foo-0")
	if got := f.names("/new"); len(got) != 0 {
		t.Errorf("now there is %v", got)
	}
	if got := f.names("/foreign"); !slices.Equal(got, []string{".lock", "foo-0"}) {
		t.Errorf("now there is %v", got)
	}
}

// A fresh file system is not quite empty.
func TestOpenAlmostEmptyDirectory(t *testing.T) {
	f := newFixture(t, vfs.NewMem(1))
	f.mkdir("/data/lost+found")
	f.file("/data/.DS_Store", "x")
	f.file("/data/.snapshot/a-0/x", "x")
	f.open()
	f.restart()
}

func TestDataDirIsAFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "afile")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		f := newFixture(t, vfs.OS)
		f.dirs = []string{path}
		if _, err := f.tryOpen(); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "choose another one with --data-dir") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestDataDirIsInUse(t *testing.T) {
	f := newFixture(t, vfs.OS)
	f.dirs = []string{t.TempDir()}
	f.open()
	_, err := f.tryOpen()
	for _, word := range []string{f.dirs[0] + " is in use", "held by pid ", " on ", "stop that process", "--data-dir"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not in %v", word, err)
		}
	}
}
