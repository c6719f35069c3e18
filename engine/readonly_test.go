package engine

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// readOnly makes everything below dir unchangeable, as a file system does that is mounted so.
func readOnly(fault *vfs.Fault, dir string) {
	fault.Inject(vfs.Injection{Err: syscall.EROFS, Match: func(op vfs.Op) bool {
		return vfs.Mutating(op) && op.Kind != vfs.OpMkdirAll && (op.Name == dir || strings.HasPrefix(op.Name, dir+"/"))
	}})
}

// A log directory that cannot be written to refuses the start, with a sentence that names it; when there is another one, that one serves, and no partition is begun
// anew in it that may lie in the first. Nothing in the directory changes, and once it can be written to everything is there.
func TestReadOnlyDirectory(t *testing.T) {
	for _, dirs := range [][]string{{"/data"}, {"/data", "/other"}} {
		mem := vfs.NewMem(1)
		f := newFixture(t, mem)
		f.dirs = dirs
		f.open()
		l := f.log("t", nil)
		f.fillFlushed(l, 5)
		if l.Dir() != "/data" {
			t.Fatal(l.Dir())
		}
		f.close()
		fault := vfs.NewFault(mem)
		readOnly(fault, "/data")
		f.fs = fault
		var changes []string
		mem.OnOp = func(op vfs.Op) {
			if strings.HasPrefix(op.Name, "/data") {
				changes = append(changes, op.String())
			}
		}
		e, err := f.tryOpen()
		if len(dirs) == 1 {
			if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "/data") || !strings.Contains(err.Error(), "read-only") {
				t.Errorf("open: %v", err)
			}
		} else {
			if err != nil {
				t.Fatal(err)
			}
			if s := e.Dirs(); !errors.Is(s[0].Err, syscall.EROFS) || s[1].Err != nil {
				t.Errorf("%v, %v", s[0].Err, s[1].Err)
			}
			if _, err := e.Create(l.TP(), testID, topicConfig(t, nil)); !errors.Is(err, ErrStorage) {
				t.Errorf("create: %v", err)
			}
			f.close()
		}
		if len(changes) > 0 {
			t.Errorf("changed: %v", changes)
		}
		mem.OnOp = nil
		f.fs = mem
		f.open()
		l = f.log2("t")
		f.readAll(l, 0, 5)
		f.fillFlushed(l, 1)
		f.close()
	}
}
