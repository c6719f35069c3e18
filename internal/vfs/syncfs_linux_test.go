package vfs

import (
	"errors"
	"io/fs"
	"os"
	"testing"
)

func TestSyncFilesystem(t *testing.T) {
	d, err := OS.OpenFile(t.TempDir(), os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := d.(FilesystemSyncer)
	if err := s.SyncFilesystem(); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if err := s.SyncFilesystem(); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("after close: %v", err)
	}
}

func TestMeminfo(t *testing.T) {
	if n, known := OS.(DirtyMeter).DirtyBytes(); !known || n < 0 {
		t.Errorf("the machine's dirty bytes: %d %v", n, known)
	}
	const text = "MemTotal: 1 kB\nDirty:             12 kB\nWriteback:    x kB\nWritebackTmp: 3 kB\n"
	for _, test := range []struct {
		name string
		n    int64
		ok   bool
	}{{"Dirty:", 12 << 10, true}, {"Writeback:", 0, false}, {"Bounce:", 0, false}} {
		if n, ok := meminfo([]byte(text), test.name); ok != test.ok || ok && n != test.n {
			t.Errorf("%s %d %v", test.name, n, ok)
		}
	}
}
