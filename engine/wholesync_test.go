package engine

import (
	"fmt"
	"testing"

	"github.com/leatmq/leat/internal/vfs"
)

// sharedFS is a file system that is not the log's alone, on a machine with so many dirty bytes.
type sharedFS struct {
	*vfs.Fault
	dirty int64
	known bool
}

func (*sharedFS) OwnFS(string) bool           { return false }
func (s *sharedFS) DirtyBytes() (int64, bool) { return s.dirty, s.known }

// A shared file system is synced as a whole only while others have little to write.
func TestSyncOfSharedFileSystem(t *testing.T) {
	for _, test := range []struct {
		dirty int64
		known bool
		whole bool
	}{{0, true, true}, {foreignDirtyMax, true, true}, {foreignDirtyMax + 1, true, false}, {0, false, false}} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			fsys := &sharedFS{Fault: vfs.NewFault(vfs.NewMem(1)), dirty: test.dirty, known: test.known}
			f := newFixture(t, fsys)
			f.open()
			w := wholeSync{d: f.e.dirs[0]}
			if got := w.harmless(); got != test.whole {
				t.Errorf("harmless: %v", got)
			}
		})
	}
}

// One look counts for a while.
func TestDirtyLook(t *testing.T) {
	fsys := &sharedFS{Fault: vfs.NewFault(vfs.NewMem(1)), known: true}
	f := newFixture(t, fsys)
	f.open()
	w := wholeSync{d: f.e.dirs[0]}
	if !w.harmless() {
		t.Fatal("nothing is dirty")
	}
	fsys.dirty = 1 << 40
	if !w.harmless() {
		t.Error("looked again at once")
	}
	f.clock.advance(dirtyLookMs)
	if w.harmless() {
		t.Error("did not look again")
	}
	fsys.dirty = 0
	f.clock.advance(-1000)
	if !w.harmless() {
		t.Error("a clock that was set back stops it from looking")
	}
}
