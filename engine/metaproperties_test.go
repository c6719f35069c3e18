package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

func mustBeMeta(t *testing.T, err error, kind MetaKind, words ...string) {
	t.Helper()
	var meta *MetaPropertiesError
	if !errors.As(err, &meta) || meta.Kind != kind {
		t.Fatalf("got %v, want kind %d", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("%q does not say %q", err, w)
		}
	}
}

func TestMetaPropertiesRoundTrip(t *testing.T) {
	fsys := newSideDir(t)
	if m, err := readMetaProperties(fsys, sideDir); m != nil || err != nil {
		t.Fatalf("missing file: %v, %v", m, err)
	}
	want := metaProperties{ClusterID: "4wuV0cxJS_KEbX0RbFA9ZQ", NodeID: 7, DirectoryID: [16]byte{1, 15: 2}}
	sideMust(t, writeMetaProperties(fsys, sideDir, &want))
	if got := sideRead(t, fsys, metaPropertiesFileName); got != "directory.id=AQAAAAAAAAAAAAAAAAAAAg\nversion=1\ncluster.id=4wuV0cxJS_KEbX0RbFA9ZQ\nnode.id=7\n" {
		t.Fatalf("wrote %q", got)
	}
	got, err := readMetaProperties(fsys, sideDir)
	if err != nil || *got != want {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, id := range []string{"a", " leading", "a=b:c#!", `back\slash`, "new\nline", "ümlaut", "\t\r\f", "trailing "} {
		want := metaProperties{ClusterID: id}
		got, err := parseMetaProperties("f", formatMetaProperties(&want))
		if err != nil || *got != want {
			t.Errorf("%q: got %+v, %v", id, got, err)
		}
	}
}

func TestMetaPropertiesOfKafka(t *testing.T) {
	m, err := parseMetaProperties("f", kafkaFile(t, metaPropertiesFileName))
	sideMust(t, err)
	if m.ClusterID != "4wuV0cxJS_KEbX0RbFA9ZQ" || m.NodeID != 1 || formatUUID(m.DirectoryID) != "t3k8YvEw5GizHApzhW7sUQ" {
		t.Fatalf("got %+v", m)
	}
}

func TestMetaPropertiesVariants(t *testing.T) {
	want := metaProperties{ClusterID: "abc", NodeID: 3}
	for _, text := range []string{
		"version=0\nbroker.id=3\ncluster.id=abc\n",
		"version=1\nnode.id=3\ncluster.id=abc",
		"\r\n# comment\r\n! comment\r\n  version : 1\r\nnode.id 3\r\ncluster.id = abc\r\nother=x\r\n",
		"version=1\nnode.id=3\nclus\\\n   ter.id=a\\u0062c\n",
		"version=1\nnode.id=4\nnode.id=3\ncluster.id:abc",
	} {
		m, err := parseMetaProperties("f", []byte(text))
		if err != nil || *m != want {
			t.Errorf("%q: got %+v, %v", text, m, err)
		}
	}
}

func TestMetaPropertiesNonsense(t *testing.T) {
	for text, word := range map[string]string{
		"":                                                   "no version",
		"version=1\ncluster.id=a\n":                          "node.id",
		"version=1\nnode.id=1\n":                             "no cluster.id",
		"version=1\nnode.id=x\ncluster.id=a":                 "node.id \"x\"",
		"version=1\nnode.id=-1\ncluster.id=a":                "node.id",
		"version=1\nbroker.id=1\ncluster.id=a":               "node.id",
		"version=0\nnode.id=1\ncluster.id=a":                 "broker.id",
		"version=x\nnode.id=1\ncluster.id=a":                 "version \"x\"",
		"version=-1\nnode.id=1\ncluster.id=a":                "version",
		"version=1\nnode.id=1\ncluster.id=\\u00":             "is not name=value",
		"version=1\nnode.id=1\ncluster.id=\\uzzzz":           "is not name=value",
		"version=1\nnode.id=1\ncluster.id=a\ndirectory.id=b": "directory.id \"b\"",
		"\x00\xff\xfe":                                       "not a text file",
		strings.Repeat("\x00", 100):                          "no version",
	} {
		m, err := parseMetaProperties("dir/meta.properties", []byte(text))
		if m != nil {
			t.Errorf("%q: got %+v", text, m)
		}
		mustBeMeta(t, err, MetaUnreadable, word, "dir/meta.properties", "restore")
	}
	_, err := parseMetaProperties("f", []byte("version=2\nsomething=new\n"))
	mustBeMeta(t, err, MetaNewerVersion, "version 2", "use the program version")

	f := vfs.NewFault(newSideDir(t))
	sideMust(t, writeMetaProperties(f, sideDir, &metaProperties{ClusterID: "a"}))
	f.Inject(vfs.Injection{Match: vfs.OfKind(vfs.OpRead), Err: vfs.ErrDiskBroken})
	_, err = readMetaProperties(f, sideDir)
	mustBeMeta(t, err, MetaUnreadable, "check the disk")
	if !errors.Is(err, vfs.ErrDiskBroken) {
		t.Error("the cause is lost")
	}
}

func TestMetaPropertiesCheck(t *testing.T) {
	m := &metaProperties{ClusterID: "mine", NodeID: 3}
	sideMust(t, m.check("d", "mine", 3))
	sideMust(t, m.check("d", "", -1))
	mustBeMeta(t, m.check("d", "other", 3), MetaForeignCluster, "cluster mine", "cluster other", "log.dirs")
	mustBeMeta(t, m.check("d", "mine", 4), MetaForeignNode, "node.id=3")
	mustBeMeta(t, m.check("d", "", 0), MetaForeignNode)
}

func TestMetaPropertiesCrash(t *testing.T) {
	put := func(node int32) func(vfs.FS) error {
		return func(fsys vfs.FS) error {
			return writeMetaProperties(fsys, sideDir, &metaProperties{ClusterID: "a", NodeID: node})
		}
	}
	atEveryCrash(t, put(1), put(2), func(after vfs.FS, done bool) {
		m, err := readMetaProperties(after, sideDir)
		if err != nil || m == nil || done && m.NodeID != 2 {
			t.Fatalf("done %v: %+v, %v", done, m, err)
		}
	})
}

func TestMetaPropertiesDamaged(t *testing.T) {
	damaged(kafkaFile(t, metaPropertiesFileName), func(bad []byte) {
		m, err := parseMetaProperties("f", bad)
		if (m == nil) == (err == nil) {
			t.Errorf("%q: %+v, %v", bad, m, err)
		}
	})
}
